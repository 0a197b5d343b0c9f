import pytest

from sureact.evaluation.conformance.cases import ConformanceCase, Instance
from sureact.evaluation.conformance.own_engine import OwnEngine
from sureact.evaluation.conformance.schema_engine import SchemaPolicy
from sureact.evaluation.conformance.timing import CaseTimes, percentiles, time_case
from sureact.evaluation.conformance.vocabularies import byte_vocabulary


def timed(schema: object, *instances: Instance) -> CaseTimes:
    vocabulary = byte_vocabulary()
    engine = OwnEngine(vocabulary.vocabulary, SchemaPolicy())
    return time_case(engine, ConformanceCase(file="", name="", schema=schema, instances=instances), vocabulary)


def test_there_is_a_mask_per_token_of_the_first_valid_instance() -> None:
    times = timed({"type": "integer"}, Instance("x", False), Instance("123", True), Instance("12345", True))
    assert times.compile_ms is not None
    assert times.compile_ms > 0
    assert len(times.mask_us) == 3
    assert min(times.mask_us) > 0


def test_masks_end_where_the_instance_is_refused() -> None:
    assert len(timed({"type": "integer"}, Instance("12x45", True)).mask_us) == 3


def test_without_a_valid_instance_only_compiling_is_timed() -> None:
    times = timed({"type": "integer"}, Instance("x", False))
    assert times.compile_ms is not None
    assert times.mask_us == ()


def test_what_does_not_compile_has_no_times() -> None:
    assert timed({"type": 3}, Instance("1", True)) == CaseTimes()


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentiles([]) == {"p50": None, "p99": None, "max": None}
    assert percentiles([5.0]) == {"p50": 5.0, "p99": 5.0, "max": 5.0}
    assert percentiles(float(n) for n in range(200, 0, -1)) == {"p50": 100.0, "p99": 198.0, "max": 200.0}
    assert percentiles([1.0, 2.0, 3.0])["p50"] == pytest.approx(2.0)
