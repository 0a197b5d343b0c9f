import torch

from sureact.layers.attention_metadata import AttentionMetadata


def metadata(query_lens: tuple[int, ...]) -> AttentionMetadata:
    num_tokens = sum(query_lens)
    return AttentionMetadata(
        positions=torch.zeros(num_tokens, dtype=torch.int64),
        slot_mapping=torch.zeros(num_tokens, dtype=torch.int64),
        block_tables=torch.zeros(len(query_lens), 1, dtype=torch.int64),
        context_lens=query_lens,
        query_lens=query_lens,
        is_invariant=True,
    )


def test_a_pass_decodes_when_every_sequence_has_one_new_token() -> None:
    assert metadata((1, 1, 1)).is_decode
    assert not metadata((1, 2)).is_decode
