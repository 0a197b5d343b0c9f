import json
from pathlib import Path

import pytest
from benchmarks.peers import prompts as prompts_module
from benchmarks.peers.prompts import Prompts

from sureact.errors import ConfigError
from sureact.evaluation.tool_calls import own_tool_calls
from sureact.tokens.tokenizer import Tokenizer


def test_prompts_are_those_of_the_models_chat_template(tiny_folder: Path) -> None:
    tokenizer = Tokenizer(tiny_folder, num_logits=288)
    prompts = Prompts(tokenizer, None)
    ids = prompts.chat([{"role": "user", "content": "Hi"}])
    assert ids == tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", parse_control_tokens=True)
    assert len(prompts.random(9, seed=1)) == 9


def test_calls_are_taken_evenly_and_with_short_prompts_only(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = Prompts(Tokenizer(tiny_folder, num_logits=288), None)
    own = [task.schema_text for task in own_tool_calls()]
    assert [call.schema for call in prompts.calls(4, 7)] == own[::3]
    assert {call.max_tokens for call in prompts.calls(4, 7)} == {7}
    monkeypatch.setattr(prompts_module, "MAX_CALL_PROMPT_LEN", 330)
    short = Prompts(Tokenizer(tiny_folder, num_logits=288), None).calls(100, 7)
    assert 0 < len(short) < len(own)


def test_a_model_without_a_chat_template_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    for file in tiny_folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "tokenizer_config.json").unlink()
    settings = json.loads((tiny_folder / "tokenizer_config.json").read_text())
    settings.pop("chat_template")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "chat_template.jinja").unlink(missing_ok=True)
    with pytest.raises(ConfigError, match="no chat template"):
        Prompts(Tokenizer(tmp_path, num_logits=288), None)
