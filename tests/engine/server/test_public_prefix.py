import json
from pathlib import Path

import pytest
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.errors import ConfigError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.server.public_prefix import declare_public_prefix

SYSTEM = "You are the operator's assistant. " * 40


def cached(engine: ScriptedEngine, text: str, salt: str) -> int:
    ids = engine.encode(text, parse_control_tokens=True)
    request = engine.new_request(CachedSequence(ids, cache_salt=salt), SamplingParams(max_tokens=1), None)
    engine.loop.submit(request)
    output = next(delta.output for delta in request.deltas() if delta.output is not None)
    return output.usage.cached_tokens


@pytest.mark.parametrize("name", ["prefix.txt", "prefix.json"])
def test_keys_share_the_public_prefix_alone(engine: ScriptedEngine, tmp_path: Path, name: str) -> None:
    system = f"{name} {SYSTEM}"
    rendered = f"<|im_start|>system\n{system}<|im_end|>\n"
    path = tmp_path / name
    chat = {"messages": [{"role": "system", "content": system}]}
    path.write_text(json.dumps(chat) if name.endswith("json") else rendered)
    num_public = declare_public_prefix(engine, str(path))
    assert num_public == len(engine.encode(rendered, parse_control_tokens=True))
    rest = f"<|im_start|>user\n{'What is private here? ' * 60}<|im_end|>\n"
    assert cached(engine, rendered + rest, "a") == 0
    shared = cached(engine, rendered + rest, "b")
    assert num_public - 128 < shared <= num_public
    assert cached(engine, rendered + rest, "a") > num_public


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.txt", ""), ("p.json", "{"), ("p.json", "[]"), ("p.json", '{"messages": [], "x": 1}'), ("p.txt", "blank ")],
)
def test_files_that_hold_no_prefix_are_refused(engine: ScriptedEngine, tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match="public prefix"):
        declare_public_prefix(engine, str(path))
    with pytest.raises(ConfigError, match="cannot be read"):
        declare_public_prefix(engine, str(tmp_path / "none"))
