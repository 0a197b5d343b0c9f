"""Stand-ins for what users, tools and models wrote, so that a rendered template shows where each of it went."""

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

WORDS_OF_THE_FORMAT = frozenset({"role", "type"})
"""Keys whose values templates compare with words they know; these are left as they are."""


def data_texts(value: Any) -> Iterator[str]:
    """Yield every string inside messages or tools that is data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in WORDS_OF_THE_FORMAT:
                yield from data_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from data_texts(item)


class DataMarks:
    """The stand-ins of one render. White space around a text stays outside of them, for templates that trim."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        # Unguessable, so no message can hold a stand-in; private-use characters, which no template treats specially.
        nonce = uuid.uuid4().hex
        self._format = f"\ue000{nonce}.{{}}\ue001"
        self._pattern = re.compile(f"\ue000{nonce}\\.(\\d+)\ue001")

    def hide(self, value: Any) -> Any:
        """Return a copy of messages or tools with a stand-in for each string of data."""
        if isinstance(value, str):
            return self.hide_text(value)
        if isinstance(value, Mapping):
            return {key: item if key in WORDS_OF_THE_FORMAT else self.hide(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide(item) for item in value]
        return value

    def hide_text(self, text: str) -> str:
        """Return a stand-in for a text; an empty one stays empty, since templates ask for that."""
        core = text.strip()
        if not core:
            return text
        self._texts.append(core)
        start = text.index(core)
        return text[:start] + self._format.format(len(self._texts) - 1) + text[start + len(core) :]

    def reveal(self, value: Any) -> Any:
        """Undo `hide`, in a value that holds stand-ins."""
        if isinstance(value, str):
            return self._pattern.sub(lambda found: self._texts[int(found[1])], value)
        if isinstance(value, Mapping):
            return {key: self.reveal(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.reveal(item) for item in value]
        return value

    def split(self, rendered: str) -> Iterator[tuple[str, bool]]:
        """Yield the stretches of a rendered text with the data put back, and whether each comes from the template."""
        for index, piece in enumerate(self._pattern.split(rendered)):
            is_template = index % 2 == 0
            if piece:
                yield (piece, True) if is_template else (self._texts[int(piece)], False)
