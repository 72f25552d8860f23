"""A run with --limit goes on with the questions that it drew first, also where an older version drew others."""

from pathlib import Path

import pytest

from tests.conftest import Endpoint
from tomserve.items import draw, read_ids
from tomserve.runs.journal import read_rows
from tomserve.runs.runfolder import read_manifest


def begin(endpoint: Endpoint, cli, tmp_path: Path, *more: object) -> object:  # type: ignore[no-untyped-def]
    asking = ("eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", tmp_path / "items.jsonl")
    return cli(*asking, "--strategy", "vanilla", "--run", "r", *more)


def asked(tmp_path: Path, name: str = "responses.jsonl") -> set[str]:
    return {row["item"] for _, row in read_rows(tmp_path / "runs/r" / name)}


def test_a_run_drawn_otherwise_is_finished_and_then_grows(
    endpoint: Endpoint, items_file: Path, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:  # any other seed draws other questions, as an older version did
        older.setattr(draw, "LIMIT_SEED", 5)
        done = begin(endpoint, cli, tmp_path, "--limit", 6, "--noise-check", 0.5)
    assert "limit 6: asks 6 of 20 questions\n" in done.out
    before, again = asked(tmp_path), asked(tmp_path, "noise.jsonl")
    assert (len(before), len(again)) == (6, 3)
    requests = len(endpoint.requests)

    done = begin(endpoint, cli, tmp_path, "--limit", 6, "--noise-check", 0.5)
    assert "nothing left to ask" in done.out
    assert len(endpoint.requests) == requests
    assert (asked(tmp_path), asked(tmp_path, "noise.jsonl")) == (before, again)

    begin(endpoint, cli, tmp_path, "--limit", 9)
    assert len(asked(tmp_path)) == 9
    assert asked(tmp_path) > before
    assert set(read_ids(tmp_path / "runs/r/items.jsonl")) == asked(tmp_path)
    manifest = read_manifest(tmp_path / "runs/r")
    assert manifest["complete"] is True
