"""Checks before a pull that the disk can hold what it will write."""

import shutil
from pathlib import Path

from sureact.errors import DiskSpaceError


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
