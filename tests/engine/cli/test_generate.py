import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., int]


def result(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_text_goes_to_standard_output_and_the_speed_to_standard_error(
    on_tiny: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert on_tiny("generate", "hello", "--max-tokens", "8", "--ignore-eos") == 0
    said = capsys.readouterr()
    assert on_tiny("generate", "hello", "--max-tokens", "8", "--ignore-eos", "--json") == 0
    assert said.out == result(capsys)["completions"][0]["text"] + "\n"
    assert "5 prompt tokens, 8 generated" in said.err
    assert "ended by max_tokens" in said.err


def test_a_dash_reads_standard_input(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("twelve bytes"))
    assert on_tiny("generate", "-", "--max-tokens", "1", "--json") == 0
    assert result(capsys)["prompt_tokens"] == 12


def test_chat_sends_the_prompt_through_the_template(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("generate", "hi", "--chat", "--max-tokens", "1", "--json") == 0
    # <|im_start|> user \n hi <|im_end|> \n <|im_start|> assistant \n
    assert result(capsys)["prompt_tokens"] == 1 + 5 + 2 + 1 + 1 + 1 + 10


@pytest.mark.parametrize(("option", "num_tokens"), [((), 12), (("--parse-control-tokens",), 3)])
def test_control_tokens_are_text_unless_told_otherwise(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], option: tuple[str, ...], num_tokens: int
) -> None:
    assert on_tiny("generate", "a<|im_end|>b", "--max-tokens", "1", "--json", *option) == 0
    assert result(capsys)["prompt_tokens"] == num_tokens


def test_a_choice_is_kept(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("generate", "really", "--choice", "yes", "--choice", "no") == 0
    assert capsys.readouterr().out in ("yes\n", "no\n")


def test_a_regex_is_kept(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("generate", "when", "--regex", "[0-9]{4}", "--json") == 0
    completion = result(capsys)["completions"][0]
    assert len(completion["text"]) == 4
    assert completion["text"].isdecimal()
    assert completion["value"] == completion["text"]


def test_a_schema_is_kept_and_its_value_is_in_the_json(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    closed = schema | {"additionalProperties": False}
    (tmp_path / "schema.json").write_text(json.dumps(closed))
    assert on_tiny("generate", "x", "--schema", str(tmp_path / "schema.json"), "--json") == 0
    completion = result(capsys)["completions"][0]
    assert completion["value"] == json.loads(completion["text"])
    assert isinstance(completion["value"]["ok"], bool)


def test_a_constrained_text_that_is_cut_short_fails(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("generate", "x", "--regex", "a{9}", "--max-tokens", "4") == 1
    said = capsys.readouterr()
    assert said.out == "aaaa\n"
    assert "not complete under its constraint" in said.err
    assert "--max-tokens" in said.err


@pytest.mark.parametrize("constraint", [("--regex", "a{4}b?"), ("--choice", "aaaa", "--choice", "aaaab")], ids=str)
def test_a_text_that_is_complete_where_max_tokens_ends_it_is_done(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], constraint: tuple[str, ...]
) -> None:
    assert on_tiny("generate", "x", *constraint, "--max-tokens", "4", "--json") == 0
    completion = result(capsys)["completions"][0]
    assert (completion["finish_reason"], completion["value"]) == ("length", "aaaa")


def test_a_stop_ends_the_text(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("generate", "hello", "--max-tokens", "32", "--ignore-eos", "--json") == 0
    text = result(capsys)["completions"][0]["text"]
    stop = next(character for character in text[5:] if character.isascii() and character.isprintable())
    assert on_tiny("generate", "hello", "--max-tokens", "32", "--ignore-eos", "--stop", stop, "--json") == 0
    completion = result(capsys)["completions"][0]
    assert completion["text"] == text.partition(stop)[0]
    assert completion["stop_reason"] == stop


def test_several_texts_come_one_a_line(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--n", "3", "--temperature", "1", "--seed", "1", "--choice", "yes", "--choice", "no")
    assert on_tiny("generate", "really", *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert set(lines) <= {"yes", "no"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("", "--max-tokens", "4"), "The prompt is empty"),
        (("hi", "--max-tokens", "0"), "max_tokens is 0; it must be at least 1"),
        (("hi", "--max-tokens", "-3"), "max_tokens is -3; it must be at least 1"),
        (("hi", "--choice", ""), "An item of choice is ''"),
        (("hi", "--stop", ""), "stop is ''"),
        (("hi", "--logprobs", "2"), "add --json"),
        (("hi", "--schema", "nowhere.json"), "--schema is 'nowhere.json', which cannot be read"),
        (("hi", "--device", "abacus"), "device is 'abacus'"),
        (("ends in a blank ",), "ends in a blank"),
    ],
)
def test_wrong_usage_is_refused_with_what_is_allowed(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert on_tiny("generate", *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "pattern": r"(a)\1"}, "/pattern"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "satisf"),
    ],
)
def test_a_schema_that_cannot_be_enforced_fails_by_name(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path, schema: dict[str, object], said: str
) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    assert on_tiny("generate", "x", "--schema", str(tmp_path / "schema.json")) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_a_schema_file_that_is_not_json_is_wrong_usage(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "schema.json").write_text("{")
    assert on_tiny("generate", "x", "--schema", str(tmp_path / "schema.json")) == 2
    assert "not JSON" in capsys.readouterr().err


def test_a_prompt_longer_than_the_context_fails_with_numbers(
    on_tiny: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert on_tiny("generate", "x" * 2000) == 1
    said = capsys.readouterr().err
    assert "2,000 tokens" in said
    assert "1,024" in said


def test_two_constraints_are_wrong_usage(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        on_tiny("generate", "x", "--regex", "a", "--choice", "b")
    assert stopped.value.code == 2
    assert "not allowed with" in capsys.readouterr().err
