"""Whatever strangers write into runs, replies and names is text on every page, and a broken run breaks no page."""

import html
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from tests.helpers.browsing import served, visiting
from tests.helpers.examples import copied_run
from tests.helpers.reports import PAYLOADS, hostile_run
from tests.helpers.workbenches import client, settled
from tomserve.content.paths import runs_root
from tomserve.web import background, run_index
from tomserve.web.run_index import Card, Job, State

EVIL = PAYLOADS[2]
NAME = "<img src=x onerror=alert(9)>"
"""What the folder of a run may be called, where somebody has made it by hand."""


def hostile(folder: Path) -> None:
    """Make two runs in which everything that others write is a payload, and a folder whose name is one."""
    root = runs_root()
    first = hostile_run(root, model=EVIL)
    job = Job(state=State.FAILED, said=PAYLOADS[0], group=EVIL, submitted="2026-01-01T00:00:00Z")
    tags = tuple(one[:40] for one in PAYLOADS)
    run_index.write_card(first, Card(owner="", notes="\n".join(PAYLOADS), tags=tags, job=job))
    (first / "log.txt").write_text("".join(f"2026-01-01T00:00:00Z {one}\n" for one in PAYLOADS), "utf-8")
    (first / "console.txt").write_text("\n".join(PAYLOADS), "utf-8")
    progress = {"schema": 1, "pid": 1, "began": PAYLOADS[0], "updated": EVIL, "message": EVIL, "endpoint": EVIL}
    (first / "progress.json").write_bytes(orjson.dumps(progress))
    hostile_run(folder / "made", model=PAYLOADS[3]).rename(root / "second")
    copied_run(root / NAME)


ITEM = f"0/{PAYLOADS[0]}"
PAGES = {
    "dashboard": "/",
    "new": "/new?like=hostile",
    "queue": "/queue",
    "leaderboard": "/leaderboard",
    "run": "/run/hostile",
    "answers": "/answers/hostile",
    "answer": f"/answer/hostile?{urlencode({'item': ITEM, 'strategy': 'cot'})}",
    "reasoning": f"/answer/hostile?{urlencode({'item': f'3/{PAYLOADS[3]}', 'strategy': 'vanilla'})}",
    "compare": "/compare?a=hostile&b=second",
    "live": "/live/hostile",
    "items": "/items?run=hostile",
    "item": f"/items/item?{urlencode({'run': 'hostile', 'id': ITEM})}",
    "try": f"/try?{urlencode({'run': 'hostile', 'item': ITEM, 'model': EVIL, 'base_url': PAYLOADS[3]})}",
    "a name": f"/run/{quote(NAME)}",
    "no such run": f"/run/{quote(EVIL)}",
    "a condition": f"/items?{urlencode({'run': 'hostile', 'where': EVIL, 'text': PAYLOADS[3]})}",
    "a filter": f"/leaderboard?{urlencode({'model': EVIL, 'sort': PAYLOADS[3]})}",
}


def links(page: str, begin: str) -> list[str]:
    return [html.unescape(link) for link in re.findall(rf'href="({begin}[^"]+)"', page)]


LINK, PIPE = "a link", "a pipe"
BROKEN: dict[str, dict[str, str | bytes]] = {
    "types": {"manifest.json": b'{"schema": 1, "benchmark": 5, "model": ["x"], "strategies": 7}'},
    "card": {"workbench.json": b'{"schema": 1, "owner": 5, "job": "x"}'},
    "depth": {"workbench.json": b'{"schema": 1, "job": %b}' % (b"[" * 300 + b"]" * 300)},
    "links": dict.fromkeys(("responses.jsonl", "items.jsonl"), LINK),
    "pipe": {"responses.jsonl": PIPE},
    "pipes of the log": dict.fromkeys(("log.txt", "console.txt", "progress.json"), PIPE),
    "letters": {"responses.jsonl": b"\xff\xfe\x00{}\n" * 50, "log.txt": b"\xff\xfe\x00\x1b[2J" * 50},
    "lines": {"responses.jsonl": b'{"item": "' + b"x" * 10_000_000 + b'"}\n', "log.txt": b"x" * 10_000_000},
    "table": {"scores.parquet": b"PAR1" + b"\0" * 100 + b"PAR1"},
    "huge": {"manifest.json": b'{"schema": 1, "model": "'},
}


def break_(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, text in files.items():
        (folder / name).unlink(missing_ok=True)
        if text == LINK:
            (folder / name).symlink_to("/etc/passwd")
        elif text == PIPE:
            os.mkfifo(folder / name)
        else:
            (folder / name).write_bytes(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_run_is_told_of_in_words_on_every_page(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "find_all", lambda wishes, **_: [None] * len(wishes))
    copied_run(runs_root() / "sound")
    break_(copied_run(runs_root() / "broken"), BROKEN[how])
    if how == "huge":
        os.truncate(runs_root() / "broken/manifest.json", 1 << 40)
    me = client()
    item = urlencode({"item": "C1/none/false_belief/reality/original", "strategy": "cot"})
    pages = ["/", "/queue", "/new?like=broken", "/leaderboard", "/run/broken", "/answers/broken", "/live/broken",
             f"/answer/broken?{item}", "/items?run=broken", "/compare?a=broken&b=sound"]  # fmt: skip
    for address in pages:
        answer = me.get(address)
        assert answer.status_code < 500, (address, answer.text[-500:])
        assert "<h1" in answer.text, address
        assert "root:x:0" not in answer.text, address
    assert str(runs_root()) not in me.get("/api/v1/runs/broken").text + me.get("/api/v1/progress/broken").text
    assert "sound" in me.get("/").text


@pytest.mark.system
def test_nothing_of_a_hostile_run_does_anything_in_a_browser(browser: Any, tmp_path: Path) -> None:
    hostile(tmp_path)
    with served() as bench, visiting(browser, bench.opened) as me:
        for name, address in PAGES.items():
            status = me.open(address)
            assert status < 500, (name, status)
            assert not me.active(), name
            assert not [one for one in me.wrong if "status of 4" not in one], (
                name
            )  # that a page is missing is said there
            me.wrong.clear()
        compared = settled(client(), "/compare?a=hostile&sa=vanilla&sb=cot").text
        found = [*links(settled(client(), PAGES["answers"]).text, "/answer/"), *links(compared, "/compare/item")]
        assert len(found) > 2 * len(PAYLOADS)
        for address in found[:: len(found) // 12]:
            me.open(address)
            assert not me.active(), address
        assert "sk-verysecret" not in me.page.content()
        for name, text in (("answer", PAYLOADS[0]), ("item", PAYLOADS[0]), ("leaderboard", EVIL)):
            me.open(PAGES[name])
            assert text in me.text, "it is seen as text"
