"""The files of the pages, which come with the package: no build step, and nothing of them is fetched from elsewhere."""

from __future__ import annotations

from importlib.resources import files


def asset(*names: str) -> str:
    """Return the text of files of this folder, one after the other: what several pages share stands first."""
    return "\n".join(files("sureact.page").joinpath(name).read_text(encoding="utf-8") for name in names)
