import json

from pydantic_core import to_jsonable_python
from tests.engine.evaluation.test_bench_constrained import call

from sureact.cli.bench_report import constrained_report, react_report, speed_report, throughput_report
from sureact.engine import Engine
from sureact.evaluation.bench import Measurement
from sureact.evaluation.bench_constrained import ConstrainedMeasurement
from sureact.evaluation.bench_react import ReactMeasurement
from sureact.evaluation.bench_throughput import ThroughputMeasurement
from sureact.evaluation.react_script import Generated, ReactRun, Turn
from sureact.outputs import StepTimings


def test_speed_stands_beside_its_limit(tiny_engine: Engine) -> None:
    measured = Measurement(
        what="decode",
        config=tiny_engine.config,
        prompt_len=1,
        num_tokens=10,
        seconds=(1.0, 2.0),
        bytes_per_token=1e8,
        bandwidth_kind="read",
        bandwidth_gb_per_s=20.0,
    )
    report = speed_report(measured)
    assert dict(report.rows)["bandwidth limit"] == "200.0 tokens/s, of which 4% reached"
    assert report.values["median_tokens_per_s"] == 7.5


def test_calls_stand_beside_masks_and_drafts(tiny_engine: Engine) -> None:
    calls = (call(num_tokens=100, drafted=4, accepted=3),)
    report = constrained_report(ConstrainedMeasurement(config=tiny_engine.config, calls=calls, refused=("a: no",)))
    rows = dict(report.rows)
    assert rows["calls"] == "1, 1 of them complete and valid, 1 refused"
    assert rows["mask time"] == "1,000 us per token"
    assert rows["draft acceptance"] == "75%"
    assert report.notes == ("Refused: a: no",)
    assert json.loads(json.dumps(to_jsonable_python(report.values, fallback=str)))["calls"][0]["num_tokens"] == 100


def test_an_agents_time_is_split_by_turn(tiny_engine: Engine) -> None:
    timings = StepTimings(prefill_s=0.25, decode_s=0.5, mask_s=0.125)
    piece = Generated("a", 3, False, timings)
    run = ReactRun((Turn(1.0, (piece, piece)), Turn(0.5, (piece,))))
    report = react_report(ReactMeasurement(config=tiny_engine.config, runs=(run,)))
    rows = dict(report.rows)
    assert rows["run"] == "1.50 s (median of 1), 9 tokens generated"
    assert rows["turn 1"] == "1.00 s (prefill 0.50, decode 1.00, of it masks 0.250)"
    assert rows["answer"].startswith("0.50 s")
    assert rows["calls cut by their budget"] == "2 of 2"


def test_throughput_counts_outputs_and_all_tokens(tiny_engine: Engine) -> None:
    measured = ThroughputMeasurement(
        config=tiny_engine.config, num_requests=2, prompt_tokens=30, output_tokens=10, seconds=2.0
    )
    rows = dict(throughput_report(measured).rows)
    assert rows["10 tokens generated"] == "5.0 tokens/s"
    assert rows["with 30 tokens of prompts"] == "20.0 tokens/s"
