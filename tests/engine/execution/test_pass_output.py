import torch

from sureact.execution.pass_output import PassOutput


def test_rows_of_a_pass_keep_what_was_found_of_them() -> None:
    output = PassOutput(torch.arange(6.0).view(3, 2), (1, 1, 0))
    part = output.rows(1, 3)
    assert part.logits is not None
    assert part.logits.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert part.likeliest == (1, 0)


def test_what_was_not_found_stays_away() -> None:
    assert PassOutput(None, (4, 2)).rows(0, 1).logits is None
    assert PassOutput(torch.zeros(2, 3)).rows(0, 1).likeliest is None
