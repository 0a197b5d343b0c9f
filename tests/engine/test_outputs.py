"""A request's result reads like its first completion."""

from sureact.outputs import RequestOutput, StepOutput, TokenUsage


def completion(text: str, token_id: int) -> StepOutput:
    usage = TokenUsage(prompt_tokens=3, cached_tokens=2, completion_tokens=1)
    return StepOutput(text=text, token_ids=(token_id,), finish_reason="length", usage=usage)


def test_a_request_reads_like_its_first_completion() -> None:
    output = RequestOutput(prompt_token_ids=(1, 2, 3), completions=(completion("a", 4), completion("b", 5)))
    assert (output.text, output.token_ids, output.finish_reason) == ("a", (4,), "length")


def test_times_start_at_nothing() -> None:
    timings = completion("a", 4).timings
    assert (timings.prefill_s, timings.decode_s, timings.mask_s) == (0.0, 0.0, 0.0)
