"""What `dspy.LM(engine=..., async_engine=...)` takes: requests in, answers out, one attempt each."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, aclosing, closing, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

from dspy import lm15
from dspy.utils.exceptions import LMError

from sureact.async_engine import AsyncEngine, EngineOptions
from sureact.constraints.choice import choice
from sureact.engine import Engine
from sureact.engine_verbs import EngineVerbs
from sureact.errors import (
    ConfigError,
    ConstraintCompileError,
    OutputTruncatedError,
    PromptTooLongError,
    UnsupportedSchemaError,
)
from sureact.integrations.dspy_answer import Answer, Delta, Dialogue, Generate, Score, Truncate
from sureact.integrations.dspy_prompt import PromptWriter
from sureact.integrations.dspy_request import COMPLETED, Ask, read_request, unserved
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.async_session import AsyncSession
    from sureact.isolation.engine_process import EngineProcess
    from sureact.isolation.process_session import ProcessSession
    from sureact.isolation.process_stream import ProcessStream
    from sureact.outputs import StepOutput
    from sureact.session import Session
    from sureact.stream import DeltaStream

AnyEngine: TypeAlias = "Engine | EngineProcess"

StreamEvent: TypeAlias = lm15.StreamStartEvent | lm15.StreamDeltaEvent | lm15.StreamEndEvent

PREFIX = "sureact/"
"""What stands before a model's name in dspy."""

_MOST_BY_DEFAULT = 1024


class AnswerTruncatedError(LMError, OutputTruncatedError, ValueError):
    """`max_tokens` ended an answer that had a form to keep: `dspy.ReAct` then ends its loop and extracts."""

    default_code = "output_truncated"


class _Front:
    """What both halves share: the capabilities that dspy's adapters read, and the way from a request to a dialogue."""

    supports_function_calling: ClassVar[bool] = True
    supports_reasoning: ClassVar[bool] = False
    supports_response_schema: ClassVar[bool] = True
    supported_params: ClassVar[frozenset[str]] = frozenset(
        {
            "frequency_penalty",
            "logprobs",
            "max_tokens",
            "parallel_tool_calls",
            "presence_penalty",
            "response_format",
            "seed",
            "stop",
            "temperature",
            "tool_choice",
            "tools",
            "top_k",
            "top_logprobs",
            "top_p",
        }
    )

    def __init__(self, engine: AnyEngine) -> None:
        self._engine = engine
        self._prompts = PromptWriter(engine)

    @property
    def engine(self) -> AnyEngine:
        """The engine itself."""
        return self._engine

    def dump_state(self) -> dict[str, Any]:
        """Return what `load_state` needs: the model's name and how it was opened; nothing of this machine."""
        opened = _OPENED.get(self._engine) if isinstance(self._engine, Engine) else None
        model, options = opened or (self._engine.name, EngineOptions())
        return {"model": model, "options": dict(options)}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> Self:
        """Open the model again, or use the one that is open in this process.

        Raises:
            SureactError: the model cannot be opened; see `Engine`.
        """
        return cls(open_engine(state["model"], cast("EngineOptions", state["options"])))

    def __copy__(self) -> Self:
        """Return itself: copies of a program share the engine."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: copies of a program share the engine."""
        return self

    def _read(self, request: lm15.Request, *, is_stream: bool) -> tuple[Ask, Dialogue, list[int]]:
        name = self._engine.name
        if request.model not in (name, PREFIX + name):
            raise lm15.UnsupportedModelError(
                f"This engine runs {name!r}, not {request.model!r}. Call it dspy.LM({PREFIX + name!r}, engine=...).",
                provider="sureact",
            )
        ask = read_request(request, min(_MOST_BY_DEFAULT, self._engine.context_len // 4))
        if is_stream and ask.probabilities == "required":
            raise unserved("config.probabilities", "a stream holds no probabilities. Ask for the whole answer.")
        prompt_ids = self._engine.encode_prompt(self._prompts.render(ask), parse_control_tokens=False)
        call = None if ask.calls is None else self._prompts.call_constraint(ask.calls)
        dialogue = Dialogue(ask, call, len(prompt_ids), self._engine.vocabulary, self._prompts.tag_ids)
        return ask, dialogue, prompt_ids

    def _response(self, request: lm15.Request, ask: Ask, answer: Answer) -> lm15.Response:
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(list(answer.parts)),
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            logprobs=answer.logprobs,
            adaptations=_adaptations(ask, is_stream=False),
        )


class DspyEngine(_Front):
    """An engine, here or in a process, for dspy's threads. Safe to call from many: their requests run together."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        """Return the answer to a request.

        Raises:
            lm15.ContextLengthError: prompt and `max_tokens` exceed the context.
            lm15.UnsupportedFeatureError: something that is asked for is not served.
            lm15.InvalidRequestError: an option has a value that is not allowed.
            AnswerTruncatedError: `max_tokens` ended a constrained answer inside it.
        """
        with _errors_of_dspy():
            ask, dialogue, prompt_ids = self._read(request, is_stream=False)
            steps = self._run(dialogue, prompt_ids)
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    return self._response(request, ask, end.value)

    def stream(self, request: lm15.Request) -> Generator[StreamEvent]:
        """Yield the answer as it comes; closing cancels. Raises what `complete` does."""
        with _errors_of_dspy():
            ask, dialogue, prompt_ids = self._read(request, is_stream=True)
            yield lm15.StreamStartEvent(model=request.model, adaptations=_adaptations(ask, is_stream=True))
            answer = yield from _events(self._run(dialogue, prompt_ids))
            yield lm15.StreamEndEvent(finish_reason=answer.finish_reason, usage=answer.usage)

    def close(self) -> None:
        """Close an engine that `lm` or `load_state` opened; one that was given stays open."""
        if isinstance(self._engine, Engine):
            _close_if_own(self._engine)

    def _run(self, dialogue: Dialogue, prompt_ids: list[int]) -> Generator[Delta, None, Answer]:
        steps = dialogue.run()
        reply: object = None
        with self._engine.session() as session:
            session.append(prompt_ids)
            while True:
                try:
                    step = steps.send(reply)
                except StopIteration as end:
                    return end.value
                reply = None
                match step:
                    case Generate():
                        reply = yield from _generate(session, step)
                    case Truncate():
                        session.truncate(step.num_tokens)
                    case Score():
                        reply = self._score(session, step)
                    case _:
                        yield step

    def _score(self, session: Session | ProcessSession, step: Score) -> list[float]:
        with ExitStack() as stack:
            streams: list[DeltaStream | ProcessStream] = []
            for text in step.texts:
                fork = stack.enter_context(session.fork())
                fork.truncate(step.num_prompt_tokens)
                streams.append(stack.enter_context(fork.stream(_score_params(self._engine, text), choice([text]))))
            return [_likelihood(stream.read_output()) for stream in streams]


class AsyncDspyEngine(_Front):
    """The engine for dspy's event loops, which it never blocks. Cancelling a task frees its request."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._async_engine = AsyncEngine.of(engine)

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """Return the answer to a request. Raises what `DspyEngine.complete` does."""
        with _errors_of_dspy():
            ask, dialogue, prompt_ids = await asyncio.to_thread(self._read, request, is_stream=False)
            answer: Answer | None = None
            async with aclosing(self._run(dialogue, prompt_ids)) as run:
                async for shown in run:
                    answer = shown if isinstance(shown, Answer) else answer
            assert answer is not None, "a dialogue ends with its answer"
            return self._response(request, ask, answer)

    async def stream(self, request: lm15.Request) -> AsyncGenerator[StreamEvent]:
        """Yield the answer as it comes; closing cancels. Raises what `DspyEngine.complete` does."""
        with _errors_of_dspy():
            ask, dialogue, prompt_ids = await asyncio.to_thread(self._read, request, is_stream=True)
            yield lm15.StreamStartEvent(model=request.model, adaptations=_adaptations(ask, is_stream=True))
            async with aclosing(self._run(dialogue, prompt_ids)) as run:
                async for shown in run:
                    if isinstance(shown, Answer):
                        yield lm15.StreamEndEvent(finish_reason=shown.finish_reason, usage=shown.usage)
                    else:
                        yield lm15.StreamDeltaEvent(shown)

    async def aclose(self) -> None:
        """Close an engine that `lm` or `load_state` opened; one that was given stays open."""
        await self._async_engine.close()
        await asyncio.to_thread(_close_if_own, self._async_engine.engine)

    async def _run(self, dialogue: Dialogue, prompt_ids: list[int]) -> AsyncGenerator[Delta | Answer]:
        steps = dialogue.run()
        reply: object = None
        async with self._async_engine.session() as session:
            await session.append(prompt_ids)
            while True:
                try:
                    step = steps.send(reply)
                except StopIteration as end:
                    yield end.value
                    return
                reply = None
                match step:
                    case Generate():
                        async with session.stream(step.params, step.constraint) as deltas:
                            async for delta in deltas:
                                if step.is_shown and delta.text:
                                    yield lm15.TextDelta(delta.text)
                                reply = delta.output
                    case Truncate():
                        await session.truncate(step.num_tokens)
                    case Score():
                        reply = await asyncio.gather(*(self._score(session, step, text) for text in step.texts))
                    case _:
                        yield step

    async def _score(self, session: AsyncSession, step: Score, text: str) -> float:
        async with await session.fork() as fork:
            await fork.truncate(step.num_prompt_tokens)
            return _likelihood(await fork.generate(_score_params(self._engine, text), choice([text])))


_OPENED: weakref.WeakKeyDictionary[Engine, tuple[str, EngineOptions]] = weakref.WeakKeyDictionary()
"""How the engines of this process that were opened here were opened, so that a saved program finds its own again."""

_OPENED_LOCK = Lock()


def open_engine(model: str, options: EngineOptions) -> Engine:
    """Open a model, or return the engine that has it open with the same options."""
    with _OPENED_LOCK:
        for engine, opened in _OPENED.items():
            if opened == (model, options):
                return engine
        engine = Engine(model, **options)
        _OPENED[engine] = (model, options)
        return engine


def _close_if_own(engine: Engine) -> None:
    with _OPENED_LOCK:
        is_own = _OPENED.pop(engine, None) is not None
    if is_own:
        engine.close()


def _generate(session: Session | ProcessSession, step: Generate) -> Generator[Delta, None, StepOutput | None]:
    output = None
    with session.stream(step.params, step.constraint) as deltas:
        for delta in deltas:
            if step.is_shown and delta.text:
                yield lm15.TextDelta(delta.text)
            output = delta.output or output
    return output


def _events(deltas: Generator[Delta, None, Answer]) -> Generator[StreamEvent, None, Answer]:
    with closing(deltas):
        while True:
            try:
                delta = next(deltas)
            except StopIteration as end:
                return end.value
            yield lm15.StreamDeltaEvent(delta)


def _score_params(engine: EngineVerbs, text: str) -> SamplingParams:
    # The constraint leaves one token at each place, and log-probabilities are those of before its mask.
    return SamplingParams(max_tokens=engine.count_tokens(text) + 8, logprobs=0, repetition_penalty=1.0)


def _likelihood(output: StepOutput) -> float:
    return sum(step.picked.logprob for step in output.logprobs or ())


def _adaptations(ask: Ask, *, is_stream: bool) -> tuple[lm15.Adaptation, ...]:
    """Return what is done other than asked, for dspy's history."""
    found: list[lm15.Adaptation] = []
    if ask.ends_at_completed:
        reason = "ChatAdapter reads nothing beyond its marker, so the text ends there."
        found.append(lm15.Adaptation("config.stop", "defaulted", reason, applied=[COMPLETED]))
    if is_stream and ask.probabilities is not None:
        reason = "A stream holds no probabilities."
        found.append(lm15.Adaptation("config.probabilities", "dropped", reason, asked=ask.probabilities))
    return tuple(found)


@contextmanager
def _errors_of_dspy() -> Generator[None]:
    """Say in dspy's terms what went wrong, so that its truncation and its retries work."""
    try:
        yield
    except PromptTooLongError as error:
        raise lm15.ContextLengthError(str(error), provider="sureact") from error
    except (UnsupportedSchemaError, ConstraintCompileError) as error:
        raise unserved("config.response_format", str(error)) from error
    except OutputTruncatedError as error:
        raise AnswerTruncatedError(str(error), provider="sureact") from error
    except ConfigError as error:
        raise lm15.InvalidRequestError(str(error), provider="sureact") from error
