"""`sureact run`: an agent with the tools of a Python file, each step shown as it happens."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sureact.cli.console import add_output_options, note, write_json, write_result
from sureact.cli.model_options import (
    AGENT_MODEL,
    add_model_options,
    engine_config,
    load_engine,
    unloaded_model,
    usual_model,
)
from sureact.cli.option_fields import positive_int
from sureact.cli.run_resume import add_resume_options, check_resume_options, recorded_options, resumption
from sureact.cli.stats_display import note_stats
from sureact.cli.store_once import StoreOnce
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.agent.prediction import Prediction
    from sureact.agent.react import ReAct
    from sureact.agent.signature import Signature
    from sureact.agent.token_limits import TokenLimits
    from sureact.cli.step_display import StepDisplay

SIGNATURE = "question -> answer"
MAX_ITERS = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = "Runs an agent. Its steps are shown on standard error, its answer goes to standard output."
    parser.add_argument(
        "question",
        nargs="?",
        metavar="QUESTION",
        help="the input; a JSON object where the signature has several inputs; none with --resume",
    )
    parser.add_argument(
        "--tools",
        action=StoreOnce,
        type=Path,
        required=True,
        metavar="FILE.py",
        help="Python file with the tools: its list TOOLS, else its public functions",
    )
    parser.add_argument(
        "--signature",
        metavar="S",
        help=f"inputs and outputs, such as 'question: str -> answer: float' (default: '{SIGNATURE}')",
    )
    parser.add_argument("--max-iters", type=positive_int, metavar="N", help=f"most steps in all (default: {MAX_ITERS})")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="file that the run is appended to (default: a new one in the store)"
    )
    parser.add_argument(
        "--format", metavar="F", help="prompt format: fields, qwen_tool_call or qwen_react (default: the model's best)"
    )
    _add_guard_options(parser)
    add_resume_options(parser)
    add_model_options(
        parser, default_words=f"with --resume the model of the trace, else $SUREACT_MODEL, else {AGENT_MODEL}"
    )
    add_output_options(parser, json_help="outputs, steps, reason of the end, usage and the trace file")
    parser.set_defaults(command=run_command)


def _add_guard_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-repeat",
        choices=("mask", "remind", "run"),
        help="a call that was made before: take it back and have another tool called, remind the model of its "
        "observation, or run it again (default: mask)",
    )
    parser.add_argument(
        "--require-tool",
        action="append",
        metavar="NAME",
        help="a tool that must have succeeded before the run may finish; may be given several times",
    )
    parser.add_argument(
        "--max-seconds", type=float, metavar="S", help="seconds after which no step is begun (default: no limit)"
    )
    parser.add_argument(
        "--max-tokens", type=positive_int, metavar="N", help="most tokens generated in the run (default: no limit)"
    )
    parser.add_argument(
        "--approve",
        action="store_true",
        help="ask on the terminal before each call: run it, deny it with a reason, or change its arguments",
    )


def run_command(arguments: argparse.Namespace) -> None:
    """Run the agent; whatever can be refused is refused before the model is loaded."""
    from sureact.agent.signature import Signature
    from sureact.cli.step_display import StepDisplay

    check_resume_options(arguments)
    recorded = recorded_options(arguments) if arguments.resume else {}
    config = engine_config(arguments, recorded.get("model") or arguments.model or usual_model(AGENT_MODEL))
    signature = Signature.of(arguments.signature or recorded.get("signature") or SIGNATURE)
    inputs = {} if arguments.resume else signature.check_inputs(_inputs(arguments.question, signature))
    trace, display = arguments.resume or arguments.trace or _new_trace(), StepDisplay()
    agent = _agent(arguments, recorded, signature, trace, display)
    go_on = resumption(agent, arguments) if arguments.resume else None
    with load_engine(config) as engine:
        agent.lm = engine
        note(f"Trace: {trace}")
        try:
            prediction = go_on(display) if go_on else agent(**inputs)
        finally:
            display.close()
        if arguments.verbose:
            note_stats(engine)
    note(_summary(prediction))
    if arguments.json:
        write_json(_as_json(prediction, signature, trace))
    else:
        write_result(_answer(prediction, signature))


def _agent(
    arguments: argparse.Namespace, recorded: dict[str, Any], signature: Signature, trace: Path, display: StepDisplay
) -> ReAct:
    """Return the agent, with something in place of the model until that is loaded."""
    from sureact.agent.react import ReAct
    from sureact.agent.tool_file import load_tools
    from sureact.cli.terminal_approval import TerminalApproval

    return ReAct(
        signature,
        load_tools(arguments.tools),
        lm=unloaded_model(recorded.get("model_name", "")),
        max_iters=arguments.max_iters or MAX_ITERS,
        prompt_format=arguments.format or recorded.get("prompt_format"),
        limits=_limits(arguments, recorded.get("limits")),
        on_event=display,
        trace=trace,
        approve=TerminalApproval(display) if arguments.approve else None,
        **_rules(arguments, recorded),
    )


def _rules(arguments: argparse.Namespace, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return which calls may be made: as the options say, else as the trace does."""
    names = ("on_repeat", "require_tools", "finish_after_error")
    given = {"on_repeat": arguments.on_repeat, "require_tools": arguments.require_tool}
    return {name: recorded[name] for name in names if name in recorded} | {
        name: value for name, value in given.items() if value is not None
    }


def _limits(arguments: argparse.Namespace, recorded: TokenLimits | None) -> TokenLimits:
    from sureact.agent.token_limits import TokenLimits

    given = {"max_seconds": arguments.max_seconds, "run": arguments.max_tokens}
    return replace(recorded or TokenLimits(), **{name: value for name, value in given.items() if value is not None})


def _inputs(question: str | None, signature: Signature) -> dict[str, Any]:
    if question is None or not question.strip():
        raise ConfigError("The question is empty. Give what the agent is to answer.")
    if len(signature.inputs) == 1:
        return {next(iter(signature.inputs)): question}
    names = ", ".join(signature.inputs)
    try:
        values = json.loads(question)
    except ValueError as error:
        raise ConfigError(
            f"The signature has the inputs {names}, so QUESTION must be a JSON object with them; it is {question!r}."
        ) from error
    if not isinstance(values, dict):
        raise ConfigError(f"QUESTION must be a JSON object with the inputs {names}; it is {question!r}.")
    return cast("dict[str, Any]", values)


def _new_trace() -> Path:
    from sureact.catalog.store import ModelStore

    return ModelStore().runs_folder / f"{datetime.now():%Y-%m-%dT%H-%M-%S}-{os.getpid()}.jsonl"


def _answer(prediction: Prediction, signature: Signature) -> str:
    """Return the outputs as text: a lone text as it is, anything else as JSON."""
    from pydantic_core import to_jsonable_python

    outputs = {name: to_jsonable_python(prediction[name], fallback=str) for name in signature.outputs}
    shown = next(iter(outputs.values())) if len(outputs) == 1 else outputs
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def _as_json(prediction: Prediction, signature: Signature, trace: Path) -> dict[str, object]:
    return {
        "outputs": {name: prediction[name] for name in signature.outputs},
        "reasoning": prediction["reasoning"],
        "termination_reason": prediction.termination_reason,
        "steps": [asdict(step) for step in prediction.trajectory.steps],
        "usage": asdict(prediction.usage),
        "trace": str(trace),
    }


def _summary(prediction: Prediction) -> str:
    usage = prediction.usage
    return (
        f"[{len(prediction.trajectory.steps)} steps, ended by {prediction.termination_reason}; "
        f"{usage.completion_tokens:,} tokens generated at {usage.tokens_per_s:.1f} tokens/s, "
        f"{usage.cached_tokens:,} of {usage.prompt_tokens:,} prompt tokens reused; {usage.seconds:.1f} s]"
    )
