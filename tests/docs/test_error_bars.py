"""The page on error bars shows what its commands print, and its sentence for a paper has the numbers of the files."""

import re
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT, Endpoint
from tests.helpers.documents import Reader, printed

PAGE = ROOT / "docs/how-to/error-bars.md"


@pytest.mark.system
def test_the_page_shows_what_its_commands_print(endpoint: Endpoint, tmp_path: Path) -> None:
    reader, page = Reader(tmp_path, endpoint), PAGE.read_text("utf-8")
    reader.follow(page)
    said = " ".join(" ".join(reader.said).split())
    parts = printed(page)
    assert len(parts) > 8
    for part in parts:
        assert part in said, f"{part!r} is not in what was printed"
    quoted = " ".join(line.removeprefix("> ") for line in page.splitlines() if line.startswith("> "))
    effect = pl.read_csv(tmp_path / "bars/effects.csv").row(-1, named=True)
    margin = pl.read_csv(tmp_path / "bars/margins.csv").row(0, named=True)
    flips = {row["change"]: row for row in pl.read_csv(tmp_path / "bars/changes.csv").iter_rows(named=True)}
    numbers = [
        *(f"{100 * effect[name]:.1f}%" for name in ("share_treated", "share_control")),
        f"{points(effect['risk_difference'])} points, 95% interval {points(effect['rd_low'])} to {points(effect['rd_high'])}",
        f"p = {effect['p']:.2f}".replace("0.", "."),
        f"{points(margin['low'])} to {points(margin['high'])}",
        f"{flips['harmful']['changed']} questions were lost and {flips['beneficial']['changed']} gained",
        *(f"{100 * flips[one]['share']:.1f}%, {100 * flips[one]['low']:.1f} to {100 * flips[one]['high']:.1f}"
          for one in ("harmful", "beneficial")),
    ]  # fmt: skip
    for number in numbers:
        assert number in quoted, f"{number} is not in the sentence"
    assert margin["verdict"] == "undecided"
    assert margin["p_not_inferior"] > 0.025
    assert f"about {margin['needed_not_inferior']} clusters like these {margin['units']}" in " ".join(page.split())
    half = 100 * (effect["rd_high"] - effect["rd_low"]) / 2
    assert f"known to within {half:.1f} points" in " ".join(page.split())
    a, b = effect["share_control"], effect["share_treated"]
    apart = 100 * 1.96 * ((a * (1 - a) + b * (1 - b)) / effect["n"]) ** 0.5
    assert f"it would be {apart:.1f}," in " ".join(page.split())
    lost = re.search(r"solved \((\d+)%\)", page)
    assert lost is not None
    assert int(lost[1]) == round(100 * flips["harmful of right"]["share"])


def points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")
