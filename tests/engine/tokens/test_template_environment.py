"""Templates run as in transformers, inside a sandbox."""

import pytest
from jinja2 import TemplateError

from sureact.tokens.template_environment import template_environment


def render(source: str, **variables: object) -> str:
    return template_environment().from_string(source).render(**variables)


def test_json_is_written_for_people_and_not_for_html() -> None:
    assert render("{{ x | tojson }}", x={"a": "<ä>"}) == '{"a": "<ä>"}'
    assert render("{{ x | tojson(indent=1) }}", x=[1]) == "[\n 1\n]"


def test_blocks_take_no_room_and_loops_can_be_left() -> None:
    assert render("  {% for i in [1, 2, 3] %}\n{{ i }}{% if i == 2 %}{% break %}{% endif %}\n{% endfor %}") == "12"


def test_a_generation_block_is_its_content() -> None:
    assert render("a{% generation %}b{{ x }}{% endgeneration %}d", x="c") == "abcd"


def test_a_template_can_refuse() -> None:
    with pytest.raises(TemplateError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


def test_a_template_can_ask_for_the_date() -> None:
    assert len(render("{{ strftime_now('%Y-%m-%d') }}")) == 10


def test_namespaces_and_dicts_work() -> None:
    assert render("{% set ns = namespace(n=1) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ dict(a=3).a }}") == "23"


@pytest.mark.parametrize(
    "source",
    [
        "{{ x.__class__.__mro__ }}",
        "{% set _ = x.append(1) %}",
        "{% set ns = namespace(_a=1) %}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ dict.__subclasses__() }}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(TemplateError):
        render(source, x=[])
