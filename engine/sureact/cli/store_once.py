"""Options that name a file, of which a second one would take the place of the first."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class StoreOnce(argparse.Action):
    """Keeps one value, and refuses another: who names two files means both."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Take the value of the option."""
        given = getattr(namespace, self.dest)
        if given != self.default:
            raise argparse.ArgumentError(self, f"given twice, {given} and {values}; it takes one file")
        setattr(namespace, self.dest, values)
