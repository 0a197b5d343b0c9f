"""Generates a text on a session and hands its pieces on as they are decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sureact.errors import InternalError, RequestAbortedError

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModelSession
    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StepOutput
    from sureact.sampling_params import SamplingParams


def stream_text(
    session: LanguageModelSession,
    params: SamplingParams,
    constraint: Constraint | None,
    on_text: Callable[[str], None],
) -> StepOutput:
    """Generate a text, calling `on_text` with each piece of it that is not empty.

    Raises:
        RequestAbortedError: the generation was cancelled from elsewhere.
        InternalError: the stream ended without a result.
    """
    output: StepOutput | None = None
    for delta in session.stream(params, constraint):
        if delta.text:
            on_text(delta.text)
        output = delta.output or output
    if output is None:
        raise InternalError("A stream of the language model ended without its result.")
    if output.finish_reason == "abort":
        raise RequestAbortedError(f"The generation was cancelled after {len(output.token_ids)} tokens.")
    return output
