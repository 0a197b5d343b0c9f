import torch
from benchmarks.gpu.passes import Stretch, fixed_pass, last_logits, num_blocks, prefill, run_pass, tables_of
from benchmarks.gpu.random_model import RandomModel


def test_tables_share_no_block_and_leave_the_next_one_free() -> None:
    assert num_blocks(128) == 1
    assert num_blocks(129) == 2
    assert tables_of(2, 129) == [[0, 1], [2, 3]]


def test_a_prompt_in_two_passes_gives_the_logits_of_one(tiny: RandomModel) -> None:
    ids = tiny.random_ids(140, seed=1)
    assert ids == tiny.random_ids(140, seed=1)
    layers = tiny.new_cache(5)
    whole = last_logits(tiny, layers, [Stretch(ids, 0, [3, 1])])
    run_pass(tiny, layers, [Stretch(ids[:30], 0, [4, 0])])
    parts = last_logits(tiny, layers, [Stretch(ids[:2], 0, [2]), Stretch(ids[30:], 30, [4, 0])])
    assert torch.equal(whole[0], parts[1])
    assert prefill(tiny, layers, Stretch(ids, 0, [3, 1])) == int(whole.argmax())


def test_a_pass_that_is_ready_to_capture_computes_the_same(tiny: RandomModel) -> None:
    layers = tiny.new_cache(2)
    stretches = [Stretch([5], 20, [1]), Stretch([7], 40, [0])]
    expected = last_logits(tiny, layers, stretches)
    step = fixed_pass(tiny, layers, stretches, is_invariant=True)
    assert torch.equal(step(), expected)
    assert torch.equal(step(), expected)
    fast = fixed_pass(tiny, layers, stretches, is_invariant=False)()
    torch.testing.assert_close(fast, expected, atol=1e-3, rtol=1e-3)
