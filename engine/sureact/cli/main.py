"""The `sureact` command: its parser, its exit codes, and how errors are shown."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from sureact import __version__
from sureact.cli import bench, chat, conformance, doctor, generate, models, pull, run, serve, trace
from sureact.cli import eval as evaluate
from sureact.cli.console import note
from sureact.errors import ConfigError, SignatureError, SureactError, ToolDefinitionError

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

_COMMANDS = (
    ("pull", "get a model", pull.add_options),
    ("models", "list or remove models", models.add_options),
    ("run", "run an agent", run.add_options),
    ("trace", "show or replay what an agent recorded", trace.add_options),
    ("generate", "generate a text", generate.add_options),
    ("chat", "talk to a model", chat.add_options),
    ("serve", "serve a model over HTTP", serve.add_options),
    ("bench", "measure the speed", bench.add_options),
    ("eval", "count what a model gets right", evaluate.add_options),
    ("conformance", "check schemas against their instances", conformance.add_options),
    ("doctor", "report on this machine", doctor.add_options),
)


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Args:
        words: the command line without the program's name; None takes the process's own.

    Raises:
        SystemExit: the parser refused the command line (2), or showed help or version (0).
    """
    words = sys.argv[1:] if words is None else words
    try:
        arguments = build_parser().parse_args(words)
        arguments.command(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        note("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output left. Without this, Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # the last place where a bug can still be told from a user's mistake
        if _is_interrupt(error):
            note("Interrupted.")
            return INTERRUPTED
        _show(error, with_traceback="--verbose" in words)
        return WRONG_USAGE if isinstance(error, (ConfigError, SignatureError, ToolDefinitionError)) else FAILED
    return DONE


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="sureact",
        description="Tool-using agents on a local model, fully offline. Results go to standard output, the rest to "
        "standard error. Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"sureact {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary, add_options in _COMMANDS:
        add_options(subparsers.add_parser(name, help=summary, allow_abbrev=False))
    return parser


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C led to the error: a lock that is interrupted as its wait begins is released twice, for one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _show(error: Exception, *, with_traceback: bool) -> None:
    if with_traceback:
        traceback.print_exception(error)
    if isinstance(error, SureactError):
        note(f"Error: {error}")
        return
    note(
        f"Error: {type(error).__name__}: {error}\nThis is a bug in sureact. Run the command with --verbose for the "
        "traceback, and report it together with the output of `sureact doctor`."
    )


if __name__ == "__main__":
    sys.exit(main())
