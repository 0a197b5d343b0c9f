"""Modules of one generation: `Predict` gives the outputs, `ChainOfThought` reasons first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from sureact.agent.default_model import default_model
from sureact.agent.events import AnswerReady, OnEvent, OutputDelta
from sureact.agent.extraction import OutputExtraction
from sureact.agent.prediction import Prediction, RunUsage
from sureact.agent.prompt_format import think_closed
from sureact.agent.prompt_template import input_texts, render_template
from sureact.agent.signature import Signature
from sureact.agent.streaming import stream_text
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.tokens.chat_template import PromptText


class Predict:
    """Gives the outputs of a signature, each of its type, in one generation."""

    with_reasoning: ClassVar[bool] = False

    def __init__(
        self,
        signature: str | Signature | type[Signature],
        *,
        lm: LanguageModel | None = None,
        max_tokens: int = 1024,
        on_event: OnEvent | None = None,
    ) -> None:
        """Prepare prompt and constraint.

        Args:
            signature: what goes in and what comes out.
            lm: the model, such as an `Engine`; None for the default model, see `default_model`.
            max_tokens: most tokens of the outputs' JSON, at least 1.
            on_event: called with each piece of the outputs, and at the end.

        Raises:
            SignatureError: the signature cannot be read.
            UnsupportedSchemaError: an output cannot be enforced.
            ConfigError: `max_tokens` is below 1.
            ModelNotFoundError: the default model is not on this disk; the message names the command that gets it.
        """
        self.signature = Signature.of(signature)
        self.on_event = on_event
        self._params = SamplingParams(max_tokens=max_tokens)
        self._extraction = OutputExtraction(self.signature, with_reasoning=self.with_reasoning)
        self._system = render_template(
            "predict_system", instructions=self.signature.instructions, output_lines=self._extraction.field_lines()
        )
        # Last, because it may take seconds: whatever can be refused is refused before.
        self.lm: LanguageModel = lm if lm is not None else default_model()

    def __call__(self, **inputs: Any) -> Prediction:
        """Generate the outputs.

        Raises:
            SignatureError: an input is missing, unknown or of another type.
            OutputTruncatedError: the outputs did not end within `max_tokens`.
        """
        prompt = self._prompt(inputs)
        usage = RunUsage()
        start = time.perf_counter()
        session = self.lm.session()
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

    def _prompt(self, inputs: dict[str, Any]) -> PromptText:
        values = self.signature.check_inputs(inputs)
        task = render_template("inputs", inputs=input_texts(values))
        # Outputs are no thought, so they do not stand inside a `<think>` that a chat template opened.
        return think_closed(
            self.lm.render_chat([{"role": "system", "content": self._system}, {"role": "user", "content": task}])
        )

    def _tell_text(self, text: str) -> None:
        if self.on_event:
            self.on_event(OutputDelta(text))


class ChainOfThought(Predict):
    """Like `Predict`, with a free text `reasoning` before the outputs."""

    with_reasoning: ClassVar[bool] = True
