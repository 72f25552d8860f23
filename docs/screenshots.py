"""Makes docs/report.png and the pictures in docs/workbench: `python docs/screenshots.py` (needs Chromium, playwright).

It makes a few small runs beside the committed ones, on an endpoint that answers by chance, and looks at the pages of a
workbench that listens on this machine for as long as that takes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

PAGES = {
    "dashboard": "/",
    "new": "/new?like=pilot",
    "live": "/live/going",
    "run": "/run/example",
    "compare": "/compare?a=pilot&b=second",
    "leaderboard": "/leaderboard?benchmark=perturbed",
}
"""The pictures by their names, and the pages that they show."""


def by_chance(items: list[Any], seed: int, share: float) -> Any:
    """What an endpoint replies that knows the right answer to that share of the questions, and guesses the others."""
    import random

    import orjson

    from tests.conftest import completion, fill

    chance = random.Random(seed)

    def script(body: dict[str, Any], count: int) -> Any:
        if "response_format" not in body:  # what is asked before a run
            return None
        schema, text = body["response_format"]["json_schema"]["schema"], body["messages"][-1]["content"]
        told, choices = orjson.loads(fill(schema)), schema["properties"]["answer"]["enum"]
        found = (one for one in items if one.question in text and all(line in text for line in one.story))
        item = next((one for one in found if set(one.choices) == set(choices)), None)
        knows = item is not None and chance.random() < share
        answer = item.answer if item is not None and knows else chance.choice(choices)
        return completion(orjson.dumps({**told, "answer": answer}).decode(), body["model"])

    return script


def prepared(runs: Path, endpoint: Any) -> None:
    """The committed run and two runs of models that answer by chance, one better than the other."""
    import tomserve
    from tests.helpers.examples import copied_run

    copied_run(runs / "example")
    items = list(tomserve.load("perturbed"))
    for seed, (name, model, share) in enumerate((("pilot", "small-model", 0.4), ("second", "large-model", 0.9))):
        endpoint.models, endpoint.script = [model], by_chance(items, seed, share)
        tomserve.ask("perturbed", ["vanilla", "cot"], base_url=endpoint.url, run=name, limit=176)
    endpoint.models, endpoint.script, endpoint.delay = ["small-model"], by_chance(items, 9, 0.4), 0.4


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TOMSERVE_RUNS"] = folder
        os.environ["XDG_STATE_HOME"] = f"{folder}/.state"
        from playwright.sync_api import sync_playwright

        from tests.conftest import running
        from tests.helpers.browsing import Started
        from tomserve.reporting.html.report import write_report
        from tomserve.web.client import Workbench

        with running() as endpoint:
            prepared(Path(folder), endpoint)
            started = Started(Path(folder))
            try:
                client = Workbench(started.address)
                client.start({"benchmark": "perturbed", "base-url": [endpoint.url], "model": "small-model",
                              "strategy": ["vanilla"], "limit": 1000, "run": "going", "concurrency": 4})  # fmt: skip
                time.sleep(20)
                with sync_playwright() as player:
                    chromium = player.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                    page = chromium.new_page(viewport={"width": 1280, "height": 860}, color_scheme="light")
                    page.set_default_timeout(180_000)
                    page.set_viewport_size({"width": 1280, "height": 800})
                    page.goto(write_report(["example"], Path(folder) / "report.html").as_uri())
                    page.wait_for_selector("html[data-ready]", state="attached")
                    page.screenshot(path=HERE / "report.png")
                    page.set_viewport_size({"width": 1280, "height": 860})
                    page.goto(started.address)
                    for name, address in PAGES.items():
                        page.goto(started.base + address)
                        page.wait_for_function(
                            "() => !document.querySelector('.coming, [aria-busy=true]')", timeout=120_000
                        )
                        page.wait_for_timeout(1500)
                        page.screenshot(path=HERE / "workbench" / f"{name}.png")
                    chromium.close()
            finally:
                started.end()


if __name__ == "__main__":
    main()
