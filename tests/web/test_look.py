"""Styles and scripts: colours can be told apart, those of others are named with version, licence and digest, and all are
asked for by digest.
How pages say sizes, times and rates."""

import hashlib
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.helpers.workbenches import client
from tomserve.content.text import format_bytes
from tomserve.web import page_templates

STYLES = (ROOT / "tomserve/reporting/html/assets/report.css", ROOT / "tomserve/web/static/workbench.css")
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


def test_no_style_or_script_stands_in_a_page_and_none_is_fetched_from_elsewhere() -> None:
    for path in (ROOT / "tomserve/web/templates").rglob("*.j2"):
        text = path.read_text("utf-8")
        assert not re.search(r"""(src|href)="http|url\(http|//cdn""", text), path
        if path.name == "leaderboard_file.html.j2":  # a file to take away, which has its style within
            text = text.replace("<style>", "", 1)
        assert not re.search(r"<style|\sstyle=|<script(?! src=)|\son\w+=|hx-on|javascript:|hx-vals=.js:", text), path


STATIC = ROOT / "tomserve/web/static"


def test_every_script_is_ours_or_named_with_the_digest_it_was_published_with() -> None:
    named = {one["file"]: one for one in json.loads((STATIC / "vendored.json").read_text("utf-8"))}
    assert {path.name for path in STATIC.glob("*.min.*")} == set(named), "ours are written to be read"
    for name, one in named.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == one["sha256"], name
        assert set(one) == {"file", "name", "version", "licence", "from", "sha256"}


def test_a_browser_asks_again_for_a_style_or_a_script_that_has_changed(monkeypatch, tmp_path: Path) -> None:
    addresses = re.findall(r'"(/static/[^"]*)"', client().get("/").text)
    assert addresses
    assert all(client().get(address).status_code == 200 for address in addresses)
    assert client().get("/static/../app.py").status_code == 404
    assert all(address.endswith(f"?v={page_templates.stamp()}") for address in addresses)
    before = page_templates.stamp()
    shutil.copytree(page_templates.FOLDER / "static", tmp_path / "static")
    (tmp_path / "static/workbench.css").write_text("body {}", "utf-8")
    monkeypatch.setattr(page_templates, "FOLDER", tmp_path)
    assert page_templates.stamp.__wrapped__() != before


MOMENT = datetime(2026, 3, 1, 10, 20, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("say", "known"),
    [
        (format_bytes, {0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 1_530_000: "1.5 MB", 123e9: "123 GB", 5e15: "5,000 TB"}),
        (page_templates.lasting, {None: "", 0.04: "under a second", 7.2: "7 s", 150: "2 min 30 s", 7300: "2 h 1 min"}),
        (page_templates.rate, {None: "", 1234.5: "1,234.5 per second", 0.05: "3.0 per minute"}),
        (page_templates.moment, {"2026-03-01T10:20:30Z": "2026-03-01 10:20", "2026-03-01T10:20:30+02:00": "2026-03-01 08:20"}),
        (page_templates.moment, {"2026-03-01T10:20:30": "2026-03-01 10:20", "yesterday": "yesterday", "": "", None: ""}),
        (page_templates.moment, {end: end for end in ("0001-01-01T00:00:00+12:00", "9999-12-31T23:59:59-12:00")}),
        (page_templates.read_moment, {"2026-03-01T10:20:30Z": MOMENT, None: None, 7: None, "": None, "x": None}),
    ],
)  # fmt: skip
def test_words(say: Any, known: dict[Any, Any]) -> None:
    assert {given: say(given) for given in known} == known
