"""Measures the report: its size, the seconds to build it, and the milliseconds until its list of answers is filled.

    python bench/report.py [--models 6] [--reasoning 0] [--folder DIR]

Runs are made from the dataset, 1,088 questions by two strategies a model, of rising skill: a wrong answer in so many,
chains with random beliefs put in, prose around the JSON, no two texts alike by a number in them. --reasoning adds so
many words of thinking to each answer. The browser is Debian's chromium by playwright; without it that line is left
out. Aims: under 5 MB, interactive within 1,000 ms.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
from _figures import figure, spread_figure

from tomserve.benchmarks import get
from tomserve.items import Item, items_digest, write_items
from tomserve.reporting.html.report import write_report

WORDS = ("the", "box", "tag", "reads", "looks", "thinks", "knows", "then", "because", "holds", "person", "sentence")


def make(folder: Path, models: int, reasoning: int = 0) -> list[str]:
    """Write a run folder for each of so many models, with `reasoning` words of thinking each; returns the paths."""
    items = list(get("perturbed").items())
    digest = items_digest(items)
    paths = []
    for number in range(models):
        run = folder / f"perturbed-model-{number}"
        run.mkdir(parents=True)
        write_items(run / "items.jsonl", items)
        noise, skill = random.Random(number), 0.3 + 0.6 * number / max(1, models - 1)
        with (run / "responses.jsonl").open("wb") as journal:
            for item in items:
                for strategy in ("vanilla", "cot"):
                    journal.write(orjson.dumps(_row(item, strategy, skill, noise, reasoning)) + b"\n")
        strategies = {"vanilla": {"digest": "sha256:0", "chain": False}, "cot": {"digest": "sha256:1", "chain": True}}
        manifest = {"schema": 1, "run": run.name, "benchmark": "perturbed", "benchmark_digest": digest}
        manifest |= {"model": f"model-{number}", "revision": None, "strategies": strategies, "complete": True}
        (run / "manifest.json").write_bytes(orjson.dumps(manifest))
        paths.append(str(run))
    return paths


def _row(item: Item, strategy: str, skill: float, noise: random.Random, reasoning: int) -> dict[str, Any]:
    assert item.gold is not None
    hard = 0.0 if item.factors["perturbation"] == "none" else 0.15
    right = noise.random() < skill + (0.05 if strategy == "cot" else 0.0) - hard
    reply: dict[str, Any] = {"answer": item.answer if right else noise.choice(item.choices)}
    if strategy == "cot":
        chain = list(next(item.gold.automaton().chains()))
        if not right or noise.random() > skill:
            chain = [noise.choice(item.choices) if noise.random() < 0.3 else belief for belief in chain]
        beliefs = [{"sentence": place, "belief": belief} for place, belief in enumerate(chain, 1)]
        reply = {"beliefs": beliefs, **reply}
    text = f"Let me see ({noise.randrange(10**6)}). {orjson.dumps(reply).decode()}"
    thinking = " ".join(noise.choices(WORDS, k=reasoning)) or None
    return {"schema": 1, "item": item.id, "strategy": strategy, "turn": 0, "key": "k", "status": "ok", "text": text,
            "reasoning": thinking}  # fmt: skip


def interactive(path: Path) -> list[float]:
    """Milliseconds from opening the report until its list of answers is filled, in five fresh pages."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(5):
            page = browser.new_page()
            page.goto(path.as_uri(), wait_until="commit")
            page.wait_for_selector("html[data-ready]")
            found.append(float(page.evaluate("Number(document.documentElement.dataset.ready)")))
            page.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--reasoning", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        runs = make(folder / "runs", given.models, given.reasoning)
        began = time.perf_counter()
        path = write_report(runs, folder / "report.html")
        first = time.perf_counter() - began
        began = time.perf_counter()
        write_report(runs, path)
        seconds = time.perf_counter() - began
        print(f"{given.models} models x 1,088 x 2: {path.stat().st_size / 1e6:.2f} MB (aim: under 5)")
        figure("size of the report", path.stat().st_size / 1e6, unit="MB", at_most=5)
        figure("built, with scoring", first, unit="s")
        figure("built, from kept scores", seconds, unit="s")
        print(f"built in {first:.1f} s with scoring, {seconds:.1f} s from kept scores")
        if shutil.which("chromium") is None:
            print("no chromium: time in the browser not measured")
            return
        times = interactive(path)
        spread_figure("list filled in the browser", times, unit="ms", at_most=1000)
        print(f"list filled {statistics.median(times):.0f} ms after navigation (median of 5; aim: under 1,000)")


if __name__ == "__main__":
    main()
