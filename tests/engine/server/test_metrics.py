from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine


def samples(client: Client) -> dict[str, float]:
    """Every metric by its name and its labels but the model's."""
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("model_name") == "tiny", sample.name
            found[",".join([sample.name, *(f"{name}={value}" for name, value in labels.items())])] = sample.value
    return found


def test_the_names_are_those_that_boards_show(client: Client) -> None:
    names = {name.partition(",")[0] for name in samples(client)}
    histograms = ("time_to_first_token", "inter_token_latency", "e2e_request_latency", "request_queue_time")
    for name in (*histograms, "time_per_output_token", "request_prefill_time", "request_decode_time"):
        assert {f"vllm:{name}_seconds_{part}" for part in ("bucket", "sum", "count")} <= names
    for name in ("prompt_tokens", "generation_tokens", "max_num_generation_tokens"):
        assert {f"vllm:request_{name}_{part}" for part in ("bucket", "sum", "count")} <= names
    counters = ("prompt_tokens", "generation_tokens", "request_success", "prefix_cache_queries", "prefix_cache_hits")
    assert {f"vllm:{name}_total" for name in counters} <= names
    gauges = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc")
    assert {f"vllm:{name}" for name in gauges} <= names
    ours = ("mask_seconds", "forced_tokens", "draft_tokens", "accepted_draft_tokens")
    assert {f"sureact:{name}_total" for name in ours} <= names
    assert {"sureact:constraint_compile_seconds_sum", "sureact:agents_running", "sureact:tool_seconds_sum"} <= names


def test_requests_are_counted(client: Client, engine: ScriptedEngine) -> None:
    before = samples(client)
    engine.say("Hello there, how are you?")
    usage = client.chat().json()["usage"]
    assert client.chat(nonsense=1).status_code == 400
    client.chat(stream=True)
    after = samples(client)

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown("vllm:request_success_total,finished_reason=stop") == 2
    assert grown("vllm:prompt_tokens_total") == 2 * usage["prompt_tokens"]
    assert grown("vllm:generation_tokens_total") >= 2 * usage["completion_tokens"]
    assert grown("vllm:time_to_first_token_seconds_count") == 2
    assert grown("vllm:request_queue_time_seconds_count") == 3
    assert grown("vllm:e2e_request_latency_seconds_count") == 2, "one of them was refused"
    assert grown("vllm:request_success_total,finished_reason=abort") == 0
    for name, tokens in (("prompt", "prompt_tokens"), ("generation", "completion_tokens")):
        assert grown(f"vllm:request_{name}_tokens_count") == 2
        assert grown(f"vllm:request_{name}_tokens_sum") == 2 * usage[tokens]
    assert grown("vllm:request_max_num_generation_tokens_sum") == 2 * usage["completion_tokens"]
    between = "vllm:inter_token_latency_seconds_count"
    assert grown("vllm:time_per_output_token_seconds_count") == grown(between) > 0
    assert grown("sureact:http_answers_total,status=400") == 1
    assert 0 <= after["vllm:kv_cache_usage_perc"] == after["vllm:gpu_cache_usage_perc"] <= 1


def test_completions_and_constraints_are_counted(client: Client, engine: ScriptedEngine) -> None:
    body: dict[str, Any] = {"prompt": "hi", "structured_outputs": {"choice": ["yes"]}, "n": 2, "temperature": 1}
    response = client.post("/v1/completions", body)
    assert response.status_code == 200, response.text
    after = samples(client)
    assert after["vllm:request_success_total,finished_reason=stop"] == 2
    assert after["sureact:constraint_compile_seconds_count"] == 1
