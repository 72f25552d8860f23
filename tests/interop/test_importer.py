"""Replies that another tool collected become runs: spreadsheets, JSON lines, what is matched, refused and left out.
Samples of other tools: replies by letter are read in the order that was shown, and secrets are taken out."""

import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Endpoint
from tests.helpers.foreign_files import MAP, generated, mapped, samples, sheet
from tests.helpers.outcomes import passes, refuses
from tomserve import benchmarks
from tomserve.engine.redact import LONGEST, redact_settings, redact_text
from tomserve.errors import ConfigError, ContentError
from tomserve.interop.csv_reader import MappedFile
from tomserve.runs.scores import load_scores

MARKS = "1101101011"


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder but its lock."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def written(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_spreadsheet_becomes_a_run_whose_grades_count(cli, tmp_path: Path) -> None:
    done = passes(cli("import", "csv", sheet(tmp_path / "a.csv", MARKS), "--model", "a", *mapped()))
    assert "10 replies to 10 questions" in done.out
    assert "the other tool's grade" in done.out
    scores = load_scores("questions-a")
    assert scores["correct"].to_list() == [mark == "1" for mark in MARKS]
    assert scores["graded_correct"].to_list() == scores["correct"].to_list()
    assert (scores["parse"][0], scores["answer"][1], scores["cluster"].n_unique()) == ("graded", "2", 5)
    assert scores["floor_guess"].null_count() == 10, "nobody can guess among no choices"
    row = orjson.loads((tmp_path / "runs/questions-a/responses.jsonl").read_bytes().splitlines()[0])
    assert row["text"] == "It is 0."
    assert row["asked"] == "Ann has 0 pens.\nHow many has she with 0 more?"
    analysed = cli("analyze", "questions-a", "--all")
    assert "7 of 10 correct" in analysed.out


def test_the_same_files_again_change_nothing_and_others_are_refused(cli, tmp_path: Path) -> None:
    file = sheet(tmp_path / "a.csv", MARKS)
    assert cli("import", "csv", file, "--model", "a", *mapped()).code == 0
    before = contents(tmp_path / "runs/questions-a")
    again = cli("import", "csv", file, "--model", "a", *mapped())
    assert "was there before, and is unchanged" in again.out
    assert contents(tmp_path / "runs/questions-a") == before
    copied = shutil.copy(file, tmp_path / "renamed.csv")
    assert cli("import", "csv", copied, "--model", "a", *mapped()).code == 0, "the same content by another name"
    refused = (
        ["import", "csv", sheet(tmp_path / "a.csv", "0000000000"), "--model", "a", *mapped()],
        ["import", "csv", copied, "--model", "a", *mapped()[:-2]],
        ["import", "csv", copied, "--model", "a", *mapped(), "--strategy", "other"],
    )
    for given in refused:
        done = cli(*given)
        assert (done.code, done.out) == (2, ""), given
        assert (
            "an import of other files, or by other options; bring these files into a new run by --run NEW" in done.err
        )
        assert contents(tmp_path / "runs/questions-a") == before


def test_a_folder_that_is_no_run_is_left_alone(cli, tmp_path: Path, endpoint: Endpoint) -> None:
    file = sheet(tmp_path / "a.csv", MARKS)
    folder = tmp_path / "runs/questions-a"
    folder.mkdir(parents=True)
    for name, text in (("notes.txt", "mine"), ("items.jsonl", "{}\n"), ("responses.jsonl", '{"item": "x"}\n')):
        (folder / name).write_text(text)
        done = cli("import", "csv", file, "--model", "a", *mapped())
        assert (done.code, done.out) == (2, "")
        assert f"is no run, but holds '{name}'" in done.err
        assert contents(folder) == {name: text.encode()}
        (folder / name).unlink()
    assert cli("eval", "--base-url", endpoint.url, "--limit", "2", "--strategy", "vanilla", "--run", "ours").code == 0
    before = contents(tmp_path / "runs/ours")
    refused = cli("import", "csv", file, "--model", "a", *mapped(), "--run", "ours")
    assert "holds another run" in refused.err
    assert contents(tmp_path / "runs/ours") == before


KILLED = """
import os, signal, sys
from pathlib import Path
from tomserve.interop.importer import ImportOptions, import_replies
from tomserve.interop.csv_reader import MappedFile
from tomserve.runs.runfolder import RunFolder

RunFolder.write_manifest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
import_replies([MappedFile(Path(sys.argv[1]), "csv", sys.argv[2:], "a")], ImportOptions(benchmark="none"))
"""


@pytest.mark.system
def test_an_import_that_is_killed_is_no_run_and_is_repeated(cli, tmp_path: Path) -> None:
    file = sheet(tmp_path / "a.csv", MARKS)
    command = [sys.executable, "-c", KILLED, str(file), *MAP]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder = tmp_path / "runs/questions-a"
    assert folder.is_dir()
    assert not (folder / "manifest.json").exists()
    assert cli("runs", "questions-a").code == 2, "it is no run"
    assert cli("import", "csv", file, "--model", "a", *mapped(), "--benchmark", "none").code == 0
    assert load_scores("questions-a").height == 10
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".tomserve-")]


def test_of_several_runs_none_is_written_where_one_cannot_be(cli, tmp_path: Path) -> None:
    rows = [{"id": "q", "question": "Q?", "text": "t", "correct": True, "model": model} for model in ("a", "b", "c")]
    written(tmp_path / "r.jsonl", rows)
    (tmp_path / "runs/questions-c").mkdir(parents=True)
    (tmp_path / "runs/questions-c/mine.txt").write_text("mine")
    done = cli("import", "jsonl", tmp_path / "r.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "runs/questions-c: is no run, but holds 'mine.txt'" in done.err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["questions-c"]


def test_questions_with_choices_are_read_by_our_rules_where_nobody_graded(cli, tmp_path: Path) -> None:
    rows = [
        {"id": n, "question": "Which?", "story": "A b.", "choices": '["tea", "salt"]', "target": "A", "text": text}
        for n, text in enumerate(("Answer: tea", "Answer: salt"))
    ]
    written(tmp_path / "r.jsonl", rows)
    refused = refuses(cli("import", "jsonl", tmp_path / "r.jsonl", "--model", "m"), "no reply carries a grade")
    assert "or have tomserve read them by --counts tomserve" in refused.err
    assert cli("import", "jsonl", tmp_path / "r.jsonl", "--model", "m", "--counts", "tomserve").code == 0
    assert load_scores("questions-m")["correct"].to_list() == [True, False]


BROKEN = {
    "is empty": (b"", "holds no rows"),
    "has one column": (b"a\n1\n", "has one column"),
    "has a column twice": (b"id,text,text\n1,2,3\n", "two columns are called 'text'"),
    "is not UTF-8": (b"id,text,correct\n1,\xff,1\n", "not UTF-8"),
    "has an open quote": (b'id,text,correct\n1,"a,1\n', "not a CSV file"),
    "says nothing of replies": (b"id,subject\n1,a\n", "no column says what was replied"),
    "says nothing of questions": (b"text,correct\na,1\n", "no column says which question"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_cannot_be_read_is_told_in_one_line(what: str, tmp_path: Path) -> None:
    content, said = BROKEN[what]
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises((ConfigError, ContentError), match=said) as refused:
        list(MappedFile(tmp_path / "x.csv", "csv", (), "m").samples())
    assert "\n" not in str(refused.value)


def test_strangers_names_lead_nowhere_and_print_nothing_strange(cli, tmp_path: Path) -> None:
    odd = {"task": "../../\x1b[31mtask", "question": "<script>alert(1)</script>?", "\u202eevil": "x"}
    rows = [
        {**odd, "id": "../../etc/passwd", "text": "=1+1\x1b]0;x\x07", "correct": True},
        {**odd, "id": "x" * 10_000, "text": "\u0000", "correct": False, "question": "q " * 20_000, "\u202eevil": "y"},
    ]
    written(tmp_path / "r.jsonl", rows)
    done = passes(cli("import", "jsonl", tmp_path / "r.jsonl", "--model", "../m\x1b[0m"))
    assert "\x1b" not in done.out + done.err
    (run,) = (tmp_path / "runs").iterdir()
    assert run.resolve().parent == (tmp_path / "runs").resolve()
    assert not (tmp_path / "etc").exists()
    name = run.name
    for command in (("analyze", name), ("runs", name), ("score", name), ("report", name)):
        shown = passes(cli(*command))
        assert "\x1b" not in shown.out
    page = (run / "report.html").read_text()
    assert "<script>alert(1)" not in page


def test_options_that_fit_nothing_are_told(cli, tmp_path: Path) -> None:
    file = sheet(tmp_path / "a.csv", MARKS)
    for given, said in (
        (["--map", "text"], "expected FIELD=COLUMN"),
        (["--map", "reply=text"], "unknown field"),
        (["--map", "text=nowhere"], "has no column 'nowhere'"),
        ([*mapped(), "--factor", "colour"], "no sample tells it"),
        ([*mapped(), "--counts", "me"], "unknown reading"),
        ([*mapped(), "--counts", "tomserve"], "a.csv, line 2 has no choices that an answer could be"),
        ([*mapped(), "--path", "x"], "--path belongs to --benchmark"),
        ([*mapped(), "--benchmark", "nowhere"], "unknown benchmark 'nowhere'"),
        ([*mapped(), "--cluster", "colour"], "does not tell it; it tells: nothing"),
        ([*mapped(), "--run", "x y"], "run name"),
        ([*mapped(), "--map", "id=sheet"], "id is given twice"),
        ([*mapped(), "--benchmark", "perturbed"], "of 10 questions none is one of its items"),
    ):
        refuses(cli("import", "csv", file, "--model", "m", *given), said)
    assert cli("import", "csv", file, *mapped()).code == 2, "nobody says who answered"


def test_several_models_become_several_runs_and_repeats_become_samples(cli, tmp_path: Path) -> None:
    rows = [
        {"id": q, "question": f"Q{q}?", "text": "t", "correct": (q + r) % 2 == 0, "model": m, "repeat": r}
        for m in ("a", "b")
        for q in range(3)
        for r in range(2)
    ]
    written(tmp_path / "r.jsonl", [*rows, rows[0]])
    done = passes(cli("import", "jsonl", tmp_path / "r.jsonl"), "next: tomserve compare questions-a questions-b")
    assert "1 reply was replaced by a later one" in done.err
    scores = load_scores("questions-a")
    assert scores["samples"].to_list() == [2, 2, 2]
    assert scores["correct_mean"].to_list() == [0.5, 0.5, 0.5]
    refuses(cli("import", "jsonl", tmp_path / "r.jsonl", "--run", "one"), "the files hold 2 runs")
    assert cli("import", "jsonl", tmp_path / "r.jsonl", "--run", "one", "--model", "b").code == 0


def test_several_tasks_become_one_run_with_the_factor_task(cli, tmp_path: Path) -> None:
    """More tasks than a factor has values otherwise, as in mmlu, and the same ids in all of them."""
    rows = [
        {"id": number, "task": f"t{task}", "question": f"Q{number}?", "text": "t", "correct": task % 2}
        for task in range(120)
        for number in range(2)
    ]
    written(tmp_path / "r.jsonl", rows)
    done = passes(cli("import", "jsonl", tmp_path / "r.jsonl", "--model", "m", "--as", "mmlu"))
    assert "240 replies to 240 questions" in done.out
    assert "as benchmark mmlu; factors: task" in done.out
    scores = load_scores("mmlu-m")
    assert scores["task"].n_unique() == 120
    assert scores["item"][0] == "t0/0"
    kept = json.loads((tmp_path / "runs/mmlu-m/manifest.json").read_text())["foreign"]
    assert kept["tasks"] == [f"t{task}" for task in range(120)]


def test_files_of_a_folder_that_hold_nothing_are_left_out(cli, tmp_path: Path) -> None:
    folder = tmp_path / "sheets"
    folder.mkdir()
    sheet(folder / "b.csv", MARKS)
    (folder / "a.csv").write_text("")
    (folder / "c.csv").write_bytes(b"question,reply\n\xff,1\n")
    (folder / "e.csv").symlink_to(folder / "b.csv")
    done = cli("import", "csv", folder, "--model", "a", *mapped())
    assert done.code == 1
    assert "10 replies to 10 questions" in done.out
    told = ("sheets/a.csv: holds no rows", "sheets/c.csv:2: not UTF-8", "sheets/e.csv: is a symbolic link")
    for line, said in zip(done.err.splitlines(), told, strict=True):
        assert line.startswith("warning: left out: ")
        assert said in line


def test_numbers_that_no_scale_tells_apart_are_told(cli, tmp_path: Path) -> None:
    rows = [f"q{n},Q{n}?,t,{score}" for n, score in enumerate((1, 7, 10, 3))]
    (tmp_path / "x.csv").write_text("\n".join(["id,question,text,score", *rows]) + "\n")
    done = cli("import", "csv", tmp_path / "x.csv", "--model", "m")
    assert (
        "grades are numbers up to 10, and count as right from 1 on; say from where on they do by --threshold"
        in done.err
    )
    set_by = cli("import", "csv", tmp_path / "x.csv", "--model", "m", "--threshold", "7", "--run", "b")
    assert "3 grades are neither 0 nor 1; they count as right from 7 on (--threshold)" in set_by.err
    assert load_scores("b")["correct"].to_list() == [False, True, True, False]
    assert load_scores("b")["graded_value"].to_list() == [1.0, 7.0, 10.0, 3.0]


DIFFER = "tomserve's reading and the "


def replies(path: Path, row: Callable[[Any, list[str]], dict[str, Any]]) -> Path:
    """A perfect answerer of our questions, shown the choices in the reverse order."""
    lines = []
    for item in itertools.islice(benchmarks.load("hitom", None, None, benchmarks.ALL), 12):
        shown = list(reversed(item.choices))
        text = f"The answer is {chr(ord('A') + shown.index(item.answer))}."
        asked = "\n".join((*item.story, item.question))
        lines.append(json.dumps({"asked": asked, "text": text, "correct": True, "model": "m", **row(asked, shown)}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("told", "right"),
    [
        (lambda asked, shown: {"choices": shown}, 12),
        (lambda asked, shown: {"asked": asked + "".join(f"\n{chr(65 + n)}. {one}" for n, one in enumerate(shown))}, 12),
        (lambda asked, shown: {}, 0),
    ],
)
def test_letters_of_another_order(told: Any, right: int, cli, tmp_path: Path) -> None:
    done = passes(cli("import", "jsonl", replies(tmp_path / "r.jsonl", told), "--run", "r", "--benchmark", "hitom"))
    scores = load_scores("r")
    assert (scores["correct"].sum(), scores["answer"].count()) == (right, right)
    assert (DIFFER in done.err) == (not right)
    analyzed = cli("analyze", "r", "--study", "accuracy", "--all")
    assert right or DIFFER in analyzed.err
    assert f"  tomserve's reading and the tool's grade agree in {right} of 12 replies\n" in done.out
    assert f"tomserve's reading and the grade of the tool that asked agree in {right} of 12 replies\n" in analyzed.out


def test_empty_replies_are_unread(cli, tmp_path: Path) -> None:
    rows = [generated(n, "x", 0.0, resps=[[""]], filtered_resps=["[invalid]"]) for n in range(8)]
    done = cli("import", "lm-eval", samples(tmp_path / "samples_x.jsonl", rows), "--model", "m", "--run", "r")
    assert "8 of 8 replies are empty" in done.err
    scores = load_scores("r")
    assert (set(scores["status"]), set(scores["reason"])) == ({"invalid"}, {"the reply is empty"})
    (tmp_path / "marks.csv").write_text("id,question,correct\n1,Q?,0\n2,R?,1\n")
    assert "empty" not in cli("import", "csv", tmp_path / "marks.csv", "--model", "m", "--run", "c").err


SECRETS = {
    "keys by their form": "wrong key sk-proj-abcdef1234, hf_abcdefgh12345 and AKIAABCDEFGH12345678",
    "a header": "sent Authorization: Bearer abcdefgh12345",
    "a header of another kind": "sent Proxy-Authorization: Basic YWJjZGVmZ2gxMjM0NQ==",
    "a token alone": "Bearer abcdefgh12345",
    "JSON": '{"api_key": "abcdefgh12345", "x-api-key":"abcdefgh12345"}',
    "Python": "{'apiKey': 'abcdefgh12345'}",
    "an address": "https://ann:abcdefgh12345@host/v1?key=abcdefgh12345#abcdefgh12345",
    "a query": "POST /v1?access_token=abcdefgh12345&x=1",
    "a list of arguments": "model=m,api_key=abcdefgh12345,max_tokens=5",
    "a password": "password=abcdefgh12345; user=ann",
}


@pytest.mark.parametrize("what", SECRETS)
def test_what_looks_like_a_secret_is_taken_out(what: str) -> None:
    text = SECRETS[what]
    for shown in (
        redact_text(text),
        json.dumps(redact_settings({"text": text, "list": [text], "deep": {"text": text}})),
    ):
        for secret in ("abcdef", "12345", "YWJj", "ABCDEFGH"):
            assert secret not in shown, shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=5, tokens: 1200 of 4096 used", "tokenizer: llama-tokenizer", "the key: a value",
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000", "Basic questions are basic.",
        "https://host:8000/v1/chat",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


def test_what_is_called_like_a_secret_is_left_out_of_settings() -> None:
    given = {
        "model_args": {"api_key": "s1", "base_url": "https://ann:pw@host:8000/v1?token=t", "cookie": "s4"}
        | {"headers": {"Authorization": "s2"}, "extra_headers": "s3", "max_tokens": 5, "tokenizer": "t"},
        "deep": {"a": {"b": {"c": {"d": 1}}}},
        "long": "x" * 10_000,
        "many": list(range(10_000)),
        "nan": float("nan"),
        "huge": 10**30,
        "none": None,
        "sk-abcdefgh12345": 1,
    }
    kept = redact_settings(given)
    assert kept["model_args"] == {"base_url": "https://host:8000/v1", "max_tokens": 5, "tokenizer": "t"}
    assert kept["deep"] == {"a": {"b": {}}}
    assert (len(kept["long"]), len(kept["many"])) == (LONGEST, 100)
    assert set(kept) == {"model_args", "deep", "long", "many", "***"}


def test_long_texts_of_strangers_take_no_time() -> None:
    """By the square of their length this would take minutes."""
    for text in ("a" * 100_000, "a-" * 50_000, "api_key" * 20_000, "://" * 30_000, "=" * 100_000, "bearer " * 20_000):
        redact_text(text)
        redact_settings(text)
