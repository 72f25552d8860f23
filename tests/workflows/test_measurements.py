"""`tomserve.examine`: the mechanism layer from a script, and from a notebook's running loop.
`tomserve.intervene`: chains edited from a script, and from a notebook's running loop."""

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tomserve
from tests.conftest import Endpoint, running
from tests.helpers.answerers import Answerer
from tests.helpers.mechanism import write_items
from tests.helpers.subjects import build
from tomserve.items import Item

needs_extra = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")), reason="needs the extra `causal`"
)


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("items") / "items.jsonl", 24)


@pytest.mark.system
@needs_extra
def test_a_model_is_examined_within_a_running_loop_and_nothing_is_printed(items: Path, tmp_path: Path, capfd) -> None:
    folder = build("map", tmp_path / "map")
    options: dict[str, Any] = {"layers": [3], "alphas": [0.1], "folds": 2, "fewest": 8, "device": "cpu"}
    capfd.readouterr()

    async def cell() -> tomserve.Run:
        return tomserve.examine(folder, items, run=tmp_path / "mine", **options)

    run = asyncio.run(cell())
    assert capfd.readouterr() == ("", "")
    assert run.folder == tmp_path / "mine"
    assert run.manifest.complete
    (row,) = tomserve.analyze(run.scores(), "causal")["headline"].to_dicts()
    assert (row["items"], row["eligible"], row["layer"], row["alpha"]) == (24, 24, 3, 0.1)


@pytest.fixture(scope="module")
def few() -> list[Item]:
    found = [one for one in tomserve.load("perturbed") if one.factors["perturbation"] in ("none", "late_label")]
    return found[::6]


@pytest.fixture
def server(few: list[Item]) -> Iterator[Endpoint]:
    with running() as found:
        found.script = Answerer(few, follows=1.0)
        yield found


def test_chains_are_edited_within_a_running_loop_and_nothing_is_printed(
    server: Endpoint, few: list[Item], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tomserve.ask(few, "cot", base_url=server.url, run="mine")
    capfd.readouterr()

    async def cell() -> tomserve.Run:
        return tomserve.intervene(
            run, base_url=server.url, limit=20, probes="edits", edits=["last_corrupted"], new=tmp_path / "edited"
        )

    found = asyncio.run(cell())
    assert capfd.readouterr() == ("", "")
    assert (found.folder, found.failures) == (tmp_path / "edited", {})
    assert set(found.scores()["condition"]) == {"full", "paraphrase", "last_corrupted", "original", "twin"}
    tables = tomserve.analyze(found.scores())
    row = tables["headline"].filter(estimand="follow_last").row(0, named=True)
    assert row["value"] == 1.0
