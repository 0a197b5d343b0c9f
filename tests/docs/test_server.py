"""The tables of fields in `docs/server.md` are those that the server reads requests by."""

import ast
import re
from pathlib import Path

import pytest

from sureact.server.app import ROUTES
from sureact.server.openapi import BODY_FIELDS
from sureact.server.request_fields import markdown_table

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/server.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", BODY_FIELDS)
def test_the_table_of_fields_is_the_servers(path: str) -> None:
    section = TEXT.partition(f"## Fields of `{path}`\n\n")[2].partition("\n\n")[0].strip()
    assert section == markdown_table(BODY_FIELDS[path])


def test_every_route_is_told() -> None:
    told = "".join(line for line in TEXT.splitlines() if line.startswith(("| `POST", "| `GET")))
    for path in ROUTES:
        assert f"{path.replace('{model:path}', '{id}')}`" in told


def test_every_code_of_an_error_is_told() -> None:
    codes: set[str] = set()
    for source in sorted((ROOT / "engine/sureact/server").glob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
                codes.add(str(node.value.value))
    assert codes <= set(re.findall(r"`([a-z_]+)`", TEXT))
