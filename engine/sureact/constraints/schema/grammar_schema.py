"""From a schema in normal form to schemas that llguidance builds grammars from, the tightest first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sureact.constraints.schema.grammar_writer import GrammarWriter
from sureact.constraints.schema.key_order import can_run_out_of_keys
from sureact.constraints.schema.leeway import Leeway

if TYPE_CHECKING:
    from collections.abc import Generator

    from sureact.constraints.schema.normal_form import NormalSchema


@dataclass(frozen=True, slots=True)
class GrammarSchema:
    """A schema whose grammar has every text that the schema it was made from allows."""

    schema: dict[str, Any]
    """What llguidance gets; `x-guidance` is for the caller to add."""
    is_exact: bool
    """Whether the grammar has no other text: none that is invalid, names a key twice, or overflows a number."""
    leeway: Leeway | None = None
    """How much looser it is; None for the grammar of any JSON."""


def grammar_schemas(
    normal: NormalSchema, *, key_order: Literal["schema", "any"], ensure_ascii: bool, start: Leeway | None = None
) -> Generator[GrammarSchema, str | None]:
    """Yield schemas for llguidance, the tightest first, for the caller to take the first that compiles.

    None forbids a text that is valid with its keys in declared order (`"schema"`), or in any. The next one is made only
    when asked for, and depends on why the one before failed, which is found out if it is not sent; if that reason
    `proves_unsatisfiable`, no other can help. The last allows any JSON.

    Args:
        normal: what the texts must be valid under.
        key_order: the order in which keys come. Declared order is that of `properties`, in the order of the keywords
            that they stand in; then come names that a condition (`if`, `dependentSchemas`) declares, then required
            names that are declared nowhere, then all others. Where `minProperties` asks for keys that are declared
            before others which may be left out, keys may come in any order all the same.
        ensure_ascii: whether what is not ASCII will be written as escapes, which a grammar's constants cannot offer.
        start: the leeway that an earlier search for the same schema came to.
    """
    # A name that the grammar cannot spell is no declared one to it, and those it takes after all declared ones.
    any_order = key_order == "any" or (ensure_ascii and not json.dumps(normal.document, ensure_ascii=False).isascii())
    any_order |= can_run_out_of_keys(normal)
    leeway = start or Leeway()
    refused: dict[str, Any] | None = None
    reason: str | None = None
    while leeway is not None:
        writer = GrammarWriter(normal, leeway, any_order=any_order, ensure_ascii=ensure_ascii)
        schema = writer.write()
        if schema != refused:  # what was to be left out may not have been there
            reason = yield GrammarSchema(schema, writer.is_exact, leeway)
            refused = schema
        leeway = leeway.after(schema, reason)
    yield GrammarSchema({}, is_exact=False, leeway=None)
