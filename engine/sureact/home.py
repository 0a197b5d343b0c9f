"""The folder in which sureact keeps models, traces of runs, and what is slow to make anew."""

import os
from pathlib import Path


def home_folder() -> Path:
    """Return `SUREACT_HOME`, else `sureact` in `XDG_CACHE_HOME`, else `~/.cache/sureact`; it may not exist."""
    home = os.environ.get("SUREACT_HOME")
    if home:
        return Path(home)
    # The XDG rules say that a relative path counts as unset.
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "sureact"
