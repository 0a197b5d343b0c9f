"""Makes room in a full context: the longest old observations are cut first, and only then are steps dropped."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sureact.agent.observation import cut_to_tokens
from sureact.agent.trajectory import Step, Trajectory
from sureact.errors import PromptTooLongError

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.prompt_format import PromptFormat

# What another total in the note of a cut may add.
_NOTE_TOKENS = 8
_NOTE = re.compile(r"\n\[cut: [\d,]+ of ([\d,]+) characters shown\]$")

Truncate = Callable[[Trajectory], Trajectory]


class ContextRoom:
    """The context of one run, measured in tokens."""

    def __init__(
        self, lm: LanguageModel, prompt_format: PromptFormat, opening_tokens: int, kept_observation: int
    ) -> None:
        """Take what is measured.

        Args:
            lm: counts tokens.
            prompt_format: writes steps.
            opening_tokens: what stands before the steps.
            kept_observation: what an observation keeps at least.
        """
        self._lm = lm
        self._format = prompt_format
        self._opening_tokens = opening_tokens
        self._kept_observation = kept_observation

    def shortened(self, trajectory: Trajectory, num_tokens: int, truncate: Truncate) -> Trajectory:
        """Return a trajectory after which so many tokens fit. The given one stays as it is.

        Old observations are cut, the longest first and to one length; if that is not enough, `truncate` drops steps;
        and the observation of the newest step is cut when it is the only one left.

        Raises:
            PromptTooLongError: `truncate` cannot drop any more, or made nothing shorter.
        """
        most = self._lm.context_len - num_tokens
        before = self.num_tokens(trajectory)
        kept = self._old_cut(Trajectory(trajectory.steps), before - most, num_tokens)
        kept_tokens = self.num_tokens(kept)
        while kept_tokens > most:
            if not kept.steps:
                raise PromptTooLongError(
                    f"The opening prompt has {kept_tokens:,} tokens and a step takes up to {num_tokens:,}, but "
                    f"the context is {self._lm.context_len:,}. Shorten the inputs, or lower TokenLimits."
                )
            if len(kept.steps) == 1:
                only = self._only_cut(kept, kept_tokens - most)
                if self.num_tokens(only) <= most:
                    return only
            kept = truncate(kept)
            kept_tokens = _require_shorter(kept_tokens, self.num_tokens(kept))
        return kept

    def num_tokens(self, trajectory: Trajectory) -> int:
        """Return the tokens of the opening with these steps."""
        return self._opening_tokens + sum(map(self._step_tokens, trajectory.steps))

    def _step_tokens(self, step: Step) -> int:
        return self._lm.count_tokens(self._format.step(step).text)

    def _old_cut(self, trajectory: Trajectory, excess: int, num_tokens: int) -> Trajectory:
        """Return the trajectory with the observations of all steps but the newest cut to one length.

        It is the most that makes room for two steps, so that the context is not written anew at the next one already;
        the least that observations keep, if there is no such length.
        """
        old = trajectory.steps[:-1]
        lengths = [self._lm.count_tokens(step.observation) for step in old]
        wanted = excess + num_tokens
        low, high = self._kept_observation, max(lengths, default=0)
        while low < high:
            middle = (low + high + 1) // 2
            freed = sum(max(0, length - middle) for length in lengths)
            low, high = (middle, high) if freed >= wanted else (low, middle - 1)
        cut = [self._cut(step, low) if length > low else step for step, length in zip(old, lengths, strict=True)]
        return Trajectory([*cut, *trajectory.steps[-1:]])

    def _only_cut(self, trajectory: Trajectory, excess: int) -> Trajectory:
        """Return a trajectory of one step with its observation cut by that many tokens, if it keeps enough."""
        (step,) = trajectory.steps
        length = self._lm.count_tokens(step.observation) - excess - _NOTE_TOKENS
        return Trajectory([self._cut(step, length)]) if length >= self._kept_observation else trajectory

    def _cut(self, step: Step, max_tokens: int) -> Step:
        """Return the step with a shorter observation, whose note tells how long it was before it was ever cut."""
        note = _NOTE.search(step.observation)
        body = step.observation[: note.start()] if note else step.observation
        cut = cut_to_tokens(body, max_tokens, self._lm.count_tokens)
        if note and (new_note := _NOTE.search(cut)):
            cut = f"{cut[: new_note.start(1)]}{note[1]}{cut[new_note.end(1) :]}"
        return replace(step, observation=cut) if len(cut) < len(step.observation) else step


def _require_shorter(before: int, after: int) -> int:
    if after >= before:
        raise PromptTooLongError(
            f"The context is full, and truncate_trajectory left {after:,} tokens of {before:,}. It must return a "
            "shorter trajectory, or raise PromptTooLongError."
        )
    return after
