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
from tomserve.prompting.strategy import Strategy

BENCH = ROOT / "bench/prompts.py"
ADVICE = " Read the story sentence by sentence and keep track of what each person sees, hears and is told."


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

    bodies = {orjson.dumps(body["messages"]): body["messages"] for body in endpoint.requests if body["max_tokens"] > 1}
    rows = [orjson.loads(row) for row in (tmp_path / "runs/prompts/responses.jsonl").read_bytes().splitlines()]
    strategies = {row["strategy"] for row in rows}
    assert len(strategies) == 2 + 6 + 7
    for name in ("vanilla", "cot"):
        shipped = Strategy.load(name)
        system, question, reply, last = shipped.turn(items[1]).messages
        former = re.sub(r'"unknown" is the right label where .* does not tell\.',
                        '"unknown" is the right label when the story so far gives no ground for any other.',
                        system["content"])  # fmt: skip
        first = "You answer questions about short stories."
        advised = {**system, "content": system["content"].replace(first, first + ADVICE)}
        openings = [opening[1:] for opening in shipped.openings(items[1])]
        practice = Strategy.load("cot_1").turn(items[1]).messages[1]
        assert orjson.dumps([system, last]) in bodies, "no demonstration"
        assert orjson.dumps([system, *openings[0], last]) in bodies, "the first for all"
        assert orjson.dumps([advised, question, reply, last]) in bodies
        assert orjson.dumps([{**system, "content": former}, question, reply, last]) in bodies
        shown = [messages for messages in bodies.values() if messages[0] == system and messages[1] == practice]
        assert len(shown) == len(items), "the former demonstration"
