"""One real browser opens three pages of the workbench: they come whole, with their scripts, and ask nobody else."""

from pathlib import Path
from typing import Any

from tests.helpers.browsing import served, visiting
from tests.helpers.examples import copied_example


def test_three_pages_in_a_browser(browser: Any, tmp_path: Path) -> None:
    copied_example(tmp_path / "runs")
    clipboard = ["clipboard-read", "clipboard-write"]
    with served() as bench, visiting(browser, bench.opened, permissions=clipboard) as me:
        me.page.wait_for_selector("#runs time[data-local]")  # our script has run
        me.page.keyboard.press("j")
        assert me.page.evaluate("document.activeElement.textContent") == "example", "keys go through lists"
        assert me.open("/run/example") == 200
        table = me.page.locator("#table-accuracy")
        table.locator("th button").first.click()
        assert table.locator("th").first.get_attribute("aria-sort") == "ascending"
        table.get_by_role("button", name="Copy as CSV").click()
        table.get_by_text("Copied.").wait_for()
        assert "," in me.page.evaluate("navigator.clipboard.readText()").splitlines()[0]
        assert me.open("/new") == 200
        me.page.select_option("#benchmark", "perturbed")
        me.page.fill("#limit", "0")
        me.page.locator("#limit-error", has_text="at least 1").wait_for()
        assert me.active() == []
