from benchmarks.constraints import paired


def test_both_run_whatever_the_order_and_keep_their_places() -> None:
    for _ in range(20):
        results, seconds = paired.run_both(lambda: "own", lambda: "raw")
        assert results == ("own", "raw")
        assert min(seconds) >= 0


def test_the_result_says_how_the_two_compare() -> None:
    result = paired.compared([(0.002, 0.001)] * 3, [(5e-6, 4e-6)] * 3)
    assert result["compile_ratio"] == {"p50": 2.0, "p99": 2.0}
    assert abs(float(str(result["mask_p50_difference_us"])) - 1) < 1e-6
    assert (result["schemas"], result["masks"]) == (3, 3)
