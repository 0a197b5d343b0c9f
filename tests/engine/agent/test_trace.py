import threading
from pathlib import Path

import pytest

from sureact.agent.trace import TraceWriter, read_trace
from sureact.agent.trace_records import TRACE_VERSION
from sureact.errors import TraceError


def test_records_are_readable_while_the_file_is_still_open(tmp_path: Path):
    writer = TraceWriter(tmp_path / "new" / "run.jsonl")
    writer.write("thought", text="é\n", value={1, 2}, thing=object)
    records = read_trace(tmp_path / "new" / "run.jsonl")
    assert records[0]["type"] == "thought"
    assert records[0]["text"] == "é\n"
    writer.close()


def test_a_file_is_appended_to(tmp_path: Path):
    for index in range(2):
        writer = TraceWriter(tmp_path / "run.jsonl")
        writer.write("header", number=index)
        writer.close()
    assert [record["number"] for record in read_trace(tmp_path / "run.jsonl")] == [0, 1]


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"type": "header"}\n{"type": "thou')
    assert [record["type"] for record in read_trace(path)] == ["header"]


@pytest.mark.parametrize("text", ["nonsense\n", "5\n", '{"no": "type"}\n'])
def test_damage_is_named_with_path_and_line(tmp_path: Path, text: str):
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"run\.jsonl, line 1"):
        read_trace(path)


def test_paths_that_cannot_be_used_are_named(tmp_path: Path):
    with pytest.raises(TraceError, match="cannot be written"):
        TraceWriter(tmp_path)
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "none.jsonl")


def test_a_cut_line_costs_neither_the_next_run_nor_the_file(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"type": "header", "number": 0}\n{"type": "thou')
    writer = TraceWriter(path)
    writer.write("header", number=1)
    writer.close()
    assert [record["number"] for record in read_trace(path)] == [0, 1]


def test_damage_that_no_header_follows_is_named(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"type": "header"}\n{"type": "thou\n{"type": "thought"}\n')
    with pytest.raises(TraceError, match="line 2"):
        read_trace(path)


def test_a_lone_surrogate_comes_back_as_it_was(tmp_path: Path):
    writer = TraceWriter(tmp_path / "run.jsonl")
    writer.write("observation", text="caf\udce9 \u00e9")
    writer.close()
    assert read_trace(tmp_path / "run.jsonl")[0]["text"] == "caf\udce9 \u00e9"


def test_a_cut_line_before_a_run_that_goes_on_is_left_out(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"type": "header"}\n{"type": "thou\n\n')
    writer = TraceWriter(path)
    writer.write("resumed")
    writer.close()
    assert [record["type"] for record in read_trace(path)] == ["header", "resumed"]


@pytest.mark.parametrize("version", [str(TRACE_VERSION + 1), '"2"', "null"])
@pytest.mark.parametrize("record_type", ["header", "resumed"])
def test_a_later_version_is_refused_by_name(tmp_path: Path, version: str, record_type: str):
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"type": "{record_type}", "version": {version}, "sureact_version": "7.0"}}\n')
    expected = rf"line 1 is of trace version .* up to version {TRACE_VERSION}.*sureact 7\.0: update"
    with pytest.raises(TraceError, match=expected):
        read_trace(path)


def test_version_1_is_read(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"type": "header", "version": 1}\n')
    assert len(read_trace(path)) == 1


def test_runs_at_the_same_time_do_not_write_into_each_others_lines(tmp_path: Path):
    path = tmp_path / "run.jsonl"

    def write(number: int) -> None:
        writer = TraceWriter(path)
        for _ in range(20):
            writer.write("thought", text=str(number) * 50_000)
        writer.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(len(set(record["text"])) for record in read_trace(path)) == [1] * 80


def test_what_must_not_be_written_is_cleaned_first(tmp_path: Path):
    writer = TraceWriter(tmp_path / "run.jsonl", lambda record: {**record, "text": "clean"})
    writer.write("thought", text="secret")
    writer.close()
    assert "secret" not in (tmp_path / "run.jsonl").read_text()
    assert read_trace(tmp_path / "run.jsonl")[0]["text"] == "clean"
