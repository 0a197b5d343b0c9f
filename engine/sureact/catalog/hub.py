"""Fetches a model by its hub id: weights as safetensors and the text files beside them, never pickle."""

import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from sureact.catalog.disk_space import disk_error, require_disk_space
from sureact.catalog.package_index import sha256_of
from sureact.catalog.pull_progress import ProgressCallback, PullProgress
from sureact.errors import (
    ChecksumError,
    IndexUnreachableError,
    ModelNotFoundError,
    PullError,
    SureactError,
    UnsupportedModelError,
)

if TYPE_CHECKING:
    from huggingface_hub import HfApi

WANTED_FILES = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model")
"""What is taken from a repository or a folder: everything a model needs, nothing that could run code."""


def is_wanted(name: str) -> bool:
    """Tell whether a file at the top of a repository belongs to the model."""
    return "/" not in name and any(fnmatch(name, pattern) for pattern in WANTED_FILES)


def fetch_snapshot(repo_id: str, folder: Path, progress: ProgressCallback) -> None:
    """Download a model repository into an existing folder; what an earlier call finished is not fetched again.

    Raises:
        IndexUnreachableError: the hub did not answer.
        ModelNotFoundError: the hub has no such model.
        UnsupportedModelError: the repository has no safetensors files.
        DiskSpaceError: the disk is too small.
        ChecksumError: a file differs from what the hub lists.
        PullError: the hub refused.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    try:
        _download(HfApi(), repo_id, folder, progress)
    except SureactError:
        raise
    except (OSError, HFValidationError, _transport_error()) as error:
        raise _hub_error(repo_id, error, folder) from error
    # The hub's own notes for resuming; of no use in a finished model.
    shutil.rmtree(folder / ".cache", ignore_errors=True)


def _download(api: "HfApi", repo_id: str, folder: Path, progress: ProgressCallback) -> None:
    info = api.model_info(repo_id, files_metadata=True)
    files = [file for file in info.siblings or [] if is_wanted(file.rfilename)]
    sizes = {file.rfilename: file.size or 0 for file in files}
    if not any(name.endswith(".safetensors") for name in sizes):
        raise UnsupportedModelError(f"{repo_id} offers no safetensors files; pickled weights are never loaded.")
    done = sum(size for name, size in sizes.items() if (folder / name).is_file())
    total = sum(sizes.values())
    require_disk_space(folder, total - done, purpose=f"Pulling {repo_id}")
    done = 0
    for file in files:
        progress(PullProgress("downloading", done, total))
        # The revision is pinned, so that a push in the middle cannot mix two versions of a model.
        api.hf_hub_download(repo_id, file.rfilename, revision=info.sha, local_dir=folder)
        # Large files only: of the others the hub lists no SHA-256.
        if file.lfs is not None:
            _require_sha256(folder / file.rfilename, file.lfs.sha256)
        done += sizes[file.rfilename]
    progress(PullProgress("downloading", total, total))


def _require_sha256(path: Path, expected: str) -> None:
    actual = sha256_of(path)
    if actual != expected:
        path.unlink()
        raise ChecksumError(
            f"{path.name} has SHA-256 {actual}; the hub lists {expected}. The file is removed; the next pull "
            "fetches it again."
        )


def _transport_error() -> type[Exception]:
    """Return the base class of the HTTP library's errors; which library it is depends on the hub's version."""
    from huggingface_hub.errors import HfHubHTTPError

    return next(base for base in HfHubHTTPError.__mro__ if base.__name__ == "HTTPError")


def _hub_error(repo_id: str, error: Exception, folder: Path) -> SureactError:
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    if isinstance(error, OfflineModeIsEnabled):
        return IndexUnreachableError(
            f"The environment forbids to ask the hub for {repo_id}: HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set. "
            "Pull with HF_HUB_OFFLINE=0 and without the other, or take the files from a folder with `--from FOLDER`."
        )
    if isinstance(error, GatedRepoError):
        return PullError(f"{repo_id} is gated: accept its terms on the hub and log in with `hf auth login`.")
    if isinstance(error, (RepositoryNotFoundError, HFValidationError)):
        return ModelNotFoundError(f"The hub has no model {repo_id!r}, or none that you may see. Check the spelling.")
    if isinstance(error, HfHubHTTPError):
        return PullError(f"The hub refused {repo_id} with HTTP status {error.response.status_code}. Try again later.")
    unreachable = IndexUnreachableError(
        f"The model hub did not answer for {repo_id} ({type(error).__name__}). Check the network, or take the files "
        "from a folder with `--from FOLDER`. What is finished is kept."
    )
    return disk_error(error, folder, unreachable) if isinstance(error, OSError) else unreachable
