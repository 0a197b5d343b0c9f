"""What a later version of sureact brings; named here so that it is refused by name until then."""

from collections.abc import Sequence
from typing import NoReturn

from sureact.errors import ConfigError

LATER_COMMANDS = ("serve",)


def refuse_later_command(words: Sequence[str]) -> None:
    """Refuse a command line that asks for a command of a later version.

    Raises:
        ConfigError: it does.
    """
    if words and words[0] in LATER_COMMANDS:
        refuse_as_later(words[0])


def refuse_as_later(what: str) -> NoReturn:
    """Refuse a part of the command line that this version does not have.

    Raises:
        ConfigError: always.
    """
    raise ConfigError(f"`sureact {what}` comes with a later version. `sureact --help` lists what there is.")
