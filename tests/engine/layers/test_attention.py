import torch

from sureact.layers.attention import Attention
from sureact.layers.attention_metadata import AttentionMetadata
from sureact.layers.linear import Linear
from sureact.layers.rotary import RotaryTable
from sureact_kernels.linear import DenseWeight

HEAD_DIM, NUM_Q_HEADS, NUM_KV_HEADS, BLOCK_SIZE = 8, 4, 2, 16
NUM_TOKENS = 35


def metadata(start: int, end: int) -> AttentionMetadata:
    positions = torch.arange(start, end)
    return AttentionMetadata(
        positions=positions,
        slot_mapping=positions,
        block_tables=torch.arange(-(-end // BLOCK_SIZE)).unsqueeze(0),
        context_lens=(end,),
        query_lens=(end - start,),
        is_invariant=True,
    )


def test_a_prompt_at_once_and_token_by_token_gives_the_same_bits() -> None:
    torch.manual_seed(0)
    qkv = Linear(DenseWeight(torch.randn((NUM_Q_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM, 16)))
    attention = Attention(qkv, Linear(DenseWeight(torch.randn(16, 32))), head_dim=HEAD_DIM)
    rotary = RotaryTable(torch.tensor([1.0, 0.3, 0.1, 0.01]), 1.0, 40)
    x = torch.randn(NUM_TOKENS, 16)

    def run(start: int, end: int, caches: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        where = metadata(start, end).context(rotary, block_size=BLOCK_SIZE, group=NUM_Q_HEADS // NUM_KV_HEADS)
        return attention(x[start:end], *caches, where)

    def new_caches() -> tuple[torch.Tensor, torch.Tensor]:
        shape = (4, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM)
        return torch.zeros(shape), torch.zeros(shape)

    caches = new_caches()
    one_by_one = torch.cat([run(i, i + 1, caches) for i in range(NUM_TOKENS)])
    assert torch.equal(run(0, NUM_TOKENS, new_caches()), one_by_one)
