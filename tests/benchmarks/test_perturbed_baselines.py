"""The rules of readers who only look at words: what they answer, what is shipped, and what the audit calls a problem."""

import shlex
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from tests.conftest import ROOT
from tomserve.benchmarks import learned_baselines
from tomserve.benchmarks.base import Findings
from tomserve.benchmarks.learned_baselines import ShippedAnswers
from tomserve.benchmarks.perturbed import audit, baselines
from tomserve.benchmarks.perturbed.stages import FIRST, PERTURBATIONS, SECOND, Edition, load_stage
from tomserve.items import Item

RULES, SHIPPED = baselines.RULES[SECOND.name], baselines.SHIPPED[SECOND.name]


@pytest.fixture(scope="module")
def practice() -> dict[str, Item]:
    made = load_stage(ROOT / "tests/data/practice_stage_2.yaml").items()
    return {item.id.removeprefix("P1/"): item for item in made}


def test_words_tell_the_ten_words_rule_its_answer_and_features_know_no_labels(practice: dict[str, Item]) -> None:
    item = practice["none/plain/belief/original"]
    told = {"Ravi remembers it.": "bells", "Ravi cannot read it.": "unknown", "It is illegible.": "unknown"}
    for sentence, answer in {**told, "Ravi goes on.": "lamps"}.items():
        assert baselines.ten_words(item.model_copy(update={"story": (*item.story, sentence)})) == answer, sentence
    for features in baselines._FITTED.values():
        for name, item in practice.items():
            if baselines.applies_to(item) and name.endswith("original"):
                other = practice[name.replace("original", "swapped")]
                assert sorted(features(item)) == sorted(features(other)), "the same with labels exchanged"
                assert not {"bells", "lamps"} & {word for one in features(item) for word in one.split()}


def test_the_rules_answer_beliefs_of_the_false_belief_scenario_only(practice: dict[str, Item]) -> None:
    own = [rule for rule in RULES if rule.name in (*SHIPPED.names, "ten words", "last told label")]
    foreign = practice["none/plain/belief/original"].model_copy(update={"factors": {}})
    others = [practice["none/plain/reality/original"], practice["none/correct_label/belief/original"]]
    assert [[rule.answer(item) for rule in own] for item in (foreign, *others)] == [[None] * 7] * 3


def stages(word_tells: bool) -> Iterator[Item]:
    """Stories of four stages in which a word tells the answer's role, or nothing does."""
    words = {"cue": "plainly", "opposite": "oddly", "unknown": "dimly"}
    for stage in range(4):
        x, y = f"apple{stage}", f"berry{stage}"
        for name in ("none", "late_label"):
            for place, (role, word) in enumerate(words.items()):
                shown = word if word_tells else list(words.values())[(place + stage) % 3]
                yield Item(
                    id=f"S{stage}/{name}/{role}/belief/original",
                    story=[f"Ada {shown} has {x}.", f"The lid says {y}."],
                    question="What does Ada think?",
                    choices=[x, y, "unknown"],
                    answer={"cue": y, "opposite": x, "unknown": "unknown"}[role],
                    factors={
                        **{"stage": f"S{stage}", "perturbation": name, "scenario": "false_belief", "reality": x},
                        **{"question_kind": "belief", "cue": y, "asked": "Ada", "belief_role": role, "swapped": False},
                    },
                )


def audited(items: list[Item], own: bool = False, first: list[Item] | None = None) -> Findings:
    return audit.audit_items(items, SECOND, own, first)


def test_learned_rules_find_a_word_that_tells_and_nothing_else() -> None:
    telling = list(stages(True))
    found = baselines.fit_rules(telling, SECOND)
    assert list(found) == list(SHIPPED.names)
    for name in ("words by role", "word pairs by role", "nearest story"):
        assert [found[name][item.id] for item in telling] == [item.answer for item in telling], name
    silent = list(stages(False))
    found = baselines.fit_rules(silent, SECOND)
    for name in ("words by role", "word pairs by role", "nearest story"):
        assert sum(found[name][item.id] == item.answer for item in silent) <= len(silent) / 3, name
    assert baselines.fit_rules([], SECOND) == {name: {} for name in SHIPPED.names}


@pytest.mark.parametrize("words", [2, 40])
def test_a_fit_is_where_no_small_change_lowers_the_penalised_loss(words: int) -> None:
    """With fewer words than stories and with more, which are two ways through the fit."""
    random = np.random.default_rng(7)
    x, y = random.poisson(0.4, (12, words)).astype(float), np.eye(3)[random.integers(0, 3, 12)]
    x[5] = x[4]  # rows that depend on each other

    def gradient(weights: np.ndarray) -> np.ndarray:
        odds = np.exp(x @ weights)
        return x.T @ (odds / odds.sum(1, keepdims=True) - y) + weights

    found = learned_baselines._fit(sparse.csr_array(x), y)
    assert found.shape == (words, 3)
    assert np.abs(gradient(found)).max() < 0.01 < np.abs(gradient(0 * found)).max()


def test_the_audit_finds_rules_that_tell_roles_beside_the_first_edition(first_edition: list[Item]) -> None:
    found = audited(list(stages(True)), first=first_edition)
    assert found.code == 1
    told = [line for line in found.lines if line.startswith("problem")]
    assert "problem: 'words by role' has 12 of 12 right (100%) in the class late_label, more than 60%" in told
    assert not [line for line in told if "the class none" in line]
    assert "by design" in found.lines[0]
    beside = found.tables["both editions"]
    assert set(beside["rule"]) >= {*(rule.name for rule in RULES), "always unknown", "last mentioned"}
    rows = {row["rule"]: row for row in beside.iter_rows(named=True)}
    own = rows["words by role"]
    assert (own["right"], own["above 60%"], own["limited robust"]) == (1.0, 1, False)
    assert rows["opposite of the cue"]["first: right"] == round(96 / 136, 3)  # see test_perturbed.py
    words = {row["word"]: row for row in audit.telling_words(list(stages(True))).iter_rows(named=True)}
    assert (words["oddly"]["role"], words["oddly"]["with it"], words["oddly"]["stories"]) == ("opposite", 4, 4)
    assert not [word for word in words if word.startswith("none:")], "one role is right there by design"
    counted = pl.DataFrame(
        {"rule": "r", "perturbation": name, "right": 11 if place <= 5 else 0, "total": 20}
        for place, name in enumerate(PERTURBATIONS)
    )
    assert list(audit.find_excesses(counted)) == [
        "'r' meets limited robust Theory of Mind on the false-belief subset: more than half right on unperturbed "
        "stories and in 5 of ten classes"
    ]
    assert list(audit.find_excesses(counted.with_columns(right=10))) == []


@pytest.mark.parametrize("edition", [FIRST, SECOND])
def test_the_file_was_fitted_to_the_stages_as_they_are(edition: Edition, first_edition, second_edition, monkeypatch):
    """This fails when a stage has changed since, whatever the change is; the command of the message mends it."""
    shipped = baselines.SHIPPED[edition.name]
    items = baselines.select_learnable(second_edition if edition.pairs else first_edition, edition)
    assert shipped.fitted_to(items), f"stages have changed; run {shipped.command}"
    assert not [item.id for item in items if shipped.answer(item, 0) is None]
    written: list[Item] = []
    monkeypatch.setattr(ShippedAnswers, "write", lambda shipped, items, answers: written.extend(items))
    monkeypatch.setattr(baselines, "fit_rules", lambda items, edition: {})
    python, option, code = shlex.split(shipped.command)
    assert (python, option) == ("python", "-c")
    exec(code, {})  # as the command does, but for the fit and the file
    assert written == items
    assert shipped.command in (ROOT / "dataset/README.md").read_text()
