"""`tomserve items --cases` and `--limit`: the cases of a benchmark as items, and what makes none."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli
from tests.helpers.outcomes import passes, refuses
from tomserve import benchmarks
from tomserve.benchmarks.counterfactuals import read_cases
from tomserve.benchmarks.worlds.generator import draw_worlds
from tomserve.benchmarks.worlds.record import World
from tomserve.items import read_items

SMALL = ROOT / "tests/data/bigtom_small.csv"


@pytest.mark.system
def test_the_release_of_worlds_has_cases_enough_and_they_are_read_back(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_what_makes_no_case_is_counted_by_reason_in_eighty_columns(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = passes(cli("items", "bigtom", "--path", SMALL, "--cases", "--limit", "1"))
    assert done.out.count("\n") == 4
    assert "1 case of 1 scenario, drawn from 2" in done.err
    assert "2   it is not sure whom a pronoun means" in done.err
    assert max(map(len, done.err.splitlines())) <= 80


def test_a_limit_draws_items_as_an_evaluation_does(cli: Cli, tmp_path: Path) -> None:
    passes(cli("items", "bigtom", "--path", SMALL, "--limit", "6", "--out", tmp_path / "some.jsonl"))
    found = list(read_items(tmp_path / "some.jsonl"))
    assert len(found) == 6
    assert len({item.cluster for item in found}) == 1


def test_options_that_do_not_go_with_cases_are_refused(cli: Cli) -> None:
    for more in (("--variants", "choices"), ("--gold", "released"), ("--rewriter", "http://localhost:1")):
        done = cli("items", "bigtom", "--path", SMALL, "--cases", *more)
        assert (done.code, done.err) == (
            2,
            "tomserve: --cases goes with --path, --where, --limit and --out only\n",
        )
    refuses(cli("items", "perturbed", "--cases"), "those that have: bigtom, perturbed-2, worlds")
