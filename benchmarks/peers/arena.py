"""Where our engine and a peer meet on a row: each in a process of its own, taking turns."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from benchmarks.peers.comparison import compare
from benchmarks.peers.gguf_file import fetch_gguf, find_gguf
from benchmarks.peers.llama_cpp_peer import LlamaCppPeer
from benchmarks.peers.process import ContestantProcess, PeerError
from benchmarks.peers.prompts import Prompts
from benchmarks.peers.rows import OWN_PEERS
from benchmarks.peers.transformers_peer import TransformersPeer

from sureact.catalog.resolve import model_folder, resolve_model
from sureact.catalog.store import ModelStore
from sureact.errors import SureactError
from sureact.execution.settings import num_physical_cores
from sureact.tokens.tokenizer import Tokenizer
from sureact.weights.gguf_conversion import convert_gguf
from sureact.weights.model_config import read_model_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.peers.contestant import Contestant
    from benchmarks.peers.engine_settings import EngineSettings
    from benchmarks.peers.rows import Amounts, PeerName, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """A model in the forms that the engines read."""

    name: str
    """As `sureact --model`."""
    gguf: Path | None = None
    """None looks for the file that was fetched earlier."""
    fetches_gguf: bool = False
    """Whether a GGUF file that is not there is got from the network."""


class Arena:
    """Measures rows.

    Args:
        small: the model of most rows.
        large: the model of the others.
        schemas: where the tool calls come from; None for our own.
        amounts: how much is measured.
        num_threads: of everybody; None takes one per physical core.
    """

    def __init__(
        self,
        small: ModelFiles,
        large: ModelFiles,
        *,
        schemas: Path | None,
        amounts: Amounts,
        num_threads: int | None = None,
    ) -> None:
        self.num_threads = num_threads or num_physical_cores()
        self._small = small
        self._large = large
        self._amounts = amounts
        self._store = ModelStore()
        self._prompts = cache(partial(self._new_prompts, schemas))

    def measure(self, row: Row, peer: PeerName) -> dict[str, object]:
        """Measure a row against a peer; what is missing leaves figures null and gives a reason."""
        model = self._large if row.is_large else self._small
        amounts = self._amounts.of_peer(peer)
        with ExitStack() as stack:
            theirs, reason = None, None
            try:
                folder = self._folder(model)
                ours = _started(stack, partial(_make_sureact, str(folder), row.settings, self.num_threads))
                if peer in OWN_PEERS:
                    theirs = ours
                else:
                    theirs, reason = self._started_peer(stack, peer, model, folder)
                figures = compare(ours, theirs, row.works(self._prompts(folder), amounts), row.unit)
                if theirs is not None and figures["ratio"] is None:
                    reason = "all of the work was refused"
            except (SureactError, PeerError) as error:
                figures = {"ours": None, "theirs": None, "unit": row.unit, "ratio": None}
                reason = str(error)
        return {"row": row.name, "peer": peer, **figures, **({"reason": reason} if reason else {})}

    def _started_peer(
        self, stack: ExitStack, peer: PeerName, model: ModelFiles, folder: Path
    ) -> tuple[ContestantProcess | None, str | None]:
        """Return the peer, or why there is none."""
        if peer != "llama.cpp":
            make = partial(TransformersPeer, folder, self.num_threads)
        else:
            gguf = self._gguf(model)
            if gguf is None:
                return None, f"no GGUF file of {model.name}: give it with --gguf or --large-gguf, or say --fetch-gguf"
            make = partial(LlamaCppPeer, gguf, self.num_threads)
        try:
            return _started(stack, make), None
        except PeerError as error:
            return None, str(error)

    def _folder(self, model: ModelFiles) -> Path:
        return model_folder(resolve_model(model.name, self._store), self._store, convert=convert_gguf)

    def _gguf(self, model: ModelFiles) -> Path | None:
        found = find_gguf(model.name, self._store, model.gguf)
        return fetch_gguf(model.name, self._store) if found is None and model.fetches_gguf else found

    @staticmethod
    def _new_prompts(schemas: Path | None, folder: Path) -> Prompts:
        return Prompts(Tokenizer(folder, num_logits=read_model_config(folder).vocab_size), schemas)


def _started(stack: ExitStack, make: Callable[[], Contestant]) -> ContestantProcess:
    return stack.enter_context(closing(ContestantProcess(make)))


def _make_sureact(folder: str, settings: EngineSettings, num_threads: int) -> Contestant:
    from benchmarks.peers.sureact_contestant import SureactContestant

    return SureactContestant(folder, settings, num_threads)
