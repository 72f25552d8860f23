"""`tomserve generate hitom` and what reads its files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Outcome, data_file, make_item
from tomserve.benchmarks import hitom
from tomserve.benchmarks.hitom.generator import generate, items, records
from tomserve.benchmarks.hitom.plan import Plan
from tomserve.benchmarks.hitom.reader import read_records
from tomserve.errors import ContentError
from tomserve.items import read_items

Cli = Callable[..., Outcome]


def test_items_are_written_and_read_back(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_DATA", str(tmp_path))
    path = tmp_path / "new/h.jsonl"
    done = cli("generate", "hitom", "--stories", 12, "--seed", 3, "--out", path)
    assert done.code == 0, done.err
    assert f"written: 12 stories, 60 items (released semantics) to {path}" in done.out
    assert "answers by order" in done.out
    assert "official" not in done.out  # the file is not there
    found = list(read_items(path))
    assert found == list(items(Plan(stories=12, seed=3)))
    assert list(hitom.load(path)) == found
    assert list(hitom.load(tmp_path / "new/h.jsonl")) == found
    shown = cli("items", "hitom", "--path", path, "--where", "order=3", "--where", "deception=true")
    assert shown.out.count("\n") == 6
    assert [p.name for p in path.parent.iterdir()] == ["h.jsonl"]


def test_every_option_arrives(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    options: dict[str, object] = {
        "stories": 8,
        "seed": 5,
        "chapters": "1,2",
        "agents": "4-6",
        "orders": "0,2-3",
        "tells": "1,3",
        "tell-kind": "public",
        "truth": "mixed",
        "moves": "2-4",
        "distractors": "1",
        "lines": 40,
        "choices": "mentioned",
        "semantics": "common_knowledge",
    }
    flat = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    done = cli(
        "generate", "hitom", *flat, "--balance", "letter", "--balance", "tell", "--order-sensitive", "--out", path
    )
    assert done.code == 0, done.err
    plan = Plan(
        stories=8,
        seed=5,
        chapters=(1, 2),
        agents=(4, 5, 6),
        orders=(0, 2, 3),
        tells=(1, 3),
        tell_kind="public",
        truth="mixed",
        moves=(2, 3, 4),
        distractors=(1,),
        lines=40,
        choices=None,
        balance=("letter", "tell"),
        order_sensitive=True,
        semantics="common_knowledge",
    )
    assert list(read_items(path)) == list(items(plan))
    assert cli("generate", "hitom", "--twins", "--balance", "none", "--stories", 4, "--out", path).code == 0
    assert list(read_items(path)) == list(items(Plan(stories=4, twins=True, balance=(), tells=(2,))))


def test_the_official_form_reads_back(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    done = cli("generate", "hitom", "--stories", 12, "--tells", "1,3", "--format", "hitom", "--out", path)
    assert done.code == 0, done.err
    found = read_records(path)
    plan = Plan(stories=12, tells=(1, 3))
    ours = list(items(plan))
    assert len(found) == len(ours) == 60
    assert [r.sample_id for r in found] == list(range(60))
    assert json.loads(path.read_text())["data"] == [r for family in generate(plan) for r in records(family)]
    for record, item in zip(found, ours, strict=True):
        assert record.story.sentences() == item.story
        assert (record.answer, record.deception) == (item.answer, item.factors["deception"])
        assert (*record.choices, "unknown") == item.choices
    for gold in ("corrected", "tracked"):
        again = list(hitom.load(path, gold))
        assert [item.id for item in again] == [item.id for item in ours]
        assert [item.gold for item in again] == [item.gold for item in ours]
        for item, one in zip(ours, again, strict=True):
            assert {**item.factors, **one.factors} == {**item.factors, "gold": gold}
    assert cli("dataset", "audit", "hitom", "--path", path).code == 0


def test_the_report_stands_beside_the_official_files_figures(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOMSERVE_DATA", str(data_file("Hi-ToM_data.json").parent))
    report = tmp_path / "balance.md"
    done = cli("generate", "hitom", "--stories", 30, "--out", tmp_path / "h.jsonl", "--report", report)
    assert done.code == 0, done.err
    text = report.read_text()
    for line in (
        "| generated | 4 | 30 | 0.",
        "| generated | 3 | True | 5 |",
        "| official | 4 | 120 | 0.342 |",
        "| official | 3 | True | 20 | 40.350 |",
    ):
        assert line in text, text
    assert done.out.count("official ") == 11


def test_the_built_in_set_needs_no_file(cli: Cli, endpoint: Any, tmp_path: Path) -> None:
    assert cli("items", "hitom").out.count("\n") == 600
    done = cli(
        *("eval", "--benchmark", "hitom", "--base-url", endpoint.url, "--strategy", "vanilla", "--limit", 10),
        *("--run", "r"),
    )
    assert done.code == 0, done.err
    asked = list(read_items(tmp_path / "runs/r/items.jsonl"))
    assert sorted(str(item.factors["order"]) for item in asked) == [order for order in "01234" for _ in range(2)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--agents", "2"], "--agents 2: expected 3 to 8"),
        (["--agents", "3-9"], "--agents 9: expected 3 to 8"),
        (["--agents", "4", "--orders", "5"], "--orders 5: needs 5 agents, but --agents allows 4 in a story"),
        (["--orders", "x"], "--orders 'x': expected numbers such as 3, 0,2 or 3-8"),
        (["--moves", "0", "--stories", "99"], "story"),
        (["--twins", "--stories", "5"], "--stories 5: matched twins come in fours; ask for 4 or 8"),
        (["--balance", "leter"], "unknown --balance 'leter'; did you mean 'letter'"),
        (["--semantics", "strict"], "unknown --semantics 'strict'"),
        (["--format", "json"], "unknown --format 'json'"),
        (["--choices", "many"], "--choices 'many': expected numbers"),
        (["--choice", "15"], "No such option: --choice"),
        (["--choices", "4-8"], "--choices '4-8': every story has the same number; give one, such as 4"),
        (["--twins", "--format", "hitom"], "--format hitom: the official form has no field for --twins;"),
        (
            ["--semantics", "common_knowledge", "--format", "hitom"],
            "--format hitom: the official form has no field for common_knowledge semantics;",
        ),
        (
            ["--order-sensitive", "--orders", "2-4", "--format", "hitom"],
            "--format hitom: the official form has no field for common_knowledge semantics;",
        ),
        (["--choices", "30", "--format", "hitom"], "story 1 has 30 choices, the official form letters for 26"),
    ],
)
def test_mistakes_end_in_one_line(cli: Cli, tmp_path: Path, options: list[str], said: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text("what was there")
    done = cli("generate", "hitom", "--out", path, *options)
    assert done.code == 2
    assert done.err.startswith(f"tomserve: {said}")
    assert done.err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["h.jsonl"]
    assert path.read_text() == "what was there"


def test_the_report_never_overwrites_the_items(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = tmp_path / "h.jsonl"
    for report in (path, tmp_path / "sub/../h.jsonl"):
        done = cli("generate", "hitom", "--stories", 4, "--out", path, "--report", report)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "would overwrite the items" in done.err
        assert not path.exists()


def test_what_is_not_hitom_is_refused(cli: Cli, tmp_path: Path, items_file: Path) -> None:
    with pytest.raises(ContentError, match="is of benchmark 'demo'; use --benchmark items"):
        list(hitom.load(items_file))
    path = tmp_path / "h.jsonl"
    path.write_bytes(make_item(1, benchmark="hitom").to_json() + b"\n{}\n")
    with pytest.raises(ContentError, match=r"h\.jsonl:2"):
        list(hitom.load(path))
    assert "leave --gold out" in cli("items", "hitom", "--path", path, "--gold", "tracked").err
    path.write_text("[]")
    with pytest.raises(ContentError, match="expected the official file"):
        list(hitom.load(path))
    with pytest.raises(ContentError, match="cannot be read"):
        list(hitom.load(tmp_path / "none.json"))


def test_benchmarks_that_can_be_generated_are_the_commands(cli: Callable[..., Outcome]) -> None:
    listed = cli("generate", "--help").out
    assert "hitom" in listed
    assert "Generate Hi-ToM stories" in listed
    assert "perturbed-2" in listed
    assert "perturbed " not in listed
    assert "--twins" in cli("generate", "hitom", "--help").out
    done = cli("generate", "perturbed", "--out", "x")
    assert done.code == 2
    assert "No such command 'perturbed'" in done.err
