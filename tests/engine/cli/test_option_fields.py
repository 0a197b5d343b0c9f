import argparse
from dataclasses import dataclass, fields
from typing import Literal

import pytest

from sureact.cli.option_fields import add_field_options, field_docs, field_values, positive_int
from sureact.config import EngineConfig
from sureact.sampling_params import SamplingParams


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a test."""

    name: str
    """Who it is
    for."""
    width: int = 3
    """Width in percent (50 % is half)."""
    ratio: float | None = None
    """Ratio; None is any."""
    mode: Literal["slow", "fast"] = "slow"
    """Mode."""
    source: str | None = None
    """File that it reads."""
    is_loud: bool = False
    """Whether it is loud."""
    is_kind: bool = True
    """Whether it is kind."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    add_field_options(made, "settings", Settings, skip=("name",))
    return made


def test_the_text_below_a_field_is_its_help_with_the_default() -> None:
    text = " ".join(parser().format_help().split())
    assert "--width N Width in percent (50 % is half). (default: 3)" in text
    assert "--ratio X Ratio; None is any." in text
    assert "--source FILE File that it reads." in text
    assert "--mode {slow,fast} Mode. (default: slow)" in text
    assert "--is-loud Whether it is loud." in text
    assert "--is-kind, --no-is-kind Whether it is kind." in text
    assert "--name" not in text


def test_values_come_back_by_field_name_and_type() -> None:
    arguments = parser().parse_args(["--width", "5", "--ratio", "0.5", "--is-loud", "--no-is-kind"])
    values = field_values(arguments, Settings, skip=("name",))
    expected = {"width": 5, "ratio": 0.5, "mode": "slow", "source": None, "is_loud": True, "is_kind": False}
    assert values == expected


@pytest.mark.parametrize("words", [["--width", "wide"], ["--mode", "medium"], ["--ratio", "half"]])
def test_a_value_of_another_type_is_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(words)


def test_docs_are_on_one_line() -> None:
    assert field_docs(Settings)["name"] == "Who it is for."


@pytest.mark.parametrize("settings", [EngineConfig, SamplingParams])
def test_every_setting_of_the_engine_has_a_text(settings: type) -> None:
    assert field_docs(settings).keys() == {field.name for field in fields(settings)}


def test_defaults_of_options_are_those_of_the_class() -> None:
    values = field_values(parser().parse_args([]), Settings, skip=("name",))
    assert Settings(name="x", **values) == Settings(name="x")


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("1024", 1024)])
def test_positive_int_reads_counts(text: str, number: int) -> None:
    assert positive_int(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "", "1.5", "many"])
def test_positive_int_says_what_it_takes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        positive_int(text)
