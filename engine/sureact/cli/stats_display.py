"""Where the time of an engine went, for `--verbose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sureact.cli.console import note, table_text

if TYPE_CHECKING:
    from sureact.engine import Engine
    from sureact.execution.engine_stats import EngineStats


def note_stats(engine: Engine) -> None:
    """Write what the engine did so far to standard error, beside the bandwidth that the memory is measured to have."""
    from sureact.evaluation.bench import memory_bandwidth

    note(table_text(stats_rows(engine.stats(), memory_bandwidth(engine.config.device)[1])))


def stats_rows(stats: EngineStats, bandwidth_gb_per_s: float) -> list[tuple[str, str]]:
    """Return the counts as rows of name and figures.

    Args:
        stats: of the engine.
        bandwidth_gb_per_s: what the device's memory delivers, in 10^9 bytes per second.
    """
    share = stats.decode_gb_per_s / bandwidth_gb_per_s
    return [
        (
            "prefill",
            f"{stats.prefill_tokens:,} tokens in {stats.prefill_s:.2f} s ({stats.prefill_tokens_per_s:,.0f} tokens/s), "
            f"{stats.cached_tokens:,} more found in the cache",
        ),
        (
            "decode",
            f"{stats.decode_tokens:,} tokens in {stats.decode_s:.2f} s ({stats.decode_tokens_per_s:,.1f} tokens/s), "
            f"{stats.num_decode_steps:,} passes",
        ),
        (
            "bandwidth",
            f"{stats.decode_gb_per_s:.1f} GB/s of weights while decoding, {share:.0%} of {bandwidth_gb_per_s:.1f} GB/s",
        ),
        (
            "guesses",
            f"{stats.accepted_draft_tokens:,} of {stats.draft_tokens:,} guessed tokens accepted "
            f"({stats.draft_acceptance:.0%}), {stats.forced_tokens:,} tokens forced",
        ),
        ("masks", f"{stats.mask_s * 1e3:,.1f} ms, {stats.num_vetoes:,} vetoes, {stats.num_rollbacks:,} taken back"),
        (
            "cache",
            f"{stats.kv_blocks_used:,} of {stats.kv_blocks_total:,} blocks held, {stats.num_evictions:,} evictions, "
            f"{stats.num_preemptions:,} preemptions",
        ),
    ]
