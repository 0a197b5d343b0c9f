"""Modules of one generation: `Predict` gives the outputs, `ChainOfThought` reasons first."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from sureact.agent.callback import Callback
from sureact.agent.default_model import default_model
from sureact.agent.demos import Demo, checked_demos, demo_json, dumped_demos
from sureact.agent.events import AnswerReady, OnEvent, OutputDelta
from sureact.agent.extraction import REASONING, OutputExtraction, reasoning_field
from sureact.agent.module import Module, check_lm
from sureact.agent.module_state import restored_signature, signature_state
from sureact.agent.prediction import Prediction, RunUsage
from sureact.agent.prompt_format import think_closed
from sureact.agent.prompt_template import input_texts, render_template
from sureact.agent.recorded_session import RecordedSession
from sureact.agent.signature import Signature, signature_of_fields
from sureact.agent.streaming import stream_text
from sureact.errors import ConfigError, ModuleStateError, SignatureError
from sureact.option_values import require_function
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.tokens.chat_template import Message, PromptText

_logger = logging.getLogger(__name__)
_INCOMPLETE = "An example of the task; not all fields of it are given.\n\n"


class Predict(Module):
    """Gives the outputs of a signature, each of its type, in one generation."""

    demos: list[Mapping[str, Any]]
    """Worked examples, shown before the inputs: mappings of field names to values. May be changed at any time."""

    _shared: ClassVar[frozenset[str]] = frozenset({"on_event", "_extraction", "_judged"})

    def __init__(
        self,
        signature: str | Signature | type[Signature],
        *,
        lm: LanguageModel | None = None,
        max_tokens: int = 1024,
        demos: Sequence[Mapping[str, Any]] = (),
        on_event: OnEvent | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Prepare prompt and constraint.

        Args:
            signature: what goes in and what comes out.
            lm: the model, such as an `Engine`; None for the default model, see `default_model`.
            max_tokens: most tokens of the outputs' JSON, at least 1.
            demos: worked examples: mappings or `Example`s with at least one input and one output.
            on_event: called with each piece of the outputs, and at the end.
            callbacks: told of each call.

        Raises:
            SignatureError: the signature cannot be read.
            UnsupportedSchemaError: an output cannot be enforced.
            ConfigError: `max_tokens` is below 1, or a demo does not fit the signature.
            ModelNotFoundError: the default model is not on this disk; the message names the command that gets it.
        """
        super().__init__(callbacks)
        require_function("on_event", on_event)
        self.on_event = on_event
        self._params = SamplingParams(max_tokens=max_tokens)
        self._judged: tuple[Signature, list[dict[str, Any]], list[Demo]] | None = None
        _require_list(demos)
        self.demos = list(demos)
        self.signature = Signature.of(signature)
        self.judged_demos()
        # Last, because it may take seconds: whatever can be refused is refused before.
        self.lm = lm if lm is not None else default_model()

    @property
    def signature(self) -> Signature:
        """What goes in and what comes out; another one may be set."""
        return self._signature

    @signature.setter
    def signature(self, signature: str | Signature | type[Signature]) -> None:
        self._signature = Signature.of(signature)
        self._prepare()

    @property
    def lm(self) -> LanguageModel:
        """The model."""
        return self._lm

    @lm.setter
    def lm(self, lm: LanguageModel) -> None:
        check_lm(lm)
        self._lm: LanguageModel = lm

    def forward(self, *args: Any, **inputs: Any) -> Prediction:
        """Generate the outputs.

        Raises:
            SignatureError: an input is missing, unknown or of another type, or given by position.
            ConfigError: a demo does not fit the signature.
            ContextWindowExceededError: the inputs do not fit into the context.
            OutputTruncatedError: the outputs did not end within `max_tokens`.
        """
        require_names(args, self._signature)
        prompt = self._prompt(inputs)
        usage = RunUsage()
        start = time.perf_counter()
        session = RecordedSession(self.lm)
        try:
            session.append(prompt)
            output = stream_text(session, self._params, self._extraction.constraint, self._tell_text)
        finally:
            session.close()
        usage.add(output)
        usage.seconds = time.perf_counter() - start
        outputs = self._extraction.parse(output)
        if self.on_event:
            self.on_event(AnswerReady(outputs, "finish"))
        return Prediction(outputs, usage=usage)

    def judged_demos(self) -> list[Demo]:
        """Return the demos, judged by the signature; those that lack fields come first.

        Raises:
            ConfigError: a demo does not fit the signature.
        """
        _require_list(self.demos)
        demos = [dict(demo) if isinstance(demo, Mapping) else demo for demo in self.demos]  # pyright: ignore[reportUnnecessaryIsInstance]
        # Judging builds types, which takes longer than a step should; demos rarely change.
        if self._judged is None or self._judged[:2] != (self._signature, demos):
            self._judged = (self._signature, copy.deepcopy(demos), checked_demos(demos, self._signature))
        return self._judged[2]

    def reset(self) -> None:
        """Drop the demos."""
        self.demos = []

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """Return demos, instructions and field descriptions, and the name of the model for who reads it.

        Args:
            json_mode: turn the values of demos into what JSON has.

        Raises:
            ConfigError: a demo has no JSON form.
        """
        demos = dumped_demos(self.demos, json_mode=json_mode)
        return {"demos": demos, "signature": signature_state(self._signature), "lm": {"model": self.lm.name}}

    def load_state(self, state: Mapping[str, Any]) -> Predict:
        """Take over what `dump_state` returned, all of it or nothing, and return this predictor."""
        self.prepare_load(state, type(self).__name__)()
        return self

    def prepare_load(self, state: object, name: str) -> Callable[[], None]:
        """Judge a state, and return what takes it over.

        Raises:
            ModuleStateError: it is malformed, or that of another signature.
            ConfigError: a demo does not fit the signature.
        """
        saved = cast("dict[str, Any]", state)
        if not isinstance(state, Mapping) or not {"demos", "signature"} <= saved.keys():
            raise ModuleStateError(f"The state of {name} is malformed: it must have `demos` and `signature`.")
        if not isinstance(saved["demos"], list):
            raise ModuleStateError(f"The state of {name} is malformed: its demos are no list.")
        signature = restored_signature(self._signature, saved["signature"], name)
        demos = copy.deepcopy(cast("list[Mapping[str, Any]]", saved["demos"]))
        checked_demos(demos, signature)
        model = (saved.get("lm") or {}).get("model")

        def load() -> None:
            if model not in (None, self.lm.name):
                _logger.warning(
                    "The state of %s was saved with the model %s; it runs on %s.", name, model, self.lm.name
                )
            self.signature = signature
            self.demos = demos

        return load

    def _prepare(self) -> None:
        """Build what depends on the signature."""
        self._extraction = OutputExtraction(self._signature, with_reasoning=False)
        self._system = render_template(
            "predict_system", instructions=self._signature.instructions, output_lines=self._extraction.field_lines()
        )

    def _prompt(self, inputs: dict[str, Any]) -> PromptText:
        values = self._signature.check_inputs(inputs)
        messages: list[Message] = [{"role": "system", "content": self._system}]
        for demo in self.judged_demos():
            note = "" if demo.is_complete else _INCOMPLETE
            messages.append({"role": "user", "content": note + _task(demo.inputs)})
            messages.append({"role": "assistant", "content": demo_json(demo.outputs)})
        # Outputs are no thought, so they do not stand inside a `<think>` that a chat template opened.
        return think_closed(self.lm.render_chat([*messages, {"role": "user", "content": _task(values)}]))

    def _tell_text(self, text: str) -> None:
        if self.on_event:
            self.on_event(OutputDelta(text))

    def __repr__(self) -> str:
        fields = f"{', '.join(self._signature.inputs)} -> {', '.join(self._signature.outputs)}"
        return f"{type(self).__name__}({fields})"


class ChainOfThought(Module):
    """Like `Predict`, with a free text `reasoning` before the outputs. The predictor is the attribute `predict`."""

    def __init__(
        self,
        signature: str | Signature | type[Signature],
        *,
        lm: LanguageModel | None = None,
        max_tokens: int = 1024,
        demos: Sequence[Mapping[str, Any]] = (),
        on_event: OnEvent | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Prepare prompt and constraint. Arguments and errors are those of `Predict`."""
        super().__init__(callbacks)
        reasoned = reasoning_signature(Signature.of(signature))
        self.predict = Predict(reasoned, lm=lm, max_tokens=max_tokens, demos=demos, on_event=on_event)

    @property
    def lm(self) -> LanguageModel:
        """The model."""
        return self.predict.lm

    @lm.setter
    def lm(self, lm: LanguageModel) -> None:
        self.predict.lm = lm

    def forward(self, *args: Any, **inputs: Any) -> Prediction:
        """Generate reasoning and outputs. Errors are those of `Predict`."""
        return self.predict(*args, **inputs)


def reasoning_signature(signature: Signature) -> Signature:
    """Return a signature with `reasoning` before its outputs."""
    outputs = {REASONING: reasoning_field(), **signature.outputs}
    return signature_of_fields(signature.inputs, outputs, signature.instructions)


def require_names(args: Sequence[object], signature: Signature) -> None:
    """Refuse inputs that are given by position.

    Raises:
        SignatureError: there are any.
    """
    if args:
        names = ", ".join(f"{name}=..." for name in signature.inputs)
        raise SignatureError(f"Inputs are given by name, as in `module({names})`; {len(args)} came without one.")


def _require_list(demos: object) -> None:
    if not isinstance(demos, Sequence) or isinstance(demos, str):
        raise ConfigError(f"demos is {demos!r}; it must be a list of mappings or Examples.")


def _task(values: Mapping[str, Any]) -> str:
    return render_template("inputs", inputs=input_texts(values))
