import torch

from sureact_kernels.dispatch import version_of


def test_a_version_is_used_where_it_takes_the_tensors(ops: str) -> None:
    x = torch.ones(1, 16)
    version = version_of("rms_norm", x, x[0])
    assert (version is not None) == (ops == "c++")
    assert version_of("rms_norm", x.bfloat16(), x[0].bfloat16()) is None
    assert version_of("rms_norm", torch.ones(1, 15), torch.ones(15)) is None
    assert version_of("rms_norm", x.to("meta"), x[0].to("meta")) is None
