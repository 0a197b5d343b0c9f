"""The agent loop of a peer: the same prompt, tools and limits as ours, with another way to decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sureact.agent.call_opening import CLOSE_TAG, is_stopped
from sureact.agent.observation import cut_to_tokens
from sureact.agent.prompt_format import plain_text, template_text
from sureact.agent.tool import FINISH
from sureact.agent.tool_call import run_tool
from sureact.evaluation.scoring.call_decoder import DecodedCalls, closing_stops
from sureact.evaluation.scoring.call_reading import ReadCall, read_calls
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModelSession
    from sureact.agent.react import ReAct
    from sureact.evaluation.scoring.call_decoder import CallDecoder

_OBSERVATION_LABEL = "Observation:"


@dataclass(slots=True)
class PeerRun:
    """A run of a peer's loop."""

    calls: list[ReadCall] = field(default_factory=list)
    """All of them, `finish` and those that are not valid included."""
    outputs: dict[str, Any] | None = None
    """None where no object could be read."""
    num_tokens: int = 0
    fault: str = ""
    """Why the run itself did not end as it should; empty where it did."""


class PeerLoop:
    """Runs the agent that it is given, decoding by another way.

    A text in which no call can be read, and a call that is not valid, are told to the model as an observation, as loops
    with a parser do.
    """

    def __init__(self, agent: ReAct, decoder: CallDecoder, output_schema: Mapping[str, Any]) -> None:
        self._agent = agent
        self._format = agent.prompt_format
        self._decoder = decoder
        self._output_schema = output_schema

    def run(self, inputs: Mapping[str, Any]) -> PeerRun:
        """Run on inputs."""
        run = PeerRun()
        session = self._agent.lm.session()
        try:
            session.append(self._format.opening(inputs))
            for _ in range(self._agent.max_iters):
                if self._step(session, run):
                    break
            session.append(self._format.outputs_request())
            run.outputs, num_tokens = self._decoder.answer(session, self._output_schema)
            run.num_tokens += num_tokens
        finally:
            session.close()
        return run

    def _step(self, session: LanguageModelSession, run: PeerRun) -> bool:
        """Take a step; return whether it was the last."""
        if self._format.thought_start.text:
            session.append(self._format.thought_start)
        decoded = self._free_step(session) if self._decoder.is_free else self._grammar_step(session, run)
        run.num_tokens += decoded.num_tokens
        # One call a step, as ours: what a model imagines beyond it is not run.
        call = decoded.calls[0]
        run.calls.append(call)
        observation = self._observation(call)
        limit = min(self._agent.limits.observation, self._agent.lm.context_len // 4)
        session.append(self._format.observation(cut_to_tokens(observation, limit, self._agent.lm.count_tokens)))
        return call.tool_name == FINISH and not call.fault

    def _observation(self, call: ReadCall) -> str:
        if call.fault:
            return f"Error: {call.fault} Call one of {', '.join(self._agent.tools)} in the form that was described."
        return run_tool(self._agent.tools[call.tool_name], call.args, max_characters=None).observation

    def _free_step(self, session: LanguageModelSession) -> DecodedCalls:
        """Decode thought and call in one go, up to where an observation is due."""
        limits = self._agent.limits
        params = SamplingParams(
            max_tokens=limits.thought + limits.call, stop=[_OBSERVATION_LABEL, *closing_stops(session)]
        )
        output = session.generate(params)
        if is_stopped(output) and output.stop_reason != _OBSERVATION_LABEL:
            session.append(template_text(CLOSE_TAG))
        elif not output.text.endswith("\n"):
            session.append(plain_text("\n"))
        calls: Sequence[ReadCall] = read_calls(output.text, self._agent.tools)
        return DecodedCalls(
            calls or [ReadCall("", {}, "No call can be read in this text.")],
            output.usage.completion_tokens,
            is_over=False,
        )

    def _grammar_step(self, session: LanguageModelSession, run: PeerRun) -> DecodedCalls:
        """Decode the thought as ours, then the call under the peer's grammar."""
        start = len(session.token_ids)
        output = session.generate(self._format.thought_params(session, self._agent.limits.thought))
        run.num_tokens += output.usage.completion_tokens
        closed = self._format.closed_thought(output.text)
        if closed != output.text:
            session.truncate(start)
            if closed:
                session.append(plain_text(closed))
        return self._decoder.decode(session, self._agent.tools, is_bare=False)
