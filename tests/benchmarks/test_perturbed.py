"""The perturbed benchmark as it is in dataset/: its design, its gold, what rules answer, and its annotation."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from tomserve import benchmarks
from tomserve.benchmarks import perturbed
from tomserve.benchmarks.learned_baselines import TOLERATED
from tomserve.benchmarks.perturbed import baselines, validation_1
from tomserve.benchmarks.perturbed.baselines import RULES_1, audit_baselines
from tomserve.benchmarks.perturbed.stages_1 import PERTURBATIONS, SCENARIOS, in_false_belief_subset, load_stage
from tomserve.benchmarks.perturbed.validation_1 import cross_check, find_problems
from tomserve.items import Item, items_digest
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.table import score_table

BY_NAME = {rule.name: rule for rule in RULES_1}


@pytest.fixture(scope="module")
def items(first_edition: list[Item]) -> list[Item]:
    return first_edition


def test_the_whole_design(items: list[Item]) -> None:
    clusters = Counter(item.cluster for item in items)
    assert (len(items), len(clusters), set(clusters.values())) == (1088, 68, {16})
    cells = Counter((i.cluster, i.factors["scenario"], i.factors["question_kind"], i.factors["swapped"]) for i in items)
    assert set(cells.values()) == {1}
    assert all(item.factors["scenario"] in SCENARIOS[item.factors["kind"]] for item in items)
    tasks = Counter(cluster.split("/")[1] for cluster in clusters)
    assert tasks == dict(zip(PERTURBATIONS, (7, 7, 5, 4, 7, 7, 5, 7, 6, 6, 7), strict=True))
    # With the cue agreeing with reality, "always reality" and "always the cue" both fail.
    false = [i for i in items if (i.factors["question_kind"], i.factors["scenario"]) == ("belief", "false_belief")]
    critical = {(i.factors["answer_role"], i.factors["belief_is_false"]) for i in false if i.factors["critical_form"]}
    assert (len(false), critical) == (136, {("other", True)})


BREAKS = [
    ('C4', 'remove', 'late_label', 'C4/late_label: is missing'),
    ('C1', '    critical_form: true\n', '', 'expected about half'),
    ('C2', '  none:\n', '  none:\n    critical_form: true\n', 'not foreseen for this class'),
    ('C2', '  none:\n', '  none:\n    aware: true\n', 'none: `aware` is for automatic_change_knowledge only'),
    ('C2', 'is in the box?', 'is in the box, {x} or {y}?', 'the question names the label'),
    ('C2', 'what does {asked} believe is in the box?', 'what will {asked} say is in the box?', 'asks about the future'),
    ('C2', '[read Ines y]', '[read Ines x]', 'belief is written as {y}, events give {x}'),
    ('C2', '[read Ines y]', '[infer Ines y]', '`infer` belongs to'),
    ('C2', 'told: {world: x, belief: x}\n          believes: {world: x, belief: x}\n        answer: {reality: x, belief: x}', 'told: {world: x, belief: y}\n          believes: {world: x, belief: y}\n        control_exception: none\n        answer: {reality: x, belief: y}', 'told or sees, but the belief is not the reality'),
    ('C2', '      correct_label:\n        replace:\n          holds: {text: "The box holds {y} and no {x}.", events: [world y]}\n', '      correct_label:\n        replace:\n          holds: {text: "The box holds {x} and no {y}.", events: [world y]}\n', 'tells the same story as'),
]  # fmt: skip
"""What is edited in the file of a stage, into what, and the problem that validate finds then."""


@pytest.mark.parametrize(("stage", "old", "new", "problem"), [*BREAKS, ("C1", "schema", "schema", "")])
def test_a_broken_property_is_found(stage: str, old: str, new: str, problem: str, tmp_path: Path) -> None:
    stages = perturbed.load_stages()
    (place,) = [place for place, found in enumerate(stages) if found.file.stage == stage]
    source = stages[place].path.read_text()
    if old == "remove":
        start, end = source.index(f"\n  {new}:\n"), source.index("\n  non_protagonist_belief:\n")
        old, new = source[start:end], ""
    assert old in source
    (tmp_path / f"{stage}.yaml").write_text(source.replace(old, new, 1))
    told = list(find_problems([*stages[:place], load_stage(tmp_path / f"{stage}.yaml"), *stages[place + 1 :]]))
    assert any(problem in one for one in told) if problem else told == []


def test_gold_agrees_with_events_in_every_sentence() -> None:
    layers = list(cross_check(perturbed.load_stages()))
    assert len(layers) > 4000
    assert [layer for layer in layers if layer.written != layer.derived] == []


# rules


def scored(items: list[Item]) -> pl.DataFrame:
    """The score table of a model that never answers."""
    nothing = {"strategy": "s", "status": "timeout", "text": None}
    return score_table("r", "m", [(item, nothing) for item in items], rules=benchmarks.scoring_of)


def test_the_score_table_holds_what_the_audit_counts_and_always_reality_is_robust_over_all(items: list[Item]) -> None:
    scores = scored(items)
    shipped = {
        rule.name: {item.id: rule.answer(item) or "" for item in items} for rule in RULES_1 if rule.kind == "learned"
    }
    counted, criteria, kinds = audit_baselines(items, shipped)
    assert set(kinds["kind"]) == {"constant", "surface", "learned"}
    totals = counted.filter(subset="all", perturbation="overall")
    for rule, right, total in totals.select("rule", "right", "total").iter_rows():
        column = scores[f"rule_{rule.replace(' ', '_')}"]
        assert (column.sum(), column.len() - column.null_count()) == (right, total), rule
    assert totals.filter(rule="always reality").select("right", "total").row(0) == (982, 1088)
    assert criteria.filter(subset="all", rule="always reality")["robust"].item()
    plain = set(kinds.filter(kind="constant")["rule"])
    assert {"always classic", "always reality", "always unknown", "first mentioned", "last mentioned"} <= plain
    assert {"always yes", "always no"}.isdisjoint(plain)  # which no question offers
    subset = criteria.filter(pl.col("subset") == "false_belief", pl.col("rule").is_in(plain))
    assert (subset.height, subset["limited_robust"].any()) == (len(plain), False)
    subset = scored([item for item in items if in_false_belief_subset(item.factors)])
    names = ("rule_always_classic", "rule_opposite_of_the_cue", "rule_always_reality", "rule_always_unknown")
    assert [int(subset[name].sum()) for name in names] == [32, 96, 62, 8]


def test_learned_answers_are_those_of_a_fit(items: list[Item], monkeypatch: pytest.MonkeyPatch) -> None:
    found = baselines.SHIPPED_1.differing(items, baselines.fit_edition_1(items))
    assert list(found) == list(baselines.LEARNED_1)
    assert max(found.values()) <= TOLERATED
    rule, item = BY_NAME["bag of words"], items[0]
    assert rule.answer(item) in item.choices
    assert rule.answer(item.model_copy(update={"question": "What is in it?"})) is None
    monkeypatch.setattr(
        validation_1, "fit_edition_1", lambda items: {name: {i.id: "no" for i in items} for name in baselines.LEARNED_1}
    )
    told = validation_1.audit_stages(perturbed.load_stages(), own=True)
    assert told.code == 1
    assert [line for line in told.lines if "1088 answers of the rule 'bag of words' that a fit does not give" in line]
    assert validation_1.audit_stages(perturbed.load_stages()).code == 0  # other stage files have no answers in the file


# what is written beside the data


def test_the_datasheet_and_the_changes_are_about_this_dataset(items: list[Item]) -> None:
    sheet, changes = ((ROOT / "dataset" / name).read_text() for name in ("README.md", "CHANGES.md"))
    assert items_digest(items) in sheet
    assert items_digest(items) in changes
    assert "e7fcb6b14277829a10c54aa3d29b38eadf63490d6e8f2771b1589b1243620dc1" in changes
    assert {item.canary for item in items} == {items[0].canary}
    assert items[0].canary in sheet
    assert items[0].canary not in str(Strategy.load("cot").turn(items[0]).messages)
    assert not [name for name in {item.cluster.split("/")[1] for item in items} if name not in sheet]


def test_the_second_annotation_is_recomputed(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "dataset/annotation"
    sheet, adjudicated = (ROOT / "dataset/README.md").read_text(), (folder / "adjudication.md").read_text()
    monkeypatch.syspath_prepend(str(folder))
    for options in (["--as-annotated", "--list"], ["--list"]):
        monkeypatch.setattr(sys, "argv", ["agreement.py", *options])
        runpy.run_path(str(folder / "agreement.py"), run_name="__main__")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] in sheet
        assert len(options) == 1 or lines[0].startswith("272 stories compared; 0 replies")
        for line in lines:
            assert not line.startswith(("| belief", "| reality")) or line in sheet
            if " sentence " in line and ": gold [" in line and not line.startswith("Annotator"):
                assert line.split()[0] in adjudicated, line
