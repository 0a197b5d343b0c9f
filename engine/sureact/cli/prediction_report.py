"""What `sureact doctor MODEL` writes for a reader."""

from sureact.cli.console import table_text
from sureact.evaluation.prediction import (
    PREDICTED_CONTEXT_LEN,
    Bandwidth,
    ModelSizes,
    Prediction,
    reached_share,
)


def prediction_lines(sizes: ModelSizes, bandwidth: Bandwidth, found: list[Prediction]) -> list[str]:
    """Return the report: what the model is, a row per form, and what the figures rest on."""
    lines = [
        f"{sizes.name}: {'on this disk' if sizes.is_on_disk else f'not on this disk; `sureact pull {sizes.name}`'}",
        _cache_line(found[0]),
        f"Memory: {_gb(found[0].free_bytes)} free, {bandwidth.memory:,.1f} GB/s measured",
        "",
        table_text([("form", "weights", "in all *", "fits", "read per token", "tokens/s **"), *map(_row, found)]),
        "",
        f"*  with one context of {sizes.context_len:,} tokens and the program; a shorter max_model_len takes less",
        f"** one request, {PREDICTED_CONTEXT_LEN:,} tokens into its context",
    ]
    if sizes.slow_reason:
        lines.append(f"Slow path, which reaches less than that: it runs in transformers. {sizes.slow_reason}")
    offloaded_bytes = found[0].offloaded_bytes_per_token
    if offloaded_bytes:
        lines.append(
            f"The GPU is too small: accelerate keeps {_gb(offloaded_bytes)} of the weights in the machine's memory and "
            f"copies them for every token at {bandwidth.host_to_device:,.1f} GB/s."
        )
    return lines


def _cache_line(form: Prediction) -> str:
    line = f"Keys and values: {form.kv_bytes_per_1000_tokens / 1e6:,.1f} MB per 1,000 tokens of context"
    in_float8 = form.kv_bytes_per_1000_tokens_in_float8
    return line if in_float8 is None else f"{line}, {in_float8 / 1e6:,.1f} MB with kv_cache_dtype=float8_e4m3"


def _row(form: Prediction) -> tuple[str, ...]:
    return (
        form.quantization,
        _gb(form.weight_bytes),
        _gb(form.total_bytes),
        "yes" if form.fits else "no",
        f"{form.bytes_per_token / 1e6:,.0f} MB",
        f"{form.tokens_per_s:,.1f} at {reached_share(form.quantization):.0%} of the bandwidth",
    )


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f} GB"
