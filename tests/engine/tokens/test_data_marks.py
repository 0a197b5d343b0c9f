"""Stand-ins hide data from a template and bring it back where the template put it."""

from hypothesis import given
from hypothesis import strategies as st

from sureact.tokens.data_marks import DataMarks, data_texts

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
)


@given(value=json_values)
def test_what_was_hidden_is_revealed(value: object) -> None:
    marks = DataMarks()
    assert marks.reveal(marks.hide(value)) == value


@given(text=st.text())
def test_a_rendered_text_is_split_into_template_and_data(text: str) -> None:
    marks = DataMarks()
    parts = list(marks.split(f"[{marks.hide_text(text)}]"))
    assert "".join(part for part, _ in parts) == f"[{text}]"
    assert [part for part, is_template in parts if not is_template] == ([text.strip()] if text.strip() else [])


def test_roles_and_types_are_words_of_the_format() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    hidden = DataMarks().hide(message)
    assert hidden["role"] == "user"
    assert hidden["content"][0]["type"] == "text"
    assert "hi" not in str(hidden["content"])
    assert list(data_texts(message)) == ["hi"]


def test_white_space_stays_outside_for_templates_that_trim() -> None:
    hidden = DataMarks().hide_text(" \nhi\t")
    assert hidden.startswith(" \n\ue000")
    assert hidden.endswith("\ue001\t")
