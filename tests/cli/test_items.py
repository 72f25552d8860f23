"""`tomserve items --cases` and `--limit`: the cases of a benchmark as items, and what makes none.
`tomserve items --variants` and its rewriter, and the refusal to ask a model what it has rewritten."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli, Endpoint
from tests.helpers.outcomes import passes, refuses
from tests.helpers.rewriters import CONDENSED, ITEM, PARAPHRASED, asking, rewriter
from tomserve import benchmarks
from tomserve.benchmarks.counterfactuals import read_cases
from tomserve.benchmarks.worlds.generator import draw_worlds
from tomserve.benchmarks.worlds.record import World
from tomserve.items import read_items, write_items

SMALL = ROOT / "tests/data/bigtom_small.csv"


@pytest.mark.system
def test_the_release_of_worlds_has_cases_enough_and_they_are_read_back(cli: Cli, tmp_path: Path, monkeypatch) -> None:
    def some(*drawn: Any) -> Iterator[World]:
        """The worlds of the release that the default conditions are about; to tell all others takes long."""
        return (one for one in draw_worlds(*drawn) if one.family in ("contents", "transfer", "testimony"))

    monkeypatch.setattr("tomserve.benchmarks.worlds.benchmark.draw_worlds", some)
    done = passes(cli("items", "worlds", "--cases", "--out", out := tmp_path / "cases.jsonl"))
    assert done.out == f"written: 2,356 items to {out}\n"
    told = " ".join(done.err.split())
    assert told.startswith(
        "589 cases of 370 scenarios: contents 160, testimony 143, transfer 286 (--where family=contents"
    )
    cases = list(benchmarks.get("items").found_cases(out))
    assert Counter(case.family for case in cases) == {"contents": 160, "testimony": 143, "transfer": 286}
    parted = {"informed": 217, "trusted_false": 92, "distrusted_true": 51}
    assert Counter(case.parted for case in cases if case.parted) == parted
    assert all(all(case.holders.values()) for case in cases)
    assert all(case.f.canary for case in cases)
    passes(cli("items", "items", "--path", out, "--cases", "--out", tmp_path / "again.jsonl"))
    assert (tmp_path / "again.jsonl").read_bytes() == out.read_bytes()


def test_a_file_holds_the_same_cases_that_the_benchmark_makes(cli: Cli, tmp_path: Path) -> None:
    fresh = tmp_path / "worlds.jsonl"
    passes(cli("generate", "worlds", "--worlds", "14", "--seed", "5", "--out", fresh))
    for name, path in (("worlds", fresh), ("bigtom", SMALL)):
        out = tmp_path / f"{name}-cases.jsonl"
        passes(cli("items", name, "--path", path, "--cases", "--where", "all", "--out", out))
        assert list(read_cases(out)) == list(benchmarks.get(name).found_cases(path, ["all"]))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    write_items(tmp_path / "own.jsonl", [ITEM])
    return tmp_path / "own.jsonl"


def test_variants_follow_their_originals_and_what_is_missing_is_said(cli: Cli, own: Path, tmp_path: Path) -> None:
    out = tmp_path / "told.jsonl"
    done = passes(cli("items", "items", "--path", own, "--variants", "person,condensed,t4", "--out", out))
    assert [item.id for item in read_items(out)] == ["own/1", "own/1/person", "own/1/choices"]
    assert "variants of 1 question: person 1, condensed 0, choices 1; left out: condensed 1" in done.err
    assert "a text alone is put in other words by a rewriter only" in done.err
    shown = cli("items", "items", "--path", own, "--variants", "choices")
    assert shown.out.count("\n") == 2
    assert "left out" not in shown.err


def test_a_rewriter_makes_what_rules_cannot(cli: Cli, own: Path, tmp_path: Path, endpoint: Endpoint) -> None:
    endpoint.script = asking(rewriter(PARAPHRASED, CONDENSED))
    out = tmp_path / "told.jsonl"
    words = ["items", "items", "--path", own, "--variants", "paraphrase,condensed,choices", "--out", out]
    done = passes(cli(*words, "--rewriter", endpoint.url))
    assert "1 of the rewritten ones answered rightly" in done.out or "0 of the rewritten ones" in done.out
    asked = refuses(
        cli("eval", "--benchmark", "items", "--path", out, "--base-url", endpoint.url, "--run", "r"),
        f"were rewritten by {endpoint.models[0]}",
    )
    assert "Traceback" not in asked.err
    endpoint.models = ["another"]
    endpoint.script = lambda body, number: None
    kinds = ["--variants", "choices"]
    assert (
        cli("eval", "--benchmark", "items", "--path", out, "--base-url", endpoint.url, "--run", "r", *kinds).code == 0
    )
