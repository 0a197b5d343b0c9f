"""One case on one engine: does it compile, and does every instance get its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sureact.errors import SureactError

if TYPE_CHECKING:
    from sureact.evaluation.conformance.cases import ConformanceCase, Instance
    from sureact.evaluation.conformance.schema_engine import CompiledCase, SchemaEngine
    from sureact.evaluation.conformance.vocabularies import CaseVocabulary

Reason = Literal["compile_error", "rejects_valid", "accepts_invalid", "late_veto"]

_UNSATISFIABLE = ("nsatisfiable", "No JSON value can satisfy", "no value satisfies", "cannot accept any value")
"""How an engine says that no value is valid."""

_CONTEXT = 40
"""Bytes shown before and after the place where an instance was refused."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that an engine did with a case and should not have; a late veto only came late."""

    reason: Reason
    instance: str | None
    """The text; None for an error at compile time."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """What an engine did with a case."""

    is_compiled: bool
    is_passed: bool
    """Whether it compiled and every instance got its label, or was rightly refused."""
    is_guarded: bool = False
    is_unsatisfiable: bool = False
    """Whether it was refused because no value is valid."""
    findings: tuple[Finding, ...] = ()


def judge_case(engine: SchemaEngine, case: ConformanceCase, vocabulary: CaseVocabulary) -> CaseOutcome:
    """Compile a case and write each of its instances.

    Args:
        engine: compiles for `vocabulary`.
        case: what to judge.
        vocabulary: its tokenizer cuts the texts.
    """
    try:
        compiled = engine.compile(case)
    except SureactError as error:
        return refused_outcome(case, str(error))
    if case.must_be_refused:
        finding = Finding("accepts_invalid", None, "It compiles, but no value is valid.")
        return CaseOutcome(is_compiled=True, is_passed=False, is_guarded=compiled.is_guarded, findings=(finding,))
    findings = [_finding(compiled, instance, vocabulary) for instance in case.instances]
    kept = tuple(finding for finding in findings if finding is not None)
    return CaseOutcome(
        is_compiled=True,
        is_passed=all(finding.reason == "late_veto" for finding in kept),
        is_guarded=compiled.is_guarded,
        findings=kept,
    )


def refused_outcome(case: ConformanceCase, detail: str) -> CaseOutcome:
    """Return the outcome of a case that did not compile; right where it may be refused, or no value is valid."""
    names_it = any(sign in detail for sign in _UNSATISFIABLE)
    is_unsatisfiable = names_it and not any(instance.is_valid for instance in case.instances)
    is_passed = is_unsatisfiable or case.may_be_refused
    finding = Finding("compile_error", None, detail)
    return CaseOutcome(
        is_compiled=False,
        is_passed=is_passed,
        is_unsatisfiable=is_unsatisfiable,
        findings=() if is_passed else (finding,),
    )


def _finding(compiled: CompiledCase, instance: Instance, vocabulary: CaseVocabulary) -> Finding | None:
    refusal = _grammar_refusal(compiled, instance.text, vocabulary)
    if refusal is not None:
        return Finding("rejects_valid", instance.text, refusal) if instance.is_valid else None
    fault = compiled.fault(instance.text)
    if fault is None:
        return None if instance.is_valid else Finding("accepts_invalid", instance.text, "Accepted.")
    return Finding("rejects_valid" if instance.is_valid else "late_veto", instance.text, fault)


def _grammar_refusal(compiled: CompiledCase, text: str, vocabulary: CaseVocabulary) -> str | None:
    """Return where and how writing `text` was stopped, or None."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "No UTF-8 text can hold half of a surrogate pair."
    token_ids = vocabulary.encode(text)
    walk = compiled.new_walk()
    try:
        num_accepted = walk.accept(token_ids)
    except SureactError as error:
        return str(error)
    if num_accepted < len(token_ids):
        return _place(text.encode(), vocabulary.num_bytes(token_ids[:num_accepted]))
    return None if walk.can_end else "The text may not end where it does."


def _place(data: bytes, position: int) -> str:
    before = data[max(0, position - _CONTEXT) : position].decode(errors="replace")
    after = data[position : position + _CONTEXT].decode(errors="replace")
    return f"Refused at byte {position}, after {before!r}, before {after!r}."
