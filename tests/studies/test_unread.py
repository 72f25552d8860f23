"""Replies that could not be read are counted beside every accuracy, told last, and listed with their ends."""

import io
from pathlib import Path

import orjson
import polars as pl
import pytest
from rich.console import Console

from tests.conftest import make_item
from tests.helpers.reports import run_folder
from tests.helpers.score_tables import scores
from tomserve.items import write_items
from tomserve.reporting import latex
from tomserve.reporting.unread import LINES, WIDTH, end_of, show_unread
from tomserve.runs.scores import scores_of
from tomserve.studies import compute
from tomserve.studies.unread import Listed, Unread

RIGHT = {"text": '{"answer": "tea"}'}
VAGUE = {"text": "Hard to say.\nIt could be anything."}
TEN = [make_item(number) for number in range(10)]


def mixed(folder: Path, unread: int, failed: int = 0) -> Path:
    """A run of ten items, of which the first replies cannot be read and the next did not come."""
    fields = [VAGUE] * unread + [{"text": None, "status": "timeout"}] * failed + [RIGHT] * (10 - unread - failed)
    answers = {item.id: one for item, one in zip(TEN, fields, strict=True)}
    return run_folder(folder, {"vanilla": answers}, TEN)


@pytest.mark.parametrize(("unread", "code"), [(1, 0), (2, 1)])
@pytest.mark.parametrize("command", ["score mine", "analyze mine --study accuracy", "analyze mine --format json"])
def test_score_and_analyze_end_with_a_line_and_with_1_above_one_in_ten(
    cli, tmp_path: Path, command: str, unread: int, code: int
) -> None:
    folder = mixed(tmp_path / "runs/mine", unread)
    done = cli(*command.split())
    assert done.code == code, done.err
    last = done.err.splitlines()[-1]
    said = f"{folder}: {unread} of 10 replies could not be read; first: demo/0 by vanilla ("
    assert last.startswith(f"warning: {said}")
    assert last.endswith(f"; see `tomserve runs {folder} --unread`")
    if "json" in command:
        assert orjson.loads(done.out)["accuracy"][0]["unread"] == unread


def test_the_share_is_one_of_replies_and_not_of_questions(cli, tmp_path: Path) -> None:
    """One of two replies could not be read, be the other eight failures."""
    mixed(tmp_path / "runs/mine", 1, failed=8)
    done = cli("score", "mine")
    assert (done.code, "1 of 2 replies could not be read" in done.err) == (1, True)


def test_every_accuracy_stands_beside_its_unread_replies(cli, tmp_path: Path) -> None:
    folder = mixed(tmp_path / "runs/mine", 3, failed=1)
    scores = scores_of(folder)
    for intervals in ("recommended", "published"):
        (row,) = compute(scores, "accuracy", intervals).tables["accuracy"].iter_rows(named=True)
        assert (row["correct"], row["total"], row["unread"]) == (6, 10, 3)
    shown = cli("analyze", "mine", "--study", "accuracy").out
    assert any(line.split()[-1:] == ["unread"] and "accuracy" in line for line in shown.splitlines())
    assert "unread: replies that could not be read, which count as wrong" in shown


def test_the_list_has_the_reason_and_the_last_lines_and_says_how_many(cli, tmp_path: Path) -> None:
    folder = mixed(tmp_path / "runs/mine", 3)
    (reason,) = scores_of(folder).filter(item="demo/0")["reason"]
    done = cli("runs", "mine", "--unread")
    assert done.code == 0
    assert done.out.splitlines()[:5] == [
        f"{folder}: 3 of 10 replies could not be read",
        "",
        "1. demo/0 by vanilla",
        f"   {reason}",
        "    | Hard to say.",
    ]
    done = cli("runs", "--unread", 2)  # the newest run
    assert done.out.splitlines()[0].endswith("3 of 10 replies could not be read; the first 2 of them")
    assert (done.out.count("Hard to say."), done.out.splitlines()[-1]) == (2, "`--unread 3` lists all of them.")
    mixed(tmp_path / "runs/fine", 0)
    assert cli("runs", "fine", "--unread").out == f"{tmp_path}/runs/fine: all 10 replies could be read\n"
    done = cli("runs", "mine", "--items", "x")
    assert (done.code, "need --unread" in done.err) == (2, True)


def test_replies_of_another_tool_and_score_tables_are_listed_too(cli, tmp_path: Path) -> None:
    items, found, out = tmp_path / "items.jsonl", tmp_path / "theirs.jsonl", tmp_path / "s.csv"
    write_items(items, TEN)
    found.write_bytes(b"".join(orjson.dumps({"item": one.id, **VAGUE}) + b"\n" for one in TEN))
    done = cli("score", "--responses", found, "--items", items, "--out", out)
    assert done.code == 1
    command = done.err.splitlines()[-1].partition("see `tomserve ")[2].rstrip("`").split()
    listed = cli(*command)
    assert listed.out.splitlines()[0] == f"{found}: 10 of 10 replies could not be read"
    assert "    | It could be anything." in listed.out
    table = cli("runs", out, "--unread", 1).out
    assert "1. demo/0 by vanilla" in table
    assert "(the text is not at hand: a score table holds none)" in table
    done = cli("runs", found, "--unread", "--benchmark", "items", "--items", items)
    assert (done.code, "needs either --items FILE or --benchmark NAME" in done.err) == (2, True)


def test_what_a_model_wrote_cannot_control_the_terminal_or_fill_it() -> None:
    hostile = "\x1b[2J" + "\u202e" + "x" * 5000 + "\r\nend\x07"
    lines = end_of(hostile)
    assert (lines[0], lines[-1], len(lines)) == ("...", "end\ufffd", LINES)
    out = io.StringIO()
    one = Unread("a\x1b[31m", "s\n", "m", "invalid", "why \x9b" + "y" * 200, 0, hostile)
    show_unread("runs/[bold]x", Listed([one], 1, 1), Console(file=out, width=100_000))
    text = out.getvalue()
    assert text.startswith("runs/[bold]x: 1 of 1")
    assert all(len(line) <= WIDTH for line in text.splitlines())
    assert all(c.isprintable() or c == "\n" for c in text)
    assert end_of("  \n") == ["(the reply is empty)"]


def test_two_strategies_share_a_narrow_column() -> None:
    """The tables by class have a column for each strategy, and one for what was unread of all of them."""
    unread = pl.col("strategy") == "cot"
    status = pl.when(unread).then(pl.lit("invalid")).otherwise(pl.lit("ok"))
    found = compute(scores(status=status, correct=pl.col("correct") & ~unread), "perturbed")
    accuracy = next(one for one in found.summary() if "accuracy" in one.title)
    assert "0 / 4" in accuracy.frame["unread"].to_list()
    shares = found.tables["accuracy"].filter(subset="all")
    assert "\nunread, at most & 0 & 8 " in latex.render(shares, found.study.layouts["accuracy"])
    assert "unread" not in latex.render(shares.with_columns(unread=0), found.study.layouts["accuracy"])
