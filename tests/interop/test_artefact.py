"""Artefacts for reviewers: what they hold and never hold, and the program in them that checks and computes it again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT, Endpoint
from tests.helpers.examples import copied_example, copied_run
from tests.helpers.foreign_files import mapped, sheet
from tests.helpers.parted import divided_example
from tomserve import __version__
from tomserve.errors import ConfigError
from tomserve.interop import artefact, artefact_texts, recompute, zipping
from tomserve.interop.snapshot import portable, taken

KEY = "sk-proj-4f5a8c1d9e7b3a2f"
OFFLINE = """
import socket

def refuse(*_, **__):
    raise OSError("the network is not to be used")

socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = socket.getaddrinfo = refuse
"""


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
    """The artefact of that run."""
    said: list[str] = []
    path = place / "a.zip"
    artefact.write(artefact.Wish(["example"], title="A study"), path, said.append)
    assert [one for one in said if "asks 176 of 1,088 questions" not in one] == []
    assert all(".tomserve-" not in one for one in said), "a temporary folder says nothing to anybody"
    assert os.environ["TOMSERVE_RUNS"] == str(place / "runs")
    return path


@pytest.fixture
def opened(zipped: Path, tmp_path: Path) -> Path:
    """The artefact, unzipped elsewhere."""
    with zipfile.ZipFile(zipped) as held:
        held.extractall(tmp_path / "opened")
    return tmp_path / "opened"


def _recompute(folder: Path, *options: str, **more: str) -> tuple[int, str]:
    """Exit code and output of the program in an artefact, run where the network is refused."""
    (folder.parent / "offline").mkdir(exist_ok=True)
    (folder.parent / "offline/sitecustomize.py").write_text(OFFLINE)
    surroundings = {**os.environ, "PYTHONPATH": str(folder.parent / "offline"), **more}
    command = [sys.executable, folder / "recompute.py", *options]
    done = subprocess.run(
        command, cwd=folder.parent, env=surroundings, capture_output=True, text=True, check=False, timeout=300
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def _summed(folder: Path) -> None:
    """Write the digests anew, as somebody would who wants changes not to be found."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(one for one in sums if not one.endswith("SHA256SUMS\n")))


def _made(tmp_path: Path, runs: list[str], **wish: Any) -> Path:
    """An artefact of these runs, unzipped."""
    out = tmp_path / "made.zip"
    tmp_path.mkdir(exist_ok=True)
    artefact.write(artefact.Wish(runs, **wish), out)
    with zipfile.ZipFile(out) as held:
        held.extractall(tmp_path / "made")
    return tmp_path / "made"


def test_it_holds_what_reviewers_need_and_nothing_else(zipped: Path, place: Path) -> None:
    with zipfile.ZipFile(zipped) as held:
        names = held.namelist()
        assert {one.date_time for one in held.infolist()} == {zipping.EARLIEST}
        texts = {name: held.read(name) for name in names}
    assert len(names) == len(set(names))
    own = {
        "README.md",
        "artefact.json",
        "requirements.txt",
        "recompute.py",
        "citation.bib",
        "SHA256SUMS",
    }
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
    for word in (
        str(place),
        str(place / "runs"),
        str(ROOT),
        KEY,
        "must not be handed on",
        ".tomserve-",
        str(Path.cwd()),
    ):
        assert [name for name in names if word.encode() in texts[name]] == [], word
    manifest = json.loads(texts["runs/example/manifest.json"])
    assert manifest["benchmark_path"] == "~/data/tasks.json"
    assert manifest["server"]["command"][2] == "--chat-template=~/x.jinja"
    sums = dict(reversed(line.split("  ")) for line in texts["SHA256SUMS"].decode().splitlines())
    assert sums == {name: hashlib.sha256(texts[name]).hexdigest() for name in names if name != "SHA256SUMS"}


def test_the_same_runs_give_the_same_bytes(zipped: Path, place: Path, tmp_path: Path) -> None:
    """In another process, too, where what draws the figures goes through its parts in another order."""
    command = [
        sys.executable,
        "-m",
        "tomserve",
        "export",
        "artefact",
        "example",
        "--title",
        "A study",
        "--out",
        "b.zip",
    ]
    surroundings = {**os.environ, "TOMSERVE_RUNS": str(place / "runs"), "HOME": str(place)}
    done = subprocess.run(command, cwd=place, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(zipped) as one, zipfile.ZipFile(place / "b.zip") as other:
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []
    assert zipped.read_bytes() == (place / "b.zip").read_bytes()
    assert "a.zip" not in (place / "b.zip").read_bytes().decode("latin-1")


def test_its_words_say_what_it_is(opened: Path) -> None:
    readme = (opened / "README.md").read_text()
    assert readme.startswith("# A study\n")
    assert f"python recompute.py --wheel tomserve-{__version__}-py3-none-any.whl" in readme
    assert "`runs/example/`: reference, replies to perturbed" in readme
    assert "The questions of example come from a file, tasks.json. Find out under which terms" in readme
    assert "do not train on it" in readme
    assert "The perturbed false-belief tasks (arXiv:2602.22072)" in readme
    entries = re.findall(
        r"^@(\w+)\{([^,]+),\n((?:  \w+ = \{.*\},?\n)+)\}$", (opened / "citation.bib").read_text(), re.M
    )
    assert [one[:2] for one in entries] == [("software", "tomserve"), ("misc", "arXiv.2602.22072")]
    assert all(one[2].count("{") == one[2].count("}") for one in entries)
    assert f"version = {{{__version__}}}" in entries[0][2]
    about = json.loads((opened / "artefact.json").read_text())
    assert (about["study"], about["study_file"], about["intervals"]) == ("perturbed", None, "recommended")
    assert about["runs"]["example"]["benchmark_digest"].startswith("sha256:")
    requirements = (opened / "requirements.txt").read_text()
    assert requirements == (ROOT / "launch/locked/core.txt").read_text().partition("\n")[2], "with digests of all files"


def test_other_versions_than_those_that_were_tested_are_named_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    real = artefact_texts.importlib.metadata.version
    monkeypatch.setattr(artefact_texts.importlib.metadata, "version", lambda n: "9.9" if n == "polars" else real(n))
    listed = dict(line.split("==") for line in artefact_texts.requirements().splitlines())
    assert listed["polars"] == "9.9"
    assert {"pandas", "python-dateutil", "typing-extensions", "jinja2"} <= set(listed), "what packages need themselves"
    assert {"pytest", "torch", "ruff", "tomserve"}.isdisjoint(listed)


def test_the_tables_are_computed_again_offline(opened: Path) -> None:
    code, said = _recompute(opened, "--here")
    assert (code, said) == (0, "digests: 0 wrong\ntables: 0 differences\n")


def test_a_changed_reply_and_a_changed_cell_are_found(opened: Path) -> None:
    journal = opened / "runs/example/responses.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    row = next(n for n, line in enumerate(lines) if b'"strategy":"vanilla"' in line and b'\\"socks\\"' in line)
    lines[row] = lines[row].replace(b'\\"socks\\"', b'\\"mittens\\"')
    journal.write_bytes(b"".join(lines))
    code, said = _recompute(opened, "--here")
    assert code == 1
    assert "changed: runs/example/responses.jsonl" in said
    assert "digests: 1 wrong" in said
    assert re.search(r"table accuracy\.csv, line \d+, correct: '\d+' kept, '\d+' now", said)


def test_tables_that_were_forged_with_scores_and_digests_to_fit_are_found(opened: Path, place: Path) -> None:
    """The scores of a run of answers are never taken from the artefact."""
    for name in ("scores.parquet", "scores.json"):
        (opened / "runs/example" / name).write_bytes(b"forged")
    table = opened / "tables/csv/accuracy.csv"
    table.write_text(table.read_text().replace(",0.8125,", ",0.9125,", 1))
    _summed(opened)
    code, said = _recompute(opened, "--here")
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
    with (opened / "SHA256SUMS").open("a") as file:
        for name in ("../outside.txt", str(tmp_path / "outside.txt"), "a/../../outside.txt", "linked/outside.txt", ""):
            file.write(f"{outside}  {name}\n")
    found = sorted(recompute.digests(opened))
    assert found == sorted(
        [
            "added: linked",
            "added: tables/csv/more.csv",
            "is a link: linked/outside.txt",
            "is a link: report.html",
            "leads outside: ",
            "leads outside: ../outside.txt",
            f"leads outside: {tmp_path / 'outside.txt'}",
            "leads outside: a/../../outside.txt",
            "missing: figures/figures.tex",
        ]
    )
    wheel = opened / f"tomserve-{__version__}-py3-none-any.whl"
    wheel.write_bytes(b"x")
    assert f"added: {wheel.name}" in list(recompute.digests(opened))
    assert f"added: {wheel.name}" not in list(recompute.digests(opened, wheel)), "the user put it there"


@pytest.mark.parametrize(
    "change",
    [
        {"study": "--out=/tmp/x"},
        {"study": "evil.py"},
        {"study": "../evil"},
        {"study": None},
        {"study": None, "study_file": "study/../../evil.py"},
        {"study": None, "study_file": "/etc/evil.py"},
        {"study_file": "study/evil.py"},
        {"intervals": "--out=x y"},
        {"runs": {"--out=/tmp/x": {}}},
        {"runs": {"../../etc": {}}},
        {"runs": {"a/../../b": {}}},
        {"runs": {"/etc": {}}},
        {"runs": {}},
        {"by": [3]},
        {"labels": "x"},
        {"wheel": "../evil.whl"},
        {"tomserve": "0.1 --index-url=x"},
        {"schema": 2},
    ],
    ids=str,
)
def test_a_strangers_words_do_not_become_options_paths_or_programs(tmp_path: Path, change: dict[str, Any]) -> None:
    good = {"schema": 1, "tomserve": __version__, "study": "accuracy", "study_file": None, "intervals": "recommended"}
    good |= {"by": [], "labels": [], "wheel": None, "runs": {"pilot/first": {}}}
    (tmp_path / "artefact.json").write_text(json.dumps(good))
    assert recompute.read_record(tmp_path)["study"] == "accuracy"
    (tmp_path / "artefact.json").write_text(json.dumps(good | change))
    with pytest.raises(recompute.CannotTryError, match=r"artefact\.json"):
        recompute.read_record(tmp_path)


def test_what_cannot_be_tried_says_why(opened: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    done = subprocess.run(
        [bare / "bin/python", opened / "recompute.py", "--here"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "")
    assert "not tried: this Python has no tomserve" in done.stdout
    code, said = _recompute(opened, "--wheel", "missing.whl")
    assert (code, "missing.whl: no such file; expected tomserve's wheel" in said) == (2, True)
    (opened / "artefact.json").write_text("{")
    code, said = _recompute(opened, "--here")
    assert (code, "not tried: artefact.json cannot be read" in said) == (2, True)
    (opened / "SHA256SUMS").unlink()
    code, said = _recompute(opened, "--here")
    assert (code, "not tried: SHA256SUMS cannot be read" in said) == (2, True)


def test_a_hostile_name_does_not_reach_the_terminal(opened: Path) -> None:
    with (opened / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  \x1b]0;owned\x07\n")
    (opened / "artefact.json").write_text("{")
    assert "\x1b" not in _recompute(opened, "--here")[1]


def test_cells_and_tables_are_compared_up_to_rounding(tmp_path: Path) -> None:
    for name in ("kept", "made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("x,y\n0.1,one\n")
    (tmp_path / "made/a.csv").write_text("x,y\n0.10000000000000002,one\n")
    assert list(recompute.compared(tmp_path / "kept", tmp_path / "made")) == []
    for text, wrong in (
        ("x,y\n0.1001,one\n", "line 2, x: '0.1' kept, '0.1001' now"),
        ("x,z\n0.1,one\n", "or other columns"),
        ("x,y\n0.1\n", "or other columns"),
        ("x,y\n0.1,one\n0.1,one\n", "2 lines kept, 3 now"),
        ("x,y\nnan,one\n", "'nan' now"),
    ):
        (tmp_path / "made/a.csv").write_text(text)
        assert wrong in " ".join(recompute.compared(tmp_path / "kept", tmp_path / "made")), text
    (tmp_path / "made/a.csv").unlink()
    assert list(recompute.compared(tmp_path / "kept", tmp_path / "made")) == ["table a.csv: only kept"]


STUDY = """
from pathlib import Path
import polars as pl
from tomserve.studies import Study
from words import TITLE

Path(__file__).parent.joinpath("it-ran").touch()

def tables(scores, intervals):
    return {TITLE: scores.group_by("strategy").agg(pl.col("correct").mean()).sort("strategy").collect()}

STUDY = Study(name="mine", tables=tables)
"""


def test_a_study_of_ones_own_is_a_program_that_is_run_only_when_asked(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my study"
    folder.mkdir()
    (folder / "study.py").write_text(STUDY.replace("from words", "from .words"))
    (folder / "words.py").write_text('TITLE = "shares"\n')
    (folder / "link.py").symlink_to("/etc/passwd")
    (folder / "data.bin").write_bytes(b"x")
    made = _made(tmp_path, [str(place / "runs/example")], study=f"{folder}/")
    assert sorted(path.name for path in (made / "study").rglob("*") if path.is_file()) == ["study.py", "words.py"]
    about = json.loads((made / "artefact.json").read_text())
    assert (about["study"], about["study_file"]) == (None, "study/my-study/study.py")
    assert "run only with `--run-study`" in (made / "README.md").read_text()
    code, said = _recompute(made, "--here")
    assert code == 2
    assert "its tables are made by a program that came with it, study/my-study/study.py; read it" in said
    assert not list(made.rglob("it-ran"))
    code, said = _recompute(made, "--here", "--run-study")
    assert (code, said) == (0, "digests: 0 wrong\ntables: 0 differences\n")
    assert list(made.rglob("it-ran"))


def test_runs_of_odd_names_with_labels_factors_and_intervals(cli, tmp_path: Path, monkeypatch: Any) -> None:
    """One is packed, one sealed; neither name could stand on a command line."""
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    one = copied_example(tmp_path / "elsewhere").rename(tmp_path / "elsewhere/--my run")
    copied_run(tmp_path / "runs/pilot/first")
    assert cli("pack", "pilot/first").code == 0
    assert cli("seal", one).code == 0
    labels = [f"{one.name}=A, the first", "pilot/first=B"]
    made = _made(
        tmp_path, [str(one), "pilot/first"], labels=labels, by=["kind", "kind,scenario"], intervals="published"
    )
    about = json.loads((made / "artefact.json").read_text())
    assert list(about["runs"]) == ["run--my-run", "pilot/first"]
    assert about["labels"] == ["run--my-run=A, the first", "pilot/first=B"]
    assert (about["intervals"], about["by"]) == ("published", ["kind", "kind,scenario"])
    assert (made / "runs/pilot/first/responses.parquet").exists()
    assert "A, the first" in (made / "tables/csv/accuracy.csv").read_text()
    assert len(list((made / "tables/csv").glob("*by*kind*"))) >= 1
    assert cli("verify", made / "runs/run--my-run").code == 0, "the seal still holds"
    code, said = _recompute(made, "--here")
    assert (code, said) == (0, "digests: 0 wrong\ntables: 0 differences\n")


def test_a_measured_run_and_its_answers_make_one_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("worlds", "inside"):
        copied_run(tmp_path / "runs/three" / name, f"functional-example/{name}")
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    made = _made(tmp_path, ["three/worlds", "three/inside"], study="functional")
    assert (made / "runs/three/inside/scores.parquet").exists()
    assert not (made / "runs/three/worlds/scores.parquet").exists()
    assert "Section 1 -- Definitions" in (made / "LICENSE-data").read_text()
    assert "The questions of worlds come with tomserve, under CC BY 4.0" in (made / "README.md").read_text()
    assert json.loads((made / "artefact.json").read_text())["runs"]["three/inside"]["measured"] is True
    assert "what was measured inside the model" in (made / "README.md").read_text()
    code, said = _recompute(made, "--here")
    assert (code, said) == (0, "digests: 0 wrong\ntables: 0 differences\n")


def test_imported_replies_and_published_data_are_said_to_be_others(
    cli, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    file = sheet(tmp_path / "a.csv", "1101101011")
    assert cli("import", "csv", file, "--model", "a", "--run", "r", "--benchmark", "none", *mapped()).code == 0
    made = _made(tmp_path, ["r"])
    readme = (made / "README.md").read_text()
    assert "The questions and replies of r were brought from files of csv. Find out under which terms" in readme
    assert "`runs/r/`: a, replies to questions, collected by csv" in readme
    assert not (made / "LICENSE-data").exists()
    assert (made / "citation.bib").read_text().count("@") == 1
    assert _recompute(made, "--here")[0] == 0
    asked = ("--benchmark", "bigtom", "--path", ROOT / "tests/data/bigtom_small.csv", "--strategy", "vanilla")
    assert cli("eval", *asked, "--run", "b", "--base-url", endpoint.url, "--limit", 4).code in (0, 1)
    made = _made(tmp_path / "b", ["b"])
    readme = (made / "README.md").read_text()
    assert "github.com/cicl-stanford/procedural-evals-tom (licence: MIT). Find out" in readme
    assert "arXiv:2306.15448" in readme
    assert str(ROOT) not in (made / "runs/b/manifest.json").read_text()


def test_what_is_refused(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    one, other = copied_example(tmp_path / "a"), copied_example(tmp_path / "b")
    out = ("--out", tmp_path / "x.zip")

    def refused(*options: object) -> str:
        done = cli("export", "artefact", *options)
        assert (done.code, done.out) == (2, ""), done.err
        assert done.err.count("\n") == 1, done.err
        assert not (tmp_path / "x.zip").exists()
        return str(done.err)

    assert "name the runs" in refused(*out)
    assert "two runs are called 'example'; rename the folder of one" in refused(one, other, *out)
    assert "an artefact holds runs" in refused(tmp_path / "scores.csv", *out)
    divided_example(tmp_path / "runs")
    assert "`tomserve merge mine` joins them" in refused("mine", *out)
    assert "belongs to the run" in refused(one, "--out", one / "responses.jsonl")
    assert "--label" in refused(one, "--label", "nobody=x", *out)
    assert "cannot be read" in refused(one, "--wheel", tmp_path / "missing.whl", *out)
    (tmp_path / "no.whl").write_bytes(b"PK")
    assert f"is no wheel of tomserve {__version__}" in refused(one, "--wheel", tmp_path / "no.whl", *out)
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
    with taken([str(run)]) as copies:
        assert copies.names == ["example"]
        (said,) = copies.said
        assert "responses.jsonl: names your home folder" in said
        assert (copies.root / "example/responses.jsonl").read_bytes() == journal.read_bytes()
    assert not copies.root.exists()
    assert portable(["/home/ann2/x", "/home/ann", 3, None], [("/home/ann", "~")]) == ["/home/ann2/x", "~", 3, None]
    with pytest.raises(ConfigError, match="no run there"), taken([str(tmp_path / "nothing")]):
        pass


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tomserve's wheel, built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    built = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, str(ROOT)]
    subprocess.run(built, check=True, cwd=folder)
    (made,) = folder.glob("tomserve-*.whl")
    return made


@pytest.mark.timeout(600)
def test_the_tables_are_computed_again_offline_in_a_new_environment(wheel: Path, place: Path, tmp_path: Path) -> None:
    """With the exact packages, whose digests pip checks, and tomserve's wheel from the artefact itself. Once they are
    installed, the network is refused."""
    made = _made(tmp_path, [str(place / "runs/example")], wheel=wheel)
    (made / "requirements.txt").write_text("nothing-of-an-artefact-is-installed==1\n")
    _summed(made)
    about = recompute.read_record(made)
    assert about["wheel"] == wheel.name
    assert (
        f"    python recompute.py --wheel {wheel.name}     # in a new environment" in (made / "README.md").read_text()
    )
    assert list(recompute.digests(made)) == []
    python = recompute.environment(tmp_path / "new", about["tomserve"], tmp_path, made / about["wheel"])
    (site,) = (tmp_path / "new").glob("lib/python*/site-packages")
    assert not list(site.glob("pytest*")), "nothing of this environment is seen"
    (site / "sitecustomize.py").write_text(OFFLINE)
    reach = "import socket; socket.create_connection(('127.0.0.1', 9))"
    tried = subprocess.run([python, "-I", "-c", reach], capture_output=True, text=True, check=False)
    assert "the network is not to be used" in tried.stderr
    (tmp_path / "scratch").mkdir()
    found = recompute.compute([python, "-I"], made, about, tmp_path / "scratch")
    assert list(recompute.compared(made / "tables/csv", found)) == []
    assert len(list(found.glob("*.csv"))) > 10
    journal = made / "runs/example/responses.jsonl"
    rows = [orjson.loads(line) for line in journal.read_bytes().splitlines()]
    journal.write_bytes(b"".join(orjson.dumps(row | {"text": "unknown"}) + b"\n" for row in rows))
    shutil.rmtree(tmp_path / "scratch")
    (tmp_path / "scratch").mkdir()
    assert list(
        recompute.compared(made / "tables/csv", recompute.compute([python, "-I"], made, about, tmp_path / "scratch"))
    )


def test_a_merged_run_is_handed_on_and_computed_again(cli: Any, tmp_path: Path) -> None:
    """Its manifest names the parts that it was joined from, and none of them is needed."""
    runs = tmp_path / "runs"
    divided_example(runs, name="whole")
    merged = cli("merge", "whole")
    assert merged.code == 0, merged.err
    shutil.rmtree(runs / "whole.parts")
    done = cli("export", "artefact", "whole", "--out", tmp_path / "a.zip")
    assert done.code == 0, done.err
    with zipfile.ZipFile(tmp_path / "a.zip") as held:
        held.extractall(tmp_path / "made")
        assert str(tmp_path).encode() not in b"".join(held.read(name) for name in held.namelist())
    assert _recompute(tmp_path / "made", "--here") == (0, "digests: 0 wrong\ntables: 0 differences\n")
