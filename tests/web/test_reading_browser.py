"""The pages of a run in real Chromium: they fill while somebody looks, sort, copy, and go by the keyboard."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.conftest import ROOT
from tests.helpers.examples import copied_example
from tomserve.web.app import make
from tomserve.web.settings import Settings

PATIENCE = 120_000
"""Milliseconds that a part of a page may take to come."""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Any) -> Iterator[Any]:
    """A page of a browser that is let into a workbench with one run. Whatever goes wrong in it is a failure."""
    monkeypatch.setenv("TOMSERVE_CONTENT", str(ROOT))
    copied_example(tmp_path / "runs")
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = make(Settings(port=listener.getsockname()[1]))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until = time.monotonic() + PATIENCE / 1000
    while not server.started:
        assert time.monotonic() < until
        time.sleep(0.01)
    context = browser.new_context(base_url=base, permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(PATIENCE)
    found, wrong = context.new_page(), []
    found.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.goto(f"/compare?token={app.state.access.token}")
    yield found
    context.close()
    server.should_exit = True
    thread.join(30)
    listener.close()
    assert wrong == []


def overflow(page: Any) -> int:
    """How many pixels of the page stand beside the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def test_the_panels_come_while_somebody_looks_and_their_tables_sort_and_copy(page: Any) -> None:
    page.goto("/run/example")
    page.wait_for_selector("#verdicts")
    table = page.locator("#table-accuracy")
    heading = table.locator("th button").first
    heading.click()
    assert table.locator("th").first.get_attribute("aria-sort") == "ascending"
    table.get_by_role("button", name="Copy as CSV").click()
    table.get_by_text("Copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("run,") or "," in copied.splitlines()[0]
    page.goto("/run/example#table-chains")
    page.wait_for_selector("#table-chains[open]")


@pytest.mark.parametrize("width", [360, 2000])
def test_no_page_is_wider_than_the_window(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/run/example")
    page.wait_for_selector("#verdicts")
    assert overflow(page) <= 0
    page.goto("/answers/example")
    page.wait_for_selector("table.list tbody a")
    assert overflow(page) <= 0
    page.locator("table.list tbody a").first.click()
    page.wait_for_selector("#h-story")
    assert overflow(page) <= 0
    page.goto("/compare?a=example&sa=vanilla&sb=cot")
    page.wait_for_selector("#flips table a")
    assert overflow(page) <= 0
    page.locator("#flips table a").first.click()
    page.wait_for_selector(".sides table")
    assert overflow(page) <= 0


def test_a_list_of_answers_goes_by_the_keyboard(page: Any) -> None:
    page.goto("/answers/example?outcome=wrong")
    page.wait_for_selector("table.list tbody a")
    second = page.locator("table.list tbody a").nth(1).text_content()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#h-story")
    assert page.locator("h1").text_content() == second
    page.get_by_role("link", name="After →").press("Enter")
    page.locator("h1", has_not_text=str(second)).wait_for()
    page.get_by_role("link", name="Answers").press("Enter")
    page.wait_for_selector("#list")
    assert "outcome=wrong" in page.url


def test_filters_work_without_scripts(page: Any, browser: Any) -> None:
    page.goto("/answers/example")
    page.wait_for_selector("table.list tbody a")
    plain = browser.new_context(
        java_script_enabled=False,
        base_url=page.url.partition("/answers")[0],
        storage_state=page.context.storage_state(),
    )
    other = plain.new_page()
    other.goto("/answers/example")
    other.get_by_label("Outcome").select_option("wrong")
    other.get_by_role("button", name="Show").click()
    assert "74 of 352 answers" in other.inner_text("main")
    other.get_by_role("link", name="Next").first.click()
    assert other.locator("table.list tbody tr").count() == 24
    plain.close()
