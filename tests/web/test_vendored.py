"""What others wrote and what lies in the package as it was published is named, with its version, licence and digest."""

from __future__ import annotations

import hashlib
import json
import re

from tests.conftest import ROOT

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
