"""`sureact generate`: one generation, streamed to standard output."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sureact.cli.console import add_output_options, note, write_json, write_result
from sureact.cli.model_options import add_model_options, engine_config, load_engine
from sureact.cli.option_fields import add_field_options, field_values
from sureact.cli.stats_display import note_stats
from sureact.cli.store_once import StoreOnce
from sureact.errors import ConfigError, ConstraintError, InternalError, OutputTruncatedError
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint
    from sureact.engine import Engine, Prompt
    from sureact.outputs import RequestOutput, StepOutput


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = "Generates one text after a prompt, as it is or as a chat message."
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt, taken as it is; - reads it from standard input")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--chat", action="store_true", help="send the prompt as a user's message of the model's chat")
    forms.add_argument(
        "--parse-control-tokens",
        action="store_true",
        help="take <|im_end|> and the like in the prompt as control tokens, not as text",
    )
    constraints = parser.add_argument_group("constraint", "at most one").add_mutually_exclusive_group()
    constraints.add_argument(
        "--schema",
        action=StoreOnce,
        type=Path,
        metavar="FILE",
        help="the text must be JSON valid under this JSON schema",
    )
    constraints.add_argument("--regex", metavar="R", help="the text must match this regular expression as a whole")
    constraints.add_argument(
        "--choice", action="append", metavar="A", help="the text must be this; repeat it for every alternative"
    )
    add_sampling_options(parser)
    add_model_options(parser)
    add_output_options(parser, json_help="texts, ids, reasons, usage and times")
    parser.set_defaults(command=generate_command)


def add_sampling_options(parser: argparse.ArgumentParser, *, skip: tuple[str, ...] = ()) -> None:
    """Add an option per field of `SamplingParams`; `--stop` takes texts and can be repeated."""
    parser.add_argument(
        "--stop", action="append", default=[], metavar="S", help="a text to stop at; repeat it for more of them"
    )
    add_field_options(parser, "sampling", SamplingParams, skip=("stop", "runaway", *skip))


def sampling_params(arguments: argparse.Namespace, *, skip: tuple[str, ...] = ()) -> SamplingParams:
    """Return the parameters that the options ask for.

    Raises:
        ConfigError: a value is not allowed.
    """
    return SamplingParams(
        stop=arguments.stop, **field_values(arguments, SamplingParams, skip=("stop", "runaway", *skip))
    )


def generate_command(arguments: argparse.Namespace) -> None:
    """Generate, and write the text as it comes; with `--json` or several texts, all at the end."""
    config, params = engine_config(arguments), sampling_params(arguments)
    constraint = _constraint(arguments)
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if not prompt:
        raise ConfigError("The prompt is empty. Give at least one character, or - to read standard input.")
    if params.logprobs is not None and not arguments.json:
        raise ConfigError("--logprobs shows in the JSON only; add --json.")
    with load_engine(config) as engine:
        context: Prompt = engine.render_chat([{"role": "user", "content": prompt}]) if arguments.chat else prompt
        if arguments.json or params.n > 1:
            output = engine.generate(context, params, constraint, parse_control_tokens=arguments.parse_control_tokens)
            _write_all(output, constraint, as_json=arguments.json)
        else:
            _stream(engine, context, params, constraint, parse_control_tokens=arguments.parse_control_tokens)
        if arguments.verbose:
            note_stats(engine)


def _constraint(arguments: argparse.Namespace) -> Constraint | None:
    if arguments.schema is not None:
        from sureact.constraints.json_schema import json_schema

        return json_schema(_file_text(arguments.schema))
    if arguments.regex is not None:
        from sureact.constraints.regex import regex

        return regex(arguments.regex)
    if arguments.choice is not None:
        from sureact.constraints.choice import choice

        return choice(arguments.choice)
    return None


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--schema is {str(path)!r}, which cannot be read: {error}. Give a JSON file.") from error


def _stream(
    engine: Engine,
    context: Prompt,
    params: SamplingParams,
    constraint: Constraint | None,
    *,
    parse_control_tokens: bool,
) -> None:
    with closing(
        cast("Any", engine.stream(context, params, constraint, parse_control_tokens=parse_control_tokens))
    ) as deltas:
        for delta in deltas:
            write_result(delta.text, end="")
            if delta.output is not None:
                write_result("")
                note(_speed(delta.output))
                _value(delta.output, constraint)


def _write_all(output: RequestOutput, constraint: Constraint | None, *, as_json: bool) -> None:
    if not as_json:
        for completion in output.completions:
            write_result(completion.text)
            _value(completion, constraint)
        return
    completions = [asdict(completion) for completion in output.completions]
    if constraint is not None:
        for values, completion in zip(completions, output.completions, strict=True):
            values["value"] = _value(completion, constraint)
    write_json({"prompt_tokens": len(output.prompt_token_ids), "completions": completions})


def _value(output: StepOutput, constraint: Constraint | None) -> object:
    """Return what a constrained text stands for, judged once more."""
    if constraint is None:
        return None
    if output.finish_reason != "length":
        return constraint.parse(output.text)
    try:
        # A text can be complete exactly where max_tokens ends it.
        return constraint.parse(output.text)
    except (ConstraintError, InternalError) as error:
        raise OutputTruncatedError(
            f"The text ends after {len(output.token_ids):,} tokens and is not complete under its constraint. "
            "Raise --max-tokens."
        ) from error


def _speed(output: StepOutput) -> str:
    usage, timings = output.usage, output.timings
    per_s = f" at {usage.completion_tokens / timings.decode_s:.1f} tokens/s" if timings.decode_s else ""
    ended = "ended by max_tokens" if output.finish_reason == "length" else f"ended by {output.finish_reason}"
    return f"[{usage.prompt_tokens:,} prompt tokens, {usage.completion_tokens:,} generated{per_s}, {ended}]"
