"""What a score table lacks, in numbers and in sentences; and several tables in one."""

from pathlib import Path

import orjson
import polars as pl
import pytest

import tomserve
from tests.conftest import make_item
from tests.helpers.reports import run_folder
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.runs.scores import scores_of
from tomserve.studies import compute
from tomserve.studies.combining import as_one, combined
from tomserve.studies.gaps import of_scores, of_source

RIGHT = {"text": '{"answer": "tea"}'}


def run(folder: Path, answers: list[dict], **manifest: object) -> Path:
    items = [make_item(number) for number in range(10)]
    given = {item.id: fields for item, fields in zip(items, answers, strict=False)}
    return run_folder(folder, {"vanilla": given}, items, **manifest)


def test_a_whole_run_lacks_nothing(tmp_path: Path) -> None:
    folder = run(tmp_path / "r", [RIGHT] * 10, benchmark_items=10)
    (gap,) = of_source(folder, scores_of(folder))
    assert (gap.sentences(), gap.in_short(), gap.many_unread) == ([], "yes", False)


def test_everything_that_lacks_is_counted_and_said_with_the_way_out(tmp_path: Path) -> None:
    failed = [{"text": None, "status": status} for status in ("timeout", "refusal")]
    answers = [RIGHT, {"text": "no idea"}, {"text": "I think", "status": "length"}, *failed]
    folder = run(tmp_path / "r", answers, complete=False, benchmark_items=40)
    (gap,) = of_source(folder, scores_of(folder))
    assert (gap.there, gap.unread, dict(gap.failed), gap.missing) == (5, 2, {"refusal": 1, "timeout": 1}, 5)
    assert gap.sentences() == [
        f"{folder}: 2 of 5 answers (40.0%) could not be read, and 2 (40.0%) did not come (1 refusal, 1 timeout); they "
        f"count as wrong. `tomserve runs {folder} --unread` lists them. Repeat the eval command to ask again for those "
        "that failed.",
        f"{folder} is incomplete: 5 of 10 answers (50.0%) were not asked for yet, and those that are there may not be "
        "typical. Repeat its eval command to finish it.",
        f"{folder} asks 10 of 40 questions (25.0%) of its benchmark (--limit): a sample, whose numbers may differ from "
        "those of all. `tomserve eval` with a larger --limit, or without, asks the rest.",
    ]
    (reason,) = scores_of(folder).filter(item="demo/1")["reason"]
    assert gap.unread_line() == (
        f"{folder}: 2 of 3 replies could not be read; first: demo/1 by vanilla ({reason}); "
        f"see `tomserve runs {folder} --unread`"
    )
    assert gap.in_short() == "no: 5 not asked yet, 2 unreadable, 2 failed, 10 of the benchmark's 40 questions"


@pytest.mark.parametrize(("unread", "many"), [(10, False), (11, True)])
def test_a_small_share_of_unreadable_answers_is_no_failure(unread: int, many: bool) -> None:
    status = ["invalid"] * unread + ["ok"] * (100 - unread)
    rows = pl.DataFrame({"strategy": "s", "item": list(map(str, range(100))), "status": status, "answer": "tea"})
    assert of_scores(rows, None, "t")[0].many_unread is many


def test_of_a_file_nothing_is_guessed() -> None:
    """Rows that one strategy lacks are said; that a run is unfinished is not, for nobody recorded it."""
    rows = {"model": "m", "strategy": ["a", "a", "b"], "item": ["1", "2", "1"], "status": "ok", "answer": "tea"}
    (gap,) = of_scores(pl.DataFrame(rows), None, "t.csv")
    assert gap.sentences() == [
        "t.csv: 1 of 4 pairs of a question and a strategy (25.0%) have no row; strategies are compared on the "
        "questions that both were asked."
    ]


def table(name: str, strategy: str, items: str, **more: object) -> pl.DataFrame:
    fixed = {"run": name, "model": "m", "strategy": strategy, "status": "ok", "answer": "tea", "correct": True}
    return pl.DataFrame({**fixed, "item": list(items), **more})


def test_tables_keep_every_column_even_where_their_kinds_differ() -> None:
    found = combined([table("a", "vanilla", "12", level=1), table("b", "cot", "12", level=[["x"], ["y"]], kind="z")])
    assert found["level"].to_list() == ["1", "1", "['x']", "['y']"]
    assert found["kind"].to_list() == [None, None, "z", "z"]


def test_runs_of_one_model_with_different_strategies_are_one_model() -> None:
    scores = combined([table("a", "vanilla", "12"), table("b", "cot", "12")])
    effects = compute(scores, "accuracy").tables["prompting_effects"]
    assert effects["n"].to_list() == [2]
    (said,) = as_one(scores, {"a": {"sampling": {"seed": 0}}, "b": {"sampling": {"seed": 1}}})
    assert said.startswith("the runs a, b are counted as one model, m, with the strategies vanilla, cot; ")
    assert said.endswith("the runs differ in: seed of sampling.")
    assert "is not known from score tables" in as_one(scores, {})[0]


def test_runs_of_one_model_that_answer_the_same_or_ask_something_else_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"runs a, b are of one model, 'm', and .*strategy 'cot', item '2'\); tell them"
    ):
        compute(combined([table("a", "cot", "12"), table("b", "cot", "23")]), "accuracy")
    other = table("b", "cot", "12", benchmark="hitom")
    with pytest.raises(ConfigError, match=r"ask different benchmarks \(hitom, perturbed\); analyze each alone"):
        compute(combined([table("a", "vanilla", "12", benchmark="perturbed"), other]), "accuracy")


def answered_elsewhere(tmp_path: Path, count: int) -> tuple[Path, Path]:
    """The files of ten items, and of another tool's replies to the first `count` of them by two strategies."""
    items, responses = tmp_path / "items.jsonl", tmp_path / "theirs.jsonl"
    write_items(items, [make_item(number) for number in range(10)])
    lines = [{"item": f"demo/{n}", "strategy": s, "text": "tea"} for n in range(count) for s in ("vanilla", "cot")]
    responses.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return items, responses


def test_another_tools_answers_to_a_part_of_the_questions_say_so_everywhere(cli, tmp_path: Path) -> None:
    items, responses = answered_elsewhere(tmp_path, 4)
    table = tmp_path / "scores.csv"
    done = cli("score", "--responses", responses, "--items", items, "--out", table)
    said = f"{table}: 4 of 10 questions (40.0%) were answered. The others have no row and count nowhere, so that all "
    assert said in done.err
    assert said in cli("analyze", table).err
    assert of_scores(tomserve.score(responses, items), None, "t")[0].in_short() == "no: 4 of 10 questions answered"


def test_another_tools_answers_to_all_questions_need_no_remark(cli, tmp_path: Path) -> None:
    items, responses = answered_elsewhere(tmp_path, 10)
    done = cli("score", "--responses", responses, "--items", items, "--out", tmp_path / "s.parquet")
    assert "were answered" not in done.err
    assert tomserve.score(responses, items).columns == pl.read_parquet(tmp_path / "s.parquet").columns
