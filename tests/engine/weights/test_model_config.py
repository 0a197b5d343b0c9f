import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sureact.errors import CheckpointError, UnsupportedModelError
from sureact.weights.model_config import read_model_config

SaveTinyModel = Callable[..., Path]
EditConfig = Callable[..., None]


def test_a_qwen2_has_biases_on_q_k_and_v_only(save_tiny_model: SaveTinyModel) -> None:
    config = read_model_config(save_tiny_model("qwen2"))
    assert (config.family, config.head_dim, config.q_size, config.kv_size) == ("qwen2", 8, 32, 16)
    assert (config.qkv_bias, config.o_bias, config.mlp_bias, config.qk_norm) == (True, False, False, False)
    assert (config.num_layers, config.num_q_heads, config.num_kv_heads) == (2, 4, 2)
    assert config.eos_token_ids == (7,)
    assert config.dtype == "float32"
    assert config.moe is None


def test_a_qwen3_has_an_explicit_head_dim_and_norms_on_q_and_k(save_tiny_model: SaveTinyModel) -> None:
    config = read_model_config(save_tiny_model("qwen3", head_dim=16, tie_word_embeddings=True))
    assert (config.head_dim, config.q_size, config.qk_norm) == (16, 64, True)
    assert config.tie_word_embeddings
    assert not config.qkv_bias


def test_a_qwen3_without_a_head_dim_has_128_as_in_transformers(
    save_tiny_model: SaveTinyModel, edit_config: EditConfig
) -> None:
    folder = save_tiny_model("qwen3", head_dim=16)
    edit_config(folder, head_dim=None)
    assert read_model_config(folder).head_dim == 128


def test_a_llama_has_the_biases_that_its_config_says(save_tiny_model: SaveTinyModel) -> None:
    config = read_model_config(save_tiny_model("llama", attention_bias=True, mlp_bias=True))
    assert (config.qkv_bias, config.o_bias, config.mlp_bias) == (True, True, True)


def test_the_sparse_layers_of_a_qwen3_moe_follow_step_and_list(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model(
        "qwen3_moe", num_hidden_layers=6, decoder_sparse_step=2, mlp_only_layers=[3], num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True, head_dim=8,
    )  # fmt: skip
    moe = read_model_config(folder).moe
    assert moe is not None
    assert moe.sparse_layer_indices == {1, 5}
    assert (moe.num_experts, moe.num_experts_per_token, moe.moe_intermediate_size) == (4, 2, 16)
    assert moe.norm_topk_prob


def test_the_number_of_experts_is_read_in_both_spellings(
    save_tiny_model: SaveTinyModel, edit_config: EditConfig
) -> None:
    folder = save_tiny_model("qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8)
    for spelling in ("num_experts", "num_local_experts"):
        edit_config(folder, num_experts=None, num_local_experts=None)
        edit_config(folder, **{spelling: 4})
        moe = read_model_config(folder).moe
        assert moe is not None
        assert moe.num_experts == 4


def test_an_epsilon_from_gguf_is_rounded_to_what_was_meant(
    save_tiny_model: SaveTinyModel, edit_config: EditConfig
) -> None:
    folder = save_tiny_model("qwen2")
    edit_config(folder, rms_norm_eps=9.999999974752427e-07)
    assert read_model_config(folder).rms_norm_eps == 1e-06


def test_end_of_sequence_ids_of_both_files_are_joined(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    (folder / "generation_config.json").write_text('{"eos_token_id": [9, 7]}')
    assert read_model_config(folder).eos_token_ids == (7, 9)


def test_a_nested_text_config_is_read(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    text_config = (folder / "config.json").read_text()
    outer = '{"model_type": "foo", "architectures": ["FooForConditionalGeneration"], "text_config": %s}'
    (folder / "config.json").write_text(outer % text_config)
    assert read_model_config(folder).hidden_size == 32


@pytest.mark.parametrize(("outer", "inner", "tied"), [(True, None, True), (False, True, True), (True, False, False)])
def test_whether_the_head_is_tied_is_said_inside_or_else_outside(
    outer: bool, inner: bool | None, tied: bool, save_tiny_model: SaveTinyModel
) -> None:
    folder = save_tiny_model("qwen2")
    text_config = json.loads((folder / "config.json").read_text())
    del text_config["tie_word_embeddings"]
    if inner is not None:
        text_config["tie_word_embeddings"] = inner
    nested = {"model_type": "foo", "tie_word_embeddings": outer, "text_config": text_config}
    (folder / "config.json").write_text(json.dumps(nested))
    assert read_model_config(folder).tie_word_embeddings is tied


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "mamba"}, "'mamba'"),
        ({"architectures": ["Qwen2ForSequenceClassification"]}, "Qwen2ForSequenceClassification"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}, "partial_rotary_factor"),
        ({"dual_chunk_attention_config": {"chunk_size": 262144}}, "dual_chunk_attention_config"),
        ({"use_sliding_window": True, "sliding_window": 64}, "use_sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "'sliding_attention'"),
        ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "'longrope'"),
        ({"quantization_config": {"quant_method": "awq"}}, "awq"),
        ({"architectures": ["QWenLMHeadModel"]}, "Qwen2.5"),
        ({"auto_map": {"AutoModelForCausalLM": "modeling.Foo"}}, "auto_map"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    settings: dict[str, object], message: str, save_tiny_model: SaveTinyModel, edit_config: EditConfig
) -> None:
    folder = save_tiny_model("qwen2")
    edit_config(folder, **settings)
    with pytest.raises(UnsupportedModelError) as caught:
        read_model_config(folder)
    assert message in str(caught.value)


def test_a_window_that_is_switched_off_is_ignored(save_tiny_model: SaveTinyModel, edit_config: EditConfig) -> None:
    folder = save_tiny_model("qwen2")
    edit_config(folder, use_sliding_window=False, sliding_window=64)
    assert read_model_config(folder).family == "qwen2"


def test_sizes_that_contradict_each_other_are_refused(save_tiny_model: SaveTinyModel, edit_config: EditConfig) -> None:
    folder = save_tiny_model("qwen2")
    edit_config(folder, num_key_value_heads=3)
    with pytest.raises(CheckpointError, match="not a multiple of 3"):
        read_model_config(folder)
