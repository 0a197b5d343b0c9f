import json

import pytest
from jsonschema import Draft202012Validator

from sureact.constraints.byte_matcher import matches_grammar
from sureact.constraints.schema.format_patterns import FORMAT_PATTERNS, INEXACT_FORMATS
from sureact.constraints.schema.keywords import ASSERTED_FORMATS

VALID = {
    "date": ["2024-02-29", "1999-12-31"],
    "time": ["10:00:00Z", "23:59:59.5+05:30"],
    "date-time": ["2024-02-29T10:00:00Z", "1990-12-31t15:59:50.123-08:00"],
    "duration": ["P4DT12H30M5S", "P1Y2D", "PT0.5S", "PT1H5S", "P2W", "P1M"],
    "email": ["a.b+c@example.com", '"joe bloggs"@example.com', "joe@[127.0.0.1]", "a@[IPv6:::1]"],
    "hostname": ["a", "www.example.com", "xn--4gbwdl.xn--wgbh1c", "example.com.", "a" * 63],
    "ipv4": ["0.0.0.0", "255.255.255.255"],
    "ipv6": ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "::ffff:192.168.0.1"],
    "uri": [
        "http://a.b/c?d=e#f",
        "mailto:a@b.c",
        "urn:a:b",
        "http://[::ffff:1.2.3.4]:80/",
        "a:",
        "file:///x",
        "tel:+1",
    ],
    "uri-reference": ["//a.b/c", "/a", "a/b?c", "#d", "", "http://a.b"],
    "json-pointer": ["", "/a~0b/~1", "/é"],
    "relative-json-pointer": ["0", "1#", "12/a"],
    "uuid": ["2eb8aa08-AA98-11ea-b4aa-73b441d16380"],
}
INVALID = {
    "date": ["2023-02-29", "0000-01-01", "2024-1-1", "2024-02-30"],
    "time": ["10:00:60Z", "24:00:00Z", "10:00:00"],
    "date-time": ["2024-02-29 10:00:00Z", "2023-02-29T10:00:00Z"],
    "duration": ["P", "PT", "P1", "P1D1Y", "P1Y2W", "4DT12H"],
    "email": ["", "2962", "a b"],
    "hostname": ["", "-a.b", "a-.b", "a_b", "a" * 64, "a..b"],
    "ipv4": ["256.1.1.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"],
    "ipv6": ["1:2:3:4:5:6:7", "12345::", "1::2::3", "::1.2.3", "1:2:3:4:5:6:7:1.2.3.4", "fe80::a%1", ":1"],
    "uri": ["//a.b", "abc", "http:// a", "http://a/%zz", "http://a#b#c", "http://é"],
    "uri-reference": ["a b", "#a#b", "\\\\a"],
    "json-pointer": ["a", "/~", "/~2"],
    "relative-json-pointer": ["", "01", "/a", "-1"],
    "uuid": ["2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638g"],
}


def matches(name: str, text: str) -> bool:
    from llguidance import LLMatcher

    grammar = LLMatcher.grammar_from_json_schema({"type": "string", "pattern": FORMAT_PATTERNS[name]})
    return matches_grammar(grammar, json.dumps(text, ensure_ascii=False))


def test_every_pattern_is_tried_and_of_an_asserted_format() -> None:
    assert FORMAT_PATTERNS.keys() == VALID.keys() == INVALID.keys()
    assert FORMAT_PATTERNS.keys() <= ASSERTED_FORMATS
    assert FORMAT_PATTERNS.keys() > INEXACT_FORMATS


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in VALID.items() for text in texts])
def test_what_the_judge_takes_matches(name: str, text: str) -> None:
    assert Draft202012Validator.FORMAT_CHECKER.conforms(text, name)
    assert matches(name, text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in INVALID.items() for text in texts])
def test_what_the_judge_refuses_does_not(name: str, text: str) -> None:
    assert not matches(name, text)


def test_what_a_pattern_admits_though_the_judge_refuses_it_is_told() -> None:
    long = ".".join(["a" * 60] * 5)
    assert matches("hostname", long)
    assert not Draft202012Validator.FORMAT_CHECKER.conforms(long, "hostname")
    assert "hostname" in INEXACT_FORMATS
