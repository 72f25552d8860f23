"""The HTML report in a real browser, in depth: Debian's chromium, from disk, with the network watched."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from tests.helpers.browsing import axe_findings
from tests.helpers.reports import PAYLOADS, data_of

pytestmark = pytest.mark.system


def test_every_link_within_the_page_leads_somewhere(visit: Any, pair: Path) -> None:
    page = visit(pair).page
    targets = page.eval_on_selector_all(
        "a[href^='#']", "links => links.map(link => link.getAttribute('href').slice(1))"
    )
    assert {"verdicts", "items", "table-accuracy"} <= set(targets)
    for target in {one for one in targets if "=" not in one}:
        assert page.locator(f"[id='{target}']").count() == 1, target
    closed = page.locator("details[id^='table-']:not([open])").evaluate_all("tables => tables.map(one => one.id)")
    name = next(one for one in closed if one in targets)
    page.click(f"a[href='#{name}'] >> nth=0")
    page.wait_for_selector(f"#{name}[open]")  # a link opens the table it names


def perturbed(path: Path) -> tuple[str, str]:
    """An item whose story has and lacks words of its unperturbed version, and that version."""
    found = data_of(path.read_text())
    items, base = found["items"], found["base"]
    words = [{word for at in item["story"] for word in found["sentences"][at].split()} for item in items]
    place = next(
        at for at, other in enumerate(base) if other >= 0 and words[at] - words[other] and words[other] - words[at]
    )
    return items[place]["id"], items[base[place]]["id"]


def test_keyboard_alone_suffices(visit: Any, pair: Path) -> None:
    page = visit(pair).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.locator("#main:focus").wait_for()
    link = page.locator("#answers tbody a").first
    link.focus()
    style = link.evaluate("link => getComputedStyle(link).outlineStyle")
    assert style == "solid"  # focus can be seen
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    first = page.inner_text("dialog .legend >> nth=0")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("first => document.querySelector('dialog .legend').textContent !== first", arg=first)
    for _ in range(30):  # the focus stays inside
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert page.evaluate("document.activeElement === document.querySelector('#answers tbody a')")


@pytest.mark.parametrize(("kind", "scheme"), [("hitom_run", "light"), ("varied_run", "dark")])
def test_it_passes_axe_whatever_is_unfolded(visit: Any, small: Any, kind: str, scheme: str) -> None:
    page = visit(small(kind), color_scheme=scheme).page
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert axe_findings(page) == []
    page.locator("#answers tbody a").first.click()
    page.wait_for_selector("dialog[open]")
    assert axe_findings(page, "dialog[open]") == []
    for label in page.eval_on_selector_all("svg[role=img]", "all => all.map((one) => one.ariaLabel)"):
        assert len(label) >= 60, label  # it tells its numbers


def test_it_fits_its_window(visit: Any, pair: Path, small: Any) -> None:
    """On a phone the verdicts of several models stand below each other; names of any length break no layout."""
    for path, address in ((small("long"), ""), (pair, "#" + urlencode({"item": perturbed(pair)[0]})), (pair, "")):
        page = visit(path, address).page
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert len(page.screenshot()) > 20_000
    cell = page.locator("table.glance tbody td[data-of]").first
    question = cell.get_attribute("data-of")
    assert question.endswith("?")
    assert question in cell.evaluate("cell => getComputedStyle(cell, '::before').content")


def test_the_list_filters_turns_its_pages_and_answers_addresses(visit: Any, pair: Path) -> None:
    found = visit(pair, "#%")
    page = found.page
    assert found.count().startswith("704")
    assert page.get_by_role("button", name="← Previous").is_disabled()
    first = page.locator("#answers tbody a").first.inner_text()
    page.get_by_role("button", name="Next →").click()
    assert page.inner_text("#pages") == "page 2 of 15"
    assert page.locator("#answers tbody a").nth(10).inner_text() != first
    found.choose("Model", "second")
    assert found.count().startswith("352 of 704")
    found.choose("Model", "any")
    for kind, held in (("between strategies", 1), ("between runs or models", 2)):  # the column that stays the same
        found.choose("Flipped", kind)
        listed = page.locator("#answers tbody tr").all_inner_texts()
        rows = [[cell.strip() for cell in row.split("\t")] for row in listed]
        same = [row for row in rows if row[0] == rows[0][0] and row[held] == rows[0][held]]
        assert {row[5].split()[-1] for row in same} == {"right", "wrong"}
    found.choose("Flipped", "any")
    found.choose("Chain breaks", "too late")
    kinds = page.locator("#answers tbody td:last-child").all_inner_texts()
    assert kinds
    assert all(kind.startswith("too late, sentence") for kind in kinds)
    page.evaluate("location.hash = 'item=nothing'")
    page.locator("#count", has_text="There is no item nothing in this report.").wait_for()
    name, base = perturbed(pair)
    page.evaluate("hash => { location.hash = hash; }", urlencode({"item": base}))
    page.locator("dialog").get_by_role("link", name=name, exact=True).click()
    page.wait_for_function("name => document.querySelector('dialog h2').textContent === name", arg=name)
    assert page.get_by_text("What differs from the original").count() == 1


def test_it_prints_with_all_tables_open_and_reads_without_javascript(browser: Any, visit: Any, pair: Path) -> None:
    found = visit(pair, permissions=["clipboard-read", "clipboard-write"])
    found.page.locator("#table-accuracy").get_by_role("button", name="Copy as LaTeX").click()
    found.page.get_by_text("Copied.").wait_for()
    assert r"\begin{tabular}" in found.page.evaluate("navigator.clipboard.readText()")
    found.page.emulate_media(media="print")
    assert not found.page.locator("#filters").is_visible()
    for event, wanted in (("beforeprint", False), ("afterprint", True)):
        found.page.evaluate("event => dispatchEvent(new Event(event))", event)
        assert (found.page.locator("main details:not([open])").count() > 0) is wanted
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pair.as_uri())
    assert page.locator("noscript p").is_visible()
    assert page.locator("#table-accuracy tbody tr").count() == 10
    context.close()


def test_hostile_content_is_shown_and_does_nothing(visit: Any, small: Any) -> None:
    """Each item is opened; a dialog, request, console message or error fails in the fixture."""
    found = visit(small("hostile"))
    page = found.page
    before = page.evaluate("[document.scripts.length, document.styleSheets.length]")
    links = page.eval_on_selector_all("#answers tbody a", "all => all.map(link => link.getAttribute('href'))")
    assert len(links) == 2 * len(PAYLOADS)
    for link in links:
        payload = PAYLOADS[int(parse_qs(link[1:])["item"][0].split("/")[0])]
        page.evaluate("link => { location.hash = link; }", link)
        page.wait_for_function("link => location.hash === link || location.hash === encodeURI(link)", arg=link)
        page.wait_for_selector("dialog[open] .story")
        inside = page.text_content("dialog")
        assert payload in inside
    assert (
        page.locator("dialog img, dialog script, dialog iframe, dialog style, dialog svg, dialog [onload]").count() == 0
    )
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("[document.scripts.length, document.styleSheets.length]") == before
    assert page.locator("main img, main iframe, main style, header b, nav b").count() == 0
    page.keyboard.press("Escape")
    for label in ("perturbation", "stage"):
        select = page.get_by_label(label, exact=True)
        for value in select.locator("option").all_inner_texts():
            select.select_option(label=value)
    assert page.evaluate("window.hacked") is None


def test_every_turn_of_conversations_is_shown_and_what_was_made_of_a_fan_out(visit: Any, small: Any) -> None:
    page = visit(small("talking_run"), "#item=demo%2F1&strategy=two").page
    page.wait_for_selector("dialog[open] .turn")
    turns = [one for one in page.locator("dialog .turn summary").all_inner_texts() if one.startswith("two")]
    assert turns == ["two, turn 1 of 2", "two, turn 1 of 2: reasoning", "two, turn 2 of 2 (the answer)"]
    answered = page.locator("dialog .turn.answered", has_text="two, turn 2")
    assert '{"answer": "tea"}' in answered.inner_text()
    summaries = [one for one in page.locator("dialog .turn summary").all_inner_texts() if one.startswith("fan")]
    assert summaries == [
        *(f"fan, turn {turn} of 5" + (" (ended the conversation)" if turn == 3 else "") for turn in (1, 2, 3)),
        "fan: the answer, which the strategy made from these replies",
        *(f"fan, turn {turn} of 5" for turn in (4, 5)),
    ]
    texts = page.locator("dialog .turn pre").all_inner_texts()
    assert set(PAYLOADS[:5]) <= set(texts)  # they are text, and nothing of them ran: `visit` saw no word of it
    assert page.locator("dialog .turn :is(img, script, svg, a)").count() == 0
    assert page.locator("dialog .turn.answered pre").last.inner_text() == '{"answer": "tea"}'
    page.evaluate("location.hash = 'item=demo%2F2'")
    page.locator("#item-title", has_text=re.compile("^demo/2$")).wait_for()
    said = page.inner_text("dialog .inside")
    assert "two, turn 1 (shared with an equal request)" in said
    assert "This conversation is not finished" in said
