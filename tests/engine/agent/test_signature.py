import copy
import datetime
from typing import Any, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.signature import InputField, OutputField, Signature
from sureact.errors import SignatureError


class Ask(Signature):
    """Answer briefly.

    Use the archive.
    """

    question: str = InputField(desc="what the user wants to know")
    k: int = InputField()
    answer: str = OutputField(desc="one sentence")
    day: datetime.date = OutputField()


class Unmarked(Signature):
    question: str = InputField()
    answer: str


def types(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: field.annotation for name, field in fields.items()}


def test_text_gives_typed_fields_in_order():
    signature = Signature("question: str, k: int -> answer, sources: list[str]")
    assert list(types(signature.inputs).items()) == [("question", str), ("k", int)]
    assert list(types(signature.outputs).items()) == [("answer", str), ("sources", list[str])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Literal['a', -1, None]", Literal["a", -1, None]),
        ("Optional[dict[str, list[int]]]", Optional[dict[str, list[int]]]),  # noqa: UP045
        ("int | None", Union[int, None]),  # noqa: UP007
        ("tuple[int, str]", tuple[int, str]),
        ("date", datetime.date),
        ("Any", Any),
    ],
)
def test_text_types_are_read(text: str, expected: object):
    assert types(Signature(f"q -> a: {text}").outputs) == {"a": expected}


def test_class_gives_fields_descriptions_and_instructions():
    signature = Signature.of(Ask)
    assert types(signature.inputs) == {"question": str, "k": int}
    assert signature.inputs["question"].desc == "what the user wants to know"
    assert types(signature.outputs) == {"answer": str, "day": datetime.date}
    assert signature.instructions == "Answer briefly.\n\nUse the archive."


def test_instructions_default_to_the_field_names():
    assert Signature("q, k -> a").instructions == "Given `q`, `k`, give `a`."
    assert Signature("-> a").instructions == "Give `a`."
    assert Signature("q -> a", "Think.").instructions == "Think."


@pytest.mark.parametrize(
    "text",
    [
        "question",
        "a -> b -> c",
        "question ->",
        "trajectory -> a",
        "max_iters -> a",
        "q -> trajectory",
        "q -> reasoning",
        "q -> usage",
        "q -> termination_reason",
        "q -> get_lm_usage",
        "q -> set_lm_usage",
        "q -> keys",
        "q -> _values",
        "q -> _lm_usage",
        "q -> __dict__",
        "self -> a",
        "q, q -> a",
        "q -> a, a",
        "q -> q",
        "q: Widget -> a",
        "q: __import__('os') -> a",
        "q=1 -> a",
        "*q -> a",
        "1 -> a",
        "q -> a b",
        "q: str[int] -> a",
        "q: int[3] -> a",
        "q: Optional[int, str] -> a",
        "q: 1 | 2 -> a",
        "q: 'ab'[5] -> a",
        "q: (int,)[0] -> a",
        "q: dict[int] -> a",
        "q: Literal -> a",
        "q: 5 -> a",
    ],
)
def test_what_cannot_be_a_signature_is_refused(text: str):
    with pytest.raises(SignatureError):
        Signature(text)


@pytest.mark.parametrize("signature", [None, 3, int, ["q -> a"], object()])
def test_what_is_no_signature_is_refused(signature: Any):
    with pytest.raises(SignatureError, match="it must be a text, such as 'question -> answer: str'"):
        Signature.of(signature)


def test_a_class_field_without_marker_is_refused():
    with pytest.raises(SignatureError, match="neither InputField"):
        Signature.of(Unmarked)


class Unreadable(Signature):
    question: "list[" = InputField()  # pyright: ignore # noqa: F722
    answer: str = OutputField()


def test_a_class_with_an_annotation_that_cannot_be_read_is_refused():
    with pytest.raises(SignatureError, match="Unreadable"):
        Signature.of(Unreadable)


def test_inputs_are_converted_and_ordered():
    signature = Signature("day: date, k: int -> a")
    assert list(signature.check_inputs({"k": 2, "day": "2024-01-02"}).items()) == [
        ("day", datetime.date(2024, 1, 2)),
        ("k", 2),
    ]


@pytest.mark.parametrize("values", [{}, {"q": "x", "extra": 1}, {"q": ["x"]}])
def test_inputs_that_do_not_fit_are_refused(values: dict[str, object]):
    with pytest.raises(SignatureError):
        Signature("q: str -> a").check_inputs(values)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_signature_error(text: str):
    try:
        signature = Signature(text)
    except SignatureError:
        return
    assert signature.outputs


def test_instructions_and_descriptions_change_in_a_copy():
    signature = Signature.of(Ask)
    changed = signature.with_instructions("Answer at length.").with_descriptions({"answer": "a page"})
    assert (changed.instructions, changed.outputs["answer"].desc) == ("Answer at length.", "a page")
    assert types(changed.fields) == types(signature.fields)
    assert (signature.instructions[:15], signature.outputs["answer"].desc) == ("Answer briefly.", "one sentence")
    with pytest.raises(SignatureError, match="There is no field `nswer`; there are `question`"):
        signature.with_descriptions({"nswer": ""})


def test_a_copy_of_a_signature_is_itself():
    signature = Signature.of(Ask)
    assert copy.deepcopy([signature])[0] is signature
