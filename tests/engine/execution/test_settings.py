import pytest
import torch

from sureact.config import Quantization
from sureact.errors import ConfigError
from sureact.execution.settings import (
    default_num_threads,
    dtype_name,
    num_physical_cores,
    resolve_device,
    resolve_dtype,
    resolve_quantization,
)

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


def test_there_is_at_least_one_core() -> None:
    assert num_physical_cores() >= 1


@pytest.mark.parametrize(
    ("asked", "expected"), [("1", 1), ("7", 7), ("0", num_physical_cores()), ("x", num_physical_cores())]
)
def test_omp_num_threads_is_heeded_as_torch_heeds_it(
    asked: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert default_num_threads() == expected
