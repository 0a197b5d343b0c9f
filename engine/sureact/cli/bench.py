"""`sureact bench`: tokens per second beside the memory-bandwidth limit of the device."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from sureact.cli.console import add_output_options, note, table_text, working, write_json, write_result
from sureact.cli.later_commands import LATER_MEASUREMENTS, refuse_as_later
from sureact.cli.model_options import add_model_options, engine_config, load_engine
from sureact.cli.option_fields import positive_int
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.evaluation.bench import Measurement

_PROMPT_LEN = {"decode": 128, "prefill": 1024}
_NUM_TOKENS = 64


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = (
        "Measures tokens per second, beside the limit that the bandwidth of the memory sets. Run nothing "
        "else meanwhile."
    )
    parser.add_argument(
        "what", metavar="decode|prefill", help="decode: one token after another; prefill: reading a prompt"
    )
    parser.add_argument(
        "--prompt-len",
        type=positive_int,
        metavar="N",
        help="tokens of the prompt (default: {decode} for decode, {prefill} for prefill)".format(**_PROMPT_LEN),
    )
    parser.add_argument(
        "--num-tokens", type=positive_int, metavar="N", help=f"tokens to decode (default: {_NUM_TOKENS}; decode only)"
    )
    parser.add_argument(
        "--repeats", type=positive_int, default=5, metavar="N", help="measurements (default: %(default)s)"
    )
    add_model_options(parser)
    add_output_options(parser, json_help="every measurement, limit, settings, versions and hardware")
    parser.set_defaults(command=bench_command)


def bench_command(arguments: argparse.Namespace) -> None:
    """Measure and write the result."""
    what = arguments.what
    if what in LATER_MEASUREMENTS:
        refuse_as_later(f"bench {what}")
    if what not in _PROMPT_LEN:
        raise ConfigError(f"`bench {what}` is not known; there are `bench decode` and `bench prefill`.")
    if what == "prefill" and arguments.num_tokens is not None:
        raise ConfigError("--num-tokens goes with `bench decode`; a prefill is measured by --prompt-len.")
    prompt_len = arguments.prompt_len or _PROMPT_LEN[what]
    config = engine_config(arguments)
    with load_engine(config) as engine:
        from sureact.evaluation.bench import measure_decode, measure_prefill

        with working(f"Measuring {what}"):
            if what == "decode":
                num_tokens = arguments.num_tokens or _NUM_TOKENS
                measured = measure_decode(
                    engine, prompt_len=prompt_len, num_tokens=num_tokens, repeats=arguments.repeats
                )
            else:
                measured = measure_prefill(engine, prompt_len=prompt_len, repeats=arguments.repeats)
    if arguments.json:
        write_json(_as_json(measured))
    else:
        write_result(table_text(_rows(measured)))
        note(f"Seconds per run: {', '.join(f'{s:.2f}' for s in measured.seconds)}")


def _rows(measured: Measurement) -> list[tuple[str, str]]:
    config = measured.config
    return [
        ("model", f"{config.model_name}, {config.quantization}, {config.dtype}, {config.determinism}"),
        ("device", f"{config.device}, {config.num_threads} threads"),
        (f"{measured.what} of {measured.num_tokens:,} tokens", f"{measured.median:,.1f} tokens/s (median)"),
        (
            "spread",
            f"{min(measured.tokens_per_s):,.1f} to {max(measured.tokens_per_s):,.1f} tokens/s in "
            f"{len(measured.seconds)} runs",
        ),
        ("bytes read per token", f"{measured.bytes_per_token / 1e6:,.1f} MB"),
        (f"{measured.bandwidth_kind} bandwidth", f"{measured.bandwidth_gb_per_s:,.1f} GB/s (measured)"),
        ("bandwidth limit", f"{measured.limit:,.1f} tokens/s, of which {measured.median / measured.limit:.0%} reached"),
    ]


def _as_json(measured: Measurement) -> dict[str, object]:
    from sureact.evaluation.machine import hardware, versions

    return {
        **asdict(measured),
        "tokens_per_s": measured.tokens_per_s,
        "median_tokens_per_s": measured.median,
        "limit_tokens_per_s": measured.limit,
        "versions": versions(),
        "hardware": hardware(),
    }
