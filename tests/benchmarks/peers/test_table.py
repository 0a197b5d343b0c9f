from benchmarks.peers.table import table


def test_a_row_is_a_line_and_missing_figures_are_dashes_with_a_reason() -> None:
    figures = {"tokens": 640, "unfinished": 1, "refused": 0}
    measured = {"row": "a", "peer": "p", "ours": 55.5, "theirs": 50.0, "unit": "tokens/s", "ratio": 1.11}
    missing = {"row": "b", "peer": "q", "ours": None, "theirs": None, "unit": "s", "ratio": None, "reason": "not there"}
    lines = table([{**measured, "our_figures": figures, "their_figures": figures}, missing]).splitlines()
    assert lines[0].split()[:4] == ["row", "peer", "ours", "theirs"]
    assert lines[1].split() == ["a", "p", "55.5", "50", "tokens/s", "1.11", "640", "640", "1/1", "0/0"]
    assert lines[2].split() == ["b", "q", "-", "-", "s", "-", "-", "-", "-/-", "-/-"]
    assert lines[3] == "b beside q: not there"
