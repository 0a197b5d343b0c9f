"""The engine objects of dspy: answers, streams, event loops, usage, errors, state."""

import asyncio
import copy
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import dspy as dspy_package
import pytest
import torch
from dspy import lm15

from sureact.engine import Engine
from sureact.errors import OutputTruncatedError, RequestAbortedError
from sureact.integrations.dspy import (
    AnswerTruncatedError,
    AsyncDspyEngine,
    DspyEngine,
    async_dspy_engine,
    dspy_engine,
    lm,
)
from sureact.isolation.engine_process import EngineProcess
from sureact.sampling_params import SamplingParams

dspy: Any = dspy_package
"""Its types say signature classes where texts are taken too."""

SEARCH = lm15.FunctionTool(
    "search", "", {"type": "object", "properties": {"q": {"enum": ["x", "y"]}}, "required": ["q"]}
)
SUBMIT = lm15.FunctionTool("submit", "", {"type": "object", "properties": {"ok": {"type": "boolean"}}})
MOOD: dict[str, Any] = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "sure": {"type": "boolean"}},
    "required": ["mood", "sure"],
    "additionalProperties": False,
}


def request(engine: Engine, text: str = "Say it.", tools: tuple[Any, ...] = (), **config: Any) -> lm15.Request:
    config = {"max_tokens": 40, **config}
    return lm15.Request(f"sureact/{engine.name}", (lm15.Message.user(text),), tools=tools, config=lm15.Config(**config))


def schema_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "schema": schema}


@pytest.fixture
def front(long_engine: Engine) -> DspyEngine:
    return dspy_engine(long_engine)


@pytest.fixture
def async_front(long_engine: Engine) -> AsyncDspyEngine:
    return async_dspy_engine(long_engine)


def test_an_answer_is_what_the_engine_writes_after_the_chat_template(long_engine: Engine, front: DspyEngine) -> None:
    wanted = long_engine.chat([{"role": "user", "content": "Say it."}], SamplingParams(max_tokens=40))
    response = front.complete(request(long_engine))
    assert response.text == wanted.text
    assert response.finish_reason == "length"
    usage = wanted.completions[0].usage
    assert (response.usage.input_tokens, response.usage.output_tokens) == (usage.prompt_tokens, 40)


def test_an_engine_in_a_process_answers_alike_and_says_that_it_has_no_coroutines(
    long_engine: Engine, long_folder: Path, front: DspyEngine
) -> None:
    with EngineProcess(str(long_folder), quantization="none", dtype="float32", kv_cache_gb=0.05) as engine:
        asked = request(long_engine, response_format=schema_format(MOOD), probabilities="required", logprobs=1)
        there, here = dspy_engine(engine).complete(asked), front.complete(asked)
        assert there.message.parts == here.message.parts
        assert there.logprobs == here.logprobs
        assert there.probabilities == here.probabilities
        asked = request(long_engine)
        assert assembled(asked, list(dspy_engine(engine).stream(asked))).text == front.complete(asked).text
        assert dspy_engine(engine).dump_state() == {"model": engine.name, "options": {}}
        model = lm(engine, max_tokens=30)
        assert len(model("Say it.")) == 1
        with pytest.raises(Exception, match="no async counterpart"):
            asyncio.run(model.acall("Say it."))


def test_a_stop_ends_the_answer(long_engine: Engine, front: DspyEngine) -> None:
    text = front.complete(request(long_engine)).text or ""
    response = front.complete(request(long_engine, stop=(text[5:8],)))
    assert response.finish_reason == "stop"
    assert response.text == text[: text.index(text[5:8])]


def test_a_seed_decides_a_drawn_answer(long_engine: Engine, front: DspyEngine) -> None:
    texts = [front.complete(request(long_engine, temperature=1.0, seed=seed)).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


CASES: list[dict[str, Any]] = [
    {},
    {"response_format": schema_format(MOOD)},
    {"tools": (SEARCH, SUBMIT), "tool_choice": lm15.ToolChoice("required")},
    {"tools": (SEARCH, SUBMIT), "response_format": schema_format(MOOD)},
    {"logprobs": 2},
]


@pytest.mark.parametrize("options", CASES)
def test_a_stream_has_a_start_and_an_end_and_holds_the_whole_answer(
    long_engine: Engine, front: DspyEngine, async_front: AsyncDspyEngine, options: dict[str, Any]
) -> None:
    asked = request(long_engine, **options)
    whole = front.complete(asked)
    events = list(front.stream(asked))
    assert [event.type for event in events] == ["start", *["delta"] * (len(events) - 2), "end"]
    assert len(events) > 2

    async def take() -> tuple[lm15.Response, list[Any]]:
        return await async_front.complete(asked), [event async for event in async_front.stream(asked)]

    async_whole, async_events = asyncio.run(take())
    for streamed in (assembled(asked, events), assembled(asked, async_events), async_whole):
        assert streamed.message.parts == whole.message.parts
        assert streamed.finish_reason == whole.finish_reason
        assert streamed.logprobs == whole.logprobs
        assert streamed.usage.output_tokens == whole.usage.output_tokens


def assembled(asked: lm15.Request, events: list[Any]) -> lm15.Response:
    return lm15.ResponseStream(iter(events), asked).response


def test_a_schema_holds_and_its_prompt_is_read_once(long_engine: Engine, front: DspyEngine) -> None:
    asked = request(long_engine, "x" * 300, response_format=schema_format(MOOD))
    first, second = front.complete(asked), front.complete(asked)
    assert first.data["mood"] in ("good", "bad")
    assert isinstance(first.data["sure"], bool)
    assert first.usage.cache_read_tokens is not None
    assert second.usage.cache_read_tokens is not None
    assert second.usage.cache_read_tokens > max(first.usage.cache_read_tokens, 200)


@pytest.mark.parametrize("allowed", [(), ("submit",), ("search",)])
def test_a_required_call_is_one_of_the_allowed_tools(
    long_engine: Engine, front: DspyEngine, allowed: tuple[str, ...]
) -> None:
    choice = lm15.ToolChoice("required", allowed)
    response = front.complete(request(long_engine, tools=(SEARCH, SUBMIT), tool_choice=choice, max_tokens=80))
    assert response.finish_reason == "tool_call"
    assert response.tool_calls[0].name in (allowed or ("search", "submit"))
    assert response.tool_calls[0].id == "call_0"


def test_no_call_is_made_where_none_is_wanted(long_engine: Engine, front: DspyEngine) -> None:
    response = front.complete(request(long_engine, tools=(SEARCH,), tool_choice=lm15.ToolChoice("none")))
    assert response == front.complete(request(long_engine))


def test_log_probabilities_are_those_of_the_engine(long_engine: Engine, front: DspyEngine) -> None:
    response = front.complete(request(long_engine, logprobs=2))
    wanted = long_engine.chat([{"role": "user", "content": "Say it."}], SamplingParams(max_tokens=40, logprobs=2))
    steps = wanted.completions[0].logprobs
    assert steps is not None
    assert response.logprobs is not None
    assert [(token.token_id, token.logprob) for token in response.logprobs] == [tuple(step.picked) for step in steps]
    assert [len(token.top) for token in response.logprobs] == [2] * len(steps)


def exact_probabilities(folder: Path, prompt: list[int], texts: dict[str, str]) -> dict[str, float]:
    """Return the share of each text, computed with transformers from whole sequences."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    scores: dict[str, float] = {}
    for key, text in texts.items():
        ids = tokenizer.encode(text, add_special_tokens=False)
        with torch.no_grad():
            logits = model(torch.tensor([prompt + ids])).logits[0].log_softmax(-1)
        scores[key] = sum(float(logits[len(prompt) + i - 1, token]) for i, token in enumerate(ids))
    total = sum(map(math.exp, scores.values()))
    return {key: math.exp(score) / total for key, score in scores.items()}


def test_probabilities_are_exact(
    long_engine: Engine, long_folder: Path, front: DspyEngine, async_front: AsyncDspyEngine
) -> None:
    asked = request(long_engine, response_format=schema_format(MOOD), probabilities="required")
    response = front.complete(asked)
    assert response.method == "candidate_sequence_likelihood"
    assert response.probabilities is not None
    mood = response.data["mood"]
    prompt = long_engine.encode(long_engine.render_chat([{"role": "user", "content": "Say it."}]))
    moods = {key: f'{{"mood": "{key}",' for key in ("good", "bad")}
    sures = {key: f'{{"mood": "{mood}", "sure": {key}}}' for key in ("true", "false")}
    assert response.probabilities["mood"] == pytest.approx(exact_probabilities(long_folder, prompt, moods), rel=1e-3)
    assert response.probabilities["sure"] == pytest.approx(exact_probabilities(long_folder, prompt, sures), rel=1e-3)
    assert asyncio.run(async_front.complete(asked)).probabilities == response.probabilities


def test_a_stream_without_probabilities_says_so(long_engine: Engine, front: DspyEngine) -> None:
    asked = request(long_engine, response_format=schema_format(MOOD), probabilities="if_available")
    start = next(iter(front.stream(asked)))
    assert isinstance(start, lm15.StreamStartEvent)
    assert [(item.field, item.action) for item in start.adaptations] == [("config.probabilities", "dropped")]
    required = request(long_engine, response_format=schema_format(MOOD), probabilities="required")
    with pytest.raises(lm15.UnsupportedFeatureError, match="a stream holds no probabilities"):
        list(front.stream(required))


ERRORS: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"text": "x" * 17_000}, lm15.ContextLengthError),
    ({"max_tokens": 17_000}, lm15.ContextLengthError),
    ({"response_format": schema_format({"type": "nonsense"})}, lm15.UnsupportedFeatureError),
    ({"response_format": schema_format({"enum": []})}, lm15.UnsupportedFeatureError),
    ({"extensions": {"min_p": 2}}, lm15.InvalidRequestError),
    ({"stop": ("a",), "response_format": schema_format(MOOD)}, lm15.InvalidRequestError),
    ({"max_tokens": 3, "response_format": schema_format(MOOD)}, AnswerTruncatedError),
]


@pytest.mark.parametrize(("options", "error"), ERRORS)
def test_errors_are_those_of_dspy(
    long_engine: Engine,
    front: DspyEngine,
    async_front: AsyncDspyEngine,
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    asked = request(long_engine, **options)

    async def take_all(events: AsyncIterator[object]) -> None:
        async for _ in events:
            pass

    for attempt in (
        lambda: front.complete(asked),
        lambda: list(front.stream(asked)),
        lambda: asyncio.run(async_front.complete(asked)),
        lambda: asyncio.run(take_all(async_front.stream(asked))),
    ):
        with pytest.raises(error):
            attempt()
    assert long_engine.stats().num_running == 0


def test_another_model_is_refused_by_name(front: DspyEngine) -> None:
    asked = lm15.Request("sureact/other", (lm15.Message.user("hi"),))
    with pytest.raises(lm15.UnsupportedModelError, match="not 'sureact/other'"):
        front.complete(asked)


def test_what_dspy_sees_of_errors_lets_it_truncate_and_go_on(dspy_lm: Any) -> None:
    with pytest.raises(dspy.ContextWindowExceededError):
        dspy_lm("x" * 17_000)
    with pytest.raises(AnswerTruncatedError, match="Raise it") as caught:
        dspy_lm("x", response_format={"type": "json_object"}, max_tokens=1)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, OutputTruncatedError)
    with pytest.raises(dspy.LMUnsupportedFeatureError, match="logit_bias"):
        dspy_lm("x", logit_bias={"1": 1})


def test_closing_a_stream_frees_its_request(long_engine: Engine, front: DspyEngine) -> None:
    events = front.stream(request(long_engine, max_tokens=8000))
    next(events)
    next(events)
    events.close()
    assert long_engine.stats().num_running == 0


def test_closing_a_stream_on_an_event_loop_frees_its_request(long_engine: Engine, async_front: AsyncDspyEngine) -> None:
    async def close() -> None:
        events = async_front.stream(request(long_engine, max_tokens=8000))
        await anext(events)
        await anext(events)
        await events.aclose()
        assert long_engine.stats().num_running == 0

    asyncio.run(close())


def test_cancelling_a_task_frees_its_request(long_engine: Engine, async_front: AsyncDspyEngine) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(async_front.complete(request(long_engine, max_tokens=8000)))
        while long_engine.stats().num_running == 0:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    with long_engine.session() as session:  # waits for the step that runs
        session.append("x")
        session.generate(SamplingParams(max_tokens=1))
    assert long_engine.stats().num_running == 0


def test_state_is_a_name_and_options_and_copies_share_the_engine(long_engine: Engine, front: DspyEngine) -> None:
    assert front.dump_state() == {"model": long_engine.name, "options": {}}
    assert copy.deepcopy(front) is front
    assert copy.copy(front) is front


def test_a_saved_program_finds_its_engine_again(long_folder: Path, tmp_path: Path) -> None:
    options: Any = {"quantization": "none", "dtype": "float32"}
    program = dspy.Predict("question -> answer")
    program.set_lm(lm(str(long_folder), engine_options=options, max_tokens=5))
    program.save(tmp_path / "program.json")
    loaded = dspy.Predict("question -> answer")
    loaded.load(tmp_path / "program.json", allow_unsafe_lm_state=True)
    engine = program.lm.engine.engine
    assert loaded.lm.engine.engine is engine
    loaded.lm.engine.close()
    with pytest.raises(RequestAbortedError):
        engine.generate("x")
    again = DspyEngine.load_state({"model": str(long_folder), "options": options})
    assert again.engine is not engine
    assert isinstance(again.engine, Engine)
    asyncio.run(async_dspy_engine(again.engine).aclose())
    with pytest.raises(RequestAbortedError):
        again.engine.generate("x")


def test_an_engine_that_was_given_stays_open(long_engine: Engine, front: DspyEngine) -> None:
    front.close()
    asyncio.run(async_dspy_engine(long_engine).aclose())
    assert front.complete(request(long_engine)).text
