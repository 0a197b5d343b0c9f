"""What a run writes into its trace file, record by record, and tells as spans; nothing when neither is asked for."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sureact import __version__
from sureact.agent.approval import Allow, Deny, Edit, Verdict
from sureact.agent.recorded_run import run_of
from sureact.agent.redaction import Pattern, Redactor
from sureact.agent.run_lock import RunLock
from sureact.agent.trace import TraceWriter
from sureact.agent.trace_header import header_of
from sureact.agent.trace_records import TRACE_VERSION
from sureact.errors import TraceError
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.agent_context import Call, Generation, Thought
    from sureact.agent.agent_run import AgentRun
    from sureact.agent.react import ReAct
    from sureact.agent.resume import ResumePoint
    from sureact.agent.telemetry import RunSpans
    from sureact.agent.trajectory import Step
    from sureact.tokens.vocabulary import Vocabulary


class RunTrace:
    """The trace of one run. Leaving its `with` block by an error, Ctrl-C included, records that the run was aborted."""

    def __init__(
        self,
        path: str | Path | None,
        *,
        redact: Iterable[Pattern] = (),
        spans: RunSpans | None = None,
        resumed: ResumePoint | None = None,
    ) -> None:
        """Open the file.

        Args:
            path: the file; None for none.
            redact: what must not be written; see `Redactor`.
            spans: told of each part as well.
            resumed: the run that goes on.

        Raises:
            TraceError: it cannot be opened, or the run is at work elsewhere.
        """
        patterns = list(redact)
        redactor = Redactor(patterns) if patterns else None
        self._is_redacted = redactor is not None
        if redactor and resumed:
            redactor.learn({"inputs": resumed.inputs})
        self._run_id = resumed.run_id if resumed else uuid.uuid4().hex
        self._resumed = resumed
        self._spans = spans
        self._run: AgentRun | None = None
        self._vocabulary: Vocabulary | None = None
        self._num_written = 0
        # Before the file is opened for writing, which ends a line that was cut off.
        self._lock = None if resumed is None else _lock_of_resumed(resumed)
        self._writer = None if path is None else TraceWriter(path, redactor.clean) if redactor else TraceWriter(path)
        if self._writer is not None and self._lock is None:
            self._lock = RunLock(self._writer.path, self._run_id)

    def __enter__(self) -> RunTrace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._spans is not None:
            self._spans.close(error)
        if self._writer is None:
            return
        try:
            if kind is not None:
                self._write("aborted", error=kind.__name__, message=str(error))
        finally:
            self._writer.close()
            if self._lock is not None:
                self._lock.release()

    def begin(self, agent: ReAct, inputs: Mapping[str, Any], max_iters: int) -> None:
        """Record what the run starts from, or that it goes on."""
        if self._spans is not None:
            self._spans.begin(agent.lm.name, self._run_id)
        if self._writer is None:
            return
        # Its letters are those of the vocabulary, if the model has one to show.
        self._vocabulary = getattr(agent.lm, "vocabulary", None)
        versions = {"version": TRACE_VERSION, "sureact_version": __version__}
        if self._resumed is None:
            self._write("header", **versions, **header_of(agent, inputs, max_iters), is_redacted=self._is_redacted)
            return
        self._write(
            "resumed",
            **versions,
            step=self._resumed.next_index,
            unfinished=self._resumed.unfinished,
            changed_tools=self._resumed.changed_tools,
        )

    def attach(self, run: AgentRun) -> None:
        """Record the opening prompt. From now on, the token ids of a part are those that it added to the context."""
        self._run = run
        if self._resumed is None or not self._resumed.has_prompt:
            withheld = {"context_ids": None} if self._is_redacted and not run.is_opening_told else {}
            self._write_part("prompt", text=run.opening_text, **withheld)
        elif self._writer is not None:
            self._num_written = len(run.token_ids)

    def thought(self, step_index: int, thought: Thought) -> None:
        """Record a thought."""
        self._tell_generation("think")
        self._write_generated("thought", step=step_index, text=thought.text, thinking=thought.thinking)

    def call(self, step_index: int, call: Call | None, names: Sequence[str] | None = None) -> None:
        """Record what was decided, of the tools of these names, or of all; no call where its tokens ran out."""
        self._tell_generation("decide_call")
        refusal = str(call.refusal) if call and call.refusal else None
        name, args = (call.tool_name, call.tool_args) if call else (None, None)
        values = {"tool_name": name, "tool_args": args, "refusal": refusal, "names": names}
        self._write_generated("call", step=step_index, **values)

    def step_dropped(self) -> None:
        """Note that the open step was cut off the context."""
        if self._run is not None:
            self._num_written = len(self._run.token_ids)

    def approval(self, step_index: int, call: Call, verdict: Verdict) -> None:
        """Record what was decided on a call, before its tool runs."""
        decision = {Allow: "allow", Deny: "deny", Edit: "edit"}[type(verdict)]
        self._write(
            "approval",
            step=step_index,
            tool_name=call.tool_name,
            decision=decision,
            reason=verdict.reason if isinstance(verdict, Deny) else None,
            tool_args=dict(verdict.args) if isinstance(verdict, Edit) else call.tool_args,
        )

    def call_started(self, step_index: int, call: Call) -> None:
        """Record a call, before its tool runs."""
        if self._spans is not None:
            self._spans.tool_started(step_index, call.tool_name)
        self._write("call_started", step=step_index, tool_name=call.tool_name, tool_args=call.tool_args)

    def observation(self, step: Step) -> None:
        """Record a finished step."""
        if self._spans is not None:
            self._spans.tool_ended(step.index, is_error=step.is_error)
        self._write_part("observation", step=step.index, finished=asdict(step))

    def truncated(self, dropped_steps: tuple[int, ...], trimmed_steps: tuple[int, ...]) -> None:
        """Record that steps left the context, or were shortened, and that it was written anew."""
        self._num_written = 0
        steps = [asdict(step) for step in self._run.trajectory.steps] if self._run else []
        self._write_part("truncated", dropped_steps=dropped_steps, trimmed_steps=trimmed_steps, steps=steps)

    def outputs(self, outputs: Mapping[str, Any], termination_reason: str) -> None:
        """Record the end of the run."""
        assert self._run is not None, "outputs come from a run"
        self._tell_generation("give_outputs")
        usage = asdict(self._run.usage)
        self._write_generated("outputs", outputs=dict(outputs), termination_reason=termination_reason, usage=usage)

    def _write_generated(self, record_type: str, **values: object) -> None:
        """Record a part that the model generated; one that was taken over stands in the file already."""
        if self._writer is None or self._run is None:
            return
        records = [_generation_record(generation, self._vocabulary) for generation in self._run.generations]
        if not records:
            self._num_written = len(self._run.token_ids)
            return
        earlier = {"earlier_generations": records[:-1]} if records[1:] else {}
        self._write_part(record_type, **values, **earlier, generation=records[-1])

    def _write_part(self, record_type: str, **values: object) -> None:
        if self._writer is None or self._run is None:
            return
        token_ids = self._run.token_ids
        added = list(token_ids[self._num_written :])
        self._num_written = len(token_ids)
        self._write(record_type, **({"context_ids": added} | values))

    def _write(self, record_type: str, **values: object) -> None:
        if self._writer is not None:
            self._writer.write(record_type, run_id=self._run_id, **values)

    def _tell_generation(self, name: str) -> None:
        if self._spans is not None and self._run is not None:
            self._spans.generations(name, [generation.output for generation in self._run.generations])


def _lock_of_resumed(resumed: ResumePoint) -> RunLock:
    """Lock a run that goes on, which must be as it was when it was read."""
    lock = RunLock(resumed.path, resumed.run_id)
    if len(run_of(resumed.path, resumed.run_id).records) != resumed.num_records:
        lock.release()
        raise TraceError(
            f"Trace file {resumed.path}: the run {resumed.run_id} has gone on since it was read. Try again."
        )
    return lock


def _generation_record(generation: Generation, vocabulary: Vocabulary | None) -> dict[str, Any]:
    output = generation.output
    constraint = generation.constraint
    early_ends = [end._asdict() for end in output.early_ends]
    return {
        "text": output.text,
        "token_ids": output.token_ids,
        "tokens": token_texts(output.token_ids, vocabulary.token_bytes) if vocabulary else None,
        "forced": output.forced_indices,
        "constraint": hashlib.sha256(constraint.cache_key.encode()).hexdigest() if constraint else None,
        "sampling": _sampling_record(generation.params),
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "usage": asdict(output.usage),
        "timings": asdict(output.timings),
        **({"early_ends": early_ends} if early_ends else {}),
    }


def _sampling_record(params: SamplingParams) -> dict[str, Any]:
    """Return what is not the default, and always the budget."""
    defaults = SamplingParams()
    values = {field.name: getattr(params, field.name) for field in fields(params)}
    values["runaway"] = params.runaway and asdict(params.runaway)
    return {k: v for k, v in values.items() if k in ("max_tokens", "temperature") or v != getattr(defaults, k)}


def token_texts(token_ids: Sequence[int], token_bytes: Sequence[bytes]) -> list[str]:
    """Return the text of each token; a character that several tokens spell stands at the last of them."""
    texts: list[str] = []
    pending = b""
    for token_id in token_ids:
        pending += token_bytes[token_id]
        text, pending = _decoded(pending)
        texts.append(text)
    if pending and texts:
        texts[-1] += pending.decode(errors="replace")
    return texts


def _decoded(data: bytes) -> tuple[str, bytes]:
    """Return the text of all whole characters, and the bytes of one that is not whole yet."""
    for size in range(len(data), max(len(data) - 4, -1), -1):
        try:
            return data[:size].decode(), data[size:]
        except UnicodeDecodeError:
            continue
    return data.decode(errors="replace"), b""
