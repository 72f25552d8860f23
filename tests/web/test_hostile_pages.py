"""Whatever strangers write into runs, replies and names is text on every page, and a broken run breaks no page."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import orjson
import pytest

from tests.helpers.examples import copied_run
from tests.helpers.hostile_pages import PAGES, hostile
from tests.helpers.reading import settled
from tests.helpers.reports import PAYLOADS
from tests.helpers.workbenches import client
from tomserve.content.places import runs_root


def links(page: str, begin: str) -> list[str]:
    return [html.unescape(link) for link in re.findall(rf'href="({begin}[^"]+)"', page)]


def test_what_models_and_datasets_say_is_only_ever_text(tmp_path: Path) -> None:
    hostile(tmp_path)
    me = client()
    pages = {address: settled(me, address).text for address in PAGES.values()}
    answers, compared = "/answers/hostile", "/compare?a=hostile&sa=vanilla&sb=cot"
    found = [*links(pages[answers], "/answer/"), *links(settled(me, compared).text, "/compare/item")]
    assert len(found) > 2 * len(PAYLOADS)
    pages |= {address: me.get(address).text for address in found}
    for address, page in pages.items():
        assert not re.search(r"<(script(?! src=\"/static/)|img|iframe|style|base|object|svg/)", page), address
        tags = "".join(re.findall(r"<[a-zA-Z][^>]*>", page))
        assert not re.search(r"\son\w+\s*=", re.sub(r'"[^"]*"', '""', tags)), address
        assert 'href="javascript:' not in page, address
        assert 'href="http' not in page, address
    shown = html.unescape(re.sub(r"<[^>]*>", " ", " ".join(pages.values())))
    assert all(payload in shown for payload in PAYLOADS if payload.isprintable())
    assert "sk-verysecret" not in shown


def _huge(folder: Path) -> None:
    with (folder / "manifest.json").open("wb") as file:
        file.write(b'{"schema": 1, "model": "')
        file.truncate(1 << 40)


def _types(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(orjson.dumps({"schema": 1, "benchmark": 5, "model": ["x"], "strategies": 7}))


def _card(folder: Path) -> None:
    (folder / "workbench.json").write_bytes(orjson.dumps({"schema": 1, "owner": 5, "job": "x"}))


def _link(folder: Path) -> None:
    for name in ("responses.jsonl", "items.jsonl"):
        (folder / name).unlink()
        (folder / name).symlink_to("/etc/passwd")


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


BROKEN = [_huge, _types, _card, _link, _pipe, _pipe_of_the_log, _letters, _line, _table]


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
