"""A model that has a real tokenizer and chat template but generates nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sureact.agent.prompt_format import PromptFormat, plain_text
from sureact.agent.scripted_model import ScriptedModel
from sureact.tokens.chat_template import Message, PromptText
from sureact.tokens.tokenizer import Tokenizer


class TokenizingModel(ScriptedModel):
    """Renders chats and tokenizes as the real model does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__([])
        self.tokenizer = tokenizer

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
    ) -> PromptText:
        assert self.tokenizer.chat_template is not None
        return self.tokenizer.chat_template.render(messages, tools=tools, add_generation_prompt=add_generation_prompt)

    def check_pieces(self, prompt_format: PromptFormat, thought: str, observation: str) -> None:
        """Check that ids built piece by piece, as a run builds them, are those of the whole text."""
        closed = prompt_format.closed_thought(prompt_format.thought_prefix + thought)
        step = [
            prompt_format.thought_start,
            plain_text(closed),
            prompt_format.call("search", '{"query": "a b", "k": 3}'),
            prompt_format.observation(observation),
        ]
        pieces = [prompt_format.opening({"question": "Who?"}), *step, *step, prompt_format.outputs_request()]
        pieces.append(plain_text('{"answer": 3}'))
        whole = pieces[0]
        for piece in pieces[1:]:
            whole += piece
        built = [token_id for piece in pieces for token_id in self.tokenizer.encode_prompt(piece)]
        assert built == self.tokenizer.encode_prompt(whole)


@pytest.fixture(scope="session")
def tokenizing_model(model_folder: Path) -> TokenizingModel:
    """The real 0.5B model's tokenizer and chat template."""
    return TokenizingModel(Tokenizer(model_folder, num_logits=151_936))
