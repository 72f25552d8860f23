"""The subjects do what is said of them, by the formulas of the method in plain numpy, with every case held out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.helpers import mechanism, subjects
from tomserve.causal.backend import Floats, Prompt
from tomserve.causal.table import FALSE, OWN, OWN_TWIN
from tomserve.causal.tokens import fitting_strategy, prompt_of
from tomserve.items import read_items

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

COUNT, LAYER, FOLDS = 60, 2, 5


class Measured(NamedTuple):
    """A subject's answers before anything is moved, and how often a step after LAYER makes them the true-belief choice
    (and the likeliest of all words), by the name of the step."""

    answers: dict[str, list[str]]
    eligible: int
    flips: dict[str, float]
    error: float


def ridge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """W [d, d] with W x near y for the rows of x and y, by the normal equations."""
    penalty = 1e-6 * np.linalg.norm(x, 2) ** 2
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y).T


def step(w: np.ndarray, x: np.ndarray, target: np.ndarray, alpha: float) -> np.ndarray:
    """argmin_z |W z - target|^2 + alpha |z - x|^2, minus x."""
    return np.linalg.solve(w.T @ w + alpha * np.eye(len(x)), w.T @ (target - w @ x))


def scaled(direction: np.ndarray, like: np.ndarray) -> np.ndarray:
    return direction * np.linalg.norm(like) / np.linalg.norm(direction)


def steps(x: np.ndarray, y: np.ndarray, goal: np.ndarray, alpha: float) -> tuple[dict[str, np.ndarray], float]:
    """The steps [n, d] of the map, of controls as long as them, and of the patch; and the held-out error of the map."""
    rng = np.random.default_rng(0)
    made = {name: np.zeros_like(x) for name in ("map", "to own", "shuffled", "identity", "shifted", "mean", "random")}
    error = 0.0
    fold = np.arange(len(x)) // 2 % FOLDS
    for held in range(FOLDS):
        train, test = fold != held, np.flatnonzero(fold == held)
        w, pairs = ridge(x[train], y[train]), ridge(x[train], np.roll(y[train], 7, axis=0))
        shift, away = (goal[train] - x[train]).mean(axis=0), y[train].mean(axis=0)
        error += ((y[test] - x[test] @ w.T) ** 2).sum() / ((y[test] - away) ** 2).sum() / FOLDS
        for i in test:
            made["map"][i], made["to own"][i] = (step(w, x[i], to[i], alpha) for to in (goal, y))
            controls = {"shuffled": step(pairs, x[i], goal[i], alpha), "identity": goal[i] - x[i]}
            controls |= {"shifted": goal[i] - x[i] - shift, "mean": shift, "random": rng.normal(size=x.shape[1])}
            for name, direction in controls.items():
                made[name][i] = scaled(direction, made["map"][i])
    return {**made, "patch": goal - x, "no-op": np.zeros_like(x)}, error**0.5


def measure(kind: subjects.Kind, folder: Path, alpha: float = 1e-2) -> Measured:
    subjects.build(kind, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    strategy, backend = fitting_strategy("vanilla", tokenizer), subjects.PlainBackend(folder)
    cases = mechanism.cases(COUNT)
    prompts: dict[str, list[Prompt]] = {FALSE: [], OWN: [], OWN_TWIN: []}
    for case in cases:
        for told, item in ((FALSE, case.f), (OWN, case.own), (OWN_TWIN, case.own_twin)):
            prompt = prompt_of(item, strategy, tokenizer)
            assert isinstance(prompt, Prompt)
            prompts[told].append(prompt)
    readings = {told: backend.run(asked) for told, asked in prompts.items()}
    answers: dict[str, list[str]] = {}
    for told, reading in readings.items():
        taken = zip(reading.answers.logits.argmax(axis=1), cases, strict=True)
        answers[told] = [
            {case.false_choice: "false", case.true_choice: "true"}.get(int(choice), "other") for choice, case in taken
        ]
    x, y, goal = (readings[told].states[:, LAYER - 1].astype(float) for told in (FALSE, OWN, OWN_TWIN))
    moves, error = steps(x, y, goal, alpha)
    flips: dict[str, list[bool]] = {name: [] for name in moves}
    eligible = [i for i in range(COUNT) if answers[FALSE][i] == "false"]
    for i in eligible:
        states: Floats = np.stack([x[i] + move[i] for move in moves.values()]).astype(np.float32)
        again = backend.rerun(prompts[FALSE][i], np.full(len(moves), LAYER), states)
        for name, top in zip(moves, again.top, strict=True):
            flips[name].append(bool(top == prompts[FALSE][i].choices[cases[i].true_choice]))
    return Measured(answers, len(eligible), {name: float(np.mean(one)) for name, one in flips.items()}, error)


CONTROLS = ("shuffled", "identity", "shifted", "mean", "random")


@pytest.mark.parametrize("kind", subjects.KINDS)
def test_each_subject_does_what_is_said_of_it(kind: subjects.Kind, tmp_path: Path) -> None:
    found = measure(kind, tmp_path)
    control = max(found.flips[name] for name in CONTROLS)
    assert found.flips["no-op"] == 0
    if kind == "deaf":
        assert found.eligible >= COUNT / 4
        assert found.flips["map"] == found.flips["patch"] == 0
        assert control < 0.1
        return
    assert set(found.answers[FALSE]) == set(found.answers[OWN]) == {"false"}
    assert set(found.answers[OWN_TWIN]) == {"true"}
    assert found.flips["patch"] == 1
    if kind == "map":
        assert found.error < 0.1
        assert found.flips["map"] > 0.95
        assert found.flips["to own"] == 0
        assert control < 0.1
    elif kind == "shared":
        assert found.error < 0.1
        assert found.flips["map"] > 0.95
        assert found.flips["identity"] > 0.95
    else:
        assert found.error > 0.7
        assert found.flips["map"] <= control


def test_the_file_of_items_holds_every_telling(tmp_path: Path) -> None:
    items = list(read_items(mechanism.write_items(tmp_path / "items.jsonl", 120)))
    variants = [item.factors.get("variant") for item in items]
    assert [variants.count(one) for one in (None, "ppt_p", "ppt_p_twin", "ppt_twin")] == [120] * 4
    originals = {item.id: item for item in items if item.base is None}
    assert len({item.cluster for item in originals.values()}) == 120
    assert {item.factors["family"] for item in originals.values()} == set(mechanism.FAMILIES)
    for item in items:
        if item.base is not None:
            assert item.choices == originals[item.base].choices
            same = item.answer == originals[item.base].answer
            assert same == (item.factors["variant"] == "ppt_p")
