"""The manifest as a typed object, and what a run's rows tell of conversations of several turns.
A run folder from somebody else brings no program, and no name in it is taken for the path of one.
Changed copies of real runs are read by the commands that read runs: bench/fuzz.py, some hundred times."""

import functools
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import polars as pl
import pytest

import tomserve
from tests.conftest import ROOT, Endpoint, make_item
from tests.helpers.examples import change_manifest
from tests.helpers.measurements import measured_run, study
from tests.helpers.outcomes import passes, refuses_in_a_line
from tests.helpers.reports import run_folder
from tests.helpers.talking import FAN_OUT, write_strategy
from tomserve.content.files import digest_bytes
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.prompting.strategy import Strategy
from tomserve.runs.evaluation import open_evaluation
from tomserve.runs.manifest import AskedStrategy, Manifest
from tomserve.runs.planning import EvalOptions
from tomserve.runs.runfolder import RunFolder

EXAMPLE = ROOT / "runs/example/manifest.json"


def test_what_is_read_is_written_again_with_fields_nobody_knows_yet(tmp_path: Path) -> None:
    given = orjson.loads(EXAMPLE.read_bytes())
    given["shard"] = {"index": 1, "of": 4}
    given["sessions"][0]["cost"] = 2.5
    given["strategies"]["cot"]["program"] = "sha256:1"
    (tmp_path / "manifest.json").write_bytes(orjson.dumps(given))
    found = Manifest.read(tmp_path)
    assert found.to_dict() == given
    with RunFolder(tmp_path) as folder:
        folder.write_manifest(found)
    assert orjson.loads((tmp_path / "manifest.json").read_bytes()) == given


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"strategies": {"cot": {"digest": 5}}}, "strategies.cot.digest: expected a text; found 5; restore the file"),
        ({"sessions": [{"concurrency": "many"}]}, "sessions.0.concurrency: expected a whole number; found 'many'"),
        ({"complete": "yes"}, "complete: expected true or false; found 'yes'"),
        ({"benchmark": "left out"}, "benchmark: is missing; expected a text; restore the file"),
        ({"sampling": {"model": "other"}}, "sampling: model: tomserve sets this field of a request itself"),
        ({"settings": {"search": [1]}}, "settings: search: expected the budget and the seed of a search"),
        ({"later": functools.reduce(lambda inner, _: [inner], range(220), 0)}, r"not JSON \(nested too deeply\)"),
        ({"schema": 2}, "schema is not 1; it was written by another version"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_named(tmp_path: Path, change: dict, said: str) -> None:
    manifest = {**orjson.loads(EXAMPLE.read_bytes()), **change}
    kept = {name: value for name, value in manifest.items() if value != "left out"}
    (tmp_path / "manifest.json").write_bytes(orjson.dumps(kept))
    with pytest.raises(ConfigError, match=f"manifest.json(:1)?: {said}"):
        Manifest.read(tmp_path)


def test_turns_are_recorded_only_where_there_are_several(tmp_path: Path) -> None:
    assert AskedStrategy.of(Strategy.load("vanilla")).model_fields_set == {"digest", "max_tokens", "chain"}
    two = Strategy(write_strategy(tmp_path / "two", 2))
    assert AskedStrategy.of(two).model_dump(exclude_unset=True)["turns"] == 2
    program = Strategy(write_strategy(tmp_path / "free", 3, FAN_OUT))
    assert AskedStrategy.of(program).model_dump(exclude_unset=True)["turns"] == 0, "only its program knows"


# two turns: the journal is written by hand


def row(item: str, turn: int, status: str = "ok", text: str | None = '{"answer": "tea"}', **more: object) -> bytes:
    fields = {"schema": 1, "item": item, "strategy": "talk", "turn": turn, "key": f"{item}{turn}", "status": status}
    closes = {"closes": 2} if turn == 1 and status == "ok" else {}
    return orjson.dumps({**fields, "text": text, **closes, **more}) + b"\n"


@pytest.fixture
def conversations(tmp_path: Path, endpoint: Endpoint) -> Path:
    """A run of seven questions: both turns answered, the last missing, the last failed, the first failed, nothing; the
    last right after a wrong first one; the first refused."""
    folder = tmp_path / "runs/talk"
    folder.mkdir(parents=True)
    items = [make_item(number) for number in range(1, 8)]
    write_items(folder / "items.jsonl", items)
    wrong = '{"answer": "salt"}'
    lines = [row("demo/1", 0), row("demo/1", 1), row("demo/2", 0), row("demo/3", 0), row("demo/3", 1, "timeout", None)]
    lines += [row("demo/4", 0, "http_500", None), row("demo/6", 0, text=wrong), row("demo/6", 1)]
    lines += [row("demo/7", 0, "refusal", "No.", closes=1)]
    write_strategy(tmp_path / "talk", 2)
    with open_evaluation(options(endpoint, items, tmp_path)) as evaluation:
        evaluation.save()
    (folder / "responses.jsonl").write_bytes(b"".join(lines))
    return folder


def options(endpoint: Endpoint, items: list[tomserve.Item], tmp_path: Path) -> EvalOptions:
    asked = (str(tmp_path / "talk"),)
    return EvalOptions("demo", tuple(items), strategies=asked, base_urls=(endpoint.url,), run="talk")


def test_only_a_finished_conversation_is_scored(conversations: Path) -> None:
    scores = tomserve.load_scores("talk").sort("item")
    assert scores.select("item", "status", "answer", "correct").rows() == [
        ("demo/1", "ok", "tea", True),
        ("demo/2", "unfinished", None, False),
        ("demo/3", "unfinished", None, False),
        ("demo/4", "unfinished", None, False),
        ("demo/6", "ok", "tea", True),
        ("demo/7", "refusal", None, False),
    ]
    total = tomserve.analyze(scores, "accuracy")["accuracy"]
    assert total.select("correct", "total").row(0) == (2, 6), "an unfinished one counts as a failure"


def test_every_turn_counts_for_what_is_left(conversations: Path, endpoint: Endpoint, tmp_path: Path) -> None:
    items = list(tomserve.read_items(conversations / "items.jsonl"))
    with open_evaluation(options(endpoint, items, tmp_path)) as evaluation:
        phase = next(evaluation.phases())
        left = [("demo/2", 1), ("demo/3", 1), *((f"demo/{number}", turn) for number in (4, 5) for turn in (0, 1))]
        assert phase.count() == (6, 13, 0, True), "a refusal of the first turn spares the second"
        assert evaluation.complete() is False
        assert evaluation.result().total == 13
        assert evaluation.result().failures == {"http_500": 1, "refusal": 1, "timeout": 1, "unfinished": 1}
    with (conversations / "responses.jsonl").open("ab") as file:
        file.writelines(row(*turn) for turn in left)
    with open_evaluation(options(endpoint, items, tmp_path)) as evaluation:
        assert next(evaluation.phases()).count().left == 0
        assert (evaluation.complete(), evaluation.result().failures) == (True, {"refusal": 1})


RAN = "import pathlib\npathlib.Path({!r}).touch()\n"


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    items = [make_item(n) for n in range(3)]
    return run_folder(tmp_path / "runs/r", {"cot": {item.id: {"text": "tea"} for item in items}}, items)


def test_the_name_of_a_benchmark_is_no_path(cli, run: Path, ran: Path, tmp_path: Path) -> None:
    planted = run / "own.py"
    planted.write_text(RAN.format(str(ran)))
    for name in (str(planted), "./own.py"):
        change_manifest(run, benchmark=name)
        refuses_in_a_line(cli("score", run, "--gold", "current", "--out", tmp_path / "s.csv"), "is none of tomserve's")
    assert cli("score", run).code in (0, 1)
    assert not ran.exists()


def test_a_manifest_opens_no_file_that_the_user_has_not_named(
    cli, run: Path, endpoint: Endpoint, items_file: Path, tmp_path: Path
) -> None:
    current, out = ("--gold", "current", "--out", tmp_path / "s.csv"), tmp_path / "s.csv"
    change_manifest(run, benchmark="items", benchmark_path=str(items_file))
    refuses_in_a_line(cli("score", run, *current), "benchmark_path: names", "so give it by --path")
    assert not out.exists()
    passes(cli("score", run, *current, "--path", items_file))
    passes(cli("eval", "--benchmark", "items", "--path", items_file, "--base-url", endpoint.url, "--run", "own"))
    passes(cli("score", "own", *current))
    passes(cli("score", run, *current))
    refuses_in_a_line(cli("score", run, "--path", items_file), "--path belongs to --responses FILE or --gold current")


@pytest.mark.parametrize("name", ["../evil", "./evil/", "..", "", "a\nb", "a\x1b[2Jb", "x" * 300])
def test_the_name_of_a_strategy_is_a_name(run: Path, name: str) -> None:
    change_manifest(run, strategies={name: {"digest": "sha256:0", "max_tokens": 64}})
    with pytest.raises(ConfigError, match=r"manifest\.json: strategies: .*is no name of a strategy"):
        Manifest.read(run)


def test_the_name_of_a_strategy_is_no_path(cli, run: Path, ran: Path, tmp_path: Path) -> None:
    folder = write_strategy(tmp_path / "evil", 2, RAN.format(str(ran)) + "def program(item, ask):\n    yield\n")
    change_manifest(run, strategies={f"{folder}/": {"digest": "sha256:0", "max_tokens": 64}})
    for command in (("faithfulness", run, "--plan"), ("score", run), ("analyze", run), ("report", run), ("runs", run)):
        refuses_in_a_line(cli(*command), "is no name of a strategy")
    assert not ran.exists()
    assert Strategy.load(str(folder)).name == "evil", "who gives the path himself means it"
    with pytest.raises(ConfigError, match="unknown strategy"):
        Strategy.named(str(folder))


def test_no_server_is_started_for_a_folder_file_or_model_of_the_hub_that_a_run_names(
    run: Path, tmp_path: Path, monkeypatch
) -> None:
    from types import SimpleNamespace

    from tomserve.faithfulness import model_access
    from tomserve.faithfulness.settings import Connection
    from tomserve.serving.probe import WaitPolicy

    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs/weights").mkdir(parents=True)
    shutil.copy(ROOT / "launch/models/reference.yaml", tmp_path / "theirs")
    theirs = ("theirs/weights", "theirs/reference.yaml", "theirs/weights/../reference.yaml")
    for field in ("model", "preset"):
        for place in (str(tmp_path), "./weights", "../weights", "~/weights", "org/model", *theirs):
            change_manifest(run, **{field: place})
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
    monkeypatch.setenv("TOMSERVE_CONTENT", "")
    assert "note: " not in cli(*analyze, "--content", ROOT).err, "what came installed"


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

    pl.DataFrame({"correct": [True]}).write_parquet(tmp_path / "table.parquet")
    monkeypatch.setattr(pl, "scan_parquet", panics)
    with pytest.raises(ConfigError, match=r"table.parquet: not a parquet table \(offset"):
        tomserve.load_scores(tmp_path / "table.parquet")


def test_a_table_of_few_bytes_does_not_fill_the_memory(cli, run: Path, tmp_path: Path) -> None:
    column = pl.repeat(True, 60_000_000, dtype=pl.Boolean, eager=True)
    for path in (tmp_path / "table.parquet", run / "scores.parquet"):
        pl.DataFrame({"correct": column}).write_parquet(path)
    refuses_in_a_line(cli("analyze", tmp_path / "table.parquet"), "says that it holds 60,000,000 values, more than ")
    assert "says that it holds 60,000,000 values" in cli("verify", run).out


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
        change_manifest(folder, table={**manifest["table"], "digest": digest_bytes(path.read_bytes())})
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
