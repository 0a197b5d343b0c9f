import pytest

from sureact.constraints.schema.misspelling import meant_keyword


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("minimun", "minimum"),
        ("requried", "required"),
        ("propertie", "properties"),
        ("item", "items"),
        ("oneof", "oneOf"),
        ("additionalProps", None),
        ("color", None),
        ("nots", "not"),
        ("descripton", None),
        ("x" * 100_000, None),
    ],
)
def test_only_what_is_one_letter_off_is_taken_for_a_slip(written: str, meant: str | None) -> None:
    assert meant_keyword(written) == meant
