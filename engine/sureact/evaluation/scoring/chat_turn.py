"""One turn of a chat with tools: the calls that the model makes in it, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sureact.agent.call_opening import BARE_CALLS, is_stopped, without_fence
from sureact.agent.further_call import BETWEEN_CALLS, FurtherCall
from sureact.agent.prompt_format import plain_text
from sureact.agent.tool_notation import function_notation
from sureact.evaluation.scoring.call_decoder import opening_stops
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel, LanguageModelSession
    from sureact.agent.tool import Tool
    from sureact.evaluation.scoring.call_decoder import CallDecoder
    from sureact.evaluation.scoring.call_reading import ReadCall
    from sureact.outputs import StepOutput
    from sureact.tokens.chat_template import Message, PromptText

MAX_CALLS = 16
MAX_TEXT_TOKENS = 256
"""Before a call; a model that has not begun one by then answers without."""


class ChatTurn(NamedTuple):
    """What the model did in its turn."""

    calls: Sequence[ReadCall]
    num_tokens: int


def turn_prompt(lm: LanguageModel, messages: Sequence[Message], tools: Mapping[str, Tool]) -> PromptText:
    """Return the model's own chat template of the messages and the tools."""
    return lm.render_chat(messages, tools=[function_notation(tool) for tool in tools.values()])


def take_turn(
    lm: LanguageModel, messages: Sequence[Message], tools: Mapping[str, Tool], decoder: CallDecoder
) -> ChatTurn:
    """Let the model speak; where it begins a call, have the decoder decode it."""
    session = lm.session()
    try:
        session.append(turn_prompt(lm, messages, tools))
        calls: list[ReadCall] = []
        num_tokens = 0
        further = None
        if decoder.weighs_further_calls:
            further = FurtherCall(lm.session, lambda messages: turn_prompt(lm, messages, tools), messages)
        while len(calls) < MAX_CALLS:
            is_bare = False
            if further is None or not calls:
                output = session.generate(SamplingParams(max_tokens=MAX_TEXT_TOKENS, stop=opening_stops(session)))
                num_tokens += output.usage.completion_tokens
                if not is_stopped(output):
                    break
                is_bare = output.stop_reason in BARE_CALLS
                if is_bare and not decoder.is_free:
                    _drop_fence(session, output)
            elif not _goes_on(further, session, calls):
                break
            decoded = decoder.decode(session, tools, is_bare=is_bare)
            num_tokens += decoded.num_tokens
            if further is not None and any(call in calls for call in decoded.calls):
                break
            calls += decoded.calls
            if decoded.is_over:
                break
        return ChatTurn(calls, num_tokens)
    finally:
        session.close()


def _goes_on(further: FurtherCall, session: LanguageModelSession, calls: Sequence[ReadCall]) -> bool:
    session.append(plain_text(BETWEEN_CALLS))
    return further.is_due(session, [(call.tool_name, call.args) for call in calls])


def _drop_fence(session: LanguageModelSession, output: StepOutput) -> None:
    """Take back the fence that a call without a tag would have stood in: the tag takes its place."""
    kept = without_fence(output.text)
    if kept == output.text:
        return
    session.truncate(len(session.token_ids) - len(output.token_ids))
    if kept.rstrip(" "):
        session.append(plain_text(kept.rstrip(" ")))
