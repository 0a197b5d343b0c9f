"""Agents on the server's page."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.engine.server.agent_servers import FINISH, step
from tests.engine.server.browser.watched_page import HOSTILE, Open, Run, open_tab, run_agent
from tests.engine.server.http_servers import RunningServer

pytestmark = pytest.mark.browser


def test_a_run_shows_each_step_and_the_outputs(open_page: Open, agents: RunningServer) -> None:
    script = [*step("add", HOSTILE, a=40), *step("fail", reason=HOSTILE), *FINISH]
    page = run_agent(open_page(agents), agents, script)
    expect(page.locator(".asked")).to_have_text("How much?")
    cards = page.locator("#steps .step")
    expect(cards.last).to_contain_text("Outputs (finish)")
    assert cards.locator("h3").all_inner_texts() == ["Step 1", "Step 2", "Step 3", "Outputs (finish)"]
    assert cards.nth(0).locator(".label").all_inner_texts() == ["Thought", "Call", "Observation"]
    assert cards.nth(0).locator(".text").all_inner_texts() == [HOSTILE, 'add {"a":40}', "42"]
    assert cards.nth(1).locator(".label").all_inner_texts() == ["Thought", "Call", "Error"]
    expect(cards.nth(1).locator(".text.error")).to_contain_text(HOSTILE)
    expect(cards.nth(3)).to_contain_text('"answer": "42"')
    expect(cards.nth(3).locator(".numbers")).to_have_text(
        re.compile(r"^\d+\stokens · .*\sprompt\stokens\scached · .*tools\s")
    )
    expect(page.locator(".cursor")).to_have_count(0)
    assert page.locator("main img, main b").count() == 0
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("Let an agent answer")).to_be_visible()


def test_a_call_is_shown_while_its_tool_works_and_can_be_stopped(open_page: Open, agents: RunningServer) -> None:
    page = run_agent(open_page(agents), agents, [*step("add", a=1), *step("slow"), *FINISH])
    card = page.locator("#steps .step").nth(1)
    expect(card.locator(".text").nth(1)).to_have_text("slow {}")
    expect(card).to_contain_text("The tool works …")
    page.keyboard.press("Escape")
    expect(page.locator("#steps > div > .numbers")).to_have_text("Stopped.")
    expect(page.get_by_role("button", name="Run")).to_be_visible()


def test_what_is_cleared_while_it_runs_is_gone(open_page: Open, agents: RunningServer) -> None:
    page = run_agent(open_page(agents), agents, [*step("slow"), *FINISH])
    expect(page.locator("#steps .step")).to_contain_text("The tool works …")
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("button", name="Run")).to_be_visible()
    expect(page.get_by_text("Let an agent answer")).to_be_visible()
    assert page.locator("#steps").inner_text() == ""


def test_a_call_that_is_taken_back_is_told(open_page: Open, agents: RunningServer) -> None:
    again = step("add", a=1)
    script = [*again, *again, 'Action: fail\nArguments: {"reason": "x"}\n', *FINISH]
    page = run_agent(open_page(agents), agents, script)
    card = page.locator("#steps .step").nth(1)
    expect(card).to_contain_text('Taken back, since it repeats an earlier call: add {"a":1}')
    expect(card.locator(".text").nth(1)).to_have_text('fail {"reason":"x"}')


def test_the_tools_of_a_run_can_be_chosen(open_page: Open, agents: RunningServer) -> None:
    watched = open_page(agents)
    asked: list[Any] = []
    watched.page.on("request", lambda request: asked.append(request.post_data_json) if "run" in request.url else None)
    open_tab(watched.page, "Agent")
    watched.page.get_by_label("fail").uncheck()
    watched.page.get_by_label("Most steps").fill("3")
    run_agent(watched, agents, [*step("add", a=1), *FINISH])
    expect(watched.page.locator("#steps .step").last).to_contain_text("Outputs (finish)")
    assert asked == [{"question": "How much?", "max_iters": 3, "tools": ["add", "slow"], "stream": True}]


def test_without_tools_it_is_told_how_to_start_the_server(open_page: Open) -> None:
    page = open_page(expected={404}).page
    open_tab(page, "Agent")
    expect(page.locator("#agent-hint")).to_contain_text("Start it with `sureact serve --tools FILE.py`")
    expect(page.get_by_role("button", name="Run")).to_be_disabled()


def test_no_tools_are_announced_before_there_is_a_key(open_page: Open, run_server: Run, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a:key-of-many-characters-1\n")
    page = open_page(run_server(api_keys=str(keys)), expected={401, 404}).page
    open_tab(page, "Agent")
    expect(page.get_by_label("Most steps")).to_be_visible()
    expect(page.locator("#agent-tools")).to_be_hidden()
    page.get_by_label("Key", exact=True).fill("key-of-many-characters-1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Question")).to_be_focused()
    expect(page.locator("#agent-hint")).to_contain_text("--tools")
