import argparse
from pathlib import Path

import pytest

from sureact.cli.main import main
from sureact.cli.model_options import SMALL_MODEL, add_model_options, engine_config, load_engine
from sureact.config import EngineConfig
from sureact.errors import ConfigError


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_model_options(parser)
    return parser.parse_args(words)


def test_without_options_the_small_model_runs_with_the_engines_own_defaults() -> None:
    assert engine_config(parse()) == EngineConfig(model=SMALL_MODEL)


def test_the_environment_names_another_model_and_the_option_outranks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREACT_MODEL", "mine")
    assert engine_config(parse()).model == "mine"
    assert engine_config(parse("--model", "yours")).model == "yours"


def test_every_setting_has_an_option() -> None:
    config = engine_config(
        parse("--quantization", "int4", "--determinism", "fast", "--max-model-len", "512", "--kv-cache-gb", "0.5")
    )
    assert engine_config(parse("--kv-cache-dtype", "float8_e4m3")).kv_cache_dtype == "float8_e4m3"
    assert (config.quantization, config.determinism, config.max_model_len, config.kv_cache_gb) == (
        "int4",
        "fast",
        512,
        0.5,
    )


def test_a_setting_out_of_range_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigError, match="kv_cache_gb is -1"):
        engine_config(parse("--kv-cache-gb", "-1"))


@pytest.mark.parametrize("size", ["nan", "inf", "-inf", "0"])
@pytest.mark.parametrize("words", [("generate", "hi"), ("chat",), ("bench", "decode")], ids=" ".join)
def test_a_cache_of_no_size_is_wrong_usage(
    words: tuple[str, ...], size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, f"--kv-cache-gb={size}"]) == 2
    said = capsys.readouterr().err
    assert "kv_cache_gb is " in said
    assert "bug" not in said


def test_loading_says_so_and_tells_the_engines_notices(
    tiny_folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for file in tiny_folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "generation_config.json").write_text('{"repetition_penalty": 1.1}')
    config = EngineConfig(model=str(tmp_path), quantization="none", dtype="float32", kv_cache_gb=0.01)
    load_engine(config).close()
    said = capsys.readouterr()
    assert said.out == ""
    assert "Loading" in said.err
    assert "repetition_penalty=1.1" in said.err


def test_an_unknown_model_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "hi", "--model", "qwen2.5-coder-0.5b-instrct"]) == 1
    assert "Did you mean 'qwen2.5-coder-0.5b-instruct'" in capsys.readouterr().err


def test_a_model_that_is_not_pulled_says_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "hi"]) == 1
    assert f"sureact pull {SMALL_MODEL}" in capsys.readouterr().err


def test_a_half_downloaded_model_says_how_to_finish_it(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store_folder / "models" / f"{SMALL_MODEL}.partial").mkdir(parents=True)
    assert main(["generate", "hi"]) == 1
    said = capsys.readouterr().err
    assert "half downloaded" in said
    assert f"sureact pull {SMALL_MODEL}" in said


def test_a_truncated_weight_file_is_named(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    for file in tiny_folder.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    assert main(["generate", "hi", "--model", str(folder)]) == 1
    assert "model.safetensors" in capsys.readouterr().err
