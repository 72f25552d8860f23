"""Styles and scripts: those of others are named with version, licence and digest, and none stands in a page.
How pages say times."""

import hashlib
import json
import re

from tests.conftest import ROOT


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
