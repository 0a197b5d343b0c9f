import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.events import ContextTruncated, Event, ObservationReady, ThoughtDelta
from sureact.agent.formats.registry import FORMATS
from sureact.agent.predict import Predict
from sureact.agent.prompt_format import plain_text, template_text
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.thinking import think_tags
from sureact.agent.token_limits import TokenLimits
from sureact.agent.tool import Tool
from sureact.engine import Engine
from sureact.errors import ConstraintStateError
from sureact.session import Session
from sureact.tokens.chat_template import Message, PromptText
from sureact.tokens.tokenizer import Tokenizer

ANSWER = '{"reasoning": "", "answer": "a"}'
LINES = ("fields", "qwen_react")
CALLS = {
    "fields": ("Action: look\nArguments: {}\n", "Action: finish\nArguments: {}\n"),
    "qwen_react": ("Action: look\nAction Input: {}\n", "Final Answer:\n"),
    "qwen_tool_call": (
        '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "finish", "arguments": {}}\n</tool_call>',
    ),
}


class OpensThink(ScriptedModel):
    """Its chat template opens a `<think>` in each answer, as those of models that always think do."""

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
    ) -> PromptText:
        rendered = super().render_chat(messages, tools=tools, add_generation_prompt=add_generation_prompt)
        return rendered + template_text("<think>\n") if add_generation_prompt else rendered


def look() -> str:
    return "seen"


def agent(lm: ScriptedModel, prompt_format: str, thought: int = 200, **options: Any) -> ReAct:
    limits = TokenLimits(thought=thought, call=100, observation=100, outputs=100)
    tools = [Tool(look, desc="", repeatable=True)]
    return ReAct("q -> answer", tools, lm=lm, prompt_format=prompt_format, limits=limits, **options)


def run_of(lm: ScriptedModel) -> str:
    """What stands after the opening."""
    return lm.sessions[-1].text.partition("?<|im_end|>\n")[2].removeprefix("<|im_start|>assistant\n")


@pytest.mark.parametrize("name", FORMATS)
def test_stops_and_constraints_sleep_while_a_think_is_open(name: str):
    look_call, finish = CALLS[name]
    inside = '\nObservation: one\nAction: look\n{"name": Final Answer: "x"\n'
    script = ["<think>", inside + "</think> ignored", " So I look.\n", look_call, " Done.\n", finish, ANSWER]
    lm = ScriptedModel(script)
    events: list[Event] = []
    prediction = agent(lm, name, on_event=events.append)(q="?")
    first = prediction.trajectory.steps[0]
    assert (first.thinking, first.thought) == (inside.strip(), "So I look.")
    assert f"<think>{inside}</think>\n\n So I look.\n{look_call}" in lm.sessions[0].text
    told = [event for event in events if isinstance(event, ThoughtDelta) and event.step_index == 0]
    assert "".join(event.text for event in told if event.is_thinking) == inside
    assert "".join(event.text for event in told if not event.is_thinking).strip() == "So I look."
    steps = [event.step for event in events if isinstance(event, ObservationReady)]
    assert steps == prediction.trajectory.steps
    assert prediction.trajectory.steps[1].thinking == ""
    assert prediction.usage.num_generations == 7


@pytest.mark.parametrize("name", LINES)
def test_a_think_that_the_chat_template_opened_comes_before_the_first_thought(name: str):
    look_call, finish = CALLS[name]
    lm = OpensThink(["I weigh.\n\nThen.\n</think>", " I look.\n", look_call, " Done.\n", finish, ANSWER])
    prediction = agent(lm, name)(q="?")
    assert prediction.trajectory.steps[0].thinking == "I weigh.\n\nThen."
    assert run_of(lm).startswith("<think>\nI weigh.\n\nThen.\n</think>\n\nThought: I look.\nAction: look\n")
    assert run_of(lm).count("<think>") == 1


def test_a_chat_format_thinks_in_every_turn_but_not_over_the_outputs():
    look_call, finish = CALLS["qwen_tool_call"]
    lm = OpensThink(["a\n</think>", "I look.\n", look_call, "b\n</think>", "\n", finish, ANSWER])
    prediction = agent(lm, "qwen_tool_call")(q="?")
    assert [step.thinking for step in prediction.trajectory.steps] == ["a", "b"]
    assert [step.thought for step in prediction.trajectory.steps] == ["I look.", ""]
    text = lm.sessions[0].text
    assert f"assistant\n<think>\na\n</think>\n\nI look.\n{look_call}" in text
    assert f"assistant\n<think>\nb\n</think>\n\n{finish}" in text
    assert text.endswith(f"assistant\n<think>\n</think>\n\n{ANSWER}")


@pytest.mark.parametrize("end", ["", "<|im_end|>", "\n</thi"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_think_that_does_not_end_within_the_budget_is_closed(name: str, end: str):
    look_call, finish = CALLS[name]
    lm = ScriptedModel(["<think>", "\nhm " * 50 + end, look_call, " Done.\n", finish, ANSWER])
    prediction = agent(lm, name, thought=40)(q="?")
    first = prediction.trajectory.steps[0]
    assert first.thinking.startswith("hm")
    assert first.thought == ""
    text = lm.sessions[0].text
    assert f"<think>\n{first.thinking}\n</think>\n\n" in text
    assert first.completion_tokens <= 40 + len(look_call.encode())
    assert prediction.answer == "a"


def test_a_model_that_ends_its_text_inside_a_think_has_it_closed_and_goes_on():
    look_call, finish = CALLS["fields"]
    lm = ScriptedModel(["<think>", "\nhm<|im_end|>", " I look.\n", look_call, " Done.\n", finish, ANSWER])
    agent(lm, "fields")(q="?")
    assert "<think>\nhm\n</think>\n\n I look.\nAction: look\n" in lm.sessions[0].text


def test_a_closing_tag_that_is_spelled_out_counts():
    look_call, finish = CALLS["fields"]
    spelled = ScriptedModel([])
    spelled.script = ["<think>", "\nhm\n", " I look.\n", look_call, " Done.\n", finish, ANSWER]
    session = spelled.session()
    session.append("</think>")
    assert len(session.token_ids) == 8  # as text it is no control token
    agent(spelled, "fields")(q="?")
    assert "<think>\nhm\n</think>\n\n I look.\n" in spelled.sessions[-1].text


def test_thinking_twice_in_a_thought_shares_one_budget():
    look_call, finish = CALLS["fields"]
    script = [" a <think>", "b</think>", " c <think>", "d</think>", " e\n", look_call, " Done.\n", finish, ANSWER]
    lm = ScriptedModel(script)
    first = agent(lm, "fields")(q="?").trajectory.steps[0]
    assert (first.thought.split(), first.thinking) == (["a", "c", "e"], "b\nd")


@pytest.mark.parametrize("name", FORMATS)
def test_only_a_thought_may_open_a_think(name: str):
    look_call, finish = CALLS[name]
    script = [" Hm.\n", f"<think>{look_call}", " Hm.\n", finish, ANSWER]
    assert "ConstraintStateError" in agent(ScriptedModel(script), name)(q="?").trajectory["observation_0"]
    with pytest.raises(ConstraintStateError):
        agent(ScriptedModel([" Hm.\n", finish, f"<think>{ANSWER}"]), name)(q="?")


@pytest.mark.parametrize("lm_class", [ScriptedModel, OpensThink])
@pytest.mark.parametrize("name", FORMATS)
def test_what_was_thought_is_not_written_again(name: str, lm_class: type[ScriptedModel]):
    look_call, finish = CALLS[name]
    opens = [] if lm_class is OpensThink else ["<think>"]
    every_turn = name == "qwen_tool_call" or lm_class is ScriptedModel
    thoughts = [[*opens, f"hm {i} " * 20 + "</think>", f" look {i}\n"] for i in range(6)]
    script = [
        text for i in range(6) for text in [*(thoughts[i] if every_turn or i == 0 else [f" look {i}\n"]), look_call]
    ]
    probe = agent(lm_class([]), name).prompt_format.opening({"q": "?"}).text
    # Only the first turn of these thinks, and it must be dropped too.
    room = 1050 if every_turn else 700
    end = [*(["done</think>"] if every_turn and not opens else []), " Done.\n", finish, ANSWER]
    lm = lm_class([*script, *end], context_len=len(probe) + room)
    events: list[Event] = []
    prediction = agent(lm, name, on_event=events.append)(q="?")
    assert prediction.answer == "a"
    assert any(isinstance(event, ContextTruncated) for event in events)
    session = lm.sessions[-1]
    tags = think_tags(lm.session())
    assert tags is not None
    seen = [id_ for id_ in session.token_ids if id_ in tags]
    assert seen == [tags.open_id, tags.close_id] * (len(seen) // 2)


def test_outputs_of_a_run_without_a_step_are_not_decoded_inside_a_think():
    lm = OpensThink(["hm</think>", " x\n", "Action: look\nArguments: {}" + " " * 200, ANSWER])
    lm.script = [*lm.script[:2], "Action: ", ANSWER]
    react = agent(lm, "fields")
    react.limits = TokenLimits(call=3)
    prediction = react(q="?")
    assert prediction.termination_reason == "max_tokens"
    assert run_of(lm) == f"<think>\n</think>\n\nOutputs as one JSON object:\n{ANSWER}"


def test_predict_closes_what_the_chat_template_opened():
    lm = OpensThink(['{"answer": "a"}'])
    assert Predict("q -> answer", lm=lm)(q="?").answer == "a"
    assert lm.sessions[0].text.endswith('<think>\n</think>\n\n{"answer": "a"}')


def test_tags_that_are_no_control_tokens_are_no_tags(tiny_engine: Engine):
    session = tiny_engine.session()
    assert think_tags(session) is None
    assert session.token_ids == []
    session.close()


def add_tags(folder: Path) -> None:
    """Add the tags of Qwen3 to a tokenizer, not marked special, as they are there."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    first = 1 + max(token["id"] for token in tokenizer["added_tokens"])
    for token_id, tag in enumerate(("<think>", "</think>"), start=first):
        tokenizer["added_tokens"].append({"id": token_id, "content": tag} | flags)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")


@pytest.fixture(scope="module")
def thinking_engine(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A random model whose tokenizer has the tags of Qwen3, not marked special, and whose template opens one."""
    folder = tmp_path_factory.mktemp("thinking") / "model"
    shutil.copytree(tiny_folder, folder)
    add_tags(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = settings["chat_template"].replace("assistant\n{%", "assistant\n<think>\n{%")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 8192}
    (folder / "config.json").write_text(json.dumps(config))
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.02) as engine:
        yield engine


@pytest.mark.parametrize("name", LINES)
def test_a_random_model_is_held_to_the_budget(thinking_engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str):
    contexts: list[list[int]] = []
    close = Session.close

    def record_and_close(self: Session) -> None:
        contexts.append(self.token_ids)
        close(self)

    monkeypatch.setattr(Session, "close", record_and_close)
    limits = TokenLimits(thought=30, call=400, observation=50, outputs=700)
    tools = [Tool(look, desc="", repeatable=True)]
    react = ReAct("q -> answer: bool", tools, lm=thinking_engine, prompt_format=name, limits=limits, max_iters=2)
    prediction = react(q="?")
    assert isinstance(prediction.answer, bool)
    assert all(step.completion_tokens <= 30 + 400 for step in prediction.trajectory.steps)
    tags = think_tags(thinking_engine.session())
    assert tags is not None
    (opened,) = [index for index, id_ in enumerate(contexts[0]) if id_ == tags.open_id]
    (closed,) = [index for index, id_ in enumerate(contexts[0]) if id_ == tags.close_id]
    assert 0 < closed - opened <= 3 * 30 + 2  # a byte that is no text is written again as U+FFFD, three bytes


@pytest.fixture(scope="module")
def qwen3_tokenizer(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The real tokenizer of Qwen2.5 with the two tags that Qwen3 added."""
    folder = tmp_path_factory.mktemp("qwen3")
    for file in model_folder.iterdir():
        if "token" in file.name or file.suffix == ".json":
            shutil.copy(file, folder)
    add_tags(folder)
    return Tokenizer(folder, num_logits=151_936)


@pytest.mark.model
@pytest.mark.parametrize("opening", ["", "\n"])
@given(thinking=st.text(max_size=40), after=st.text(max_size=20))
def test_ids_of_a_closed_think_are_those_of_the_whole_text(
    qwen3_tokenizer: Tokenizer, opening: str, thinking: str, after: str
):
    text = thinking.strip()
    body = plain_text(opening + text + ("\n" if text else "")) + template_text("</think>\n\n")
    start = template_text("<think>" + ("" if opening else "\n"))
    pieces = [start, body, plain_text("Thought: " + " ".join(["I", *after.split()]) + "\n")]
    built = [token_id for piece in pieces for token_id in qwen3_tokenizer.encode_prompt(piece)]
    assert built == qwen3_tokenizer.encode_prompt(pieces[0] + pieces[1] + pieces[2])
    assert built[0] == qwen3_tokenizer.control_tokens["<think>"]
    assert built.count(qwen3_tokenizer.control_tokens["</think>"]) == 1
