import json

from tests.benchmarks.peers.fake_contestants import ByteContestant

from sureact.evaluation.react_script import react_script


def test_decoding_and_prefill_are_parts_of_one_generation() -> None:
    contestant = ByteContestant()
    assert contestant.decode_seconds([1], 5) == 0.5
    assert contestant.prefill_seconds([1]) == 0.25


def test_tokens_of_json_count_after_the_first() -> None:
    written = ByteContestant().write_json([1], "true", 10)
    assert written.text == "{}"
    assert written.num_tokens == 2


def test_a_played_script_grows_one_context_without_ends_of_text() -> None:
    contestant = ByteContestant()
    script = react_script(0, num_turns=2)
    run = contestant.play(script, [*b"opening "])
    dots = b"." * script.thought_len
    expected = b"opening Thought:"
    seen = [expected]
    for observation in script.observations:
        expected += dots + b"\nCall:\n"
        seen.append(expected)
        expected += b"{}" + f"\nObservation: {observation}\n".encode()
        seen.append(expected + b"Thought:")
        expected += b"Thought:"
    seen[-1] = seen[-1].removesuffix(b"Thought:") + b"Answer as one JSON object:\n"
    assert contestant.prompts == seen
    assert run.num_unfinished == 0
    assert run.num_tokens == 2 * (script.thought_len + 3) + 3
    assert json.loads(run.turns[-1].pieces[0].text) == {}
