"""Replies that could not be read, and whatever else a score table lacks, in numbers and in sentences."""

import io
from pathlib import Path

import orjson
import polars as pl
import pytest
from rich.console import Console

import tomserve
from tests.conftest import make_item
from tests.helpers.outcomes import passes, refuses
from tests.helpers.reports import run_folder
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.reporting.run_list import LINES, WIDTH, last_lines, show_unread
from tomserve.runs.scores import scores_of
from tomserve.studies import compute
from tomserve.studies.comparability import unlike_notes
from tomserve.studies.comparison import combine_scores, same_model_notes
from tomserve.studies.missing_data import UnreadReplies, UnreadReply, gaps_of_scores, gaps_of_source

RIGHT = {"text": '{"answer": "tea"}'}
VAGUE = {"text": "Hard to say.\nIt could be anything."}
TEN = [make_item(number) for number in range(10)]


def run(folder: Path, answers: list[dict], **manifest: object) -> Path:
    given = {item.id: fields for item, fields in zip(TEN, answers, strict=False)}
    return run_folder(folder, {"vanilla": given}, TEN, **manifest)


def mixed(folder: Path, unread: int, failed: int = 0) -> Path:
    """A run of ten items, of which the first replies cannot be read and the next did not come."""
    fields = [VAGUE] * unread + [{"text": None, "status": "timeout"}] * failed + [RIGHT] * (10 - unread - failed)
    return run(folder, fields)


def test_stories_that_several_questions_tell_without_a_cluster_are_warned_of(tmp_path: Path, cli) -> None:
    folder, said = mixed(tmp_path / "run", 0), "of 10 questions tell the same story as others and name no `cluster`"
    assert said not in cli("analyze", folder, "--study", "accuracy").err
    alike = {number: {"story": TEN[0].story} for number in (0, 1, 2)} | {3: {"story": TEN[0].story, "cluster": "c"}}
    write_items(folder / "items.jsonl", [make_item(number, **alike.get(number, {})) for number in range(10)])
    assert f"3 {said}" in cli("analyze", folder, "--study", "accuracy").err
    (gaps,) = gaps_of_source(folder, scores_of(folder))
    assert any(f"3 {said}" in one for one in gaps.sentences()), "a report and a comparison say it, too"


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
    shown = cli("analyze", "mine", "--study", "accuracy", "--all").out
    assert any(line.split()[-1:] == ["unread"] and "accuracy" in line for line in shown.splitlines())
    assert "unread: replies that could not be read, which count as wrong" in " ".join(shown.split())


def test_the_list_has_the_reason_and_the_last_lines_and_says_how_many(cli, tmp_path: Path) -> None:
    folder = mixed(tmp_path / "runs/mine", 3)
    (reason,) = scores_of(folder).filter(item="demo/0")["reason"]
    done = passes(cli("runs", "mine", "--unread"))
    assert done.out.splitlines()[:5] == [
        f"{folder}: 3 of 10 replies could not be read", "", "1. demo/0 by vanilla", f"   {reason}",
        "    | Hard to say.",
    ]  # fmt: skip
    done = cli("runs", "--unread", 2)  # the newest run
    assert done.out.splitlines()[0].endswith("3 of 10 replies could not be read; the first 2 of them")
    assert (done.out.count("Hard to say."), done.out.splitlines()[-1]) == (2, "`--unread 3` lists all of them.")
    mixed(tmp_path / "runs/fine", 0)
    assert cli("runs", "fine", "--unread").out == f"{tmp_path}/runs/fine: all 10 replies could be read\n"
    refuses(cli("runs", "mine", "--items", "x"), "need --unread")


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
    assert "(the text is not at hand: a score table holds none)" in cli("runs", out, "--unread", 1).out


def test_what_a_model_wrote_cannot_control_the_terminal_or_fill_it() -> None:
    hostile = "\x1b[2J" + "\u202e" + "x" * 5000 + "\r\nend\x07"
    lines = last_lines(hostile)
    assert (lines[0], lines[-1], len(lines)) == ("...", "end\ufffd", LINES)
    out = io.StringIO()
    one = UnreadReply("a\x1b[31m", "s\n", "m", "invalid", "why \x9b" + "y" * 200, 0, hostile)
    show_unread("runs/[bold]x", UnreadReplies([one], 1, 1), Console(file=out, width=100_000))
    text = out.getvalue()
    assert text.startswith("runs/[bold]x: 1 of 1")
    assert all(len(line) <= WIDTH for line in text.splitlines())
    assert all(c.isprintable() or c == "\n" for c in text)
    assert last_lines("  \n") == ["(the reply is empty)"]


# What a score table lacks; and several tables in one


def test_a_whole_run_lacks_nothing(tmp_path: Path) -> None:
    folder = run(tmp_path / "r", [RIGHT] * 10, benchmark_items=10)
    (gap,) = gaps_of_source(folder, scores_of(folder))
    assert (gap.sentences(), gap.in_short(), gap.many_unread) == ([], "yes", False)


def test_everything_that_lacks_is_counted_and_said_with_the_way_out(tmp_path: Path) -> None:
    failed = [{"text": None, "status": status} for status in ("timeout", "refusal")]
    answers = [RIGHT, {"text": "no idea"}, {"text": "I think", "status": "length"}, *failed]
    folder = run(tmp_path / "r", answers, complete=False, benchmark_items=40)
    (gap,) = gaps_of_source(folder, scores_of(folder))
    assert (gap.answered, gap.unread, dict(gap.failed), gap.missing) == (5, 2, {"refusal": 1, "timeout": 1}, 5)
    assert gap.sentences() == [
        f"{folder}: 2 of 5 answers (40.0%) could not be read, and 2 (40.0%) did not come (1 refusal, 1 timeout); they "
        "count as wrong. 1 of 3 replies reached the end of the budget of tokens before an answer: --max-tokens with "
        f"more. `tomserve runs {folder} --unread` lists them. Repeat the eval command to ask again for those that failed.",
        f"{folder} is incomplete: 5 of 10 answers (50.0%) have not been asked yet, and the results so far may not be "
        "representative. Repeat its eval command to finish it.",
        f"{folder} covers 10 of 40 questions (25.0%) of its benchmark (--limit); results on all of them may differ.",
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
    assert gaps_of_scores(rows, None, "t")[0].many_unread is many


def test_of_a_file_nothing_is_guessed() -> None:
    """Rows that one strategy lacks are said; that a run is unfinished is not, for nobody recorded it."""
    rows = {"model": "m", "strategy": ["a", "a", "b"], "item": ["1", "2", "1"], "status": "ok", "answer": "tea"}
    (gap,) = gaps_of_scores(pl.DataFrame(rows), None, "t.csv")
    assert gap.sentences() == [
        "t.csv: 1 of 4 pairs of a question and a strategy (25.0%) have no row; strategies are compared on the "
        "questions that both were asked."
    ]


def test_questions_of_two_benchmarks_that_are_called_alike_are_two() -> None:
    rows = {"model": "m", "benchmark": ["x", "x", "y"], "strategy": ["a", "b", "a"], "item": "1", "status": "ok"}
    (gap,) = gaps_of_scores(pl.DataFrame({**rows, "answer": "tea"}), None, "t.csv")
    assert "1 of 4 pairs of a question and a strategy (25.0%) have no row" in gap.sentences()[0]


def table(name: str, strategy: str, items: str, **more: object) -> pl.DataFrame:
    fixed = {"run": name, "model": "m", "strategy": strategy, "status": "ok", "answer": "tea", "correct": True}
    return pl.DataFrame({**fixed, "item": list(items), **more})


def test_tables_keep_every_column_even_where_their_kinds_differ() -> None:
    found = combine_scores(
        [table("a", "vanilla", "12", level=1), table("b", "cot", "12", level=[["x"], ["y"]], kind="z")]
    )
    assert found["level"].to_list() == ["1", "1", "['x']", "['y']"]
    assert found["kind"].to_list() == [None, None, "z", "z"]


def test_runs_of_one_model_with_different_strategies_are_one_model() -> None:
    scores = combine_scores([table("a", "vanilla", "12"), table("b", "cot", "12")])
    effects = compute(scores, "accuracy").tables["prompting_effects"]
    assert effects["n"].to_list() == [2]
    (said,) = same_model_notes(scores, {"a": {"sampling": {"seed": 0}}, "b": {"sampling": {"seed": 1}}})
    assert said.startswith("the runs a, b are counted as one model, m, with the strategies vanilla, cot; ")
    assert said.endswith("the runs differ in: seed of sampling.")
    assert "is not known from score tables" in same_model_notes(scores, {})[0]
    pieces = combine_scores([table("a", "vanilla", "12"), table("b", "vanilla", "3")])
    assert unlike_notes(pieces, {}) == []
    (said,) = unlike_notes(
        combine_scores([pieces, *(table(f"c{n}", "cot", "12"[:n], model=str(n)) for n in (1, 2))]), {}
    )
    assert said.endswith("with it: c1 was asked 1 questions instead of 2: repeat with the same --limit")


def test_runs_of_one_model_that_answer_the_same_or_ask_something_else_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"runs a, b are of one model, 'm', and .*strategy 'cot', item '2'\); tell them"
    ):
        compute(combine_scores([table("a", "cot", "12"), table("b", "cot", "23")]), "accuracy")
    nameless = pl.concat([table("a", "cot", "12").drop("run"), table("b", "cot", "23")], how="diagonal")
    with pytest.raises(ConfigError, match=r"runs \(without a name\), b are of one model, .* item '2'\); .* --label b="):
        compute(nameless, "accuracy")  # item 2 counted twice
    other = table("b", "cot", "12", benchmark="hitom")
    with pytest.raises(ConfigError, match=r"ask different benchmarks \(hitom, perturbed\); analyze each alone"):
        compute(combine_scores([table("a", "vanilla", "12", benchmark="perturbed"), other]), "accuracy")


def answered_elsewhere(tmp_path: Path, count: int) -> tuple[Path, Path]:
    """The files of ten items, and of another tool's replies to the first `count` of them by two strategies."""
    items, responses = tmp_path / "items.jsonl", tmp_path / "theirs.jsonl"
    write_items(items, TEN)
    lines = [{"item": f"demo/{n}", "strategy": s, "text": "tea"} for n in range(count) for s in ("vanilla", "cot")]
    responses.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return items, responses


def test_another_tools_answers_to_a_part_of_the_questions_say_so_everywhere(cli, tmp_path: Path) -> None:
    items, responses = answered_elsewhere(tmp_path, 4)
    table = tmp_path / "scores.csv"
    done = cli("score", "--responses", responses, "--items", items, "--out", table)
    said = f"{table}: 4 of 10 questions (40.0%) were answered. The others have no row and count nowhere: all "
    assert said in done.err
    assert said in cli("analyze", table).err
    assert gaps_of_scores(tomserve.score(responses, items), None, "t")[0].in_short() == "no: 4 of 10 questions answered"
