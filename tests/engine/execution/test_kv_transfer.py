"""Keys and values leave the cache and come back as they were."""

import threading

import pytest
import torch

from sureact.engine import Engine
from sureact.errors import SessionError
from sureact.execution.kv_transfer import LayerKV
from sureact.execution.model_runner import PagedModelRunner
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.session import Session

FREE = SamplingParams(max_tokens=8, ignore_eos=True)


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
