"""Programs of dspy on the engine: threads, event loops, listeners, truncation, and the real model."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import dspy as dspy_package
import pytest
from dspy.streaming import StatusMessage, StreamListener, StreamResponse, streamify

from sureact.engine import Engine
from sureact.errors import ConfigError
from sureact.integrations.dspy import async_dspy_engine, constrain, dspy_engine, lm

dspy: Any = dspy_package
"""Its types say signature classes where texts are taken too."""

TYPED = 'question -> kind: Literal["a", "b"], sure: bool'


def clock() -> str:
    """Tell the time."""
    return "noon"


def test_the_model_is_what_dspy_asks_capabilities_of(dspy_lm: Any, long_engine: Engine) -> None:
    assert dspy_lm.model == f"sureact/{long_engine.name}"
    assert dspy_lm.supports_function_calling
    assert dspy_lm.supports_response_schema
    assert not dspy_lm.supports_reasoning
    assert {"response_format", "stop", "seed", "tools"} <= dspy_lm.supported_params


def test_the_two_halves_can_be_given_to_dspy_by_hand(long_engine: Engine) -> None:
    model = dspy.LM(
        f"sureact/{long_engine.name}",
        engine=dspy_engine(long_engine),
        async_engine=async_dspy_engine(long_engine),
        cache=False,
        max_tokens=9,
    )
    assert model("hi") == asyncio.run(model.acall("hi"))


def test_options_for_an_engine_that_is_open_are_refused(long_engine: Engine) -> None:
    with pytest.raises(ConfigError, match="open already"):
        lm(long_engine, engine_options={"dtype": "float32"})


@pytest.mark.parametrize("module", [dspy.Predict, dspy.ChainOfThought])
def test_a_schema_makes_json_adapters_answers_parse(dspy_lm: Any, module: Any) -> None:
    with dspy.context(adapter=dspy.JSONAdapter()):
        answer = dspy.Predict(TYPED)(question="?")
    assert answer.kind in ("a", "b")
    assert isinstance(answer.sure, bool)
    constrained = constrain(module(TYPED), max_thought_length=20)(question="?")
    assert constrained.kind in ("a", "b")


def test_where_chat_adapter_cannot_read_an_answer_its_second_try_holds(dspy_lm: Any) -> None:
    assert dspy.Predict(TYPED)(question="?").kind in ("a", "b")
    assert len(dspy_lm.history) == 2


def test_usage_is_counted_with_cached_tokens(dspy_lm: Any) -> None:
    program = constrain(dspy.Predict(TYPED))
    with dspy.context(track_usage=True):
        program(question="?")
        usage = program(question="?").get_lm_usage()[dspy_lm.model]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > 128


def test_threads_of_a_batch_share_passes(dspy_lm: Any, long_engine: Engine) -> None:
    program = constrain(dspy.ChainOfThought("question -> answer"), max_thought_length=200)
    program.predict.update_config(temperature=1.0, seed=3, max_tokens=300)
    examples = [dspy.Example(question=f"Question {i}?").with_inputs("question") for i in range(8)]
    before = long_engine.stats()
    answers, failed, errors = program.batch(
        examples, num_threads=8, return_failed_examples=True, disable_progress_bar=True
    )
    after = long_engine.stats()
    assert len(answers) == 8
    assert all(isinstance(error, ValueError) for error in errors), "only max_tokens may end one"
    assert len(failed) == len(errors)
    requests = after.num_requests - before.num_requests
    assert requests == 8
    generated = after.generated_tokens - before.generated_tokens
    assert generated / (after.num_steps - before.num_steps) > 2  # alone, forced text apart, a pass brings one token


def test_a_program_awaited_gives_what_it_gives_called(dspy_lm: Any) -> None:
    react = constrain(dspy.ReAct(TYPED, tools=[clock], max_iters=2), max_thought_length=20)

    async def run() -> Any:
        return await react.acall(question="?")

    assert asyncio.run(run()).toDict() == react(question="?").toDict()


async def listened(react: Any, model: Any, **inputs: str) -> tuple[list[str], Any]:
    """Run an agent, listening to its thoughts; return what was heard of each, and the prediction."""
    listener = StreamListener("next_thought", predict=react.react, predict_name="react", allow_reuse=True)
    program: Any = streamify(react, stream_listeners=[listener], is_async_program=False)
    thoughts, text, prediction = list[str](), "", None
    with dspy.context(lm=model, adapter=dspy.ChatAdapter()):
        async for heard in program(**inputs):
            if isinstance(heard, StreamResponse):
                text += heard.chunk
                if heard.is_last_chunk:
                    thoughts, text = [*thoughts, text], ""
            elif not isinstance(heard, StatusMessage):
                prediction = heard
    return [*thoughts, text] if text else thoughts, prediction


def test_a_listener_hears_a_field_as_it_comes(dspy_lm: Any) -> None:
    react = constrain(dspy.ReAct(TYPED, tools=[clock], max_iters=2), max_thought_length=20)
    thoughts, prediction = asyncio.run(listened(react, dspy_lm, question="?"))
    # The listener looks ten pieces back for a header, which is longer where each token is a byte.
    assert prediction.trajectory["thought_0"] in "\n".join(thoughts[0].splitlines())


def test_a_trajectory_that_outgrows_the_context_loses_its_oldest_steps(dspy_lm: Any) -> None:
    def look(page: Literal["one"] = "one") -> str:
        """Look at a page."""
        return "words " * 800

    react = constrain(dspy.ReAct(TYPED, tools=[look], max_iters=6), max_thought_length=10)
    react.react.update_config(metadata=without_finish(react))
    run = react(question="?")
    assert "thought_0" not in run.trajectory
    assert "thought_5" in run.trajectory
    assert run.kind in ("a", "b")


def without_finish(react: Any) -> dict[str, Any]:
    layout = react.react.config["metadata"]["sureact"]
    return {"sureact": {**layout, "tools": {name: args for name, args in layout["tools"].items() if name != "finish"}}}


def test_neither_litellm_nor_a_provider_is_loaded(long_folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys, dspy\n"
        "from sureact.integrations.dspy import lm\n"
        f"model = lm({str(long_folder)!r}, engine_options=dict(quantization='none', dtype='float32'), max_tokens=3)\n"
        "dspy.configure(lm=model)\n"
        "model('hi')\n"
        "print([name for name in ('litellm', 'openai', 'httpx') if name in sys.modules])\n"
    )
    environment = {"PATH": "", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert result.stdout.strip() == "[]", result.stderr


def test_without_dspy_the_extra_is_named() -> None:
    code = "import sys; sys.modules['dspy'] = None\nimport sureact.integrations.dspy"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'sureact[dspy]'" in result.stderr


@pytest.mark.model
def test_a_react_run_of_the_real_model_ends_without_a_slip(model_folder: Path) -> None:
    def capital(country: str) -> str:
        """Look up the capital of a country."""
        return {"france": "Paris"}.get(country.lower(), f"No entry for {country!r}.")

    with Engine(str(model_folder), max_model_len=4096) as engine:
        model = lm(engine, max_tokens=500)
        react = constrain(dspy.ReAct("question -> answer", tools=[capital], max_iters=3))
        heard, run = asyncio.run(listened(react, model, question="What is the capital of France?"))
        assert heard == [text for key, text in run.trajectory.items() if key.startswith("thought")]
        assert run.trajectory["tool_name_0"] == "capital"
        assert "Paris" in run.answer
        steps = sum(key.startswith("tool_name") for key in run.trajectory)
        assert len(model.history) == steps + 1
        assert not any("Execution error" in str(value) for value in run.trajectory.values())
        assert model.history[1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 200
