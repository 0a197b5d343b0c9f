"""Tools with rich types: a pydantic model, a Literal, a default, and one that may give another result each time."""

from datetime import date
from typing import Literal

from pydantic import BaseModel, Field

from sureact import Engine, ReAct, Tool


class Stay(BaseModel):
    """A stay in a hotel."""

    arrival: date
    nights: int = Field(ge=1, le=30)


def book_room(stay: Stay, room: Literal["single", "double"], breakfast: bool = False) -> str:
    """Book a hotel room.

    Args:
        stay: when the guest comes and for how many nights
        room: size of the room
        breakfast: whether breakfast is wanted
    """
    extra = "with" if breakfast else "without"
    return f"Booked a {room} room {extra} breakfast for {stay.nights} nights: {stay.arrival:%m%d}-{stay.nights}."


def free_rooms() -> int:
    """Number of rooms that are free right now."""
    return 3


TOOLS = [book_room, Tool(free_rooms, repeatable=True)]


def main() -> None:
    """Book a room from one sentence."""
    engine = Engine("qwen2.5-coder-1.5b-instruct")
    agent = ReAct("request: str -> booking_number: str", TOOLS, lm=engine, on_event=print)
    print(agent(request="A double room from 14 March 2026, three nights, with breakfast, please.").booking_number)
    engine.close()


if __name__ == "__main__":
    main()
