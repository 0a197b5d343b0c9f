"""One turn of the model on a session: a thought, text, and the calls of tools, each in its own part.

While a thought is open no stop and no constraint is on. A call is constrained from the moment it opens.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sureact.agent.call_opening import OPEN_TAG, opening_stops, without_fence
from sureact.agent.call_rules import call_key
from sureact.agent.cancellation import Cancellation
from sureact.agent.further_call import BETWEEN_CALLS
from sureact.agent.prompt_format import AFTER_THINK, THINK_CLOSE, plain_text, template_text
from sureact.sampling_params import SamplingParams
from sureact.server.call_text import CallText
from sureact.server.request_record import new_generation
from sureact.server.text_shaping import ShownLogprobs, TextBeforeCall, TrimmedText
from sureact.server.turn_events import CallBegun, CallPiece, PartEndedEarly, TextPiece, TurnEnd, TurnUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from typing import Literal

    from sureact.agent.further_call import Call, FurtherCall
    from sureact.async_session import AsyncSession
    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StepLogprobs, StepOutput, StreamDelta
    from sureact.server.serving import Serving
    from sureact.server.turn_events import Emit
    from sureact.server.turn_plan import TurnPlan

MAX_CALLS = 32
_WRITTEN_TOKENS = 12
"""What is written here at once takes no more, a tag and what follows it."""
_MORE_TOKENS = 16
"""That must be left for a further call to be begun."""
_NAME_TOKENS = 48
_NAME_ENDS = (",", "}", "\n")
_QUOTED = re.compile(r'\s*"([^"]*)"\s*')


class ChatTurn:
    """Runs one turn and tells what comes of it."""

    def __init__(self, serving: Serving, plan: TurnPlan, emit: Emit, *, index: int = 0) -> None:
        """Take what to run and whom to tell.

        Args:
            serving: runs it.
            plan: the turn.
            emit: told of everything, the end last.
            index: of the turn among the choices of its request; each draws otherwise.
        """
        self._serving = serving
        self._plan = plan
        self._emit = emit
        seed = plan.params.seed
        self._params = plan.params if seed is None else replace(plan.params, seed=seed + index)
        self._session: AsyncSession = serving.engine.session(cache_salt=plan.cache_salt)
        self._usage = TurnUsage(prompt_tokens=len(plan.prompt_ids))
        self._is_first = True
        self._num_calls = 0
        self._made_calls: list[Call] = []
        self._is_cut = False
        """Whether there is no room for more, although the model did not end its turn."""
        self._last: StepOutput | None = None
        self._early_ends: list[PartEndedEarly] = []
        self._generation = new_generation()
        self._call_names: frozenset[str] = plan.tools.callable_names

    async def run(self) -> None:
        """Run the turn to its end.

        Raises:
            SureactError: the engine cannot go on.
        """
        plan, session = self._plan, self._session
        async with session:
            await session.append(plan.prompt_ids)
            if plan.is_thinking or (plan.may_think and await self._begins_to_think()):
                await self._think()
            self._is_cut = self._is_cut or self._room < 1
            if not self._is_cut:
                await self._answer()
            end = self._end()
            self._generation.end(end.usage, end.finish_reason)
            await self._emit(end)

    @property
    def _room(self) -> int:
        """Tokens that may still be generated."""
        return min(self._params.max_tokens - self._usage.completion_tokens, self._context_room)

    @property
    def _context_room(self) -> int:
        """Tokens that the context can still take."""
        return self._serving.engine.engine.context_len - len(self._session)

    async def _begins_to_think(self) -> bool:
        """Let the model pick its first token: a thought, or something else, which is taken back."""
        tags, start = self._plan.think_tags, len(self._session)
        assert tags is not None, "only a model with both tags may think"
        params = replace(self._free(1), stop=((tags.open_id,),), include_stop=True)
        output = await self._generate(params)
        if output.token_ids == (tags.open_id,):
            return True
        await self._session.truncate(start)
        self._usage = replace(self._usage, completion_tokens=0)
        return False

    async def _think(self) -> None:
        """Decode a thought up to its end, which is written here if the model does not get there."""
        tags = self._plan.think_tags
        budget = self._room if self._plan.thinking_budget is None else min(self._plan.thinking_budget, self._room)
        before = self._usage.completion_tokens
        trimmed = TrimmedText()
        if budget >= 1:
            # Some spell the tag out in place of its control token.
            stops = [THINK_CLOSE] if tags is None else [THINK_CLOSE, (tags.close_id,)]
            params = replace(self._free(budget), stop=stops)
            async with aclosing(self._stream(params)) as deltas:
                async for delta in deltas:
                    if text := trimmed.push(delta.text):
                        await self._emit(TextPiece("reasoning", text))
            self._note_early_ends("reasoning")
        self._usage = replace(self._usage, reasoning_tokens=self._usage.completion_tokens - before)
        if self._context_room > _WRITTEN_TOKENS:
            await self._session.append(template_text(THINK_CLOSE + AFTER_THINK))
        else:
            self._is_cut = True

    async def _answer(self) -> None:
        if self._plan.tools.choice == "required":
            await self._call()
            await self._call_more()
        elif self._plan.calls is not None:
            if await self._text_before_call():
                await self._call()
                await self._call_more()
        else:
            await self._text()

    async def _text(self) -> None:
        """Decode the answer, under its constraint if it has one."""
        logprobs = ShownLogprobs(self._serving.vocabulary.token_bytes)
        params = replace(self._params, max_tokens=self._room, min_tokens=min(self._params.min_tokens, self._room))
        async with aclosing(self._stream(params, self._plan.constraint)) as deltas:
            async for delta in deltas:
                await self._tell(delta.text, logprobs.push(delta, delta.text))
        self._note_early_ends("content")
        await self._judge(self._plan.constraint)

    async def _text_before_call(self) -> bool:
        """Decode text until the model ends its turn or opens a call; return whether it opened one."""
        assert self._plan.calls is not None, "only a chat with tools can have a call"
        tag_stops = (OPEN_TAG, self._plan.calls.tag_ids)
        own_stops = [*self._params.stop_texts, *self._params.stop_token_ids]
        stops = [*own_stops, *opening_stops(self._plan.calls.tag_ids)]
        shaper = TextBeforeCall()
        while self._room >= 1:
            output = await self._text_up_to(stops, shaper)
            if output.stop_reason in own_stops:
                await self._include_stop(output, shaper)
            elif output.stop_reason in tag_stops:
                await self._tell(shaper.end_at_call(is_bare=False))
                return True
            elif isinstance(output.stop_reason, str):
                if await self._names_tool(output.stop_reason):
                    await self._drop_fence(output)
                    await self._tell(shaper.end_at_call(is_bare=True))
                    return True
                await self._tell(shaper.push(output.stop_reason))
                if not self._is_cut:
                    continue
            break
        else:  # the budget ended behind what could have been a call
            self._is_cut = True
        await self._tell(shaper.end())
        return False

    async def _text_up_to(self, stops: Sequence[str | tuple[int, ...]], shaper: TextBeforeCall) -> StepOutput:
        """Decode text up to a stop or the end of the turn, and tell what does not depend on how it goes on."""
        logprobs = ShownLogprobs(self._serving.vocabulary.token_bytes)
        params = replace(self._params, max_tokens=self._room, stop=stops, include_stop=False)
        async with aclosing(self._stream(params)) as deltas:
            async for delta in deltas:
                text = shaper.push(delta.text)
                await self._tell(text, logprobs.push(delta, text))
        self._note_early_ends("content")
        assert self._last is not None, "a stream ends with its output"
        return self._last

    async def _include_stop(self, output: StepOutput, shaper: TextBeforeCall) -> None:
        """Leave the stop that ended the text in it, if that is asked for."""
        if self._params.include_stop:
            stop = output.stop_reason
            assert isinstance(stop, str | tuple), "an end of the turn is no stop"
            # No text has more tokens than bytes.
            most_tokens = len(stop.encode()) if isinstance(stop, str) else len(stop)
            if self._context_room > most_tokens:
                await self._session.append(plain_text(stop) if isinstance(stop, str) else stop)
            text = stop if isinstance(stop, str) else self._serving.engine.engine.decode(stop)
            await self._tell(shaper.push(text))

    async def _tell(self, text: str, logprobs: tuple[StepLogprobs, ...] = ()) -> None:
        if text or logprobs:
            await self._emit(TextPiece("content", text, logprobs))

    async def _names_tool(self, opening: str) -> bool:
        """Whether the JSON that the model began goes on with the name of a tool, as a call without its tag does.

        If so, the context ends where the JSON began, else behind its opening.
        """
        start = len(self._session)
        if self._context_room > _WRITTEN_TOKENS:
            await self._session.append(plain_text(opening))
        text_start = len(self._session)
        if self._context_room <= _WRITTEN_TOKENS or self._room < 1:
            self._is_cut = True
            return False
        params = replace(self._free(min(_NAME_TOKENS, self._room)), stop=_NAME_ENDS)
        used = self._usage.completion_tokens
        output = await self._generate(params)
        name = _QUOTED.fullmatch(output.text)
        is_call = name is not None and name[1] in self._call_names
        await self._session.truncate(start if is_call else text_start)
        # A look ahead: what it found is generated again, and counted then.
        self._usage = replace(self._usage, completion_tokens=used)
        return is_call

    async def _drop_fence(self, output: StepOutput) -> None:
        """Take back the fence that a call without a tag would have stood in: the tag takes its place."""
        kept = without_fence(output.text)
        if kept != output.text:
            await self._session.truncate(len(self._session) - len(output.token_ids))
            if kept.rstrip(" "):
                await self._session.append(plain_text(kept.rstrip(" ")))

    async def _call_more(self) -> None:
        """Decode further calls for as long as they are due, and none is made that was made in this turn."""
        further = self._plan.further
        while (
            further is not None
            and self._num_calls < MAX_CALLS
            and self._room > _MORE_TOKENS
            and self._last is not None
            and self._last.finish_reason == "stop"
        ):
            end_of_call, used = len(self._session), self._usage.completion_tokens
            num_tokens = await self._session.append(plain_text(BETWEEN_CALLS))
            self._usage = replace(self._usage, completion_tokens=used + num_tokens)
            if not (await self._is_another_due(further) and await self._call()):
                await self._session.truncate(end_of_call)
                self._usage = replace(self._usage, completion_tokens=used)
                return

    async def _is_another_due(self, further: FurtherCall) -> bool:
        leaving = Cancellation()
        try:
            return await self._session.call(partial(further.is_due, calls=self._made_calls, cancellation=leaving))
        except asyncio.CancelledError:
            # The thread goes on, but not the engine. Closing a session may wait for its step.
            await asyncio.to_thread(leaving.cancel)
            raise

    async def _call(self) -> bool:
        """Decode one call; return whether it is another one than those of the turn so far.

        A further call of the same tool is told once it is whole: until then it may be the same call.
        """
        calls = self._plan.calls
        assert calls is not None, "only a chat with tools can have a call"
        text, index, untold = CallText(calls.call_format), self._num_calls, ""
        called = {name for name, _ in self._made_calls}
        async with aclosing(self._stream(self._free(self._room), calls.call)) as deltas:
            async for delta in deltas:
                untold += text.push(delta.text)
                if text.name not in called:
                    await self._tell_call(index, text.name, untold)
                    untold = ""
        assert self._last is not None, "a stream ends with its output"
        is_whole = self._last.finish_reason == "stop"
        untold += text.end(is_whole=is_whole)
        if is_whole:
            call = await asyncio.to_thread(calls.call.parse, self._last.text)
            if call_key(*call) in {call_key(*made) for made in self._made_calls}:
                return False
            self._made_calls.append(call)
        self._note_early_ends("call", index)
        await self._tell_call(index, text.name, untold)
        return True

    async def _tell_call(self, index: int, name: str | None, piece: str) -> None:
        if self._num_calls == index and name is not None:
            self._num_calls += 1
            await self._emit(CallBegun(index, f"call_{uuid.uuid4().hex[:24]}", name))
        if piece:
            await self._emit(CallPiece(index, piece))

    def _free(self, max_tokens: int) -> SamplingParams:
        """Return how tokens are picked where the request's stops and least length are off."""
        params = self._params
        return replace(
            params, max_tokens=max_tokens, stop=(), include_stop=False, min_tokens=0, ignore_eos=False, logprobs=None
        )

    async def _generate(self, params: SamplingParams, constraint: Constraint | None = None) -> StepOutput:
        async with aclosing(self._stream(params, constraint)) as deltas:
            async for _ in deltas:
                pass
        assert self._last is not None, "a stream ends with its output"
        return self._last

    async def _stream(
        self, params: SamplingParams, constraint: Constraint | None = None
    ) -> AsyncGenerator[StreamDelta]:
        async with self._session.stream(params, constraint) as deltas:
            async for delta in deltas:
                self._generation.saw(delta)
                if delta.output is not None:
                    self._count(delta.output)
                yield delta

    def _count(self, output: StepOutput) -> None:
        self._last = output
        usage, own = self._usage, output.usage
        cached = own.cached_tokens if self._is_first else usage.cached_tokens
        self._is_first = False
        total = usage.completion_tokens + own.completion_tokens
        self._usage = replace(usage, cached_tokens=cached, completion_tokens=total)

    def _note_early_ends(self, part: Literal["reasoning", "content", "call"], call_index: int | None = None) -> None:
        if self._last is not None:
            self._early_ends += [PartEndedEarly(part, call_index, end) for end in self._last.early_ends]

    async def _judge(self, constraint: Constraint | None) -> None:
        """Have a finished constrained text judged once more before anybody is told that it is whole."""
        if constraint is not None and self._last is not None and self._last.finish_reason == "stop":
            await asyncio.to_thread(constraint.parse, self._last.text)

    def _end(self) -> TurnEnd:
        prompt_len = len(self._plan.prompt_ids)
        output = self._last
        is_cut = self._is_cut or (output is not None and output.finish_reason == "length")
        reason: Literal["stop", "length", "tool_calls"] = "length" if is_cut else "stop"
        if self._num_calls and not is_cut:
            reason = "tool_calls"
        return TurnEnd(
            finish_reason=reason,
            stop_reason=self._stop_reason(output) if reason == "stop" else None,
            token_ids=tuple(self._session.token_ids[prompt_len:]),
            prompt_token_ids=tuple(self._plan.prompt_ids),
            usage=self._usage,
            early_ends=tuple(self._early_ends) if self._plan.tells_early_ends else None,
        )

    def _stop_reason(self, output: StepOutput | None) -> str | int | None:
        return None if output is None else told_stop_reason(self._serving, output, self._params)


def told_stop_reason(serving: Serving, output: StepOutput, params: SamplingParams) -> str | int | None:
    """Return the stop that ended a text as its request named it; None for an end-of-sequence token it did not name."""
    reason = output.stop_reason
    if isinstance(reason, str):
        return reason
    ids = (reason,) if isinstance(reason, int) else reason
    if ids is None:
        return None
    if ids in params.stop_token_ids:
        return ids[0]
    # A stop given as text may spell a control token, which is matched by its id.
    for text in params.stop_texts:
        if ids == (serving.control_id(text),):
            return text
    return None
