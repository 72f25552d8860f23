"""A whole measurement of subjects whose mechanism is known: the verdicts come out right, and nothing is lost on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.conftest import ROOT
from tests.helpers.mechanism import write_items
from tests.helpers.subjects import Kind, build
from tomserve.causal import moving
from tomserve.causal.asked import Asked
from tomserve.causal.backend import Answers, Floats, Ints, Prompt, Readings
from tomserve.causal.finding import On
from tomserve.causal.running import measure as measured_on
from tomserve.causal.running import run_states
from tomserve.causal.settings import ALPHAS as STRENGTHS
from tomserve.causal.settings import Settings
from tomserve.causal.states import States
from tomserve.causal.table import (
    ANSWER,
    FALSE,
    HELD_OUT,
    IN_SAMPLE,
    MAP,
    MAPS,
    MOVE,
    NO_OP,
    PATCH,
    PPT,
    PROBE,
    REFERENCES,
    REPLACE,
    SCHEMA,
)
from tomserve.errors import ConfigError, MachineError, RunMismatchError
from tomserve.runs.listening import Unheard
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import scores_of
from tomserve.studies import compute

CASES, ALPHAS = 60, (0.01, 0.1)

measure = partial(measured_on, on=On(device="cpu"))
"""What is expected here are the CPU's numbers, also where there is a GPU."""


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("items") / "items.jsonl", CASES)


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which subjects are built, each when it is needed first."""
    return tmp_path_factory.mktemp("subjects")


def settings_of(kind: Kind, subjects: Path, items: Path) -> Settings:
    folder = subjects / kind
    if not folder.exists():
        build(kind, folder)
    return Settings(model=str(folder), items=str(items), alphas=ALPHAS, layers=(2, 3))


@pytest.fixture(scope="module")
def measured(subjects: Path, items: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the subject that has a map."""
    return measure(settings_of("map", subjects, items), tmp_path_factory.mktemp("runs") / "map").folder


def test_the_table_holds_every_layer_strength_map_and_item(measured: Path) -> None:
    table = scores_of(measured)
    assert table.schema == SCHEMA
    assert set(table["kind"].unique()) == {ANSWER, MOVE, MAP, PROBE}
    assert table.select("run", "model", "benchmark").unique().height == 1
    moves = table.filter(kind=MOVE, fitted=HELD_OUT)
    assert set(moves["map"].unique()) == set(MAPS)
    counted = moves.group_by("map", "layer", "target", "alpha").len()
    assert set(counted["len"].unique()) == {2 * CASES}, "each item in both orders"
    with_alpha = counted.filter(pl.col("alpha").is_not_null()).group_by("map").len()
    assert dict(with_alpha.iter_rows()) == {
        name: 2 * 2 * len(ALPHAS) for name in MAPS if name not in REFERENCES or name == REPLACE
    }
    others = table.filter(pl.col("kind") == MOVE, pl.col("fitted") != HELD_OUT)
    assert set(others["fitted"].unique()) == {IN_SAMPLE, "contents", "transfer"}
    assert not others.filter(pl.col("fitted") == pl.col("family")).height, "a map is carried to another family only"
    assert table.filter(kind=MOVE, map=NO_OP).filter(pl.col("role") != pl.col("role_before")).is_empty()
    assert table.filter(kind=MOVE, map=PPT)["displacement"].min() > 0  # type: ignore[operator]


def test_what_was_answered_before_stands_in_every_row(measured: Path) -> None:
    table = scores_of(measured)
    before = table.filter(kind=ANSWER, told=FALSE).select("item", "order", "role", "strict", "gap")
    moved = table.filter(kind=MOVE).join(before, on=["item", "order"], suffix="_answer")
    assert moved.height == table.filter(kind=MOVE).height
    assert moved.filter(
        (pl.col("role_before") != pl.col("role_answer"))
        | (pl.col("strict_before") != pl.col("strict_answer"))
        | (pl.col("gap_before") != pl.col("gap_answer"))
    ).is_empty()


def test_the_manifest_says_what_was_measured_and_the_work_is_gone(measured: Path, items: Path) -> None:
    manifest = Manifest.read(measured)
    assert manifest is not None
    assert manifest.complete
    assert manifest.settings["alphas"] == list(ALPHAS)
    assert manifest.settings["folds"] == 5
    assert str(manifest.revision).startswith("sha256:")
    assert not (measured / "work").exists()
    assert (measured / "items.jsonl").read_bytes().count(b"\n") == items.read_bytes().count(b"\n")


VERDICTS = {
    "map": "A map takes the perspective and causes the answer",
    "product": "A control reproduces it",
    "shared": "A control reproduces it",
    "deaf": "Cannot be measured",
}
"""What the first card has to say of each subject; in the last one even a patch moves nothing."""


@pytest.mark.parametrize("kind", list(VERDICTS))
def test_the_verdict_on_a_known_mechanism_is_right(
    kind: Kind, subjects: Path, items: Path, measured: Path, tmp_path: Path
) -> None:
    settings = replace(settings_of(kind, subjects, items), fewest=10, layers=(3,))
    if kind == "deaf":  # it says the same of all, so that only whole prompts can be trusted, which take long
        few = write_items(tmp_path / "items.jsonl", 16)
        settings = replace(settings, items=str(few), alphas=ALPHAS[:1], fewest=4)
    folder = measured if kind == "map" else measure(settings, tmp_path / kind).folder
    (verdict,) = compute(scores_of(folder)).verdicts()
    assert verdict.cards[0].verdict == VERDICTS[kind], verdict.cards[0]
    patched = scores_of(folder).filter(kind=MOVE, map=PATCH)
    assert patched.select((pl.col("role") == pl.col("role_before")).all()).item() == (kind == "deaf")


@pytest.mark.parametrize("kind", ["map", "product"])
def test_the_verdict_is_right_at_the_usual_strengths_in_the_first_layer(
    kind: Kind, subjects: Path, tmp_path: Path
) -> None:
    """The weakest of them goes so far that W = I reaches the twin, too, and the strongest moves hardly anything."""
    items = write_items(tmp_path / "items.jsonl", 60)
    settings = replace(settings_of(kind, subjects, items), alphas=STRENGTHS, layers=(1,))
    result = compute(scores_of(measure(settings, tmp_path / "run").folder))
    (verdict,) = result.verdicts()
    assert verdict.cards[0].verdict == VERDICTS[kind], verdict.cards[0]


def test_too_few_that_can_flip_are_refused_and_what_was_run_is_kept(
    subjects: Path, items: Path, tmp_path: Path
) -> None:
    settings = replace(settings_of("map", subjects, items), fewest=CASES + 1)
    said = rf"{CASES} of {CASES} false-belief items are eligible .* {CASES + 1} are needed\. Use more"
    with pytest.raises(ConfigError, match=said):
        measure(settings, tmp_path / "few")
    assert (tmp_path / "few/work/states/layer-001.f32").stat().st_size > 0


def test_a_finished_run_is_not_measured_again_and_no_other_takes_its_place(
    measured: Path, subjects: Path, items: Path
) -> None:
    settings = settings_of("map", subjects, items)
    before = (measured / "scores.parquet").read_bytes()
    assert not measure(settings, measured).measured
    assert (measured / "scores.parquet").read_bytes() == before
    other = Settings(model=settings.model, items=settings.items, alphas=(0.5,), layers=(2, 3))
    with pytest.raises(RunMismatchError, match=r"alphas of this run is .*use --run NEW"):
        measure(other, measured)


def test_parts_of_the_same_cases_in_another_order_are_not_gone_on_with(
    subjects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part holds cases by their number, so that in a file of another order it would hold others."""
    file, folders = tmp_path / "items.jsonl", []

    def stopped(*given: object) -> list[Path]:
        folders.append(given[3])
        raise KeyboardInterrupt

    monkeypatch.setattr(moving, "move", stopped)
    lines = write_items(file, 20).read_bytes().splitlines(keepends=True)
    settings = replace(settings_of("map", subjects, file), fewest=2)
    for order in (lines, lines, lines[::-1]):
        file.write_bytes(b"".join(order))
        with pytest.raises(KeyboardInterrupt):
            measure(settings, tmp_path / "run")
    assert folders[0] == folders[1] != folders[2]


def test_states_that_are_not_finite_are_refused_in_one_line(tmp_path: Path) -> None:
    """A model in float16 can overflow; nothing of that may enter a map, or be called an answer."""

    class Overflows:
        layers, width = 3, 4

        def run(self, prompts: Sequence[Prompt]) -> Readings:
            states = np.zeros((len(prompts), 3, 4), np.float32)
            states[0, 1, 2] = np.inf
            return Readings(states, Answers(np.zeros((len(prompts), 2), np.float32), np.zeros(len(prompts), np.int64)))

        def rerun(self, prompt: Prompt, layers: Ints, states: Floats) -> Answers:
            raise NotImplementedError

    asked = Asked((), (Prompt((1, 2), (3, 4)),), np.zeros((0, 4, 2), np.int64), Counter())
    states = States(tmp_path / "states", prompts=1, layers=3, width=4, choices=2, digest="sha256:a")
    with pytest.raises(MachineError, match=r"states after layer 2 are not finite.*--dtype float32"):
        run_states(asked, states, Overflows(), Unheard())
    assert states.missing.tolist() == [0]


def test_layers_in_groups_give_the_same_table(
    measured: Path, subjects: Path, items: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_by_one(self: moving.Moves, layers: tuple[int, ...], cells: int) -> list[tuple[int, ...]]:
        return [(layer,) for layer in layers]

    monkeypatch.setattr(moving.Moves, "groups", one_by_one)
    again = measure(settings_of("map", subjects, items), tmp_path / "grouped").folder
    keys = ["kind", "item", "told", "order", "layer", "map", "target", "alpha", "fitted", "fold", "probe", "labels"]
    one, other = (scores_of(folder).drop("run").sort(keys) for folder in (measured, again))
    logits = ["gap", "gap_before"]  # other rows beside it in a batch may change the last digits
    assert one.drop(logits).equals(other.drop(logits))
    assert (one["gap"] - other["gap"]).abs().max() < 1e-4  # type: ignore[operator]


PROGRAM = """
import sys
from tomserve.causal.asked import Asked
from tomserve.causal.backend import Answers, Floats, Ints, Prompt, Readings
from tomserve.causal.finding import On
from tomserve.causal.running import measure
from tomserve.causal.settings import Settings
measure(Settings(model=sys.argv[1], items=sys.argv[2], alphas=(0.01, 0.1), layers=(2, 3)), sys.argv[3], on=On(device="cpu"))
"""


def test_a_measurement_that_is_killed_goes_on_and_ends_in_the_same_table(
    measured: Path, subjects: Path, items: Path, tmp_path: Path
) -> None:
    settings, folder = settings_of("map", subjects, items), tmp_path / "killed"
    command = [sys.executable, "-c", PROGRAM, settings.model, settings.items, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    def parts() -> set[str]:
        return {path.name for path in (folder / "work/moves").rglob("layers-*-?????.parquet")}

    with subprocess.Popen(command, env=env) as process:
        for _ in range(1200):
            if len(parts()) > 3 or process.poll() is not None:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert (done := parts())
    asked: list[str] = []
    wrote = moving._write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "_write", lambda path, frame: (asked.append(path.name), wrote(path, frame)))
        assert measure(settings, folder).measured
    assert not done & set(asked), "no part is asked twice"
    one, other = (scores_of(place).drop("run") for place in (measured, folder))
    assert one.drop("gap").equals(other.drop("gap"))
    assert (one["gap"] - other["gap"]).abs().max() < 1e-4  # type: ignore[operator]


def test_several_processes_of_torchrun_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"without torchrun, with --device auto"):
        measure(Settings(), tmp_path / "run")
    assert not (tmp_path / "run").exists()
