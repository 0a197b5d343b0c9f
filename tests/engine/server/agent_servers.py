"""Servers with tools for agents, over a model that says what a test tells it to, cut into pieces of any size."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tests.engine.server.conftest import Client
from typing_extensions import override

from sureact.agent.scripted_model import ScriptedModel, ScriptedSession
from sureact.async_engine import AsyncEngine
from sureact.outputs import StreamDelta
from sureact.server.agents import served_tools
from sureact.server.app import create_app
from sureact.server.server_config import ServerConfig

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint
    from sureact.engine import Engine
    from sureact.sampling_params import SamplingParams

PATH = "/v1/agents/run"
ANSWER = '{"reasoning": "So it is.", "answer": "42"}'


class SaltedScript(ScriptedModel):
    """A scripted model whose sessions know their salt, and whose texts come in pieces of random sizes."""

    def __init__(
        self, script: Iterable[str | BaseException], *, split: random.Random | None = None, context_len: int = 100_000
    ) -> None:
        super().__init__(script, context_len=context_len)
        self.split = split or random.Random(0)
        self.salts: list[str | None] = []

    @override
    def session(self, *, cache_salt: str | None = None) -> ScriptedSession:
        self.salts.append(cache_salt)
        self.sessions.append(_SplitSession(self, self.split))
        return self.sessions[-1]


class _SplitSession(ScriptedSession):
    def __init__(self, model: ScriptedModel, split: random.Random) -> None:
        super().__init__(model)
        self._split = split

    @override
    def stream(self, params: SamplingParams, constraint: Constraint | None = None) -> Iterator[StreamDelta]:
        output = self.generate(params, constraint)
        rest = output.text
        while rest:
            size = self._split.randint(1, 9)
            is_last = len(rest) <= size and self._split.random() < 0.5
            yield StreamDelta(text=rest[:size], output=output if is_last else None)
            if is_last:
                return
            rest = rest[size:]
        yield StreamDelta(text="", output=output)


def step(name: str, thought: str = "", **args: object) -> list[str]:
    """The two texts of a step in the format `fields`."""
    thought = thought or f" I use {name}."
    return [f"{thought}\n", f"Action: {name}\nArguments: {json.dumps(args, ensure_ascii=False)}\n"]


FINISH = [*step("finish"), ANSWER]


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


class EndlessScript(SaltedScript):
    """A scripted model that finishes run after run."""

    def __init__(self) -> None:
        super().__init__(())

    @override
    def session(self, *, cache_salt: str | None = None) -> ScriptedSession:
        self.script = FINISH * 100
        return super().session(cache_salt=cache_salt)


def give_tools(client: Client) -> None:
    """Let the server of a client run agents, which always finish at once."""
    serving = client.app.state.serving
    serving.tools, serving.lm = served_tools([add, fail], 60.0), EndlessScript()


class AgentClient(Client):
    """Asks a server with tools without a socket."""

    def __init__(self, engine: Engine, tools: Sequence[Callable[..., object]] = (add, fail), **options: Any) -> None:
        config = ServerConfig(served_model_name="tiny", **options)
        super().__init__(create_app(AsyncEngine.of(engine), config, tools))
        self.serving = self.app.state.serving

    def say(self, script: Iterable[str | BaseException], **options: Any) -> SaltedScript:
        """Say these texts from now on."""
        self.serving.lm = model = SaltedScript(script, **options)
        return model

    def ask(self, **fields: Any) -> dict[str, Any]:
        """Run an agent that must succeed."""
        response = self.post(PATH, {"question": "?", "format": "fields"} | fields)
        assert response.status_code == 200, response.text
        return response.json()

    def refusal(self, **fields: Any) -> dict[str, Any]:
        """The error of a request that must be refused, with its status."""
        response = self.post(PATH, {"question": "?", "format": "fields"} | fields)
        assert response.status_code >= 400, response.text
        return response.json()["error"] | {"status": response.status_code}
