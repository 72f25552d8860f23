"""The pages in real Chromium: they fit and pass axe, change while somebody looks, go by the keyboard and without
scripts, and whatever strangers wrote is text."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.conftest import ROOT
from tests.helpers.browsing import Served, Visitor, axe_findings, served, visiting
from tests.helpers.examples import copied_run
from tests.helpers.queues import put
from tomserve.content.paths import runs_root
from tomserve.web import run_index
from tomserve.web.accounts import Person
from tomserve.web.run_index import State
from tomserve.workflows.evaluate import Experiment

pytestmark = pytest.mark.system
ANYBODY = Person()


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


def test_every_page_passes_axe_and_fits_and_its_links_lead_somewhere(
    me: Visitor, bench: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(ROOT))
    for name in ("deep/example", "long-name-of-a-run-" * 6):
        copied_run(runs_root() / name)
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


def test_keys_go_through_lists_and_times_are_those_of_whoever_looks(bench: Served, browser: Any) -> None:
    for name in ("deep/example", "second"):
        copied_run(runs_root() / name)
    with visiting(browser, bench.opened, timezone_id="Asia/Tokyo") as me:
        page = me.page
        me.open("/?sort=name&down=no")
        page.wait_for_selector("[data-keys]:not([hidden])")
        for key, focused in (("j", "deep/example"), ("j", "second"), ("k", "deep/example")):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.textContent") == focused
        page.keyboard.press("x")
        assert page.locator("input[name=b]:checked").count() == 1
        page.keyboard.press("?")
        assert page.locator("dialog#keys").evaluate("node => node.open")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("jk?x")
        assert page.input_value("#f-text") == "jk?x"
        page.wait_for_selector("#runs time[data-local]")
        assert page.locator("#runs time").first.text_content() == "2026-11-22 21:12"
        assert page.locator("#runs time").first.get_attribute("title") == "2026-11-22 12:12 UTC"
        me.open("/answers/deep/example?outcome=wrong")
        second = page.locator("table.list tbody a").nth(1).text_content()
        for key in ("j", "j", "Enter"):
            page.keyboard.press(key)
        page.wait_for_selector("#h-story")
        assert page.locator("h1").text_content() == second
        page.get_by_role("link", name="Next →").press("Enter")
        page.locator("h1", has_not_text=str(second)).wait_for()
        page.get_by_role("link", name="Answers").press("Enter")
        page.wait_for_selector("#list")
        assert "outcome=wrong" in page.url


ORDER = (
    "[...document.querySelectorAll('#queue section:first-of-type .run-name')].map(one => one.innerText.trim()).join()"
)


def test_lists_change_in_place_and_keep_the_focus(me: Visitor, bench: Served) -> None:
    page = me.page
    assert "No runs yet" in me.text
    submit(bench, "a")
    page.wait_for_selector("#open-a")  # the list follows by itself
    submit(bench, "b", "c")
    me.open("/queue")
    page.focus("#up-c")
    page.keyboard.press("Enter")
    me.eventually(f"{ORDER} === 'a,c,b'")
    assert page.evaluate("document.activeElement.id") == "up-c"
    submit(bench, "d")  # somebody else; it appears by itself
    page.wait_for_selector("#queue >> text=4 queued.")
    assert page.evaluate("document.activeElement.id") == "up-c"
    page.click("#cancel-b")
    assert len(me.wrong) == 1
    assert "Its answers are kept" in me.wrong.pop()
    me.agrees = True
    page.click("#cancel-d")
    page.wait_for_selector("#retry-d")
    states = {name: job.state for name in "bd" if (job := run_index.read_card(runs_root() / name).job) is not None}
    assert states == {"b": State.QUEUED, "d": State.CANCELLED}
    page.goto(f"{me.base}/live/a", wait_until="domcontentloaded")
    for action, badge in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        page.click(f"#{action}-a")
        page.wait_for_selector(f".badge.{badge}")
    page.wait_for_selector("#retry-a")
