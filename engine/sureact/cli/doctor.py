"""`sureact doctor`: the report that a bug report needs, and what is fast here and what is not."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sureact.cli.console import add_output_options, working, write_json, write_result

if TYPE_CHECKING:
    from pathlib import Path

    import torch


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = (
        "Reports device, versions, models and their settings, and what is fast here and what falls back. With MODEL: "
        "what memory it will take and how fast it will be here, before it is fetched. Nothing is loaded."
    )
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="name of the catalogue, or a folder or hub id on this disk"
    )
    add_output_options(parser, json_help="the report")
    parser.set_defaults(command=doctor_command)


def doctor_command(arguments: argparse.Namespace) -> None:
    """Write the report."""
    if arguments.model is not None:
        _predict(arguments.model, as_json=arguments.json)
        return
    found = report()
    if arguments.json:
        write_json(found)
    else:
        write_result("\n".join(_lines(found)))


def _predict(model: str, *, as_json: bool) -> None:
    from sureact.cli.prediction_report import prediction_lines
    from sureact.evaluation.prediction import predictions, sizes_of

    sizes = sizes_of(model)
    with working("Measuring the memory's bandwidth"):
        bandwidth, found = predictions(sizes)
    if as_json:
        write_json({"model": asdict(sizes), "bandwidth_gb_per_s": asdict(bandwidth), "forms": list(map(asdict, found))})
    else:
        write_result("\n".join(prediction_lines(sizes, bandwidth, found)))


def report() -> dict[str, Any]:
    """Return all that the command reports."""
    from sureact.catalog.store import ModelStore
    from sureact.evaluation.machine import hardware, versions
    from sureact.execution.settings import default_num_threads, resolve_device

    device = resolve_device("auto")
    store = ModelStore()
    machine = hardware()
    return {
        "versions": versions(),
        "hardware": machine,
        "device": str(device),
        "threads": default_num_threads(),
        "store": str(store.root),
        "models": [_model_report(model.name, model.path, device) for model in store.models()],
        "speed": speed_notes(device, machine),
    }


def _model_report(name: str, folder: Path, device: torch.device) -> dict[str, object]:
    """Return what `auto` means for a model here, or why it cannot run; a damaged model spoils its own entry only."""
    from sureact.errors import SureactError
    from sureact.weights.device_placement import native_support

    try:
        slow_reason = native_support(folder)
        if slow_reason is not None:
            return {"name": name, "path": str(folder), "falls_back": f"runs in transformers, slowly: {slow_reason}"}
        return {"name": name, "path": str(folder), **_resolved_settings(folder, device)}
    except SureactError as error:
        return {"name": name, "path": str(folder), "error": str(error)}


def _resolved_settings(folder: Path, device: torch.device) -> dict[str, object]:
    from sureact.config import EngineConfig
    from sureact.execution.memory import KVShape, cache_size, weight_bytes
    from sureact.execution.settings import dtype_name, resolve_dtype, resolve_quantization
    from sureact.weights.model_config import read_model_config

    model = read_model_config(folder)
    quantization = resolve_quantization("auto", device)
    dtype = resolve_dtype("auto", quantization)
    shape = KVShape(
        num_layers=model.num_layers,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        max_position_embeddings=model.max_position_embeddings,
    )
    cache = cache_size(EngineConfig(model=str(folder)), dtype, device, shape)
    return {
        "architecture": model.family,
        "quantization": quantization,
        "dtype": dtype_name(dtype),
        "weight_bytes": weight_bytes(folder, quantization, dtype),
        "max_model_len": cache.max_model_len,
        "kv_cache_bytes": cache.num_bytes,
    }


def speed_notes(device: torch.device, machine: dict[str, Any]) -> list[str]:
    """Say what is fast on this machine, what falls back, and why."""
    if device.type == "cuda":
        return ["The model runs on the GPU in bfloat16 or float16.", *_gpu_ops_notes(device)]
    features: list[str] = machine["cpu_features"]
    notes = ["int8 and int4 products are on: decoding reads a half or a quarter of the bytes of bfloat16."]
    notes.append(_cpu_ops_note())
    if "avx512f" not in features:
        notes.append("Falls back: no AVX-512, so the int8 and int4 products run on narrower vectors.")
    if not {"avx512_bf16", "amx_bf16"} & set(features):
        notes.append("Falls back: no bfloat16 instructions, so prefill in bfloat16 is converted to float32.")
    if machine["gpus"] == []:
        notes.append("No GPU that this torch can use; with one, install a CUDA build of torch.")
    return notes


def _gpu_ops_notes(device: torch.device) -> list[str]:
    """Try every op on the device, and say which run in Triton and why the others do not."""
    from sureact_kernels.dispatch import reason_without_triton

    reason = reason_without_triton()
    if reason is not None:
        return [f"Falls back: the ops run in torch: {reason}"]
    import triton

    from sureact_kernels.trial import trial

    try:
        with working("Trying every op on the GPU"):
            off = trial(device)
    except RuntimeError as error:  # torch's, when the GPU is full or broken
        return [f"The ops could not be tried on the GPU: {error}"]
    which = "All ops" if not off else "All other ops"
    notes = [f"{which} run in Triton {triton.__version__} (SUREACT_KERNELS=reference turns them off)."]
    return notes + [f"Falls back: {op} does not run in Triton: {reason}" for op, reason in sorted(off.items())]


def _cpu_ops_note() -> str:
    from sureact_kernels.cpu.library import reason_unavailable

    reason = reason_unavailable()
    if reason is None:
        return "The ops built from C++ for this processor are in use (SUREACT_KERNELS=reference turns them off)."
    return f"Falls back: the ops run in torch, at about three fifths of the speed: {reason}"


def _lines(found: dict[str, Any]) -> list[str]:
    machine = found["hardware"]
    lines = [f"{package:<14}{version or 'not installed'}" for package, version in found["versions"].items()]
    lines += [
        "",
        f"{'device':<14}{found['device']}",
        f"{'cpu':<14}{machine['cpu']}, {machine['physical_cores']} cores, {found['threads']} threads used",
        f"{'instructions':<14}{' '.join(machine['cpu_features']) or 'unknown'}",
        f"{'memory':<14}{_gb(machine['available_memory_bytes'])} of {_gb(machine['memory_bytes'])} available",
        f"{'gpus':<14}{', '.join(machine['gpus']) or 'none'}",
        f"{'store':<14}{found['store']}",
        "",
        *found["speed"],
        "",
    ]
    return lines + ([_model_line(model) for model in found["models"]] or ["No models on this disk."])


def _model_line(model: dict[str, Any]) -> str:
    trouble = model.get("error") or model.get("falls_back")
    if trouble:
        return f"{model['name']}: {trouble}"
    return (
        f"{model['name']}: {model['quantization']}, {model['dtype']}, weights {_gb(model['weight_bytes'])}, "
        f"context {model['max_model_len']:,} tokens, KV cache {_gb(model['kv_cache_bytes'])}"
    )


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f} GB"
