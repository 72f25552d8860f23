"""What can be done with a run that was imported: every command takes it, shows it, or says in one line why not."""

import csv
import html
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import Endpoint, make_item
from tests.helpers.reports import run_folder
from tomserve.content.paths import runs_root
from tomserve.reporting.html.report import write_report

MODELS = ("a", "b")
OPEN = "has no choices, so that any text may answer it"


def right(model: str, number: int) -> bool:
    """Whether a model has a question right: b gains every fifth and loses every seventh of those that a has."""
    base = number % 3 != 0
    if model == "b":
        return not base if number % 5 == 0 else base and number % 7 != 0
    return base


def exam(path: Path, model: str) -> Path:
    """Sixty open questions about fifteen texts, of three subjects, with the grades of another tool."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "subject", "passage", "asked", "text", "answer", "correct", "target"])
        for number in range(60):
            read = 2 * number + (not right(model, number))
            asked = f"Ann has {number} pens.\nHow many has she with {number} more?"
            subject = ("algebra", "geometry", "logic")[number % 3]
            mark = int(right(model, number))
            rows.writerow([f"q{number}", subject, f"p{number // 4}", asked, f"It is {read}.", read, mark, 2 * number])
    return path


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    from tomserve.interop.csv_reader import MappedFile
    from tomserve.interop.importer import ImportOptions, import_replies

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TOMSERVE_RUNS", str(folder / "runs"))
        for model in MODELS:
            source = MappedFile(exam(folder / f"{model}.csv", model), "csv", (), model)
            import_replies([source], ImportOptions(benchmark="none", cluster="passage", factors=("subject",)))
    return folder


@pytest.fixture
def runs(imported: Path) -> Path:
    shutil.copytree(imported / "runs", runs_root())
    return runs_root()


def test_scores_reports_seals_and_packs_are_those_of_any_run(runs: Path, cli, imported: Path) -> None:
    folder = runs / "questions-a"
    assert cli("score", "questions-a").code == 0
    shown = cli("runs", "questions-a")
    for told in ("collected by", "a.csv (sha256:", "what counts is the other tool's grades"):
        assert told in shown.out
    assert "60 replies could be read" in cli("runs", "questions-a", "--unread").out
    assert cli("report", "questions-a").code == 0
    page = (folder / "report.html").read_text()
    assert "a.csv" in page
    told = text_of(re.sub(r"(?s)<script.*?</script>", "", page))
    for nothing in ("vanilla", "blind guess", "belief chain", "is flipped"):
        assert nothing not in told, "what these replies have nothing of is not explained"
    assert cli("seal", "questions-a").code == 0
    assert "nothing has changed since it was sealed" in cli("verify", "questions-a").out
    again = ["import", "csv", imported / "a.csv", "--model", "a", "--cluster", "passage", "--factor", "subject"]
    again += ["--benchmark", "none"]
    assert cli("pack", "questions-a").code == 0
    assert "was there before, and is unchanged" in cli(*again).out


def test_nothing_is_added_to_a_foreign_run(runs: Path, cli, endpoint: Endpoint) -> None:
    before = {path.name: path.read_bytes() for path in (runs / "questions-a").iterdir()}
    held, served = "holds replies that another tool (csv) collected", ("--base-url", endpoint.url)
    for command, said in (
        (["eval", "--run", "questions-a", *served, "--limit", "2"], "to which no answers can be added"),
        (["export", "batch", "--run", "questions-a", "--model", "a", "--out", runs / "x.jsonl"], "no answers can be"),
        (["faithfulness", "questions-a", *served], "chains are edited in runs that `tomserve eval` has"),
        (["merge", "questions-a", "questions-b", "--into", "both"], "joined by one `tomserve import` of all files"),
    ):
        done = cli(*command)
        assert (done.code, done.out) == (2, ""), command
        assert held in done.err, done.err
        assert said in done.err
        assert len(done.err.splitlines()) == 1
    assert not endpoint.requests
    assert not (runs / "both").exists()
    after = {path.name: path.read_bytes() for path in (runs / "questions-a").iterdir()}
    assert {name: data for name, data in after.items() if name != "progress.json"} == before


def test_open_questions_are_never_asked(runs: Path, cli, endpoint: Endpoint, tmp_path: Path) -> None:
    path, server = ("--path", runs / "questions-a/items.jsonl"), ("--base-url", endpoint.url)
    given = ("--benchmark", "items", *path)
    for command in (
        ("eval", "--run", "new", *given, *server),
        ("stability", "--run", "new", *given, *server),
        ("plan", *given),
        ("items", "items", *path),
        ("shard", "--parts", "2", "--run", "new", *given, *server),
        ("export", "batch", "--run", "new", "--out", tmp_path / "x.jsonl", *given, *server),
    ):
        done = cli(*command)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.out
        assert OPEN in done.err
        assert "ask it with another tool and import the replies" in done.err
    assert not endpoint.requests
    assert not (runs / "new").exists()


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def test_open_questions_beside_others_have_no_chance_level(runs: Path, tmp_path: Path) -> None:
    """What a guess among the choices of one run gets right says nothing of the questions of another without choices."""
    items = [make_item(n, gold=None) for n in range(1, 9)]
    replies = {item.id: {"text": '{"answer": "tea"}'} for item in items}
    run_folder(runs / "choices", {"imported": replies}, items, "chooser")
    alone = write_report([str(runs / "choices")], tmp_path / "alone.html").read_text()
    assert "above chance (33%)" in html.unescape(alone)
    both = write_report([str(runs / "choices"), str(runs / "questions-a")], tmp_path / "both.html").read_text()
    told = text_of(re.sub(r"(?s)<script.*?</script>", "", both))
    for said in ("above chance", "below chance", "Chance is what a blind guess scores", "chance 0."):
        assert said not in told
