"""The HTML report in a real browser, once: from disk, with the network watched; test_report_in_depth.py has the rest.

Skipped where chromium is missing; with NEED_CHROMIUM=1 (as CI sets it) that is a failure.
"""

from pathlib import Path
from typing import Any


def test_it_opens_filters_and_shows_an_item_without_a_word_to_console_or_network(visit: Any, pair: Path) -> None:
    found = visit(pair)
    page = found.page
    assert found.count().startswith("704 of 704 answers, ")
    assert page.title() == "reference, second · tomserve report"
    assert page.locator("svg[role=img]").count() >= 16
    assert page.locator("#answers tbody tr").count() == 50
    found.choose("Right or wrong", "right")
    assert found.outcomes() == {"right"}
    right = int(found.count().split()[0])
    found.choose("Strategy", "cot")
    assert 0 < int(found.count().split()[0]) < right
    found.choose("Class", "late label")
    link = page.locator("#answers tbody a").first
    name = link.inner_text()
    assert "/late_label/" in name
    link.click()
    dialog = page.locator("dialog[open]")
    assert dialog.locator("h2").inner_text() == name
    assert dialog.locator(".story tbody tr").count() >= 5
    assert dialog.locator(".beside ins, .beside del").count() >= 1
    assert '"beliefs"' in dialog.locator("pre").all_inner_texts()[-1]
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Item id contains").fill("no such item")
    assert found.count() == "0 of 704 answers"
