"""One run of an agent for a client: it works on a thread of its own, and its events come to the event loop."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from sureact.agent.async_call import call_on_thread
from sureact.agent.events import Event, ObservationReady
from sureact.agent.module_scope import current_cancellation
from sureact.agent.react import ReAct
from sureact.agent.signature import Signature
from sureact.agent.token_limits import TokenLimits
from sureact.agent.tool import FINISH, Tool
from sureact.errors import (
    ContextWindowExceededError,
    InternalError,
    OutputTruncatedError,
    SignatureError,
    UnsupportedSchemaError,
)
from sureact.server.agent_answer import RunAnswer
from sureact.server.agent_model import AgentModel
from sureact.server.api_error import ApiError, api_error_of
from sureact.server.request_fields import shown

if TYPE_CHECKING:
    from sureact.server.agent_answer import AgentEvent
    from sureact.server.serving import Serving

Tell = Callable[["AgentEvent"], Awaitable[None]]

_MAX_EVENTS_AHEAD = 1000
"""That a run may be ahead of a client that reads slowly; then it waits."""
_LOOK_UP_S = 0.2
"""After which a run that waits looks whether it is cancelled."""
_MAX_MESSAGE_CHARS = 600
_WORKED = frozenset({"done", "error", "timeout"})
"""Outcomes of calls for which a tool was at work."""


class ServedAgent:
    """An agent as a request describes it, for one run."""

    def __init__(self, serving: Serving, values: Mapping[str, Any], cache_salt: str | None) -> None:
        """Take the request.

        Args:
            serving: has the model and the tools.
            values: of `AGENT_FIELDS`.
            cache_salt: with whom cached beginnings are shared.

        Raises:
            ApiError: it names a tool that there is not, or says twice, or not at all, what goes in.
        """
        self.run_id = f"run_{uuid.uuid4().hex}"
        self._serving = serving
        self._values = values
        self._cache_salt = cache_salt
        self._tools = _chosen_tools(serving.tools, values["tools"])
        _require_names("require_tools", values["require_tools"], self._tools)
        self._inputs = _given_inputs(values)

    async def run(self, tell: Tell | None = None) -> dict[str, Any]:
        """Run it, and return the answer. When the task is cancelled, the run ends with the step that the engine runs.

        Args:
            tell: told of each event, the last of which holds the answer.

        Raises:
            ApiError: the request cannot be carried out.
            SureactError: the engine failed.
        """
        bridge = _Bridge(is_heard=tell is not None)
        task = asyncio.ensure_future(bridge.keep(call_on_thread(partial(self._work, bridge), gives_up_tools=True)))
        task.add_done_callback(lambda _: bridge.events.put_nowait(None))
        try:
            if tell is not None:
                while (event := await bridge.events.get()) is not None:
                    bridge.room.release()
                    await tell(event)
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _work(self, bridge: _Bridge) -> dict[str, Any]:
        """Run the agent, on its thread."""
        running = self._serving.metrics.agents_running
        running.inc()
        try:
            return self._answer(bridge)
        except (ContextWindowExceededError, OutputTruncatedError) as error:
            raise _too_long(error, self._serving.lm.context_len) from error
        except SignatureError as error:
            raise _refused("signature", error) from error
        except Exception:
            raise
        except BaseException as error:  # from a tool; raised on the event loop it would end the server
            raise InternalError(f"A tool raised {type(error).__name__}, which ends a run.") from error
        finally:
            running.dec()
            bridge.end()

    def _answer(self, bridge: _Bridge) -> dict[str, Any]:
        def on_event(event: Event) -> None:
            self._note(event)
            bridge.put(answer.add(event))

        model = AgentModel(
            self._serving.lm,
            self._cache_salt,
            lambda output, is_constrained: bridge.put(answer.add_output(output, is_constrained=is_constrained)),
        )
        agent, inputs = self._agent(model, on_event)
        answer = RunAnswer(self.run_id, self._serving.model_name, self._inputs, agent.prompt_format.after_thought)
        agent(**inputs)
        bridge.put([answer.completed])
        return answer.whole

    def _agent(self, model: AgentModel, on_event: Callable[[Event], None]) -> tuple[ReAct, dict[str, Any]]:
        """Return the agent and its inputs in the types of the signature."""
        values = self._values
        try:
            signature = Signature(values["signature"], values["instructions"])
        except RecursionError as error:
            raise ApiError("signature is nested too deep.", param="signature", code="invalid_value") from error
        try:
            inputs = signature.check_inputs(self._inputs)
        except SignatureError as error:
            raise _refused("inputs" if values["question"] is None else "question", error) from error
        try:
            agent = ReAct(
                signature,
                self._tools.values(),
                lm=model,
                max_iters=values["max_iters"],
                prompt_format=values["format"],
                on_repeat=values["on_repeat"],
                require_tools=values["require_tools"],
                limits=_limits(values),
                on_event=on_event,
                dry_run=values["dry_run"],
            )
        except UnsupportedSchemaError as error:  # of an output: those of the tools were looked at when they came
            raise api_error_of(error, param="signature") from error
        return agent, inputs

    def _note(self, event: Event) -> None:
        """Count the time of a tool."""
        step = event.step if isinstance(event, ObservationReady) else None
        if step is not None and step.outcome in _WORKED and not step.is_repeat and step.tool_name != FINISH:
            self._serving.metrics.tool_time.observe(step.tool_s)


class _Bridge:
    """From the thread of a run to the event loop."""

    def __init__(self, *, is_heard: bool) -> None:
        self._is_heard = is_heard
        self.events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self.room = threading.Semaphore(_MAX_EVENTS_AHEAD)
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()

    async def keep(self, work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Wait for the work on the thread; who is cancelled waits until the thread has ended, and keeps its seat."""
        try:
            return await work
        except RuntimeError:  # perhaps no thread could be started
            self._ended.set()
            raise
        finally:
            await self._ended.wait()

    def put(self, events: Iterable[AgentEvent]) -> None:
        """Hand events over, from the thread.

        Raises:
            RequestAbortedError: the run was cancelled while the client did not read.
        """
        cancellation = current_cancellation()
        for event in events:  # which are made in any case, since the answer is their sum
            if not self._is_heard:
                continue
            while not self.room.acquire(timeout=_LOOK_UP_S):
                if cancellation is not None:
                    cancellation.raise_if_cancelled()
            self._call(partial(self.events.put_nowait, event))

    def end(self) -> None:
        """Say that the thread ends, from the thread."""
        self._call(self._ended.set)

    def _call(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(function)


def _chosen_tools(tools: Mapping[str, Tool], names: Sequence[str] | None) -> Mapping[str, Tool]:
    if names is None:
        return tools
    _require_names("tools", names, tools)
    return {name: tools[name] for name in names}


def _require_names(param: str, names: Sequence[str], tools: Mapping[str, Tool]) -> None:
    for index, name in enumerate(names):
        if name not in tools:
            there = ", ".join(tools) or "none"
            raise ApiError(
                f"{param} names {shown(name)}; the tools are {there}. GET /v1/agents/tools lists them.",
                param=f"{param}[{index}]",
                code="invalid_value",
            )


def _given_inputs(values: Mapping[str, Any]) -> Mapping[str, Any]:
    question, inputs = values["question"], values["inputs"]
    if question is None:
        if inputs is None:
            raise ApiError(
                "Neither question nor inputs is given. Give one of them.", param="question", code="missing_parameter"
            )
        return inputs
    if inputs is not None:
        raise ApiError("question and inputs are both given. Give one of them.", param="question", code="invalid_value")
    if not question.strip():
        raise ApiError("question is empty. Give what the agent is to answer.", param="question", code="invalid_value")
    return {"question": question}


def _limits(values: Mapping[str, Any]) -> TokenLimits:
    parts = ("thought", "call", "output")
    least, most = sum(values[f"max_{part}_tokens"] for part in parts), values["max_tokens"]
    if most is not None and most < least:
        raise ApiError(
            f"max_tokens is {most:,}; a step and the outputs may take {least:,} tokens, which is max_thought_tokens, "
            "max_call_tokens and max_output_tokens together. Raise it, or lower those.",
            param="max_tokens",
            code="invalid_value",
        )
    return TokenLimits(
        thought=values["max_thought_tokens"],
        call=values["max_call_tokens"],
        observation=values["max_observation_tokens"],
        outputs=values["max_output_tokens"],
        run=most,
        max_seconds=values["max_seconds"],
    )


def _refused(param: str, error: SignatureError) -> ApiError:
    message = str(error)  # which quotes what was given
    if len(message) > _MAX_MESSAGE_CHARS:
        message = f"{message[:_MAX_MESSAGE_CHARS]}..."
    return ApiError(message, param=param, code="invalid_value")


def _too_long(error: Exception, context_len: int) -> ApiError:
    if isinstance(error, OutputTruncatedError):
        return ApiError(
            "The outputs did not end within max_output_tokens. Raise it.",
            param="max_output_tokens",
            code="output_truncated",
        )
    return ApiError(
        f"The run does not fit into the model's context of {context_len:,} tokens. Shorten the inputs, name fewer "
        "tools, or lower max_thought_tokens, max_call_tokens, max_observation_tokens and max_output_tokens.",
        code="context_length_exceeded",
    )
