"""What a trace says a run starts from, and whether an agent is still the one that wrote it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_jsonable_python

from sureact.agent.recorded_signature import described, signature_record
from sureact.agent.tool_notation import function_notation

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.react import ReAct
    from sureact.agent.tool import Tool


def header_of(agent: ReAct, inputs: Mapping[str, Any], max_iters: int) -> dict[str, Any]:
    """Return the fields of the header of a run."""
    return {
        "model": agent.lm.name,
        "model_fingerprint": fingerprint_of(agent.lm),
        "context_len": agent.lm.context_len,
        "prompt_format": agent.prompt_format.name,
        "signature": signature_record(agent.signature),
        "predictors": _predictors(agent),
        "inputs": dict(inputs),
        "tools": [tool_record(tool) for tool in agent.tools.values()],
        "limits": asdict(agent.limits),
        "max_iters": max_iters,
        "on_repeat": agent.on_repeat,
        "require_tools": sorted(agent.rules.require_tools),
        "finish_after_error": agent.rules.finish_after_error,
        "demos": demos_record(agent),
        "demos_digest": demos_digest(agent),
    }


def _predictors(agent: ReAct) -> dict[str, dict[str, Any]]:
    """Return instructions and descriptions of the predictors, which stand in the prompt and may be learned."""
    return {
        name.removesuffix(".predict"): {
            "instructions": predictor.signature.instructions,
            "descriptions": described(predictor.signature),
        }
        for name, predictor in agent.named_predictors()
    }


def demos_record(agent: ReAct) -> dict[str, list[Any]]:
    """Return the demos of the predictors, which stand in the prompt, as JSON values."""
    return {
        name.removesuffix(".predict"): [to_jsonable_python(dict(demo), fallback=repr) for demo in predictor.demos]
        for name, predictor in agent.named_predictors()
    }


def demos_digest(agent: ReAct) -> str:
    """Return a SHA-256 of the demos."""
    return hashlib.sha256(json.dumps(demos_record(agent), sort_keys=True).encode()).hexdigest()


def tool_record(tool: Tool) -> dict[str, Any]:
    """Return a tool as the model sees it, with a digest of all of that but the title."""
    shown = cast("dict[str, Any]", function_notation(tool)["function"])
    return {**shown, "title": tool.title, "digest": tool_digest(shown)}


def tool_digest(shown: Mapping[str, Any]) -> str:
    """Return a SHA-256 of name, description and parameters."""
    parts = [shown["name"], shown["description"], shown["parameters"]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def changed_tools(header: Mapping[str, Any], tools: Mapping[str, Tool]) -> dict[str, str]:
    """Return the tools that differ from those of a header, each with what is different."""
    recorded = {tool["name"]: tool for tool in header["tools"]}
    current = {name: tool_record(tool) for name, tool in tools.items()}
    changes = {name: "is gone" for name in recorded if name not in current}
    changes |= {name: "is new" for name in current if name not in recorded}
    for name in recorded.keys() & current.keys():
        old, new = recorded[name], current[name]
        if (old.get("digest") or tool_digest(old)) != new["digest"]:
            changes[name] = "has another description or schema"
        elif old.get("title", new["title"]) != new["title"]:  # which some formats show
            changes[name] = "has another title"
    return {name: changes[name] for name in (*recorded, *current) if name in changes}


def fingerprint_of(lm: LanguageModel) -> str | None:
    """Return what tells the model's weights and tokenizer from others, if it knows."""
    return getattr(getattr(lm, "session_origin", None), "fingerprint", None)
