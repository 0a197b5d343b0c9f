"""A turn of a chat: calls in any form that models write them in, or none."""

import pytest

from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.evaluation.scoring.call_decoder import CallDecoder, FreeDecoder, GrammarDecoder, OwnDecoder
from sureact.evaluation.scoring.chat_turn import MAX_CALLS, take_turn, turn_prompt
from sureact.evaluation.scoring.outlines_schema import OutlinesSchema
from sureact.tokens.chat_template import Message


def look(word: str) -> str:
    """Look up."""
    return word


TOOLS = {"look": Tool(look)}
MESSAGES: list[Message] = [{"role": "user", "content": "Look up a."}]
OWN_CALL = '<tool_call>\n{"name": "look", "arguments": {"word": "a"}}\n</tool_call>'
JSON_CALL = '{"name": "look", "arguments": {"word": "a"}}'


def turn(decoder: CallDecoder, *said: str) -> tuple[list[dict[str, object]], ScriptedModel]:
    model = ScriptedModel(said)
    result = take_turn(model, MESSAGES, TOOLS, decoder)
    assert model.sessions[0].is_closed
    assert [call.fault for call in result.calls if call.fault] == []
    assert all(call.tool_name == "look" for call in result.calls)
    return [call.args for call in result.calls], model


def test_the_prompt_holds_tools_and_messages() -> None:
    text = turn_prompt(ScriptedModel([]), MESSAGES, TOOLS).text
    assert "'name': 'look'" in text
    assert text.endswith("Look up a.<|im_end|>\n<|im_start|>assistant\n")


def test_an_answer_without_a_call_is_none() -> None:
    calls, model = turn(OwnDecoder(), "I do not know.")
    assert calls == []
    assert model.sessions[0].text.endswith("I do not know.")


def own_call(word: str) -> str:
    return OWN_CALL.replace('"a"', f'"{word}"')


def test_calls_follow_each_other_while_their_odds_rise() -> None:
    # After a call the model says what it would, and unless that is a call, what it would if nothing else was asked for.
    calls, model = turn(OwnDecoder(), "Well.\n<tool_call>", OWN_CALL, "{", own_call("b"), "", "")
    assert calls == [{"word": "a"}, {"word": "b"}]
    assert model.sessions[0].text.endswith(f"Well.\n{OWN_CALL}\n{own_call('b')}\n")
    assert all(session.is_closed for session in model.sessions)


def test_a_call_that_was_made_before_ends_the_turn() -> None:
    calls, _ = turn(OwnDecoder(), "<tool_call>", OWN_CALL, "{", OWN_CALL)
    assert calls == [{"word": "a"}]


@pytest.mark.parametrize("began", ['{"name": "l', '```json\n{\n  "name": "l', '```\n{"name":'])
def test_a_call_without_its_tag_gets_one_from_us(began: str) -> None:
    calls, model = turn(OwnDecoder(), began, OWN_CALL, "", "")
    assert calls == [{"word": "a"}]
    assert model.sessions[0].text.endswith(f"assistant\n{OWN_CALL}\n")


def test_what_stands_before_a_fence_stays() -> None:
    _, model = turn(OwnDecoder(), 'So: ```json\n{"name":', OWN_CALL, "", "")
    assert model.sessions[0].text.endswith(f"assistant\nSo:{OWN_CALL}\n")


def test_free_text_is_read_up_to_the_closing_tag() -> None:
    calls, model = turn(FreeDecoder(), "<tool_call>", f"\n{JSON_CALL}\n</tool_call> more", "")
    assert calls == [{"word": "a"}]
    assert model.sessions[0].text.endswith(f"<tool_call>\n{JSON_CALL}\n</tool_call>")


def test_several_bare_calls_in_free_text_all_count() -> None:
    calls, _ = turn(FreeDecoder(), '{"name":', f"{JSON_CALL}\n{JSON_CALL}")
    assert calls == [{"word": "a"}] * 2


def test_a_grammar_peer_writes_the_json_between_the_tags() -> None:
    calls, model = turn(GrammarDecoder(OutlinesSchema.of), "<tool_call>", JSON_CALL, "")
    assert calls == [{"word": "a"}]
    assert model.sessions[0].text.endswith(f"<tool_call>\n{JSON_CALL}\n</tool_call>")


@pytest.mark.parametrize(
    ("decoder", "said", "fault"),
    [
        (FreeDecoder(), "no call here", "No call can be read"),
        (FreeDecoder(), '{"name": "other", "arguments": {}}', "There is no tool 'other'."),
        (FreeDecoder(), '{"name": "look", "arguments": {"word": 1}}', "1 is not of type 'string'"),
        (OwnDecoder(), OWN_CALL.replace('"a"', f'"{"a" * 600}"'), "did not end within 512 tokens"),
        (GrammarDecoder(OutlinesSchema.of), JSON_CALL.replace('"a"', f'"{"a" * 600}"'), "did not end within 512"),
    ],
)
def test_a_call_that_is_not_valid_says_why(decoder: CallDecoder, said: str, fault: str) -> None:
    result = take_turn(ScriptedModel(["<tool_call>", said]), MESSAGES, TOOLS, decoder)
    assert fault in result.calls[0].fault


def test_a_model_that_calls_for_ever_is_stopped() -> None:
    another = [text for index in range(MAX_CALLS) for text in (own_call(f"w{index}"), "{")]
    calls, model = turn(OwnDecoder(), "<tool_call>", *another)
    assert len(calls) == MAX_CALLS
    assert len(model.script) == 1


def test_tokens_are_counted() -> None:
    result = take_turn(ScriptedModel(["ab<tool_call>", OWN_CALL, "", ""]), MESSAGES, TOOLS, OwnDecoder())
    assert result.num_tokens == len("ab") + len('\n{"name": "look", "arguments": {"word": "a"}}\n') + 2
