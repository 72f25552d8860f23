"""A person's whole way in a real browser: a new experiment, watching it, an item, a second run, comparing, exporting."""

import csv
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Endpoint, completion, fill
from tests.helpers.browsing import PATIENCE, Started, Visitor, beside, visiting
from tests.helpers.command import TOMSERVE, environment

pytestmark = pytest.mark.system
QUESTIONS = 16
"""How many questions an experiment asks."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start workbenches of one folder; they are ended at the end of the test."""
    begun: list[Started] = []

    def starting(*arguments: str, port: int = 0) -> Started:
        begun.append(Started(tmp_path / "runs", *arguments, port=port))
        return begun[-1]

    yield starting
    for one in begun:
        if one.process.returncode is None:
            one.end()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with beside() as server:
        server.delay = 0.05
        yield server


def sometimes(body: dict[str, Any], number: int) -> dict[str, Any] | None:
    """Every third reply answers the first choice, the others the last one."""
    if "response_format" not in body:  # what the preflight asks
        return None
    schema = body["response_format"]["json_schema"]["schema"]
    answer = schema["properties"]["answer"]["enum"]
    told = orjson.loads(fill(schema))
    return completion(orjson.dumps({**told, "answer": answer[-1 if number % 3 else 0]}).decode(), body["model"])


def experiment(who: Visitor, name: str, endpoint: Endpoint, strategy: str = "vanilla") -> None:
    """Fill in the form of a new experiment, with mouse and keyboard, and start it."""
    page = who.page
    who.open(f"/new?benchmark=perturbed&strategy={strategy}")
    page.get_by_label("API endpoint").check()
    page.get_by_label("Base URL", exact=True).fill(endpoint.url)
    page.get_by_label("Limit").focus()
    page.keyboard.type(str(QUESTIONS))
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Start", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/live/{name}")


def done(who: Visitor, name: str) -> None:
    who.page.get_by_role("link", name="Results").wait_for()
    who.page.wait_for_function("() => /complete|done/.test(document.querySelector('main').innerText)")
    who.page.get_by_role("link", name="Results").first.click()
    who.page.wait_for_url(f"**/run/{name}")
    who.settled()


def test_a_person_asks_watches_looks_compares_and_exports_while_a_reader_looks(
    browser: Any, start: Callable[..., Started], endpoint: Endpoint, tmp_path: Path
) -> None:
    for name, role in (("ada", "runner"), ("eve", "reader")):
        subprocess.run(
            [*TOMSERVE, "web", "--add-user", name, "--role", role], env=environment(tmp_path / "runs"),
            input=f"the password of {name}\n", text=True, check=True, capture_output=True,
        )  # fmt: skip
    running = start("--auth")
    opened = f"{running.base}/"
    with visiting(browser, opened, accept_downloads=True) as ada, visiting(browser, opened) as eve:
        for who, name in ((ada, "ada"), (eve, "eve")):
            who.page.get_by_label(re.compile("name", re.IGNORECASE)).fill(name)
            who.page.get_by_label("Password").fill(f"the password of {name}")
            who.page.keyboard.press("Enter")
            who.page.wait_for_url(opened)
        experiment(ada, "first", endpoint)
        eve.page.goto(f"{running.base}/live/first", wait_until="domcontentloaded")
        done(ada, "first")
        eve.eventually("/complete|done/.test(document.querySelector('main').innerText)")
        for address, role, name in (
            ("/new", "button", "Start"), ("/new", "link", "New experiment"), ("/try", "button", "Ask"),
        ):  # fmt: skip
            eve.open(address)
            assert eve.page.get_by_role(role, name=name, exact=True).count() == 0
        endpoint.script = sometimes
        experiment(ada, "second", endpoint)
        done(ada, "second")
        assert len(endpoint.requests) == 2 * QUESTIONS
        for link, address in (
            (ada.page.get_by_role("link", name="All answers"), "**/answers/second*"),
            (ada.page.locator("a[href^='/answer/second']"), "**/answer/second*"),
        ):
            link.first.click()
            ada.page.wait_for_url(address)
            ada.settled()
        assert "story" in ada.text.lower()
        ada.open("/compare?a=first&b=second")
        assert "gained" in ada.text or "B minus A" in ada.text
        assert downloaded(ada)
        ada.open("/leaderboard")
        assert f"of {QUESTIONS}" in ada.text
        (row,) = downloaded(ada)
        assert (row["run"], row["other_runs"], row["total"]) == ("second", "1", str(QUESTIONS))


def downloaded(who: Visitor) -> list[dict[str, str]]:
    with who.page.expect_download() as download:
        who.page.get_by_role("link", name="CSV", exact=True).first.click()
    return list(csv.DictReader(Path(download.value.path()).read_text("utf-8").splitlines()))


def test_a_page_that_lost_its_server_finds_it_again_and_nothing_is_lost(
    browser: Any, start: Callable[..., Started], endpoint: Endpoint
) -> None:
    endpoint.delay = 0.3
    running = start()
    with visiting(browser, running.address) as me:
        experiment(me, "long", endpoint)
        me.page.wait_for_function("() => document.querySelector('progress')?.value > 0", timeout=PATIENCE)
        running.end()
        me.page.locator("#connection").wait_for(state="visible")
        endpoint.delay = 0.0
        start(port=int(running.base.rpartition(":")[2]))
        done(me, "long")
    assert (
        len({(body["messages"][-1]["content"], body["messages"][0]["content"]) for body in endpoint.requests})
        == QUESTIONS
    )
