import errno
import re
from pathlib import Path

import pytest

from sureact.catalog.disk_space import disk_error, require_disk_space
from sureact.errors import CheckpointError, DiskSpaceError


def test_too_small_a_disk_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(DiskSpaceError, match=r"needs 1000000000\.0 GB .* has [\d.]+ GB free"):
        require_disk_space(tmp_path, 10**18, purpose="Pulling m")


def test_a_disk_with_room_is_accepted(tmp_path: Path) -> None:
    require_disk_space(tmp_path, 1, purpose="Pulling m")


def test_a_disk_that_filled_up_is_told_from_other_errors(tmp_path: Path) -> None:
    other = CheckpointError("other")
    full = disk_error(OSError(errno.ENOSPC, "full"), tmp_path / "not" / "there", other)
    assert isinstance(full, DiskSpaceError)
    assert re.search(r"[\d.]+ GB free", str(full))
    assert disk_error(OSError(errno.EACCES, "denied"), tmp_path, other) is other
