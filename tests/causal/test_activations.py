"""The prompts of cases, what answers to them mean, and the states that are kept of them."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.mechanism import cases
from tomserve.benchmarks.counterfactuals import Case
from tomserve.causal.activations import ActivationCache, Answers, Prompt, Readings
from tomserve.causal.prompts import CasePrompts, PromptSet, find_eligible, read_answers
from tomserve.causal.table import FALSE, OWN, OWN_TWIN, ROLES, TOLD, TWIN
from tomserve.errors import ConfigError

LABELS = (5, 6, 7)
"""The tokens that the choices of every prompt here begin with."""


def prompts_of(case: Case) -> CasePrompts | str:
    """Prompts of one token, which is another one for each telling and order; a case of the family "transfer" has none,
    and the second of "contents" no twin."""
    if case.family == "transfer":
        return "no prompts"
    told = [name for name in TOLD if not (name == TWIN and case.f.id.endswith("002"))]
    return CasePrompts(
        case, {(name, order): Prompt((TOLD.index(name), order), LABELS) for name in told for order in (0, 1)}
    )


def asked() -> PromptSet:
    return PromptSet.of(cases(4), prompts_of)


def test_cases_without_prompts_are_left_out_and_counted() -> None:
    found = asked()
    assert [case.f.id for case in found.cases] == ["contents/000", "contents/002"]
    assert found.left_out == {"no prompts": 2}
    assert len(found.prompts) == 8 + 6
    assert found.place(1, 0, TWIN) == -1
    assert found.prompts[found.place(0, 1, OWN_TWIN)].tokens == (TOLD.index(OWN_TWIN), 1)
    changed = PromptSet(found.cases, (*found.prompts[:-1], Prompt((9, 9), LABELS)), found.places, found.left_out)
    assert found.digest == asked().digest != changed.digest


def test_states_are_averaged_over_both_orders_and_nan_without_a_telling() -> None:
    found = asked()
    states = np.arange(len(found.prompts), dtype=np.float32)[:, None] * np.ones((1, 2), np.float32)
    mean = found.mean(states, OWN)
    assert mean.dtype == np.float64
    assert mean[0, 0] == (found.place(0, 0, OWN) + found.place(0, 1, OWN)) / 2
    assert np.isnan(found.mean(states, TWIN)[1]).all()
    assert np.isfinite(found.mean(states, TWIN)[0]).all()


def answer(case: Case, choice: int, *, top: int | None = None) -> Answers:
    logits = np.zeros((1, 3), np.float32)
    logits[0, choice] = 2.0
    return Answers(logits, np.array([LABELS[choice] if top is None else top]))


def test_an_answer_has_a_role_a_strict_reading_and_a_gap() -> None:
    case, prompt = cases(1)[0], Prompt((0,), LABELS)
    other = ({0, 1, 2} - {case.false_choice, case.true_choice}).pop()
    for choice, role, gap in (
        (case.false_choice, "false", -2.0),
        (case.true_choice, "true", 2.0),
        (other, "other", 0.0),
    ):
        found = read_answers(case, prompt, answer(case, choice))
        assert (ROLES[found.role[0]], bool(found.strict[0]), float(found.gap[0])) == (role, True, gap)
    assert not read_answers(case, prompt, answer(case, 0, top=99)).strict[0]
    broken = Answers(np.full((1, 3), np.nan, np.float32), np.array([LABELS[0]]))
    assert not read_answers(case, prompt, broken).strict[0], "a logit that is no number is never read strictly"
    for place in range(3):  # nor is the place of the first such logit taken for a choice
        logits = np.zeros((1, 3), np.float32)
        logits[0, place] = np.nan
        assert ROLES[read_answers(case, prompt, Answers(logits, np.array([LABELS[place]]))).role[0]] == "other"


def test_only_what_is_answered_by_the_false_belief_in_both_orders_can_flip() -> None:
    found = asked()
    count = len(found.prompts)
    logits, top = np.zeros((count, 3), np.float32), np.full(count, 99)
    for number, case in enumerate(found.cases):
        for order in (0, 1):
            place = found.place(number, order, FALSE)
            logits[place, case.false_choice], top[place] = 1.0, LABELS[case.false_choice]
    assert find_eligible(found, Answers(logits, top)) == [True, True]
    top[found.place(0, 1, FALSE)] = 99
    logits[found.place(1, 0, FALSE), found.cases[1].true_choice] = 2.0
    assert find_eligible(found, Answers(logits, top)) == [False, False]


# The states on disk: what is kept stays, and what was not finished is asked again


def opened(folder: Path, digest: str = "sha256:a", prompts: int = 5) -> ActivationCache:
    return ActivationCache(folder, prompts=prompts, layers=3, width=4, choices=3, digest=digest)


def readings(count: int, seed: int) -> Readings:
    rng = np.random.default_rng(seed)
    return Readings(
        rng.standard_normal((count, 3, 4)).astype(np.float32),
        Answers(rng.standard_normal((count, 2)).astype(np.float32), rng.integers(0, 9, count)),
    )


def test_what_is_kept_is_there_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    first, found = opened(tmp_path / "states"), readings(2, 0)
    first.write(np.array([3, 1]), found)
    again = opened(tmp_path / "states")
    assert again.missing.tolist() == [0, 2, 4]
    for layer in (1, 2, 3):
        assert np.array_equal(again.layer(layer)[[3, 1]], found.states[:, layer - 1])
    assert np.array_equal(again.answers.logits[[3, 1], :2], found.answers.logits)
    assert np.isnan(again.answers.logits[[3, 1], 2]).all()
    assert np.array_equal(again.answers.top[[3, 1]], found.answers.top)


def test_a_row_without_its_flag_is_asked_again_and_a_file_that_was_cut_short_not_believed(tmp_path: Path) -> None:
    """So it is with a process that was killed between the states and the flag."""
    opened(tmp_path).write(np.array([0, 1]), readings(2, 1))
    flags = np.memmap(tmp_path / "done.u1", np.uint8, "r+")
    flags[1] = 0
    assert opened(tmp_path).missing.tolist() == [1, 2, 3, 4]
    with (tmp_path / "layer-002.f32").open("r+b") as file:
        file.truncate(8)
    assert opened(tmp_path).missing.size == 5


def test_states_of_other_prompts_are_not_believed(tmp_path: Path) -> None:
    opened(tmp_path).write(np.arange(5), readings(5, 2))
    assert opened(tmp_path, "sha256:b").missing.tolist() == [0, 1, 2, 3, 4]
    opened(tmp_path, "sha256:b").write(np.arange(5), readings(5, 3))
    assert not opened(tmp_path, "sha256:b").missing.size
    assert opened(tmp_path, "sha256:b", prompts=6).missing.size == 6


def test_no_link_is_followed(tmp_path: Path) -> None:
    folder, mine = tmp_path / "states", tmp_path / "mine"
    folder.mkdir()
    mine.write_bytes(b"precious")
    (folder / "layer-001.f32").symlink_to(mine)
    with pytest.raises(ConfigError, match="symbolic link"):
        opened(folder)
    assert mine.read_bytes() == b"precious"
