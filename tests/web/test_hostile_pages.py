"""Whatever strangers write into runs, replies and names is text on every page, and a broken run breaks no page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from tests.conftest import Endpoint, completion
from tests.helpers.browsing import Served, Visitor, beside, visiting
from tests.helpers.examples import copied_run
from tests.helpers.reports import PAYLOADS, hostile_run
from tests.helpers.workbenches import client
from tomserve.content.places import runs_root
from tomserve.web import cards
from tomserve.web.cards import Card, Job, State

EVIL = PAYLOADS[2]
NAME = "<img src=x onerror=alert(9)>"
"""What the folder of a run may be called, where somebody has made it by hand."""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Two runs in which everything that others write is a payload, and a folder whose name is one."""
    root = runs_root()
    folder = hostile_run(root, model=EVIL)
    notes = "\n".join(PAYLOADS)
    job = Job(state=State.FAILED, said=PAYLOADS[0], group=EVIL, submitted="2026-01-01T00:00:00Z")
    cards.write(folder, Card(owner="", notes=notes, tags=tuple(one[:40] for one in PAYLOADS), job=job))
    (folder / "log.txt").write_text("".join(f"2026-01-01T00:00:00Z {one}\n" for one in PAYLOADS), "utf-8")
    (folder / "console.txt").write_text("\n".join(PAYLOADS), "utf-8")
    progress = {"schema": 1, "pid": 1, "began": PAYLOADS[0], "updated": EVIL, "message": EVIL, "endpoint": EVIL}
    (folder / "progress.json").write_bytes(orjson.dumps(progress))
    second = hostile_run(tmp_path / "made", model=PAYLOADS[3])
    second.rename(root / "second")
    copied_run(root / NAME)
    return folder


@pytest.fixture
def visitor(browser: Any, hostile: Path) -> Iterator[Visitor]:
    with Served() as served, visiting(browser, served.opened) as found:
        yield found


@pytest.fixture
def replying() -> Iterator[Endpoint]:
    """An endpoint that is begun by another thread, as playwright has an event loop in this one."""
    with beside() as server:
        yield server


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


def test_nothing_of_a_hostile_run_is_more_than_text(visitor: Visitor) -> None:
    for name, address in PAGES.items():
        status = visitor.open(address)
        assert status < 500, (name, status)
        assert not visitor.active(), name
        expected = [one for one in visitor.wrong if "status of 4" not in one]  # that a page is missing is said there
        assert not expected, (name, expected)
        visitor.wrong.clear()
    visitor.open(PAGES["answer"])
    assert PAYLOADS[0] in visitor.text, "it is seen as text"
    visitor.open(PAGES["item"])
    assert PAYLOADS[0] in visitor.text
    visitor.open(PAGES["leaderboard"])
    assert EVIL in visitor.text


def test_every_reply_and_story_of_a_hostile_run_is_seen_as_text(visitor: Visitor) -> None:
    for number, payload in enumerate(PAYLOADS):
        item = f"{number}/{payload}"
        status = visitor.open(f"/answer/hostile?{urlencode({'item': item, 'strategy': 'cot'})}")
        assert status == 200, item
        assert not visitor.active(), item
        assert not visitor.wrong, (item, visitor.wrong)


def test_what_an_endpoint_replies_to_a_try_is_text(visitor: Visitor, replying: Endpoint) -> None:
    def reply(body: dict[str, Any], number: int) -> dict[str, Any]:
        return completion("".join(PAYLOADS), model=EVIL, reasoning=PAYLOADS[0])

    replying.script = reply
    visitor.open("/try")
    visitor.page.get_by_text("A story of your own", exact=True).click()
    visitor.page.get_by_label("Story, a sentence on each line").fill("\n".join(PAYLOADS))
    visitor.page.get_by_label("Question").fill(EVIL)
    visitor.page.get_by_label("Choices, each on a line").fill(f"{EVIL}\n{PAYLOADS[0]}")
    visitor.page.get_by_label("Address of the endpoint").fill(replying.url)
    visitor.page.get_by_role("button", name="Ask", exact=True).click()
    visitor.page.wait_for_url("**/try/*")
    visitor.settled()
    assert PAYLOADS[0] in visitor.text
    assert not visitor.active()
    assert not visitor.wrong


def _huge(folder: Path) -> None:
    with (folder / "manifest.json").open("wb") as file:
        file.write(b'{"schema": 1, "model": "')
        file.truncate(1 << 40)


def _types(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(orjson.dumps({"schema": 1, "benchmark": 5, "model": ["x"], "strategies": 7}))


def _card(folder: Path) -> None:
    (folder / "workbench.json").write_bytes(orjson.dumps({"schema": 1, "owner": 5, "job": "x"}))


def _link(folder: Path) -> None:
    (folder / "responses.jsonl").unlink()
    (folder / "responses.jsonl").symlink_to("/etc/passwd")


def _link_of_items(folder: Path) -> None:
    (folder / "items.jsonl").unlink()
    (folder / "items.jsonl").symlink_to("/etc/passwd")


def _pipe(folder: Path) -> None:
    (folder / "responses.jsonl").unlink()
    os.mkfifo(folder / "responses.jsonl")


def _pipe_of_the_log(folder: Path) -> None:
    for name in ("log.txt", "console.txt", "progress.json"):
        os.mkfifo(folder / name)


def _letters(folder: Path) -> None:
    (folder / "responses.jsonl").write_bytes(b"\xff\xfe\x00{}\n" * 50)
    (folder / "log.txt").write_bytes(b"\xff\xfe\x00\x1b[2J" * 50)


def _line(folder: Path) -> None:
    with (folder / "responses.jsonl").open("ab") as file:
        file.write(b'{"item": "' + b"x" * 10_000_000 + b'"}\n')
    (folder / "log.txt").write_bytes(b"x" * 10_000_000)


def _table(folder: Path) -> None:
    (folder / "scores.parquet").write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    (folder / "scores.json").write_bytes(b"[" * 10_000)


BROKEN = [_huge, _types, _card, _link, _link_of_items, _pipe, _pipe_of_the_log, _letters, _line, _table]


@pytest.mark.parametrize("break_", BROKEN, ids=lambda one: one.__name__.strip("_"))
def test_a_broken_run_is_told_of_in_words_on_every_page(break_: Callable[[Path], None]) -> None:
    copied_run(runs_root() / "sound")
    break_(copied_run(runs_root() / "broken"))
    me = client()
    item = urlencode({"item": "C1/none/false_belief/reality/original", "strategy": "cot"})
    pages = ["/", "/queue", "/new?like=broken", "/leaderboard", "/run/broken", "/answers/broken", "/live/broken",
             f"/answer/broken?{item}", "/items?run=broken", "/compare?a=broken&b=sound"]  # fmt: skip
    for address in pages:
        answer = me.get(address)
        assert answer.status_code < 500, (address, answer.text[-500:])
        assert "<h1" in answer.text, address
        assert "root:x:0" not in answer.text, address
    assert "sound" in me.get("/").text
