"""The folder on this disk that holds models and run traces. Knows nothing of where models come from."""

import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sureact.catalog.disk_space import disk_error
from sureact.errors import ConfigError, ModelNotFoundError, PullError, SureactError
from sureact.home import home_folder

_PARTIAL_SUFFIX = ".partial"
_NAME_PATTERN = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A complete model in the store."""

    name: str
    path: Path
    size_bytes: int


class ModelStore:
    """Models by name, complete or being fetched, and the folder of run traces.

    Nothing is created on disk before it is needed. What the system refuses below `root` is a ConfigError that names
    the folder and SUREACT_HOME, or a DiskSpaceError.

    Args:
        root: the store; None takes `home_folder()`.
    """

    def __init__(self, root: Path | None = None) -> None:
        root = root or home_folder()
        try:
            self.root = root.expanduser().absolute()
        except RuntimeError as error:
            raise ConfigError(f"The store is {str(root)!r}: {error} Point SUREACT_HOME to a folder.") from error

    @property
    def runs_folder(self) -> Path:
        """Where traces of runs go when no file was named; created on first use."""
        folder = self.root / "runs"
        with self._disk_access():
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def path_of(self, name: str) -> Path:
        """Return where the model of that name lies once it is complete.

        Raises:
            ConfigError: the name cannot be a model's name.
        """
        # "--" stands for the slash on disk, and the suffix marks half a model: neither may come from a name.
        if not _NAME_PATTERN.fullmatch(name) or "--" in name or name.endswith(_PARTIAL_SUFFIX):
            raise ConfigError(
                f"{name!r} is not a model name; names are letters, digits, '.', '_' and '-', "
                "with one '/' between organization and model."
            )
        return self.root / "models" / name.replace("/", "--")

    def partial_path_of(self, name: str) -> Path:
        """Return where the files of a model are gathered until it is complete."""
        path = self.path_of(name)
        return path.with_name(path.name + _PARTIAL_SUFFIX)

    def create_partial(self, name: str) -> Path:
        """Return `partial_path_of(name)` as a folder that exists; what lies in it stays."""
        path = self.partial_path_of(name)
        with self._disk_access():
            path.mkdir(parents=True, exist_ok=True)
        return path

    def has(self, name: str) -> bool:
        """Tell whether the model is complete on this disk."""
        # os.path, which says no where the system refuses to look: nothing there can be loaded.
        return os.path.isdir(self.path_of(name))

    def is_partial(self, name: str) -> bool:
        """Tell whether a pull of the model began and did not finish."""
        return not self.has(name) and os.path.isdir(self.partial_path_of(name))

    def models(self) -> list[StoredModel]:
        """List the complete models by name, with what they take on disk."""
        folder = self.root / "models"
        if not folder.is_dir():
            return []
        with self._disk_access():
            paths = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
            complete = (path for path in paths if not path.name.endswith(_PARTIAL_SUFFIX))
            return [StoredModel(path.name.replace("--", "/"), path, _size_of(path)) for path in sorted(complete)]

    def install(self, name: str, folder: Path) -> Path:
        """Make a finished folder of the same disk the model of that name, in one step, and drop the partial state.

        A model already there is replaced.
        """
        path = self.path_of(name)
        with self._disk_access():
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                shutil.rmtree(path)
            folder.rename(path)
        shutil.rmtree(self.partial_path_of(name), ignore_errors=True)
        return path

    def remove(self, name: str) -> int:
        """Delete a model, complete or partial, and return the bytes that were freed.

        Raises:
            ModelNotFoundError: nothing of that name is on disk.
            PullError: the model is being pulled right now.
        """
        paths = [path for path in (self.path_of(name), self.partial_path_of(name)) if os.path.isdir(path)]
        if not paths:
            raise ModelNotFoundError(f"{name!r} is not on this disk; `sureact models` lists what is.")
        with self.lock(name), self._disk_access():
            freed_bytes = sum(_size_of(path) for path in paths)
            for path in paths:
                shutil.rmtree(path)
        return freed_bytes

    @contextmanager
    def lock(self, name: str, *, wait: bool = False) -> Generator[None]:
        """Hold a model against other processes.

        Raises:
            PullError: another process holds it, and `wait` is off.
        """
        from filelock import FileLock, Timeout

        folder = self.root / "models" / ".locks"
        lock = FileLock(folder / f"{self.path_of(name).name}.lock", timeout=-1 if wait else 0)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise PullError(
                f"Another process is at work on {name!r}; wait until it is done, then try again."
            ) from error
        except OSError as error:
            raise self._refusal(error) from error
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _disk_access(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: OSError) -> SureactError:
        refused = ConfigError(
            f"The store {self.root} cannot be used: {error}. Point SUREACT_HOME to a folder that you may write to."
        )
        return disk_error(error, self.root, refused)


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
