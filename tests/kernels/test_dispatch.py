import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sureact_kernels import dispatch
from sureact_kernels.dispatch import disable, disabled, is_on_gpu, reason_without_triton, version_of, version_on_gpu
from sureact_kernels.embedding import embedding
from sureact_kernels.errors import KernelInputError
from sureact_kernels.rms_norm import rms_norm

KERNELS = Path(dispatch.__file__).parent
OPS_IN_TRITON = sorted(path.stem for path in (KERNELS / "triton").glob("[!_]*.py") if (KERNELS / path.name).exists())
TRITON_RMS_NORM = "sureact_kernels.triton.rms_norm"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take tensors without data for those of a GPU, and start with every op on."""
    monkeypatch.setattr(dispatch, "GPU", "meta")
    monkeypatch.setattr(dispatch, "_disabled", {})
    monkeypatch.setattr(dispatch, "_refused", set[str]())
    monkeypatch.delenv("SUREACT_KERNELS", raising=False)
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    forget()
    yield
    forget()


def forget() -> None:
    for cached in (dispatch.reason_without_triton, dispatch._guarded, dispatch._module):  # pyright: ignore[reportPrivateUsage]
        cached.cache_clear()


def on_gpu(size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(2, size, device="meta"), torch.ones(size, device="meta")


def use_launcher(monkeypatch: pytest.MonkeyPatch, launch: Any, op: str = "rms_norm") -> None:
    def takes(*_: torch.Tensor) -> bool:
        return True

    monkeypatch.setitem(sys.modules, f"sureact_kernels.triton.{op}", SimpleNamespace(takes=takes, **{op: launch}))


def fails_with(error: Exception) -> Any:
    def launch(*_: Any) -> torch.Tensor:
        raise error

    return launch


def test_a_version_is_used_where_it_takes_the_tensors(ops: str) -> None:
    x = torch.ones(1, 16)
    version = version_of("rms_norm", x, x[0])
    assert (version is not None) == (ops == "c++")
    assert version_of("rms_norm", x.bfloat16(), x[0].bfloat16()) is None
    assert version_of("rms_norm", torch.ones(1, 15), torch.ones(15)) is None
    assert version_of("rms_norm", x.to("meta"), x[0].to("meta")) is None


@pytest.mark.usefixtures("gpu")
def test_on_a_gpu_triton_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    version = version_of("rms_norm", *on_gpu())
    assert version.module.__name__ == TRITON_RMS_NORM
    assert version_of("rms_norm", *on_gpu()) is version
    forget()

    def launch(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x.new_empty(3)

    use_launcher(monkeypatch, launch)
    assert rms_norm(*on_gpu(), 1e-6).shape == (3,)


def test_a_test_can_take_the_cpu_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whole models run through the launchers, in Triton's interpreter."""
    x, token_ids = torch.randn(3, 16), torch.tensor([2, 0])
    assert not is_on_gpu(x)
    assert version_on_gpu("embedding", token_ids, x) is None
    monkeypatch.setattr(dispatch, "GPU", "cpu")
    assert is_on_gpu(x)
    assert version_of("rms_norm", x, x[0]).module.__name__ == TRITON_RMS_NORM
    assert torch.equal(rms_norm(x, x[0], 1e-6), import_module(TRITON_RMS_NORM).rms_norm(x, x[0], 1e-6))
    assert version_on_gpu("embedding", token_ids, x) is not None
    assert torch.equal(embedding(token_ids, x), x[[2, 0]])


@pytest.mark.usefixtures("gpu")
def test_kernels_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREACT_KERNELS", "reference")
    assert version_of("rms_norm", *on_gpu()) is None
    assert reason_without_triton() == "SUREACT_KERNELS is 'reference'."
    assert disabled() == {}


@pytest.mark.usefixtures("gpu")
def test_a_wish_without_meaning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREACT_KERNELS", "fast")
    with pytest.raises(KernelInputError, match="SUREACT_KERNELS is 'fast'"):
        version_of("rms_norm", *on_gpu())


@pytest.mark.usefixtures("gpu")
def test_without_triton_the_reference_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    assert version_of("rms_norm", *on_gpu()) is None
    assert str(reason_without_triton()).startswith("Triton cannot be imported: ")


class _NoDriver:
    """What Triton does where there is no compiler."""

    def __init__(self) -> None:
        self.num_starts = 0

    @property
    def active(self) -> object:
        self.num_starts += 1
        raise RuntimeError("Failed to find C compiler.")


@pytest.mark.usefixtures("gpu")
def test_without_a_compiler_for_the_driver_of_triton_the_reference_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = _NoDriver()
    monkeypatch.setattr("triton.runtime.driver", driver)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for _ in range(2):
        assert version_of("rms_norm", *on_gpu()) is None
    reason = str(reason_without_triton())
    assert reason.startswith("Triton cannot start its driver: RuntimeError: Failed to find C compiler. ")
    assert "gcc or clang" in reason
    assert "Python.h" in reason
    assert driver.num_starts == 1
    required(monkeypatch)
    with pytest.raises(KernelInputError, match="Failed to find C compiler"):
        rms_norm(*on_gpu(), 1e-6)


@pytest.mark.usefixtures("gpu")
def test_without_a_gpu_no_driver_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = _NoDriver()
    monkeypatch.setattr("triton.runtime.driver", driver)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert reason_without_triton() is None
    assert driver.num_starts == 0


@pytest.mark.usefixtures("gpu")
def test_a_disabled_op_computes_the_reference_and_the_log_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    disable("rms_norm", "it is slow here")
    disable("rms_norm", "it is wrong here")
    assert version_of("rms_norm", *on_gpu()) is None
    assert version_of("silu_and_mul", on_gpu()[0]) is not None
    assert disabled() == {"rms_norm": "it is slow here"}
    assert caplog.messages == ["rms_norm: Triton's version is off, torch's reference computes it: it is slow here"]


@pytest.mark.usefixtures("gpu")
def test_a_kernel_that_does_not_compile_disables_its_op_and_the_request_is_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_launcher(monkeypatch, fails_with(RuntimeError("no such instruction")))
    for _ in range(2):
        assert rms_norm(*on_gpu(), 1e-6).shape == (2, 16)
    assert disabled() == {"rms_norm": "RuntimeError: no such instruction"}
    assert len(caplog.messages) == 1


@pytest.mark.usefixtures("gpu")
def test_every_launcher_of_an_op_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op may be called in two ways; both give way to their own reference."""
    use_launcher(monkeypatch, fails_with(AssertionError("not this one")))
    monkeypatch.setattr(sys.modules[TRITON_RMS_NORM], "rms_norm_of_one", fails_with(RuntimeError("no")), raising=False)
    monkeypatch.setattr("sureact_kernels.rms_norm.rms_norm_of_one", lambda x: x + 1, raising=False)  # pyright: ignore
    x = torch.ones(2)
    assert version_of("rms_norm", *on_gpu()).rms_norm_of_one(x).tolist() == [2, 2]
    assert disabled() == {"rms_norm": "RuntimeError: no"}
    with pytest.raises(AttributeError, match="no_such_launcher"):
        dispatch._guarded("rms_norm", None).no_such_launcher()  # pyright: ignore


def required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREACT_KERNELS", "required")


@pytest.mark.usefixtures("gpu")
def test_what_triton_takes_is_computed_where_versions_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    required(monkeypatch)
    assert version_of("rms_norm", *on_gpu()).module.__name__ == TRITON_RMS_NORM


@pytest.mark.usefixtures("gpu")
def test_tensors_that_triton_does_not_take_are_refused_where_versions_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    required(monkeypatch)
    x, weight = on_gpu()
    message = (
        r"rms_norm: .*'required'.* float64 \[2, 16\] on meta, float64 \[16\] on meta: .*takes.*unset SUREACT_KERNELS"
    )
    with pytest.raises(KernelInputError, match=message):
        version_of("rms_norm", x.double(), weight.double())
    with pytest.raises(KernelInputError, match=r"no_such_op: .*No module named"):
        version_of("no_such_op", x)


@pytest.mark.usefixtures("gpu")
def test_a_missing_triton_is_refused_where_versions_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    required(monkeypatch)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(KernelInputError, match=r"rms_norm: .*'required'.*float32 \[2, 16\].*Triton cannot be imported"):
        rms_norm(*on_gpu(), 1e-6)


@pytest.mark.usefixtures("gpu")
def test_a_kernel_that_does_not_compile_is_refused_where_versions_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    required(monkeypatch)
    use_launcher(monkeypatch, fails_with(RuntimeError("no such instruction")))
    for _ in range(2):
        with pytest.raises(KernelInputError, match=r"float32 \[2, 16\] on meta.*RuntimeError: no such instruction"):
            rms_norm(*on_gpu(), 1e-6)
    assert disabled() == {}


@pytest.mark.usefixtures("gpu")
def test_a_disabled_op_is_refused_where_versions_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    disable("rms_norm", "it is wrong here.")
    required(monkeypatch)
    with pytest.raises(KernelInputError, match=r"rms_norm: .*: it is wrong here\. Give it"):
        rms_norm(*on_gpu(), 1e-6)


@pytest.mark.usefixtures("gpu")
def test_the_reference_gets_what_the_launcher_got(monkeypatch: pytest.MonkeyPatch) -> None:
    use_launcher(monkeypatch, fails_with(ValueError("no such tile")), op="qk_norm_rope_store")
    q, cache, angles = torch.ones(1, 4 * 8), torch.zeros(2, 2, 1, 8), torch.ones(1, 8)
    version = dispatch._guarded("qk_norm_rope_store", None)  # pyright: ignore[reportPrivateUsage]
    out = version.qk_norm_rope_store(q, angles, angles, cache, cache.clone(), torch.tensor([3]), head_norm=None)  # pyright: ignore
    assert torch.equal(out, torch.full((1, 2, 8), 2.0))
    assert torch.equal(cache[1, 1, 0], torch.full((8,), 2.0))


@pytest.mark.parametrize("op", OPS_IN_TRITON)
def test_an_op_can_be_called_as_its_launcher_is(op: str) -> None:
    """Either may have further parameters, which have defaults then."""
    of_op, of_launcher = (
        signature(getattr(import_module(f"sureact_kernels.{folder}{op}"), op)).parameters for folder in ("", "triton.")
    )
    shared = min(len(of_op), len(of_launcher))
    assert [*of_op][:shared] == [*of_launcher][:shared]
    further = [*of_op.values()][shared:] + [*of_launcher.values()][shared:]
    assert all(parameter.default is not parameter.empty for parameter in further)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("error", [KernelInputError("a shape"), torch.OutOfMemoryError("full")])
def test_errors_of_the_tensors_or_the_device_do_not_disable_an_op(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_launcher(monkeypatch, fails_with(error))
    with pytest.raises(type(error), match=str(error)):
        rms_norm(*on_gpu(), 1e-6)
    assert disabled() == {}


@pytest.mark.usefixtures("gpu")
def test_arguments_that_the_reference_refuses_too_do_not_disable_an_op(monkeypatch: pytest.MonkeyPatch) -> None:
    use_launcher(monkeypatch, fails_with(TypeError("no number")))
    with pytest.raises(TypeError, match="str"):
        rms_norm(*on_gpu(), "eps")  # pyright: ignore[reportArgumentType]
    assert disabled() == {}
    assert version_of("rms_norm", *on_gpu()) is not None


@pytest.mark.usefixtures("gpu")
def test_tensors_that_triton_does_not_take_go_to_the_reference_with_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x, weight = on_gpu()
    for _ in range(2):
        assert version_of("rms_norm", x.double(), weight.double()) is None
    assert version_of("rms_norm", x, torch.ones(16)) is None
    assert disabled() == {}
    assert caplog.messages == [
        "rms_norm: there is no Triton version for float64 [2, 16] on meta, float64 [16] on meta; "
        "torch's reference computes it"
    ]


@pytest.mark.usefixtures("gpu")
def test_an_op_without_a_triton_version_goes_to_the_reference(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        assert version_of("no_such_op", *on_gpu()) is None
    assert disabled() == {"no_such_op": "No module named 'sureact_kernels.triton.no_such_op'"}
    assert len(caplog.messages) == 1
