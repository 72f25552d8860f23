"""The command that measures three layers of a model and computes their score."""

import io
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from rich.console import Console

import tomserve
from tests.conftest import Cli, Endpoint
from tests.helpers.mechanism import write_items
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.subjects import build
from tomserve.benchmarks.worlds.benchmark import load
from tomserve.cli.functional import make_runner
from tomserve.errors import StoppedError
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder
from tomserve.workflows.functional import explain_other_weights

LIMIT = ("--limit", 24)
INSIDE = ("--layers", "3", "--alphas", "0.1", "--cases", 12, "--fewest", 2)


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("subject")
    build("map", folder / "tiny")
    return folder / "tiny", write_items(folder / "items.jsonl", 60)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Some worlds, as an option; all of them take seconds to make, every time."""
    path = tmp_path_factory.mktemp("worlds") / "worlds.jsonl"
    path.write_bytes(b"".join(item.to_json() + b"\n" for item in islice(load(), 240)))
    return f"worlds={path}"


def run_of(folder: Path) -> dict[str, Any]:
    manifest = Manifest.read(folder)
    return manifest.to_dict()


@pytest.mark.system
def test_a_measurement_that_fails_takes_nothing_from_the_other_layers_and_nothing_is_done_twice(
    cli: Cli, endpoint: Endpoint, subject: tuple[Path, Path], worlds: str, tmp_path: Path
) -> None:
    weights, items = subject
    command: tuple[object, ...] = ("functional", "--base-url", endpoint.url, "--benchmark", worlds, *LIMIT)
    command += ("--run", "all")
    inside = ("--weights", weights, "--items", items)
    failed = cli(*command, *inside, "--cases", 8, "--no-report")
    assert failed.code == 1
    assert "no mechanism was measured: " in failed.err
    assert "are eligible" in failed.err
    assert "FToM_BS" in failed.out
    assert "C (mechanism) is missing (" in failed.err
    assert "not measured)" not in failed.err, "the reason is the one why it failed"
    asked = len(endpoint.requests)
    more = passes(cli(*command, *inside, *INSIDE), "part 1 of 2", "part 2 of 2")
    assert "another measurement is kept" in more.err
    assert len(endpoint.requests) == asked, "what is tried otherwise inside asks nothing again"
    runs = tmp_path / "runs/all"
    assert {"worlds", "inside", "inside-2", "report.html"} <= {path.name for path in runs.iterdir()}
    assert run_of(runs / "worlds")["variants"]
    assert {"vanilla", "cot"} == set(run_of(runs / "worlds")["strategies"])
    assert (run_of(runs / "inside-2")["complete"], run_of(runs / "inside")["complete"]) == (True, False)
    report = (runs / "report.html").read_text("utf-8")
    assert "inside-2" in report
    assert "FToM" in report
    with RunFolder(runs / "inside"):
        refuses(cli(*command, *inside, *INSIDE), "inside: in use by another tomserve process")
    again = passes(cli(*command, "--no-report"))
    assert "the mechanism is the one that was measured before" in again.err
    assert "no mechanism was measured" not in again.err
    assert len(endpoint.requests) == asked, "answered questions are not asked again"
    assert "FToM_BS" in cli(*command, "--weights", "none", "--no-report").out


def test_without_weights_there_is_a_score_of_behaviour_and_stability_alone(
    cli: Cli, endpoint: Endpoint, worlds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOMSERVE_RUNS", "runs")
    done = passes(
        cli(
            *("functional", "--base-url", endpoint.url, "--benchmark", worlds, *LIMIT, "--no-report", "--quiet"),
            *("--weights-bcs", ".4,.4,.2"),
        )
    )
    assert "no mechanism was measured" in done.err
    way = ("part 1 of 1", "limit ", "rows in", "answers to", "noise check", "left to ask")
    assert not [line for line in done.out.splitlines() if line.startswith(way) or " rows in " in line]
    assert "run: runs/functional-tiny/worlds\n" in done.out
    runs = tmp_path / "runs"
    assert {path.name for path in (runs / "functional-tiny").iterdir()}.isdisjoint({"inside", "report.html"})
    assert "FToM_BS" in done.out
    assert "ftom-1 with weights .40, .40, .20" in done.out, "other weights have another name"
    refuses(cli("analyze", "functional-tiny"), "is no run itself, but holds 1; name functional-tiny/worlds instead")
    passes(cli("analyze", "functional-tiny/worlds", "--study", "functional"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--weights", "./nowhere"), "nowhere"),
        (("--layers", "3"), "needs --weights"),
        (("--benchmark", "bigtom=nowhere.csv"), "nowhere.csv: there is no such file"),
        (("--weights-bcs", ".5,.5"), "2 weights are given"),
        (("--weights-bcs", ".5,.5,.5"), "expected the sum 1"),
        (("--models", "a", "b", "--weights", "./x"), "expected MODEL=DIR"),
        (("--models", "a", "--model", "b"), "both given"),
        (("--models", "a", "b", "--weights", "b=./nowhere"), "b: ./nowhere"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line_before_anything_is_asked(
    cli: Cli, endpoint: Endpoint, wrong: tuple[str, ...], said: str
) -> None:
    refuses_in_a_line(cli("functional", "--base-url", endpoint.url, *wrong, *LIMIT), said)
    assert not endpoint.requests


@pytest.mark.system
def test_python_does_the_same(endpoint: Endpoint, subject: tuple[Path, Path], worlds: str, tmp_path: Path) -> None:
    weights, items = subject
    found = tomserve.functional(
        base_url=endpoint.url, weights=weights, items=items, limit=24, cases=60, layers=[3], alphas=[0.1], fewest=2,
        run=tmp_path / "mine", report=False, benchmarks=[worlds],
    )  # fmt: skip
    assert [run.folder.name for run in found.runs] == ["worlds", "inside"]
    assert any("C was measured on another benchmark" in said for said in found.warnings)
    assert found.report is None
    (row,) = found.tables["score"].to_dicts()
    assert row["model"] == "tiny"
    assert row["c"] > 0.5, "the map carries the answer of this subject"
    assert row["ftom"] == pytest.approx(0.5 * row["b"] + 0.3 * row["c"] + 0.2 * row["s"])
    assert isinstance(found.tables["inputs"], pl.DataFrame)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
        tomserve.functional(limits=3)  # type: ignore[call-arg]


@pytest.mark.long
def test_only_models_in_which_a_map_is_shown_are_ranked_by_all_three_layers(
    cli: Cli, endpoint: Endpoint, subject: tuple[Path, Path], worlds: str, tmp_path: Path
) -> None:
    """Two models that answer alike and differ inside: in one a map carries the answer, in the other a control does."""
    weights, items = subject
    build("shared", tmp_path / "shared")
    endpoint.models = ["mapped", "shared"]
    command = ("functional", "--models", "shared", "mapped", "--base-url", endpoint.url, "--run", "board", "--quiet")
    command += ("--weights", f"mapped={weights}", "--weights", f"shared={tmp_path / 'shared'}", "--items", items)
    inside = ("--layers", "3", "--alphas", "0.1", "--cases", 60, "--fewest", 2)
    passes(cli(*command, "--benchmark", worlds, "--limit", 120, *inside))  # of eight stories
    folder = tmp_path / "runs/board"
    (mapped,) = pl.read_csv(folder / "leaderboard_ftom.csv").to_dicts()
    assert (mapped["model"], mapped["c"] > 0.5) == ("mapped", True)
    first, second = pl.read_csv(folder / "leaderboard_ftom_bs.csv").to_dicts()
    assert (first["b"], first["s"]) == (second["b"], second["s"])
    (apart,) = pl.read_csv(folder / "not_ranked.csv").to_dicts()
    assert apart["model"] == "shared"
    assert apart["why"].startswith("FToM: no C (mechanism): ")


def test_the_plan_says_what_each_layer_takes_and_asks_nothing(
    cli: Cli, endpoint: Endpoint, subject: tuple[Path, Path], worlds: str, tmp_path: Path
) -> None:
    weights, items = subject

    def planned(*options: object, limit: int = 8) -> str:
        found = cli(
            "functional", "--base-url", endpoint.url, "--benchmark", worlds, "--limit", limit, *options, "--plan"
        )
        return " ".join((found.out if found.code == 0 else found.err).split())

    whole = planned("--weights", weights, "--items", items, *INSIDE)
    for part in (
        "8 questions",
        "by vanilla and cot: 112 requests",
        "million tokens of prompts",
        "12 cases x 2 orders x 1 layers x ",
    ):
        assert part in whole
    assert "4 questions" in planned("--where", "task=belief", limit=4)
    assert "nothing" in planned("--where", "task=nothing")
    assert "layer 99" in planned("--weights", weights, "--items", items, "--layers", "99")
    assert "no mechanism is measured, without --weights; the score is FToM_BS" in planned()
    assert "by --weights none" in planned("--weights", "none")
    assert "other" in planned("--models", "tiny", "other"), "a model that is not served is found out before"
    assert not endpoint.requests
    assert not (tmp_path / "runs/functional-tiny").exists()


def test_a_signal_while_weights_are_loaded_is_no_mistake_of_the_weights(
    subject: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    from tomserve.causal.experiment import measure
    from tomserve.causal.settings import Settings

    def stopped(*given: object, **named: object) -> None:
        raise StoppedError("stopped by SIGTERM", 143)

    weights, items = subject
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", stopped)
    with pytest.raises(StoppedError):
        measure(Settings(model=str(weights), items=str(items), limit=20))


def test_the_name_of_a_part_cannot_control_the_terminal() -> None:
    for quiet, said in ((False, "model 1 of 2: m\\x1b[31m\n"), (True, "")):
        file = io.StringIO()
        make_runner(Console(file=file, width=80), quiet=quiet).announce("model 1 of 2: m\x1b[31m")
        assert file.getvalue() == said


def test_weights_that_may_be_another_models_are_doubted() -> None:
    def doubt(model: str, weights: str, root: str | None = None) -> str:
        return explain_other_weights(SimpleNamespace(model=model, preset=None, server={"root": root}), weights)  # type: ignore[arg-type]

    assert doubt("tiny", "/models/Tiny") == doubt("other", "/models/tiny", "org/tiny") == ""
    assert "are measured as those of other" in doubt("other", "/models/tiny")
