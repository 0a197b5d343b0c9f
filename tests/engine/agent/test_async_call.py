import asyncio
import contextvars
import threading
from collections.abc import Callable

import pytest

from sureact.agent.async_call import call_on_thread
from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import cancelled_by, current_cancellation
from sureact.agent.react import ReAct
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel

NAME = contextvars.ContextVar("name", default="nobody")


def test_the_loop_turns_while_the_call_blocks():
    async def main() -> str:
        begun, may_end = threading.Event(), threading.Event()

        def work() -> str:
            begun.set()
            assert may_end.wait(30)
            return NAME.get()

        NAME.set("caller")
        task = asyncio.create_task(call_on_thread(work))
        while not begun.is_set():
            await asyncio.sleep(0)
        may_end.set()
        return await task

    assert asyncio.run(main()) == "caller"


@pytest.mark.parametrize(
    ("raised", "seen"), [(ValueError, ValueError), (SystemExit, SystemExit), (StopIteration, RuntimeError)]
)
def test_what_the_call_raises_is_raised(raised: type[BaseException], seen: type[BaseException]):
    def work() -> None:
        raise raised("x")

    async def main() -> None:
        with pytest.raises(seen):
            await call_on_thread(work)

    asyncio.run(main())


def test_cancelling_the_task_cancels_what_the_call_opened_and_waits_for_nothing():
    cancelled, may_end = threading.Event(), threading.Event()

    def work() -> None:
        cancellation = current_cancellation()
        assert cancellation is not None
        cancellation.add_callback(cancelled.set)
        may_end.wait(30)

    async def main() -> None:
        task = asyncio.create_task(call_on_thread(work))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert cancelled.wait(30)
    may_end.set()


def test_a_cancellation_around_reaches_the_call():
    outer = Cancellation()

    def work() -> bool:
        outer.cancel()
        inner = current_cancellation()
        return inner is not None and inner is not outer and inner.is_cancelled

    async def main() -> bool:
        with cancelled_by(outer):
            return await call_on_thread(work)

    assert asyncio.run(main())


def agents(tool: Callable[[], str]) -> list[ReAct | ReActV2]:
    fields = [" I wait.\n", "Action: wait\nArguments: {}\n"]
    history = ["I wait.\n", '<tool_call>\n{"name": "wait", "arguments": {}}\n</tool_call>']
    return [
        ReAct("question -> answer", [tool], lm=ScriptedModel(fields), prompt_format="fields"),
        ReActV2("question -> answer", [tool], lm=ScriptedModel(history), max_calls=1),
    ]


@pytest.mark.parametrize("index", [0, 1])
def test_tools_are_given_up_with_the_call_if_that_is_asked_for(index: int):
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def wait() -> str:
        begun.set()
        assert may_end.wait(30)
        return "done"

    agent = agents(wait)[index]

    def work() -> None:
        try:
            agent(question="?")
        finally:
            ended.set()

    async def main() -> None:
        task = asyncio.create_task(call_on_thread(work, gives_up_tools=True))
        assert await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended.wait(10), "the agent waits for the tool"
    may_end.set()
