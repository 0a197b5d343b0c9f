from hypothesis import given
from hypothesis import strategies as st

from sureact.sampling_params import SamplingParams
from sureact.scheduling.generated_text import FinishedText, GeneratedText
from sureact.tokens.vocabulary import Vocabulary

EOS = 256
PIECES = ("Obs", "ervation", ":", "\n", "ab", "é".encode()[:1], "é".encode()[1:], "日本")
VOCABULARY = Vocabulary(
    token_bytes=(
        *(bytes([i]) for i in range(256)),
        b"",
        *(piece if isinstance(piece, bytes) else piece.encode() for piece in PIECES),
    ),
    control_ids=frozenset({EOS}),
    unused_ids=frozenset(),
    eos_ids=(EOS,),
    tokenizer_json=None,
    fingerprint="test",
)
OBS, ERVATION, COLON, NEWLINE, AB = 257, 258, 259, 260, 261


def run(token_ids: list[int], **settings: object) -> tuple[list[str], FinishedText]:
    """Push tokens until a stop; return what was shown and what remains."""
    text = GeneratedText(VOCABULARY, SamplingParams(**settings))  # pyright: ignore[reportArgumentType]
    shown: list[str] = []
    for token_id in token_ids:
        shown.append(text.push(token_id))
        if text.stop_match is not None:
            break
    finished, rest = text.finish()
    return [*shown, rest], finished


def test_nothing_of_a_stop_is_shown_and_the_tail_is_cut_to_a_token_boundary() -> None:
    shown, finished = run([AB, NEWLINE, OBS, ERVATION, COLON, AB], stop="\nObservation:")
    assert "".join(shown) == "ab"
    assert finished == FinishedText("ab", (AB,), "")


def test_a_stop_that_begins_inside_a_token_leaves_the_rest_of_that_token_as_text() -> None:
    _, finished = run([AB, AB], stop="ba")
    assert finished == FinishedText("a", (), "a")


def test_a_stop_stays_when_asked_to() -> None:
    shown, finished = run([AB, OBS, ERVATION], stop="Observation", include_stop=True)
    assert "".join(shown) == finished.text == "abObservation"
    assert finished.kept_ids == (AB, OBS, ERVATION)


def test_a_stop_given_as_ids_matches_those_ids_only() -> None:
    spelled = list(b"Observation:")
    assert run([*spelled, AB], stop=[[OBS, ERVATION, COLON]])[1].text == "Observation:ab"
    assert run([AB, OBS, ERVATION, COLON], stop=[[OBS, ERVATION, COLON]])[1] == FinishedText("ab", (AB,), "")


def test_text_that_looked_like_a_stop_is_shown_at_the_end() -> None:
    shown, _ = run([AB, OBS], stop="Observation")
    assert shown == ["ab", "", "Obs"]


def test_text_that_cannot_become_a_stop_is_shown_at_once() -> None:
    shown, _ = run(list(b"I am"), stop="ZZZ")
    assert shown == ["I", " ", "a", "m", ""]


def test_a_character_is_shown_when_its_last_byte_is_there() -> None:
    shown, finished = run([262, 263, 264])
    assert shown == ["", "é", "日本", ""]
    assert finished.text == "é日本"


def test_dropping_the_last_token_takes_the_end_of_sequence_away() -> None:
    text = GeneratedText(VOCABULARY, SamplingParams())
    text.push(AB)
    text.push(EOS)
    finished, rest = text.finish(drop_last_token=True)
    assert (finished, rest) == (FinishedText("ab", (AB,), ""), "")


@given(
    st.lists(st.integers(0, len(VOCABULARY.token_bytes) - 1), max_size=12),
    st.lists(st.sampled_from(["ab", "b", "Observation:", "\n", "é", "ba"]), max_size=3),
    st.booleans(),
)
def test_streamed_pieces_concatenate_to_the_text_and_the_kept_tokens_spell_it(
    token_ids: list[int], stops: list[str], include_stop: bool
) -> None:
    shown, finished = run(token_ids, stop=stops, include_stop=include_stop)
    assert "".join(shown) == finished.text
    kept = b"".join(VOCABULARY.token_bytes[i] for i in finished.kept_ids)
    assert kept + finished.leftover.encode() == finished.text.encode() or "\ufffd" in finished.text
    if not include_stop:
        assert not any(stop in finished.text for stop in stops)


def test_only_settled_tokens_are_shown_until_the_end() -> None:
    text = GeneratedText(VOCABULARY, SamplingParams())
    assert text.push(AB, num_settled=0) == ""
    assert text.push(OBS, num_settled=1) == "ab"
    assert text.push(AB, num_settled=1) == ""
    assert text.push(COLON, num_settled=4) == "Obsab:"
    assert text.push(AB, num_settled=4) == ""
    assert text.finish()[1] == "ab"


@given(st.lists(st.tuples(st.integers(0, len(VOCABULARY.token_bytes) - 1), st.integers(0, 3)), max_size=12))
def test_tokens_taken_back_leave_no_trace(steps: list[tuple[int, int]]) -> None:
    """After each token some others come and go that are not settled."""
    plain, changed = (GeneratedText(VOCABULARY, SamplingParams()) for _ in range(2))
    for num_settled, (token_id, num_taken_back) in enumerate(steps, start=1):
        for _ in range(num_taken_back):
            assert changed.push(OBS, num_settled=num_settled - 1) == ""
        for _ in range(num_taken_back):
            changed.take_back()
        assert changed.push(token_id, num_settled=num_settled) == plain.push(token_id)
    assert changed.token_ids == plain.token_ids
    assert changed.finish() == plain.finish()
