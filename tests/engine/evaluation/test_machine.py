import platform

import torch

from sureact import __version__
from sureact.evaluation.machine import PACKAGES, cpu_features, cpu_name, hardware, versions


def test_versions_are_those_that_run() -> None:
    found = versions()
    assert found.keys() == {"python", *PACKAGES}
    assert found["python"] == platform.python_version()
    assert found["sureact"] == __version__
    assert found["torch"] == torch.__version__


def test_hardware_has_numbers_with_units_in_their_names() -> None:
    found = hardware()
    assert found["cpu"] == cpu_name() != ""
    assert isinstance(found["memory_bytes"], int)
    assert found["memory_bytes"] > 10**8
    assert found["gpus"] == [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def test_cpu_features_are_those_that_torch_finds() -> None:
    features = cpu_features()
    assert len(features) == len(set(features))
    if torch.backends.cpu.get_cpu_capability() == "AVX512" and platform.system() == "Linux":
        assert "avx512f" in features
