"""`tomserve items --variants` and its rewriter, and the refusal to ask a model what it has rewritten."""

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import Cli, Endpoint
from tests.helpers.outcomes import passes, refuses
from tests.helpers.rewriters import CONDENSED, ITEM, PARAPHRASED, asking, rewriter
from tomserve.items import read_items, write_items


@pytest.fixture
def own(tmp_path: Path) -> Path:
    write_items(tmp_path / "own.jsonl", [ITEM])
    return tmp_path / "own.jsonl"


def test_variants_follow_their_originals_and_what_is_missing_is_said(cli: Cli, own: Path, tmp_path: Path) -> None:
    out = tmp_path / "told.jsonl"
    done = passes(cli("items", "items", "--path", own, "--variants", "person,condensed,t4", "--out", out))
    assert [item.id for item in read_items(out)] == ["own/1", "own/1/person", "own/1/choices"]
    assert "variants of 1 question: person 1, condensed 0, choices 1; left out: condensed 1" in done.err
    assert "a text alone is put in other words by a rewriter only" in done.err
    shown = cli("items", "items", "--path", own, "--variants", "choices")
    assert shown.out.count("\n") == 2
    assert "left out" not in shown.err


def test_a_rewriter_makes_what_rules_cannot(cli: Cli, own: Path, tmp_path: Path, endpoint: Endpoint) -> None:
    endpoint.script = asking(rewriter(PARAPHRASED, CONDENSED))
    out = tmp_path / "told.jsonl"
    words = ["items", "items", "--path", own, "--variants", "paraphrase,condensed,choices", "--out", out]
    done = passes(cli(*words, "--rewriter", endpoint.url))
    made = Counter((item.factors.get("variant"), item.factors.get("variant_by")) for item in read_items(out))
    model = f"rewriter:{endpoint.models[0]}"
    assert made == {(None, None): 1, ("paraphrase", model): 1, ("condensed", model): 1, ("choices", "record"): 1}
    assert "1 of the rewritten ones answered rightly" in done.out or "0 of the rewritten ones" in done.out
    before = len(endpoint.requests)
    passes(cli(*words, "--rewriter", endpoint.url))
    assert len(endpoint.requests) == before
    asked = refuses(
        cli("eval", "--benchmark", "items", "--path", out, "--base-url", endpoint.url, "--run", "r"),
        f"were rewritten by {endpoint.models[0]}",
    )
    assert "Traceback" not in asked.err
    endpoint.models = ["another"]
    endpoint.script = lambda body, number: None
    kinds = ["--variants", "choices"]
    assert (
        cli("eval", "--benchmark", "items", "--path", out, "--base-url", endpoint.url, "--run", "r", *kinds).code == 0
    )


def test_a_rewriter_needs_kinds_and_a_file(cli: Cli, own: Path, endpoint: Endpoint) -> None:
    done = cli("items", "items", "--path", own, "--rewriter", endpoint.url)
    assert (done.code, done.out) == (2, "")
    assert done.err == "tomserve: --rewriter URL or MODEL goes with --variants KINDS and --out FILE\n"
    refuses(cli("items", "items", "--path", own, "--variants", "colour"), "unknown kind 'colour'")
