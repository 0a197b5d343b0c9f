import json
import pickle

import pytest
from jsonschema.validators import validator_for

from sureact.constraints.json_schema import json_schema
from sureact.evaluation.react_script import Generated, play, react_script
from sureact.outputs import StepTimings


class Recorder:
    """A context that notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []

    def append(self, text: str) -> None:
        assert not text.endswith(" ")
        self.asked.append(("append", text))

    def think(self, num_tokens: int) -> Generated:
        self.asked.append(("think", num_tokens))
        return Generated("hm", num_tokens, False, StepTimings(prefill_s=1.0, decode_s=2.0))

    def write_json(self, schema: str, max_tokens: int) -> Generated:
        self.asked.append(("json", max_tokens))
        return Generated("{}", 7, True, StepTimings(prefill_s=0.5, decode_s=1.0, mask_s=0.25))


def test_scripts_share_their_system_message_and_nothing_after_it() -> None:
    first, again, other = (react_script(seed) for seed in (0, 0, 1))
    assert first == again
    assert first.messages[0] == other.messages[0]
    assert first.messages[1] != other.messages[1]
    assert not set(first.observations) & set(other.observations)
    assert pickle.loads(pickle.dumps(first)) == first


def test_a_call_of_any_tool_is_allowed_and_nothing_else() -> None:
    schema = json.loads(react_script(0).call_schema)
    validator = validator_for(schema)(schema)
    assert validator.is_valid({"name": "get_order", "arguments": {"order_id": 3}})
    assert not validator.is_valid({"name": "get_order", "arguments": {"order_id": 3, "more": 1}})
    assert not validator.is_valid({"name": "get_orders", "arguments": {"order_id": 3}})


def test_the_schemas_are_enforced_whole() -> None:
    script = react_script(0)
    json_schema(script.call_schema).check()
    json_schema(script.answer_schema).check()


def test_every_turn_is_a_thought_a_call_and_an_observation_and_then_comes_the_answer() -> None:
    script, context = react_script(0, num_turns=2), Recorder()
    run = play(script, context)
    turn = ["append", "think", "append", "json", "append"]
    assert [kind for kind, _ in context.asked] == [*turn, *turn, "append", "json"]
    appended = [text for kind, text in context.asked if kind == "append"]
    assert appended[2] == f"\nObservation: {script.observations[0]}\n"
    assert run.num_tokens == 2 * (script.thought_len + 7) + 7
    assert run.num_unfinished == 0
    assert run.seconds == pytest.approx(sum(turn.seconds for turn in run.turns))
    assert run.turns[0].timings == StepTimings(prefill_s=1.5, decode_s=3.0, mask_s=0.25)


def test_a_negative_seed_is_a_script_of_its_own() -> None:
    assert react_script(-1).messages != react_script(1).messages
