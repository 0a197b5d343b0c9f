"""One text out of a list."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.constraints.compiler import GrammarConstraint
from sureact.errors import ConfigError, InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llguidance import LLTokenizer


def choice(items: Sequence[str], delimiter: str | None = None) -> ChoiceConstraint:
    r"""Constrain a text to be one of `items`.

    Give the text that follows the choice as `delimiter` where one item is the start of another: after `search` the
    model then weighs `search` + delimiter against `search_web`, and not the end of its answer against `_web`.

    Args:
        items: texts, at least one, none empty; doubles count once.
        delimiter: text such as `"\n"` that must follow the item. It is generated, and `parse` strips it.

    Raises:
        ConfigError: no items, an empty item, an item that is no text, or an empty delimiter.
    """
    if isinstance(items, str) or not items:
        raise ConfigError(f"choice takes a list of at least one text, not {items!r}.")
    for item in items:
        _check_text("An item of choice", item)
    if delimiter is not None:
        _check_text("The delimiter of choice", delimiter)
    return ChoiceConstraint(tuple(dict.fromkeys(items)), delimiter or "")


def lark_string(text: str) -> str:
    """Write `text` as a string literal of a Lark grammar."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True, slots=True)
class ChoiceConstraint(GrammarConstraint):
    """One of `items`, followed by `delimiter`."""

    items: tuple[str, ...]
    delimiter: str

    @property
    def cache_key(self) -> str:
        """The items and the delimiter."""
        return "choice:" + json.dumps([self.items, self.delimiter])

    def grammar(self, tokenizer: LLTokenizer) -> str:
        """Return one terminal with the items as alternatives, which stays fast with thousands of them."""
        alternatives = " | ".join(lark_string(item + self.delimiter) for item in self.items)
        return f"start: ITEM\nITEM: {alternatives}\n"

    def parse(self, text: str) -> str:
        """Return the item, without the delimiter.

        Raises:
            InternalError: `text` is not one of the items with the delimiter.
        """
        item = text.removesuffix(self.delimiter)
        if item + self.delimiter != text or item not in self.items:
            raise InternalError(f"The finished text {text!r} is none of the choices.")
        return item


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{what} is {text!r}; it must be a text that is not empty.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what} is {text!r}, which holds a lone surrogate: no token can spell it.") from error
