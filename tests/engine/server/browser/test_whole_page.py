"""What holds for all of the server's page: keys, the keyboard, widths and colors."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.engine.server.agent_servers import FINISH, add, step
from tests.engine.server.browser.watched_page import (
    VALUE,
    Open,
    Run,
    WatchedPage,
    answers,
    ended,
    open_tab,
    run_agent,
    say,
)
from tests.engine.server.http_servers import RunningServer
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.engine import Engine

pytestmark = pytest.mark.browser


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
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
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
    engine.say(VALUE)
    page.get_by_label("Request").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#value-verdict")).to_have_text("valid")


def test_the_place_is_kept_when_the_page_is_read_again(page: Page) -> None:
    open_tab(page, "Schema")
    page.reload()
    expect(page.get_by_role("textbox", name="Schema")).to_be_visible()
    expect(page.get_by_role("tab", name="Schema")).to_have_attribute("aria-selected", "true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 700, 1280])
def test_nothing_is_wider_than_the_screen_and_all_text_can_be_read(
    open_page: Open, agents: RunningServer, engine: ScriptedEngine, scheme: Any, width: int
) -> None:
    watched = open_page(agents, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = run_agent(watched, agents, [*step("fail", "d" * 300, reason="e" * 300), *FINISH])
    expect(page.locator("#steps .step").last).to_contain_text("Outputs (finish)")
    open_tab(page, "Chat")
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


@pytest.mark.model
def test_the_real_model_answers_on_every_tab(browser: Browser, model_folder: Path) -> None:
    with Engine(str(model_folder), quantization="int8", max_model_len=2048, kv_cache_gb=0.2) as engine:
        server = RunningServer(engine, tools=[add])
        try:
            watched = WatchedPage(browser.new_context(), server.address)
            page = watched.page
            page.set_default_timeout(120_000)
            page.get_by_label("Most tokens").fill("12")
            say(page, "Say hello.")
            ended(page).wait_for()
            assert answers(page).locator(".prose").inner_text()
            open_tab(page, "Schema")
            page.get_by_role("button", name="Run").click()
            page.locator("#value-verdict[data-verdict=valid]").wait_for()
            assert set(json.loads(page.locator("#value").inner_text())) == {"name", "age", "languages"}
            open_tab(page, "Agent")
            page.get_by_role("textbox", name="Question").fill("How much is 17 plus 25?")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="Outputs (").and_(page.get_by_text("(finish)")).wait_for()
            expect(page.locator("#steps .step").first).to_contain_text("add {")
            watched.check()
        finally:
            server.end()


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
