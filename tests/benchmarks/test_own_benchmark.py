"""A benchmark in a file of one's own: asked, scored, analysed, and what its mistakes lead to."""

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT, Endpoint, Outcome
from tomserve import benchmarks, stability
from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError, ContentError, InapplicableError
from tomserve.items import Item
from tomserve.runs.scores import load_scores
from tomserve.scoring.metric import Metric

EXAMPLE = ROOT / "docs/examples/own_benchmark.py"
Cli = Callable[..., Outcome]

HEAD = """from tomserve.benchmarks import Benchmark
from tomserve.items import Item
FIELDS = {"story": ["Tea is in it."], "question": "What?", "choices": ["tea", "salt"], "answer": "tea"}
def load(path, gold):
    yield Item(id="1", **FIELDS)
"""


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that other tests loaded are unknown here."""
    monkeypatch.setattr(benchmarks, "_given", {})


def forget() -> None:
    """What a new process knows: no file's benchmark."""
    benchmarks._given.clear()


@pytest.fixture
def asked(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> Path:
    """The run folder of the example, asked by two strategies; then forgotten as by a new process."""
    done = cli("eval", "--benchmark", EXAMPLE, "--base-url", endpoint.url, "--quiet", "--no-report", "--run", "mine")
    assert done.code == 0, done.err
    forget()
    return tmp_path / "runs/mine"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.py"
    path.write_text(text)
    return path


def test_a_run_of_a_file_is_named_by_the_benchmark_and_has_its_metric(asked: Path) -> None:
    manifest = json.loads((asked / "manifest.json").read_text())
    assert manifest["benchmark"] == "keys"
    assert manifest["benchmark_file"]["name"] == "own_benchmark.py"
    assert manifest["benchmark_file"]["digest"].startswith("sha256:")
    assert str(EXAMPLE.parent) not in (asked / "manifest.json").read_text()
    scores = pl.read_parquet(asked / "scores.parquet")
    assert scores.height == 24
    assert scores.schema["metric_hedges"] == pl.Int64
    assert set(scores["metric_hedges"]) == {0}
    assert set(scores["benchmark"]) == {"keys"}
    assert "asked" in scores.columns


def test_its_metric_is_in_the_default_study_and_in_every_format(asked: Path, cli: Cli, tmp_path: Path) -> None:
    done = cli("analyze", asked)
    assert done.code == 0, done.err
    assert "metric_hedges" in done.out
    assert cli("analyze", asked, "--format", "csv", "--out", tmp_path / "t").code == 0
    table = pl.read_csv(tmp_path / "t/metrics.csv")
    assert table.select("strategy", "metric", "total", "answers", "mean").rows() == [
        ("cot", "metric_hedges", 12, 12, 0.0),
        ("vanilla", "metric_hedges", 12, 12, 0.0),
    ]
    done = cli("score", asked, "--benchmark", EXAMPLE, "--out", tmp_path / "s.csv")
    assert done.code == 0, done.err
    assert "metric_hedges" in load_scores(str(tmp_path / "s.csv")).columns


def test_without_the_file_the_standard_metrics_are_there_and_it_says_what_is_not(asked: Path, cli: Cli) -> None:
    (asked / "scores.parquet").unlink()
    done = cli("score", asked)
    assert done.code == 0, done.err
    assert "scored with the standard metrics alone" in done.err
    assert "--benchmark own_benchmark.py" in done.err
    scores = pl.read_parquet(asked / "scores.parquet")
    assert "metric_hedges" not in scores.columns
    assert scores["chain_lcs"].null_count() < scores.height
    done = cli("score", asked, "--benchmark", EXAMPLE)
    assert (done.code, done.err) == (0, "")
    assert "metric_hedges" in pl.read_parquet(asked / "scores.parquet").columns


def test_nothing_of_a_run_folder_is_run(asked: Path, cli: Cli, tmp_path: Path) -> None:
    planted = written(asked, f"open({str(tmp_path / 'was-run')!r}, 'w')\n{HEAD}BENCHMARK = Benchmark('keys', load)\n")
    manifest = json.loads((asked / "manifest.json").read_text())
    manifest["benchmark_file"] = {"name": "own.py", "path": str(planted), "digest": ""}
    (asked / "manifest.json").write_text(json.dumps(manifest))
    for command in (["score", asked], ["analyze", asked], ["report", asked], ["runs", asked]):
        assert cli(*command).code == 0
    done = cli("score", asked, "--gold", "current", "--out", tmp_path / "s.csv")
    assert done.code == 2
    assert "give it by --benchmark FILE.py" in done.err
    assert not (tmp_path / "was-run").exists()


def test_another_benchmarks_file_is_refused(asked: Path, cli: Cli, tmp_path: Path) -> None:
    done = cli("score", asked, "--benchmark", written(tmp_path, f"{HEAD}BENCHMARK = Benchmark('other', load)\n"))
    assert done.code == 2
    assert "asked the benchmark 'keys'" in done.err
    assert "declares 'other'" in done.err


def test_items_plan_and_other_tools_answers(cli: Cli, tmp_path: Path) -> None:
    assert cli("items", EXAMPLE, "--out", tmp_path / "i.jsonl").out == f"written: 12 items to {tmp_path / 'i.jsonl'}\n"
    assert "12 items, 1 model: 24 requests" in cli("plan", "--benchmark", EXAMPLE).out
    (tmp_path / "r.jsonl").write_text(
        '{"item": "keys/Nadia/drawer/Emil", "text": "Perhaps, maybe.\\nAnswer: jacket"}\n'
    )
    out = tmp_path / "s.parquet"
    done = cli("score", "--responses", tmp_path / "r.jsonl", "--benchmark", EXAMPLE, "--out", out)
    assert done.code == 0, done.err
    assert pl.read_parquet(out).select("correct", "metric_hedges").row(0) == (True, 2)


def test_it_may_bring_its_own_check(cli: Cli, tmp_path: Path) -> None:
    checks = (
        "from tomserve.benchmarks import Findings\n"
        "def validate(path, say):\n"
        "    say('looking ...')\n"
        "    return Findings(lines=('one problem',), code=1)\n"
    )
    path = written(tmp_path, f"{HEAD}{checks}BENCHMARK = Benchmark('mine', load, validate=validate)\n")
    done = cli("dataset", "validate", path)
    assert (done.code, done.out, done.err) == (1, "one problem\n", "looking ...\n")
    done = cli("dataset", "audit", path)
    assert done.code == 2
    assert "give its Benchmark a function `audit`" in done.err


def test_it_may_import_what_lies_beside_it_and_declare_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'mine'\n")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom beside import NAME\n"
        f"@dataclass\nclass Pair:\n    a: int\n{HEAD}BENCHMARK = Benchmark(NAME, load)\n"
    )
    found = benchmarks.get(str(written(tmp_path, text)))
    assert [item.benchmark for item in found.items()] == ["mine"]
    assert benchmarks.known("mine") == found


BAD = {
    "no such file": (None, r"benchmark '.*own\.py': no such file"),
    "not Python": ("x = 1\ndef (\n", r"own\.py:2: cannot be loaded \(SyntaxError"),
    "a failing import": ("import json\nimport nothing_of_that_name\n", r"own\.py:2: cannot be loaded \(ModuleNotFound"),
    "no BENCHMARK": (HEAD, r"own\.py: declares no BENCHMARK; expected .*BENCHMARK = Benchmark\(\"my_tasks\", load\)"),
    "another type": (
        f"{HEAD}BENCHMARK = {{'name': 'x'}}\n",
        r"own\.py: BENCHMARK is \{'name': 'x'\}; expected .*def load",
    ),
    "a bad name": (
        f"{HEAD}BENCHMARK = Benchmark('My tasks', load)\n",
        r"own\.py:6: cannot be loaded \(name is 'My tasks'",
    ),
    "a taken name": (
        f"{HEAD}BENCHMARK = Benchmark('hitom', load)\n",
        r"own\.py: the name 'hitom' is that of a built-in",
    ),
    "no function": (f"{HEAD}BENCHMARK = Benchmark('mine', [])\n", r"own\.py:6: .*load is \[\]; expected a function"),
    "strategies as text": (
        f"{HEAD}BENCHMARK = Benchmark('mine', load, strategies='cot')\n",
        r"own\.py:6: .*strategies is 'cot'; expected a tuple of names",
    ),
    "it ends the process": ("import sys\nsys.exit(0)\n", r"own\.py:2: cannot be loaded \(SystemExit"),
    "load fails": (
        f"{HEAD}    raise KeyError('z')\nBENCHMARK = Benchmark('mine', load)\n",
        r"own\.py:6: load failed after 1 items \(KeyError: 'z'\)",
    ),
    "a dict for an item": (
        f"{HEAD}    yield FIELDS\nBENCHMARK = Benchmark('mine', load)\n",
        r"own\.py: load gave \{'story'.* as item 2; expected a tomserve\.Item",
    ),
    "an item with a mistake": (
        f"{HEAD}    yield Item(id='2', **FIELDS | {{'answer': 'milk'}})\nBENCHMARK = Benchmark('mine', load)\n",
        r"own\.py:6: load failed after 1 items .*answer 'milk' is not among the choices",
    ),
    "an id twice": (
        f"{HEAD}    yield Item(id='1', **FIELDS)\nBENCHMARK = Benchmark('mine', load)\n",
        r"own\.py: load gave the item '1' twice, as item 1 and 2",
    ),
    "another benchmark's item": (
        f"{HEAD}    yield Item(id='2', benchmark='theirs', **FIELDS)\nBENCHMARK = Benchmark('mine', load)\n",
        r"own\.py: item '2' names the benchmark 'theirs'; leave it out or say 'mine'",
    ),
    "no items": (f"{HEAD}BENCHMARK = Benchmark('mine', lambda path, gold: iter(()))\n", r"own\.py: load gave no items"),
    "a column without its beginning": (
        f"{HEAD}from tomserve.scoring.metric import Metric\n"
        "BENCHMARK = Benchmark('mine', load, metrics=[Metric({'words': int}, len)])\n",
        r"own\.py:7: .*column 'words' of replies must begin with 'metric_'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_in_one_line(name: str, cli: Cli, tmp_path: Path) -> None:
    text, expected = BAD[name]
    path = tmp_path / "own.py" if text is None else written(tmp_path, text)
    done = cli("items", path)
    assert done.code == 2
    assert done.err.count("\n") == 1
    with pytest.raises(ConfigError, match=expected):
        list(benchmarks.load(str(path)))


METRICS = {
    "it fails": ("1 / 0", r"own\.py:\d+: the metric of metric_x failed for item '1' \(ZeroDivisionError"),
    "no dict": ("3", "item '1': found 3; expected a dict of metric_x"),
    "another column": ("{'metric_y': 1}", "column 'metric_y' was not declared; declared: metric_x"),
    "another type": ("{'metric_x': 'many'}", "column 'metric_x' is Int64; found values of type str"),
}


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_that_fails_is_told_in_one_line(name: str, cli: Cli, tmp_path: Path) -> None:
    given, expected = METRICS[name]
    text = (
        f"{HEAD}import polars as pl\nfrom tomserve.scoring.metric import Metric\ndef count(item, reading):\n"
        f"    return {given}\nBENCHMARK = Benchmark('mine', load, metrics=[Metric({{'metric_x': pl.Int64}}, count)])\n"
    )
    path = written(tmp_path, text)
    (tmp_path / "r.jsonl").write_text('{"item": "1", "text": "tea"}\n')
    done = cli("score", "--responses", tmp_path / "r.jsonl", "--benchmark", path, "--out", tmp_path / "s.csv")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert re.search(expected, done.err), done.err


def test_every_built_in_benchmark_declares_itself_by_its_name() -> None:
    assert {"hitom", "items", "perturbed", "perturbed-2", "worlds"} <= set(benchmarks.names())
    assert [benchmarks.get(name).name for name in benchmarks.names()] == benchmarks.names()
    assert benchmarks.get().name == benchmarks.DEFAULT
    assert benchmarks.known("somebody's") is None


def test_a_benchmark_made_in_python_needs_no_file() -> None:
    def load(path: Path | None, gold: str | None) -> Iterator[Item]:
        fields = {"story": ["Tea is in it."], "question": "What?", "choices": ["tea", "salt"], "answer": gold or "tea"}
        yield Item.model_validate({"id": "1", **fields})

    mine = Benchmark("mine", load, golds=("tea", "salt"))
    assert [item.answer for item in mine.items(None, "salt")] == ["salt"]
    with pytest.raises(ConfigError, match="--gold of benchmark 'mine'"):
        mine.items(None, "milk")
    with pytest.raises(ContentError, match="load gave no items"):
        list(Benchmark("none", lambda path, gold: iter(())).items())
    with pytest.raises(ConfigError, match="a metric declares no columns"):
        Benchmark("mine", load, metrics=(Metric({}, lambda item, reading: {}),))


def test_a_changed_file_makes_the_kept_scores_anew(asked: Path, cli: Cli, tmp_path: Path) -> None:
    """The kept table is believed by the digest of the file that computed it, as long as this process has the file."""
    changed = written(tmp_path, EXAMPLE.read_text().replace('"metric_hedges": sum(', '"metric_hedges": 7 + sum('))
    assert set(load_scores(str(asked))["metric_hedges"]) == {0}  # the file is not at hand: what is kept is the best
    benchmarks.get(str(changed))
    assert set(load_scores(str(asked))["metric_hedges"]) == {7}
    forget()
    assert set(load_scores(str(asked))["metric_hedges"]) == {7}
    benchmarks.get(str(EXAMPLE))
    assert set(load_scores(str(asked))["metric_hedges"]) == {0}


def test_a_report_shows_its_beliefs_where_the_file_is_given(asked: Path, cli: Cli, tmp_path: Path) -> None:
    extra = "BENCHMARK = replace(BENCHMARK, beliefs=lambda item: [('what the stayer sees', item.choices)])\n"
    own = written(tmp_path, f"from dataclasses import replace\n{EXAMPLE.read_text()}{extra}")
    pages = {}
    for name, more in (("without", ()), ("with", ("--benchmark", own))):
        done = cli("report", asked, "--out", tmp_path / f"{name}.html", *more)
        assert done.code == 0, done.err
        page = (tmp_path / f"{name}.html").read_text()
        found = re.search(r'id="data"[^>]*>([A-Za-z0-9+/=\s]+)<', page)
        assert found is not None
        pages[name] = json.loads(gzip.decompress(base64.b64decode(found[1])))["items"][0]["beliefs"]
    assert pages["without"] == []
    assert [heading for heading, _ in pages["with"]] == ["what the stayer sees"]


VARIANT = "from tomserve.stability import variant\n"
RETELLING = {
    "it fails": ("1 / 0", r"own\.py:7: retelling failed for person of '1' \(ZeroDivisionError"),
    "nothing": (
        "None",
        r"own\.py: retelling gave None as '1/person'; expected what tomserve\.stability\.variant makes",
    ),
    "the item itself": ("item", r"own\.py: retelling gave the item '1' as '1/person'"),
    "another kind": (
        "variant(item, kind, by='rules').model_copy(update={'factors': {'variant': 'mine'}})",
        r"own\.py: retelling gave the item '1/person' as '1/person'",
    ),
    "an empty story": (
        "variant(item, kind, by='rules', story=[])",
        r"own\.py:7: retelling failed for person of '1' .*",
    ),
    "too few choices": (
        "variant(item, kind, by='rules', choices=['x'])",
        r"own\.py:7: retelling failed for person of '1' \(ValueError",
    ),
    "an answer that is no choice": (
        "variant(item, kind, by='rules').model_copy(update={'answer': 'x', 'meanings': item.choices})",
        r"own\.py: retelling gave a bad item '1/person' .*answer 'x' is not among the choices",
    ),
}


@pytest.mark.parametrize("name", RETELLING)
def test_a_retelling_that_fails_is_told_in_one_line(name: str, cli: Cli, tmp_path: Path) -> None:
    given, expected = RETELLING[name]
    path = written(
        tmp_path,
        f"{HEAD}{VARIANT}BENCHMARK = Benchmark('mine', load, retelling=lambda p: lambda item, kind: {given})\n",
    )
    done = cli("items", path, "--variants", "person")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert re.search(expected, done.err)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("lambda path: 1 / 0", r"own\.py:7: retelling failed \(ZeroDiv"), ("lambda path: 3", r"own\.py: retelling gave 3; ex")],
)  # fmt: skip
def test_what_makes_a_retelling_may_fail_too(given: str, expected: str, cli: Cli, tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEAD}\nBENCHMARK = Benchmark('mine', load, retelling={given})\n")
    done = cli("items", path, "--variants", "person")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert re.search(expected, done.err)


def test_a_reason_for_no_variant_is_one_short_line(cli: Cli, tmp_path: Path) -> None:
    given = "(_ for _ in ()).throw(InapplicableError('too\\nlong ' * 100))"
    text = f"{HEAD}from tomserve.errors import InapplicableError\n"
    path = written(tmp_path, f"{text}BENCHMARK = Benchmark('mine', load, retelling=lambda p: lambda i, k: {given})\n")
    found = benchmarks.retelling(benchmarks.get(str(path)))("mine")
    with pytest.raises(InapplicableError) as raised:
        found(next(benchmarks.load(str(path))), stability.PERSON)
    assert str(raised.value) == ("too long " * 100)[:200]


CASES = (
    "from tomserve.benchmarks import Case, NoCase\n"
    "def tell(name, answer):\n"
    "    return Item(**{**FIELDS, 'id': name, 'base': None if name == 'f' else 'f', 'cluster': 'f', 'answer': answer})\n"
    "CASE = Case(tell('f', 'tea'), tell('p', 'tea'), tell('t', 'salt'), tell('u', 'salt'))\n"
    "BAD = Case(tell('f', 'tea'), tell('p', 'salt'), tell('t', 'salt'))\n"
)
GIVEN = {
    "it fails": ("[1 / 0]", r"own\.py:\d+: cases failed \(ZeroDivisionError"),
    "it fails later": ("(CASE if n else 1 / n for n in (1, 0))", r"own\.py:\d+: cases failed after 1 cases \(Zero"),
    "no iterator": ("3", r"own\.py: cases gave 3; expected an iterator of tomserve\.benchmarks\.Case"),
    "something else": ("['f']", r"own\.py: cases gave 'f'; expected a tomserve\.benchmarks\.Case"),
    "what is no case": ("[BAD]", r"own\.py: item 'p': its answer means 'salt'; expected 'tea', as of f"),
    "the same twice": ("[CASE, CASE]", r"own\.py: cases gave the item 'f' twice"),
    "nothing": ("[]", r"no question makes a case \(none is about a false belief\)"),
    "reasons alone": ("[NoCase(CASE.f, 'it is told badly')]", r"no question makes a case \(it is told badly: 1\)"),
}


def with_cases(tmp_path: Path, given: str) -> Benchmark:
    text = f"{HEAD}{CASES}BENCHMARK = Benchmark('mine', load, cases=lambda path, where: {given})\n"
    return benchmarks.get(str(written(tmp_path, text)))


@pytest.mark.parametrize("name", GIVEN)
def test_cases_that_are_wrong_are_told_in_one_line(name: str, tmp_path: Path) -> None:
    given, expected = GIVEN[name]
    with pytest.raises(ConfigError, match=expected) as refused:
        list(with_cases(tmp_path, given).found_cases())
    assert "\n" not in str(refused.value)


def test_cases_of_a_file_carry_the_name_of_its_benchmark(tmp_path: Path) -> None:
    (case,) = with_cases(tmp_path, "[CASE]").found_cases()
    assert case.twin is not None
    assert {one.benchmark for one in (case.f, case.own, case.own_twin, case.twin)} == {"mine"}


@pytest.mark.parametrize("field", [{"cases": 3}, {"usual_cases": "order=1"}, {"usual_cases": (1,)}])
def test_fields_about_cases_are_checked(field: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(field))):
        Benchmark("mine", lambda path, gold: iter(()), **field)  # type: ignore[arg-type]
