"""Draws a part's figures into a PNG file: bars per unit, with what the bandwidth allows and what is asked for."""

from __future__ import annotations

import statistics
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

MOST_BARS = 60
"""Of one unit; more are no picture."""


class Bar(NamedTuple):
    """One value with the marks over it."""

    label: str
    value: float
    limit: float | None
    target: float | None


def reason_without_plots() -> str | None:
    """Say why nothing is drawn; None if it is."""
    return None if find_spec("matplotlib") else "No plots: matplotlib is not installed."


def draw(report: dict[str, Any], path: Path) -> Path | None:
    """Draw a part's JSON; None if it has no figure."""
    by_unit = bars_by_unit(report)
    if not by_unit:
        return None
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    longest = max(map(len, by_unit.values()))
    # Without pyplot, which would look for a display.
    figure: Any = Figure(figsize=(9, len(by_unit) * (1.2 + 0.22 * longest)), layout="constrained")
    all_axes = figure.subplots(len(by_unit), 1, squeeze=False)[:, 0]
    for axes, (unit, bars) in zip(all_axes, by_unit.items(), strict=True):
        _draw_bars(axes, unit, bars)
    figure.suptitle(f"{report['part']}: {report['device']}, weights {report['weights']}", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def bars_by_unit(report: dict[str, Any]) -> dict[str, list[Bar]]:
    """Return what is drawn: every value, or of the ops alone each op's median share of the limit."""
    rows = [row for row in report["rows"] if row["value"] is not None]
    if report["part"] == "kernels":
        shares: dict[str, list[float]] = {}
        for row in rows:
            shares.setdefault(f"{row['model']} {row['what'].split()[0]}", []).append(row["limit"] / row["value"])
        bars = [Bar(label, statistics.median(found), 1.0, None) for label, found in shares.items()]
        return {"share of a copy's bandwidth, median over shapes": bars[:MOST_BARS]} if bars else {}
    by_unit: dict[str, list[Bar]] = {}
    for row in rows:
        places = [f"{name} {row[name]}" for name in ("batch", "context") if row[name]]
        label = ", ".join([f"{row['model'] or ''} {row['what']}".strip(), *places])
        by_unit.setdefault(row["unit"], []).append(Bar(label, row["value"], row["limit"], row["target"]))
    return {unit: bars[:MOST_BARS] for unit, bars in by_unit.items()}


def _draw_bars(axes: Any, unit: str, bars: list[Bar]) -> None:
    places = range(len(bars))
    axes.barh(places, [bar.value for bar in bars], color="tab:blue")
    for mark, color in (("limit", "black"), ("target", "tab:red")):
        marked = [(getattr(bar, mark), place) for place, bar in zip(places, bars, strict=True)]
        found = [(value, place) for value, place in marked if value is not None]
        if found:
            axes.scatter(*zip(*found, strict=True), marker="|", s=120, color=color, label=mark, zorder=3)
    axes.set_yticks(places, [bar.label for bar in bars], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)
