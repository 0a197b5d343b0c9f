import torch

from sureact.execution.graph_capture import new_pool, record


def test_on_a_cpu_work_is_done_again_by_doing_it() -> None:
    device, x = torch.device("cpu"), torch.zeros(1)

    def add_one() -> None:
        x.add_(1)

    again = record(add_one, device, new_pool(device))
    assert x.item() == 0
    again()
    again()
    assert x.item() == 2
