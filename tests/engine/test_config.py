import re
from typing import Any

import pytest

from sureact.config import EngineConfig
from sureact.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantization": "int2"}, "quantization is 'int2'; it must be one of auto, none, int8, int4, fp8"),
        ({"dtype": "float8"}, "dtype is 'float8'"),
        ({"kv_cache_dtype": "float8_e5m2"}, "kv_cache_dtype is 'float8_e5m2'; it must be one of auto, float8_e4m3"),
        ({"determinism": "loose"}, "determinism is 'loose'; it must be one of strict, fast"),
        ({"max_model_len": 0}, "max_model_len is 0; it must be a whole number, at least 1"),
        ({"num_threads": -1}, "num_threads is -1"),
        ({"kv_cache_gb": 0.0}, "kv_cache_gb is 0.0; it must be a number above 0"),
        ({"kv_cache_gb": float("nan")}, "kv_cache_gb is nan"),
        ({"kv_cache_gb": float("inf")}, "kv_cache_gb is inf"),
        ({"max_rollbacks": -1}, "max_rollbacks is -1; it must be a whole number, at least 0"),
        ({"max_draft_len": 33}, "max_draft_len is 33; it must be a whole number, from 0 to 32"),
        ({"max_running_requests": None}, "max_running_requests is None; it must be a whole number"),
        ({"max_rollbacks": "1"}, "max_rollbacks is '1'; it must be a whole number"),
        ({"kv_cache_gb": "1"}, "kv_cache_gb is '1'; it must be a number above 0"),
        ({"kv_cache_gb": True}, "kv_cache_gb is True; it must be a number above 0"),
        ({"prefix_cache": "no"}, "prefix_cache is 'no'; it must be True or False"),
        ({"prefix_cache": None}, "prefix_cache is None; it must be True or False"),
        ({"tensor_parallel_size": 0}, "tensor_parallel_size is 0; it must be a whole number, from 1 to 64"),
        ({"tensor_parallel_size": 65}, "tensor_parallel_size is 65; it must be a whole number, from 1 to 64"),
        ({"tensor_parallel_size": True}, "tensor_parallel_size is True; it must be a whole number"),
        (
            {"max_running_requests": 10**9},
            "max_running_requests is 1000000000; it must be a whole number, from 1 to 1,024",
        ),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_those_that_are(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EngineConfig(model="m", **settings)


@pytest.mark.parametrize(
    "name",
    ["max_model_len", "max_running_requests", "prefill_chunk_len", "num_threads", "max_rollbacks", "max_draft_len"],
)
@pytest.mark.parametrize("value", [2.5, 2.0, "3", True, [1]])
def test_what_is_no_whole_number_is_refused_where_one_is_needed(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"{name} is {re.escape(repr(value))}; it must be a whole number"):
        EngineConfig(model="m", **{name: value})  # pyright: ignore[reportArgumentType]


def test_the_defaults_are_valid() -> None:
    assert EngineConfig(model="m").determinism == "strict"
