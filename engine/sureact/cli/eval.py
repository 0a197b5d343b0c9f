"""`sureact eval`: how good a model is at calling tools, by the Berkeley leaderboard or our own tasks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureact.cli.console import add_output_options, error_console, note, table_text, write_json, write_result
from sureact.cli.model_options import AGENT_MODEL, add_model_options, engine_config, load_engine
from sureact.cli.option_fields import positive_int
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.engine import Engine
    from sureact.evaluation.scoring.contender import Contender
    from sureact.evaluation.scoring.outcome import Outcome
    from sureact.evaluation.scoring.outcome_file import OutcomeFile
    from sureact.evaluation.scoring.suite import Case, CaseDone

_PER_CATEGORY = {"bfcl": 100, "tasks": None}
"""How many cases of each category a suite takes by default; None for all."""
_FAULTS_SHOWN = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = (
        "Counts how many cases a model gets right: `bfcl` are the function calls of the Berkeley leaderboard, `tasks` "
        "our own 60 questions of several steps. Finished cases are kept, so an interrupted run goes on where it was."
    )
    parser.add_argument("suite", choices=tuple(_PER_CATEGORY), help="which cases")
    parser.add_argument("--category", action="append", metavar="C", help="only this one; again for more (default: all)")
    parser.add_argument(
        "--limit",
        type=positive_int,
        metavar="N",
        help="cases altogether, as many of each category (default: bfcl 100 per category, tasks all)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the choice of cases (default: 0)")
    parser.add_argument(
        "--format",
        metavar="F",
        help="prompt format of agents, such as fields or qwen_tool_call (default: the model's best); of bfcl also "
        "chat, one turn of the model's own chat template, which is the default there",
    )
    parser.add_argument(
        "--peer",
        metavar="P",
        help="count another way on the same weights, and compare it with sureact case by case: unconstrained, "
        "llama.cpp or outlines in our prompt and loop; of tasks also dspy (its ReAct), qwen-agent and qwen-agent-react "
        "(two loops of Qwen-Agent), each with its own prompts",
    )
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="the model's GGUF file, for --peer llama.cpp")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="where finished cases are kept (default: a file in the store)"
    )
    parser.add_argument(
        "--concurrency",
        type=positive_int,
        default=1,
        metavar="N",
        help="cases that run at once, decoded together: the same answers, sooner; the seconds of a case then hold "
        "those of others too (default: 1)",
    )
    add_model_options(parser, default_model=AGENT_MODEL)
    add_output_options(parser, json_help="the counts")
    parser.set_defaults(command=eval_command)


def eval_command(arguments: argparse.Namespace) -> None:
    """Run the cases; whatever can be refused is refused before the model is loaded."""
    from sureact.evaluation.scoring.contender import CHAT, own_contender, peer_contender, require_peer
    from sureact.evaluation.scoring.outcome_file import OutcomeFile

    config = engine_config(arguments)
    _check_peer(arguments)
    if arguments.format and not (arguments.suite == "bfcl" and arguments.format == CHAT):
        _check_format(arguments)
    cases = _chosen_cases(arguments)
    if arguments.peer:
        require_peer(arguments.peer, arguments.format or _default_format(arguments.suite, config.model))
    results = arguments.results or _default_results(arguments.suite)
    with closing(OutcomeFile(results)) as file, load_engine(config) as engine:
        chosen_format = arguments.format or _default_format(arguments.suite, engine.name)
        own = _outcomes(cases, own_contender(engine, chosen_format), file, arguments.concurrency)
        peer = None
        if arguments.peer:
            contender = peer_contender(engine, chosen_format, arguments.peer, _gguf(arguments))
            peer = _outcomes(cases, contender, file, arguments.concurrency)
        _write(arguments, engine, chosen_format, cases, own, peer)


def _check_peer(arguments: argparse.Namespace) -> None:
    from sureact.evaluation.scoring.contender import LOOP_PEERS, PEERS

    if arguments.peer and arguments.peer not in PEERS:
        raise ConfigError(f"--peer is {arguments.peer!r}; there are {', '.join(PEERS)}.")
    if arguments.suite == "bfcl" and arguments.peer in LOOP_PEERS:
        in_ours = ", ".join(name for name in PEERS if name not in LOOP_PEERS)
        raise ConfigError(
            f"--peer {arguments.peer} answers questions in a loop of its own, and `eval bfcl` judges calls. Take it to "
            f"`eval tasks`, or take one of {in_ours}."
        )
    if arguments.gguf and arguments.peer != "llama.cpp":
        raise ConfigError("--gguf goes with --peer llama.cpp.")
    if arguments.gguf and not arguments.gguf.is_file():
        raise ConfigError(f"--gguf {arguments.gguf} does not exist; name the GGUF file of the model.")
    if arguments.peer == "llama.cpp" and arguments.concurrency > 1:
        raise ConfigError("--peer llama.cpp runs one case after another, in one context: leave out --concurrency.")
    if arguments.peer == "llama.cpp" and _gguf(arguments) is None:
        raise ConfigError("--peer llama.cpp runs a GGUF file: name the one of this model with --gguf FILE.")


def _gguf(arguments: argparse.Namespace) -> Path | None:
    if arguments.gguf is None and arguments.model.endswith(".gguf"):
        return Path(arguments.model).expanduser()
    return arguments.gguf


def _check_format(arguments: argparse.Namespace) -> None:
    from sureact.agent.formats.registry import FORMATS

    if arguments.format not in FORMATS:
        names = [*FORMATS, *(["chat"] if arguments.suite == "bfcl" else [])]
        raise ConfigError(f"--format is {arguments.format!r}; `eval {arguments.suite}` takes {', '.join(names)}.")


def _default_format(suite: str, model: str) -> str:
    from sureact.agent.formats.registry import default_format
    from sureact.evaluation.scoring.contender import CHAT

    return CHAT if suite == "bfcl" else default_format(model).name


def _default_results(suite: str) -> Path:
    from sureact.catalog.store import ModelStore

    return ModelStore().root / "evaluation" / f"{suite}.jsonl"


def _chosen_cases(arguments: argparse.Namespace) -> list[Case]:
    from sureact.evaluation.scoring.suite import sample

    cases: Mapping[str, Sequence[Case]] = _all_cases(arguments.suite)
    for category in arguments.category or ():
        if category not in cases:
            raise ConfigError(f"--category is {category!r}; `eval {arguments.suite}` has {', '.join(cases)}.")
    chosen = {name: of for name, of in cases.items() if not arguments.category or name in arguments.category}
    return sample(chosen, per_category=_PER_CATEGORY[arguments.suite], limit=arguments.limit, seed=arguments.seed)


def _all_cases(suite: str) -> Mapping[str, Sequence[Case]]:
    if suite == "bfcl":
        from sureact.evaluation.bfcl.bfcl_case import bfcl_cases

        return bfcl_cases()
    from sureact.evaluation.tasks.task_case import task_cases

    return task_cases()


def _outcomes(cases: Sequence[Case], contender: Contender, file: OutcomeFile, concurrency: int) -> list[Outcome]:
    from sureact.evaluation.scoring.suite import case_keys, run_cases

    name = contender.peer or "sureact"
    keys = case_keys(cases, contender)
    if num_outdated := sum(map(file.is_outdated, keys)):
        note(
            f"{file.path} holds {num_outdated:,} outcomes of {name} that another version of the evaluation left, or "
            "other files or settings of the model; these cases are run again."
        )
    try:
        with _progress(name, len(cases)) as on_case:
            outcomes = run_cases(cases, contender, file, on_case, keys, concurrency)
    except BaseException:
        note(f"Finished cases are kept in {file.path}; the same command goes on from there.")
        raise
    _note_faults(name, cases, outcomes)
    return outcomes


@contextmanager
def _progress(name: str, total: int) -> Generator[Callable[[CaseDone], None]]:
    """Show on standard error how many cases are done and right: a bar on a terminal, a line per case elsewhere."""
    console = error_console()
    done = right = 0

    def count(case_done: CaseDone) -> str:
        nonlocal done, right
        done, right = done + 1, right + case_done.outcome.is_right
        return f"{name}: {right} right of {done}"

    if not console.is_terminal:
        note(f"Running {total:,} cases with {name} ...")
        yield lambda case_done: _note_case(case_done, count(case_done), total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=total)
        yield lambda case_done: progress.update(task, advance=1, description=count(case_done))


def _note_case(done: CaseDone, counts: str, total: int) -> None:
    if not done.is_kept:
        verdict = "right" if done.outcome.is_right else "wrong"
        note(f"{done.case.id}: {verdict} ({counts}, {total} in all)")


def _note_faults(name: str, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> None:
    faults = [(case, outcome) for case, outcome in zip(cases, outcomes, strict=True) if not outcome.is_valid]
    for case, outcome in faults[:_FAULTS_SHOWN]:
        note(f"Not valid, {name}, {case.id}: {outcome.fault}")
    if len(faults) > _FAULTS_SHOWN:
        note(f"Not valid, {name}: {len(faults) - _FAULTS_SHOWN} more, in the results file.")


def _write(
    arguments: argparse.Namespace,
    engine: Engine,
    chosen_format: str,
    cases: Sequence[Case],
    own: Sequence[Outcome],
    peer: Sequence[Outcome] | None,
) -> None:
    """Write the counts: of the peer where one was asked for, with ours and the difference beside them."""
    from sureact.evaluation.scoring.paired import paired_difference

    difference = None
    if peer is not None:
        difference = paired_difference([one.is_right for one in own], [one.is_right for one in peer])
    if arguments.json:
        head: dict[str, Any] = {"suite": arguments.suite, "model": engine.name, "format": chosen_format}
        head |= {"quantization": engine.config.quantization, "peer": arguments.peer, "seed": arguments.seed}
        body = _counts(cases, own if peer is None else peer)
        if difference is not None:
            body |= {"sureact": _counts(cases, own), "difference": difference.as_dict()}
        write_json(head | body)
        return
    write_result(table_text(_rows(cases, {"sureact": own} | ({arguments.peer: peer} if peer is not None else {}))))
    if difference is not None:
        write_result(
            f"sureact less {arguments.peer}: {100 * difference.difference:+.1f} points, 95 % interval "
            f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f} (Agresti-Min, paired), McNemar "
            f"p = {difference.p_value:.3f}"
        )


def _counts(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    from sureact.evaluation.scoring.outcome import Score

    by_category = {
        name: Score.of(
            outcome for case, outcome in zip(cases, outcomes, strict=True) if case.category == name
        ).as_dict()
        for name in dict.fromkeys(case.category for case in cases)
    }
    return {**Score.of(outcomes).as_dict(), "categories": by_category}


def _rows(cases: Sequence[Case], outcomes: Mapping[str, Sequence[Outcome]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", "category", "n", "correct", "accuracy", "valid", "tokens", "seconds")]
    for name, of in outcomes.items():
        counts = _counts(cases, of)
        for category, score in {**counts["categories"], "all": counts}.items():
            shares = (f"{score['correct']:,}", f"{100 * score['accuracy']:.1f} %", f"{score['valid']:,}")
            rows.append(
                (name, category, f"{score['n']:,}", *shares, f"{score['tokens']:,}", f"{score['seconds']:,.1f}")
            )
    return rows
