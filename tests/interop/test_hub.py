"""Folders for a dataset hub: read by the real `datasets` and `mlcroissant`, offline; licences, canaries, what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from tests.conftest import ROOT, make_item
from tests.helpers.examples import copied_example, copied_run, shortened
from tests.helpers.foreign_files import mapped, sheet
from tests.helpers.outcomes import passes, refuses
from tests.helpers.reports import run_folder
from tomserve import benchmarks
from tomserve.interop import artefact, hub
from tomserve.items import write_items

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
    assert [one["name"] for one in croissant["recordSet"]] == list(tables)
    for (name, frame), records in zip(tables.items(), croissant["recordSet"], strict=True):
        assert frame.height > 0
        assert [one["name"] for one in records["field"]] == frame.columns
        assert f"## {name}: {frame.height:,} rows" in card
        assert all(f"| `{column}` |" in card for column in frame.columns)
        assert frame["canary"].null_count() == 0
        assert all("do not train on it" in one and f"```text\n{one}\n```" in card for one in frame["canary"].unique())
    assert "must not be used to train models" in (folder / "LICENSE").read_text()
    assert not [path for path in folder.rglob("*") if path.suffix == ".part"]
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
    assert worlds["url"] == worlds["date_published"] == "None", "nobody knows yet where and when it will be published"
    assert [one for one in worlds["warnings"] if "datePublished" not in one] == []
    assert (run["warnings"], run["url"]) == ([], "https://example.org/x")
    assert _front(tmp_path / "worlds")[0]["size_categories"] == ["10K<n<100K"]


def test_a_benchmark_of_ours_says_what_it_is(cli, tmp_path: Path) -> None:
    folder = tmp_path / "hitom"
    done = cli("export", "hub", "--benchmark", "hitom", "--out", folder)
    assert (done.code, done.err) == (0, ""), done.err
    items = _fits(folder)["items"]
    front, card = _front(folder)
    assert (front["license"], front["language"], front["size_categories"]) == ("cc-by-4.0", ["en"], ["n<1K"])
    assert "theory-of-mind" in front["tags"]
    assert (folder / "LICENSE").read_text().startswith((ROOT / "dataset/LICENSE").read_text().rstrip())
    assert "Section 1 -- Definitions" in (folder / "LICENSE").read_text()
    assert items.height == 600
    assert items[0, "answer"] in items[0, "choices"]
    assert isinstance(items[0, "story"], pl.Series)
    assert "tomserve, with its version and the digest above" in card
    assert "arXiv:2310.16755" in card


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
    front, card = _front(tmp_path / "one")
    assert front["pretty_name"] == "A | title of two lines"
    assert "With the replies of the run example." in card
    assert "arXiv:2602.22072" in card
    croissant = json.loads((tmp_path / "one/croissant.json").read_text())
    assert (croissant["url"], croissant["datePublished"]) == ("https://example.org/x", "2026-11-30")
    again = cli("export", "hub", "--benchmark", "hitom", "--out", tmp_path / "one")
    assert again.code == 2
    assert "replies.parquet: is no table of this dataset, and would be published with it" in again.err


def test_many_rows_are_written_in_parts_that_give_the_same_bytes(tmp_path: Path) -> None:
    schema = {"number": pl.Int64, "text": pl.String, "list": pl.List(pl.String)}
    made = []
    for name in ("a.parquet", "b.parquet"):
        rows = ({"number": n, "text": "x" * (n % 50), "list": [str(n)] * (n % 3)} for n in range(25_001))
        assert hub._write_rows(rows, schema, tmp_path / name) == 25_001
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
    frame = pl.read_parquet(tmp_path / "a.parquet")
    assert frame["number"].to_list() == list(range(25_001))
    assert frame.schema == pl.Schema(schema)
    assert len(list(tmp_path.iterdir())) == 2


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
    assert "theory-of-mind" not in front["tags"]
    (canary,) = frame["canary"].unique()
    assert canary.startswith("tomserve-hub-")
    assert "under the licence mit" in (tmp_path / "pens/LICENSE").read_text()
    assert frame["factor_mixed"].to_list()[:4] == ["1", "2.5", "true", "x"]
    wanted = {"whole": pl.Int64, "real": pl.Float64, "flag": pl.Boolean, "none": pl.String, "many.words": pl.String}
    assert {name: frame.schema[f"factor_{name}"] for name in wanted} == wanted
    assert "| `factor_flag` | A factor of the design: false, true. |" in card


def test_imported_replies_need_a_licence_and_claim_nothing(cli, tmp_path: Path) -> None:
    file = sheet(tmp_path / "a.csv", "1101101011")
    assert cli("import", "csv", file, "--model", "a", "--run", "r", "--benchmark", "none", *mapped()).code == 0
    done = cli("export", "hub", "r", "--out", tmp_path / "out")
    assert done.code == 2
    assert "the questions and replies of r were brought from files of csv; say under which licence" in done.err
    assert cli("export", "hub", "r", "--out", tmp_path / "out", "--license", "cc-by-nc-4.0").code == 0
    items = _fits(tmp_path / "out")["items"]
    front, card = _front(tmp_path / "out")
    assert front["tags"] == ["evaluation", "croissant"]
    assert "language" not in front
    assert "1.0.0+sha256." in json.loads((tmp_path / "out/croissant.json").read_text())["version"]
    assert "The questions and replies of r were brought from files of csv." in card
    assert items[0, "choices"].to_list() == []


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
    refused = cli("export", "hub", one, other, "--out", tmp_path / "out")
    assert refused.code == 2
    assert "so that nobody could tell which one a reply answers; export them one by one" in refused.err
    refused = cli("export", "hub", other, "--benchmark", "perturbed", "--out", tmp_path / "out")
    assert refused.code == 2
    assert "is told otherwise by today's questions of perturbed; leave --benchmark out" in refused.err
    refused = cli("export", "hub", one, "--benchmark", "hitom", "--out", tmp_path / "out")
    assert "is not among today's questions of hitom" in refused.err
    assert not (tmp_path / "out").exists()
    passes(cli("export", "hub", one, "--benchmark", "perturbed", "--out", tmp_path / "out"))
    assert pl.read_parquet(tmp_path / "out/data/items.parquet").height == 1088


def test_what_cannot_be_written_is_said_in_a_line(cli, tmp_path: Path) -> None:
    folder = shortened(copied_example(tmp_path), 4)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "long").write_bytes(b"x" * (hub.MOST + 1))
    (tmp_path / "empty").write_text(" \n")
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
        ((folder, "--license", "mit", "--license-file", tmp_path / "empty"), "expected the text of a licence"),
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
    assert "belongs to the run" in cli("export", "hub", folder, "--out", folder / "work").err
    (tmp_path / "terms").write_text("You may look at it.\n")
    done = cli("export", "hub", folder, "--license", "mit", "--out", tmp_path / "o")
    assert done.code == 2
    assert "come with tomserve under cc-by-4.0, which nobody else can change; leave --license out" in done.err
    (tmp_path / "pens.py").write_text(OWN)
    terms = ("--license", "other", "--license-file", tmp_path / "terms")
    passes(cli("export", "hub", "--benchmark", tmp_path / "pens.py", *terms, "--out", tmp_path / "o"))
    assert (tmp_path / "o/LICENSE").read_text().startswith("You may look at it.")
    assert _front(tmp_path / "o")[0]["license_link"] == "LICENSE"
