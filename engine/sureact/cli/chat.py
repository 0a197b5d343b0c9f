"""`sureact chat`: a conversation in the terminal, on one session whose past is never computed again."""

from __future__ import annotations

import argparse
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, cast

from sureact.cli.console import add_output_options, error_console, note, write_result
from sureact.cli.generate import add_sampling_options, sampling_params
from sureact.cli.model_options import add_model_options, engine_config, load_engine
from sureact.cli.stats_display import note_stats
from sureact.errors import ConfigError, PromptTooLongError

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel, LanguageModelSession
    from sureact.sampling_params import SamplingParams
    from sureact.tokens.chat_template import Message, PromptText

_NOT_IN_A_CHAT = ("n", "logprobs")
_HELP = "Ctrl-C cancels a reply, /new starts over, /exit or Ctrl-D leaves."

# A rendered sample conversation; what the template puts between its contents is what it puts between ours.
_SAMPLE: list[Message] = [
    {"role": "user", "content": "%sample-question%"},
    {"role": "assistant", "content": "%sample-reply%"},
    {"role": "user", "content": "%sample-follow-up%"},
]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = f"A conversation in the terminal. {_HELP}"
    parser.add_argument("--system", metavar="TEXT", help="the system message (default: what the chat template writes)")
    add_sampling_options(parser, skip=_NOT_IN_A_CHAT)
    add_model_options(parser)
    add_output_options(parser)
    parser.set_defaults(command=chat_command)


def chat_command(arguments: argparse.Namespace) -> None:
    """Read messages and write replies until the input ends."""
    config, params = engine_config(arguments), sampling_params(arguments, skip=_NOT_IN_A_CHAT)
    with suppress(ImportError):
        import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]  gives `input` its line editing
    with load_engine(config) as engine:
        note(_HELP)
        conversation = Conversation(engine, params, system=arguments.system)
        console = error_console()
        while True:
            try:
                message = console.input("> ").strip()
            except EOFError:
                return
            if message == "/exit":
                return
            if message == "/new":
                conversation = conversation.restarted()
            elif message:
                _reply(conversation, message)
                if arguments.verbose:
                    note_stats(engine)


def _reply(conversation: Conversation, message: str) -> None:
    try:
        conversation.reply(message)
    except KeyboardInterrupt:
        write_result("")
        note("(cancelled)")
    except PromptTooLongError as error:
        note(f"Error: {error} Or start over with /new.")


class Conversation:
    """A session, and how the chat template writes the turns after the first."""

    def __init__(self, lm: LanguageModel, params: SamplingParams, *, system: str | None = None) -> None:
        """Open the session.

        Raises:
            ConfigError: the model's chat template cannot carry a conversation.
        """
        from sureact.agent.prompt_format import template_text

        self._lm = lm
        self._params = params
        self._system = system
        self.session: LanguageModelSession = lm.session()
        question, reply, follow_up = (message["content"] for message in _SAMPLE)
        rendered = lm.render_chat(_SAMPLE).text
        if not 0 <= rendered.find(question) < rendered.find(reply) < rendered.find(follow_up):
            raise ConfigError(f"The chat template of {lm.name} does not write messages in order; use generate.")
        before, _, after = rendered.partition(reply)[2].partition(follow_up)
        self._before_message: PromptText = template_text(before)
        self._after_message: PromptText = template_text(after)

    def reply(self, message: str) -> None:
        """Append a message and stream the reply to standard output; both stay in the session.

        Raises:
            PromptTooLongError: message and reply do not fit; the session is as it was.
        """
        num_tokens = len(self.session.token_ids)
        try:
            self.session.append(self._turn(message))
            stream = cast("Any", self.session.stream(self._params))
        except PromptTooLongError:
            self.session.truncate(num_tokens)
            raise
        with closing(stream) as deltas:
            for delta in deltas:
                write_result(delta.text, end="")
        write_result("")

    def restarted(self) -> Conversation:
        """Return an empty conversation of the same kind; this one gives its memory back."""
        self.session.close()
        return Conversation(self._lm, self._params, system=self._system)

    def _turn(self, message: str) -> PromptText:
        from sureact.agent.prompt_format import plain_text

        if self.session.token_ids:
            return self._before_message + plain_text(message) + self._after_message
        opening: list[Message] = [{"role": "system", "content": self._system}] if self._system else []
        return self._lm.render_chat([*opening, {"role": "user", "content": message}])
