"""What the card and its software can do: bandwidth, the price of a graph node, launches, torch's own products."""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import Settings
from benchmarks.harness import device
from benchmarks.kernels.case import MODELS, Sizes, activations
from benchmarks.kernels.timing import least_us, timed

_NEEDS_GPU = "needs a CUDA device"


def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    """Probe one thing after another; what fails leaves the others."""
    probes: dict[str, Callable[[], None]] = {
        "card and driver": lambda: report.facts.update(card()),
        "varlen_attn": lambda: report.facts.update({"varlen_attn": varlen_signature()}),
        "copy bandwidth": lambda: _copy(report),
        "graph nodes": lambda: _graph_nodes(report, settings.num_empty_kernels),
        "programmatic dependent launch": lambda: _dependent_launch(report, settings.num_empty_kernels),
        **{
            f"products of {model} with one row": partial(_products, report, model, settings.repeats) for model in models
        },
    }
    report.each(probes, str, lambda name: probes[name]())


def card() -> dict[str, object]:
    """Return what the GPU is and what drives it; empty on a CPU."""
    if device().type == "cpu":
        return {"card": f"none: {_NEEDS_GPU}"}
    found = torch.cuda.get_device_properties(device())
    return {
        "card": found.name,
        "compute capability": f"{found.major}.{found.minor}",
        "multiprocessors": found.multi_processor_count,
        "memory": f"{found.total_memory / 1e9:.1f} GB",
        "L2 cache": f"{getattr(found, 'L2_cache_size', 0) / 1e6:.0f} MB",
        "CUDA of torch": torch.version.cuda,
        "driver, top clocks in MHz (multiprocessors, memory), watts": driver(),
    }


def driver() -> str:
    """Return what nvidia-smi says of the first card."""
    fields = "driver_version,clocks.max.sm,clocks.max.mem,power.limit"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown: {error}"


def varlen_signature() -> str:
    """Return the parameters of torch's attention over ragged batches, or why it has none."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError as error:
        return f"torch {torch.__version__} has none: {error}"
    return str(inspect.signature(varlen_attn))


def _copy(report: PartReport) -> None:
    report.add(None, "copy", report.copy_gb_per_s, "GB/s")
    report.add(None, "least that is measured", least_us(), "us")


def _graph_nodes(report: PartReport, num_kernels: int) -> None:
    """Time a node of a graph of empty kernels, which do not overlap."""
    what = "node of a CUDA graph, empty kernel"
    if device().type == "cpu":
        report.add(None, what, None, "us", note=_NEEDS_GPU)
        return
    from benchmarks.gpu.empty_kernel import launch_empty

    report.add(None, what, node_us(launch_empty, num_kernels), "us")
    report.add(None, "launch without a graph, empty kernel", _launch_us(launch_empty, num_kernels), "us")


def _dependent_launch(report: PartReport, num_kernels: int) -> None:
    """Look whether Triton has programmatic dependent launches, and try one in a graph."""
    report.facts["programmatic dependent launch"] = dependent_launch_support()
    what = "node of a CUDA graph, empty kernel, dependent launch"
    if device().type == "cpu":
        report.add(None, what, None, "us", note=_NEEDS_GPU)
        return
    from benchmarks.gpu.empty_kernel import launch_early

    report.add(None, what, node_us(launch_early, num_kernels), "us")


def dependent_launch_support() -> str:
    """Say which of the parts of a dependent launch Triton has."""
    try:
        from triton.backends.nvidia.compiler import CUDAOptions
        from triton.language.extra import cuda
    except ImportError as error:
        return f"no: {error}"
    parts = {
        "option launch_pdl": "launch_pdl" in inspect.signature(CUDAOptions).parameters,
        "gdc_wait": hasattr(cuda, "gdc_wait"),
        "gdc_launch_dependents": hasattr(cuda, "gdc_launch_dependents"),
    }
    return ", ".join(f"{name}: {'yes' if is_there else 'no'}" for name, is_there in parts.items())


def node_us(launch: Callable[[torch.Tensor], None], num_kernels: int) -> float:
    """Return the microseconds of a node: of a graph of all kernels less one of half of them."""
    x = torch.zeros(1, device=device())

    def chain(length: int) -> None:
        for _ in range(length):
            launch(x)

    half = num_kernels // 2
    long, short = (timed(partial(chain, length), repeats=10) for length in (2 * half, half))
    if "eager" in (long.how, short.how):
        raise RuntimeError("these launches cannot be captured in a CUDA graph")
    return (long.timing.median - short.timing.median) / half * 1e6


def _launch_us(launch: Callable[[torch.Tensor], None], num_kernels: int) -> float:
    """Return the microseconds between kernels that the host launches one by one."""
    x = torch.zeros(1, device=device())
    launch(x)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(num_kernels):
        launch(x)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / num_kernels


def _products(report: PartReport, model: str, repeats: int) -> None:
    for name, (out_features, in_features) in matrices(MODELS[model]).items():
        x = activations(1, in_features)
        weight = activations(out_features, in_features)
        timing = timed(lambda x=x, weight=weight: F.linear(x, weight), repeats=repeats).timing
        num_bytes = weight.nbytes + x.nbytes + out_features * x.element_size()
        report.add(
            model,
            f"torch's product, {name} {out_features} x {in_features}",
            timing.median * 1e6,
            "us",
            batch=1,
            limit=num_bytes / report.bytes_per_s * 1e6,
            note=f"{num_bytes / timing.median / 1e9:.0f} GB/s",
        )


def matrices(sizes: Sizes) -> dict[str, tuple[int, int]]:
    """Return rows and columns of the matrices of a model."""
    return {
        "qkv": (sizes.qkv_size, sizes.hidden_size),
        "o": (sizes.hidden_size, sizes.num_q_heads * sizes.head_dim),
        "gate_up": (2 * sizes.intermediate_size, sizes.hidden_size),
        "down": (sizes.hidden_size, sizes.intermediate_size),
        "head": (sizes.vocab_size, sizes.hidden_size),
    }
