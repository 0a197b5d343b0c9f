"""`/metrics`, for Prometheus: the names that boards for vLLM show, and `sureact:*` for what those do not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from typing_extensions import override

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from sureact.execution.engine_stats import EngineStats
    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving

_LATENCIES = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
_PER_TOKEN = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_TOKENS = tuple(step * 10**power for power in range(6) for step in (1, 2, 5))
_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self, model_name: str, stats: Callable[[], EngineStats], num_queued: Callable[[], int]) -> None:
        """Make them.

        Args:
            model_name: their label.
            stats: what the engine did.
            num_queued: requests that wait in front of the engine.
        """
        self.registry = CollectorRegistry()
        self._label = model_name
        # As boards expect it, what never happened is there as 0.
        self._ended = self._counter("vllm:request_success", "Texts that ended, by their reason.", "finished_reason")
        for reason in ("stop", "length", "tool_calls", "abort"):
            self._ended.labels(model_name, reason)
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Tokens of prompts.").labels(model_name)
        self.generation_tokens = self._counter("vllm:generation_tokens", "Tokens generated.").labels(model_name)
        self._queries = self._counter("vllm:prefix_cache_queries", "Tokens looked for in the cache.").labels(model_name)
        self._hits = self._counter("vllm:prefix_cache_hits", "Tokens found in the cache.").labels(model_name)
        self.time_to_first_token = self._histogram("vllm:time_to_first_token", "To the first token.", _FIRST_TOKEN)
        self._between_tokens = [
            self._histogram("vllm:inter_token_latency", "Between two tokens.", _PER_TOKEN),
            self._histogram("vllm:time_per_output_token", "Between two tokens, by its older name.", _PER_TOKEN),
        ]
        self.e2e_latency = self._histogram("vllm:e2e_request_latency", "Whole requests.", _LATENCIES)
        self.queue_time = self._histogram("vllm:request_queue_time", "Before a request's turn.", _LATENCIES)
        self.prefill_time = self._histogram("vllm:request_prefill_time", "From turn to first token.", _LATENCIES)
        self.decode_time = self._histogram("vllm:request_decode_time", "From first to last token.", _LATENCIES)
        self._text_prompt = self._count_histogram("vllm:request_prompt_tokens", "Tokens of a text's prompt.")
        self._text_tokens = self._count_histogram("vllm:request_generation_tokens", "Tokens of a text.")
        self.longest_text = self._count_histogram(
            "vllm:request_max_num_generation_tokens", "Tokens of the longest text of a request."
        )
        self.compile_time = self._histogram("sureact:constraint_compile", "Compiling constraints.", _SHORT)
        self.tool_time = self._histogram("sureact:tool", "Calls of tools by agents.", _LATENCIES)
        agents = Gauge("sureact:agents_running", "Agents that run.", ("model_name",), registry=self.registry)
        self.agents_running = agents.labels(model_name)
        self._answers = self._counter("sureact:http_answers", "Answers over HTTP.", "status")
        self.registry.register(_EngineCollector(model_name, stats, num_queued))

    def saw_token(self, seconds: float) -> None:
        """Note how long a token took that is not the first."""
        for histogram in self._between_tokens:
            histogram.observe(seconds)

    def count_text(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int, finish_reason: str) -> None:
        """Count a text that ended."""
        self._prompt_tokens.inc(prompt_tokens)
        self._text_prompt.observe(prompt_tokens)
        self._text_tokens.observe(completion_tokens)
        self._queries.inc(prompt_tokens)
        self._hits.inc(cached_tokens)
        self._ended.labels(self._label, finish_reason).inc()

    def count_abort(self) -> None:
        """Count a request whose client left, or that was ended."""
        self._ended.labels(self._label, "abort").inc()

    def count_answer(self, status: int) -> None:
        """Count an answer, whatever it was."""
        self._answers.labels(self._label, str(status)).inc()

    def text(self) -> bytes:
        """Return all of them as Prometheus reads them."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ("model_name", *labels), registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return self._count_histogram(f"{name}_seconds", f"{text} In seconds.", buckets)

    def _count_histogram(self, name: str, text: str, buckets: tuple[float, ...] = _TOKENS) -> Histogram:
        histogram = Histogram(name, text, ("model_name",), buckets=buckets, registry=self.registry)
        return histogram.labels(self._label)


class _EngineCollector(Collector):
    """Reads the engine's own counts when they are asked for."""

    def __init__(self, label: str, stats: Callable[[], EngineStats], num_queued: Callable[[], int]) -> None:
        self._label = label
        self._stats = stats
        self._num_queued = num_queued

    @override
    def collect(self) -> Iterable[Metric]:
        stats = self._stats()
        used = stats.kv_blocks_used / stats.kv_blocks_total if stats.kv_blocks_total else 0.0
        gauges = (
            ("vllm:num_requests_running", "Texts that are being generated.", stats.num_running),
            ("vllm:num_requests_waiting", "Requests that wait.", stats.num_waiting + self._num_queued()),
            ("vllm:kv_cache_usage_perc", "Share of the cache that is in use, 1 being all.", used),
            ("vllm:gpu_cache_usage_perc", "The same by its older name, wherever the cache is.", used),
        )
        counters = (
            ("vllm:num_preemptions", "Texts whose cache was given to others.", stats.num_preemptions),
            ("sureact:engine_steps", "Forward passes.", stats.num_steps),
            ("sureact:mask_seconds", "Seconds spent on masks of constraints.", stats.mask_s),
            ("sureact:prefill_seconds", "Seconds of passes that read prompts.", stats.prefill_s),
            ("sureact:decode_seconds", "Seconds of the other passes.", stats.decode_s),
            ("sureact:forced_tokens", "Tokens that a constraint left no choice about.", stats.forced_tokens),
            ("sureact:draft_tokens", "Tokens that were guessed.", stats.draft_tokens),
            ("sureact:accepted_draft_tokens", "Of these, those the model picked.", stats.accepted_draft_tokens),
            ("sureact:cache_evictions", "Blocks of the cache that were forgotten.", stats.num_evictions),
        )
        for name, text, value in gauges:
            gauge = GaugeMetricFamily(name, text, labels=["model_name"])
            gauge.add_metric([self._label], value)
            yield gauge
        for name, text, value in counters:
            counter = CounterMetricFamily(name, text, labels=["model_name"])
            counter.add_metric([self._label], value)
            yield counter


async def answer_metrics(serving: Serving, exchange: Exchange) -> None:
    """Answer with all metrics."""
    await exchange.send_bytes(serving.metrics.text(), content_type=CONTENT_TYPE_LATEST)
