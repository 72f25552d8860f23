"""The bench of the choices in the prompts: each copy differs from its original in one choice, and every effect is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.conftest import ROOT, Endpoint, make_item
from tomserve.items import Item, write_items

BENCH = ROOT / "bench/prompts.py"


def item(number: int) -> Item:
    factors = {"stage": f"s{number % 3}", "scenario": "false_belief", "question_kind": "belief", "perturbation": "none"}
    unknown = {"answer": "unknown", "gold": {"sets": [["unknown"]] * 3}} if number % 4 == 0 else {}
    return make_item(number, factors=factors, **unknown)


@pytest.mark.long
def test_each_choice_is_taken_back_alone_and_its_effect_is_printed(endpoint: Endpoint, tmp_path: Path) -> None:
    items = [item(number) for number in range(12)]
    write_items(tmp_path / "items.jsonl", items)
    endpoint.models, endpoint.max_model_len = ["tiny"], 16384
    command = [sys.executable, str(BENCH), "--base-url", endpoint.url, "--model", "tiny", "--benchmark"]
    done = subprocess.run(
        [*command, str(tmp_path / "items.jsonl")], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TOMSERVE_RUNS": str(tmp_path / "runs")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for strategy, choices in (("vanilla", 6), ("cot", 7)):
        part = done.stdout.split(f"{strategy}: what each choice gives")[1].split("\n\n")[0]
        for group in ("all", "false belief", "unknown is right"):
            assert len(re.findall(rf" {group} +\d+ [\d.]+ ", part)) == choices, part
    assert "cot_every_sentence" in done.stdout.split("chains, means")[1]
    rows = [orjson.loads(row) for row in (tmp_path / "runs/prompts/responses.jsonl").read_bytes().splitlines()]
    assert len({row["strategy"] for row in rows}) == 2 + 6 + 7
    prompts = {row["strategy"]: row["key"] for row in rows if row["item"] == items[1].id and row["turn"] == 0}
    assert len(set(prompts.values())) == len(prompts), "each choice changes the prompt"
