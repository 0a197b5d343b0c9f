"""Random lives of sessions on an engine with guesses, sharing and little memory, held against one without any."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from sureact.engine import Engine
from sureact.errors import SureactError
from sureact.outputs import StepOutput
from sureact.sampling_params import SamplingParams
from sureact.session import Session

TEXTS = ("a", "abcabcabc", "Question: which of the two?\n", "0123456789" * 6, "xy" * 60, "abcabcabc" * 13)
MAX_LEN = 330
"""Tokens of a context that still grows; the cache has room for little more than one of them."""

PARAMS = (
    SamplingParams(max_tokens=1, ignore_eos=True),
    SamplingParams(max_tokens=30, ignore_eos=True),
    SamplingParams(max_tokens=12, min_tokens=3),
    SamplingParams(max_tokens=20, stop=["a", [97, 97]], min_tokens=2),
    SamplingParams(max_tokens=20, stop=["\n", "bc", "Z"], include_stop=True),
    SamplingParams(max_tokens=20, temperature=0.3, seed=1, ignore_eos=True),
    SamplingParams(max_tokens=20, repetition_penalty=1.2, frequency_penalty=0.5, ignore_eos=True),
)
CONSTRAINED = (
    SamplingParams(max_tokens=7),
    SamplingParams(max_tokens=70),
    SamplingParams(max_tokens=70, temperature=1.0, seed=2),
)

NUM_CONSTRAINTS = 6


class SessionMachine(RuleBasedStateMachine):
    """Every context must stay what one token at a time, from a fresh prompt, makes of it."""

    engine: ClassVar[Engine]
    naive: ClassVar[Engine]
    constraints: ClassVar[Sequence[object]]
    folder: ClassVar[Path]
    sessions = Bundle("sessions")
    asked = st.one_of(
        st.tuples(st.sampled_from(PARAMS), st.none()),
        st.tuples(st.sampled_from(CONSTRAINED), st.integers(0, NUM_CONSTRAINTS - 1)),
    )

    def __init__(self) -> None:
        super().__init__()
        self.contexts: dict[Session, list[int]] = {}

    @initialize(target=sessions)
    def open_three(self) -> Any:
        """Enough to fill the cache."""
        opened = [self.open(text, None) for text in TEXTS[-3:]]
        self.generate_together(opened, [(PARAMS[1], None)] * 3)
        return multiple(*opened)

    @rule(target=sessions, text=st.sampled_from(TEXTS), salt=st.sampled_from([None, None, "other"]))
    def open(self, text: str, salt: str | None) -> Session:
        session = self.engine.session(cache_salt=salt)
        self.contexts[session] = []
        self.append(session, text)
        return session

    @rule(session=sessions, text=st.sampled_from(TEXTS))
    def append(self, session: Session, text: str) -> None:
        if len(session) + len(text) < MAX_LEN:
            session.append(text)
            self.contexts[session] += self.naive.encode(text)

    @rule(session=sessions, asked=asked)
    def generate(self, session: Session, asked: tuple[SamplingParams, int | None]) -> None:
        self.generate_together([session], [asked])

    @rule(sessions=st.lists(sessions, max_size=5, unique=True), asked=st.lists(asked, min_size=5, max_size=5))
    def generate_together(self, sessions: list[Session], asked: Sequence[tuple[SamplingParams, int | None]]) -> None:
        """Start all before any is read."""
        ready = [
            (session, *self._resolved(ask))
            for session, ask in zip(sessions, asked, strict=False)
            if 0 < len(session) < MAX_LEN
        ]
        streams = [session.stream(params, constraint) for session, params, constraint in ready]
        for (session, params, constraint), stream in zip(ready, streams, strict=True):
            expected, self.contexts[session] = self._expected(self.contexts[session], params, constraint)
            assert _outcome(stream.read_output) == expected

    @rule(session=sessions, num_deltas=st.integers(0, 6), beside=sessions)
    def cancel(self, session: Session, num_deltas: int, beside: Session) -> None:
        """What came until then stays."""
        if not 0 < len(session) < MAX_LEN:
            return
        params = SamplingParams(max_tokens=40, ignore_eos=True)
        before = self.contexts[session]
        with session.stream(params) as stream:
            if beside is not session:
                self.generate(beside, (PARAMS[1], None))
            for _ in range(num_deltas):
                if next(stream, None) is None:
                    break
        _, whole = self._expected(before, params, None)
        assert session.token_ids == whole[: len(session)]
        assert len(session) >= len(before)
        self.contexts[session] = session.token_ids

    @rule(target=sessions, session=sessions)
    def fork(self, session: Session) -> Any:
        if len(self.contexts) > 8:
            return multiple()
        fork = session.fork()
        self.contexts[fork] = list(self.contexts[session])
        return fork

    @rule(session=sessions, share=st.floats(0, 1))
    def truncate(self, session: Session, share: float) -> None:
        num_tokens = int(share * len(session))
        session.truncate(num_tokens)
        del self.contexts[session][num_tokens:]

    @rule(target=sessions, session=consumes(sessions), with_kv=st.booleans())
    def save_and_load(self, session: Session, with_kv: bool) -> Session:
        session.save(self.folder / "session", with_kv=with_kv)
        session.close()
        loaded = self.engine.session()
        loaded.load(self.folder / "session")
        self.contexts[loaded] = self.contexts.pop(session)
        return loaded

    @rule(session=consumes(sessions))
    def close(self, session: Session) -> None:
        session.close()
        del self.contexts[session]

    @invariant()
    def contexts_are_right_and_no_block_is_lost(self) -> None:
        with self.engine.loop.lock:
            self.engine._cache.check()  # pyright: ignore[reportPrivateUsage]
        for session, token_ids in self.contexts.items():
            assert session.token_ids == token_ids
        assert self.engine.stats().num_running == self.engine.stats().num_waiting == 0

    def teardown(self) -> None:
        for session in self.contexts:
            session.close()

    def _resolved(self, asked: tuple[SamplingParams, int | None]) -> tuple[SamplingParams, object]:
        return asked[0], None if asked[1] is None else self.constraints[asked[1]]

    def _expected(self, token_ids: list[int], params: SamplingParams, constraint: object) -> tuple[object, list[int]]:
        """Return what the naive engine says after a context, and the context then."""
        with self.naive.session() as session:
            session.append(token_ids)
            return _outcome(lambda: session.generate(params, constraint)), session.token_ids


def _outcome(generate: Callable[[], StepOutput]) -> object:
    try:
        output = generate()
    except SureactError as error:
        return type(error), str(error)
    return output.text, output.token_ids, output.finish_reason, output.stop_reason, output.value
