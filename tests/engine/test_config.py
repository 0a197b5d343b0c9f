from typing import Any

import pytest

from sureact.config import EngineConfig
from sureact.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantization": "int2"}, "quantization is 'int2'; it must be one of auto, none, int8, int4"),
        ({"dtype": "float8"}, "dtype is 'float8'"),
        ({"determinism": "loose"}, "determinism is 'loose'; it must be one of strict, fast"),
        ({"max_model_len": 0}, "max_model_len is 0; it must be at least 1"),
        ({"num_threads": -1}, "num_threads is -1"),
        ({"kv_cache_gb": 0.0}, "kv_cache_gb is 0.0; it must be above 0"),
        ({"kv_cache_gb": float("nan")}, "kv_cache_gb is nan"),
        ({"kv_cache_gb": float("inf")}, "kv_cache_gb is inf"),
        ({"max_rollbacks": -1}, "max_rollbacks is -1; it must be at least 0"),
        ({"max_running_requests": 10**9}, "max_running_requests is 1,000,000,000; it must be at most 1,024"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_those_that_are(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EngineConfig(model="m", **settings)


def test_the_defaults_are_valid() -> None:
    assert EngineConfig(model="m").determinism == "strict"
