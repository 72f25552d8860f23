"""The leaderboard ranks only what can be compared."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.conftest import Endpoint
from tomserve.api.board import ALL, APART, BS, boards, carry_out_all, write
from tomserve.api.layering import Doing, Wish
from tomserve.benchmarks.worlds.benchmark import load
from tomserve.causal.finding import On
from tomserve.causal.running import Measured, measure
from tomserve.causal.settings import Settings
from tomserve.errors import StoppedError
from tomserve.runs.evaluation import EvalResult, evaluate
from tomserve.runs.planning import EvalOptions
from tomserve.runs.preflight import Servers
from tomserve.stats.functional import FTOM_1


def asked(options: EvalOptions, servers: Servers) -> EvalResult:
    return evaluate(options, servers=servers)


def looked(settings: Settings, folder: Path, on: On) -> Measured:
    return measure(settings, folder, None, on)


def wish(endpoint: Endpoint, tmp_path: Path, name: str, limit: int) -> Wish:
    asking = EvalOptions(model=name, base_urls=(endpoint.url,), limit=limit)
    return Wish(asking=asking, benchmarks=(f"worlds={tmp_path / 'worlds.jsonl'}",), run=str(tmp_path / name))


def test_a_model_that_was_asked_something_else_is_listed_apart(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "worlds.jsonl").write_bytes(b"".join(item.to_json() + b"\n" for item in islice(load(), 120)))
    endpoint.models = ["one", "<b>two</b>", "three"]
    wishes = {name: wish(endpoint, tmp_path, name, 24) for name in ("one", "three")}
    wishes["two"] = wish(endpoint, tmp_path, "<b>two</b>", 8)
    said: list[str] = []
    queue = carry_out_all(wishes, Doing(asked, looked, said.append), report=False)
    assert [line for line in said if line.startswith("model")] == [
        "model 1 of 3: one",
        "model 2 of 3: three",
        "model 3 of 3: two",
    ]
    found = boards(queue, FTOM_1)
    assert ALL not in found, "nothing was measured inside"
    assert set(found[BS]["model"]) == {"one", "three"}
    assert found[BS]["p_first"].sum() == pytest.approx(1.0), "both answer alike, and share the first rank"
    apart = found[APART].filter(table=BS)
    assert apart.to_dicts() == [{"model": "<b>two</b>", "table": BS, "why": "was asked or measured something else"}]
    page = write(found, tmp_path / "board")[-1].read_text("utf-8")
    assert "&lt;b&gt;two" in page
    assert "<b>two" not in page


def test_who_stops_it_stops_all_of_it(endpoint: Endpoint, tmp_path: Path) -> None:
    def stopped(options: EvalOptions, servers: Servers) -> EvalResult:
        raise StoppedError("stopped", 130)

    endpoint.models = ["one", "two"]
    wishes = {name: wish(endpoint, tmp_path, name, 8) for name in ("one", "two")}
    with pytest.raises(StoppedError):
        carry_out_all(wishes, Doing(stopped, looked), report=False)
