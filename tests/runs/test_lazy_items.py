"""A benchmark may make its items one by one: hardly any is held in memory, and none is asked before the last is there."""

from collections.abc import Callable
from pathlib import Path

import pytest

import tomserve
from tests.conftest import Endpoint, Outcome, make_item
from tests.helpers.outcomes import refuses
from tomserve import benchmarks
from tomserve.errors import ConfigError

Cli = Callable[..., Outcome]


MODULE = """from pathlib import Path
from tomserve.benchmarks import Benchmark
from tomserve.items import Item, read_ids

FIELDS = {"story": ["Tea is in it."], "choices": ["tea", "salt", "unknown"], "answer": "tea"}


def load(path, gold):
    for number in range(int(Path(__file__).with_name("count").read_text())):
        if number == 40:
            raise OSError("the disk with the stories is gone")
        yield Item(id=f"{number:03d}", question=f"What is in jar {number}?", cluster=f"jar {number // 4}", **FIELDS)


BENCHMARK = Benchmark("jars", load, strategies=("vanilla",))
"""


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that other tests loaded are unknown here."""
    monkeypatch.setattr(benchmarks, "_loaded", {})


def test_what_fails_late_is_one_line_and_nothing_is_asked(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> None:
    module = tmp_path / "jars.py"
    module.write_text(MODULE)
    (tmp_path / "count").write_text("100")
    command = ("eval", "--benchmark", module, "--base-url", endpoint.url, "--quiet", "--no-report", "--run", "late")
    failed = refuses(cli(*command), f"{module}:11: load failed after 40 items", "the disk with the stories is gone")
    assert len(failed.err.strip().splitlines()) == 1
    assert not endpoint.requests
    assert not (tmp_path / "runs/late").exists()

    (tmp_path / "count").write_text("24")
    assert cli(*command).code == 0
    files = {path.name: path.read_bytes() for path in (tmp_path / "runs/late").glob("*.jsonl")}
    assert files["responses.jsonl"].count(b"\n") == len(endpoint.requests) == 24
    (tmp_path / "count").write_text("100")
    assert cli(*command).code == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "runs/late").glob("*.jsonl")} == files
    assert len(endpoint.requests) == 24


def test_an_id_that_a_generator_gives_twice_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(ConfigError, match=r"two of the items have the id 'demo/3'"):
        tomserve.ask((make_item(number % 7) for number in (1, 3, 5, 10)), "vanilla", base_url=endpoint.url, run="twice")
    with pytest.raises(ConfigError, match=r"item 1 is a str; expected a tomserve\.Item"):
        tomserve.ask(iter([make_item(1), "x"]), "vanilla", base_url=endpoint.url, run="text")  # type: ignore[list-item]
    assert not endpoint.requests
