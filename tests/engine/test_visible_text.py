from hypothesis import given
from hypothesis import strategies as st

from sureact.visible_text import visible


@given(st.text())
def test_visible_text_cannot_steer_a_terminal(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    assert not any((ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160 for c in shown)


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["C"])))
def test_visible_text_keeps_what_is_harmless(text: str) -> None:
    assert visible(text + "\n\t") == text + "\n\t"
