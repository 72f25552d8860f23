"""A benchmark in a file of one's own: asked, scored, analysed, and what its mistakes lead to."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT, Cli, Endpoint
from tests.helpers.outcomes import passes, refuses
from tests.helpers.scored import score_table
from tomserve import benchmarks
from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item
from tomserve.variants import PERSON, make_variants

EXAMPLE = ROOT / "docs/examples/own_benchmark.py"

HEAD = """from tomserve.benchmarks import Benchmark
from tomserve.items import Item
FIELDS = {"story": ["Tea is in it."], "question": "What?", "choices": ["tea", "salt"], "answer": "tea"}
def load(path, gold):
    yield Item(id="1", **FIELDS)
"""


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that other tests loaded are unknown here."""
    monkeypatch.setattr(benchmarks, "_loaded", {})


@pytest.fixture
def asked(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> Path:
    """The run folder of the example, asked by two strategies; then forgotten as by a new process."""
    passes(cli("eval", "--benchmark", EXAMPLE, "--base-url", endpoint.url, "--quiet", "--no-report", "--run", "mine"))
    benchmarks._loaded.clear()
    return tmp_path / "runs/mine"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.py"
    path.write_text(text)
    return path


def test_a_run_of_a_file_has_its_metric_and_runs_nothing_without_it(asked: Path, cli: Cli, tmp_path: Path) -> None:
    manifest = json.loads((asked / "manifest.json").read_text())
    assert (manifest["benchmark"], manifest["benchmark_file"]["name"]) == ("keys", "own_benchmark.py")
    assert manifest["benchmark_file"]["digest"].startswith("sha256:")
    assert str(EXAMPLE.parent) not in (asked / "manifest.json").read_text()
    scores = pl.read_parquet(asked / "scores.parquet")
    assert (scores.height, scores.schema["metric_hedges"], set(scores["benchmark"])) == (24, pl.Int64, {"keys"})
    planted = written(asked, f"open({str(tmp_path / 'was-run')!r}, 'w')\n{HEAD}BENCHMARK = Benchmark('keys', load)\n")
    manifest["benchmark_file"] = {"name": "own.py", "path": str(planted), "digest": ""}
    (asked / "manifest.json").write_text(json.dumps(manifest))
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "tomserve/scores")
    done = passes(cli("score", asked))
    assert "scored with the standard metrics alone" in done.err
    assert "metric_hedges" not in pl.read_parquet(asked / "scores.parquet").columns
    assert cli("analyze", asked).code == cli("report", asked).code == cli("runs", asked).code == 0
    refuses(cli("score", asked, "--gold", "current", "--out", tmp_path / "s.csv"), "give it by --benchmark FILE.py")
    assert not (tmp_path / "was-run").exists()
    other = refuses(
        cli("score", asked, "--benchmark", written(tmp_path, f"{HEAD}BENCHMARK = Benchmark('other', load)\n"))
    )
    assert re.search("asked the benchmark 'keys'.*declares 'other'", other.err)
    assert cli("score", asked, "--benchmark", EXAMPLE).code == 0
    assert "metric_hedges" in pl.read_parquet(asked / "scores.parquet").columns


def test_items_plan_other_tools_answers_and_its_own_check(cli: Cli, tmp_path: Path) -> None:
    assert cli("items", EXAMPLE, "--out", tmp_path / "i.jsonl").out == f"written: 12 items to {tmp_path / 'i.jsonl'}\n"
    assert "12 questions, 1 model: 24 requests" in cli("plan", "--benchmark", EXAMPLE).out
    reply = {"item": "keys/Nadia/drawer/Emil", "text": "Perhaps, maybe.\nAnswer: jacket"}
    (tmp_path / "r.jsonl").write_text(json.dumps(reply))
    out = tmp_path / "s.parquet"
    passes(cli("score", "--responses", tmp_path / "r.jsonl", "--benchmark", EXAMPLE, "--out", out))
    assert pl.read_parquet(out).select("correct", "metric_hedges").row(0) == (True, 2)
    checks = "from tomserve.benchmarks import Findings\ndef validate(path, say):\n    say('looking ...')\n"
    checks += "    return Findings(lines=('one problem',), code=1)\n"
    path = written(tmp_path, f"{HEAD}{checks}BENCHMARK = Benchmark('mine', load, validate=validate)\n")
    done = cli("dataset", "validate", path)
    assert (done.code, done.out, done.err) == (1, "one problem\n", "looking ...\n")
    refuses(cli("dataset", "audit", path), "give its Benchmark a function `audit`")


def test_a_benchmark_made_in_python_needs_no_file() -> None:
    def load(path: Path | None, gold: str | None) -> Iterator[Item]:
        fields = {"story": ["Tea is in it."], "question": "What?", "choices": ["tea", "salt"], "answer": gold or "tea"}
        yield Item.model_validate({"id": "1", **fields})

    mine = Benchmark("mine", load, golds=("tea", "salt"))
    assert [item.answer for item in mine.items(None, "salt")] == ["salt"]
    with pytest.raises(ConfigError, match=r"benchmark '.*own\.py': no such file"):
        benchmarks.get("/nowhere/own.py")
    with pytest.raises(ContentError, match="load gave no items"):
        list(Benchmark("none", lambda path, gold: iter(())).items())
    for field in ({"cases": 3}, {"usual_cases": "order=1"}, {"draw": 3}):
        with pytest.raises(ConfigError, match=next(iter(field))):
            Benchmark("mine", load, **field)  # type: ignore[arg-type]


CASES = """from tomserve.benchmarks import Case
def tell(name, answer):
    return Item(**{**FIELDS, 'id': name, 'base': None if name == 'f' else 'f', 'cluster': 'f', 'answer': answer})
CASE = Case(tell('f', 'tea'), tell('p', 'tea'), tell('t', 'salt'), tell('u', 'salt'))
BAD = Case(tell('f', 'tea'), tell('p', 'salt'), tell('t', 'salt'))
"""
METRIC = "import polars as pl\nfrom tomserve.scoring.metrics import Metric\n"
SAME = "from tomserve.variants import make_variant\n"
ACTS: dict[str, Callable[[Benchmark], object]] = {
    "load": lambda found: list(found.items()),
    "metrics": lambda found: score_table(
        "r", "m", [(item, TEA) for item in found.items()], rules=benchmarks.scoring_of
    ),
    "retelling": lambda found: list(make_variants(found.items(), [PERSON], benchmarks.retelling(found))),
    "cases": lambda found: list(found.found_cases()),
}
TEA = {"strategy": "s", "status": "ok", "text": "tea"}
WRONG = [
    ("load", "import json\nimport nothing_of_that_name\n", None, r"own\.py:2: cannot be loaded \(ModuleNotFound"),
    ("load", HEAD, None, r"own\.py: declares no BENCHMARK; expected .*BENCHMARK = Benchmark\(\"my_tasks\", load\)"),
    ("load", "", "'hitom', load", r"own\.py: the name 'hitom' is that of a built-in"),
    ("load", "", "'mine', load, strategies='cot'", r"own\.py:6: .*strategies is 'cot'; expected a tuple of names"),
    ("load", "    yield Item(id='2', **FIELDS | {'answer': 'milk'})\n", "'mine', load", r"own\.py:6: load failed after 1 items .*answer 'milk' is not among"),
    ("load", "    yield Item(id='1', **FIELDS)\n", "'mine', load", r"own\.py: load gave the item '1' twice, as item 1 and 2"),
    ("metrics", METRIC, "1 / 0", r"own\.py:\d+: the metric of metric_x failed for item '1' \(ZeroDivisionError"),
    ("metrics", METRIC, "{'metric_x': 'many'}", "column 'metric_x' is Int64; found values of type str"),
    ("retelling", SAME, "lambda item, kind: 1 / 0", r"own\.py:7: retelling failed for person of '1' \(ZeroDivisionError"),
    ("retelling", SAME, "lambda item, kind: make_variant(item, kind, by='rules').model_copy(update={'answer': 'x', 'meanings': item.choices})", r"own\.py: retelling gave a bad item '1/person' .*answer 'x' is not among the choices"),
    ("cases", CASES, "[1 / 0]", r"own\.py:\d+: cases failed \(ZeroDivisionError"),
    ("cases", CASES, "[BAD]", r"own\.py: item 'p': its answer means 'salt'; expected 'tea', as of f"),
]  # fmt: skip
"""What is done with a file's benchmark, further lines of the file, what follows Benchmark or its function gives, and what
is said."""
GIVES = {
    "metrics": "'mine', load, metrics=[Metric({{'metric_x': pl.Int64}}, lambda item, reading: {})]",
    "retelling": "'mine', load, retelling=lambda path: {}",
    "cases": "'mine', load, cases=lambda path, where: {}",
    "load": "{}",
}


def benchmark_of(tmp_path: Path, act: str, lines: str, given: str | None) -> Benchmark:
    text = lines if given is None else f"{HEAD}{lines}BENCHMARK = Benchmark({GIVES[act].format(given)})\n"
    return benchmarks.get(str(written(tmp_path, text)))


@pytest.mark.parametrize(("act", "lines", "given", "expected"), WRONG)
def test_what_is_wrong_is_told_in_one_line(act: str, lines: str, given: str | None, expected: str, tmp_path) -> None:
    with pytest.raises(ConfigError, match=expected) as refused:
        ACTS[act](benchmark_of(tmp_path, act, lines, given))
    assert "\n" not in str(refused.value)
