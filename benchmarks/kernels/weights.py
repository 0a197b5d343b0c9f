"""Random weight matrices in every form that `linear` takes on this machine, each beside the same matrix in bfloat16."""

from __future__ import annotations

from typing import NamedTuple

import torch
from benchmarks.harness import device

from sureact_kernels.int4_product import pack_int4, to_nibbles
from sureact_kernels.int8_product import pack_int8
from sureact_kernels.linear import DenseWeight, Fp8Weight, Int4Weight, Int8Weight, LinearWeight

GPU_FORMS = ("bfloat16", "int8", "int4", "fp8")
CPU_FORMS = GPU_FORMS[:3]
"""No CPU has a product for fp8."""

GROUP_SIZE = 32


class Form(NamedTuple):
    """A matrix in one form."""

    weight: LinearWeight
    dense: torch.Tensor
    """`[out_features, in_features]`, bfloat16: what torch multiplies with."""


def forms() -> tuple[str, ...]:
    """Return the forms that are worth measuring on `device()`."""
    return CPU_FORMS if device().type == "cpu" else GPU_FORMS


def weight_of(form: str, out_features: int, in_features: int) -> Form:
    """Draw a matrix in a form of `GPU_FORMS`; on a CPU packed, as the engine packs it."""
    if form == "bfloat16":
        dense = (torch.randn(out_features, in_features, device=device()) / in_features**0.5).bfloat16()
        return Form(DenseWeight(dense), dense)
    return {"int8": _int8, "int4": _int4, "fp8": _fp8}[form](out_features, in_features)


def _int8(out_features: int, in_features: int) -> Form:
    values = torch.randint(-127, 128, (out_features, in_features), dtype=torch.int8, device=device())
    scales = ((1 + torch.rand(out_features, device=device())) / 128 / in_features**0.5).bfloat16()
    packed = pack_int8(values) if device().type == "cpu" else None
    weight = Int8Weight(values, scales if packed is None else scales.float(), packed)
    return Form(weight, (values.float() * scales.float()[:, None]).bfloat16())


def _int4(out_features: int, in_features: int) -> Form:
    steps = torch.randint(0, 16, (out_features, in_features), dtype=torch.uint8, device=device())
    bounds = torch.rand(in_features // GROUP_SIZE, out_features, 2, device=device()) / 8 / in_features**0.5
    bounds = bounds.bfloat16()
    nibbles = to_nibbles(steps)
    packed = pack_int4(nibbles, bounds, GROUP_SIZE) if device().type == "cpu" else None
    scale, zero = bounds.float().repeat_interleave(GROUP_SIZE, dim=0).unbind(-1)
    dense = ((steps.float() - 8) * scale.T + zero.T).bfloat16()
    return Form(Int4Weight(nibbles, bounds, GROUP_SIZE, packed), dense)


def _fp8(out_features: int, in_features: int) -> Form:
    values = torch.randn(out_features, in_features, device=device()).to(torch.float8_e4m3fn)
    scales = (1 + torch.rand(out_features, device=device())) / in_features**0.5
    return Form(Fp8Weight(values, scales), (values.float() * scales[:, None]).bfloat16())
