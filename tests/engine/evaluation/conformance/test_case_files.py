import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sureact.errors import ConfigError
from sureact.evaluation.conformance.case_files import opened_cases, read_remotes

Writer = Callable[..., Path]

MASKBENCH = {"schema": {"type": "integer"}, "tests": [{"data": 1, "valid": True}]}
SUITE = [
    {"description": "a", "schema": {"type": "string"}, "tests": []},
    {"description": "b", "schema": True, "tests": []},
]


def filled(write: Writer) -> Path:
    write("draft7/group.json", SUITE)
    write("draft7/optional/may_fail.json", SUITE)
    write("one.json", MASKBENCH)
    write("package.json", {"name": "unrelated"})
    write(".hidden/two.json", MASKBENCH)
    return write("LICENSE", "no JSON")


def test_a_folder_is_searched_and_what_is_no_case_is_named(write: Writer) -> None:
    with opened_cases(filled(write)) as found:
        assert [(file.name, file.num_cases) for file in found.files] == [("draft7/group.json", 2), ("one.json", 1)]
        assert found.num_cases == 3
        assert found.ignored == ("package.json",)
        assert found.optional == ("draft7/optional/may_fail.json",)
        assert found.files[0].read(reorder=False)[0].schema["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_the_folder_of_optional_tests_is_run_when_it_is_given(write: Writer) -> None:
    with opened_cases(filled(write) / "draft7" / "optional") as found:
        assert [(file.name, file.draft) for file in found.files] == [("may_fail.json", "draft7")]


def test_a_damaged_file_of_a_folder_is_left_out_with_the_reason(write: Writer) -> None:
    write("sub/broken.json", '{"schema": {}, "tests"')
    write("label.json", {"schema": {}, "tests": [{"data": 1, "valid": "yes"}]})
    with opened_cases(filled(write)) as found:
        assert found.num_cases == 3
        label, broken = found.damaged
    assert label.startswith("label.json is damaged: 'valid' is \"yes\"")
    assert broken.startswith("sub/broken.json cannot be read as JSON: ")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_is_read_like_the_folder_in_it(write: Writer, tmp_path: Path, mode: str) -> None:
    suffix = mode.removeprefix("w").replace(":", ".")
    archive = tmp_path / f"cases.tar{suffix}"
    with tarfile.open(archive, mode) as tar:  # pyright: ignore[reportCallIssue, reportArgumentType]  modes by name
        tar.add(filled(write), "corpus")
    with opened_cases(archive) as found:
        assert [file.name for file in found.files] == ["corpus/draft7/group.json", "corpus/one.json"]
        folder = found.files[0].path.parent
        assert found.files[1].read(reorder=False)[0].schema == {"type": "integer"}
    assert not folder.exists()


def test_a_file_is_its_own_corpus(write: Writer) -> None:
    with opened_cases(filled(write) / "one.json") as found:
        assert [file.name for file in found.files] == ["one.json"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "does not exist"),
        ("other.json", "other.json is of no known kind"),
        ("broken.json", "broken.json cannot be read as JSON"),
        ("empty", "holds no file of a known kind"),
        ("broken.tar.xz", "cannot be unpacked"),
    ],
)
def test_what_has_no_case_is_refused_by_name(write: Writer, name: str, said: str) -> None:
    write("other.json", {"a": 1})
    write("broken.json", '{"schema": {}, "tests"')
    write("empty/LICENSE", "no JSON")
    folder = write("broken.tar.xz", "no archive")
    with pytest.raises(ConfigError, match=said), opened_cases(folder / name):
        pass


def test_an_archive_cannot_write_outside_its_folder(write: Writer, tmp_path: Path) -> None:
    archive = tmp_path / "bad.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(write("one.json", MASKBENCH) / "one.json", "../outside.json")
    with pytest.raises(ConfigError, match="cannot be unpacked"), opened_cases(archive):
        pass


def test_remotes_are_known_by_their_id_and_as_the_suite_serves_them(write: Writer) -> None:
    write("nested/a b.json", {"$id": "http://example.com/a#", "type": "integer"})
    write("true.json", True)
    remotes = read_remotes(write("relative.json", {"$id": "relative.json"}))
    assert set(remotes) == {
        "http://localhost:1234/nested/a%20b.json",
        "http://example.com/a",
        "http://localhost:1234/true.json",
        "http://localhost:1234/relative.json",
    }


def test_a_folder_of_remotes_must_hold_schemas(write: Writer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_remotes(tmp_path / "absent")
    with pytest.raises(ConfigError, match="is no JSON schema"):
        read_remotes(write("list.json", json.dumps([1])))
