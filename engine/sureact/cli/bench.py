"""`sureact bench`: how fast a model decodes, reads prompts, writes tool calls, runs agents and serves many requests."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.cli.bench_report import Report
from sureact.cli.console import add_output_options, note, table_text, working, write_json, write_result
from sureact.cli.model_options import add_model_options, engine_config, load_engine
from sureact.cli.option_fields import positive_int
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.engine import Engine

_Options = dict[str, Any]


class _Option(NamedTuple):
    name: str
    reads: Callable[[str], object]
    metavar: str
    help: str


_OPTIONS = (
    _Option("prompt_len", positive_int, "N", "tokens of the prompt"),
    _Option("num_tokens", positive_int, "N", "tokens to decode; of `constrained`, most per call"),
    _Option("repeats", positive_int, "N", "measurements; of `react`, runs"),
    _Option("num_turns", positive_int, "N", "tool calls before the answer"),
    _Option("calls", positive_int, "N", "tool calls"),
    _Option("schemas", Path, "PATH", "folder or tar archive of MaskBench files; those of function calls are taken"),
    _Option("num_requests", positive_int, "N", "requests, all at once"),
    _Option("input_len", positive_int, "N", "longest prompt; the shortest has 100 tokens"),
    _Option("output_len", positive_int, "N", "longest output; the shortest has 100 tokens"),
)


class _Kind(NamedTuple):
    measures: str
    run: Callable[[Engine, _Options], Report]
    defaults: _Options
    """The options that go with it."""


def _decode(engine: Engine, options: _Options) -> Report:
    from sureact.cli.bench_report import speed_report
    from sureact.evaluation.bench import measure_decode

    return speed_report(measure_decode(engine, **options))


def _prefill(engine: Engine, options: _Options) -> Report:
    from sureact.cli.bench_report import speed_report
    from sureact.evaluation.bench import measure_prefill

    return speed_report(measure_prefill(engine, **options))


def _constrained(engine: Engine, options: _Options) -> Report:
    from sureact.cli.bench_report import constrained_report
    from sureact.evaluation.bench_constrained import measure_constrained
    from sureact.evaluation.tool_calls import tool_call_tasks

    tasks = tool_call_tasks(options["schemas"], options["calls"])
    return constrained_report(measure_constrained(engine, tasks, max_tokens=options["num_tokens"]))


def _react(engine: Engine, options: _Options) -> Report:
    from sureact.cli.bench_report import react_report
    from sureact.evaluation.bench_react import measure_react

    return react_report(measure_react(engine, **options))


def _throughput(engine: Engine, options: _Options) -> Report:
    from sureact.cli.bench_report import throughput_report
    from sureact.evaluation.bench_throughput import measure_throughput

    return throughput_report(measure_throughput(engine, **options))


_KINDS = {
    "decode": _Kind("one token after another", _decode, {"prompt_len": 128, "num_tokens": 64, "repeats": 5}),
    "prefill": _Kind("reading a prompt", _prefill, {"prompt_len": 1024, "repeats": 5}),
    "constrained": _Kind(
        "tool calls under their schemas", _constrained, {"calls": 20, "schemas": None, "num_tokens": 128}
    ),
    "react": _Kind("an agent's run with scripted observations", _react, {"num_turns": 6, "repeats": 3}),
    "throughput": _Kind(
        "many requests at once", _throughput, {"num_requests": 24, "input_len": 256, "output_len": 128}
    ),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = "Measures the speed of a model on this machine. Run nothing else meanwhile."
    parser.add_argument(
        "what", metavar="|".join(_KINDS), help="; ".join(f"{name}: {kind.measures}" for name, kind in _KINDS.items())
    )
    for name, reads, metavar, described in _OPTIONS:
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=reads, metavar=metavar, help=f"{described} ({_defaults_text(name)})"
        )
    add_model_options(parser)
    add_output_options(parser, json_help="every measurement, settings, versions and hardware")
    parser.set_defaults(command=bench_command)


def bench_command(arguments: argparse.Namespace) -> None:
    """Measure and write the result."""
    what = arguments.what
    if what not in _KINDS:
        raise ConfigError(f"`bench {what}` is not known; there are {', '.join(f'`bench {name}`' for name in _KINDS)}.")
    options = _chosen_options(arguments)
    with load_engine(engine_config(arguments)) as engine, working(f"Measuring {what}"):
        report = _KINDS[what].run(engine, options)
    if arguments.json:
        from sureact.evaluation.machine import hardware, versions

        write_json({"what": what, **report.values, "versions": versions(), "hardware": hardware()})
        return
    write_result(table_text(report.rows))
    for line in report.notes:
        note(line)


def _chosen_options(arguments: argparse.Namespace) -> _Options:
    """Return the options of the kind that is measured; those of other kinds are refused."""
    defaults = _KINDS[arguments.what].defaults
    for option in _OPTIONS:
        if getattr(arguments, option.name) is not None and option.name not in defaults:
            kinds = ", ".join(f"`bench {name}`" for name, kind in _KINDS.items() if option.name in kind.defaults)
            raise ConfigError(
                f"--{option.name.replace('_', '-')} goes with {kinds}, not with `bench {arguments.what}`."
            )
    given = {name: getattr(arguments, name) for name in defaults}
    return {name: defaults[name] if value is None else value for name, value in given.items()}


def _defaults_text(option: str) -> str:
    shown = [
        f"{name} {'our own tools' if kind.defaults[option] is None else kind.defaults[option]}"
        for name, kind in _KINDS.items()
        if option in kind.defaults
    ]
    return f"default: {', '.join(shown)}"
