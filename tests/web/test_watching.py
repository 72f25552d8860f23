"""Watching experiments in a real browser: a run that a terminal has started, the queue, and a form by keyboard alone."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conftest import ROOT, Endpoint, running
from tests.helpers.command import TOMSERVE, environment
from tests.helpers.served import Served, served
from tomserve.api import experiments
from tomserve.api.experiments import Experiment
from tomserve.content.places import runs_root
from tomserve.web import cards
from tomserve.web.cards import State
from tomserve.web.people import Person

PATIENCE = 120_000
"""Milliseconds that are waited for what has to come, on a busy machine."""

ANYBODY = Person()


@pytest.fixture
def bench() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture
def page(bench: Served, browser: Any) -> Iterator[Any]:
    """A page of somebody who has been let in; whatever the browser complains of fails the test."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    found = context.new_page()
    said: list[str] = []
    found.on("console", lambda message: said.append(message.text))
    found.on("pageerror", lambda error: said.append(str(error)))
    found.goto(bench.opened)
    yield found
    context.close()
    lost = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    assert [text for text in said if not any(one in text for one in (*lost, "[object Event]", "htmx:"))] == []


@pytest.fixture
def slow() -> Iterator[Endpoint]:
    """An endpoint whose loop is begun in a thread of its own, as the browser's has the one of this."""
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        yield pool.submit(stack.enter_context, running()).result()
        pool.submit(stack.close).result()


def eventually(page: Any, holds: Callable[[], bool]) -> None:
    """Wait until something holds, while the page goes on."""
    until = time.monotonic() + PATIENCE / 1000
    while not holds():
        assert time.monotonic() < until
        page.wait_for_timeout(50)


def done(page: Any) -> int:
    """How many answers the page counts."""
    return int(page.locator("[sse-swap=now] .progress span").inner_text().split()[0].replace(",", ""))


def grown(page: Any, beyond: int) -> int:
    """How many answers the page counts once these are more than before."""
    eventually(page, lambda: done(page) > beyond)
    return done(page)


def test_a_terminals_run_is_watched_and_the_connection_may_be_lost(bench: Served, page: Any, slow: Endpoint) -> None:
    slow.delay = 0.25
    command = ["eval", "--base-url", slow.url, "--benchmark", "perturbed", "--run", "pilot/slow", "--no-report"]
    process = subprocess.Popen(
        [*TOMSERVE, *command, "--strategy", "vanilla", "--concurrency", "1", "--limit", "1000"],
        env=environment(runs_root()),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + PATIENCE / 1000
        while not (runs_root() / "pilot/slow/manifest.json").exists():
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.1)
        page.goto(f"{bench.url}/live/pilot/slow", wait_until="domcontentloaded")
        page.wait_for_selector(".badge.running")
        first = grown(page, 0)
        assert grown(page, first) > first
        assert page.locator("[sse-swap=answers] tbody tr").count() >= 1
        assert "left to ask" in page.locator("[sse-swap=log]").inner_text()
        assert "Ctrl-C in its terminal" in page.locator("[sse-swap=actions]").inner_text()
        bench.stop()
        page.wait_for_selector("#connection:not([hidden])")
        assert "is lost" in page.locator("#connection").inner_text()
        before = done(page)
        bench.start()
        page.wait_for_selector("#connection.back")
        assert grown(page, before) > before
        slow.delay = 0.0
        page.wait_for_selector(".badge.complete")
        assert page.locator("[sse-swap=now] .progress span").inner_text() == "1,000 of 1,000 (100%)"
        page.wait_for_selector("[sse-swap=actions] a.button.primary >> text=Results")
        assert process.wait(120) == 0
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.wait_for_timeout(3000)  # a stream that had not ended would be asked for again by now
        assert requests == []
    finally:
        process.kill()
        process.wait()


def tab_to(page: Any, selector: str) -> None:
    """Go on by the tabulator until that element is in focus."""
    for _ in range(400):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached by the keyboard")


def test_a_new_experiment_by_keyboard_alone(page: Any, bench: Served, slow: Endpoint) -> None:
    slow.models = ["tiny", "other"]
    tab_to(page, 'nav a[href="/new"]')
    page.keyboard.press("Enter")
    page.wait_for_selector("#new")
    tab_to(page, "input[name=source]")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.locator("input[name=source][value=endpoint]").is_checked()
    tab_to(page, "#base_url")
    page.keyboard.type(slow.url)
    tab_to(page, "#models button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#models code >> text=other")
    page.focus("#base_url")
    tab_to(page, "#model")
    page.keyboard.type("tiny")
    tab_to(page, "#benchmark")
    page.keyboard.type("perturbed: ")
    tab_to(page, "input[name=strategy][value=vanilla]")
    page.keyboard.press("Space")
    tab_to(page, "#limit")
    page.keyboard.type("x-1")
    page.wait_for_selector("#plan")
    page.keyboard.press("Control+a")
    page.keyboard.type("0")
    page.wait_for_selector("#limit-error >> text=at least 1")
    assert page.get_attribute("#limit", "aria-invalid") == "true"
    page.keyboard.press("Control+a")
    page.keyboard.type("8")
    page.wait_for_selector("#plan strong >> text=8")
    page.wait_for_selector("#limit-error:empty", state="attached")
    assert page.get_attribute("#limit", "aria-invalid") is None
    assert "limit: 8" in page.locator("#yaml-text").inner_text()
    tab_to(page, "#run")
    page.keyboard.type("by/keyboard")
    tab_to(page, "button.primary")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{bench.url}/live/by/keyboard")
    page.wait_for_selector(".badge.queued")
    found = experiments.read(runs_root() / "by/keyboard" / experiments.FILE)
    assert (found.model, found.benchmark, found.strategy, found.limit) == ("tiny", "perturbed", ("vanilla",), 8)


def submit(bench: Served, *names: str) -> None:
    assert bench.app is not None
    for name in names:
        experiment = Experiment(run=name, base_url=("http://127.0.0.1:9/v1",), benchmark="perturbed")
        bench.app.state.workbench.queue.submit(experiment, ANYBODY)


def order(page: Any) -> list[str]:
    return [text.strip() for text in page.locator("#queue section:first-of-type .run-name").all_inner_texts()]


def test_the_queue_changes_in_place_and_keeps_the_focus(page: Any, bench: Served) -> None:
    submit(bench, "a", "b", "c")
    page.goto(f"{bench.url}/queue")
    page.focus("#up-c")
    page.keyboard.press("Enter")
    eventually(page, lambda: order(page) == ["a", "c", "b"])
    assert page.evaluate("document.activeElement.id") == "up-c"
    submit(bench, "d")  # somebody else; it appears by itself
    page.wait_for_selector("#queue >> text=4 queued.")
    assert page.evaluate("document.activeElement.id") == "up-c"
    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.click("#cancel-b")
    assert asked
    assert "What was answered is kept" in asked[0]
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("#cancel-d")
    page.wait_for_selector("#retry-d")
    states = {name: job.state for name in "bd" if (job := cards.read(runs_root() / name).job) is not None}
    assert states == {"b": State.QUEUED, "d": State.CANCELLED}
    assert page.url.endswith("/queue")


def test_a_live_page_pauses_and_cancels_what_is_in_the_queue(page: Any, bench: Served) -> None:
    submit(bench, "a")
    page.goto(f"{bench.url}/live/a", wait_until="domcontentloaded")
    page.click("#pause-a")
    page.wait_for_selector(".badge.paused")
    page.click("#resume-a")
    page.wait_for_selector(".badge.queued")
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("#cancel-a")
    page.wait_for_selector(".badge.cancelled")
    page.wait_for_selector("#retry-a")


def test_all_of_it_works_without_scripts(bench: Served, browser: Any) -> None:
    shutil.copytree(ROOT / "runs/example", runs_root() / "example")
    submit(bench, "a", "b")
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    try:
        page = context.new_page()
        page.goto(bench.opened)
        page.fill("#f-text", "exam")
        page.click("form.filters button")
        page.wait_for_url(re.compile("text=exam"))
        assert page.locator("#runs tbody tr").count() == 1
        page.check("input[name=run]")
        page.click("text=Compare the chosen")
        page.wait_for_url(re.compile(r"/compare\?a=example$"))
        page.goto(f"{bench.url}/queue")
        page.click("#last-a")
        page.locator("#queue section:first-of-type .run-name").first.filter(has_text="b").wait_for()
        assert order(page) == ["b", "a"]
        page.goto(f"{bench.url}/new")
        page.check("input[name=source][value=endpoint]")
        page.fill("#base_url", "http://127.0.0.1:9/v1")
        page.select_option("#benchmark", "perturbed")
        page.fill("#limit", "0")
        page.locator("#new button:not(.hidden-label) >> text=Show the plan").click()
        page.locator("#limit-error", has_text="at least 1").wait_for()
        page.fill("#limit", "6")
        page.fill("#run", "plain")
        page.click("button.primary")
        page.wait_for_url(f"{bench.url}/live/plain")
        assert page.locator(".badge.queued").count() == 1
        page.click("#cancel-plain")
        page.locator(".badge.cancelled").wait_for()
    finally:
        context.close()


def test_the_dashboard_follows_by_itself(page: Any, bench: Served) -> None:
    assert "There are no runs yet" in page.locator("main").inner_text()
    submit(bench, "later")
    page.wait_for_selector("#now >> text=later")
