"""The verbs that an engine has wherever it computes: what needs its tokenizer alone, and what stands on others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, overload

from typing_extensions import TypeIs

from sureact.errors import ConfigError
from sureact.tokens.chat_template import Message, PromptText
from sureact.tokens.prompt_encoder import Prompt, PromptEncoder

if TYPE_CHECKING:
    from sureact.config import ResolvedConfig
    from sureact.outputs import RequestOutput
    from sureact.sampling_params import SamplingParams
    from sureact.tokens.tokenizer import Tokenizer
    from sureact.tokens.vocabulary import Vocabulary

Prompts = list[str] | list[list[int]] | list[PromptText]
"""Several of them."""


class EngineVerbs(ABC):
    """What `Engine` and `EngineProcess` have in common."""

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer) -> None:
        """Take what was loaded."""
        self.config = config
        self._tokenizer = tokenizer
        self._encoder = PromptEncoder(tokenizer, config.model_name)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.config.model_name

    @property
    def context_len(self) -> int:
        """Most tokens a context can hold, generated ones included."""
        return self.config.max_model_len

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's token ids."""
        return self._tokenizer.vocabulary

    @property
    def has_chat_template(self) -> bool:
        """Whether the model says how a chat is written."""
        return self._tokenizer.chat_template is not None

    @overload
    def generate(
        self,
        prompt: Prompts,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> list[RequestOutput]: ...

    @overload
    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> RequestOutput: ...

    def generate(
        self,
        prompt: Prompt | Prompts,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> RequestOutput | list[RequestOutput]:
        """Generate after one prompt, or after each of a list of them, which are computed together.

        Args:
            prompt: a prompt, or a list of prompts.
            params: how to pick tokens; greedy by default.
            constraint: a `Constraint`, a Python type or an outlines type that the text must match, or None.
            parse_control_tokens: whether `<|im_end|>` and the like in a text become control tokens.
            cache_salt: prompts share cached beginnings only with those of the same salt, and with declared public
                prefixes, so that timing tells nothing of another's prompts.

        Raises:
            ConfigError: a prompt is empty.
            PromptTooLongError: a prompt and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled, or the model cannot go on under it.
        """
        if is_list_of_prompts(prompt):
            prompts = [self.encode_prompt(item, parse_control_tokens) for item in prompt]
            return self._generate_all(prompts, params, constraint, cache_salt)
        return self._generate_all([self.encode_prompt(prompt, parse_control_tokens)], params, constraint, cache_salt)[0]

    def chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        cache_salt: str | None = None,
    ) -> RequestOutput:
        """Generate the assistant's next message with the model's chat template."""
        return self._generate_all([self.encode(self.render_chat(messages))], params, constraint, cache_salt)[0]

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
        variables: Mapping[str, object] | None = None,
    ) -> PromptText:
        """Render messages with the model's chat template; contents stay text whatever they hold.

        `variables` are further ones that the template knows, such as `enable_thinking`.

        Raises:
            ConfigError: the model has no chat template, or the template refuses the messages.
        """
        template = self._tokenizer.chat_template
        if template is None:
            raise ConfigError(f"{self.name} has no chat template. Use generate with a prompt of your own.")
        return template.render(messages, tools, add_generation_prompt, variables)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids; control tokens have none."""
        return self._tokenizer.decode(token_ids)

    def encode(self, text: Prompt, *, parse_control_tokens: bool = False) -> list[int]:
        """Token ids of a prompt or of a piece of one.

        Raises:
            ConfigError: a text ends in a blank, or an id is not in the vocabulary.
        """
        return self._encoder.encode(text, parse_control_tokens=parse_control_tokens)

    def encode_prompt(self, prompt: Prompt, parse_control_tokens: bool) -> list[int]:
        """Token ids of a whole prompt, which must not be empty."""
        return self._encoder.encode_whole(prompt, parse_control_tokens=parse_control_tokens)

    @abstractmethod
    def close(self) -> None:
        """End all requests and give the memory back."""

    def __enter__(self) -> Self:
        """Enter a `with` block that closes the engine."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.close()

    @abstractmethod
    def _generate_all(
        self, prompts: list[list[int]], params: SamplingParams | None, constraint: object, cache_salt: str | None
    ) -> list[RequestOutput]:
        """Start every completion of every prompt at once, then collect them in order."""


def is_list_of_prompts(prompt: Prompt | Prompts) -> TypeIs[Prompts]:
    """Tell a list of prompts from a single prompt, which may be a list of token ids."""
    return isinstance(prompt, list) and not all(isinstance(item, int) for item in prompt)
