"""Schemas on the server's page."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.engine.server.browser.watched_page import VALUE, Open, open_tab
from tests.engine.server.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser


def test_a_schema_is_checked_while_it_is_edited(open_page: Open) -> None:
    page = open_page(expected={400}).page
    open_tab(page, "Schema")
    field, verdict = page.get_by_role("textbox", name="Schema"), page.locator("#schema-verdict")
    expect(verdict).to_have_text("The schema can be enforced.")
    field.fill('{"properties": {"a": {"type": "strin"}}}')
    expect(verdict).to_contain_text("Not a valid JSON schema at /properties/a/type")
    field.fill('{"properties": {"b": {"pattern": "(a)\\\\1"}}}')
    expect(verdict).to_contain_text("at /properties/b/pattern · ")
    field.fill('{"type": ')
    expect(verdict).to_contain_text("This is not JSON")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill('{"type": "integer"}')
    expect(verdict).to_have_text("The schema can be enforced.")
    field.fill("")
    expect(verdict).to_contain_text("take an example")
    example = page.get_by_label("Examples")
    expect(example.locator("option:checked")).to_have_text("Own")
    example.select_option("Contact")
    expect(verdict).to_have_text("The schema can be enforced.")
    assert "languages" in field.input_value()


def test_a_value_is_judged_while_it_is_written(page: Page, engine: ScriptedEngine) -> None:
    open_tab(page, "Schema")
    seen: list[str] = []

    def see(text: str) -> None:  # playwright cannot hold a method of a list
        seen.append(text)

    page.expose_function("seen", see)
    page.evaluate("""new MutationObserver(() => seen(document.getElementById("value-verdict").textContent))
        .observe(document.getElementById("value-verdict"), { childList: true, characterData: true, subtree: true })""")
    engine.say(VALUE)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#value-verdict")).to_have_text("valid")
    expect(page.locator("#value")).to_have_text(VALUE)
    expect(page.locator("#value-numbers")).to_contain_text("ended by itself")
    assert [text for text in seen if text][-1] == "valid"
    assert "valid so far" in seen


def test_what_breaks_the_schema_is_marked_where_it_does(page: Page, engine: ScriptedEngine) -> None:
    open_tab(page, "Schema")
    page.get_by_label("Hold the answer to the schema").uncheck()
    engine.say('{"name": "Ana", "age": 7, "languages": ["pt"]}')
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#value-verdict")).to_have_text("invalid")
    expect(page.locator("#value-faults")).to_have_text(re.compile("^/age 7 is less than the minimum of 18"))
    engine.say("Sure: {}")
    page.get_by_label("Request").press("Enter")
    expect(page.locator("#value-verdict")).to_have_text("invalid from character 1 on")
    expect(page.locator("#value .beyond")).to_have_text("Sure: {}")


def test_the_mark_counts_characters_as_the_server_does(page: Page, engine: ScriptedEngine) -> None:
    open_tab(page, "Schema")
    page.get_by_label("Hold the answer to the schema").uncheck()
    engine.say('{"name": "😀😀", "zip": 1}')
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#value .beyond")).to_have_text('zip": 1}')


def test_a_value_is_judged_again_when_the_schema_is_edited(page: Page, engine: ScriptedEngine) -> None:
    open_tab(page, "Schema")
    engine.say(VALUE)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#value-verdict")).to_have_text("valid")
    expect(page.locator("#value-numbers")).to_contain_text("ended")
    page.get_by_role("textbox", name="Schema").fill('{"properties": {"age": {"maximum": 30}}}')
    expect(page.locator("#value-faults")).to_have_text("/age 34 is greater than the maximum of 30")
    expect(page.locator("#value-verdict")).to_have_text("invalid")
