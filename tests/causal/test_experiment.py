"""A whole measurement of subjects whose mechanism is known: the verdicts come out right, and nothing is lost on the way."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.helpers.mechanism import write_items
from tests.helpers.subjects import Kind, build
from tomserve.causal import interventions
from tomserve.causal import table as t
from tomserve.causal.activations import ActivationCache, Answers, Floats, Ints, Prompt, Readings
from tomserve.causal.experiment import Hardware, run_states
from tomserve.causal.experiment import measure as measured_on
from tomserve.causal.interventions import PUBLISHED_CELLS
from tomserve.causal.prompts import ORDERS, AnswerRoles, PromptSet
from tomserve.causal.settings import STRENGTHS, Settings
from tomserve.errors import ConfigError, MachineError, RunMismatchError
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import MeasureListener
from tomserve.runs.scores import scores_of
from tomserve.studies import compute

CASES, FEW, ALPHAS = 60, 10, (0.01, 0.1)
"""A verdict needs 50 cases, and carrying maps to the other family 30 of each; the rest is measured on a few."""

measure = partial(measured_on, on=Hardware(device="cpu"))
"""What is expected here are the CPU's numbers, also where there is a GPU."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for subjects, their items and what was measured of them, each made when it is needed first."""
    return tmp_path_factory.mktemp("causal")


def settings_of(kind: Kind, shared: Path, cases: int = CASES, **more: Any) -> Settings:
    items = shared / f"items-{cases}.jsonl"
    if not (shared / kind).exists():
        build(kind, shared / kind)
    if not items.exists():
        write_items(items, cases)
    given = {"alphas": ALPHAS, "layers": (2, 3), "fewest": 2, **more}
    return Settings(model=str(shared / kind), items=str(items), **given)


@pytest.fixture(scope="module")
def measured(shared: Path) -> Path:
    """The run of the subject that has a map."""
    return measure(settings_of("map", shared, layers=(3,)), shared / "run").folder


@pytest.fixture(scope="module")
def few(shared: Path) -> Path:
    """The same of a few cases, at the strengths that each layer needs."""
    return measure(settings_of("map", shared, FEW, alphas=None, true_pairs=True), shared / "few").folder


def test_the_table_holds_every_layer_strength_map_and_item(measured: Path, few: Path) -> None:
    table = scores_of(measured)
    assert table.schema == t.SCHEMA
    assert set(table["kind"].unique()) == {t.ANSWER, t.MOVE, t.MAP, t.PROBE}
    moves = table.filter(kind=t.MOVE, fitted=t.HELD_OUT)
    assert set(moves["map"].unique()) == set(t.MAPS)
    counted = moves.group_by("map", "layer", "target", "alpha").len()
    assert set(counted["len"].unique()) == {2 * CASES}, "each item in both orders"
    with_alpha = counted.filter(pl.col("alpha").is_not_null()).group_by("map").len()
    named = [name for name in t.MAPS if name not in t.REFERENCES or name == t.REPLACE]
    assert dict(with_alpha.iter_rows()) == dict.fromkeys(named, 2 * len(ALPHAS))
    second = scores_of(few).filter(kind=t.MOVE, fitted=t.TRUE_PAIRS)["map"].unique()
    assert set(second) == {t.PPT, t.SHUFFLED_PAIRS, t.SHUFFLED_TARGET, t.IDENTITY}
    strengths = scores_of(few).filter(kind=t.MOVE, fitted=t.HELD_OUT, map=t.PPT).group_by("layer").n_unique()
    assert strengths.sort("layer").select("layer", "alpha").rows() == [(2, STRENGTHS), (3, STRENGTHS)]
    others = table.filter(pl.col("kind") == t.MOVE, pl.col("fitted") != t.HELD_OUT)
    assert set(others["fitted"].unique()) == {t.IN_SAMPLE, "contents", "transfer"}
    assert not others.filter(pl.col("fitted") == pl.col("family")).height, "a map is carried to another family only"
    assert table.filter(kind=t.MOVE, map=t.NO_OP).filter(pl.col("role") != pl.col("role_before")).is_empty()
    before = table.filter(kind=t.ANSWER, told=t.FALSE).select("item", "order", "role", "strict", "gap")
    moved = table.filter(kind=t.MOVE).join(before, on=["item", "order"], suffix="_answer")
    assert moved.height == table.filter(kind=t.MOVE).height
    for name in ("role", "strict", "gap"):
        assert moved[f"{name}_before"].equals(moved[f"{name}_answer"].alias(f"{name}_before")), name


def test_the_manifest_says_what_was_measured_and_the_work_is_gone(measured: Path) -> None:
    manifest = Manifest.read(measured)
    assert manifest is not None
    assert manifest.complete
    assert (manifest.settings["alphas"], manifest.settings["folds"]) == (list(ALPHAS), 5)
    assert str(manifest.revision).startswith("sha256:")
    assert not (measured / "work").exists()


VERDICTS = {
    "map": "A map takes the perspective and causes the answer",
    "shared": "No map is needed",
    "deaf": "Cannot be measured",
}
"""What the first card has to say of each subject; in the last one even a patch moves nothing."""


@pytest.mark.parametrize("kind", ["map", "shared", pytest.param("deaf", marks=pytest.mark.long)])
def test_the_verdict_on_a_known_mechanism_is_right(kind: Kind, shared: Path, request, tmp_path: Path) -> None:
    if kind == "map":
        folder = request.getfixturevalue("measured")
    else:  # the deaf one says the same of all, so that only whole prompts can be trusted, which take long
        cases, alphas = (16, ALPHAS[:1]) if kind == "deaf" else (CASES, ALPHAS)
        folder = measure(settings_of(kind, shared, cases, alphas=alphas, layers=(3,)), tmp_path / kind).folder
    (verdict,) = compute(scores_of(folder)).verdicts()
    assert verdict.cards[0].verdict == VERDICTS[kind], verdict.cards[0]
    patched = scores_of(folder).filter(kind=t.MOVE, map=t.PATCH)
    assert patched.select((pl.col("role") == pl.col("role_before")).all()).item() == (kind == "deaf")


def test_too_few_that_can_flip_are_refused_and_what_was_run_is_kept(shared: Path, tmp_path: Path) -> None:
    said = rf"{FEW} of {FEW} false-belief items are eligible .* {FEW + 1} are needed\. Use more"
    with pytest.raises(ConfigError, match=said):
        measure(settings_of("map", shared, FEW, fewest=FEW + 1), tmp_path / "few")
    done = np.frombuffer((tmp_path / "few/work/states/done.u1").read_bytes(), np.uint8)
    assert done.sum() == len(ORDERS) * FEW < len(done), "the other tellings are not run for nothing"


def test_only_items_whose_answers_can_flip_are_moved(shared: Path, tmp_path: Path, monkeypatch) -> None:
    read, told, advanced = interventions.read_baseline, [], []

    def other(asked: PromptSet, answers: Answers, number: int, order: int, *more: str) -> AnswerRoles:
        found = read(asked, answers, number, order, *more)
        flipped = number == 0 or (number == 1 and order == 1)
        return replace(found, role=np.full(1, t.ROLES.index("true"), np.int8)) if flipped else found

    class Listener(MeasureListener):
        def phase(self, name: str, total: int) -> None:
            told.append((name, total))

        def advance(self, count: int) -> None:
            advanced.extend([count] * (told[-1][0] == "re-runs"))

    monkeypatch.setattr(interventions, "read_baseline", other)
    run = measure(settings_of("map", shared, FEW, layers=(3,), alphas=(0.01,)), tmp_path / "run", Listener())
    moves = scores_of(run.folder).filter(kind=t.MOVE)
    whole, *rest = moves.group_by("item").agg(pl.len(), pl.col("fitted").n_unique()).sort("len").rows()[::-1]
    assert [length for _, length, _ in rest] == [whole[1]] * (FEW - 3) + [len(ORDERS) * PUBLISHED_CELLS]
    assert rest[-1][2] == 1, "what is answered by the false belief in one order is counted as published alone"
    assert moves.height == sum(advanced) == dict(told)["re-runs"]


def test_a_finished_run_is_not_measured_again_and_no_other_takes_its_place(few: Path, shared: Path) -> None:
    before = (few / "scores.parquet").read_bytes()
    assert not measure(settings_of("map", shared, FEW, alphas=None, true_pairs=True), few).measured
    assert (few / "scores.parquet").read_bytes() == before
    with pytest.raises(RunMismatchError, match=r"alphas of this run is .*use --run NEW"):
        measure(settings_of("map", shared, FEW, alphas=(0.5,), true_pairs=True), few)


def test_parts_of_the_same_cases_in_another_order_are_not_gone_on_with(shared: Path, tmp_path, monkeypatch) -> None:
    """A part holds cases by their number, so that in a file of another order it would hold others."""
    file, folders = tmp_path / "items.jsonl", []

    def stopped(*given: object) -> list[Path]:
        folders.append(given[3])
        raise KeyboardInterrupt

    monkeypatch.setattr(interventions, "run_interventions", stopped)
    lines = write_items(file, FEW).read_bytes().splitlines(keepends=True)
    settings = replace(settings_of("map", shared), items=str(file))
    for order, dtype in (lines, None), (lines, None), (lines[::-1], None), (lines, "bfloat16"):
        file.write_bytes(b"".join(order))
        with pytest.raises(KeyboardInterrupt):
            measure(settings, tmp_path / "run", on=Hardware(device="cpu", dtype=dtype))
    assert folders[0] == folders[1]
    assert len(set(folders)) == 3, "another order or data type makes other states"


def test_states_that_are_not_finite_are_refused_in_one_line(tmp_path: Path) -> None:
    """A model in float16 can overflow; nothing of that may enter a map, or be called an answer."""

    class Overflows:
        layers, width, dtype = 3, 4, "float16"

        def run(self, prompts: Sequence[Prompt]) -> Readings:
            states = np.zeros((len(prompts), 3, 4), np.float32)
            states[0, 1, 2] = np.inf
            return Readings(states, Answers(np.zeros((len(prompts), 2), np.float32), np.zeros(len(prompts), np.int64)))

        def rerun(self, prompt: Prompt, layers: Ints, states: Floats) -> Answers:
            raise NotImplementedError

    asked = PromptSet((), (Prompt((1, 2), (3, 4)),), np.zeros((0, 4, 2), np.int64), Counter())
    states = ActivationCache(tmp_path / "states", prompts=1, layers=3, width=4, choices=2, digest="sha256:a")
    with pytest.raises(MachineError, match=r"states after layer 2 are not finite.*--dtype float32"):
        run_states(asked, states, 0, Overflows(), MeasureListener())
    assert states.missing.tolist() == [0]


def test_layers_in_groups_interrupted_and_gone_on_with_give_the_same_table(
    few: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_by_one(self: interventions.Interventions, layers: tuple[int, ...], cells: int) -> list[tuple[int, ...]]:
        return [(layer,) for layer in layers]

    wrote, write = list[str](), interventions._write
    stops = [6]  # in the second of two groups of a file of maps and 3 parts

    def interrupted(path: Path, frame: pl.DataFrame) -> None:
        if len(wrote) in stops:
            raise KeyboardInterrupt
        wrote.append(path.name)
        write(path, frame)

    monkeypatch.setattr(interventions.Interventions, "groups", one_by_one)
    monkeypatch.setattr(interventions, "_write", interrupted)
    settings = settings_of("map", shared, FEW, alphas=None, true_pairs=True)
    with pytest.raises(KeyboardInterrupt):
        measure(settings, tmp_path / "run")
    stops.clear()
    again = measure(settings, tmp_path / "run")
    assert again.measured
    parts = [name for name in wrote if not name.endswith("-maps.parquet")]
    assert len(parts) == len(set(parts)) == 2 * 3, "no part is asked twice"
    keys = ["kind", "item", "told", "order", "layer", "map", "target", "alpha", "fitted", "fold", "probe", "labels"]
    first, second = (scores_of(folder).drop("run").sort(keys) for folder in (few, again.folder))
    assert first.drop("gap", "gap_before").equals(second.drop("gap", "gap_before"))
    assert (first["gap"] - second["gap"]).abs().max() < 1e-4, "other rows in a batch may change the last digits"  # type: ignore[operator]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "int8"}, "expected float32, bfloat16, float16"),
        ({"device": "cuda:x"}, "expected cpu, cuda, cuda:N, or auto"),
        ({"batch": 0}, "expected 1 or more prompts"),
    ],
)
def test_hardware_that_cannot_be_had(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Hardware(**options)


def test_several_processes_of_torchrun_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"without torchrun, with --device auto"):
        measure(Settings(), tmp_path / "run")
    assert not (tmp_path / "run").exists()
