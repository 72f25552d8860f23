"""The leaderboard ranks only what can be compared, and says what it leaves out, and how sure it is."""

import io
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from aiohttp import web
from rich.console import Console

from tests.conftest import Cli, Endpoint, completion, fill, running
from tests.helpers.functional_tables import without_layer_tables
from tomserve.benchmarks.worlds.benchmark import load
from tomserve.causal.experiment import ExperimentResult, Hardware, measure
from tomserve.causal.settings import Settings
from tomserve.errors import StoppedError
from tomserve.runs.evaluation import EvalResult, Servers, evaluate
from tomserve.runs.planning import EvalOptions
from tomserve.stats.functional import FTOM_1
from tomserve.workflows import leaderboard
from tomserve.workflows.functional import (
    FunctionalPlan,
    FunctionalResult,
    PartRunner,
    analyze_layers,
)
from tomserve.workflows.leaderboard import (
    APART,
    BS,
    NOT_COMPARED,
    NOTES,
    PAGE,
    Leaderboard,
    MeasuredModels,
    collect_facts,
    make_leaderboard,
    measure_models,
    show_leaderboard,
    write_leaderboard,
)

HOSTILE = "[<b>x](javascript:alert(1))"
UNREAD, REFUSED = "babbler", "refused"


def asked(options: EvalOptions, servers: Servers) -> EvalResult:
    return evaluate(options, servers=servers)


def looked(settings: Settings, folder: Path, on: Hardware) -> ExperimentResult:
    return measure(settings, folder, None, on)


def answer(body: dict[str, Any], n: int) -> web.StreamResponse | dict[str, Any] | None:
    model = body["model"]
    if "preflight" in body:
        return None
    if model == UNREAD:
        return completion("I would rather not say.", model)
    if model == REFUSED and zlib.crc32(body["messages"][-1]["content"].encode()) % 4:
        return completion(None, model, refusal="I must not.")
    if model == "guesser" and "response_format" in body:
        said = orjson.loads(fill(schema := body["response_format"]["json_schema"]["schema"]))
        for name, part in schema["properties"].items():
            if "enum" in part:
                said[name] = part["enum"][zlib.crc32(body["messages"][-1]["content"].encode()) % len(part["enum"])]
        return completion(orjson.dumps(said).decode(), model)
    return None


def plan(endpoint: Endpoint, folder: Path, name: str, worlds: Path, limit: int | None = None) -> FunctionalPlan:
    asking = EvalOptions(model=name, base_urls=(endpoint.url,), limit=limit)
    return FunctionalPlan(
        evaluation=asking, benchmarks=(f"worlds={worlds}",), run=str(folder / name.translate({47: "-", 60: "-"}))
    )


@pytest.fixture(scope="module", autouse=True)
def _ranked_alone() -> Iterator[None]:
    """The tables of single layers are tested in tests/studies."""
    with pytest.MonkeyPatch.context() as patched:
        without_layer_tables(patched)
        yield


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_worlds(tmp_path_factory.mktemp("worlds") / "worlds.jsonl", stories=9, questions=2)


def write_worlds(path: Path, stories: int, questions: int) -> Path:
    found = itertools.groupby((item for item in load() if item.factors["order"]), lambda item: item.cluster)
    kept = [item for _, items in itertools.islice(found, stories) for item in itertools.islice(items, questions)]
    path.write_bytes(b"".join(item.to_json() + b"\n" for item in kept))
    return path


@pytest.fixture(scope="module")
def few(worlds: Path) -> Path:
    return write_worlds(worlds.with_name("few.jsonl"), stories=3, questions=3)


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with running() as endpoint:
        endpoint.models = ["one", "two", "three", "guesser", HOSTILE, UNREAD, REFUSED]
        endpoint.script = answer
        yield endpoint


@pytest.fixture(scope="module")
def told(
    served: Endpoint, worlds: Path, few: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[FunctionalResult, ...]]:
    folder = tmp_path_factory.mktemp("told")
    found = {}
    for word, path, limit, names in (
        ("all", worlds, None, ["one", "two", "guesser"]),
        ("few", few, None, ["three", HOSTILE, UNREAD, REFUSED]),
    ):
        plans = {name: plan(served, folder, name, path, limit) for name in names}
        found[word] = measure_models(plans, PartRunner(asked, looked), report=False).done
    return found


def board_of(*done: FunctionalResult, folder: Path | None = None) -> Leaderboard:
    return make_leaderboard(MeasuredModels(done, {}), FTOM_1, folder)


@pytest.fixture(scope="module")
def whole(told: dict[str, tuple[FunctionalResult, ...]]) -> Leaderboard:
    return board_of(*told["all"])


def printed(board: Leaderboard, width: int = 80, *, whole: bool = True) -> str:
    screen = Console(file=io.StringIO(), width=width, highlight=False)
    show_leaderboard(board, screen, whole=whole)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def in_a_line(text: str) -> str:
    return " ".join(text.split())


def test_models_that_were_asked_the_same_are_ranked(whole: Leaderboard) -> None:
    board = whole
    assert set(board.tables) == {BS}, "no model is measured inside, which one sentence says"
    assert "No model has all three layers, so there is no ranking by FToM." in board.sentences
    frame = board.tables[BS]
    assert frame["p_first"].sum() == pytest.approx(1.0)
    ranks = dict(frame.select("model", "rank").iter_rows())
    assert ranks["one"] == ranks["two"], "both answer alike, and share a rank"
    assert ranks["one"] in ("1=", "2=")
    assert ranks["guesser"] in ("1", "3")
    assert set(frame["scenarios"]) == {9}
    assert set(frame["questions"]) == {18}
    assert set(frame["unread"]) == set(frame["failed"]) == {0}
    assert all(replies > 18 * 2 for replies in frame["replies"]), "both strategies, and variants"


def test_a_model_that_was_asked_something_else_is_listed_apart(
    told: dict[str, tuple[FunctionalResult, ...]], tmp_path: Path
) -> None:
    board = board_of(*told["all"], told["few"][0])
    assert set(board.tables[BS]["model"]) == {"one", "two", "guesser"}
    (row,) = board.tables[NOT_COMPARED].to_dicts()
    why = "was asked 9 questions instead of 18: repeat with the same --limit"
    assert row == {"model": "three", "score": "ftom_bs", "why": why}
    assert f"- three is not ranked by FToM_BS: {why}" in in_a_line(printed(board))
    assert any("the largest group" in said for said in board.sentences)
    write_leaderboard(board, tmp_path)
    assert why in (tmp_path / PAGE).read_text()
    assert "three,ftom_bs," in (tmp_path / f"{NOT_COMPARED}.csv").read_text()


def test_variants_that_name_no_story_are_no_scenarios(
    told: dict[str, tuple[FunctionalResult, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = told["all"][0]
    model, frame, labels = leaderboard.combine_parts(one.runs, one.inside)
    alone = pl.when(pl.col("original_item").is_null()).then("cluster").otherwise("item")
    monkeypatch.setattr(leaderboard, "combine_parts", lambda *given: (model, frame.with_columns(cluster=alone), labels))
    assert collect_facts(one).scenarios == 9


def test_nothing_is_certain_of_few_scenarios(told: dict[str, tuple[FunctionalResult, ...]], tmp_path: Path) -> None:
    board = board_of(told["few"][0], told["few"][1])
    frame = board.tables[BS]
    assert frame.height == 2
    for name in ("p_first", "rank_low", "rank_high"):
        assert frame[name].null_count() == 2
    assert any("withheld (?)" in said and "3 scenarios" in said for said in board.sentences)
    write_leaderboard(board, tmp_path)
    assert "| ? | ? |" in (tmp_path / f"{BS}.md").read_text()
    assert "withheld (?)" in (tmp_path / PAGE).read_text()
    assert "chance of rank 1: over" not in (tmp_path / PAGE).read_text(), "nothing is explained that is not there"
    assert "9 questions of 3 scenarios" in printed(board)


def test_ranks_are_withheld_where_an_interval_is_not_known(
    told: dict[str, tuple[FunctionalResult, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tomserve.workflows import leaderboard as module

    def undefined(scores: pl.DataFrame, formula: Any) -> Any:
        found = whole(scores, formula)
        known = pl.when(pl.col("model") == "one").then(None).otherwise(pl.col("ftom_bs_low"))
        return replace(found, tables={**found.tables, "score": found.tables["score"].with_columns(ftom_bs_low=known)})

    whole = analyze_layers
    monkeypatch.setattr(module, "analyze_layers", undefined)
    board = board_of(*told["all"])
    assert board.tables[BS]["p_first"].null_count() == 3
    assert any("the score of one has no interval" in said for said in board.sentences)


def test_a_model_whose_replies_are_lacking_is_not_ranked(told: dict[str, tuple[FunctionalResult, ...]]) -> None:
    three, _, unread, refused = told["few"]
    board = board_of(three, unread, refused)
    assert list(board.tables[BS]["model"]) == ["three"]
    why = dict(board.tables[APART].iter_rows())
    assert "could not be read, more than half" in why[UNREAD]
    assert "did not come, more than half" in why[REFUSED]
    assert why[UNREAD].startswith("FToM and FToM_BS: ")
    known = collect_facts(unread)
    assert (known.unread, known.failed) == (known.replies, 0)
    assert collect_facts(refused).failed > collect_facts(refused).replies > 0
    assert collect_facts(refused).failed + collect_facts(refused).replies == known.replies
    assert board.unread == (UNREAD,)
    assert any("could not be read; they count as wrong" in said for said in board.warnings[UNREAD])


def test_names_of_strangers_are_inert(told: dict[str, tuple[FunctionalResult, ...]], tmp_path: Path) -> None:
    board = board_of(*told["few"][:2])
    page = write_leaderboard(board, tmp_path)[-1].read_text("utf-8")
    assert "&lt;b&gt;x" in page
    assert "<b>x" not in page
    for name in (f"{BS}.md", NOTES):
        told_in_it = (tmp_path / name).read_text()
        assert r"\[&lt;b>x\](javascript" in told_in_it
    hostile = Leaderboard(
        {APART: pl.DataFrame({"model": ["a\x1b[2J"], "why": ["no"]})}, "", (), {"b\x1b[2J": ("c",)}, {}
    )
    assert "\x1b[2J" not in printed(hostile)


def test_tables_of_an_earlier_leaderboard_do_not_stay(whole: Leaderboard, tmp_path: Path) -> None:
    gone, mine = tmp_path / f"{APART}.csv", tmp_path / "mine.csv"
    for path in (gone, mine):
        path.touch()
    write_leaderboard(whole, tmp_path)
    assert (gone.exists(), mine.exists()) == (False, True)


@pytest.mark.system
def test_the_command_prints_it_and_keeps_a_board_that_it_cannot_replace(
    cli: Cli, served: Endpoint, few: Path, tmp_path: Path
) -> None:
    command = ("functional", "--base-url", served.url, "--benchmark", f"worlds={few}", "--no-report", "--quiet")
    done = cli(*command, "--run", "board", "--models", "one", UNREAD, "missing")
    assert done.code == 1
    assert max(len(line) for line in done.out.splitlines() if str(tmp_path) not in line) <= 100
    assert done.err.count("unknown model 'missing'") == 1
    assert done.out.count("not measured: missing") == 1
    assert "Served there" not in done.out, "the whole of it was said when it happened"
    page = tmp_path / "runs/board" / PAGE
    before = page.read_bytes()
    again = cli(*command, "--run", "board", "--models", "missing")
    assert again.code == 1
    assert "is left as it was" in again.out
    assert page.read_bytes() == before


def test_who_stops_it_stops_all_of_it(endpoint: Endpoint, few: Path, tmp_path: Path) -> None:
    def stopped(options: EvalOptions, servers: Servers) -> EvalResult:
        raise StoppedError("stopped", 130)

    endpoint.models = ["one", "two"]
    plans = {name: plan(endpoint, tmp_path, name, few) for name in ("one", "two")}
    said: list[str] = []
    with pytest.raises(StoppedError):
        measure_models(plans, PartRunner(stopped, looked, said.append), report=False)
    assert [line for line in said if line.startswith("model")] == ["model 1 of 2: one"]
