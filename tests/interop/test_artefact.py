"""Artefacts for reviewers: what they hold and never hold, and the program in them that checks and computes it again.
Folders for a dataset hub: read by the real `datasets` and `mlcroissant`, offline; licences, canaries, what is refused."""

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import yaml

from tests.conftest import ROOT, make_item
from tests.helpers.examples import copied_example, copied_run, shortened
from tests.helpers.foreign_files import mapped, sheet
from tests.helpers.outcomes import passes, refuses
from tests.helpers.parted import divided_example
from tests.helpers.reports import run_folder
from tests.helpers.wheels import built_wheel
from tomserve import __version__, benchmarks
from tomserve.errors import ConfigError
from tomserve.interop import artefact, hub, inspect_export, recompute
from tomserve.interop.artefact import copy_runs, make_portable
from tomserve.items import write_items

KEY = "sk-proj-4f5a8c1d9e7b3a2f"
SAME = (0, "digests: 0 wrong\ntables: 0 differences\n")
Again = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Somebody's home folder with a run, in which also lies what must not be handed on."""
    home = tmp_path_factory.mktemp("home") / "ann"
    run = copied_example(home / "runs")
    for name in ("log.txt", "server.log", "console.txt", ".lock", "people.csv", "experiment.yaml", "notes.md"):
        (run / name).write_text(f"this must not be handed on: {name}\n")
    (home / "secret.parquet").write_text("this must not be handed on: a link")
    (run / "more.parquet").symlink_to(home / "secret.parquet")
    about = json.loads((run / "manifest.json").read_text())
    about["benchmark_path"] = f"{home}/data/tasks.json"
    about["server"]["command"] = ["python", f"{home}/bin/serve", f"--chat-template={home}/x.jinja"]
    about["sessions"][0]["root"] = f"{home}/runs"
    (run / "manifest.json").write_text(json.dumps(about))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOME", str(home))
        patched.setenv("TOMSERVE_RUNS", str(home / "runs"))
        patched.setenv("OPENAI_API_KEY", KEY)
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield home


@pytest.fixture(scope="module")
def zipped(place: Path) -> Path:
    said: list[str] = []
    path = place / "a.zip"
    artefact.write_artefact(artefact.ArtefactOptions(["example"], title="A study"), path, said.append)
    assert [one for one in said if "covers 176 of 1,088 questions" not in one] == []
    assert all(".tomserve-" not in one for one in said), "a temporary folder says nothing to anybody"
    assert os.environ["TOMSERVE_RUNS"] == str(place / "runs")
    return path


@pytest.fixture
def opened(zipped: Path, tmp_path: Path) -> Path:
    with zipfile.ZipFile(zipped) as held:
        held.extractall(tmp_path / "opened")
    return tmp_path / "opened"


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Artefacts without figures and with an empty report, which take long and are looked at once."""

    def page(runs: Any, path: Path, **more: Any) -> Path:
        del runs, more
        path.write_text("<html>")
        return path

    monkeypatch.setattr(artefact.figures, "figures", lambda *_, **more: ({}, []))
    monkeypatch.setattr(artefact.report, "write_report", page)


@pytest.fixture
def again(cli: Any, monkeypatch: pytest.MonkeyPatch) -> Again:
    """Exit code and output of the program in an artefact, whose tomserve is this one, without a network."""

    def called(command: list[str], *, env: Mapping[str, str], cwd: Path, **_: Any) -> SimpleNamespace:
        with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(sys.__stdout__):
            patched.chdir(cwd)
            patched.setenv("TOMSERVE_RUNS", env["TOMSERVE_RUNS"])
            patched.setattr(socket.socket, "connect", lambda *_: pytest.fail("the network is not to be used"))
            done = cli(*command[command.index("tomserve") + 1 :])
        assert "Traceback" not in done.err
        return SimpleNamespace(returncode=done.code, stdout=done.out, stderr=done.err)

    def run(folder: Path, *options: str, call: Callable[..., Any] = called) -> tuple[int, str]:
        spec = importlib.util.spec_from_file_location("of_an_artefact", folder / "recompute.py")
        program = importlib.util.module_from_spec(spec)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)  # or a folder would be added to the artefact
        spec.loader.exec_module(program)
        monkeypatch.setattr(program, "subprocess", SimpleNamespace(run=call))
        monkeypatch.setattr(sys, "argv", ["recompute.py", *options])
        with contextlib.redirect_stdout(io.StringIO()) as told:
            code = program.main()
        return code, told.getvalue()

    return run


def _summed(folder: Path) -> None:
    """Write the digests anew, as somebody would who wants changes not to be found."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(one for one in sums if not one.endswith("SHA256SUMS\n")))


def _made(folder: Path, runs: list[str], **wish: Any) -> Path:
    folder.mkdir(exist_ok=True)
    artefact.write_artefact(artefact.ArtefactOptions(runs, **wish), folder / "made.zip")
    with zipfile.ZipFile(folder / "made.zip") as held:
        held.extractall(folder / "made")
    return folder / "made"


@pytest.mark.system
def test_it_holds_what_reviewers_need_and_nothing_else(zipped: Path, place: Path) -> None:
    with zipfile.ZipFile(zipped) as held:
        names = held.namelist()
        assert {one.date_time for one in held.infolist()} == {inspect_export.EARLIEST}
        texts = {name: held.read(name) for name in names}
    assert len(names) == len(set(names))
    own = {"README.md", "artefact.json", "requirements.txt", "recompute.py", "citation.bib", "SHA256SUMS"}
    assert {name for name in names if "/" not in name} == {*own, "report.html"}
    assert sorted(name for name in names if name.startswith("runs/")) == [
        f"runs/example/{name}" for name in ("items.jsonl", "manifest.json", "responses.jsonl")
    ]
    tables = {name.removeprefix("tables/csv/").removesuffix(".csv") for name in names if name.endswith(".csv")}
    assert {"accuracy", "perturbation_effects", "chains"} <= tables
    assert {f"tables/latex/{name}.tex" for name in tables} <= set(names)
    assert len([name for name in names if name.startswith("figures/") and name.endswith(".pdf")]) >= 5
    for name in ("items.jsonl", "responses.jsonl"):
        assert texts[f"runs/example/{name}"] == (place / "runs/example" / name).read_bytes()
    for word in (str(place), str(ROOT), KEY, "must not be handed on", ".tomserve-", str(Path.cwd())):
        assert [name for name in names if word.encode() in texts[name]] == [], word
    manifest = json.loads(texts["runs/example/manifest.json"])
    assert manifest["benchmark_path"] == "~/data/tasks.json"
    assert manifest["server"]["command"][2] == "--chat-template=~/x.jinja"
    locked = (ROOT / "launch/locked/core.txt").read_text().partition("\n")[2]
    assert texts["requirements.txt"].decode() == locked, "with digests of all files"
    sums = dict(reversed(line.split("  ")) for line in texts["SHA256SUMS"].decode().splitlines())
    assert sums == {name: hashlib.sha256(texts[name]).hexdigest() for name in names if name != "SHA256SUMS"}


@pytest.mark.system
def test_the_same_runs_give_the_same_bytes_in_another_process(zipped: Path, place: Path) -> None:
    """There, what draws the figures and writes the report goes through its parts in another order."""
    told = ("export", "artefact", "example", "--title", "A study", "--out", "b.zip")
    command = [sys.executable, "-m", "tomserve", *told]
    surroundings = {**os.environ, "TOMSERVE_RUNS": str(place / "runs"), "HOME": str(place), "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, cwd=place, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(zipped) as one, zipfile.ZipFile(place / "b.zip") as other:
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []
    assert zipped.read_bytes() == (place / "b.zip").read_bytes()


def test_the_tables_are_computed_again_and_changes_are_found(opened: Path, again: Again) -> None:
    assert again(opened, "--here") == SAME
    journal = opened / "runs/example/responses.jsonl"
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    row = next(n for n, line in enumerate(lines) if b'"strategy":"vanilla"' in line and b'\\"socks\\"' in line)
    lines[row] = lines[row].replace(b'\\"socks\\"', b'\\"mittens\\"')
    journal.write_bytes(b"".join(lines))
    code, said = again(opened, "--here")
    assert code == 1
    assert "changed: runs/example/responses.jsonl" in said
    assert "digests: 1 wrong" in said
    assert re.search(r"table accuracy\.csv, line \d+, correct: '\d+' kept, '\d+' now", said)
    # Forged tables with scores and digests to fit: the scores of a run of answers are never taken from the artefact.
    journal.write_bytes(whole)
    (opened / "runs/example/scores.parquet").write_bytes(b"forged")
    table = opened / "tables/csv/accuracy.csv"
    table.write_text(table.read_text().replace(",0.8125,", ",0.9125,", 1))
    _summed(opened)
    code, said = again(opened, "--here")
    assert code == 1
    assert "digests: 0 wrong" in said
    assert "accuracy: '0.9125' kept, '0.8125' now" in said
    assert re.search(r"tables: [12] differences", said)


def test_what_was_added_removed_or_leads_elsewhere_is_found(opened: Path, tmp_path: Path) -> None:
    assert list(recompute.digests(opened)) == []
    (opened / "tables/csv/more.csv").write_text("x\n")
    (opened / "figures/figures.tex").unlink()
    (tmp_path / "outside.txt").write_text("secret")
    (opened / "report.html").unlink()
    (opened / "report.html").symlink_to(tmp_path / "outside.txt")
    (opened / "linked").symlink_to(tmp_path)
    outside = hashlib.sha256(b"secret").hexdigest()
    abroad = ("../outside.txt", str(tmp_path / "outside.txt"), "a/../../outside.txt", "")
    with (opened / "SHA256SUMS").open("a") as file:
        file.writelines(f"{outside}  {name}\n" for name in (*abroad, "linked/outside.txt"))
    assert sorted(recompute.digests(opened)) == sorted(
        [
            *("added: linked", "added: tables/csv/more.csv", "missing: figures/figures.tex"),
            *("is a link: linked/outside.txt", "is a link: report.html"),
            *(f"leads outside: {name}" for name in abroad),
        ]
    )
    wheel = opened / f"tomserve-{__version__}-py3-none-any.whl"
    wheel.write_bytes(b"x")
    assert f"added: {wheel.name}" in list(recompute.digests(opened))
    assert f"added: {wheel.name}" not in list(recompute.digests(opened, wheel)), "the user put it there"


HOSTILE: tuple[dict[str, Any], ...] = (
    *({"study": one} for one in ("--out=/tmp/x", "evil.py", "../evil", None)),
    {"study": None, "study_file": "study/../../evil.py"},
    {"study": None, "study_file": "/etc/evil.py"},
    {"study_file": "study/evil.py"},
    {"intervals": "--out=x y"},
    *({"runs": {one: {}}} for one in ("--out=/tmp/x", "../../etc", "a/../../b", "/etc")),
    *({"runs": {}}, {"by": [3]}, {"labels": "x"}, {"wheel": "../evil.whl"}, {"tomserve": "0.1 --index-url=x"}),
    {"schema": 2},
)


@pytest.mark.parametrize("change", HOSTILE, ids=str)
def test_a_strangers_words_do_not_become_options_paths_or_programs(tmp_path: Path, change: dict[str, Any]) -> None:
    good = {"schema": 1, "tomserve": __version__, "study": "accuracy", "study_file": None, "intervals": "recommended"}
    good |= {"by": [], "labels": [], "wheel": None, "runs": {"pilot/first": {}}}
    (tmp_path / "artefact.json").write_text(json.dumps(good))
    assert recompute.read_record(tmp_path)["study"] == "accuracy"
    (tmp_path / "artefact.json").write_text(json.dumps(good | change))
    with pytest.raises(recompute.CannotTryError, match=r"artefact\.json"):
        recompute.read_record(tmp_path)


def test_what_the_program_reads_is_no_link_and_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / recompute.SUMS
    path.write_text("")
    monkeypatch.setattr(recompute, "LARGEST", 10)
    assert recompute.text_of(path) == ""
    path.write_text("x" * 11)
    with pytest.raises(recompute.CannotTryError, match="has more than 10 bytes"):
        list(recompute.digests(tmp_path))
    path.unlink()
    path.symlink_to("/dev/null")  # a link to /dev/zero would fill the memory
    with pytest.raises(recompute.CannotTryError, match="is no regular file"):
        list(recompute.digests(tmp_path))


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000, "loop/x"])
def test_names_that_no_file_can_have_end_in_a_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "recompute.py").write_bytes(Path(recompute.__file__).read_bytes())
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / recompute.SUMS).write_text(f"{'0' * 64}  {name}\n")
    done = subprocess.run([sys.executable, tmp_path / "recompute.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (2, "", 1)


def test_nothing_beside_the_program_is_taken_for_a_module_of_python(tmp_path: Path) -> None:
    (tmp_path / "recompute.py").write_bytes(Path(recompute.__file__).read_bytes())
    (tmp_path / "csv.py").write_text("raise SystemExit(9)\n")
    done = subprocess.run([sys.executable, tmp_path / "recompute.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("not tried: SHA256SUMS cannot be read")) == (2, True)


def test_what_cannot_be_tried_says_why(opened: Path, again: Again) -> None:
    code, said = again(opened, "--here", call=lambda *_, **more: SimpleNamespace(returncode=1, stderr="No module\x1b"))
    assert (code, "not tried: this Python has no tomserve (No module?)" in said) == (2, True)
    code, said = again(opened, "--wheel", "missing.whl")
    assert (code, "missing.whl: no such file; expected tomserve's wheel" in said) == (2, True)
    with (opened / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  \x1b]0;owned\x07\n")
    (opened / "artefact.json").write_text("{")
    code, said = again(opened, "--here")
    assert (code, "not tried: artefact.json cannot be read" in said) == (2, True)
    assert "\x1b" not in said, "a hostile name does not reach the terminal"
    (opened / "SHA256SUMS").unlink()
    code, said = again(opened, "--here")
    assert (code, "not tried: SHA256SUMS cannot be read" in said) == (2, True)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("x,y\n0.10000000000000002,one\n", None),
        ("x,y\n0.1001,one\n", "line 2, x: '0.1' kept, '0.1001' now"),
        ("x,z\n0.1,one\n", "or other columns"),
        ("x,y\n0.1\n", "or other columns"),
        ("x,y\n0.1,one\n0.1,one\n", "2 lines kept, 3 now"),
        ("x,y\nnan,one\n", "'nan' now"),
        (None, "table a.csv: only kept"),
        pytest.param(f"x,y\n{'1' * 40_000}x,one\n", "line 2, x", id="digits"),
    ],
)
def test_cells_and_tables_are_compared_up_to_rounding(tmp_path: Path, text: str | None, wrong: str | None) -> None:
    for name, said in (("kept", "x,y\n0.1,one\n"), ("made", text)):
        (tmp_path / name).mkdir()
        if said is not None:
            (tmp_path / name / "a.csv").write_text(said)
    told = list(recompute.compared(tmp_path / "kept", tmp_path / "made"))
    assert (told == []) if wrong is None else (wrong in " ".join(told))


def test_long_cells_hide_no_difference_of_others(tmp_path: Path) -> None:
    for name, number in (("kept", ".99"), ("made", ".2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(f"{'x' * 200_000},share\nm,{number}\n")
        (tmp_path / name / "b.csv").write_bytes(b"x\n\xff\n")
    told = list(recompute.compared(tmp_path / "kept", tmp_path / "made"))
    assert told == ["table a.csv, line 2, share: '.99' kept, '.2' now", "table b.csv: cannot be read"]


STUDY = """
from pathlib import Path
import polars as pl
from tomserve.studies import Study
from .words import TITLE

Path(__file__).parent.joinpath("it-ran").touch()

def tables(scores, intervals):
    return {TITLE: scores.group_by("strategy").agg(pl.col("correct").mean()).sort("strategy").collect()}

STUDY = Study(name="mine", tables=tables)
"""


def test_a_study_of_ones_own_is_run_only_when_asked(place: Path, tmp_path: Path, plain: None, again: Again) -> None:
    folder = tmp_path / "my study"
    folder.mkdir()
    (folder / "study.py").write_text(STUDY)
    (folder / "words.py").write_text('TITLE = "shares"\n')
    (folder / "study.yaml").write_text("notes: {recommended: {shares: Right.}}\n")
    (folder / "link.py").symlink_to("/etc/passwd")
    (folder / "data.bin").write_bytes(b"x")
    made = _made(tmp_path, [str(place / "runs/example")], study=f"{folder}/")
    assert sorted(path.name for path in (made / "study").rglob("*") if path.is_file()) == [
        *("study.py", "study.yaml", "words.py")
    ]
    about = json.loads((made / "artefact.json").read_text())
    assert (about["study"], about["study_file"]) == (None, "study/my-study/study.py")
    assert "run only with `--run-study`" in (made / "README.md").read_text()
    code, said = again(made, "--here")
    assert code == 2
    assert "its tables are made by a program that came with it, study/my-study/study.py; read it" in said
    assert not list(made.rglob("it-ran"))
    assert again(made, "--here", "--run-study") == SAME
    assert list(made.rglob("it-ran"))


def test_odd_names_and_all_options(cli: Any, tmp_path: Path, monkeypatch: Any, plain: None, again: Again) -> None:
    """One is packed, one sealed; neither name could stand on a command line."""
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    one = shortened(copied_example(tmp_path / "elsewhere"), 8).rename(tmp_path / "elsewhere/--my run")
    shortened(copied_run(tmp_path / "runs/pilot/first"), 8)
    assert cli("pack", "pilot/first").code == 0
    assert cli("seal", one).code == 0
    wish = {"labels": [f"{one.name}=A, the first", "pilot/first=B"], "by": ["kind", "kind,scenario"]}
    made = _made(tmp_path, [str(one), "pilot/first"], **wish, intervals="published")
    about = json.loads((made / "artefact.json").read_text())
    assert list(about["runs"]) == ["run--my-run", "pilot/first"]
    assert (about["intervals"], about["by"]) == ("published", ["kind", "kind,scenario"])
    assert (made / "runs/pilot/first/responses.parquet").exists()
    assert "A, the first" in (made / "tables/csv/accuracy.csv").read_text()
    assert list((made / "tables/csv").glob("*by*kind*"))
    assert cli("verify", made / "runs/run--my-run").code == 0, "the seal still holds"
    assert again(made, "--here") == SAME


def test_measurements_are_handed_on_and_scores_of_answers_are_not(tmp_path: Path) -> None:
    runs = [copied_run(tmp_path / name, f"functional-example/{name}") for name in ("worlds", "inside")]
    for run in runs:
        recompute.copy(run, tmp_path / "copies" / run.name)
    assert (tmp_path / "copies/inside/scores.parquet").exists()
    (runs[0] / "scores.parquet").write_bytes(b"forged")
    with copy_runs(list(map(str, runs))) as copies:
        assert {name for name in copies.taken if "scores" in name} == {"inside/scores.parquet"}


def test_imported_replies_are_said_to_be_others(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: None, again: Again
) -> None:
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    file = sheet(tmp_path / "a.csv", "1101101011")
    assert cli("import", "csv", file, "--model", "a", "--run", "r", "--benchmark", "none", *mapped()).code == 0
    made = _made(tmp_path, ["r"])
    readme = (made / "README.md").read_text()
    assert "The questions and replies of r were brought from files of csv. Find out under which terms" in readme
    assert again(made, "--here")[0] == 0


def test_what_is_refused(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    one, other = (shortened(copied_example(tmp_path / name)) for name in "ab")
    divided_example(tmp_path / "runs")
    (tmp_path / "no.whl").write_bytes(b"PK")
    out = ("--out", tmp_path / "x.zip")

    def refused(*options: object) -> str:
        done = cli("export", "artefact", *options)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
        assert not (tmp_path / "x.zip").exists()
        return str(done.err)

    for options, said in (
        (out, "name the runs"),
        ((one, other, *out), "two runs are called 'example'; rename the folder of one"),
        ((tmp_path / "scores.csv", *out), "an artefact holds runs"),
        (("mine", *out), "`tomserve merge mine` joins them"),
        ((one, "--out", one / "responses.jsonl"), "belongs to the run"),
        ((one, "--label", "nobody=x", *out), "--label"),
        ((one, "--wheel", tmp_path / "missing.whl", *out), "cannot be read"),
        ((one, "--wheel", tmp_path / "no.whl", *out), f"is no wheel of tomserve {__version__}"),
    ):
        assert said in refused(*options)
    monkeypatch.setenv("MY_PROVIDER_KEY", "reference-abcdefgh")
    journal = other / "responses.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"endpoint":"', b'"endpoint":"reference-abcdefgh', 1))
    said = refused(other, *out)
    assert "holds what the variable MY_PROVIDER_KEY of your environment holds, which looks like a key" in said
    assert "abcdefgh" not in said
    journal.unlink()
    journal.symlink_to(one / "responses.jsonl")
    assert "is a symbolic link" in refused(other, *out)


def test_a_home_folder_in_a_reply_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked and answered is handed on byte for byte, so that only the user can say whether that may be."""
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    run = copied_example(tmp_path / "runs")
    journal = run / "responses.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"error":null', f'"error":"{tmp_path}/ann/x"'.encode(), 1))
    with copy_runs([str(run)]) as copies:
        assert copies.names == ["example"]
        (said,) = copies.warnings
        assert "responses.jsonl: names your home folder" in said
        assert (copies.root / "example/responses.jsonl").read_bytes() == journal.read_bytes()
    assert not copies.root.exists()
    assert make_portable(["/home/ann2/x", "/home/ann", 3, None], [("/home/ann", "~")]) == ["/home/ann2/x", "~", 3, None]
    with pytest.raises(ConfigError, match="no run there"), copy_runs([str(tmp_path / "nothing")]):
        pass


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "packages", [pytest.param("lent", marks=pytest.mark.system), pytest.param("installed", marks=pytest.mark.long)]
)
def test_the_tables_are_computed_again_in_a_new_environment(
    place: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    plain: None,
    monkeypatch: pytest.MonkeyPatch,
    packages: str,
) -> None:
    """With a wheel of this checkout, which the artefact brings. To install the packages takes minutes; else those of
    this environment are lent to the new one, behind its own."""
    wheel = built_wheel(tmp_path_factory)
    made = _made(tmp_path, [str(place / "runs/example")], wheel=wheel)
    assert recompute.read_record(made)["wheel"] == wheel.name
    assert f"python recompute.py --wheel {wheel.name}" in (made / "README.md").read_text()
    (made / "requirements.txt").write_text("nothing-of-an-artefact-is-installed==1\n")
    _summed(made)
    really = recompute._run

    def lent(command: list[str]) -> None:
        if "--require-hashes" not in command or packages == "installed":
            return really(command)
        kept = Path(command[-1].partition("=")[2])
        assert kept.read_text() == (ROOT / "launch/locked/core.txt").read_text()
        site = kept.parents[4]
        (site / "lent.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        return None

    monkeypatch.setattr(recompute, "_run", lent)
    python = recompute.environment(tmp_path / "new", __version__, tmp_path, made / wheel.name)
    where = [python, "-I", "-c", "import tomserve; print(tomserve.__file__)"]
    where = subprocess.run(where, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert where.startswith(str(tmp_path / "new")), "no tomserve of this environment is seen"
    (tmp_path / "scratch").mkdir()
    found = recompute.compute([python, "-I"], made, recompute.read_record(made), tmp_path / "scratch")
    assert list(recompute.compared(made / "tables/csv", found)) == []
    assert len(list(found.glob("*.csv"))) > 10


_READ = """
import itertools, json, socket, sys

def refuse(*_):
    raise OSError("the network is not to be used")

socket.socket.connect = socket.getaddrinfo = refuse
from absl import logging as told
told.set_verbosity(told.ERROR)
import datasets, mlcroissant

found = {}
for folder in sys.argv[2:]:
    made = mlcroissant.Dataset(jsonld=f"{folder}/croissant.json")
    issues = made.metadata.ctx.issues
    about = {"errors": sorted(issues.errors), "warnings": sorted(issues.warnings), "tables": {}}
    about |= {name: str(getattr(made.metadata, name)) for name in ("name", "version", "license", "url", "date_published")}
    for name in datasets.get_dataset_config_names(folder):
        table = datasets.load_dataset(folder, name, split="test", cache_dir=sys.argv[1])
        records = list(itertools.islice(made.records(name), 400))
        column = "id" if name == "items" else "item"
        same = [one[f"{name}/{column}"].decode() for one in records] == list(table[column][: len(records)])
        about["tables"][name] = {
            "rows": len(table), "columns": table.column_names, "first": dict(table[0]), "records": len(records),
            "keys": sorted(records[0]), "canaries": sorted(set(table["canary"])), "ids": same,
        }
    found[folder] = about
print(json.dumps(found, default=str))
"""


def _read(tmp_path: Path, *folders: Path) -> dict[str, Any]:
    """What the real datasets and mlcroissant read in these folders, without a network."""
    surroundings = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", _READ, str(tmp_path / "cache"), *map(str, folders)]
    done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _front(folder: Path) -> tuple[dict[str, Any], str]:
    _, front, rest = (folder / "README.md").read_text().split("---\n", 2)
    found = yaml.safe_load(front)
    assert isinstance(found, dict)
    return found, rest


def _fits(folder: Path) -> dict[str, pl.DataFrame]:
    """Card, tables, licence and metadata fit together; returns the tables."""
    front, card = _front(folder)
    croissant = json.loads((folder / "croissant.json").read_text())
    tables = {
        one["config_name"]: pl.read_parquet(folder / f"data/{one['config_name']}.parquet") for one in front["configs"]
    }
    for (name, frame), records in zip(tables.items(), croissant["recordSet"], strict=True):
        assert [one["name"] for one in records["field"]] == frame.columns
        assert f"## {name}: {frame.height:,} rows" in card
        assert all("do not train on it" in one and f"```text\n{one}\n```" in card for one in frame["canary"].unique())
    assert "must not be used to train models" in (folder / "LICENSE").read_text()
    return tables


@pytest.mark.system
@pytest.mark.timeout(600)
def test_both_programs_read_what_is_written_without_a_network(cli, tmp_path: Path) -> None:
    """datasets and mlcroissant, for a large benchmark of ours, a run, and a file of a user's own."""
    (tmp_path / "pens.py").write_text(OWN)
    about = ("--title", "A | title\nof two lines", "--url", "https://example.org/x", "--date", "2026-11-30")
    wishes = {
        "worlds": ("--benchmark", "worlds"),
        "run": (copied_example(tmp_path), *about),
        "pens": ("--benchmark", tmp_path / "pens.py", "--license", "mit"),
    }
    for name, options in wishes.items():
        passes(cli("export", "hub", *options, "--out", tmp_path / name))
    found = _read(tmp_path, *(tmp_path / name for name in wishes))
    for name in wishes:
        told = found[str(tmp_path / name)]
        assert told["errors"] == []
        frames = _fits(tmp_path / name)
        assert list(frames) == list(told["tables"])
        for table, frame in frames.items():
            read = told["tables"][table]
            assert (read["rows"], read["records"]) == (frame.height, min(frame.height, 400))
            assert read["columns"] == frame.columns
            assert read["keys"] == sorted(f"{table}/{column}" for column in frame.columns)
            assert read["ids"]
    worlds, run = (found[str(tmp_path / name)] for name in ("worlds", "run"))
    assert worlds["license"] == "['https://creativecommons.org/licenses/by/4.0/']"
    assert [one for one in worlds["warnings"] if "datePublished" not in one] == []
    assert (run["warnings"], run["url"]) == ([], "https://example.org/x")


def test_the_same_data_give_the_same_bytes_and_leftovers_are_refused(cli, tmp_path: Path) -> None:
    folder = shortened(copied_example(tmp_path))
    for out in ("one", "two"):
        options = ("--title", "A | title\nof two lines", "--url", "https://example.org/x", "--date", "2026-11-30")
        passes(cli("export", "hub", folder, "--out", tmp_path / out, *options))
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    tables = ["data/items.parquet", "data/replies.parquet"]
    assert list(map(str, files)) == ["LICENSE", "README.md", "croissant.json", *tables]
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
    assert _fits(tmp_path / "one")["replies"].height == 48
    front = _front(tmp_path / "one")[0]
    assert (front["pretty_name"], front["license"]) == ("A | title of two lines", "cc-by-4.0")
    assert (tmp_path / "one/LICENSE").read_text().startswith((ROOT / "dataset/LICENSE").read_text().rstrip())
    again = cli("export", "hub", "--benchmark", "hitom", "--out", tmp_path / "one")
    assert again.code == 2
    assert "replies.parquet: is no table of this dataset, and would be published with it" in again.err


OWN = """
from tomserve.benchmarks import Benchmark
from tomserve import Item

def load(path, gold):
    for n in range(12):
        yield Item(id=f"pen/{n}|<b>", story=["A pen is red."], question="What colour is it?", choices=["red", "blue"],
                   answer="red", factors={"mixed": [1, 2.5, True, "x"][n % 4], "many.words": f"w{n}", "none": None,
                                          "whole": n, "real": n / 2 if n % 2 else n, "flag": n > 3})

BENCHMARK = Benchmark("pens", load)
"""


def test_a_benchmark_of_a_users_file_needs_a_licence_and_gets_a_canary(cli, tmp_path: Path) -> None:
    (tmp_path / "pens.py").write_text(OWN)
    asked = ("export", "hub", "--benchmark", tmp_path / "pens.py", "--out", tmp_path / "pens")
    refuses(cli(*asked), "the benchmark pens is declared in a file of its own, pens.py; say under which licence")
    done = passes(cli(*asked, "--license", "MIT", "--language", "en", "--language", "zh"))
    assert "be sure that you may share them under MIT" in done.err
    frame = _fits(tmp_path / "pens")["items"]
    front, card = _front(tmp_path / "pens")
    assert (front["license"], front["language"], front["size_categories"]) == ("mit", ["en", "zh"], ["n<1K"])
    (canary,) = frame["canary"].unique()
    assert canary.startswith("tomserve-hub-")
    assert "under the licence mit" in (tmp_path / "pens/LICENSE").read_text()
    assert frame["factor_mixed"].to_list()[:4] == ["1", "2.5", "true", "x"]
    wanted = {"whole": pl.Int64, "real": pl.Float64, "flag": pl.Boolean, "none": pl.String, "many.words": pl.String}
    assert {name: frame.schema[f"factor_{name}"] for name in wanted} == wanted
    assert "| `factor_flag` | A factor of the design: false, true. |" in card


def test_a_canary_of_somebody_else_ends_no_block(cli, tmp_path: Path) -> None:
    (tmp_path / "pens.py").write_text(OWN.replace("factors=", "canary='```\\n# Run `x`\\n```', factors="))
    asked = ("export", "hub", "--benchmark", tmp_path / "pens.py", "--out", tmp_path / "pens", "--license", "mit")
    passes(cli(*asked))
    assert "```text\n# Run `x` ```\n```\n" in _front(tmp_path / "pens")[1]


@pytest.mark.parametrize(
    ("benchmark", "file", "says"),
    [("bigtom", "bigtom_small.csv", "(licence: MIT)"), ("hitom", "hitom_small.json", "hitom_small.json")],
)
def test_data_of_others_need_a_licence(cli, tmp_path: Path, benchmark: str, file: str, says: str) -> None:
    path = ROOT / "tests/data" / file
    asked = ("--benchmark", benchmark, "--path", path)
    refuses(cli("export", "hub", *asked, "--out", tmp_path / "out"), says)
    assert not (tmp_path / "out").exists()
    items = list(benchmarks.load(benchmark, path))[:8]
    replies = {item.id: {"text": item.answer} for item in items}
    run_folder(tmp_path / "runs/r", {"vanilla": replies}, items, benchmark=benchmark, benchmark_path=str(path))
    done = cli("export", "hub", "r", "--out", tmp_path / "out")
    assert (done.code, says in done.err) == (2, True), done.err
    done = passes(cli("export", "hub", "r", "--out", tmp_path / "out", "--license", "mit"))
    assert says in done.err
    assert "be sure that you may share them under mit" in done.err
    assert str(ROOT) not in (tmp_path / "out/README.md").read_text(), "no folder of this machine"


def test_every_published_benchmark_says_whose_it_is() -> None:
    """What comes with tomserve, and what anybody's files hold, names no owner; all others do, and a paper."""
    own = {"perturbed", "perturbed-2", "worlds", "hitom", "bundles", "items"}
    for name in benchmarks.names():
        found = benchmarks.get(name)
        assert bool(found.terms) == (name not in own), name
        assert found.papers or name in ("worlds", "items"), name
        if found.terms:
            assert "licence: " in found.terms
            assert found.terms in str(hub.benchmark_holding(name, Path("x")).others)
        assert all(artefact.render_bibtex(found.papers).count("@misc{") == len(found.papers) for _ in found.papers)


def test_runs_that_do_not_fit_together_are_refused(cli, tmp_path: Path) -> None:
    one = shortened(copied_example(tmp_path / "a"))
    other = shortened(copied_run(tmp_path / "b/example"))
    refused = cli("export", "hub", one, other, "--out", tmp_path / "out")
    assert "two runs are called 'example'; rename the folder of one" in refused.err
    other = other.rename(tmp_path / "b/other")
    lines = (other / "items.jsonl").read_text()
    (other / "items.jsonl").write_text(lines.replace('"question":"At the end', '"question":"Say: at the end', 1))
    for asked, said in (
        ((one, other), "so that nobody could tell which one a reply answers; export them one by one"),
        ((other, "--benchmark", "perturbed"), "is told otherwise by today's questions of perturbed"),
        ((one, "--benchmark", "hitom"), "is not among today's questions of hitom"),
    ):
        refuses(cli("export", "hub", *asked, "--out", tmp_path / "out"), said)
    assert not (tmp_path / "out").exists()
    passes(cli("export", "hub", one, "--benchmark", "perturbed", "--out", tmp_path / "out"))
    assert pl.read_parquet(tmp_path / "out/data/items.parquet").height == 1088


def test_what_cannot_be_written_is_said_in_a_line(cli, tmp_path: Path) -> None:
    folder = shortened(copied_example(tmp_path), 4)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "long").write_bytes(b"x" * (hub.MOST + 1))
    (tmp_path / "file").write_text("x")
    nothing = tmp_path / "nothing.jsonl"
    write_items(nothing, [make_item()])
    for options, said in (
        ((), "name runs, or a benchmark by --benchmark NAME"),
        ((folder, "--path", nothing), "--path is the file of a benchmark"),
        ((folder, "--license", "all rights"), "--license: found 'all rights'"),
        ((folder, "--license", "other"), "name its file by --license-file"),
        ((folder, "--license", "other", "--license-file", tmp_path / "missing"), "missing: cannot be read"),
        ((folder, "--license", "mit", "--license-file", tmp_path / "binary"), "is no UTF-8 text"),
        ((folder, "--license", "mit", "--license-file", tmp_path / "long"), "has more than 1 MB"),
        ((folder, "--language", "English"), "--language: found 'English'"),
        ((folder, "--url", "javascript:1"), "--url: found 'javascript:1'"),
        ((folder, "--date", "tomorrow"), "--date: found 'tomorrow'"),
        (("--benchmark", "bigtom"), "the questions of bigtom are others'"),
        (("--benchmark", "nothing"), "nothing"),
    ):
        done = cli("export", "hub", *options, "--out", tmp_path / "out")
        assert (done.code, done.out) == (2, ""), options
        assert said in done.err, done.err
        assert done.err.count("\n") == 1
    refuses(cli("export", "hub", folder, "--out", tmp_path / "file"), "cannot be written")
    (tmp_path / "terms").write_text("You may look at it.\n")
    refuses(cli("export", "hub", folder, "--license", "mit", "--out", tmp_path / "o"), "which nobody else can change")
    (tmp_path / "pens.py").write_text(OWN)
    terms = ("--license", "other", "--license-file", tmp_path / "terms")
    passes(cli("export", "hub", "--benchmark", tmp_path / "pens.py", *terms, "--out", tmp_path / "o"))
    assert (tmp_path / "o/LICENSE").read_text().startswith("You may look at it.")
    assert _front(tmp_path / "o")[0]["license_link"] == "LICENSE"
