"""Generates tool calls and JSON against their schemas, by models that work against them.

python -m benchmarks.constraints.adversarial FOLDER --calls 10000 --schemas 500

The engine's loop and sampler are the real ones; the model is an adversary without weights. Every text that finishes
must be valid, and everything else must end in a clear error, within a stated number of steps. FOLDER holds schemas as
`sureact conformance` reads them. Tool calls are of one to three tools, their objects closed; after them comes one text
for each schema that a guard judges.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.constraints.adversary import STRATEGIES
from benchmarks.constraints.arena import Arena, Opponent

from sureact.cli.option_fields import positive_int
from sureact.constraints.call_grammar import ToolCallBranch, tool_call_grammar
from sureact.constraints.json_schema import json_schema
from sureact.errors import ConfigError, SureactError
from sureact.evaluation.conformance.case_files import opened_cases

TOOL_SLICES = ("Glaiveai2K", "BFCL", "MCPspec", "JME")
"""What the names of MaskBench's files with function schemas begin with."""

_OWN_CORPUS = Path(__file__).parents[2] / "tests" / "data" / "schemas"


def main() -> int:
    """Play, print the counts, and fail if a promise was broken."""
    arguments = _parser().parse_args()
    arena = Arena(max_tokens=arguments.max_tokens, max_rollbacks=arguments.max_rollbacks, seed=arguments.seed)
    try:
        schemas = read_schemas(arguments.path)
        arena.play(islice(tool_calls(schemas, arguments.schemas, arguments.seed, arena), arguments.calls))
        if not arguments.calls_only:
            arena.play(guarded_texts(schemas, arena))
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(arena.report(), indent=2, ensure_ascii=False))
    return 1 if arena.violations else 0


def read_schemas(path: Path) -> dict[str, Any]:
    """Return the schemas of a file, folder or archive, by file and name."""
    with opened_cases(path) as files:
        return {
            f"{case.file} {case.name}".strip(): case.schema
            for file in files.files
            for case in file.read(reorder=False)
            if case.kind == "json_schema"
        }


def tool_calls(schemas: dict[str, Any], num_schemas: int, seed: int, arena: Arena) -> Iterator[Opponent]:
    """Yield, without end, calls of sampled tools: each tool alone and beside others, against every strategy.

    Raises:
        ConfigError: no schema can be that of a tool's arguments.
    """
    chosen = random.Random(seed)
    names = [name for name in schemas if name.startswith(TOOL_SLICES)] or [*schemas]
    names = chosen.sample(names, len(names))
    tools = [*islice((tool for name in names if (tool := _tool(name, schemas[name], arena))), num_schemas)]
    if not tools:
        raise ConfigError("No schema in these files can be that of a tool's arguments.")
    while True:
        for first in tools:
            others = chosen.sample(tools, min(chosen.randrange(3), len(tools)))
            group = list({tool.name: tool for tool in (first, *others)}.values())
            call = tool_call_grammar(group, prefix='{"name": "', delimiter='", "arguments": ', suffix="}")
            for strategy in STRATEGIES:
                yield Opponent(first.name, call, strategy)


def guarded_texts(schemas: dict[str, Any], arena: Arena) -> Iterator[Opponent]:
    """Yield a text for each schema that a guard judges, the strategies taking turns."""
    for index, (name, schema) in enumerate(schemas.items()):
        constraint = json_schema(schema)
        compiled = arena.compiled(name, constraint)
        if compiled is not None and compiled.is_guarded:
            yield Opponent(name, constraint, STRATEGIES[index % len(STRATEGIES)])


def _tool(name: str, schema: Any, arena: Arena) -> ToolCallBranch | None:
    """Return a tool with these arguments; None where they are no object, or refused."""
    if not isinstance(schema, dict):
        return None
    branch = ToolCallBranch(name, schema)
    try:
        call = tool_call_grammar([branch], prefix="", delimiter=" ", suffix="")
    except ConfigError:
        return None
    return None if arena.compiled(name, call) is None else branch


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.constraints.adversarial", description=__doc__)
    parser.add_argument(
        "path", type=Path, nargs="?", default=_OWN_CORPUS, help="file, folder or archive (default: %(default)s)"
    )
    for option, default, text in (
        ("--calls", 10_000, "tool calls"),
        ("--schemas", 500, "tools that they are of, at most"),
        ("--max-tokens", 300, "tokens that a text may have"),
        ("--max-rollbacks", 256, "tokens that may be taken back, per text"),
    ):
        parser.add_argument(option, type=positive_int, default=default, help=f"{text} (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of sample and adversary (default: %(default)s)")
    parser.add_argument("--calls-only", action="store_true", help="leave out the guarded schemas")
    return parser


if __name__ == "__main__":
    sys.exit(main())
