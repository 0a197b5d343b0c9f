from collections.abc import Callable, Iterator

import pytest

from sureact.cli import chat
from sureact.cli.chat import Conversation
from sureact.engine import Engine
from sureact.errors import PromptTooLongError
from sureact.outputs import StreamDelta
from sureact.sampling_params import SamplingParams

Command = Callable[..., int]
PARAMS = SamplingParams(max_tokens=6)


@pytest.fixture
def type_lines(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that says what the user types; then the input ends."""

    def type_them(*lines: str) -> None:
        waiting = iter(lines)

        def read(prompt: str = "") -> str:
            try:
                return next(waiting)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", read)

    return type_them


def test_replies_go_to_standard_output_and_prompts_to_standard_error(
    on_tiny: Command, type_lines: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines("hello", "", "and then?", "/exit", "never read")
    assert on_tiny("chat", "--max-tokens", "4") == 0
    said = capsys.readouterr()
    assert "> " not in said.out
    assert said.out.endswith("\n")
    assert said.err.count("> ") == 4


def test_the_end_of_the_input_leaves(on_tiny: Command, type_lines: Callable[..., None]) -> None:
    type_lines()
    assert on_tiny("chat") == 0


def test_the_session_holds_what_the_template_would_render(tiny_engine: Engine) -> None:
    conversation = Conversation(tiny_engine, PARAMS, system="Be brief.")
    conversation.reply("hello")
    session = conversation.session
    opening = tiny_engine.render_chat(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    )
    opening_ids = tiny_engine.encode(opening)
    assert session.token_ids[: len(opening_ids)] == opening_ids
    before = list(session.token_ids)
    conversation.reply("more")
    tail = tiny_engine.encode(
        "<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n", parse_control_tokens=True
    )
    assert session.token_ids[: len(before) + len(tail)] == before + tail


def test_past_turns_are_not_computed_again(tiny_engine: Engine) -> None:
    conversation = Conversation(tiny_engine, PARAMS)
    conversation.reply("hello")
    num_tokens = len(conversation.session.token_ids)
    before = tiny_engine.stats()
    conversation.reply("more")
    after = tiny_engine.stats()
    # The last token of a generation is picked but not yet computed.
    assert after.cached_tokens - before.cached_tokens >= num_tokens - 1


def test_control_tokens_that_a_user_types_are_text(tiny_engine: Engine) -> None:
    conversation = Conversation(tiny_engine, PARAMS)
    conversation.reply("hello")
    before = len(conversation.session.token_ids)
    conversation.reply("<|im_end|>")
    control = tiny_engine.encode("<|im_end|>", parse_control_tokens=True)[0]
    assert conversation.session.token_ids[before:].count(control) == 2


def test_a_message_that_does_not_fit_leaves_the_conversation_as_it_was(tiny_engine: Engine) -> None:
    conversation = Conversation(tiny_engine, PARAMS)
    conversation.reply("hello")
    before = list(conversation.session.token_ids)
    with pytest.raises(PromptTooLongError):
        conversation.reply("x" * 1000)
    assert list(conversation.session.token_ids) == before


def test_a_message_that_does_not_fit_does_not_end_the_chat(
    on_tiny: Command, type_lines: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines("x" * 2000, "/new", "hi")
    assert on_tiny("chat", "--max-tokens", "4") == 0
    said = capsys.readouterr()
    assert "start over with /new" in said.err
    assert said.out


def test_ctrl_c_cancels_the_reply_and_not_the_chat(
    on_tiny: Command,
    type_lines: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies: list[str] = []
    reply = Conversation.reply

    def interrupted_once(self: Conversation, message: str) -> None:
        replies.append(message)
        if len(replies) == 1:
            monkeypatch.setattr(chat, "write_result", _interrupt_once(chat.write_result))
        reply(self, message)

    monkeypatch.setattr(Conversation, "reply", interrupted_once)
    type_lines("hello", "again")
    assert on_tiny("chat", "--max-tokens", "8", "--ignore-eos") == 0
    assert replies == ["hello", "again"]
    assert "(cancelled)" in capsys.readouterr().err


def _interrupt_once(write: Callable[..., None]) -> Callable[..., None]:
    interruptions: Iterator[bool] = iter([True])

    def interrupting(text: str, *, end: str = "\n") -> None:
        if next(interruptions, False):
            raise KeyboardInterrupt
        write(text, end=end)

    return interrupting


def test_deltas_are_written_as_they_come(tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write(text: str, *, end: str = "\n") -> None:
        written.append(text + end)

    def stream(params: SamplingParams) -> Iterator[StreamDelta]:
        yield StreamDelta(text="a")
        yield StreamDelta(text="b")

    monkeypatch.setattr(chat, "write_result", write)
    conversation = Conversation(tiny_engine, PARAMS)
    monkeypatch.setattr(conversation.session, "stream", stream)
    conversation.reply("hello")
    assert written == ["a", "b", "\n"]
