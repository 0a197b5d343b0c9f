"""A language model that says what it is told to: for tests of agents, tools and prompts without a real one.

Its tokens are bytes and a few control tokens. A scripted text that a constraint does not allow is an error, so a test
also checks what decoding would let through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from sureact.errors import ConstraintStateError, PromptTooLongError, SessionError
from sureact.outputs import FinishReason, StepLogprobs, StepOutput, StreamDelta, TokenLogprob, TokenUsage
from sureact.tokens.chat_template import Message, PromptText, TextSpan
from sureact.tokens.vocabulary import Vocabulary, read_vocabulary

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint
    from sureact.sampling_params import SamplingParams

CONTROL_TOKENS = ("<|im_end|>", "<|im_start|>", "<tool_call>", "</tool_call>", "<think>", "</think>")
"""Their ids follow the 256 bytes, in this order; the first ends a text."""

_END_ID = 256
_CONTROL_PATTERN = re.compile("|".join(map(re.escape, CONTROL_TOKENS)))


class ScriptedModel:
    """A `LanguageModel` that generates the given texts, one per generation.

    A text in the script ends its generation as an end-of-sequence token would, unless a stop or the token budget comes
    first. An exception in the script is raised instead. Where log-probabilities are asked for, it was certain of all.
    """

    name = "scripted"

    def __init__(self, script: Iterable[str | BaseException], *, context_len: int = 100_000) -> None:
        """Take the texts to say.

        Args:
            script: what each generation gives; control tokens in it are control tokens.
            context_len: most tokens (bytes) of a session.
        """
        self.script: Sequence[str | BaseException] = list(script)
        """The texts still to say."""
        self.context_len = context_len
        self.sessions: list[ScriptedSession] = []
        """Every session that was opened, in order."""

    def session(self) -> ScriptedSession:
        """Open an empty session."""
        self.sessions.append(ScriptedSession(self))
        return self.sessions[-1]

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
    ) -> PromptText:
        """Render messages between `<|im_start|>role` and `<|im_end|>`, tools as JSON in a first message."""
        rendered = [("system", str(tools))] if tools else []
        rendered += [(message["role"], message["content"]) for message in messages]
        spans: list[TextSpan] = []
        for role, content in rendered:
            spans += [
                TextSpan(f"<|im_start|>{role}\n", is_control=True),
                TextSpan(content, is_control=False),
                TextSpan("<|im_end|>\n", is_control=True),
            ]
        if add_generation_prompt:
            spans.append(TextSpan("<|im_start|>assistant\n", is_control=True))
        return PromptText(tuple(spans))

    def count_tokens(self, text: str) -> int:
        """Bytes of a text."""
        return len(text.encode())


class ScriptedSession:
    """A `LanguageModelSession` of a `ScriptedModel`."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model
        self.token_ids: list[int] = []
        self.num_cached_tokens = 0
        self.is_closed = False

    @property
    def text(self) -> str:
        """The context as text, control tokens spelled out."""
        return decode(self.token_ids)

    def append(self, text: str | Sequence[int] | PromptText, *, parse_control_tokens: bool = False) -> int:
        """Add to the context; return the number of tokens added."""
        ids = _token_ids(text, parse_control_tokens)
        self._require_open()
        if isinstance(text, str) and text.endswith(" "):
            raise SessionError(f"The text {text!r} ends in a space; a model would join that to its next token.")
        if len(self.token_ids) + len(ids) > self._model.context_len:
            raise PromptTooLongError(f"{len(self.token_ids) + len(ids)} tokens; at most {self._model.context_len}.")
        self.token_ids += ids
        return len(ids)

    def generate(self, params: SamplingParams, constraint: Constraint | None = None) -> StepOutput:
        """Say the next text of the script."""
        self._require_open()
        ids, finish_reason, stop_reason = _cut(encode(self._next_text()), params)
        if constraint is not None:
            finish_reason = self._judge(ids, constraint, finish_reason)
        usage = TokenUsage(
            prompt_tokens=len(self.token_ids), cached_tokens=self.num_cached_tokens, completion_tokens=len(ids)
        )
        self.token_ids += ids
        self.num_cached_tokens = len(self.token_ids)
        return StepOutput(
            text=_visible(ids),
            token_ids=tuple(ids),
            finish_reason=finish_reason,
            stop_reason=stop_reason,
            usage=usage,
            logprobs=None if params.logprobs is None else tuple(map(_certain, ids or [_END_ID])),
        )

    def stream(self, params: SamplingParams, constraint: Constraint | None = None) -> Iterator[StreamDelta]:
        """Say the next text of the script a few characters at a time."""
        output = self.generate(params, constraint)
        for start in range(0, len(output.text), 7):
            yield StreamDelta(text=output.text[start : start + 7])
        yield StreamDelta(text="", output=output)

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens."""
        self._require_open()
        del self.token_ids[num_tokens:]
        self.num_cached_tokens = min(self.num_cached_tokens, num_tokens)

    def close(self) -> None:
        """End the session."""
        self.is_closed = True

    def _require_open(self) -> None:
        if self.is_closed:
            raise SessionError("The session is closed; open another one.")

    def _next_text(self) -> str:
        if not self._model.script:
            raise SessionError("The script is used up, but another text was asked for.")
        item, *self._model.script = self._model.script
        if isinstance(item, BaseException):
            raise item
        return item

    def _judge(self, ids: list[int], constraint: Constraint, finish_reason: FinishReason) -> FinishReason:
        state = constraint.compile(byte_vocabulary()).new_state()
        for index, token_id in enumerate(ids):
            if not state.check_token(token_id):
                raise ConstraintStateError(f"After {decode(ids[:index])!r}, {decode([token_id])!r} is not allowed.")
            state.accept_token(token_id)
        if not state.is_accepting and finish_reason != "length":
            raise ConstraintStateError(f"{decode(ids)!r} is allowed, but cannot end there.")
        return finish_reason


@lru_cache
def byte_vocabulary() -> Vocabulary:
    """Return the vocabulary of a `ScriptedModel`: the 256 bytes, each with its value as id, and the control tokens."""
    control = [{"id": 256 + index, "content": token, "special": True} for index, token in enumerate(CONTROL_TOKENS)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [token | flags for token in control],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": _byte_characters(), "merges": []},
    }
    return read_vocabulary(json.dumps(tokenizer), num_logits=256 + len(CONTROL_TOKENS), eos_ids=(256,))


def _byte_characters() -> dict[str, int]:
    """Return the character that byte-level BPE writes for each byte: itself if it prints, else one beyond 255."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte if byte in printable else 256 + others.index(byte)): byte for byte in range(256)}


def encode(text: str) -> list[int]:
    """Return the ids of a text whose control tokens count."""
    ids: list[int] = []
    position = 0
    for match in _CONTROL_PATTERN.finditer(text):
        ids += [*text[position : match.start()].encode(), 256 + CONTROL_TOKENS.index(match[0])]
        position = match.end()
    return [*ids, *text[position:].encode()]


def decode(ids: Sequence[int]) -> str:
    """Return the text of ids, control tokens spelled out."""
    parts = [bytes([token_id]) if token_id < 256 else CONTROL_TOKENS[token_id - 256].encode() for token_id in ids]
    return b"".join(parts).decode(errors="replace")


def _certain(token_id: int) -> StepLogprobs:
    picked = TokenLogprob(token_id, 0.0)
    return StepLogprobs(picked, (picked,))


def _visible(ids: Sequence[int]) -> str:
    return bytes(token_id for token_id in ids if token_id < 256).decode(errors="replace")


def _token_ids(text: str | Sequence[int] | PromptText, parse_control_tokens: bool) -> list[int]:
    if isinstance(text, PromptText):
        return [id_ for span in text.spans for id_ in (encode(span.text) if span.is_control else span.text.encode())]
    if isinstance(text, str):
        return encode(text) if parse_control_tokens else list(text.encode())
    return list(text)


def _cut(ids: list[int], params: SamplingParams) -> tuple[list[int], FinishReason, str | tuple[int, ...] | None]:
    """Cut at the stop that ends first, or at the token budget."""
    stops = [(stop, list(stop.encode())) for stop in params.stop_texts]
    stops += [(stop, list(stop)) for stop in params.stop_token_ids]
    for end in range(1, min(len(ids), params.max_tokens) + 1):
        for stop, stop_ids in stops:
            if ids[:end][-len(stop_ids) :] == stop_ids:
                return (ids[:end] if params.include_stop else ids[: end - len(stop_ids)]), "stop", stop
    if len(ids) > params.max_tokens:
        return ids[: params.max_tokens], "length", None
    return ids, "stop", None
