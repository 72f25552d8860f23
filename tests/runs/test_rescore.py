"""Scoring from files: journals that are torn, foreign or older, another tool's responses, tables made in parts."""

from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import make_item
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tomserve.benchmarks import load
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.runs.scores import load_scores
from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.scoring.table import write_score_table


def lines(path: Path, *rows: dict | bytes) -> Path:
    path.write_bytes(b"".join(row if isinstance(row, bytes) else orjson.dumps(row) + b"\n" for row in rows))
    return path


def items(tmp_path: Path, count: int = 3) -> Path:
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(1, count + 1)])
    return tmp_path / "items.jsonl"


def reply(number: int, text: str = '{"answer": "tea"}', **more) -> dict:
    return {"item": f"demo/{number}", "text": text, **more}


def test_another_tools_responses(cli, tmp_path: Path) -> None:
    rows = [reply(1), reply(2, "Answer: salt", strategy="cot", model="a"), reply(2, "tea", strategy="cot", model="b")]
    found = lines(tmp_path / "theirs.jsonl", *rows, {"item": "demo/3", "status": "timeout"})
    done = passes(cli("score", "--responses", found, "--items", items(tmp_path), "--out", tmp_path / "s.parquet"))
    assert "1 of 4 answers (25.0%) did not come (1 timeout); they count as wrong." in done.err
    assert "4 answers scored, 2 correct" in done.out
    scores = pl.read_parquet(tmp_path / "s.parquet")
    assert scores.select("run", "model", "strategy", "item", "status", "parse", "correct").rows() == [
        ("theirs", "theirs", "vanilla", "demo/1", "ok", "json", True),
        ("theirs", "a", "cot", "demo/2", "ok", "stated", False),
        ("theirs", "b", "cot", "demo/2", "ok", "label", True),
        ("theirs", "theirs", "vanilla", "demo/3", "timeout", None, False),
    ]
    assert scores["perturbation"].to_list() == ["none"] * 4
    for suffix in ("csv", "jsonl"):
        out = tmp_path / f"s.{suffix}"
        assert cli("score", "--responses", found, "--items", items(tmp_path), "--out", out, "--model", "m").code == 0
        assert load_scores(str(out))["model"].to_list() == ["m", "a", "b", "m"]


SMALL = Path(__file__).parents[1] / "data/hitom_small.json"


def test_free_text_answers_to_hitom_name_their_gold_and_how_they_were_read(cli, tmp_path: Path) -> None:
    by_letter, wrong, _ = items = list(load("hitom", SMALL))[:3]
    letter = "ABCDEFGHIJKLMNO"[by_letter.choices.index(by_letter.answer)]
    other = next(choice for choice in wrong.choices if choice != wrong.answer)
    texts = zip(items, (letter, other, "I cannot tell."), strict=True)
    found = lines(tmp_path / "theirs.jsonl", *({"item": item.id, "text": text} for item, text in texts))
    out = tmp_path / "s.csv"
    command = ("score", "--responses", found, "--benchmark", "hitom", "--path", SMALL, "--out", out)
    done = cli(*command)
    assert done.code == 1, "more than one in ten could not be read"
    assert done.err.splitlines()[-1].endswith(f"see `tomserve runs {found} --benchmark hitom --path {SMALL} --unread`")
    assert "s.csv: 1 of 3 answers (33.3%) could not be read; they count as wrong." in done.err
    assert "3 answers scored, 1 correct\nreplies read as: " in done.out
    assert "; compared with gold: corrected\n" in done.out
    scores = pl.read_csv(out)
    assert {*scores["parse"]} == {"label+letter", "label", None}
    assert set(scores["gold"]) == {"corrected"}
    assert scores.filter(item=wrong.id)["places_offered"].item() == " ".join(wrong.choices[:-1])
    assert "; compared with gold: tracked\n" in cli(*command, "--gold", "tracked").out


def test_what_cannot_be_read_is_counted_by_line(cli, tmp_path: Path) -> None:
    rows: tuple[tuple[dict | bytes, str], ...] = (
        (reply(1), "3 answers scored, 2 correct"),
        (b"not json\n", "1 not JSON (line 2)"),
        (b"[1]\n", "1 not a response (line 3)"),
        (reply(9), "1 of unknown items (line 4)"),
        ({"id": "demo/2", "output": "tea"}, "1 without item (line 5)"),
        (reply(2, schema=7), "1 of another schema (line 6)"),
        (reply(2, status="fine"), "rows of an unknown status count as failures: 1 fine; known: ok, length,"),
        (reply(2, turn="first"), "1 with a turn that is no whole number (line 8)"),
        ({"item": "demo/2", "text": None}, "1 without text (line 9)"),
        (reply(3), "8 lines not read: "),
        (b'{"item": "demo/3", "te', "1 torn off at the end (line 11)"),
    )
    found, out = lines(tmp_path / "r.jsonl", *(row for row, _ in rows)), tmp_path / "s.parquet"
    done = passes(cli("score", "--responses", found, "--items", items(tmp_path), "--out", out))
    assert done.err.startswith("warning: ")
    assert pl.read_parquet(out)["status"].to_list() == ["ok", "fine", "ok"]
    for _, said in rows:
        assert said in done.out + done.err, said


GIVEN = "--responses r.jsonl --items i.jsonl --out s.csv"
BAD = {
    "--responses r.jsonl --out s.csv": "--responses needs either --items FILE or --benchmark NAME",
    "--responses r.jsonl --items i.jsonl": "--responses needs --out FILE",
    "--responses r.jsonl --items i.jsonl --out s.xls": "s.xls: unknown kind of table; known: .parquet",
    GIVEN: "i.jsonl: cannot be read (No such file",
    f"a {GIVEN}": "give runs (a) or --responses, not both",
    "--items i.jsonl": "--items, --benchmark and --model belong to --responses FILE",
    "--gold current": "--gold current writes no scores.parquet",
    "--gold currant": "unknown gold 'currant'; did you mean 'current'?",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_combinations_are_one_line(cli, arguments: str) -> None:
    refuses_in_a_line(cli("score", *arguments.split()), BAD[arguments])


def scored(tmp_path: Path, *rows: dict | bytes, count: int = 3) -> pl.DataFrame:
    known = ItemFile(items(tmp_path, count))
    found = ResponseFile(lines(tmp_path / "r.jsonl", *rows), known, "m")
    write_score_table(known, found, tmp_path / "s.parquet", run="r")
    return pl.read_parquet(tmp_path / "s.parquet")


def test_the_later_row_of_a_turn_wins_and_the_last_turn_counts(tmp_path: Path) -> None:
    frame = scored(tmp_path, reply(1, "salt", turn=1), reply(1, "tea", turn=1), reply(1, "unknown", turn=0))
    assert frame["answer"].to_list() == ["tea"]


def test_the_row_that_closes_a_conversation_counts_before_any_other(tmp_path: Path) -> None:
    rows = [reply(1, "salt", turn=2), reply(1, "tea", turn=1, closes=3), reply(1, "salt", turn=3)]
    assert scored(tmp_path, *rows)["answer"].to_list() == ["tea"]
    concluded = reply(1, "salt", turn=1, closes=2, conclusion="tea")
    assert scored(tmp_path, reply(1, "salt"), concluded)["answer"].to_list() == ["tea"]
    alone = reply(1, "tea", conclusion="salt")
    assert scored(tmp_path, alone)["answer"].to_list() == ["tea"], "without an end there is no conclusion"


@pytest.mark.parametrize(
    "broken", [{"closes": "2"}, {"closes": 2.0}, {"closes": True}, {"conclusion": ["tea"], "closes": 2}]
)
def test_a_line_whose_end_is_of_the_wrong_kind_is_counted(tmp_path: Path, broken: dict) -> None:
    known = ItemFile(items(tmp_path, 2))
    found = ResponseFile(lines(tmp_path / "r.jsonl", reply(1), reply(2, **broken)), known, "m", talking=["vanilla"])
    assert len(found) == 1
    kind = "text" if "conclusion" in broken else "whole number"
    assert f"1 lines not read: 1 with a {next(iter(broken))} that is no {kind} (line 2)" in str(found.problems)


def test_other_questions_about_the_story_tell_whose_belief_it_is(tmp_path: Path) -> None:
    base = {"story": ["a", "b"], "cluster": "s", "choices": ["x", "y", "unknown"]}
    asked = make_item(1, **base, answer="x", gold={"sets": [["x"], ["x"]]})
    reality = make_item(2, **base, answer="y", gold={"sets": [["x"], ["y"]]})
    write_items(tmp_path / "items.jsonl", [asked, reality])
    known = ItemFile(tmp_path / "items.jsonl")
    row = reply(1, '{"beliefs": ["x", "y"], "answer": "y"}')
    write_score_table(
        known, ResponseFile(lines(tmp_path / "r.jsonl", row), known, "m"), tmp_path / "s.parquet", run="r"
    )
    assert pl.read_parquet(tmp_path / "s.parquet")["chain_verdicts"].to_list() == [["right", "other_belief"]]


def test_factors_of_mixed_kinds_become_text(tmp_path: Path) -> None:
    kinds = [make_item(1, factors={"n": 1, "x": 1, "b": True}), make_item(2, factors={"n": 2.5, "x": "a", "b": None})]
    write_items(tmp_path / "items.jsonl", kinds)
    known = ItemFile(tmp_path / "items.jsonl")
    replies = ResponseFile(lines(tmp_path / "r.jsonl", reply(1), reply(2)), known, "m")
    write_score_table(known, replies, tmp_path / "s.parquet", run="r")
    frame = pl.read_parquet(tmp_path / "s.parquet")
    assert frame.select("n", "x", "b").rows() == [(1.0, "1", True), (2.5, "a", None)]


def run_folder(tmp_path: Path, *rows: dict | bytes) -> Path:
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    items(folder)
    strategies = {"vanilla": {"chain": False}, "cot": {"chain": True}}
    manifest = {"schema": 1, "run": "mine", "model": "m", "benchmark": "perturbed", "strategies": strategies}
    manifest |= {"complete": True, "benchmark_digest": "sha256:old", "benchmark_path": None}
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    lines(folder / "responses.jsonl", *rows)
    return folder


def test_scoring_against_todays_dataset_says_so(cli, tmp_path: Path) -> None:
    identifier = "C1/none/false_belief/reality/original"
    row = {"turn": 0, "key": "k", "strategy": "cot", "status": "ok", "item": identifier, "text": "unknown"}
    folder = run_folder(tmp_path, row)
    done = passes(cli("score", folder, "--gold", "current", "--out", tmp_path / "now.csv"))
    assert "scored against today's perturbed (sha256:" in done.out
    assert "the run's was sha256:old" in done.out
    assert pl.read_csv(tmp_path / "now.csv")["item"].to_list() == [identifier]
    assert not (folder / "scores.parquet").exists()


def score_table(path: Path, **changes) -> Path:
    rows = [
        {"model": "m", "strategy": "vanilla", "item": f"i{n}", "status": "ok", "correct": n % 2 == 0} for n in range(6)
    ]
    frame = pl.DataFrame(rows).with_columns(**changes)
    write = {".parquet": frame.write_parquet, ".csv": frame.write_csv, ".jsonl": frame.write_ndjson}
    write[path.suffix](path)
    return path


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_true_and_false_in_every_format(tmp_path: Path, suffix: str) -> None:
    for kind in (pl.Int64, pl.Float64, pl.String, pl.Boolean):
        path = score_table(tmp_path / f"t.{suffix}", correct=pl.col("correct").cast(kind))
        assert load_scores(str(path))["correct"].to_list() == [True, False] * 3
    for value in (0.4, 2, "maybe"):
        path = score_table(tmp_path / f"t.{suffix}", correct=pl.lit(value))
        with pytest.raises(ConfigError, match=rf"t.{suffix}: item 'i0': correct is .*; expected true or false"):
            load_scores(str(path))


def test_odd_tables_are_one_line_each(cli, tmp_path: Path) -> None:
    labels = score_table(tmp_path / "g[1].parquet", strategy=pl.col("strategy").cast(pl.Categorical))
    assert load_scores(str(labels)).height == 6
    (tmp_path / "semi.csv").write_text("model;strategy;item\nm;v;i\n")
    (tmp_path / "empty.csv").write_text("model,strategy,item,status,correct\n")
    (tmp_path / "folder.csv").mkdir()
    for name, message in {
        "semi.csv": "not a score table: found columns model;strategy;item",
        "empty.csv": "holds no rows",
        "folder.csv": "is no file",
        "none.csv": "no such file",
    }.items():
        with pytest.raises(ConfigError, match=message):
            load_scores(str(tmp_path / name))
    nan = score_table(tmp_path / "nan.parquet", correct=pl.lit(float("nan")))
    assert "correct is empty" in cli("analyze", nan, "--study", "accuracy").err


def test_nulls_marks_and_repeated_lines(cli, tmp_path: Path) -> None:
    first = b"\xef\xbb\xbf" + orjson.dumps({**reply(1), "strategy": None, "model": None}) + b"\n"
    found = lines(tmp_path / "r.jsonl", first, reply(2, "tea"), reply(2, "salt"))
    done = passes(cli("score", "--responses", found, "--items", items(tmp_path), "--out", tmp_path / "s.csv"))
    assert "2 answers scored, 1 correct" in done.out
    assert "1 lines answer an item again; of each the last one counts" in done.err
    empty = lines(tmp_path / "empty.jsonl")
    refuses(
        cli("score", "--responses", empty, "--items", items(tmp_path), "--out", tmp_path / "s.csv"),
        "no line of it is a response",
    )
