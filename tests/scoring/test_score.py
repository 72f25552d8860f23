"""The scored row and the score table; several samples of a question become one row with the answer of the majority.
Many rows are scored by two processes, with the bytes that one gives, whatever becomes of the second."""

import math
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

import tomserve
from tests.conftest import ROOT, make_item
from tests.helpers.outcomes import refuses_in_a_line
from tests.helpers.reports import run_folder
from tests.helpers.scored import score_table
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, write_items
from tomserve.runs.scores import score_run
from tomserve.scoring import parallel
from tomserve.scoring import table as table_module
from tomserve.scoring.metrics import PLAIN, Metric, Scoring, plain_scoring
from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.scoring.score import COLUMNS, SAMPLED, score_row
from tomserve.scoring.table import read_table, write_score_table, write_scores


def response(text: str | None, status: str = "ok", **more) -> dict:
    return {"item": "demo/1", "strategy": "cot", "turn": 0, "status": status, "text": text, "error": None, **more}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_score_table_reads_back_as_it_was(tmp_path, kind: str) -> None:
    told = response('{"beliefs": ["tea", "salt"], "answer": "tea"}')
    rows = [(make_item(n), {**told, "item": f"demo/{n}"}) for n in range(30)]
    rows.append((make_item(999, id="001"), response(None, "http_500", error='=late, first "reason"')))
    frame = score_table("r", "@cf/model", rows)
    path = tmp_path / f"s.{kind}"
    write_scores(frame, path)
    assert read_table(str(path)).equals(frame)
    if kind == "parquet":
        frame.with_columns(graded_value=math.nan, chain_lcs=math.inf).write_parquet(path)
        assert read_table(str(path)).select(pl.col("graded_value", "chain_lcs").null_count()).row(0) == (31, 31)


def test_a_table_that_would_keep_its_reader_busy_is_refused(tmp_path: Path) -> None:
    """Polars takes the fifth power of the depth of a list, and each column of a short line is one of the table."""
    wide = pl.DataFrame({f"k{number}": [number] for number in range(2001)})
    (tmp_path / "wide.csv").write_text("\n" + wide.write_csv())
    wide.write_parquet(tmp_path / "wide.parquet")
    lines = {f"k{number}": number for number in range(2001)}
    (tmp_path / "wide.jsonl").write_bytes(
        b"".join(orjson.dumps({name: value}) + b"\n" for name, value in lines.items())
    )
    for kind in ("csv", "parquet", "jsonl"):
        with pytest.raises(ConfigError, match=rf"wide\.{kind}: has 2,001 columns; expected at most 2,000"):
            read_table(str(tmp_path / f"wide.{kind}"))
    (tmp_path / "packed.csv").write_bytes(zlib.compress(wide.write_csv().encode()))
    with pytest.raises(ConfigError, match=r"packed\.csv: is compressed; unpack it first"):
        read_table(str(tmp_path / "packed.csv"))
    for depth, said in ((150, "column 'z' holds values within others"), (900, r"not JSON \(nested too deeply\)")):
        (tmp_path / "deep.jsonl").write_text('{"a": 1}\n\n{"a": 1, "z": ' + "[" * depth + "]" * depth + "}\n")
        with pytest.raises(ConfigError, match=rf"deep\.jsonl:3: {said}"):
            read_table(str(tmp_path / "deep.jsonl"))


def test_tables_whose_columns_are_of_no_common_type_are_refused(cli: Any, tmp_path: Path) -> None:
    plain = pl.DataFrame({"model": "m", "strategy": "s", "item": ["a", "b"], "status": "ok", "correct": True})
    (tmp_path / "two").mkdir()
    for number, found in enumerate((2**64 - 1, [1])):
        plain.with_columns(item=pl.col("item") + str(number), x=pl.lit(found)).write_parquet(
            tmp_path / f"two/{number}.parquet"
        )
    refuses_in_a_line(cli("analyze", tmp_path / "two"), "two: its tables do not fit each other (")


def test_a_row_carries_answer_and_chain_metrics_0_for_a_faulty_chain_and_null_for_none() -> None:
    for beliefs, expected in (
        ('"beliefs": ["unknown", "unknown", "tea"], ', (True, 1.0, 1.0)),
        ('"beliefs": ["tea", "tea", "tea"], ', (False, pytest.approx(1 / 3), 0.0)),
        ('"beliefs": ["milk"], ', (False, 0.0, 0.0)),
        ("", (None, None, None)),
    ):
        row = score_row("r", "m", make_item(), response(f'{{{beliefs}"answer": "tea"}}'))
        assert row["correct"] is True
        assert (row["chain_proper"], row["chain_lcs"], row["chain_lcps"]) == expected, beliefs


@pytest.mark.parametrize("row", [response('{"answer": "tea"}'), response("hm"), response(None, "http_500")])
def test_where_a_chain_was_asked_for_a_missing_one_scores_0(row: dict) -> None:
    """Or a mean over chain metrics would leave out exactly the failures."""
    scored = score_row("r", "m", make_item(), row, True)
    names = ("chain", "chain_proper", "chain_lcs", "chain_transitions")
    assert [scored[name] for name in names] == [None, False, 0.0, 0.0]


def test_statuses() -> None:
    cut = score_row("r", "m", make_item(), response('{"answer": "tea"}', "length"))
    assert (cut["status"], cut["correct"]) == ("length", True)
    assert score_row("r", "m", make_item(), response('{"answ', "length"))["status"] == "length"
    assert score_row("r", "m", make_item(), response("hm"))["status"] == "invalid"
    failed = score_row("r", "m", make_item(), response(None, "timeout", error="no reply"))
    assert (failed["status"], failed["correct"], failed["reason"]) == ("timeout", False, "no reply")


def test_factors_become_columns_and_may_not_shadow() -> None:
    frame = score_table("r", "m", [(make_item(1, factors={"order": 2}), response('{"answer": "tea"}'))])
    assert frame["order"].to_list() == [2]
    for name in (*COLUMNS, *SAMPLED):  # refused before anything is asked, not after
        with pytest.raises(ValueError, match=f"factor '{name}' has the name of a score column"):
            make_item(1, factors={name: 2})


TEA, SALT = '{"answer": "tea"}', '{"answer": "salt"}'


def sampled(texts: list[str | None], item: Item | None = None) -> list[tuple[Item, dict[str, Any]]]:
    """The samples of one question; None for one that timed out."""
    rows = []
    for sample, text in enumerate(texts):
        told = {"strategy": "vanilla", "text": text, "status": "timeout" if text is None else "ok", "key": str(sample)}
        rows.append((item or make_item(), {**told, **({"sample": sample} if sample else {})}))
    return rows


def scored(texts: list[str | None]) -> dict[str, Any]:
    frame = score_table("r", "m", sampled(texts))
    assert frame.height == 1
    return frame.row(0, named=True)


def test_the_answer_is_the_one_that_most_samples_give() -> None:
    found = scored([SALT, TEA, TEA, None, "hm"])
    assert {name: found[name] for name in ("answer", "correct", "status", *SAMPLED)} == {
        **{"answer": "tea", "correct": True, "status": "ok", "sample": 1, "samples": 5, "samples_right": 2},
        **{"samples_read": 3, "correct_any": True, "correct_all": False, "correct_mean": 0.4},
    }


@pytest.mark.parametrize(
    ("texts", "answer", "sample"),
    [
        ([SALT, TEA], "salt", 0),  # a tie: the earliest sample among those that are tied
        (["hm", TEA, SALT, SALT, TEA], "tea", 1),
        ([None, "hm", SALT], "salt", 2),  # failed and unread samples do not vote
        ([None, "hm", None], None, 0),  # the first failure is the outcome
    ],
)
def test_ties_and_failures(texts: list[str | None], answer: str | None, sample: int) -> None:
    found = scored(texts)
    assert (found["answer"], found["sample"]) == (answer, sample)
    if answer is None:
        assert (found["status"], found["correct"], found["samples_read"]) == ("timeout", False, 0)
        assert (found["correct_any"], found["correct_all"], found["correct_mean"]) == (False, False, 0.0)


def test_chain_metrics_are_those_of_the_first_sample_with_the_majoritys_answer() -> None:
    beliefs = [{"sentence": number, "belief": label} for number, label in ((1, "unknown"), (2, "unknown"), (3, "tea"))]
    proper = orjson.dumps({"beliefs": beliefs, "answer": "tea"}).decode()
    assert scored([SALT, proper, TEA])["chain_proper"] is True
    assert scored([SALT, TEA, proper])["chain_proper"] is None


def test_a_table_of_single_samples_has_no_further_columns(tmp_path: Path) -> None:
    plain = score_table("r", "m", sampled([TEA]))
    assert not set(SAMPLED) & set(plain.columns)
    both = score_table("r", "m", [*sampled([TEA]), *sampled([SALT, SALT], make_item(2))])
    assert both.select("item", "samples", "correct_mean").rows() == [("demo/1", 1, 1.0), ("demo/2", 2, 0.0)]
    write_scores(both, tmp_path / "s.csv")
    assert read_table(str(tmp_path / "s.csv")).select(*SAMPLED).equals(both.select(*SAMPLED))


def journal(folder: Path, texts: dict[str, list[str]]) -> Path:
    """A run of one strategy in which every item has these samples, the samples in disorder."""
    items = [make_item(number) for number in range(1, len(texts) + 1)]
    run_folder(folder, {"vanilla": {}}, items)
    rows = [
        {"item": item, "strategy": "vanilla", "turn": 0, "key": f"{item}{sample}", "status": "ok", "text": text}
        | ({"sample": sample} if sample else {})
        for item, samples in texts.items()
        for sample, text in reversed(list(enumerate(samples)))
    ]
    lines = [orjson.dumps({"schema": 1, **row}) + b"\n" for row in rows]
    (folder / "responses.jsonl").write_bytes(b"".join(lines))
    return folder


def test_a_runs_samples_are_combined_whatever_their_order(tmp_path: Path) -> None:
    folder = journal(tmp_path / "run", {"demo/1": [TEA, SALT, SALT], "demo/2": [TEA, TEA, SALT]})
    found = score_run(folder)
    assert found.select("item", "answer", "sample", "samples_right").rows() == [
        ("demo/1", "salt", 1, 1),
        ("demo/2", "tea", 0, 2),
    ]
    again = {"item": "demo/1", "strategy": "vanilla", "turn": 0, "key": "k", "status": "ok", "text": TEA, "sample": 2}
    with (folder / "responses.jsonl").open("ab") as file:
        file.write(orjson.dumps(again) + b"\n")
    assert score_run(folder)["samples_right"].to_list() == [2, 2]  # the later row of a sample counts


@pytest.mark.parametrize(("sample", "said"), [("one", "no whole number"), (-1, "out of range"), (2**15, "out of ra")])
def test_a_line_with_a_strange_sample_is_counted(tmp_path: Path, sample: object, said: str) -> None:
    folder = journal(tmp_path / "run", {"demo/1": [TEA]})
    row = {"item": "demo/1", "strategy": "vanilla", "turn": 0, "key": "k", "status": "ok", "text": SALT}
    with (folder / "responses.jsonl").open("ab") as file:
        file.write(orjson.dumps({**row, "sample": sample}) + b"\n")
    notes: list[str] = []
    assert score_run(folder, note=notes.append)["answer"].to_list() == ["tea"]
    assert said in notes[0]


def test_another_tools_samples_are_combined_and_its_other_uses_of_the_word_ignored() -> None:
    rows = [
        {"item": "demo/1", "text": text, "sample": n} for n, text in zip((0, "1", 2.0), (TEA, TEA, SALT), strict=True)
    ]
    assert tomserve.score(rows, [make_item()])["correct"].to_list() == [True]
    named = [{"item": "demo/1", "text": TEA, "sample": "row 17"}]
    assert "samples" not in tomserve.score(named, [make_item()]).columns
    with pytest.raises(ConfigError, match="sample out of range"):
        tomserve.score([{"item": "demo/1", "text": TEA, "sample": -3}], [make_item()])


CHAIN = '{"beliefs": ["tea", "salt"], "answer": "tea"}'


def make(folder: Path, count: int = 60) -> None:
    """Write items, and two replies to each of them, into a folder."""
    items = [make_item(n, story=["a", "b"], gold={"sets": [["tea"], ["tea"]]}) for n in range(1, count + 1)]
    write_items(folder / "items.jsonl", items)
    told = [(item.id, model, text) for item in items for model, text in (("a", "tea"), ("b", CHAIN))]
    rows = (orjson.dumps({"item": name, "model": model, "text": text, "sample": 0}) for name, model, text in told)
    (folder / "r.jsonl").write_bytes(b"\n".join(rows))


def table_of(folder: Path, **options: Any) -> bytes:
    """The bytes of the score table of that folder; options: those of write_score_table."""
    known, out = ItemFile(folder / "items.jsonl"), folder / "s.parquet"
    write_score_table(known, ResponseFile(folder / "r.jsonl", known, "m"), out, run="r", chains=["vanilla"], **options)
    assert not list(folder.glob(".tomserve-*.work"))
    return out.read_bytes()


alive: list[subprocess.Popen[bytes]] = []
"""The second processes that were started."""


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two processes even for a few rows, of which the first lets the second work alone, until it has ended; the numbers
    of the parts that the second has scored."""
    found: list[int] = []
    monkeypatch.setattr(table_module, "PART", 10)
    monkeypatch.setattr(parallel, "MANY", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    real = parallel._take

    def after(work: Any, parts: Any) -> None:
        for process in alive:
            process.wait()
        found.extend(number for number, (path, _) in enumerate(parts) if path.exists())
        real(work, parts)

    monkeypatch.setattr(parallel, "_take", after)
    return found


@pytest.fixture(autouse=True)
def followed(monkeypatch: pytest.MonkeyPatch) -> None:
    alive.clear()
    real = subprocess.Popen

    def started(*given: Any, **options: Any) -> Any:
        alive.append(real(*given, **options))
        return alive[-1]

    monkeypatch.setattr(parallel.subprocess, "Popen", started)


@pytest.mark.system
def test_two_processes_give_the_bytes_of_one(tmp_path: Path, helped: list[int], monkeypatch) -> None:
    make(tmp_path)
    two = table_of(tmp_path)
    assert helped == list(range(12)), "the second process has scored everything"
    assert [process.poll() for process in alive] == [0]
    monkeypatch.setattr(parallel, "MANY", 10**9)
    assert table_of(tmp_path) == two
    assert len(alive) == 1
    assert pl.read_parquet(two).height == 120


@pytest.mark.system
def test_the_first_error_in_the_order_of_the_rows_is_raised(tmp_path: Path, helped: list[int]) -> None:
    make(tmp_path)
    path = tmp_path / "items.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for number in (20, 50):
        lines[number] = lines[number].replace(b'"answer":"tea"', b'"answer":"milk"')
    path.write_bytes(b"".join(lines))
    with pytest.raises(ContentError, match=r"items\.jsonl:21: "):
        table_of(tmp_path)
    assert helped == [10, 11], "the second process has met an error, and left it to the first"
    assert not list(tmp_path.glob(".tomserve-*.work"))


def test_a_users_own_benchmark_is_scored_by_one_process(tmp_path: Path, helped: list[int]) -> None:
    make(tmp_path)
    own = Scoring((Metric({"metric_long": pl.Int64}, lambda item, reading: {"metric_long": len(reading.text)}),))
    found = pl.read_parquet(table_of(tmp_path, rules=lambda name: own))
    assert found["metric_long"].to_list()[:2] == [3, len(CHAIN)]
    assert not alive
    assert PLAIN.shipped
    assert plain_scoring("x").shipped
    assert not own.shipped


SCRIPT = """
import os, sys, time
from pathlib import Path
from tomserve.scoring import parallel, responses, table
table.PART, parallel.MANY = 2, 1
os.sched_getaffinity = lambda pid: {0, 1}
real = parallel.ScoringWork.frame
def slow(*given):
    print("begun", flush=True)
    time.sleep(60)
    return real(*given)
parallel.ScoringWork.frame = slow
folder = Path(sys.argv[1])
known = responses.ItemFile(folder / "items.jsonl")
table.write_score_table(known, responses.ResponseFile(folder / "r.jsonl", known, "m"), folder / "s.parquet", run="r")
"""


@pytest.mark.system
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_first_one(tmp_path: Path, how: signal.Signals) -> None:
    make(tmp_path, 4000)  # more than the second process scores until it is seen
    first = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    assert first.stdout is not None
    assert first.stdout.readline() == b"begun\n"
    (second,) = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    first.send_signal(how)
    first.wait()
    first.stdout.close()
    while Path(f"/proc/{second}/stat").exists() and " Z " not in Path(f"/proc/{second}/stat").read_text():
        time.sleep(0.01)
    assert not (tmp_path / "s.parquet").exists()
    if how == signal.SIGINT:
        assert not list(tmp_path.glob(".tomserve-*.work"))
