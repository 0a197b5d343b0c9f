"""Where the time of one decode step goes, op by op, beside the bytes that each op must move.

python -m benchmarks.engine.profile --quantization int4 --rows 4
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sureact.cli.model_options import SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.config import EngineConfig
from sureact.errors import SureactError
from sureact.evaluation.bench import memory_bandwidth
from sureact.evaluation.machine import hardware, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OUTSIDE_OPS = "outside of ops (Python, NumPy)"

_GATHERS = ("embedding", "index", "index_select", "gather", "index_put_", "index_copy_", "scatter_")
"""Ops that touch as much of their first input as they return or are given, not all of it."""

_MIN_SHARE = 0.002
"""Of the step; ops below are summed into one line."""


@dataclass(frozen=True, slots=True)
class OpProfile:
    """An op over one step."""

    op: str
    calls: float
    us: float
    """Microseconds on the profiled thread, without the ops that it calls."""
    num_bytes: float
    """Bytes of its tensors, read and written once; 0 where unknown."""

    @property
    def gb_per_s(self) -> float:
        """10^9 bytes per second."""
        return self.num_bytes / self.us / 1e3 if self.us else 0.0


def main() -> int:
    """Profile a step and print the table."""
    arguments = _parser().parse_args()
    config = EngineConfig(
        model=arguments.model,
        quantization=arguments.quantization,
        determinism=arguments.determinism,
        num_threads=arguments.num_threads,
        device="cpu",
    )
    try:
        from benchmarks.engine.step import DecodeStep

        step = DecodeStep(config, num_rows=arguments.rows, context_len=arguments.context_len)
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    step_us = step.seconds(arguments.repeats) * 1e6
    ops = profile_ops(step.run, step_us, repeats=arguments.repeats)
    _, bandwidth = memory_bandwidth("cpu")
    result = {
        "settings": asdict(step.config),
        "rows": arguments.rows,
        "context_len": arguments.context_len,
        "step_us": step_us,
        "bandwidth_gb_per_s": bandwidth,
        "limit_us": step.config.weight_bytes_per_token / bandwidth / 1e3,
        "ops": [{**asdict(op), "gb_per_s": op.gb_per_s} for op in ops],
        "versions": versions(),
        "hardware": hardware(),
    }
    print(json.dumps(result, indent=2) if arguments.json else _table(ops, result))
    return 0


def profile_ops(step: Callable[[], object], step_us: float, *, repeats: int) -> list[OpProfile]:
    """Profile a step, slowest op first.

    Args:
        step: run on this thread.
        step_us: what it takes when nobody looks; what the ops leave of it is a line of its own.
        repeats: steps to take the mean of.
    """
    from torch.profiler import ProfilerActivity, profile

    num_bytes = _bytes_by_op(step)
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(repeats):
            step()
    events: Any = profiler.key_averages()
    ops = [
        OpProfile(e.key, e.count / repeats, e.self_cpu_time_total / repeats, num_bytes[e.key])
        for e in events
        if not e.key.startswith("[")  # the profiler's own
    ]
    ops += _compiled_ops(step, repeats)
    outside_us = max(step_us - sum(op.us for op in ops), 0.0)
    return sorted([*ops, OpProfile(OUTSIDE_OPS, 1, outside_us, 0)], key=lambda op: -op.us)


def _compiled_ops(step: Callable[[], object], repeats: int) -> list[OpProfile]:
    """Profile the ops in C++, which torch does not see."""
    from sureact_kernels.cpu.library import Argument, observed

    calls, seconds, num_bytes = Counter[str](), Counter[str](), Counter[str]()

    def observe(op: str, arguments: tuple[Argument, ...], op_seconds: float) -> None:
        calls[op] += 1
        seconds[op] += op_seconds  # pyright: ignore[reportArgumentType]  a Counter adds up floats as well
        num_bytes[op] += _compiled_bytes(op, arguments)

    with observed(observe):
        for _ in range(repeats):
            step()
    return [
        OpProfile(f"c++::{op}", calls[op] / repeats, seconds[op] * 1e6 / repeats, num_bytes[op] / repeats)
        for op in calls
    ]


def _compiled_bytes(op: str, arguments: Sequence[object]) -> int:
    """Return the bytes of the tensors of an op in C++; of the cache only the tokens that it reads or writes."""
    import torch

    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    caches = {"paged_attention": (1, 2), "qk_norm_rope_store": (3, 4)}.get(op, ())
    rows = [tensors[place][0, 0].nbytes for place in caches]
    num_tokens = int(tensors[5].sum()) if op == "paged_attention" else len(tensors[0])
    plain = sum(tensor.nbytes for place, tensor in enumerate(tensors) if place not in caches)
    return plain + num_tokens * sum(rows)


def _bytes_by_op(step: Callable[[], object]) -> Counter[str]:
    """Return the bytes of the tensors that go in and come out of each op during one step."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    counted: Counter[str] = Counter()

    def nbytes(tree: object) -> int:
        leaves: list[Any] = tree_leaves(tree)
        return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            with self:  # an op made of others, such as matmul, counts as those, which is where the profiler sees time
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
            out = func(*args, **kwargs)
            is_view = any(ret.alias_info is not None and not ret.alias_info.is_write for ret in func._schema.returns)
            if not is_view:
                name = func._schema.name
                is_gather = name.rpartition("::")[2] in _GATHERS
                read = nbytes(args[1:]) if is_gather else nbytes((args, kwargs))
                written = 0 if is_gather and name.endswith("_") else nbytes(out)
                counted[name] += read + written
            return out

    with Counting():
        step()
    return counted


def _table(ops: list[OpProfile], result: dict[str, Any]) -> str:
    step_us, bandwidth, settings = result["step_us"], result["bandwidth_gb_per_s"], result["settings"]
    shown = [op for op in ops if op.us >= _MIN_SHARE * step_us]
    rest = [op for op in ops if op.us < _MIN_SHARE * step_us]
    rest_op = OpProfile(f"{len(rest)} more", sum(op.calls for op in rest), sum(op.us for op in rest), 0)
    lines = [
        f"{settings['model_name']}, {settings['quantization']}, {settings['determinism']}, {settings['num_threads']} "
        f"threads; {result['rows']} rows, context {result['context_len']}",
        f"{'op':<40}{'calls':>8}{'us':>10}{'share':>8}{'MB':>9}{'GB/s':>8}",
    ]
    for op in [*shown, rest_op]:
        sizes = f"{op.num_bytes / 1e6:>9.2f}{op.gb_per_s:>8.1f}" if op.num_bytes else f"{'-':>9}{'-':>8}"
        lines.append(f"{op.op[:39]:<40}{op.calls:>8.0f}{op.us:>10.1f}{op.us / step_us:>8.1%}{sizes}")
    lines += [
        f"one step takes {step_us:,.0f} us; weights over bandwidth ({bandwidth:.1f} GB/s) {result['limit_us']:,.0f} us",
        "the profiler makes small ops slower, so their lines can add up to more than the step",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.profile", description=__doc__)
    parser.add_argument("--model", default=SMALL_MODEL, help="as `sureact --model` (default: %(default)s)")
    parser.add_argument("--quantization", choices=("none", "int8", "int4"), default="int8", help="default: %(default)s")
    parser.add_argument("--determinism", choices=("strict", "fast"), default="strict", help="default: %(default)s")
    parser.add_argument("--num-threads", type=positive_int, metavar="N", help="default: physical cores")
    parser.add_argument(
        "--rows", type=positive_int, default=1, metavar="N", help="sequences that decode (default: %(default)s)"
    )
    parser.add_argument(
        "--context-len", type=positive_int, default=256, metavar="N", help="tokens of each (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats", type=positive_int, default=20, metavar="N", help="steps to measure (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
