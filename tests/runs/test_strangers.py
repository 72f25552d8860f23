"""A run folder from somebody else brings no program, and no name in it is taken for the path of one.
Changed copies of real runs are read by the commands that read runs: bench/fuzz.py, some hundred times."""

import subprocess
import sys
from pathlib import Path

import orjson
import polars as pl
import pytest

import tomserve
from tests.conftest import ROOT, Endpoint, make_item
from tests.helpers.measurements import measured_run, study
from tests.helpers.outcomes import passes, refuses_in_a_line
from tests.helpers.reports import run_folder
from tests.helpers.talking import write_strategy
from tomserve.content.files import digest_bytes
from tomserve.errors import ConfigError
from tomserve.prompting.strategy import Strategy
from tomserve.runs.manifest import Manifest

RAN = "import pathlib\npathlib.Path({!r}).touch()\n"


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    items = [make_item(n) for n in range(3)]
    return run_folder(tmp_path / "runs/r", {"cot": {item.id: {"text": "tea"} for item in items}}, items)


def changed(run: Path, **fields: object) -> None:
    manifest = orjson.loads((run / "manifest.json").read_bytes())
    (run / "manifest.json").write_bytes(orjson.dumps({**manifest, **fields}))


def test_the_name_of_a_benchmark_is_no_path(cli, run: Path, ran: Path, tmp_path: Path) -> None:
    planted = run / "own.py"
    planted.write_text(RAN.format(str(ran)))
    for name in (str(planted), "./own.py"):
        changed(run, benchmark=name)
        refuses_in_a_line(cli("score", run, "--gold", "current", "--out", tmp_path / "s.csv"), "is none of tomserve's")
    assert cli("score", run).code in (0, 1)
    assert not ran.exists()


def test_a_manifest_opens_no_file_that_the_user_has_not_named(
    cli, run: Path, endpoint: Endpoint, items_file: Path, tmp_path: Path
) -> None:
    current, out = ("--gold", "current", "--out", tmp_path / "s.csv"), tmp_path / "s.csv"
    changed(run, benchmark="items", benchmark_path=str(items_file))
    refuses_in_a_line(cli("score", run, *current), "benchmark_path: names", "so give it by --path")
    assert not out.exists()
    passes(cli("score", run, *current, "--path", items_file))
    passes(cli("eval", "--benchmark", "items", "--path", items_file, "--base-url", endpoint.url, "--run", "own"))
    passes(cli("score", "own", *current))
    passes(cli("score", run, *current))
    refuses_in_a_line(cli("score", run, "--path", items_file), "--path belongs to --responses FILE or --gold current")


@pytest.mark.parametrize("name", ["../evil", "./evil/", "..", "", "a\nb", "a\x1b[2Jb", "x" * 300])
def test_the_name_of_a_strategy_is_a_name(run: Path, name: str) -> None:
    changed(run, strategies={name: {"digest": "sha256:0", "max_tokens": 64}})
    with pytest.raises(ConfigError, match=r"manifest\.json: strategies: .*is no name of a strategy"):
        Manifest.read(run)


def test_the_name_of_a_strategy_is_no_path(cli, run: Path, ran: Path, tmp_path: Path) -> None:
    folder = write_strategy(tmp_path / "evil", 2, RAN.format(str(ran)) + "def program(item, ask):\n    yield\n")
    changed(run, strategies={f"{folder}/": {"digest": "sha256:0", "max_tokens": 64}})
    for command in (("faithfulness", run, "--plan"), ("score", run), ("analyze", run), ("report", run), ("runs", run)):
        refuses_in_a_line(cli(*command), "is no name of a strategy")
    assert not ran.exists()
    assert Strategy.load(str(folder)).name == "evil", "who gives the path himself means it"
    with pytest.raises(ConfigError, match="unknown strategy"):
        Strategy.named(str(folder))


def test_no_server_is_started_for_a_folder_that_a_run_names(cli, run: Path, tmp_path: Path) -> None:
    from types import SimpleNamespace

    from tomserve.faithfulness import model_access
    from tomserve.faithfulness.settings import Connection
    from tomserve.serving.probe import WaitPolicy

    for field in ("model", "preset"):
        for place in (str(tmp_path), "./weights", "../weights", "~/weights"):
            changed(run, **{field: place})
            source = SimpleNamespace(folder=run, manifest=Manifest.read(run))
            with pytest.raises(ConfigError, match="is running; run `make serve"):
                model_access.choose_server(source, Connection(), WaitPolicy())  # type: ignore[arg-type]  # no other part of it is read


def test_a_file_that_is_one_long_hole_is_refused_before_it_is_read(cli, run: Path) -> None:
    for name in ("manifest.json", "items.jsonl", "responses.jsonl", "noise.jsonl", "scores.parquet"):
        there = (run / name).read_bytes() if (run / name).exists() else None
        with (run / name).open("wb") as file:
            file.truncate(1 << 40)
        refuses_in_a_line(cli("analyze", run), f"{name}: is 1,048,576 MB long, of which ")
        (run / name).unlink()
        if there is not None:
            (run / name).write_bytes(there)


def test_a_line_without_an_end_is_refused(cli, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tomserve.content.files.LONGEST_LINE", 1 << 20)
    for name in ("items.jsonl", "responses.jsonl"):
        there = (run / name).read_bytes()
        (run / name).write_bytes(there + b'{"x":"' + b"a" * 5_000_000)
        refuses_in_a_line(cli("score", run), f"{name}:4: this line has more than 1 MB")
        (run / name).write_bytes(there)
    (run / "manifest.json").write_bytes(b'{"schema": 1, "x": "' + b"a" * 5_000_000)
    assert "manifest.json: has more than 1 MB" in cli("score", run).err


FACTORS = (
    *("*", "^.*$", "^a$", "", "a b", "a\nb", "a\x1b[2Jb", "a/b", "\u202eb", "a\u200bb", "x" * 101, "a:b", "%s", "=1+1"),
)


def test_a_factor_is_called_by_letters_and_digits(cli, run: Path, endpoint: Endpoint, tmp_path: Path) -> None:
    """Other names would crash the scoring after everything was asked, or choose other columns."""
    for name in FACTORS:
        with pytest.raises(ValueError, match=r"expected a name of 1 to 100 letters, digits, '_', '-' and '\.'"):
            make_item(1, factors={name: "a"})
    line = orjson.loads(make_item(7).to_json()) | {"factors": {"*": "a"}}
    own = tmp_path / "own.jsonl"
    own.write_bytes(orjson.dumps(line) + b"\n")
    refuses_in_a_line(cli("eval", "--benchmark", "items", "--path", own, "--base-url", endpoint.url, "--run", "new"))
    assert endpoint.requests == []
    with (run / "items.jsonl").open("ab") as items:  # nobody has answered it
        items.write(orjson.dumps(line) + b"\n")
    refuses_in_a_line(cli("score", run), "items.jsonl:4: factors: factor ")


def test_good_names_of_factors() -> None:
    for name in ("order", "n", "x_1", "a-b", "a.b", "人称", "größe", "literal", "len", "index", "x" * 100):
        assert make_item(1, factors={name: 1}).factors == {name: 1}


def test_programs_of_a_content_folder_are_named_once(cli, run: Path, tmp_path: Path, monkeypatch) -> None:
    folder = study(tmp_path / "content")
    told = f"note: {folder} holds studies, which are programs and run with your rights: analysis/depths.py\n"
    analyze = ("analyze", run, "--study", "accuracy", "--format", "csv")
    assert cli(*analyze, "--content", folder).err.count(told) == 1
    assert told not in cli("score", run, "--content", folder).err
    monkeypatch.setenv("TOMSERVE_CONTENT", "")
    assert "note: " not in cli(*analyze, "--content", ROOT).err, "what came installed"
    done = cli("doctor", "--content", folder)
    assert "programs in the first, which are run with your rights: analysis/depths.py" in " ".join(done.out.split())


WRONG = (
    pl.Series([b"\xff\x00"] * 3),
    pl.Series([{"a": 1}] * 3),
    pl.Series([1] * 3).cast(pl.Duration),
    pl.Series([1] * 3).cast(pl.Time),
)


@pytest.mark.parametrize("name", ["correct", "item", "status", "kind", "samples", "chain_path_proper", "answer"])
def test_a_strangers_table_holds_what_can_be_read(tmp_path: Path, name: str) -> None:
    rows = {"model": ["m"] * 3, "strategy": ["s"] * 3, "item": list("abc"), "status": ["ok"] * 3, "correct": [True] * 3}
    table = tmp_path / "table.parquet"
    for values in WRONG:
        pl.DataFrame({**rows, name: values}).write_parquet(table)
        with pytest.raises(ConfigError, match=f"table.parquet: column '{name}' is "):
            tomserve.load_scores(table)


def test_a_table_at_which_polars_panics_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panics(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("offset + length <= self.length")

    (tmp_path / "table.parquet").touch()
    monkeypatch.setattr(pl, "read_parquet", panics)
    with pytest.raises(ConfigError, match=r"table.parquet: not a parquet table \(offset"):
        tomserve.load_scores(tmp_path / "table.parquet")


def test_the_columns_of_a_strangers_table_are_names(cli, tmp_path: Path) -> None:
    rows = {"model": ["m"] * 3, "strategy": ["s"] * 3, "item": list("abc"), "correct": [True] * 3}
    for name in ("*", "^.*$", "^item$", "", "a\x1b[2Jb", "\u202eb", "x" * 300):
        frame = pl.DataFrame({**rows, name: ["x"] * 3})
        for suffix, write in (
            *((".parquet", frame.write_parquet), (".csv", frame.write_csv), (".jsonl", frame.write_ndjson)),
        ):
            write(table := tmp_path / f"table{suffix}")
            with pytest.raises(ConfigError, match="a column is called "):
                tomserve.load_scores(table)
    refuses_in_a_line(cli("analyze", table))


def test_a_measured_table_holds_what_can_be_read(tmp_path: Path) -> None:
    folder = measured_run(tmp_path / "runs/deep")
    path = folder / "scores.parquet"
    for column in (pl.Series("kind", [b"a"] * 26), pl.Series("*", [1] * 26), pl.Series("", [1] * 26)):
        before = path.read_bytes()
        pl.read_parquet(path).with_columns(column).write_parquet(path)
        manifest = orjson.loads((folder / "manifest.json").read_bytes())
        changed(folder, table={**manifest["table"], "digest": digest_bytes(path.read_bytes())})
        with pytest.raises(ConfigError, match=r"scores.parquet: (column 'kind' is Binary|a column is called )"):
            tomserve.load_scores(folder)
        path.write_bytes(before)


def test_an_error_of_a_foreign_response_is_text(run: Path) -> None:
    notes: list[str] = []
    rows = [{"item": f"demo/{n}", "text": "tea", "error": error} for n, error in enumerate((7, {"a": 1}, None))]
    scores = tomserve.score(rows, [make_item(n) for n in range(3)], note=notes.append)
    assert scores["item"].to_list() == ["demo/2"]
    assert "2 with an error that is no text (line 1)" in notes[0]


@pytest.mark.long
@pytest.mark.parametrize(("first", "folders", "some"), [(0, 180, 4), (20_000, 600, 1)])
def test_no_change_of_a_run_does_any_harm(first: int, folders: int, some: int) -> None:
    """Of the first seeds, eight did harm before it was mended."""
    command = [sys.executable, "bench/fuzz.py", "--first", first, "--folders", folders, "--some", some]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
