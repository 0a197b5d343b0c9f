"""The tables of fields in `docs/server.md` are those that the server reads requests by."""

import ast
import re
from pathlib import Path

import pytest

from sureact.server.app import ROUTES
from sureact.server.chat_fields import CHAT_FIELDS
from sureact.server.completions import COMPLETION_FIELDS
from sureact.server.request_fields import markdown_table
from sureact.server.tokenize import DETOKENIZE_FIELDS, TOKENIZE_FIELDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/server.md").read_text(encoding="utf-8")
TABLES = {
    "/v1/chat/completions": CHAT_FIELDS,
    "/v1/completions": COMPLETION_FIELDS,
    "/tokenize": TOKENIZE_FIELDS,
    "/detokenize": DETOKENIZE_FIELDS,
}


@pytest.mark.parametrize("path", TABLES)
def test_the_table_of_fields_is_the_servers(path: str) -> None:
    section = TEXT.partition(f"## Fields of `{path}`\n\n")[2].partition("\n\n")[0].strip()
    assert section == markdown_table(TABLES[path])


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
