"""An `Engine` as a model of outlines, and outlines' templates with tools in them.

    model = from_engine(engine)
    outlines.Generator(model, Literal["yes", "no"])("Is the sky blue?")

outlines knows two kinds of local models, and asks first whether it may steer one, so there are two here:

- `from_engine`: the output type arrives as it was written and becomes a constraint of sureact. The one to use.
- `from_engine_steerable`: outlines compiles the type, or takes `processor=`, and its logits processor runs on the
  engine's logits. What that processor gets wrong stays wrong: `outlines_core` cannot spell some choices and lets
  control tokens into strings; the `xgrammar` backend of outlines 1.3 fails where the head is wider than the tokenizer.

As in outlines' other local models, a text is sent as the user's message where the model has a chat template; token ids
and what `Engine.render_chat` returns are taken as they are. The options of a call are the fields of `SamplingParams`.
What comes back is text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from outlines.inputs import Chat
from outlines.models.base import Model, ModelTypeAdapter
from outlines.models.transformers import Transformers, TransformerTokenizer
from outlines.models.vllm_offline import VLLMOffline
from outlines.templates import Template, create_jinja_env, get_schema

from sureact.agent.template_filters import FILTERS, tool_schema
from sureact.agent.tool import Tool
from sureact.constraints.python_type import TypedConstraint, constraint_of
from sureact.errors import ConfigError, ConstraintError, InternalError, OutputTruncatedError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.stream import DeltaStream

if TYPE_CHECKING:
    from os import PathLike

    from transformers import PreTrainedTokenizerFast

    from sureact.constraints.constraint import Constraint
    from sureact.engine import Engine
    from sureact.outputs import StepOutput
    from sureact.scheduling.request import LogitsProcessor
    from sureact.tokens.vocabulary import Vocabulary

OPTIONS = tuple(field.name for field in fields(SamplingParams) if field.name != "logprobs")
"""Options of a call; log-probabilities have no place in a text."""


def from_engine(engine: Engine) -> EngineModel:
    """Return the model that writes outlines' output types with the constraints of sureact."""
    return EngineModel(engine)


def from_engine_steerable(engine: Engine) -> SteerableEngineModel:
    """Return the model that runs the logits processors of outlines.

    Raises:
        ConfigError: the model's tokenizer cannot be handed to outlines.
    """
    return SteerableEngineModel(engine)


class EngineTypeAdapter(ModelTypeAdapter):
    """Turns what outlines hands over into token ids and constraints."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def format_input(self, model_input: Any) -> list[int]:
        """Return the token ids of a prompt.

        Raises:
            ConfigError: it is not text, or a chat of texts.
        """
        prompt = model_input
        if isinstance(prompt, str) and self._engine.has_chat_template:
            prompt = Chat([{"role": "user", "content": prompt}])
        if isinstance(prompt, Chat):
            messages = cast("Any", prompt.messages)
            if not all(isinstance(message["content"], str) for message in messages):
                raise ConfigError("A message of the chat holds more than text; this engine takes text only.")
            prompt = self._engine.render_chat(messages)
        return self._engine.encode_prompt(prompt, parse_control_tokens=False)

    def format_output_type(self, output_type: Any = None) -> Constraint | None:
        """Return the constraint of an output type, without validators of the caller's own, who gets a text."""
        constraint = None if output_type is None else constraint_of(output_type)
        return constraint.inner if isinstance(constraint, TypedConstraint) else constraint


# Registered in the place of another black box, whose output types outlines leaves as they are.
@VLLMOffline.register
class EngineModel(Model):
    """A black box to outlines: made by `from_engine`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.type_adapter = EngineTypeAdapter(engine)

    def generate(self, model_input: Any, output_type: Any = None, **inference_kwargs: Any) -> str | list[str]:
        """Return the text after a prompt, or `n` of them.

        Raises:
            ConfigError: an option or the prompt is not served.
            ConstraintError: the output type cannot be enforced.
            OutputTruncatedError: `max_tokens` ended the text before it was complete under its type.
        """
        return self.generate_batch([model_input], output_type, **inference_kwargs)[0]

    def generate_batch(self, model_input: list[Any], output_type: Any = None, **inference_kwargs: Any) -> list[Any]:
        """Return for each prompt what `generate` does; all of them are computed together."""
        params = _sampling_params(inference_kwargs)
        constraint = self.type_adapter.format_output_type(output_type)
        prompts = [self.type_adapter.format_input(item) for item in model_input]
        outputs = self.engine.generate(prompts, params, constraint) if prompts else []
        texts = [[_judged(completion, constraint) for completion in output.completions] for output in outputs]
        return texts if params.n > 1 else [text for (text,) in texts]

    def generate_stream(self, model_input: Any, output_type: Any = None, **inference_kwargs: Any) -> Iterator[str]:
        """Return the pieces of the text after a prompt."""
        params = _sampling_params(inference_kwargs)
        constraint = self.type_adapter.format_output_type(output_type)
        deltas = self.engine.stream(self.type_adapter.format_input(model_input), params, constraint)
        return _pieces(deltas, constraint)


# Registered as the kind of model whose tokenizer and logits outlines' backends know how to handle.
@Transformers.register
class SteerableEngineModel(Model):
    """Runs outlines' logits processors: made by `from_engine_steerable`.

    A processor runs on the engine's thread, so everything that is generated at the time waits for it. It has one state
    per row, so the prompts of a batch are computed one after the other.
    """

    tensor_library_name = "torch"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.type_adapter = EngineTypeAdapter(engine)
        self.hf_tokenizer = _hugging_face_tokenizer(engine.vocabulary)
        self.tokenizer = TransformerTokenizer(cast("Any", self.hf_tokenizer))

    def generate(self, model_input: Any, output_type: Any = None, **inference_kwargs: Any) -> str:
        """Return the text after a prompt.

        Args:
            model_input: the prompt.
            output_type: a logits processor, which is how outlines hands one over.
            **inference_kwargs: fields of `SamplingParams`, `n` excepted.

        Raises:
            ConfigError: an option or the prompt is not served.
            ConstraintStateError: the processor left no token.
        """
        with self._start(model_input, output_type, inference_kwargs) as deltas:
            return deltas.read_output().text

    def generate_batch(self, model_input: list[Any], output_type: Any = None, **inference_kwargs: Any) -> list[str]:
        """Return for each prompt what `generate` does, one after the other."""
        return [self.generate(item, output_type, **inference_kwargs) for item in model_input]

    def generate_stream(self, model_input: Any, output_type: Any = None, **inference_kwargs: Any) -> Iterator[str]:
        """Return the pieces of the text after a prompt."""
        return _pieces(self._start(model_input, output_type, inference_kwargs), None)

    def _start(self, model_input: Any, processor: Any, options: Mapping[str, Any]) -> DeltaStream:
        params = _sampling_params(options)
        if params.n != 1:
            raise ConfigError(f"n is {params.n}; a logits processor follows one text. Generate n times.")
        sequence = CachedSequence(self.type_adapter.format_input(model_input))
        request = self.engine.new_request(sequence, params, None, owns_sequence=True)
        if processor is not None:
            processor.reset()
            request.logits_processor = cast("LogitsProcessor", processor)
        return self.engine.start(request)


def template_from_string(content: str, filters: Mapping[str, Callable[..., Any]] | None = None) -> Template:
    """Make a template whose filters take a `Tool` too.

    Indentation is taken away as from a docstring. Blanks inside a line stay, which those of `Template.from_string` do
    not: it makes one of several, in code and tables too. The template runs in no sandbox.
    """
    environment = create_jinja_env(None, {**FILTERS, **(filters or {})})
    return Template(environment.from_string(inspect.cleandoc(content)))


def template_from_file(path: str | PathLike[str], filters: Mapping[str, Callable[..., Any]] | None = None) -> Template:
    """Like `template_from_string`, of a file's text as it is; it may include its neighbors."""
    return Template.from_file(cast("Any", path), {**FILTERS, **(filters or {})})


# Lets the filter `schema` of a plain outlines template take a tool; the other filters take one as its function.
cast("Any", get_schema).register(Tool, tool_schema)


def _sampling_params(options: Mapping[str, Any]) -> SamplingParams:
    for name in options:
        if name not in OPTIONS:
            raise ConfigError(f"{name} is no option of a generation. The options are: {', '.join(OPTIONS)}.")
    return SamplingParams(**options)


def _pieces(deltas: DeltaStream, constraint: Constraint | None) -> Iterator[str]:
    with deltas:
        for delta in deltas:
            if delta.text:
                yield delta.text
            if delta.output is not None:
                _judged(delta.output, constraint)


def _judged(output: StepOutput, constraint: Constraint | None) -> str:
    """Return the text once it is judged."""
    try:
        if constraint is not None:
            constraint.parse(output.text)
    except (ConstraintError, InternalError) as error:
        if output.finish_reason != "length":
            raise
        raise OutputTruncatedError(
            f"The text ends after {len(output.token_ids):,} tokens and is not complete under its output type. Raise "
            f"max_tokens. What came: {output.text!r}."
        ) from error
    return output.text


def _hugging_face_tokenizer(vocabulary: Vocabulary) -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    if vocabulary.tokenizer_json is None or not vocabulary.eos_ids:
        raise ConfigError("The model's tokenizer has no JSON form or no end, so outlines cannot read it.")
    tokenizer = Tokenizer.from_str(vocabulary.tokenizer_json)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=tokenizer.id_to_token(vocabulary.eos_ids[0]), padding_side="left"
    )
