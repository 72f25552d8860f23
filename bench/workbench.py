"""Measures how long the workbench takes for each of its pages, with many runs and with a run of half a million answers.

    python bench/workbench.py [--runs 200] [--rows 500000] [--rounds 15] [--folder DIR]

Runs are made from the dataset (see bench/scale.py): small ones of 64 answers, and a large one. The real application
answers in this process, without a network, so that what is measured is what the server does for a page: every round
asks for all pages in an order of its own, and for one that says nothing (the floor). What is computed beside the server
is made first, and how long the first look takes until it is there is shown on its own. Aim: 300 ms for every page.
"""

from __future__ import annotations

import argparse
import html
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import orjson
from _figures import figure, spread_figure

sys.path.insert(0, str(Path(__file__).parent))
from scale import fill, items

from tomserve.items import Item, items_digest

FLOOR = "/api/v1/health"
AIM = 300.0
PATIENCE = 1800.0
SMALL = 64


def make(folder: Path, every: list[Item], rows: int, model: str) -> None:
    """Write a run of so many answers to these items."""
    folder.mkdir(parents=True)
    path = folder / "items.jsonl"
    path.write_bytes(b"".join(sorted(item.to_json() + b"\n" for item in every)))
    (folder / "responses.jsonl").touch()
    fill(folder / "responses.jsonl", path, rows + 64)
    strategies = {"vanilla": {"digest": "sha256:0", "chain": False}, "cot": {"digest": "sha256:1", "chain": True}}
    manifest = {"schema": 1, "run": folder.name, "benchmark": "perturbed", "benchmark_digest": items_digest(every)}
    manifest |= {"model": model, "revision": None, "strategies": strategies, "complete": True}
    (folder / "manifest.json").write_bytes(orjson.dumps({**manifest, "created": "2026-11-23T10:00:00Z"}))


def pages_of(large: str, small: list[str]) -> dict[str, str]:
    """The addresses of the pages that are measured, by what they show."""
    answers = f"/answers/{large}"
    return {
        "dashboard": "/",
        "dashboard, filtered": "/?text=model-7",
        "new experiment": "/new",
        "queue": "/queue",
        "leaderboard": "/leaderboard",
        "items": "/items",
        "try": "/try",
        "compare, choosing": "/compare",
        "live": f"/live/{small[0]}",
        "run, small": f"/run/{small[0]}",
        "run, large": f"/run/{large}",
        "answers, small": f"/answers/{small[0]}",
        "answers, first page": answers,
        "answers, page 5,000": f"{answers}?page=5000",
        "answers, filtered": f"{answers}?outcome=wrong&strategy=cot&f.scenario=false_belief",
        "answers, item searched": f"{answers}?item=0031/T2",
        "answers, words searched": f"{answers}?text=mittens",
        "answers, sorted": f"{answers}?sort=answer&down=1&page=300",
        "compare, two strategies": f"/compare?a={large}&sa=vanilla&sb=cot",
        "compare, page of flips": f"/compare?a={large}&sa=vanilla&sb=cot&flip=lost&page=20",
        "compare, ten runs": "/compare?common=1&a=" + small[0] + "".join(f"&b={name}" for name in small[1:11]),
        "list of runs, as JSON": "/api/v1/runs?size=200",
    }


class Visitor:
    """Somebody who asks the application in this process for pages."""

    def __init__(self) -> None:
        from fastapi.testclient import TestClient

        from tomserve.web.app import make_app as application
        from tomserve.web.settings import Settings

        app = application(Settings())
        self._client = TestClient(
            app,
            base_url="http://127.0.0.1:8321",
            headers={"Authorization": f"Bearer {app.state.access.token}"},
        )

    def ask(self, address: str) -> tuple[float, float, int, str]:
        """Milliseconds and CPU milliseconds until the page is there, its status and its text."""
        wall, cpu = time.perf_counter(), time.process_time()
        answer = self._client.get(address)
        taken, used = time.perf_counter() - wall, time.process_time() - cpu
        return 1000 * taken, 1000 * used, answer.status_code, answer.text

    def settle(self, address: str) -> float:
        """Seconds from the first look until nothing on the page is being computed any more."""
        begun = time.perf_counter()
        while time.perf_counter() - begun < PATIENCE:
            status, text = self.ask(address)[2:]
            if status != 202 and 'aria-busy="true"' not in text:
                return time.perf_counter() - begun
            time.sleep(0.2)
        raise SystemExit(f"{address}: still being computed after {PATIENCE:.0f} s")


def first_looks(visitor: Visitor, pages: dict[str, str]) -> None:
    """Look at every page once, and say how long what is computed beside took. The plan of a new experiment is none of
    it, as the browser asks for it whenever the form changes."""
    for name, address in pages.items():
        if address == "/new":
            continue
        seconds = visitor.settle(address)
        print(f"first look  {name:28} {seconds:8.2f} s", flush=True)
        if name in ("run, large", "answers, first page", "compare, two strategies", "leaderboard"):
            figure(f"first look: {name}", seconds, unit="s")


def measured(visitor: Visitor, pages: dict[str, str], rounds: int) -> None:
    """Ask for all pages in rounds, each in an order of its own, and print what they took."""
    wall: dict[str, list[float]] = {name: [] for name in pages}
    cpu: dict[str, list[float]] = {name: [] for name in pages}
    statuses: dict[str, int] = {}
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(pages), len(pages)):
            taken, used, status, _ = visitor.ask(pages[name])
            wall[name].append(taken)
            cpu[name].append(used)
            statuses[name] = status
    print(f"{'page':28} {'median ms':>10} {'slowest':>9} {'CPU ms':>8}  status")
    for name in pages:
        middle, most, used = statistics.median(wall[name]), max(wall[name]), statistics.median(cpu[name])
        print(f"{name:28} {middle:10.1f} {most:9.1f} {used:8.1f}  {statuses[name]}")
        if statuses[name] == 200:
            spread_figure(name, wall[name], unit="ms", at_most=None if name == "floor" else AIM)


def main() -> None:
    """Make the runs, look at every page once, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="small runs")
    parser.add_argument("--rows", type=int, default=500_000, help="answers of the large run")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", type=Path, help="where the runs are made and stay; a temporary folder without it")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="workbench-"))
    os.environ["TOMSERVE_RUNS"] = str(folder)
    try:
        small = [f"small/model-{number:03d}" for number in range(options.runs)]
        few = list(items(SMALL // 16))
        for name in small:
            if not (folder / name).exists():
                make(folder / name, few, SMALL, name.rpartition("/")[2])
        if not (folder / "large").exists():
            make(folder / "large", list(items(max(1, options.rows // 16))), options.rows, "large")
        from tomserve.web.settings import Settings
        from tomserve.web.worker import keep_workers

        visitor, pages = Visitor(), pages_of("large", small)
        with keep_workers(Settings()):
            first_looks(visitor, pages)
        listed = visitor.ask(pages["answers, page 5,000"])[3]
        pages["one answer"] = html.unescape(re.findall(r'href="(/answer/[^"]+)"', listed)[0])
        flips = visitor.ask(pages["compare, two strategies"])[3]
        if found := re.findall(r'href="(/compare/item[^"]+)"', flips):
            pages["compare, one question"] = html.unescape(found[0])
        measured(visitor, {"floor": FLOOR, **pages}, options.rounds)
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
