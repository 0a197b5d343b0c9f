"""A drafter guesses from the text it is shown, as much as there is room for, and stops when it guesses wrong."""

from collections.abc import Sequence

from sureact.drafts.drafter import Drafter

TEXT = [1, 2, 3, 4, 5, 6, 1, 2]


def propose(drafter: Drafter, token_ids: list[int], *, num_requests: int = 1, max_len: int = 9) -> Sequence[int]:
    return drafter.propose(token_ids, num_pending=1, num_requests=num_requests, max_len=max_len)


def test_it_guesses_what_followed_before() -> None:
    assert list(propose(Drafter(3), TEXT)) == [3, 4, 5]


def test_it_guesses_no_more_than_there_is_room_for() -> None:
    assert list(propose(Drafter(3), TEXT, max_len=1)) == [3]
    assert list(propose(Drafter(3), TEXT, max_len=0)) == []
    assert list(propose(Drafter(3), TEXT, max_len=-1)) == []


def test_it_follows_a_text_that_grows_and_is_cut() -> None:
    drafter = Drafter(3)
    propose(drafter, TEXT)
    assert list(propose(drafter, [*TEXT, 7, 1, 2])) == [7, 1, 2]
    assert list(propose(drafter, TEXT)) == [3, 4, 5]
    assert list(propose(drafter, TEXT[:6])) == []


def test_it_stops_where_its_guesses_are_wrong() -> None:
    drafter = Drafter(3)
    for _ in range(20):
        drafter.record(3, 0)
    assert list(propose(drafter, TEXT)) == []


def test_a_fork_guesses_the_same_from_the_same_text_and_learns_alone() -> None:
    drafter = Drafter(3)
    propose(drafter, TEXT)
    fork = drafter.fork()
    for _ in range(20):
        drafter.record(3, 0)
    assert list(propose(fork, TEXT)) == [3, 4, 5]


def test_a_fork_of_a_long_context_guesses_at_once() -> None:
    drafter = Drafter(3)
    token_ids = list(range(12_000))
    for _ in range(4):
        propose(drafter, token_ids)
    assert list(propose(drafter.fork(), [*token_ids, 11_000, 11_001])) == [11_002, 11_003, 11_004]
