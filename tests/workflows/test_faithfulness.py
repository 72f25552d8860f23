"""`tomserve.intervene`: chains edited from a script, and from a notebook's running loop."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import tomserve
from tests.conftest import Endpoint, running
from tests.helpers.answerers import Answerer
from tomserve.errors import ConfigError
from tomserve.items import Item


@pytest.fixture(scope="module")
def items() -> list[Item]:
    found = [one for one in tomserve.load("perturbed") if one.factors["perturbation"] in ("none", "late_label")]
    return found[::6]


@pytest.fixture
def server(items: list[Item]) -> Iterator[Endpoint]:
    with running() as found:
        found.script = Answerer(items, follows=1.0)
        yield found


def test_chains_are_edited_within_a_running_loop_and_nothing_is_printed(
    server: Endpoint, items: list[Item], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tomserve.ask(items, "cot", base_url=server.url, run="mine")
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


def test_what_is_no_option_is_a_type_error_and_what_is_no_run_a_config_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
        tomserve.intervene("mine", limits=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="no run there"):
        tomserve.intervene("nobody")
