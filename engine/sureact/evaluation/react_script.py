"""An agent's run whose observations are scripted, so that every engine takes the same turns with the same tools."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sureact.evaluation.tool_calls import own_tools
from sureact.outputs import StepTimings

if TYPE_CHECKING:
    from sureact.tokens.chat_template import Message

NUM_TURNS = 6
THOUGHT_LEN = 40
MAX_JSON_LEN = 96
"""Most tokens of a call, and of the answer."""

_SYSTEM = """You are the assistant of a mail-order shop. You answer questions of the staff with the tools below.
Work step by step. In each step write one thought: what is known, what is missing, and which tool tells it. Then call
one tool with arguments that you have seen in the question or in an observation; never make up a number. You are shown
what the tool observed, and go on with the next step. When everything is known you are asked for the answer.
Amounts are in euros. Orders that are older than 30 days cannot be returned. Express shipments leave on the same day if
they are ordered before noon, others within two working days. The warehouse in the north holds books and paper, the one
in the south tools and paint, the one in the west everything for the kitchen.

Tools, each with the JSON schema of its arguments:
{tools}

A call is one JSON object with the keys "name" and "arguments"."""

_ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer"},
        "express_possible": {"type": "boolean"},
        "total_euros": {"type": "number"},
        "summary": {"type": "string"},
    },
    "required": ["order_id", "express_possible", "total_euros", "summary"],
    "additionalProperties": False,
}

_NAMES = ("Amelie Brandt", "Bruno Castelli", "Clara Dahlberg", "David Eriksen", "Elena Fontana", "Felix Gruber")
_CITIES = ("Bergen", "Coimbra", "Dresden", "Girona", "Leiden", "Trieste")
_ARTICLES = ("copper kettle", "oak drawer", "linen notebook", "brass lamp", "steel whisk", "garden hose")
_NUM_RUN_TOOLS = 6


@dataclass(frozen=True, slots=True)
class ReactScript:
    """What a run is made of, but for what the model says."""

    messages: tuple[Message, ...]
    observations: tuple[str, ...]
    """One per turn."""
    call_schema: str
    """JSON schema of a call, as JSON text."""
    answer_schema: str
    thought_len: int = THOUGHT_LEN
    """Tokens of each thought: exactly as many, whatever the model would stop at."""
    max_json_len: int = MAX_JSON_LEN


@dataclass(frozen=True, slots=True)
class Generated:
    """A piece of text that a model added to a context."""

    text: str
    num_tokens: int
    """Tokens that were generated, an end-of-sequence token included."""
    is_complete: bool
    """Whether it ended before its budget."""
    timings: StepTimings = field(default_factory=StepTimings)


class AgentContext(Protocol):
    """A context of some engine; it begins with the messages of the script."""

    def append(self, text: str) -> None:
        """Add text to the end."""
        ...

    def think(self, num_tokens: int) -> Generated:
        """Generate exactly as many tokens, end-of-sequence tokens like any other."""
        ...

    def write_json(self, schema: str, max_tokens: int) -> Generated:
        """Generate JSON that is valid under a schema."""
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """A thought and a call, or the answer."""

    seconds: float
    """By the clock."""
    pieces: tuple[Generated, ...]

    @property
    def timings(self) -> StepTimings:
        """Where the time of the engine went."""
        return StepTimings(
            prefill_s=sum(piece.timings.prefill_s for piece in self.pieces),
            decode_s=sum(piece.timings.decode_s for piece in self.pieces),
            mask_s=sum(piece.timings.mask_s for piece in self.pieces),
        )


@dataclass(frozen=True, slots=True)
class ReactRun:
    """A run that was played."""

    turns: tuple[Turn, ...]
    """One per observation, and the answer."""

    @property
    def seconds(self) -> float:
        """The whole run by the clock."""
        return sum(turn.seconds for turn in self.turns)

    @property
    def num_tokens(self) -> int:
        """Tokens generated."""
        return sum(piece.num_tokens for turn in self.turns for piece in turn.pieces)

    @property
    def num_unfinished(self) -> int:
        """Calls and answers that did not end within their budget."""
        return sum(not turn.pieces[-1].is_complete for turn in self.turns)


def react_script(seed: int, *, num_turns: int = NUM_TURNS) -> ReactScript:
    """Return a run about another customer and another order for every seed; its system message is always the same."""
    tools = own_tools()[:_NUM_RUN_TOOLS]
    draw = random.Random(f"script {seed}")  # of a number, it would take the absolute value
    name, city, article = draw.choice(_NAMES), draw.choice(_CITIES), draw.choice(_ARTICLES)
    order_id = draw.randrange(10_000, 100_000)
    question = (
        f"{name} from {city} asks about order {order_id}: can the {article} be sent by express this week, what would "
        "the whole order cost then, and is there a second one in stock?"
    )
    shown = "\n".join(json.dumps(tool) for tool in tools)
    return ReactScript(
        messages=(
            {"role": "system", "content": _SYSTEM.format(tools=shown)},
            {"role": "user", "content": question},
        ),
        observations=tuple(_observation(turn, draw, name, city, article, order_id) for turn in range(num_turns)),
        call_schema=json.dumps({"anyOf": [_call_schema(tool) for tool in tools]}),
        answer_schema=json.dumps(_ANSWER_SCHEMA),
    )


def play(script: ReactScript, context: AgentContext) -> ReactRun:
    """Take every turn of a script on a context that holds its messages."""
    turns: list[Turn] = []
    for observation in script.observations:
        start = time.perf_counter()
        context.append("Thought:")
        thought = context.think(script.thought_len)
        context.append("\nCall:\n")
        call = context.write_json(script.call_schema, script.max_json_len)
        context.append(f"\nObservation: {observation}\n")
        turns.append(Turn(time.perf_counter() - start, (thought, call)))
    start = time.perf_counter()
    context.append("Answer as one JSON object:\n")
    answer = context.write_json(script.answer_schema, script.max_json_len)
    return ReactRun((*turns, Turn(time.perf_counter() - start, (answer,))))


def _call_schema(tool: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "name": {"const": tool["name"]},
            "arguments": {**tool["parameters"], "additionalProperties": False},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _observation(turn: int, draw: random.Random, name: str, city: str, article: str, order_id: int) -> str:
    """Return what a tool observed, about 60 tokens."""
    customer_id, pieces, euros = draw.randrange(1000, 9999), draw.randrange(1, 40), draw.randrange(900, 9900) / 100
    texts = (
        f"customer {customer_id}: {name}, {city}, since 20{draw.randrange(10, 24)}; 2 open orders, the newest is "
        f"{order_id}; pays by invoice, no reminders; last contact by phone on March {draw.randrange(1, 28)}.",
        f"order {order_id} of customer {customer_id}: 1 {article} at {euros:.2f}, {pieces} paper bags at 0.20; status "
        f"open; ordered on March {draw.randrange(1, 28)}; warehouse west; weight {draw.randrange(1, 9)} kg.",
        f"article {article}: {pieces} pieces in the west, {draw.randrange(9)} in the north, none in the south; the "
        f"next delivery of {draw.randrange(10, 90)} pieces is due in {draw.randrange(2, 9)} days.",
        f"shipping of order {order_id}: standard {draw.randrange(300, 700) / 100:.2f}, 3 days; express "
        f"{draw.randrange(900, 1900) / 100:.2f}, 1 day, if ordered before noon; both insured up to 500 euros.",
        f"the expression gives {euros + pieces:.2f}; rounded to cents, without tax; with tax of 19 percent it gives "
        f"{(euros + pieces) * 1.19:.2f}; intermediate results are {euros:.2f} and {pieces}.00.",
        f"customer {customer_id} has a voucher of {draw.randrange(5, 30)}.00 that is valid until June "
        f"{draw.randrange(1, 30)} and may be used once, for order {order_id} or a later one of at least 20.00.",
    )
    return texts[turn % len(texts)]
