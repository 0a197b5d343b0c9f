import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.errors import ConfigError, ConstraintCompileError, PromptTooLongError, SessionError
from sureact.isolation.engine_process import EngineProcess
from sureact.isolation.messages import End, pack_failure
from sureact.isolation.process_session import Context, ProcessSession
from sureact.outputs import StreamDelta
from sureact.sampling_params import SamplingParams
from sureact.session import Session

SHORT = SamplingParams(max_tokens=12)
LONG = SamplingParams(max_tokens=900, ignore_eos=True)


def converse(session: Session | ProcessSession) -> list[Any]:
    """Do what a session can do, and tell what came of it."""
    told: list[Any] = [session.append("One two")]
    told.append(session.generate(SHORT).token_ids)
    told.append(session.append(" more"))
    session.truncate(len(session) - 3)
    told.append("".join(delta.text for delta in session.stream(SHORT)))
    fork = session.fork()
    told += [fork.generate(SamplingParams(max_tokens=20, stop=["e", "a", " "])).text, fork.token_ids]
    told.append(session.generate(SamplingParams(max_tokens=30), regex("[a-c]{5}")).value)
    fork.truncate(4)
    told += [fork.generate(SHORT).text, fork.token_ids, session.token_ids, len(session)]
    fork.close()
    return told


def test_a_session_does_what_one_of_this_process_does(engine_process: EngineProcess, engine: Engine) -> None:
    assert converse(engine_process.session()) == converse(engine.session())


def test_threads_share_the_engine(engine_process: EngineProcess, engine: Engine) -> None:
    expected = converse(engine.session())
    told: list[list[Any]] = []
    threads = [threading.Thread(target=lambda: told.append(converse(engine_process.session()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [expected] * 8


def test_cached_tokens_are_those_of_the_process(engine_process: EngineProcess) -> None:
    with engine_process.session() as session:
        assert session.num_cached_tokens == 0
        session.append("One two")
        session.generate(SHORT)
        cached = session.num_cached_tokens
        assert len(session) - 1 <= cached <= len(session)
        session.truncate(5)
        assert session.num_cached_tokens == 5


def test_closing_a_stream_keeps_what_was_generated(engine_process: EngineProcess) -> None:
    session = engine_process.session()
    session.append("One two")
    stream = session.stream(LONG)
    next(stream)
    with pytest.raises(SessionError, match="is generating"):
        session.append("x")
    stream.close()
    kept = session.token_ids
    assert len(kept) > 7
    assert session.fork().token_ids == kept
    output = session.generate(SHORT)
    assert session.token_ids == [*kept, *output.token_ids]


def test_a_session_goes_on_after_a_forgotten_stream_and_after_a_failure(engine_process: EngineProcess) -> None:
    session = engine_process.session()
    session.append("One two")
    next(session.stream(LONG))
    gc.collect()
    num_tokens = session.append(" and") + len(session)
    assert num_tokens >= len(session)
    with pytest.raises(ConstraintCompileError):
        session.generate(SHORT, regex("(?=a)"))
    before = session.token_ids
    output = session.generate(SHORT)
    assert session.token_ids == [*before, *output.token_ids]


def test_a_stream_goes_on_when_its_session_is_forgotten(engine_process: EngineProcess) -> None:
    session = engine_process.session()
    session.append("One two")
    stream = session.stream(SamplingParams(max_tokens=60, ignore_eos=True))
    del session
    gc.collect()
    assert stream.read_output().finish_reason == "length"


def test_closing_a_session_ends_what_another_thread_reads(engine_process: EngineProcess) -> None:
    session = engine_process.session()
    session.append("One two")
    reasons: list[str] = []
    thread = threading.Thread(target=lambda: reasons.append(session.generate(LONG).finish_reason))
    thread.start()
    while engine_process.stats().num_running == 0:
        time.sleep(0.01)
    session.close()
    thread.join()
    assert reasons == ["abort"]
    with pytest.raises(SessionError, match="closed"):
        session.generate(SHORT)
    session.close()


def test_sessions_that_end_leave_nothing(engine_process: EngineProcess) -> None:
    engine_process.clear_prefix_cache()
    before = engine_process.stats().kv_blocks_used
    sessions = [engine_process.session() for _ in range(3)]
    for session in sessions:
        session.append("One two")
        session.generate(SHORT)
    sessions[0].close()
    session = sessions.pop()
    del sessions, session
    gc.collect()
    deadline = time.monotonic() + 20
    while engine_process.stats().kv_blocks_used > before and time.monotonic() < deadline:
        time.sleep(0.02)
        engine_process.clear_prefix_cache()
    assert engine_process.stats().kv_blocks_used <= before


def test_mistakes_are_refused_here(engine_process: EngineProcess) -> None:
    session = engine_process.session()
    with pytest.raises(SessionError, match="empty"):
        session.generate(SHORT)
    with pytest.raises(ConfigError, match="blank"):
        session.append("One ")
    with pytest.raises(ConfigError, match="num_tokens"):
        session.truncate(1)
    with pytest.raises(ConfigError, match="n is 2"):
        session.stream(SamplingParams(n=2, temperature=1.0))
    with pytest.raises(PromptTooLongError, match="would hold"):
        session.append("x" * 20_000)
    assert len(session) == 0


def test_a_context_is_saved_and_loaded(engine_process: EngineProcess, tmp_path: Path) -> None:
    session = engine_process.session()
    session.append("One two")
    session.generate(SHORT)
    session.save(tmp_path / "s.safetensors", with_kv=True)
    loaded = engine_process.session()
    assert loaded.load(tmp_path / "s.safetensors") > 0
    assert loaded.token_ids == session.token_ids
    assert loaded.generate(SHORT).token_ids == session.generate(SHORT).token_ids
    with pytest.raises(SessionError, match="empty session"):
        loaded.load(tmp_path / "s.safetensors")


def test_a_context_follows_a_generation_and_ends_with_what_stays() -> None:
    context = Context([1, 2, 3], num_told=1)
    context.begin()
    assert context.num_told == 3
    context.take(StreamDelta(text="x", token_ids=(4, 5)))
    assert context.token_ids == [1, 2, 3, 4, 5]
    context.take(End(StreamDelta(text=""), [4]))
    assert (context.token_ids, context.num_told) == ([1, 2, 3, 4], 4)
    context.truncate(2)
    assert (context.token_ids, context.num_told) == ([1, 2], 2)
    context.begin()
    context.take(pack_failure(ValueError("no")))
    assert (context.token_ids, context.num_told) == ([1, 2], 2)
