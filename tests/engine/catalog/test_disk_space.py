from pathlib import Path

import pytest

from sureact.catalog.disk_space import require_disk_space
from sureact.errors import DiskSpaceError


def test_too_small_a_disk_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(DiskSpaceError, match=r"needs 1000000000\.0 GB .* has [\d.]+ GB free"):
        require_disk_space(tmp_path, 10**18, purpose="Pulling m")


def test_a_disk_with_room_is_accepted(tmp_path: Path) -> None:
    require_disk_space(tmp_path, 1, purpose="Pulling m")
