import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.gpu.report import Figure, PartReport, table

from sureact_kernels import dispatch


def figure(value: float | None, **others: object) -> Figure:
    return Figure(part="decode", model="tiny", what="graph", value=value, unit="us", **others)  # pyright: ignore


def test_a_target_is_the_least_or_the_most() -> None:
    assert figure(2.0, target=2.0).reached is True
    assert figure(1.9, target=2.0).reached is False
    assert figure(1.9, target=2.0, is_target_most=True).reached is True
    assert figure(2.1, target=2.0, is_target_most=True).reached is False
    assert figure(2.0).reached is None
    assert figure(None, target=2.0).reached is None


def test_a_limit_is_the_most_speed_or_the_least_time() -> None:
    assert figure(4.0, limit=1.0).share_of_limit == 0.25
    speed = Figure(part="decode", model=None, what="graph", value=1.0, unit="tokens/s", limit=4.0)
    assert speed.share_of_limit == 0.25
    assert figure(None, limit=1.0).share_of_limit is None
    assert figure(1.0).share_of_limit is None


def test_what_fails_leaves_the_other_cases_theirs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = PartReport("decode", seconds=60, path=tmp_path / "new" / "decode.json")
    seen: list[int] = []

    def measure(case: int) -> None:
        if case == 1:
            raise RuntimeError("out of memory")
        # What was found before is in the file already, should the process die now.
        written = (tmp_path / "new" / "decode.json").read_text() if seen else '{"failures": []}'
        assert json.loads(written)["failures"] == report.failures
        seen.append(case)

    report.each(range(3), str, measure)
    assert seen == [0, 2]
    assert report.failures == [{"case": "1", "error": "RuntimeError: out of memory"}]
    assert "Error: decode: 1: RuntimeError: out of memory" in capsys.readouterr().err


def test_cases_that_cannot_be_made_are_told() -> None:
    def cases() -> Iterator[str]:
        yield "a"
        raise RuntimeError("out of memory")

    report = PartReport("decode", seconds=60)
    seen: list[str] = []
    report.each(cases(), str, seen.append)
    assert seen == ["a"]
    assert report.failures == [{"case": "the next case and those after it", "error": "RuntimeError: out of memory"}]


def test_what_there_is_no_time_for_is_said() -> None:
    report = PartReport("decode", seconds=-1)
    report.each("ab", str.upper, lambda case: pytest.fail(f"{case} was begun"))
    assert report.cut == ["A", "B"]
    assert "not reached in time: B" in table(report.as_json())


def test_an_op_that_ran_as_its_reference_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_disabled", {})
    report = PartReport("decode", seconds=60)
    with report.listening():
        dispatch.disable("linear", "it does not compile")
    dispatch.disable("sample", "that is another part's")
    message = "linear: Triton's version is off, torch's reference computes it: it does not compile"
    assert report.failures == [{"case": "an op", "error": message}]


def test_the_table_shows_limits_targets_and_notes() -> None:
    report = PartReport("decode", seconds=60)
    report.facts["card"] = "none"
    report.add("tiny", "graph", 50.0, "tokens/s", batch=1, context=24, limit=100.0, target=70.0, note="slow")
    report.add("tiny", "ratio", 1.015, "ratio", target=1.02, is_target_most=True)
    report.add("tiny", "vllm", None, "tokens/s", note="vllm is not installed")
    lines = table(report.as_json()).splitlines()
    assert "copy" not in lines[0]  # it was not measured
    assert lines[1] == "  card: none"
    assert lines[3].split() == ["tiny", "graph", "1", "24", "50", "tokens/s", "50%", ">=70", "NO", "slow"]
    assert lines[4].split() == ["tiny", "ratio", "-", "-", "1.015", "ratio", "-", "<=1.02", "yes"]
    assert lines[5].split()[:6] == ["tiny", "vllm", "-", "-", "-", "tokens/s"]
    assert lines[6] == "1 of 2 targets reached"


def test_json_has_no_nan() -> None:
    report = PartReport("decode", seconds=60)
    report.add("tiny", "graph", float("nan"), "us", limit=float("inf"))
    (row,) = report.as_json()["rows"]
    assert row["value"] is None
    assert row["limit"] is None
    json.dumps(report.as_json(), allow_nan=False)
