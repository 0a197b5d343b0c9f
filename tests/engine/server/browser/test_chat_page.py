"""Chats on the server's page."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.engine.server.browser.watched_page import HOSTILE, Open, Run, answers, ended, say
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, TOOLS

pytestmark = pytest.mark.browser

LONG = "All work and no play makes the model a dull one. " * 60


def test_a_chat_streams_and_tells_what_it_took(page: Page, engine: ScriptedEngine) -> None:
    engine.say(f"Hello there.\n```python\nprint(1)\n```\n{LONG[:300]}")
    expect(page.get_by_text("Ask the model something")).to_be_visible()
    say(page, "hi")
    expect(ended(page)).to_have_text(
        re.compile(r"^\d+\stokens · [\d.]+\stokens/s · 0\sof\s\d+\sprompt\stokens\scached · first\safter\s")
    )
    expect(page.locator(".message.user .body")).to_have_text("hi")
    expect(answers(page).locator(".prose").first).to_have_text("Hello there.")
    expect(answers(page).locator("pre")).to_have_text("print(1)")
    expect(page.get_by_text("Ask the model something")).to_be_hidden()
    expect(page).to_have_title("tiny · sureact")


def test_a_conversation_goes_on_and_can_be_cleared(page: Page, engine: ScriptedEngine) -> None:
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request.post_data_json) if "chat" in request.url else None)
    engine.say("First.")
    say(page, "one")
    expect(ended(page)).to_have_count(1)
    page.get_by_label("System message").fill("Be brief.")
    say(page, "two")
    expect(ended(page)).to_have_count(2)
    assert [(message["role"], message["content"]) for message in asked[-1]["messages"]] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "First."),
        ("user", "two"),
    ]
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".message")).to_have_count(0)
    expect(page.get_by_text("Ask the model something")).to_be_visible()
    say(page, "three")
    expect(ended(page)).to_have_count(1)
    assert len(asked[-1]["messages"]) == 2


def test_what_is_cleared_while_it_is_answered_is_gone(page: Page, engine: ScriptedEngine) -> None:
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request.post_data_json) if "chat" in request.url else None)
    engine.say(LONG)
    say(page, "one")
    expect(answers(page)).to_contain_text("All work")
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.locator(".message")).to_have_count(0)
    engine.say("Yes.")
    say(page, "two")
    expect(ended(page)).to_have_count(1)
    assert asked[-1]["messages"] == [{"role": "user", "content": "two"}]


def test_tokens_that_come_at_once_have_no_rate(open_page: Open) -> None:
    page = open_page().page
    chunk = {"choices": [{"delta": {"content": "Yes"}, "finish_reason": None}]}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}
    last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage}
    body = "".join(f"data: {data}\n\n" for data in (*[json.dumps(chunk)] * 3, json.dumps(last), "[DONE]"))
    page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    say(page, "hi")
    expect(ended(page)).to_contain_text(re.compile(r"^3\stokens · 0\sof\s9"))


@pytest.mark.parametrize("how", ["button", "escape"])
def test_an_answer_can_be_stopped(page: Page, engine: ScriptedEngine, how: str) -> None:
    engine.say(LONG)
    say(page, "hi")
    expect(answers(page)).to_contain_text("All work")
    if how == "button":
        page.get_by_role("button", name="Stop").click()
    else:
        page.keyboard.press("Escape")
    expect(ended(page)).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    text = answers(page).locator(".prose").inner_text()
    assert len(text) < len(LONG) - 10


def test_reasoning_is_folded(page: Page, engine: ScriptedEngine) -> None:
    engine.say("<think>\nLet me see.\n</think>\n\nForty-two.")
    say(page, "hi")
    expect(ended(page)).to_be_visible()
    expect(answers(page).locator("> .body > div .prose")).to_have_text("Forty-two.")
    thought = answers(page).get_by_text("Let me see.")
    expect(thought).to_be_hidden()
    page.get_by_text("Reasoning", exact=True).click()
    expect(thought).to_be_visible()
    say(page, "and then?")
    expect(ended(page)).to_have_count(2)


def test_calls_are_shown_and_their_results_asked_for(page: Page, engine: ScriptedEngine) -> None:
    engine.say(f"Let me see.\n{CALL}")
    page.get_by_label("Tools").fill(json.dumps(TOOLS))
    say(page, "hi")
    expect(page.locator(".call pre").first).to_have_text('get_weather {"city": "Paris"}')
    expect(ended(page)).to_have_text(re.compile(r"^\d+\stokens · \d+\sof"))
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    result = page.get_by_label("Result of get_weather")
    expect(result).to_be_focused()
    result.fill("It rains.")
    engine.say("Take an umbrella.")
    page.get_by_role("button", name="Send result").click()
    expect(answers(page).nth(1)).to_contain_text("Take an umbrella.")
    expect(page.locator(".call")).to_contain_text("It rains.")


def test_tools_that_are_no_json_are_told_while_they_are_edited(page: Page) -> None:
    page.get_by_label("Tools").fill('[{"type": ')
    expect(page.locator("#chat-tools-fault")).to_contain_text("This is not JSON")
    say(page, "hi")
    expect(page.get_by_role("alert").filter(has_text="This is not JSON")).to_be_visible()
    page.get_by_role("button", name="Example").click()
    expect(page.locator("#chat-tools-fault")).to_have_text("")
    assert json.loads(page.get_by_label("Tools").input_value())[0]["function"]["name"] == "get_weather"


def test_an_error_is_told_in_the_servers_words_and_the_request_can_be_made_again(
    open_page: Open, engine: ScriptedEngine
) -> None:
    page = open_page(expected={400}).page
    engine.say("Yes.")
    page.get_by_label("Most tokens").fill("100000")
    say(page, "hi")
    fault = page.locator("#messages").get_by_role("alert")
    expect(fault).to_contain_text(re.compile(r"the model takes 4,096 including max_tokens=100,000"))
    expect(fault).to_contain_text("context_length_exceeded")
    page.get_by_label("Most tokens").fill("")
    page.get_by_role("button", name="Try again").click()
    expect(ended(page)).to_be_visible()
    expect(fault).to_have_count(0)


def test_text_is_text_wherever_it_comes_from(page: Page, engine: ScriptedEngine) -> None:
    engine.say(f"{HOSTILE}\n```\n{HOSTILE}\n```")
    say(page, HOSTILE)
    expect(ended(page)).to_be_visible()
    assert answers(page).locator(".prose").inner_text() == HOSTILE
    assert answers(page).locator("pre").inner_text() == HOSTILE
    assert page.locator(".message.user .body").inner_text() == HOSTILE
    assert page.locator("script").count() == 1
    assert page.locator("main img, main b").count() == 0
    expect(page).to_have_title("tiny · sureact")


def test_control_characters_do_not_turn_or_hide_text(page: Page, engine: ScriptedEngine) -> None:
    engine.say("safe\u202eevil\x07")
    say(page, "hi")
    expect(answers(page).locator(".prose")).to_have_text("safe[U+202E]evil␇")


def test_that_the_server_is_gone_is_told(open_page: Open, run_server: Run) -> None:
    server = run_server()
    watched = open_page(server)
    watched.is_watching = False
    server.end()
    say(watched.page, "hi")
    expect(watched.page.get_by_role("alert").filter(has_text="The server cannot be reached.")).to_be_visible()
