"""The contract: whatever calls itself compatible with OpenAI's either answers the questions of an evaluation, or the
terminal says why not."""

import re
from dataclasses import replace

import orjson
import polars as pl
import pytest
from tenacity import wait_none

from tests.conftest import ROOT
from tests.helpers.endpoints import ENDINGS, PROVIDERS, Behaviour, Server, items
from tomserve.cli.evaluate import run_and_report
from tomserve.cli.options import Showing
from tomserve.engine.adaptations import TABLE
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.transports import TRANSPORTS
from tomserve.errors import TomserveError
from tomserve.runs.planning import EvalOptions

KINDS = {"ends": ENDINGS, "copy": PROVIDERS}
EACH = [
    pytest.param(one, transport, id=f"{kind}: {name}" + (f" ({transport})" if one.wire else ""))
    for kind, found in KINDS.items()
    for name, one in found.items()
    for transport in (TRANSPORTS if one.wire else TRANSPORTS[:1])
]


@pytest.mark.parametrize(("behaviour", "transport"), EACH)
def test_it_ends_as_it_should(behaviour: Behaviour, transport: str, endpoint, tmp_path, monkeypatch, capfd) -> None:
    for name, value in behaviour.environment.items():
        monkeypatch.setenv(name, value)
    endpoint.first = server = Server(behaviour)
    options = EvalOptions(
        benchmark="items", path=tmp_path / "items.jsonl", strategies=("vanilla",),
        base_urls=(behaviour.url.replace("ROOT", f"http://127.0.0.1:{endpoint.port}"),), run="r",
        transport=transport, policy=RetryPolicy(wait=wait_none()),
    )  # fmt: skip
    options.path.write_bytes(b"".join(item.to_json() + b"\n" for item in items(behaviour.longer)))
    said = ""
    try:
        code = run_and_report(replace(options, **behaviour.options), Showing(report=False))
    except TomserveError as error:
        code, said = error.exit_code, str(error)
    shown = " ".join("".join((*capfd.readouterr(), said)).split())
    folder = tmp_path / "runs/r"
    scores = folder / "scores.parquet"
    right = pl.read_parquet(scores)["correct"].sum() if scores.exists() else 0
    assert code == behaviour.code, shown
    if behaviour.right is not None:
        assert right == behaviour.right, shown
    for pattern in behaviour.says:
        assert re.search(pattern, shown), (pattern, shown)
    assert server.asked <= behaviour.most, shown
    if behaviour.adaptations is not None:
        found = orjson.loads((folder / "manifest.json").read_bytes()).get("adaptations") or []
        assert found == list(behaviour.adaptations)


def test_every_row_of_the_page_has_its_copy() -> None:
    page = (ROOT / "docs/reference/providers.md").read_text().split("## Servers and providers")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:]] for line in page.splitlines() if line[:2] == "| "]
    assert [name for name, *_ in rows[1:]] == list(PROVIDERS)
    for name, options, adaptations, *_ in rows[1:]:
        copy = PROVIDERS[name]
        assert re.findall(r"`(\w+)`", adaptations) == sorted(copy.adaptations, key=list(TABLE).index), name
        given = [one for one in copy.options if one != "base_urls"]
        assert [f"--{one.replace('_', '-')}" for one in given] == re.findall(r"--(?!header)[\w-]+", options), name
