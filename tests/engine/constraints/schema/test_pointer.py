import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.schema.pointer import child_pointer, resolve_local_ref


@given(st.lists(st.text(st.characters(exclude_characters="%", exclude_categories=["Cs"])), max_size=4))
def test_a_pointer_leads_back_to_what_it_was_made_for(names: list[str]) -> None:
    document: object = "here"
    for name in reversed(names):
        document = {name: document}
    assert resolve_local_ref(document, "#" + child_pointer("", *names)) == "here"


def test_steps_are_unescaped_once() -> None:
    document = {"$defs": {"a/b": 1, "~1": 2, "50%": 3}}
    assert [resolve_local_ref(document, f"#/$defs/{step}") for step in ("a~1b", "~01", "50%25")] == [1, 2, 3]


def test_a_number_is_an_index_into_a_list() -> None:
    assert resolve_local_ref({"anyOf": [True, False]}, "#/anyOf/1") is False


@pytest.mark.parametrize("ref", ["#anchor", "other.json#/a", "#/missing", "#/anyOf/x", "#/anyOf/7", "#/leaf/deeper"])
def test_a_reference_to_no_place_in_the_document_is_a_lookup_error(ref: str) -> None:
    with pytest.raises(LookupError):
        resolve_local_ref({"anyOf": [True], "leaf": 1}, ref)
