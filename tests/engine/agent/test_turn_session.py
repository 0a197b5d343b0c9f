from typing import Any

import pytest

from sureact.agent.call_rules import CallChoice
from sureact.agent.events import Event
from sureact.agent.history import History, Turn, TurnCall
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel, decode
from sureact.agent.token_limits import TokenLimits
from sureact.agent.turn_session import TurnSession
from sureact.errors import ConstraintStateError, ContextWindowExceededError, OutputTruncatedError

CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
MORE = ["<tool_call>", CALL]
SUBMIT = '<tool_call>\n{"name": "submit", "arguments": {"answer": "a"}}\n</tool_call>'
ALL = CallChoice(("look", "submit"))
SMALL = TokenLimits(thought=100, call=100, observation=100, outputs=100)


def look() -> str:
    """Look."""
    return "seen"


def opened(*script: str | BaseException, history: History | None = None, **options: Any) -> TurnSession:
    lm = ScriptedModel(script, context_len=options.pop("context_len", 100_000))
    shape = ReActV2("question -> answer", [look], lm=lm).prompt_format
    limits = options.pop("limits", SMALL)
    emit = options.pop("emit", list[Event]().append)
    return TurnSession(lm, shape, history or History(), {"question": "?"}, limits, emit, origin="here")


def conversation(**values: Any) -> History:
    call = TurnCall(id="call_0_0", tool_name="look", tool_args={}, observation="seen")
    turn = Turn(index=0, inputs={"question": "!"}, thought="I look.", calls=(call,))
    return History(turns=(turn,), **values)


def test_a_new_conversation_begins_with_the_opening():
    session = opened()
    assert session.opening_text.endswith("<|im_start|>user\nquestion: ?<|im_end|>\n")
    assert decode(session.token_ids) == session.opening_text


def test_token_ids_of_the_same_origin_are_taken_over_as_they_are():
    session = opened(history=conversation(token_ids=(120, 121), origin="here"))
    added = "<|im_end|>\n<|im_start|>tool\nseen<|im_end|>\n<|im_start|>user\nquestion: ?<|im_end|>\n"
    assert decode(session.token_ids) == f"xy{added}"
    assert session.opening_text == f"[2 tokens of the conversation so far]{added}"


@pytest.mark.parametrize("values", [{}, {"token_ids": (120, 121), "origin": "elsewhere"}])
def test_turns_without_token_ids_of_that_origin_are_rendered(values: Any, caplog: pytest.LogCaptureFixture):
    session = opened(history=conversation(**values))
    assert decode(session.token_ids) == session.opening_text
    assert f"question: !<|im_end|>\n<|im_start|>assistant\nI look.\n{CALL}<|im_end|>" in session.opening_text
    assert ("written anew" in caplog.text) == bool(values)


@pytest.mark.parametrize(
    ("thought", "kept", "has_ended"),
    [
        ("I look.\nand more", "I look.\n", False),
        ("I look. <tool_call>", "I look.\n", False),
        ('I look.{"name": "look"}', "I look.\n", False),
        ("It is a.", "It is a.\n", True),
        ("", "", True),
        ("```json\n{", "", False),
        ('I look: ```json {"name": "look"}', "I look:\n", False),
        ("x" * 200, "x" * 100 + "\n", False),
    ],
)
def test_a_thought_ends_at_a_line_or_a_call_or_is_the_end_of_the_turn(thought: str, kept: str, has_ended: bool):
    session = opened(thought)
    found, ended = session.think(0)
    assert (found.text, ended) == (kept.strip(), has_ended)
    assert decode(session.token_ids).endswith(f"<|im_start|>assistant\n{kept}")


def test_calls_follow_one_another_until_the_turn_ends():
    session = opened("I look.\n", CALL, *MORE, "")
    session.think(0)
    assert session.decide_call(0, "call_0_0", ALL) is not None
    assert session.decide_another(1, "call_0_1", 1) is not None
    assert len(session.generations) == 2
    assert session.decide_another(2, "call_0_2", 2) is None
    assert decode(session.token_ids).endswith(f"{CALL}\n{CALL}")


def test_no_further_call_begins_where_its_observation_would_not_fit():
    session = opened("I look.\n", CALL, *MORE)
    session.think(0)
    session.decide_call(0, "call_0_0", ALL)
    assert session.decide_another(1, "call_0_1", num_calls=1000) is None
    assert session.token_ids[-1] == 259  # the call before it is whole


def test_a_further_call_that_does_not_end_is_cut_off(caplog: pytest.LogCaptureFixture):
    session = opened("I look.\n", CALL, *MORE, limits=TokenLimits(call=len(CALL) - 21, observation=9))
    session.think(0)
    session.decide_call(0, "call_0_0", ALL)
    before = list(session.token_ids)
    session._limits = TokenLimits(call=5)  # pyright: ignore[reportPrivateUsage]
    assert session.decide_another(1, "call_0_1", 1) is None
    assert session.token_ids == before
    assert "is left out" in caplog.text


@pytest.mark.parametrize(("text", "limit", "chose_submit"), [(CALL, 30, False), (SUBMIT, 45, True)])
def test_a_first_call_that_does_not_end_tells_what_it_called(text: str, limit: int, chose_submit: bool):
    session = opened("I look.\n", text, limits=TokenLimits(call=limit))
    session.begin_turn()
    session.think(0)
    assert session.decide_call(0, "call_0_0", ALL) is None
    assert session.chose_submit is chose_submit
    session.drop_turn()
    assert decode(session.token_ids) == session.opening_text


def test_a_grammar_without_a_way_on_refuses_the_call():
    session = opened("I look.\n", ConstraintStateError("stuck"), "<tool_call>", ConstraintStateError("stuck"))
    session.think(0)
    call = session.decide_call(0, "call_0_0", ALL)
    assert call is not None
    assert (call.tool_name, str(call.refusal)) == ("", "stuck")
    assert session.decide_another(1, "call_0_1", 1) is None
    assert decode(session.token_ids).endswith("I look.\n")


def test_no_further_call_begins_without_tokens_or_time_for_it():
    for limits in (TokenLimits(thought=20, call=60, outputs=100, run=180), TokenLimits(max_seconds=1e-9)):
        session = opened("I look.\n", CALL, *MORE, limits=limits)
        session.think(0)
        session.decide_call(0, "call_0_0", ALL)
        assert session.decide_another(1, "call_0_1", 1) is None


def test_submit_is_forced_after_a_thought_or_in_a_turn_of_its_own():
    session = opened("a", SUBMIT)
    session.think(0)
    assert session.force_submit(0, "call_0_0", begins_turn=False).tool_args == {"answer": "a"}
    assert decode(session.token_ids).endswith(f"assistant\na\n{SUBMIT}")
    session = opened(SUBMIT)
    session.force_submit(0, "call_0_0", begins_turn=True)
    assert decode(session.token_ids).endswith(f"assistant\n{SUBMIT}")


def test_forced_outputs_that_do_not_end_are_an_error():
    session = opened(SUBMIT, limits=TokenLimits(outputs=30))
    with pytest.raises(OutputTruncatedError, match=r"raise TokenLimits\.outputs"):
        session.force_submit(0, "call_0_0", begins_turn=True)


def test_observations_are_cut_to_what_a_small_context_leaves_beside_the_outputs():
    session = opened(limits=TokenLimits(thought=50, call=50), context_len=len(opened().token_ids) + 700)
    context_len = session._lm.context_len  # pyright: ignore[reportPrivateUsage]
    assert session.observation_room(2) < session.observation_room(1) < context_len // 4
    session.observe(["x" * session.observation_room(2)] * 2, 0.0)
    assert context_len - len(session.token_ids) >= session.kept_outputs
    assert opened(limits=TokenLimits()).observation_room(8) == 1024


def test_forced_outputs_get_what_is_left_of_a_small_context():
    context_len = len(opened().token_ids) + 1000
    limits = TokenLimits(thought=50, call=50, observation=50, outputs=5000)
    session = opened(SUBMIT, limits=limits, context_len=context_len)
    session.force_submit(0, "call_0_0", begins_turn=True)
    (submitted,) = session.generations
    assert submitted.params.max_tokens == context_len - submitted.output.usage.prompt_tokens
    session = opened(SUBMIT.partition('"}}')[0] + "a" * 2000, limits=limits, context_len=context_len)
    with pytest.raises(OutputTruncatedError, match="no more is left of the context"):
        session.force_submit(0, "call_0_0", begins_turn=True)


def test_a_conversation_without_room_for_a_turn_is_refused_and_its_session_closed():
    with pytest.raises(ContextWindowExceededError, match="Begin a new conversation"):
        opened(context_len=1500, limits=TokenLimits(thought=500, call=500))
    with pytest.raises(ContextWindowExceededError):
        opened(context_len=100)


def test_what_a_run_took_is_counted():
    session = opened("I look.\n", CALL)
    session.think(0)
    session.decide_call(0, "call_0_0", ALL)
    session.observe(["seen"], 1.5)
    session.close()
    assert (session.usage.num_generations, session.usage.tool_s) == (2, 1.5)
    assert session.usage.seconds > 0
