"""Styles and scripts: those of others are named with version, licence and digest, and all are asked for by digest."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.workbenches import client
from tomserve.web import rendering

STATIC = ROOT / "tomserve/web/static"


def test_every_script_is_ours_or_named_with_the_digest_it_was_published_with() -> None:
    named = {one["file"]: one for one in json.loads((STATIC / "vendored.json").read_text("utf-8"))}
    assert {path.name for path in STATIC.glob("*.min.*")} == set(named), "ours are written to be read"
    for name, one in named.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == one["sha256"], name
        assert set(one) == {"file", "name", "version", "licence", "from", "sha256"}


def test_no_page_asks_another_server_for_anything() -> None:
    for path in (ROOT / "tomserve/web/templates").rglob("*.j2"):
        text = path.read_text("utf-8")
        assert not re.search(r"""(src|href)="http|url\(http|//cdn""", text), path


def test_a_browser_asks_again_for_a_style_or_a_script_that_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    addresses = re.findall(r'"(/static/[^"]*)"', client().get("/").text)
    assert addresses
    assert all(address.endswith(f"?v={rendering.stamp()}") for address in addresses)
    before = rendering.stamp()
    shutil.copytree(rendering.FOLDER / "static", tmp_path / "static")
    (tmp_path / "static/workbench.css").write_text("body {}", "utf-8")
    monkeypatch.setattr(rendering, "FOLDER", tmp_path)
    assert rendering.stamp.__wrapped__() != before
