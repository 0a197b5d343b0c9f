"""What holds for every test: no network, few threads, Triton's interpreter where there is no GPU."""

import os
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

# Read when torch, triton and huggingface_hub are imported, so set before any test imports them.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "2")
if "PYTEST_XDIST_WORKER" in os.environ:
    # One of several processes, which inherits the line above: more threads than cores wait for each other in every op.
    os.environ["OMP_NUM_THREADS"] = "1"
if not Path("/proc/driver/nvidia").exists():
    os.environ["TRITON_INTERPRET"] = "1"

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code. What fails once fails everywhere and again;
# `--hypothesis-profile random` looks for other examples.
settings.register_profile("sureact", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile("sureact")

MODEL_NAME = "qwen2.5-coder-0.5b-instruct"


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Refuse every connection that leaves this machine."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("connect", "connect_ex"):
            patch.setattr(socket.socket, method, _local_only(getattr(socket.socket, method)))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_grammar_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep grammars where no earlier run left any."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sureact.constraints.grammar_store.home_folder", lambda: folder)
        yield


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """Folder of the real 0.5B model, for tests marked `model`."""
    if os.environ.get("SUREACT_SKIP_MODEL_TESTS") == "1":
        pytest.skip("SUREACT_SKIP_MODEL_TESTS is 1")
    from sureact.catalog.resolve import resolve_model
    from sureact.catalog.store import ModelStore
    from sureact.errors import ModelNotFoundError

    try:
        return resolve_model(MODEL_NAME, ModelStore()).path
    except ModelNotFoundError as error:
        pytest.fail(f"{error} Set SUREACT_SKIP_MODEL_TESTS=1 to run the tests without it.")


def _local_only(connect: Any) -> Any:
    def checked_connect(self: socket.socket, address: Any) -> Any:
        if self.family != socket.AF_UNIX and not _is_loopback(address[0]):
            pytest.fail(f"a test tried to connect to {address!r}; tests reach nothing but this machine")
        return connect(self, address)

    return checked_connect


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
