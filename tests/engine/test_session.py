"""Sessions grow, stop, fork, cut and come back."""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.engine.session_machine import SessionMachine

from sureact.constraints.choice import choice
from sureact.constraints.constraint import Constraint
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.errors import ConfigError, ConstraintError, PromptTooLongError, SessionError
from sureact.sampling_params import SamplingParams
from sureact.scheduling.request import Request
from sureact.session import Session

FREE = SamplingParams(max_tokens=8, ignore_eos=True)


@pytest.fixture
def session(tiny_engine: Engine) -> Iterator[Session]:
    with tiny_engine.session() as session:
        yield session
    tiny_engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_the_second_turn_computes_only_what_is_new(tiny_engine: Engine, session: Session) -> None:
    session.append("One question that is long enough to notice")
    first = session.generate(FREE)
    num_tokens = len(session)
    before = tiny_engine.stats().prefill_tokens
    session.append("\nand a second")
    second = session.generate(FREE)
    # All but the last generated token were cached when it was picked.
    assert second.usage.cached_tokens == num_tokens - 1
    assert tiny_engine.stats().prefill_tokens - before == len("\nand a second") + 1
    assert first.usage.cached_tokens == 0


def test_what_was_generated_stays_in_the_context(session: Session) -> None:
    session.append("abc")
    output = session.generate(FREE)
    assert session.token_ids == [*session._engine.encode("abc"), *output.token_ids]  # pyright: ignore[reportPrivateUsage]


def test_a_stop_cuts_the_context_where_it_cuts_the_text(tiny_engine: Engine, session: Session) -> None:
    session.append("abc")
    free = session.generate(SamplingParams(max_tokens=12, ignore_eos=True))
    stop = free.token_ids[4:6]
    session.truncate(3)
    cut = session.generate(SamplingParams(max_tokens=12, ignore_eos=True, stop=[stop]))
    assert cut.token_ids == free.token_ids[:4]
    assert cut.finish_reason == "stop"
    assert cut.stop_reason == stop
    assert len(session) == 3 + 4


def test_a_session_in_small_memory_is_evicted_and_computed_again(tiny_folder: Path) -> None:
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0002) as engine:
        assert engine.config.num_kv_blocks == 3
        first, second = engine.session(), engine.session()
        first.append("a" * 200)
        expected = first.generate(FREE)
        first.truncate(200)
        second.append("b" * 200)
        second.generate(FREE)
        assert first.num_cached_tokens == 0
        again = first.generate(FREE)
        assert again.token_ids == expected.token_ids
        # The second took two of three blocks; what is left is found again by its tokens.
        assert again.usage.cached_tokens == 128
        assert engine.stats().num_evictions == 2


def test_closing_a_stream_keeps_what_came_and_frees_the_session(session: Session) -> None:
    session.append("abc")
    stream = session.stream(SamplingParams(max_tokens=200, ignore_eos=True))
    next(stream)
    with pytest.raises(SessionError, match="generating"):
        session.append("more")
    stream.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert 3 < len(session) < 203
    session.append("more")


def test_streamed_texts_concatenate_to_the_output(session: Session) -> None:
    session.append("xyz")
    deltas = list(session.stream(SamplingParams(max_tokens=30, ignore_eos=True)))
    assert deltas[-1].output is not None
    assert "".join(delta.text for delta in deltas) == deltas[-1].output.text


def test_a_constraint_decides_what_comes_and_where_it_ends(session: Session) -> None:
    session.append("pick:")
    output = session.generate(SamplingParams(max_tokens=20), choice(["left", "leftover", "right"], delimiter="\n"))
    assert output.text in ("left\n", "leftover\n", "right\n")
    assert output.finish_reason == "stop"


def test_a_trailing_blank_is_refused_with_the_reason(session: Session) -> None:
    with pytest.raises(ConfigError, match=r"ends in a blank.*newline is fine"):
        session.append("Answer: ")
    session.append("Answer:\n")


def test_a_context_that_is_full_is_refused_with_numbers(tiny_engine: Engine, session: Session) -> None:
    with pytest.raises(PromptTooLongError, match=r"1,024 tokens.*takes 1,024"):
        session.append("a" * 1024)
    session.append("a" * 1020)
    with pytest.raises(PromptTooLongError, match=r"1,020 tokens.*max_tokens=8"):
        session.generate(FREE)


def test_an_empty_session_has_nothing_to_generate_from(session: Session) -> None:
    with pytest.raises(SessionError, match="empty"):
        session.generate()


def test_a_closed_session_says_so(tiny_engine: Engine) -> None:
    session = tiny_engine.session()
    session.close()
    session.close()
    for refused in (session.fork, session.generate, lambda: session.append("a"), lambda: session.truncate(0)):
        with pytest.raises(SessionError, match="closed"):
            refused()


def test_truncating_beyond_the_end_is_refused(session: Session) -> None:
    session.append("abc")
    with pytest.raises(ConfigError, match="holds 3 tokens"):
        session.truncate(4)


@pytest.mark.parametrize("num_tokens", [1.5, "1", True, None])
def test_truncating_to_what_is_no_whole_number_is_refused(session: Session, num_tokens: Any) -> None:
    session.append("abc")
    with pytest.raises(
        ConfigError, match=r"num_tokens is .*; the session holds 3 tokens\. Give a whole number up to that"
    ):
        session.truncate(num_tokens)
    assert len(session) == 3


def test_closing_a_session_that_generates_cancels_it_and_hurts_nobody_else(tiny_engine: Engine) -> None:
    expected = tiny_engine.generate("abc", SamplingParams(max_tokens=60, ignore_eos=True)).token_ids
    session = tiny_engine.session()
    session.append("abc")
    stream = session.stream(SamplingParams(max_tokens=500, ignore_eos=True))
    next(stream)
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(tiny_engine.generate, "abc", SamplingParams(max_tokens=60, ignore_eos=True))
        session.close()
        assert beside.result().token_ids == expected
    tiny_engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_of_two_threads_one_generates_and_the_other_is_told(session: Session) -> None:
    session.append("abc")
    start = threading.Barrier(2)

    def generate() -> str:
        start.wait()
        try:
            session.generate(SamplingParams(max_tokens=450), regex("[a-z]{400,450}"))
        except SessionError:
            return "told"
        return "generated"

    with ThreadPoolExecutor(2) as pool:
        results = sorted(future.result() for future in [pool.submit(generate) for _ in range(2)])
    assert results == ["generated", "told"]


def test_a_stream_that_is_closed_or_forgotten_unread_leaves_the_session_usable(session: Session) -> None:
    session.append("abc")
    session.stream(FREE).close()
    session.append("d")
    session.stream(FREE)
    gc.collect()
    session.append("e")


def test_more_completions_than_one_are_refused(session: Session) -> None:
    session.append("abc")
    with pytest.raises(ConfigError, match="n is 3"):
        session.generate(SamplingParams(n=3, temperature=1.0))


def test_text_cut_by_a_stop_inside_a_token_is_in_the_context_again(session: Session) -> None:
    session.append("abc")
    free = session.generate(SamplingParams(max_tokens=12, ignore_eos=True))
    session.truncate(3)
    cut = session.generate(SamplingParams(max_tokens=12, ignore_eos=True, stop=[free.token_ids[5:7]]))
    assert session.token_ids[3:] == list(cut.token_ids)


@pytest.mark.parametrize("prompt_len", [5, 126, 128])
def test_a_session_and_its_fork_go_on_right_after_tokens_were_taken_back(
    prompt_len: int, tiny_engine: Engine, session: Session, finite_constraint: Callable[..., Constraint]
) -> None:
    words = {bytes([first, second, third]) for first in b"abcd" for second in b"abcd" for third in b"abcd"}
    session.append("q" * prompt_len)
    before = tiny_engine.stats().num_rollbacks
    output = session.generate(SamplingParams(max_tokens=5), finite_constraint({b"dab"}, words))
    assert tiny_engine.stats().num_rollbacks > before
    assert output.text == "dab"
    assert session.token_ids == tiny_engine.encode("q" * prompt_len + "dab")
    with session.fork() as fork, tiny_engine.session() as fresh:
        fresh.append(session.token_ids)
        expected = fresh.generate(FREE).token_ids
        assert fork.generate(FREE).token_ids == expected
        assert session.generate(FREE).token_ids == expected


def test_a_failed_search_leaves_the_session_at_its_prompt(
    session: Session, finite_constraint: Callable[..., Constraint]
) -> None:
    session.append("abc")
    with pytest.raises(ConstraintError, match="every token that can begin the text"):
        session.generate(None, finite_constraint(set(), {b"xy", b"z"}))
    assert len(session) == 3
    assert session.generate(FREE).token_ids


def test_a_session_whose_request_was_cancelled_elsewhere_waits_for_its_end(
    tiny_engine: Engine, session: Session
) -> None:
    session.append("abc")
    requests: list[Request] = []
    session.submit(SamplingParams(max_tokens=300, ignore_eos=True), None, requests.append)
    with pytest.raises(SessionError, match="generating"):
        session.append("more")
    tiny_engine.loop.cancel(requests[0])
    session.append("more")
    assert requests[0].is_done


@pytest.mark.parametrize(
    ("max_examples", "num_steps"), [(20, 20), pytest.param(300, 40, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_whatever_happens_to_sessions_their_contexts_are_those_of_a_naive_engine(
    tiny_folder: Path, tmp_path: Path, finite_constraint: Callable[..., Constraint], max_examples: int, num_steps: int
) -> None:
    digits = {"type": "integer", "minimum": 0, "maximum": 3}
    call = {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}, "day": digits},
        "required": ["city", "day"],
    }
    words = {b"<<" + bytes([first, second]) + b">>" for first in b"abc" for second in b"abc"}
    options: dict[str, Any] = {"quantization": "none", "dtype": "float32"}
    # Five blocks of 128 tokens.
    small = Engine(str(tiny_folder), **options, kv_cache_gb=0.00032)
    naive = Engine(
        str(tiny_folder),
        **options,
        kv_cache_gb=0.004,
        max_draft_len=0,
        prefix_cache=False,
        max_model_len=small.context_len,
    )
    with small, naive:
        machine = type(
            "Machine",
            (SessionMachine,),
            {
                "engine": small,
                "naive": naive,
                "folder": tmp_path,
                "constraints": (
                    choice(["search", "search_web", "finish"], delimiter="\n"),
                    regex("Action: (ab|ba){2,9} End"),
                    json_schema(call),
                    json_schema({"type": "array", "items": digits, "uniqueItems": True, "minItems": 3, "maxItems": 4}),
                    finite_constraint({b"<<ca>>", b"<<cb>>"}, words, forces_text=True),
                    finite_constraint(set(), words, forces_text=True),
                ),
            },
        )
        run_state_machine_as_test(machine, settings=settings(max_examples=max_examples, stateful_step_count=num_steps))
        stats = small.stats()
        assert min(stats.num_evictions, stats.num_preemptions, stats.num_rollbacks) > 0
        assert min(stats.forced_tokens, stats.accepted_draft_tokens) > 0
        assert stats.kv_blocks_used == 0
