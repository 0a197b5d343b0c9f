"""The rows as a table for a terminal."""

from typing import Any

_HEADING = ("row", "peer", "ours", "theirs", "unit", "ratio", "our tokens", "their tokens", "unfinished", "left out")


def table(rows: list[dict[str, Any]]) -> str:
    """Lay out rows of `compare`, and below them why figures are missing."""
    lines = [_HEADING, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    reasons = [f"{row['row']} beside {row['peer']}: {row['reason']}" for row in rows if "reason" in row]
    return "\n".join([*shown, *reasons, "medians of pairs; of s/token the ratio is what a constraint costs"])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    ours, theirs = row.get("our_figures") or {}, row.get("their_figures") or {}
    return (
        row["row"],
        row["peer"],
        _number(row["ours"]),
        _number(row["theirs"]),
        row["unit"],
        _number(row["ratio"]),
        str(ours.get("tokens", "-")),
        str(theirs.get("tokens", "-")),
        f"{ours.get('unfinished', '-')}/{theirs.get('unfinished', '-')}",
        f"{ours.get('refused', '-')}/{theirs.get('refused', '-')}",
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
