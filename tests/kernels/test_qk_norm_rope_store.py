import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.qk_norm_rope_store import HeadNorm, qk_norm_rope_store
from sureact_kernels.rms_norm import rms_norm
from sureact_kernels.testing import assert_close

HEAD_DIM, NUM_Q_HEADS, NUM_KV_HEADS, BLOCK_SIZE = 8, 6, 2, 4


def angles(num_tokens: int) -> torch.Tensor:
    return torch.outer(torch.arange(num_tokens).float() + 3, torch.tensor([1.0, 0.3, 0.1, 0.01]))


def cos_sin(angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat((angle.cos(), angle.cos()), -1), torch.cat((-angle.sin(), angle.sin()), -1)


def caches() -> tuple[torch.Tensor, torch.Tensor]:
    shape = (5, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM)
    return torch.full(shape, float("nan")), torch.full(shape, float("nan"))


def rotated(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Rotate with complex numbers: another way to say the same."""
    half = HEAD_DIM // 2
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
    turned = pairs * torch.polar(torch.ones_like(angle, dtype=torch.float64), angle.double()).unsqueeze(1)
    return torch.cat((turned.real, turned.imag), -1)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("has_norm", [False, True])
def test_queries_and_stored_keys_are_rotated_and_values_are_stored(dtype: torch.dtype, has_norm: bool) -> None:
    qkv = torch.randn(3, (NUM_Q_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM).to(dtype)
    angle = angles(3)
    key_cache, value_cache = (cache.to(dtype) for cache in caches())
    norm = HeadNorm(torch.randn(HEAD_DIM).to(dtype), torch.randn(HEAD_DIM).to(dtype), 1e-6) if has_norm else None
    slots = torch.tensor([9, 2, 19])
    queries = qk_norm_rope_store(qkv, *cos_sin(angle), key_cache, value_cache, slots, norm)

    q, k, v = qkv.view(3, -1, HEAD_DIM).split((NUM_Q_HEADS, NUM_KV_HEADS, NUM_KV_HEADS), 1)
    if norm is not None:
        q, k = rms_norm(q, norm.q_weight, 1e-6), rms_norm(k, norm.k_weight, 1e-6)
    assert_close(queries, rotated(q, angle), dtype)
    for token, slot in enumerate(slots.tolist()):
        block, row = divmod(slot, BLOCK_SIZE)
        assert_close(key_cache[block, row], rotated(k, angle)[token], dtype)
        assert torch.equal(value_cache[block, row], v[token])
    untouched = torch.ones(5, BLOCK_SIZE, dtype=torch.bool)
    untouched[slots // BLOCK_SIZE, slots % BLOCK_SIZE] = False
    assert key_cache[untouched].isnan().all()


def test_slots_that_do_not_match_the_tokens_are_refused() -> None:
    angle = angles(2)
    with pytest.raises(KernelInputError, match="slot_mapping"):
        qk_norm_rope_store(
            torch.randn(2, 10 * HEAD_DIM), *cos_sin(angle), *caches(), torch.tensor([1], dtype=torch.int64)
        )
