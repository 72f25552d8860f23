"""`tomserve generate hitom` and what reads its files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outcome, data_file, make_item
from tomserve.benchmarks import hitom
from tomserve.benchmarks.hitom.generator import generate, items, records
from tomserve.benchmarks.hitom.plan import Plan
from tomserve.benchmarks.hitom.reader import read_records
from tomserve.errors import ContentError
from tomserve.items import read_items

Cli = Callable[..., Outcome]


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


def test_what_is_not_hitom_is_refused(cli: Cli, tmp_path: Path, items_file: Path) -> None:
    with pytest.raises(ContentError, match="is of benchmark 'demo'; use --benchmark items"):
        list(hitom.load(items_file))
    path = tmp_path / "h.jsonl"
    path.write_bytes(make_item(1, benchmark="hitom").to_json() + b"\n{}\n")
    with pytest.raises(ContentError, match=r"h\.jsonl:2"):
        list(hitom.load(path))
    assert "leave --gold out" in cli("items", "hitom", "--path", path, "--gold", "tracked").err


def test_items_are_written_and_read_back_and_every_option_arrives(cli: Cli, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TOMSERVE_DATA", str(tmp_path))
    path = tmp_path / "new/h.jsonl"
    done = cli("generate", "hitom", "--stories", 12, "--seed", 3, "--out", path)
    assert done.code == 0, done.err
    assert f"written: 12 stories, 60 items (released semantics) to {path}" in done.out
    assert "official" not in done.out  # the file is not there
    assert list(read_items(path)) == list(items(Plan(stories=12, seed=3))) == list(hitom.load(path))
    text = "--stories 8 --seed 5 --chapters 1,2 --agents 4-6 --orders 0,2-3 --tells 1,3 --lines 40 --tell-kind public "
    text += "--truth mixed --moves 2-4 --distractors 1 --choices mentioned --semantics common_knowledge "
    text += "--balance letter --balance tell --order-sensitive"
    assert cli("generate", "hitom", *text.split(), "--out", path).code == 0
    plan = {"stories": 8, "seed": 5, "chapters": (1, 2), "agents": (4, 5, 6), "orders": (0, 2, 3), "tells": (1, 3)}
    plan |= {"tell_kind": "public", "truth": "mixed", "moves": (2, 3, 4), "distractors": (1,), "choices": None}
    plan |= {"balance": ("letter", "tell"), "order_sensitive": True, "semantics": "common_knowledge", "lines": 40}
    assert list(read_items(path)) == list(items(Plan(**plan)))
    assert cli("generate", "hitom", "--twins", "--balance", "none", "--stories", 4, "--out", path).code == 0
    assert list(read_items(path)) == list(items(Plan(stories=4, twins=True, balance=(), tells=(2,))))


def test_the_official_form_reads_back(cli: Cli, tmp_path: Path) -> None:
    path, plan = tmp_path / "h.json", Plan(stories=12, tells=(1, 3))
    done = cli("generate", "hitom", "--stories", 12, "--tells", "1,3", "--format", "hitom", "--out", path)
    assert done.code == 0, done.err
    found, ours = read_records(path), list(items(plan))
    assert [r.sample_id for r in found] == list(range(60))
    assert json.loads(path.read_text())["data"] == [r for family in generate(plan) for r in records(family)]
    for record, item in zip(found, ours, strict=True):
        assert (record.story.sentences(), record.answer) == (item.story, item.answer)
        assert ((*record.choices, "unknown"), record.deception) == (item.choices, item.factors["deception"])
    for gold in ("corrected", "tracked"):
        for item, one in zip(ours, hitom.load(path, gold), strict=True):
            assert (item.id, item.gold) == (one.id, one.gold)
            assert {**item.factors, **one.factors} == {**item.factors, "gold": gold}
    assert hitom.BENCHMARK.audit(path, print).code == 0


NO_FIELD = "--format hitom: the official form has no field for"
MISTAKES = [
    ("--agents 4 --orders 5", "--orders 5: needs 5 agents, but --agents allows 4 in a story"),
    ("--orders x", "--orders 'x': expected numbers such as 3, 0,2 or 3-8"),
    ("--moves 0 --stories 99", "story"),
    ("--semantics strict", "unknown --semantics 'strict'"),
    ("--choices 4-8", "--choices '4-8': every story has the same number; give one, such as 4"),
    ("--twins --format hitom", f"{NO_FIELD} --twins;"),
    ("--choices 30 --format hitom", "story 1 has 30 choices, the official form letters for 26"),
    ("--stories 4 --report OUT", "--report"),
]


@pytest.mark.parametrize(("options", "said"), MISTAKES)
def test_mistakes_end_in_one_line_and_nothing_is_written(cli: Cli, tmp_path: Path, options: str, said: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text("what was there")
    (tmp_path / "sub").mkdir()
    done = cli("generate", "hitom", "--out", path, *options.replace("OUT", f"{tmp_path}/sub/../h.jsonl").split())
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith(f"tomserve: {said}") or ("OUT" in options and "would overwrite the items" in done.err)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["h.jsonl"]
    assert path.read_text() == "what was there"
