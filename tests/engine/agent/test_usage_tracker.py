import threading

from sureact.agent.usage_tracker import UsageTracker
from sureact.outputs import TokenUsage


def test_tokens_add_up_by_model():
    tracker = UsageTracker()
    tracker.add("a", TokenUsage(prompt_tokens=10, cached_tokens=8, completion_tokens=4))
    tracker.add("a", TokenUsage(prompt_tokens=14, cached_tokens=14, completion_tokens=1))
    tracker.add("b", TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=1))
    assert tracker.total_tokens() == {
        "a": {
            "num_generations": 2,
            "prompt_tokens": 24,
            "cached_tokens": 22,
            "completion_tokens": 5,
            "total_tokens": 29,
        },
        "b": {"num_generations": 1, "prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1, "total_tokens": 2},
    }


def test_no_count_is_lost_between_threads():
    tracker = UsageTracker()
    usage = TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)
    threads = [
        threading.Thread(target=lambda: [tracker.add("a", usage) for _ in range(500)] and None) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tracker.total_tokens()["a"]["total_tokens"] == 4000


def test_what_is_returned_is_a_copy():
    tracker = UsageTracker()
    tracker.add("a", TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=1))
    tracker.total_tokens()["a"]["total_tokens"] = 0
    assert tracker.total_tokens()["a"]["total_tokens"] == 2
