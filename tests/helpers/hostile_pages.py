"""Runs in which everything that others write is a payload, and the pages that show it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlencode

import orjson

from tests.helpers.examples import copied_run
from tests.helpers.reports import PAYLOADS, hostile_run
from tomserve.content.places import runs_root
from tomserve.web import cards
from tomserve.web.cards import Card, Job, State

EVIL = PAYLOADS[2]
NAME = "<img src=x onerror=alert(9)>"
"""What the folder of a run may be called, where somebody has made it by hand."""


def hostile(folder: Path) -> None:
    """Make two runs in which everything that others write is a payload, and a folder whose name is one."""
    root = runs_root()
    first = hostile_run(root, model=EVIL)
    job = Job(state=State.FAILED, said=PAYLOADS[0], group=EVIL, submitted="2026-01-01T00:00:00Z")
    tags = tuple(one[:40] for one in PAYLOADS)
    cards.write(first, Card(owner="", notes="\n".join(PAYLOADS), tags=tags, job=job))
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
