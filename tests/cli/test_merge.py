"""The command `merge`, as a person sees it."""

import shutil
from pathlib import Path

import orjson
import pytest

from tests.conftest import Cli
from tests.helpers import parting
from tests.helpers.outcomes import passes, refuses_in_a_line
from tests.helpers.parting import ONCE, TALK
from tomserve.distributed import journals
from tomserve.distributed.merge import check_named_run
from tomserve.distributed.shards import Shards, part_folder
from tomserve.errors import RunMismatchError

ITEMS = parting.names(2)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "runs/mine.parts"
    rows = [
        row for name in (ONCE, TALK) for s in (0, 1) for row in parting.talk(ITEMS[0], name, s, failures=0, second=s)
    ]
    asked = parting.manifest()
    for number in (0, 1):
        parting.written(part_folder(folder, number), ITEMS[number : number + 1], rows if number == 0 else [])
    for name in ("manifest.json", "responses.jsonl"):
        (part_folder(folder, 1) / name).unlink()
    part = {"items": 1, "requests": 4, "prompt_tokens": 1, "shared_tokens": 0, "reply_tokens": 1, "digest": "d"}
    names = (
        *("benchmark", "benchmark_digest", "benchmark_items", "model", "sampling", "strategies"),
        *("created", "tomserve"),
    )
    record = {"run": "mine", "experiment": {}, "parts": [part, part], **{name: asked[name] for name in names}}
    Shards.model_validate(record).write(folder)
    return folder


def test_parts_become_the_run_that_was_divided_whatever_is_asked_by_then(cli: Cli, parts: Path) -> None:
    done = passes(cli("merge", "mine"), "merged 2 runs, 6 rows", "4 of 8 have their final reply, not complete yet")
    run = parts.with_name("mine")
    assert done.out.splitlines()[-1] == str(run)
    assert len((run / "items.jsonl").read_bytes().splitlines()) == 2
    assert orjson.loads((run / "manifest.json").read_bytes())["complete"] is False
    again = cli("merge", parts)
    assert "nothing new in 2 runs" in again.out


def test_a_part_that_is_not_there_is_named_and_the_run_not_complete(cli: Cli, parts: Path) -> None:
    for path in part_folder(parts, 1).iterdir():
        path.unlink()
    part_folder(parts, 1).rmdir()
    done = passes(cli("merge", "mine", "--quiet"))
    assert "1 parts are not there: 0001" in done.err
    assert "4 of 8 have their final reply, not complete yet" in done.out


def test_no_record_of_other_parts_names_a_merged_run_of_the_users(cli: Cli, parts: Path) -> None:
    passes(cli("merge", "mine"))
    theirs = parts.rename(parts.with_name("theirs.parts"))
    refuses_in_a_line(
        cli("merge", theirs), "was merged from mine.parts, whose rows theirs.parts does not hold; say by --into"
    )
    passes(cli("merge", theirs, "--into", "mine"))


@pytest.mark.parametrize("named", ["mine", "../elsewhere/job123"])
def test_parts_are_merged_again_whatever_their_folder_is_called(
    cli: Cli, parts: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.chdir(parts.parent)
    (moved := parts.parents[1] / "elsewhere/job123").parent.mkdir()
    parts.rename(moved)
    parts.symlink_to(moved)
    for _ in range(2):
        passes(cli("merge", named))


def test_parts_of_a_store_name_the_run_that_was_merged_from_their_rows_alone(cli: Cli, parts: Path) -> None:
    passes(cli("merge", "mine"))
    theirs = Path(shutil.copytree(parts, parts.parent.parent / "mine.parts"))
    journal = part_folder(theirs, 0) / "responses.jsonl"
    check_named_run(parts.with_name("mine"), [theirs], fetched=True)
    journals.pack(journal.parent, unfinished=True)
    check_named_run(parts.with_name("mine"), [theirs], fetched=True)
    journals.unpack(journal.parent)
    for held in (journal.read_bytes().replace(b'"tea"', b'"TEA"'), b""):
        journal.write_bytes(held)
        with pytest.raises(RunMismatchError, match=r"merged from mine.parts, whose rows mine.parts does not hold"):
            check_named_run(parts.with_name("mine"), [theirs], fetched=True)


def test_what_cannot_be_merged_ends_in_one_line(cli: Cli, parts: Path) -> None:
    parting.written(parts.with_name("other"), ITEMS, [])
    for arguments, said in (
        (("nobody",), "nobody: there is neither a run"),
        (("mine.parts/0000",), "--into is missing"),
        (("mine", "--into", "other"), "was not made by merging"),
    ):
        refuses_in_a_line(cli("merge", *arguments), said)


SAME = (
    *("benchmark", "benchmark_path", "benchmark_digest", "benchmark_items", "model", "revision", "preset", "sampling"),
    *("strategies", "content", "variants", "limit", "complete", "endpoints", "server", "kind"),
)
"""The fields in which the manifest of a merged run is that of the run that was never divided."""


@pytest.mark.system
def test_an_evaluation_that_was_divided_and_merged_is_the_one_that_was_not(cli, endpoint, tmp_path: Path) -> None:
    asked = (
        *("--benchmark", "perturbed", "--limit", "12", "--strategy", "simtom", "--strategy", "vanilla"),
        *("--variants", "person", "--noise-check", "0.3", "--base-url", endpoint.url),
    )
    whole, mine = tmp_path / "whole/mine", tmp_path / "runs/mine"
    passes(cli("eval", "--run", whole, *asked))
    passes(cli("shard", "--run", "mine", "--parts", "3", *asked))
    assert "0 of" in cli("merge", "mine").out
    passes(cli("work", "mine", "--part", "1"))
    assert "not complete yet" in cli("merge", "mine").out
    passes(cli("work", "mine"))
    passes(cli("pack", "mine.parts/0002"))
    done = cli("merge", "mine")
    assert ", complete" in done.out, done.err
    assert (mine / "items.jsonl").read_bytes() == (whole / "items.jsonl").read_bytes()
    assert parting.scored(mine) == parting.scored(whole)
    for name in ("responses.jsonl", "noise.jsonl"):
        there, wanted = parting.talks(mine, name), parting.talks(whole, name)
        assert there.keys() == wanted.keys()
    one, other = (orjson.loads((folder / "manifest.json").read_bytes()) for folder in (mine, whole))
    assert {name: one.get(name) for name in SAME} == {name: other.get(name) for name in SAME}
    assert {name: one["noise"][name] for name in ("share", "seed", "items", "of", "concurrencies")} == {
        name: other["noise"][name] for name in ("share", "seed", "items", "of", "concurrencies")
    }
    assert [part["run"] for part in one["parts"]] == [f"mine.parts/000{number}" for number in range(3)]
    before = len(endpoint.requests)
    passes(cli("eval", "--run", "mine", *asked))
    assert len(endpoint.requests) == before  # nothing is left to ask
