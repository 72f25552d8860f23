"""The perturbed benchmark as it is in dataset/: its design, its gold, what rules answer, and its annotation."""

import runpy
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers.scored import answered
from tomserve.benchmarks.learned_baselines import TOLERATED
from tomserve.benchmarks.perturbed import audit, baselines
from tomserve.benchmarks.perturbed.baselines import audit_baselines
from tomserve.benchmarks.perturbed.stages import (
    FIRST,
    PERTURBATIONS,
    SCENARIOS,
    in_false_belief_subset,
    load_stage,
    load_stages,
)
from tomserve.benchmarks.perturbed.validation import validate_stages
from tomserve.errors import ContentError
from tomserve.items import Item, items_digest
from tomserve.prompting.strategy import Strategy

RULES, SHIPPED = baselines.RULES[FIRST.name], baselines.SHIPPED[FIRST.name]


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
    ('C4', 'remove', 'late_label', "has no task 'late_label'"),
    ('C1', '    cue: x\n', '', 'expected about half'),
    ('C2', '      false_belief: {answers: y/x}', '      false_belief: {answers: y/x, cue: x}', 'A classic false belief must be the cue'),
    ('C2', 'box: [case, carton]', 'box: [walnut]', "there is no other word that can be used: 'walnut' is too near"),
    ('C2', 'holds: "The box holds {y} and no {x}. @ world y"', 'holds: "The box holds {x}. @ infer Ines y"', 'reality is'),
]  # fmt: skip
"""What is edited in the file of a stage, into what, and the problem that is found then."""


@pytest.mark.parametrize(("stage", "old", "new", "problem"), [*BREAKS, ("C1", "schema", "schema", "")])
def test_a_broken_property_is_found(stage: str, old: str, new: str, problem: str, tmp_path: Path) -> None:
    whole = load_stages(None, FIRST)
    (place,) = [place for place, found in enumerate(whole) if found.file.stage == stage]
    text = whole[place].path.read_text()
    if new == "late_label":
        start, end = text.index("\n  late_label:\n"), text.index("\n  non_protagonist_belief:\n")
        text, old, new = text[:start] + text[end:], "schema", "schema"
    assert old in text
    (tmp_path / f"{stage}.yaml").write_text(text.replace(old, new, 1))
    try:
        changed = load_stage(tmp_path / f"{stage}.yaml", FIRST)
        told = validate_stages([*whole[:place], changed, *whole[place + 1 :]], own=True).lines
    except ContentError as error:
        told = (f"problem: {error}",)
    listed = [line for line in told if line.startswith("problem: ")]
    assert any(problem in one for one in listed) if problem else listed == []


MISTAKES = [
    ("schema: 2", "schema: 1", 2, "the first form of stage files is no longer read; write the stage as"),
    ("{answers: x/y}", "{answers: x/y, edges: {move: [x->y]}}", 31, "edges.move: are not those of the events: x->x"),
    ("Ravi leaves his kite in {x}.", "Ravi leaves his kite in the sandpit.", 26, "'sandpit' stands outside a slot"),
    ("tasks:\n", "tasks: [\n", 0, "broken YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "reason"), MISTAKES)
def test_a_mistake_is_refused_with_its_line(old: str, new: str, line: int, reason: str, tmp_path: Path) -> None:
    """What an edition without pairs refuses, and the first form of its files; see test_perturbed_stages.py."""
    text = (ROOT / "tests/data/practice_stage.yaml").read_text()
    assert old in text
    (tmp_path / "s.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(ContentError) as found:
        load_stage(tmp_path / "s.yaml", FIRST)
    assert reason in str(found.value)
    assert not line or found.value.line == line, found.value


# rules


def scored(items: list[Item]) -> pl.DataFrame:
    """The score table of a model that never answers."""
    return answered(items, lambda item: None)


def test_the_score_table_holds_what_the_audit_counts_and_always_reality_is_robust_over_all(items: list[Item]) -> None:
    scores = scored(items)
    shipped = {
        rule.name: {item.id: rule.answer(item) or "" for item in items} for rule in RULES if rule.kind == "learned"
    }
    counted, criteria, kinds = audit_baselines(items, shipped, RULES)
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
    found = SHIPPED.differing(items, baselines.fit_rules(items, FIRST))
    assert max(found.values()) <= TOLERATED
    (rule,) = [rule for rule in RULES if rule.name == "bag of words"]
    assert rule.answer(items[0]) in items[0].choices
    assert rule.answer(items[0].model_copy(update={"question": "What is in it?"})) is None
    wrong = {name: {item.id: "no" for item in items} for name in SHIPPED.names}
    monkeypatch.setattr(audit, "fit_rules", lambda items, edition: wrong)
    told = audit.audit_items(items, FIRST, own=True)
    assert told.code == 1
    assert [line for line in told.lines if "1088 answers of the rule 'bag of words' that a fit does not give" in line]
    assert audit.audit_items(items, FIRST, own=False).code == 0  # other stage files have no answers in the file


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
