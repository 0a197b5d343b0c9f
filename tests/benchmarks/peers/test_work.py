import pickle

import pytest
from benchmarks.peers.work import AgentRun, AgentRuns, Decode, JsonText, Prefill
from tests.benchmarks.peers.fake_contestants import ByteContestant

from sureact.evaluation.react_script import ReactRun, ReactScript, react_script


class OwnContestant(ByteContestant):
    def play_all(self, scripts: list[ReactScript], *, together: bool, cache_salt: str) -> list[ReactRun]:
        return [self.play(script, [1]) for script in scripts]


def test_decode_and_prefill_count_their_tokens() -> None:
    decoded, filled = Decode([1, 2], 7).do(ByteContestant()), Prefill([1, 2]).do(ByteContestant())
    assert (decoded.num_tokens, decoded.seconds) == (7, 0.5)
    assert (filled.num_tokens, filled.seconds) == (2, 0.25)


@pytest.mark.parametrize(
    ("schema", "max_tokens", "unfinished"),
    [('{"type": "object"}', 9, 0), ('{"type": "object"}', 1, 1), ('{"type": "array"}', 9, 1)],
)
def test_json_is_judged_whoever_wrote_it(schema: str, max_tokens: int, unfinished: int) -> None:
    outcome = JsonText([1], schema, max_tokens).do(ByteContestant())
    assert outcome.num_unfinished == unfinished
    assert outcome.seconds == 0.5
    assert outcome.seconds_of["compile"] >= 0


def test_a_refused_schema_is_an_outcome() -> None:
    assert JsonText([1], '"hard"', 9).do(ByteContestant()).refusal == "too hard"


def test_an_agents_run_is_split_into_where_its_time_went() -> None:
    script = react_script(0, num_turns=2)
    outcome = AgentRun(script, [1]).do(ByteContestant())
    assert outcome.num_tokens == 2 * (script.thought_len + 3) + 3
    assert outcome.seconds_of == {"prefill": 5 * 0.25, "decode": 5 * 0.5, "mask": 0.0}


def test_many_runs_are_timed_by_the_clock() -> None:
    scripts = [react_script(seed, num_turns=1) for seed in range(3)]
    outcome = AgentRuns(scripts, together=True, cache_salt="a").do(OwnContestant())
    assert outcome.num_tokens == 3 * (scripts[0].thought_len + 6)
    assert outcome.seconds > 0


def test_works_travel_between_processes() -> None:
    script = react_script(0)
    for work in (Decode([1], 1), Prefill([1]), JsonText([1], "true", 1), AgentRun(script, [1])):
        assert pickle.loads(pickle.dumps(work)) == work
