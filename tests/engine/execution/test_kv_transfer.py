"""Keys and values leave the cache and come back as they were, into a file and out of it too."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact.engine import Engine
from sureact.errors import PromptTooLongError, SessionError
from sureact.execution.kv_transfer import LayerKV
from sureact.execution.model_runner import PagedModelRunner
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.saved_session import write_session
from sureact.session import Session

FREE = SamplingParams(max_tokens=8, ignore_eos=True)


@pytest.fixture
def session(tiny_engine: Engine) -> Iterator[Session]:
    with tiny_engine.session() as session:
        yield session
    tiny_engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def read(engine: Engine, session: Session) -> list[LayerKV]:
    return engine.read_kv(sequence_of(session))


def sequence_of(session: Session) -> CachedSequence:
    return session._sequence  # pyright: ignore[reportPrivateUsage]


def test_what_is_read_can_be_written_and_read_again(tiny_engine: Engine) -> None:
    with tiny_engine.session() as session, tiny_engine.session() as copy:
        session.append("ab" * 100)
        session.generate(FREE)
        layers = read(tiny_engine, session)
        assert {len(tensor) for pair in layers for tensor in pair} == {session.num_cached_tokens}
        copy.append(session.token_ids)
        assert tiny_engine.write_kv(sequence_of(copy), layers) == ""
        assert copy.num_cached_tokens == session.num_cached_tokens
        again = read(tiny_engine, copy)
        assert all(
            torch.equal(a, b) for old, new in zip(layers, again, strict=True) for a, b in zip(old, new, strict=True)
        )
        assert copy.generate(FREE).token_ids == session.generate(FREE).token_ids
    tiny_engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_nothing_cached_is_nothing_read(tiny_engine: Engine) -> None:
    with tiny_engine.session() as session:
        session.append("abc")
        assert {len(tensor) for pair in read(tiny_engine, session) for tensor in pair} == {0}


def test_other_shapes_are_left_aside(tiny_engine: Engine) -> None:
    with tiny_engine.session() as session:
        session.append("abc")
        layers = [(torch.ones(2, 7, 3), torch.ones(2, 7, 3))]
        assert "other shapes" in tiny_engine.write_kv(sequence_of(session), layers)
        assert session.num_cached_tokens == 0


def test_a_cache_full_of_running_requests_takes_none(tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def has_no_room(sequence: CachedSequence, num_tokens: int) -> bool:
        return False

    with tiny_engine.session() as session:
        session.append("abc")
        session.generate(FREE)
        layers = read(tiny_engine, session)
        monkeypatch.setattr(tiny_engine._cache, "reserve", has_no_room)  # pyright: ignore[reportPrivateUsage]
        with tiny_engine.session() as copy:
            assert "no room" in tiny_engine.write_kv(sequence_of(copy), layers)


def test_reading_waits_for_no_more_than_a_step_of_the_others(tiny_engine: Engine) -> None:
    with tiny_engine.session() as session:
        session.append("abc")
        session.generate(FREE)
        alone = read(tiny_engine, session)
        with tiny_engine.stream("xyz", SamplingParams(max_tokens=300, ignore_eos=True)) as stream:
            next(stream)
            reader = threading.Thread(target=lambda: results.append(read(tiny_engine, session)))
            results: list[list[LayerKV]] = []
            reader.start()
            reader.join(timeout=20)
            assert tiny_engine.stats().num_running == 1
        assert torch.equal(results[0][0][0], alone[0][0])


def test_a_runner_that_keeps_them_to_itself_says_so(tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Foreign:
        def copy_blocks(self, copies: object) -> None:
            pass

    with tiny_engine.session() as session:
        session.append("abc")
        session.generate(FREE)
        layers = read(tiny_engine, session)
        assert isinstance(tiny_engine.loop._runner, PagedModelRunner)  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(tiny_engine.loop, "_runner", Foreign())
        with pytest.raises(SessionError, match="transformers"):
            read(tiny_engine, session)
        assert "transformers" in tiny_engine.write_kv(sequence_of(session), layers)


def test_keys_and_values_of_no_token_are_read_and_written(tiny_engine: Engine) -> None:
    with tiny_engine.session() as session:
        session.append("not computed yet")
        assert tiny_engine.write_kv(sequence_of(session), read(tiny_engine, session)) == ""
        assert session.num_cached_tokens == 0
        assert len(session.generate(FREE).token_ids) == 8


@pytest.fixture
def saved(tiny_engine: Engine, tmp_path: Path) -> Path:
    """A context of two turns, with keys and values."""
    with tiny_engine.session() as session:
        session.append("a first question\n" * 10)
        session.generate(FREE)
        session.append("\nand a second")
        session.save(tmp_path / "session", with_kv=True)
    return tmp_path / "session"


@pytest.mark.parametrize("with_kv", [True, False])
def test_a_saved_session_goes_on_in_another_engine_as_it_would_have_here(
    tiny_engine: Engine, tiny_folder: Path, tmp_path: Path, with_kv: bool
) -> None:
    copied = shutil.copytree(tiny_folder, tmp_path / "copied")
    with tiny_engine.session() as session:
        session.append("ab" * 100)
        session.generate(FREE)
        num_cached = session.num_cached_tokens
        session.save(tmp_path / "session", with_kv=with_kv)
        expected = session.generate(FREE)
    with (
        Engine(str(copied), quantization="none", dtype="float32", kv_cache_gb=0.0079) as engine,
        engine.session() as again,
    ):
        assert again.load(tmp_path / "session") == (num_cached if with_kv else 0)
        output = again.generate(FREE)
        assert output.token_ids == expected.token_ids
        assert output.usage.cached_tokens == (num_cached if with_kv else 0)
        engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_a_session_saved_with_keys_and_values_before_any_were_computed_is_loaded(
    tiny_engine: Engine, tmp_path: Path
) -> None:
    with tiny_engine.session() as session, tiny_engine.session() as again:
        session.append("abc")
        session.save(tmp_path / "session", with_kv=True)
        assert again.load(tmp_path / "session") == 0
        assert again.generate(FREE).token_ids == session.generate(FREE).token_ids


@pytest.mark.parametrize("token_id", [10**9, -1])
def test_a_saved_id_that_the_model_does_not_have_is_damage(
    tiny_engine: Engine, session: Session, tmp_path: Path, token_id: int
) -> None:
    write_session(tmp_path / "session", tiny_engine.session_origin, [1, token_id], [])
    with pytest.raises(SessionError, match=r"is damaged: -?\d+ is not a token id"):
        session.load(tmp_path / "session")
    assert len(session) == 0


def test_a_load_that_fails_leaves_the_session_empty_for_another_try(
    session: Session, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise OSError("device lost")

    with monkeypatch.context() as patch:
        patch.setattr(PagedModelRunner, "write_blocks", fail)
        with pytest.raises(OSError, match="device lost"):
            session.load(saved)
    assert (len(session), session.num_cached_tokens) == (0, 0)
    assert session.load(saved) > 0


def test_loaded_keys_and_values_are_shared_like_computed_ones(tiny_engine: Engine, saved: Path) -> None:
    tiny_engine._cache.clear_prefix_cache()  # pyright: ignore[reportPrivateUsage]
    with tiny_engine.session() as session:
        assert session.load(saved) > 128
        output = tiny_engine.generate(session.token_ids, FREE).completions[0]
        assert output.usage.cached_tokens >= 128
        assert output.token_ids == session.generate(FREE).token_ids


def test_keys_and_values_made_with_other_settings_are_computed_again(
    tiny_engine: Engine, tiny_folder: Path, saved: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Engine(str(tiny_folder), quantization="none", dtype="bfloat16", kv_cache_gb=0.0079) as engine,
        engine.session() as session,
    ):
        assert session.load(saved) == 0
        assert "dtype was float32, is bfloat16" in caplog.text
        assert len(session.generate(FREE).token_ids) == 8
    with tiny_engine.session() as session:
        caplog.clear()
        session.load(saved)
        assert caplog.text == ""


def test_keys_and_values_in_float8_go_into_a_file_and_back_and_into_no_other_cache(
    tiny_engine: Engine, tiny_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: Any = {"quantization": "none", "dtype": "float32", "kv_cache_gb": 0.0079}
    with Engine(str(tiny_folder), kv_cache_dtype="float8_e4m3", **options) as engine:
        with engine.session() as session:
            session.append("ab" * 100)
            session.generate(FREE)
            num_cached = session.num_cached_tokens
            session.save(tmp_path / "session", with_kv=True)
            expected = session.generate(FREE)
        engine._cache.clear_prefix_cache()  # pyright: ignore[reportPrivateUsage]
        with engine.session() as again:
            assert again.load(tmp_path / "session") == num_cached
            with again.fork() as other:  # a copy of the begun block
                assert other.generate(FREE).token_ids == expected.token_ids
            assert again.generate(FREE).token_ids == expected.token_ids
            assert {tensor.dtype for pair in read(engine, again) for tensor in pair} == {torch.float8_e4m3fn}
    with tiny_engine.session() as session:
        assert session.load(tmp_path / "session") == 0
        assert "kv_cache_dtype was float8_e4m3, is float32" in caplog.text


def test_a_session_of_another_model_is_refused(make_checkpoint: Callable[..., Path], saved: Path) -> None:
    other = make_checkpoint("qwen2", seed=1)
    with (
        Engine(str(other), quantization="none", dtype="float32", kv_cache_gb=0.0079) as engine,
        engine.session() as session,
    ):
        with pytest.raises(SessionError, match=rf"saved with qwen2\S*.*this engine runs {other.name}"):
            session.load(saved)
        assert len(session) == 0


def test_a_session_is_loaded_into_an_empty_one_only(session: Session, saved: Path) -> None:
    session.append("abc")
    with pytest.raises(SessionError, match="holds 3 tokens"):
        session.load(saved)
    session.truncate(0)
    session.load(saved)
    with pytest.raises(SessionError, match="holds"):
        session.load(saved)


def test_a_session_that_generates_or_is_closed_is_neither_saved_nor_loaded(session: Session, saved: Path) -> None:
    session.append("abc")
    with session.stream(SamplingParams(max_tokens=200, ignore_eos=True)) as stream:
        next(stream)
        with pytest.raises(SessionError, match="generating"):
            session.save(saved)
    session.close()
    for refused in (session.save, session.load):
        with pytest.raises(SessionError, match="closed"):
            refused(saved)


def test_a_context_longer_than_the_engine_takes_is_refused(tiny_folder: Path, saved: Path) -> None:
    with (
        Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0079, max_model_len=64) as engine,
        engine.session() as session,
    ):
        with pytest.raises(PromptTooLongError, match="takes 64"):
            session.load(saved)
        assert len(session) == 0
