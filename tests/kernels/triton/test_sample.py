import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sureact_kernels.errors import KernelInputError
from sureact_kernels.masked_argmax import IS_NAN, NOTHING_ALLOWED
from sureact_kernels.sample import sample as reference
from sureact_kernels.testing import AWKWARD_SIZES
from sureact_kernels.triton import sample as module
from sureact_kernels.triton.sample import SamplingTensors, sample, sample_rows, takes

BORDER = 1e-5
"""How near to a border between two tokens float32 sums of the reference may decide otherwise."""


@pytest.fixture(scope="module", autouse=True)
def few_passes() -> Iterator[None]:
    """Find four bits of a key at once: half the passes over a row, of which the interpreter is slow at each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_DIGIT_BITS", 4)
        yield


def bitmask_of(allowed: torch.Tensor) -> torch.Tensor:
    """Pack bools `[num_logits]`."""
    bits = torch.zeros(-(-len(allowed) // 32) * 32, dtype=torch.int64)
    bits[: len(allowed)] = allowed
    return (bits.view(-1, 32) << torch.arange(32)).sum(1).to(torch.int32)


def everything(num_logits: int) -> torch.Tensor:
    return bitmask_of(torch.ones(num_logits, dtype=torch.bool))


def statement(logits: torch.Tensor, allowed: torch.Tensor, uniform: float, how: dict[str, Any]) -> tuple[int, float]:
    """The token by sorting in float64, and the distance from the nearest border at which it would be another."""
    ids = allowed.nonzero().flatten()
    values, order = (logits[ids] / how["temperature"]).sort(descending=True, stable=True)
    num_kept = how["top_k"] or len(ids)
    shares = values[:num_kept].double().softmax(0)
    before = shares.cumsum(0) - shares
    keep = (before < how["top_p"]) & (shares >= how["min_p"] * shares[0])
    keep[0] = True
    kept = shares[keep]
    ends = kept.cumsum(0) / kept.sum()
    position = min(int((ends <= uniform).sum()), len(kept) - 1)
    borders = [(ends[:-1] - uniform).abs(), (before[1:] - how["top_p"]).abs(), shares / shares[0] - how["min_p"]]
    return int(ids[order[position]]), float(torch.cat(borders).abs().min())


@st.composite
def cases(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, float, dict[str, Any]]:
    """Logits, many of them equal, what is allowed, a uniform number and settings."""
    num_logits = draw(st.integers(1, 70))
    steps = draw(st.lists(st.integers(-30, 30), min_size=num_logits, max_size=num_logits))
    allowed = draw(st.lists(st.booleans(), min_size=num_logits, max_size=num_logits))
    allowed[draw(st.integers(0, num_logits - 1))] = True
    how = {
        "temperature": draw(st.sampled_from([0.1, 0.7, 1.0, 3.0])),
        "top_k": draw(st.integers(0, 20)),
        "top_p": draw(st.one_of(st.just(1.0), st.floats(0.01, 1))),
        "min_p": draw(st.one_of(st.just(0.0), st.floats(0, 1))),
    }
    return torch.tensor(steps) / draw(st.sampled_from([1, 7])), torch.tensor(allowed), draw(st.floats(0, 0.999)), how


@settings(max_examples=40)
@given(cases())
def test_draws_the_token_of_the_reference(case: tuple[torch.Tensor, torch.Tensor, float, dict[str, Any]]) -> None:
    logits, allowed, uniform, how = case
    token, distance = statement(*case)
    assume(distance > BORDER)
    assert sample(logits, bitmask_of(allowed), uniform, **how) == token
    assert reference(logits, bitmask_of(allowed), uniform, **how) == token


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("num_logits", AWKWARD_SIZES)
def test_draws_the_token_of_the_reference_from_many(num_logits: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(num_logits)
    logits = torch.randn(num_logits, generator=generator).mul(2).to(dtype)
    how: dict[str, Any] = {"temperature": 0.8, "top_k": 200, "top_p": 0.9, "min_p": 0.01}
    for uniform in (0.13, 0.77):
        token, distance = statement(logits.float(), torch.ones(num_logits, dtype=torch.bool), uniform, how)
        assert distance > 1e-7
        assert sample(logits, everything(num_logits), uniform, **how) == token


def test_blocks_are_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a vocabulary of three blocks, equal logits are ordered by id over all of them; with the launched digits."""
    monkeypatch.setattr(module, "_DIGIT_BITS", 2)
    logits = torch.full((5000,), -2.0)
    logits[[4999, 3, 2500]] = 4.0
    draws = [sample(logits, everything(5000), u, temperature=1.0, top_k=3) for u in (0.0, 0.34, 0.67)]
    assert draws == [3, 2500, 4999]
    assert sample(logits, everything(5000), 0.9999, temperature=0.5, top_k=3) == 4999


def test_a_number_on_a_border_draws_the_token_after_it() -> None:
    """Four equal tokens: their sums are exact here and in the reference."""
    for uniform, token in ((0.0, 0), (0.25, 1), (0.5, 2), (0.7499999, 2), (0.75, 3), (1 - 2**-53, 3)):
        assert sample(torch.zeros(4), everything(4), uniform, temperature=1.0) == token
    for top_p, token in ((0.25, 0), (0.5, 1), (0.51, 2), (1.0, 3)):
        assert sample(torch.zeros(4), everything(4), 0.9999, temperature=1.0, top_p=top_p) == token


def test_the_likeliest_token_always_stays() -> None:
    logits = torch.tensor([0.0, 1.0, 1.0, 0.5])
    cases: list[tuple[dict[str, Any], int]] = [
        ({"top_p": 0.0}, 1), ({"min_p": 2.0}, 2), ({"min_p": 2.0, "top_p": 0.0}, 1),
    ]  # fmt: skip
    for how, token in cases:
        assert sample(logits, everything(4), 0.999, temperature=1.0, **how) == token
        assert reference(logits, everything(4), 0.999, temperature=1.0, **how) == token


@pytest.mark.parametrize("settings", [{}, {"top_k": 2}, {"top_p": 0.5}, {"top_p": 0.0}, {"min_p": 2.0}], ids=str)
@pytest.mark.parametrize("values", [[0.0, math.inf, -math.inf, math.inf], [-math.inf] * 4, [3e38, 3e38, 0.0, -3e38]])
def test_infinite_logits_share_alike_as_in_the_reference(values: list[float], settings: dict[str, Any]) -> None:
    """None of them is more likely than another, whether all are -inf, some are inf, or become it by the temperature."""
    how: dict[str, Any] = {"temperature": 0.1, **settings}
    for uniform in (0.1, 0.4, 0.6, 0.9):
        with np.errstate(over="ignore"):  # a GPU has infinity for it
            drawn = sample(torch.tensor(values), everything(4), uniform, **how)
        assert drawn == reference(torch.tensor(values), everything(4), uniform, **how)


def test_the_two_zeros_are_ordered_by_id() -> None:
    assert [sample(torch.tensor([-0.0, 0.0]), everything(2), u, temperature=1.0) for u in (0.2, 0.7)] == [0, 1]


def test_the_settings_of_a_row_are_one_tensor() -> None:
    """So that a GPU gets them with one copy, each aligned as Triton likes it."""
    how = module._settings((0.3, 0.7, 50, 0.9, 0.05), torch.device("cpu"))  # pyright: ignore[reportPrivateUsage]
    assert len({setting.untyped_storage().data_ptr() for setting in how}) == 1
    assert [setting.storage_offset() * setting.itemsize % 16 for setting in how] == [0] * 5
    assert [(setting.dtype, setting.shape) for setting in how] == [
        (dtype, (1,)) for dtype in (torch.float64, torch.float32, torch.int32, torch.float32, torch.float32)
    ]
    assert [setting.item() for setting in how] == pytest.approx([0.3, 0.7, 50, 0.9, 0.05], rel=1e-7)
    assert how.uniform.item() == 0.3


@pytest.mark.parametrize(
    ("how", "passes"),
    [({}, 2), ({"top_k": 2}, 2), ({"top_p": 0.9}, 3), ({"min_p": 0.1}, 2), ({"top_p": 0.9, "min_p": 0.1}, 4)],
    ids=str,
)
def test_filters_that_are_off_cost_no_pass_over_the_row(
    how: dict[str, Any], passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the searches: the sum of what is kept, and what the drawn one weighs; twice that for top_p."""
    weights_around, calls = module._weights_around, []  # pyright: ignore[reportPrivateUsage]

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return weights_around(*arguments)

    monkeypatch.setattr(module, "_weights_around", counted)
    sample(torch.tensor([0.0, 1.0, 1.5, 0.5]), everything(4), 0.4, temperature=1.0, **how)
    assert len(calls) == passes


def rows_of(num_rows: int) -> tuple[torch.Tensor, torch.Tensor, SamplingTensors]:
    """Rows with settings of their own."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(num_rows, 123, generator=generator) * 2
    bitmask = torch.randint(-(2**31), 2**31, (num_rows, 4), generator=generator).to(torch.int32)
    how = SamplingTensors(
        torch.rand(num_rows, generator=generator, dtype=torch.float64),
        torch.rand(num_rows, generator=generator) + 0.3,
        torch.randint(0, 9, (num_rows,), generator=generator, dtype=torch.int32),
        torch.rand(num_rows, generator=generator),
        torch.rand(num_rows, generator=generator) * 0.2,
    )
    return logits, bitmask, how


def test_a_row_is_drawn_the_same_in_any_company() -> None:
    logits, bitmask, how = rows_of(4)
    together = sample_rows(logits, bitmask, how)
    for row in range(4):
        one = slice(row, row + 1)
        alone = sample_rows(logits[one], bitmask[one], SamplingTensors(*(setting[one] for setting in how)))
        assert torch.equal(alone, together[one])


def test_strided_input_gives_the_same() -> None:
    logits, bitmask, how = rows_of(3)
    wanted = sample_rows(logits, bitmask, how)
    wide = torch.full((3, 200), torch.nan)
    wide[:, :123] = logits
    strided = SamplingTensors(*(torch.stack([setting, setting], 1)[:, 0] for setting in how))
    assert torch.equal(sample_rows(wide[:, :123], bitmask.T.contiguous().T, strided), wanted)
    assert torch.equal(sample_rows(logits.T.contiguous().T, bitmask, how), wanted)


def test_rows_can_be_drawn_in_a_captured_graph(without_kernels: Callable[[ModuleType], None]) -> None:
    without_kernels(module)
    logits, bitmask, how = rows_of(3)
    on_meta = SamplingTensors(*(setting.to("meta") for setting in how))
    assert sample_rows(logits.to("meta"), bitmask.to("meta"), on_meta).shape == (3,)


def test_an_empty_batch_gives_no_tokens() -> None:
    assert sample_rows(*rows_of(0)).tolist() == []


def test_faults_of_a_row_are_its_own() -> None:
    logits, bitmask, how = rows_of(3)
    bitmask[0], logits[1], bitmask[2] = 0, torch.nan, -1
    assert sample_rows(logits, bitmask, how)[:2].tolist() == [NOTHING_ALLOWED, IS_NAN]
    assert sample_rows(logits, bitmask, how)[2] >= 0
    with pytest.raises(KernelInputError, match="allows no token"):
        sample(logits[0], bitmask[0], 0.5, temperature=1.0)
    with pytest.raises(KernelInputError, match="NaN"):
        sample(logits[1], bitmask[2], 0.5, temperature=1.0)


def test_wrong_shapes_and_dtypes_are_refused() -> None:
    logits, bitmask, how = rows_of(3)
    with pytest.raises(KernelInputError, match=r"\[3, 3\].*\[3, 4\]"):
        sample_rows(logits, bitmask[:, :3], how)
    with pytest.raises(KernelInputError, match=r"uniform has shape \[2\].*\[3\]"):
        sample_rows(logits, bitmask, how._replace(uniform=how.uniform[:2]))
    with pytest.raises(KernelInputError, match=r"top_k has dtype torch.int64"):
        sample_rows(logits, bitmask, how._replace(top_k=how.top_k.long()))


def test_takes_floats_and_packed_masks() -> None:
    logits, bitmask, _ = rows_of(1)
    assert takes(logits[0], bitmask[0])
    assert not takes(logits.double(), bitmask)
    assert not takes(logits, bitmask.long())
