"""The pages in real Chromium: they fit and pass axe, and find a lost server again.
A person's whole way in a real browser: a new experiment, watching it, an item, a second run, comparing, exporting."""

import contextlib
import csv
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest

from tests.conftest import ROOT, Endpoint, completion, fill
from tests.conftest import running as run_endpoint
from tests.helpers.browsing import Served, Started, Visitor, axe_findings, served, visiting
from tests.helpers.examples import copied_run, shortened
from tests.helpers.queues import put
from tomserve.content.paths import runs_root
from tomserve.web.accounts import Person, Users
from tomserve.web.run_index import State
from tomserve.web.settings import Settings
from tomserve.workflows.evaluate import Experiment

pytestmark = pytest.mark.system
ANYBODY = Person()


@contextlib.contextmanager
def beside() -> Iterator[Endpoint]:
    """An endpoint that another thread begins, as playwright has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        begun = run_endpoint()
        server = pool.submit(begun.__enter__).result()
        try:
            yield server
        finally:
            pool.submit(begun.__exit__, None, None, None).result()


@pytest.fixture
def bench() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture
def me(bench: Served, browser: Any) -> Iterator[Visitor]:
    with visiting(browser, bench.opened) as found:
        yield found


def submit(bench: Served, *names: str) -> None:
    for name in names:
        experiment = Experiment(run=name, base_url=("http://127.0.0.1:9/v1",), benchmark="perturbed")
        bench.app.state.workbench.queue.submit(experiment, ANYBODY)


ANSWER = "item=C1/add_unrelated_information/informed_protagonist/belief/swapped&strategy=cot"
PLACES = (
    *("/", "/new", "/queue", "/live/waits", "/live/failed", "/live/none"),
    *("/leaderboard", "/items?benchmark=perturbed", "/try?benchmark=perturbed"),
    *("/run/deep/example", "/answers/deep/example", f"/answer/deep/example?{ANSWER}"),
    *("/compare?a=deep/example&sa=vanilla&sb=cot", "/compare/item?a=deep/example&sa=vanilla&sb=cot&" + ANSWER[:-13]),
)


LOST = "all => all.map(one => one.hash.slice(1)).filter(one => !document.getElementById(decodeURIComponent(one)))"
"""The links of a page to parts of it that are not there."""


def form_of(address: str) -> tuple[str, ...]:
    """What alike links have in common: the place, and the names of what is asked for."""
    parts = urlsplit(address)
    return (parts.path, *sorted(parse_qs(parts.query)))


def test_every_page_passes_axe_and_fits_and_its_links_lead_somewhere(me: Visitor, bench: Served, monkeypatch) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(ROOT))
    for name in ("deep/example", "long-name-of-a-run-" * 6):
        shortened(copied_run(runs_root() / name), 40)
    submit(bench, "waits", "failed")
    said = f"no model is served at http://127.0.0.1:9/v1/{'x' * 200}"
    for name, state in (("waits", State.WAITING), ("failed", State.FAILED)):
        put(name, state=state, said=said)
    found: dict[str, list[str]] = {}
    links: dict[tuple[str, ...], str] = {}
    for address in PLACES:
        status = me.page.goto(me.base + address, wait_until="load").status
        assert status == (404 if address == "/live/none" else 200), address
        if not address.startswith("/live"):
            me.settled()
        for width in (2000, 360):
            me.page.set_viewport_size({"width": width, "height": 800})
            assert me.page.evaluate("document.documentElement.scrollWidth") <= width, (address, width)
        found[address] = axe_findings(me.page)
        listed = me.page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)") if status == 200 else []
        links |= {form_of(one): one.partition("#")[0] for one in listed}
        assert me.page.eval_on_selector_all("a[href^='#']", LOST) == [], address
    assert len(links) > len(PLACES)
    assert [one for one in links.values() if me.page.request.get(one).status >= 400] == []
    bench.app.state.access.settings = replace(bench.app.state.access.settings, auth=True)
    me.context.clear_cookies()
    me.page.goto(me.base)
    assert me.page.url.startswith(f"{me.base}/login")
    found["sign in"] = axe_findings(me.page)
    assert {address: said for address, said in found.items() if said} == {}
    me.wrong.clear()  # that a page is missing is said there


QUESTIONS = 16
"""How many questions an experiment asks."""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Started]:
    """A workbench that ada and eve sign in to, as a process."""
    for name, role in (("ada", "runner"), ("eve", "reader")):
        Users(Settings().folder / "users.json").put(name, role, f"the password of {name}")
    begun = Started(tmp_path / "runs", "--auth")
    yield begun
    begun.end()


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
    browser: Any, running: Started, endpoint: Endpoint
) -> None:
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


def test_a_page_that_lost_its_server_finds_it_again(browser: Any) -> None:
    """That nothing is lost where the workbench ends in mid-run is for tests/web/test_app.py."""
    with contextlib.ExitStack() as looks:
        with served() as bench:
            submit(bench, "long")
            me = looks.enter_context(visiting(browser, bench.opened))
            me.page.goto(f"{me.base}/live/long", wait_until="domcontentloaded")
            me.page.wait_for_selector(".badge.queued")
        me.page.get_by_text("Connection to the workbench lost.").wait_for()
        put("long", state=State.CANCELLED)
        with served(int(me.base.rpartition(":")[2])):
            me.page.get_by_text("Connected again.").wait_for()
            me.page.wait_for_selector("#retry-long")
