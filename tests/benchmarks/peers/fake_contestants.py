"""Contestants for tests: they are quick, and other processes can import them."""

import os
import time
from typing import ClassVar

from benchmarks.peers.contestant import Contestant, GeneratedIds, IdContestant, SchemaRefusedError, WrittenJson
from benchmarks.peers.work import Prefill

from sureact.evaluation.react_script import ReactRun, ReactScript
from sureact.outputs import StepTimings

EOS = 0


class ByteContestant(IdContestant):
    """Its ids are bytes; it thinks in dots and writes `{}` under every schema but `"hard"`."""

    def __init__(self) -> None:
        self.prompts: list[bytes] = []

    def generate(self, prompt: list[int], max_tokens: int, *, schema: str | None = None) -> GeneratedIds:
        self.prompts.append(bytes(prompt))
        timings = StepTimings(prefill_s=0.25, decode_s=0.5)
        if schema is None:
            return GeneratedIds([*b"."] * max_tokens, False, timings)
        self.compile_schema(schema)
        written = [*b"{}", EOS][:max_tokens]
        return GeneratedIds(written, written[-1] == EOS, timings)

    def compile_schema(self, schema: str) -> None:
        if schema == '"hard"':
            raise SchemaRefusedError("too hard")

    def ids_of(self, text: str) -> list[int]:
        return [*text.encode()]

    def text_of(self, token_ids: list[int]) -> str:
        return bytes(token_id for token_id in token_ids if token_id != EOS).decode()


class ClumsyContestant(Contestant):
    """Crashes when it decodes, sleeps when it reads a prompt, fails when it plays."""

    def decode_seconds(self, prompt: list[int], num_tokens: int) -> float:
        if num_tokens == 1:
            return 1.0
        os._exit(3)

    def prefill_seconds(self, prompt: list[int]) -> float:
        time.sleep(60)
        return 0.0

    def write_json(self, prompt: list[int], schema: str, max_tokens: int) -> WrittenJson:
        raise MemoryError("no room")

    def play(self, script: ReactScript, opening: list[int]) -> ReactRun:
        raise NotImplementedError


class Impatient(Prefill):
    """Work that nobody waits for."""

    time_limit_s: ClassVar[float] = 0.5


def make_missing() -> Contestant:
    raise ModuleNotFoundError("No module named 'clumsy'")


def make_broken() -> Contestant:
    raise ValueError("broken file")


def make_crashing() -> Contestant:
    os._exit(3)
