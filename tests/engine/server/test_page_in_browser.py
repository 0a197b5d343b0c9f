"""The server's page as a user has it: in Chromium, over a loopback port."""

import json
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.engine.server.browser import TIMEOUT_MS, WatchedPage, chromium
from tests.engine.server.http_servers import RunningServer
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, TOOLS

pytestmark = pytest.mark.browser

Open = Callable[..., WatchedPage]
Run = Callable[..., RunningServer]
HOSTILE = "<script>document.title='x'</script><img src=x onerror=alert(1)><b>bold</b>"
LONG = "All work and no play makes the model a dull one. " * 60
VALID = '{"name": "Ana", "age": 34, "languages": ["pt", "en"]}'


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    expect.set_options(timeout=TIMEOUT_MS)
    with chromium() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser, run_server: Run) -> Generator[Open]:
    """Opens the page of a server; at the end it must have asked that server alone, and told no error."""
    opened: list[WatchedPage] = []
    contexts: list[Any] = []

    def open_page(
        server: RunningServer | None = None, *, expected: set[int] | None = None, **options: Any
    ) -> WatchedPage:
        contexts.append(browser.new_context(**options))
        opened.append(WatchedPage(contexts[-1], (server or run_server()).address, expected or set()))
        return opened[-1]

    yield open_page
    for watched in opened:
        watched.check()
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: Open) -> Page:
    return open_page().page


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def answers(page: Page) -> Locator:
    return page.locator(".message:not(.user)")


def ended(page: Page) -> Locator:
    return page.locator("#messages .numbers").filter(has_text=re.compile("ended by itself|stopped|out of tokens|waits"))


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def test_a_chat_streams_and_tells_what_it_took(page: Page, engine: ScriptedEngine) -> None:
    engine.say("Hello there.\n```python\nprint(1)\n```\nDone.")
    expect(page.get_by_text("Ask the model something")).to_be_visible()
    say(page, "hi")
    expect(ended(page)).to_have_text(
        re.compile(r"^\d+ tokens · [\d.]+ tokens/s · 0 of \d+ prompt tokens cached · first after ")
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


def test_calls_are_shown_and_their_results_asked_for(page: Page, engine: ScriptedEngine) -> None:
    engine.say(f"Let me see.\n{CALL}")
    page.get_by_label("Tools").fill(json.dumps(TOOLS))
    say(page, "hi")
    expect(page.locator(".call pre").first).to_have_text('get_weather {"city": "Paris"}')
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
    page.get_by_label("Examples").select_option("Order")
    expect(verdict).to_have_text("The schema can be enforced.")


def test_a_value_is_judged_while_it_is_written(page: Page, engine: ScriptedEngine) -> None:
    open_tab(page, "Schema")
    seen: list[str] = []

    def see(text: str) -> None:  # playwright cannot hold a method of a list
        seen.append(text)

    page.expose_function("seen", see)
    page.evaluate("""new MutationObserver(() => seen(document.getElementById("value-verdict").textContent))
        .observe(document.getElementById("value-verdict"), { childList: true, characterData: true, subtree: true })""")
    engine.say(VALID)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#value-verdict")).to_have_text("valid")
    expect(page.locator("#value")).to_have_text(VALID)
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


def test_a_key_is_asked_for_and_kept_for_the_tab_alone(
    open_page: Open, run_server: Run, engine: ScriptedEngine, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a:key-of-many-characters-1\n")
    watched = open_page(run_server(api_keys=str(keys)), expected={401})
    page = watched.page
    field = page.get_by_label("Key", exact=True)
    expect(field).to_be_focused()
    expect(page.locator("#key-fault")).to_contain_text("This server asks for a key")
    field.fill("a-wrong-key-of-many")
    page.keyboard.press("Enter")
    expect(page.locator("#key-fault")).to_contain_text("none of this server's")
    field.fill("key-of-many-characters-1")
    page.keyboard.press("Enter")
    expect(field).to_be_hidden()
    expect(page.locator("#model")).to_have_text("tiny")
    engine.say("Yes.")
    say(page, "hi")
    expect(ended(page)).to_be_visible()
    page.reload()
    expect(page.locator("#model")).to_have_text("tiny")
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert "key-of-many" not in page.content()
    page.get_by_role("button", name="Forget key").click()
    expect(field).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_everything_is_done_by_keys_alone(page: Page, engine: ScriptedEngine) -> None:
    engine.say("Yes.")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    assert page.get_by_label("Message", exact=True).input_value() == "one\ntwo"
    page.keyboard.press("Enter")
    expect(ended(page)).to_be_visible()
    tab_order = "tab-chat chat-input chat-clear Send Settings chat-system chat-temperature chat-max-tokens"
    order: list[str] = []
    page.locator("#tab-chat").focus()
    for _ in range(8):
        order.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        page.keyboard.press("Tab")
    assert order == tab_order.split()
    page.locator("#tab-chat").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Schema")).to_be_focused()
    expect(page.get_by_role("textbox", name="Schema")).to_be_visible()
    engine.say(VALID)
    page.get_by_label("Request").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#value-verdict")).to_have_text("valid")


def test_the_place_is_kept_when_the_page_is_read_again(page: Page) -> None:
    open_tab(page, "Schema")
    page.reload()
    expect(page.get_by_role("textbox", name="Schema")).to_be_visible()
    expect(page.get_by_role("tab", name="Schema")).to_have_attribute("aria-selected", "true")


def test_that_the_server_is_gone_is_told(open_page: Open, run_server: Run) -> None:
    server = run_server()
    watched = open_page(server)
    watched.is_watching = False
    server.end()
    say(watched.page, "hi")
    expect(watched.page.get_by_role("alert").filter(has_text="The server cannot be reached.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 700, 1280])
def test_nothing_is_wider_than_the_screen_and_all_text_can_be_read(
    open_page: Open, engine: ScriptedEngine, scheme: Any, width: int
) -> None:
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme).page
    engine.say(f"{'a' * 300}\n```text\n{'b' * 300}\n```")
    say(page, "c" * 300)
    expect(ended(page)).to_be_visible()
    for name in ("Chat", "Schema", "Agent"):
        open_tab(page, name)
        sizes = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert sizes[0] <= sizes[1] == width, name
    for color in ("--fg", "--dim", "--accent", "--error", "--good"):
        assert contrast(page, color, "--bg") >= 4.5, color
    assert contrast(page, "--on-accent", "--accent") >= 4.5


def contrast(page: Page, front: str, back: str) -> float:
    """The contrast of two colors of the page, as the web's guidelines for access compute it."""
    texts: list[str] = page.evaluate(
        """names => names.map(name => {
            const probe = document.body.appendChild(document.createElement("i"));
            probe.style.color = `var(${name})`;
            const color = getComputedStyle(probe).color;
            probe.remove();
            return color;
        })""",
        [front, back],
    )
    luminances: list[float] = []
    for text in texts:
        parts = [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]
        red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        luminances.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)
