"""The look of all pages: colours that can be told apart, names for everything, and no page wider than a telephone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.helpers.served import Served, served
from tomserve.api.experiments import Experiment
from tomserve.web.people import Person

STYLES = (
    ROOT / "tomserve/reporting/html/assets/report.css",
    ROOT / "tomserve/web/static/workbench.css",
)
TEXT = [
    *(("ink", one) for one in ("ground", "sheet", "faint", "busy-ground", "bad-ground", "good-ground", "wait-ground")),
    *(("soft", one) for one in ("ground", "sheet", "faint")),
    *(("link", one) for one in ("ground", "sheet", "faint", "busy-ground")),
    *((one, f"{one}-ground") for one in ("good", "bad", "open", "busy", "wait")),
    *(("bad", one) for one in ("sheet", "ground")),
    ("on-link", "link"),
]
EDGES = [("edge", "sheet"), ("edge", "ground"), ("busy", "faint"), ("focus", "ground"), ("focus", "sheet")]


def colours(dark: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for style in STYLES:
        text = style.read_text("utf-8")
        dark_at = text.index("@media (prefers-color-scheme: dark)")
        print_at = text.index("@media print")
        parts = [text[:dark_at]] + ([text[dark_at : text.index("}\n}", dark_at) + 1]] if dark else [])
        assert dark_at < print_at
        for part in parts:
            for block in re.findall(r":root \{([^}]*)\}", part):
                found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    return found


def light(colour: str) -> float:
    """The relative luminance of a colour, as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_and_edges_have_enough_contrast(dark: bool) -> None:
    known = colours(dark)
    assert known["ink"] == ("#e5eaf1" if dark else "#1c2430")
    for least, pairs in ((4.5, TEXT), (3.0, EDGES)):
        for front, back in pairs:
            pair = sorted((light(known[front]), light(known[back])))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= least, (front, back)


def test_no_style_or_script_stands_in_a_page() -> None:
    for path in Path(ROOT / "tomserve/web/templates").rglob("*.j2"):
        text = path.read_text("utf-8")
        assert not re.search(r"<style|\sstyle=|<script(?! src=)|\son\w+=|hx-on|javascript:|hx-vals=.js:", text), path


@pytest.fixture
def bench(_bench: tuple[Served, Path], monkeypatch: pytest.MonkeyPatch) -> Served:
    """A workbench with runs of every state; each test has its folder of runs."""
    monkeypatch.setenv("TOMSERVE_RUNS", str(_bench[1]))
    return _bench[0]


@pytest.fixture(scope="module")
def _bench() -> Iterator[tuple[Served, Path]]:
    from tomserve.web import cards
    from tomserve.web.cards import State

    with pytest.MonkeyPatch.context() as patched, _folder() as runs:
        patched.setenv("TOMSERVE_RUNS", str(runs))
        shutil.copytree(ROOT / "runs/example", runs / "deep/example")
        shutil.copytree(ROOT / "runs/example", runs / ("long-name-of-a-run-" * 6))
        with served() as found:
            assert found.app is not None
            queue = found.app.state.workbench.queue
            for number in range(4):
                queue.submit(
                    Experiment(run=f"queued-{number}", base_url=("http://127.0.0.1:9/v1",), benchmark="perturbed"),
                    Person(),
                )
            for name, state in (("queued-2", State.WAITING), ("queued-3", State.FAILED)):
                said = f"no model is served at http://127.0.0.1:9/v1/{'x' * 200}"
                cards.change(
                    runs / name,
                    lambda card, state=state, said=said: card.model_copy(  # type: ignore[misc]  # bound to the turn
                        update={"job": card.job.model_copy(update={"state": state, "said": said})}
                    ),
                )
            yield found, runs


def _folder() -> Any:
    import tempfile

    class Folder(tempfile.TemporaryDirectory[str]):
        def __enter__(self) -> Any:
            return Path(super().__enter__()) / "runs"

    return Folder()


PAGES = (
    "/",
    "/new",
    "/queue",
    "/live/deep/example",
    "/live/queued-1",
    "/live/queued-3",
    "/?model=nothing",
    "/live/none",
)
CHECK = """() => {
    const wrong = [];
    const named = (node) => (node.getAttribute('aria-label') || node.textContent || '').trim()
        || (node.labels && [...node.labels].some((label) => label.textContent.trim()));
    const headings = document.querySelectorAll('h1');
    if (headings.length !== 1) wrong.push(`${headings.length} headings of the first level`);
    for (const node of document.querySelectorAll('input:not([type=hidden]), select, textarea'))
        if (!node.getAttribute('aria-label') && !(node.labels && [...node.labels].some((one) => one.textContent.trim())))
            wrong.push(`no label: ${node.outerHTML.slice(0, 120)}`);
    for (const node of document.querySelectorAll('a, button')) if (!named(node)) wrong.push(`no name: ${node.outerHTML.slice(0, 120)}`);
    const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
    for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) wrong.push(`the id ${id} twice`);
    for (const node of document.querySelectorAll('[aria-describedby], [aria-labelledby]'))
        for (const id of `${node.getAttribute('aria-describedby') || ''} ${node.getAttribute('aria-labelledby') || ''}`.trim().split(/ +/))
            if (!document.getElementById(id)) wrong.push(`nothing has the id ${id}`);
    for (const node of document.querySelectorAll('table')) if (!node.querySelector('th')) wrong.push('a table without heads');
    for (const node of document.querySelectorAll('progress, [role=region]')) if (!named(node)) wrong.push('a part without a name');
    if (!document.documentElement.lang) wrong.push('no language');
    if (document.documentElement.scrollWidth > document.documentElement.clientWidth) wrong.push(
        `wider than the window by ${document.documentElement.scrollWidth - document.documentElement.clientWidth}`);
    return wrong;
}"""


@pytest.mark.parametrize("width", [360, 1280, 2000])
def test_every_page_is_named_and_fits(bench: Served, browser: Any, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    try:
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(bench.opened)
        for address in PAGES:
            answer = page.goto(f"{bench.url}{address}", wait_until="load")
            assert answer.status == (404 if address == "/live/none" else 200), address
            assert page.evaluate(CHECK) == [], address
        assert [text for text in said if "404" not in text] == []
    finally:
        context.close()


def test_keys_go_through_a_list_and_open_what_is_marked(bench: Served, browser: Any) -> None:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(bench.opened)
        page.goto(f"{bench.url}/?sort=name&down=no")
        page.wait_for_selector("[data-keys]:not([hidden])")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.textContent") == "deep/example"
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.textContent").startswith("long-name")
        page.keyboard.press("k")
        page.keyboard.press("x")
        assert page.locator("input[name=run]:checked").count() == 1
        page.keyboard.press("?")
        assert page.locator("dialog#keys").evaluate("node => node.open")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "f-text"
        page.keyboard.type("jk?x")
        assert page.input_value("#f-text") == "jk?x"
    finally:
        context.close()


def test_times_are_those_of_whoever_looks(bench: Served, browser: Any) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo")
    try:
        page = context.new_page()
        page.goto(bench.opened)
        page.goto(f"{bench.url}/?text=deep/example")
        page.wait_for_selector("#runs time[data-local]")
        assert page.locator("#runs time").first.text_content() == "2026-11-22 21:12"
        assert page.locator("#runs time").first.get_attribute("title") == "2026-11-22 12:12 UTC"
    finally:
        context.close()


def test_styles_are_served_and_nothing_else_beside_them(bench: Served) -> None:
    import httpx

    for name in ("report.css", "workbench.css", "workbench.js", "htmx.min.js", "htmx-sse.min.js"):
        assert httpx.get(f"{bench.url}/static/{name}").status_code == 200, name
    assert httpx.get(f"{bench.url}/static/../app.py").status_code in (401, 404)
