import sys

import pytest
import torch

from sureact.config import Quantization
from sureact.errors import ConfigError
from sureact.execution import settings
from sureact.execution.settings import (
    default_num_threads,
    device_notices,
    dtype_name,
    kv_cache_dtype_name,
    num_physical_cores,
    resolve_device,
    resolve_dtype,
    resolve_kv_cache_dtype,
    resolve_quantization,
)
from sureact_kernels.errors import KernelInputError

CPU = torch.device("cpu")


def test_auto_is_int8_in_bfloat16_on_a_cpu_and_unquantized_on_a_gpu() -> None:
    assert resolve_quantization("auto", CPU) == "int8"
    assert resolve_quantization("auto", torch.device("cuda")) == "none"
    assert resolve_dtype("auto", "int8") == torch.bfloat16


@pytest.mark.parametrize("form", ["none", "int8", "int4", "fp8"])
def test_a_gpu_takes_every_form_of_the_matrices(form: Quantization) -> None:
    assert resolve_quantization(form, torch.device("cuda")) == form


def test_fp8_on_a_cpu_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"fp8.*GPU only"):
        resolve_quantization("fp8", CPU)


def test_quantized_products_refuse_another_dtype() -> None:
    with pytest.raises(ConfigError, match=r"float32.*int4"):
        resolve_dtype("float32", "int4")


@pytest.mark.parametrize("name", ["tpu", "mps", "cuda:99", "nonsense"])
def test_a_device_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        resolve_device(name)


def test_names_of_dtypes_go_both_ways() -> None:
    assert resolve_dtype(dtype_name(torch.float16), "none") == torch.float16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_cache_has_the_dtype_of_the_model_or_float8(dtype: torch.dtype) -> None:
    assert resolve_kv_cache_dtype("auto", dtype) == dtype
    assert kv_cache_dtype_name(dtype) == dtype_name(dtype)
    assert kv_cache_dtype_name(resolve_kv_cache_dtype("float8_e4m3", dtype)) == "float8_e4m3"


def test_on_a_cpu_float8_is_told_to_be_slow() -> None:
    assert device_notices(CPU, "strict", torch.bfloat16) == ()
    (notice,) = device_notices(CPU, "strict", torch.float8_e4m3fn)
    assert "not time" in notice


def test_without_triton_strict_determinism_is_told_to_be_uncertain_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda", 1)
    monkeypatch.setattr(settings, "reason_without_triton", lambda: "It is cloudy.")
    (notice,) = device_notices(cuda, "strict", torch.bfloat16)
    assert notice.startswith("Products on cuda:1 run in torch. It is cloudy. ")
    assert device_notices(cuda, "fast", torch.bfloat16) == ()
    monkeypatch.setattr(settings, "reason_without_triton", lambda: None)
    assert device_notices(cuda, "strict", torch.float8_e4m3fn) == ()


def test_a_wish_for_unknown_kernels_is_refused_on_a_gpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KernelInputError("SUREACT_KERNELS is 'fast'.")

    monkeypatch.setattr(settings, "reason_without_triton", fail)
    with pytest.raises(ConfigError, match="SUREACT_KERNELS is 'fast'"):
        device_notices(torch.device("cuda"), "strict", torch.bfloat16)


def test_there_is_at_least_one_core() -> None:
    assert num_physical_cores() >= 1


def test_torch_counts_the_cores_where_psutil_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert num_physical_cores() == 3


@pytest.mark.parametrize(
    ("asked", "expected"), [("1", 1), ("7", 7), ("0", num_physical_cores()), ("x", num_physical_cores())]
)
def test_omp_num_threads_is_heeded_as_torch_heeds_it(
    asked: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert default_num_threads() == expected
