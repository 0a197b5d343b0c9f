"""Whether the disk can hold what will be written, and what to say when it could not."""

import errno
import shutil
from pathlib import Path

from sureact.errors import DiskSpaceError, SureactError


def require_disk_space(folder: Path, needed_bytes: int, *, purpose: str) -> None:
    """Check that the disk of an existing folder has room.

    Raises:
        DiskSpaceError: it has not; the message gives both numbers.
    """
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise DiskSpaceError(
            f"{purpose} needs {needed_bytes / 1e9:.1f} GB on the disk of {folder}, which has {free_bytes / 1e9:.1f} GB "
            "free. Free some space, or point SUREACT_HOME to another disk."
        )


def disk_error(error: OSError, folder: Path, otherwise: SureactError) -> SureactError:
    """Return what an error of the system means to the user: the disk of `folder` is full, or `otherwise`."""
    return disk_full_error(folder) if error.errno in (errno.ENOSPC, errno.EDQUOT) else otherwise


def disk_full_error(folder: Path) -> DiskSpaceError:
    """Return the error for a disk that filled up while something was written to `folder`, which may not exist."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return DiskSpaceError(
        f"The disk of {folder} is full, or your quota on it is used up: it has "
        f"{shutil.disk_usage(existing).free / 1e9:.1f} GB free. Free some space, or point SUREACT_HOME to another disk."
    )
