"""The seal and the verification of a run: every forgery that can be found is found, and an honest run passes."""

import os
import shutil
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT, Cli, Endpoint, make_item
from tests.helpers.examples import change_manifest, copied_example, shortened
from tests.helpers.ssh import needs_ssh, new_key
from tests.helpers.talking import FAN_OUT, write_strategy
from tomserve.errors import ConfigError, MachineError
from tomserve.items import write_items
from tomserve.runs import verification
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder
from tomserve.runs.scores import scores_of
from tomserve.runs.verification import SEAL_FILE, Finding, Seal, VerifyOptions, seal, seal_differences, verify_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of the committed run of two strategies, as far as its first forty items go."""
    return shortened(copied_example(tmp_path / "runs"), 40)


def checked(folder: Path, wanted: VerifyOptions | None = None) -> dict[str, Finding]:
    return {one.what: one for one in verify_run(folder, wanted)}


def held(folder: Path, wanted: VerifyOptions | None = None) -> dict[str, bool | None]:
    return {name: one.holds for name, one in checked(folder, wanted).items()}


def edited(path: Path, line: int, **changes: Any) -> None:
    lines = path.read_bytes().splitlines()
    lines[line] = orjson.dumps({**orjson.loads(lines[line]), **changes})
    path.write_bytes(b"\n".join(lines) + b"\n")


def test_an_honest_run_passes(run: Path) -> None:
    scores_of(run)
    assert held(run) == {"rows": True, "prompts": True, "questions": True, "scores": True, "seal": None}
    seal(run)
    assert held(run)["seal"] is True


def test_a_run_with_variants_and_a_noise_check_passes() -> None:
    found = checked(ROOT / "runs/functional-example/worlds")
    assert [found[name].holds for name in ("rows", "prompts", "questions", "scores")] == [True] * 4
    assert found["prompts"].said.startswith("798 rows answer the prompts")


FORGED = {
    "correct is Int32 in place of Boolean": lambda table: table.with_columns(correct=pl.lit(1)),
    "correct differs in": lambda table: table.with_columns(correct=pl.lit(True)),
    "it lacks answer": lambda table: table.drop("answer"),
    "it has columns besides (more)": lambda table: table.with_columns(more=pl.lit(1)),
    "it has 10 rows in place of 80": lambda table: table.head(10),
    "item differs": lambda table: table.reverse(),
}


def test_a_forged_table_is_found_and_another_name_of_the_run_is_none(run: Path) -> None:
    table = scores_of(run)
    for said, forge in FORGED.items():
        forge(table).write_parquet(run / "scores.parquet")
        found = verification._scores(run)
        assert found.holds is False
        assert said in found.said
    wrong = table.height - int(table["correct"].sum())
    FORGED["correct differs in"](table).write_parquet(run / "scores.parquet")
    assert f"correct differs in {wrong:,} of 80 rows" in verification._scores(run).said
    for content in (b"", b"PAR1", b"nothing"):
        (run / "scores.parquet").write_bytes(content)
        assert verification._scores(run).said.startswith("scores.parquet is no table")
    table.write_parquet(run / "scores.parquet")
    assert held(run.rename(run.with_name("other")))["scores"] is True


def test_another_right_answer_is_found(run: Path) -> None:
    item = orjson.loads((run / "items.jsonl").read_bytes().splitlines()[0])
    other = next(one for one in item["choices"] if one != item["answer"])
    edited(run / "items.jsonl", 0, answer=other, gold=None)
    found = checked(run)["questions"]
    assert found.holds is False
    assert item["id"] in found.said


def test_another_story_is_found_by_the_keys_of_the_rows_even_where_the_benchmark_is_unknown(run: Path) -> None:
    change_manifest(run, benchmark="theirs")
    item = orjson.loads((run / "items.jsonl").read_bytes().splitlines()[0])
    assert held(run)["prompts"] is True
    edited(run / "items.jsonl", 0, story=[*item["story"][:-1], "Nobody is there."])
    found = checked(run)
    assert found["questions"].holds is None
    assert found["prompts"].holds is False
    assert item["id"] in found["prompts"].said


def test_replies_of_another_model_or_other_sampling_are_found_by_their_keys(run: Path) -> None:
    manifest = orjson.loads((run / "manifest.json").read_bytes())
    for changes in ({"model": "gpt"}, {"revision": "other"}, {"sampling": {"temperature": 1.0, "seed": 0}}):
        other = Manifest.model_validate({**manifest, **changes})
        assert verification._prompts(run, other, VerifyOptions()).said.startswith("80 rows answer another prompt")


def test_prompts_that_this_version_does_not_have_are_said_not_to_be_compared(run: Path) -> None:
    manifest = orjson.loads((run / "manifest.json").read_bytes())
    manifest["strategies"]["cot"]["digest"] = "sha256:other"
    (run / "manifest.json").write_bytes(orjson.dumps(manifest))
    found = checked(run)["prompts"]
    assert found.holds is None
    assert found.said.startswith("40 rows answer the prompts that the questions make; 40 rows of cot not compared")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"item": "no such item"}, "1 about an item that the run does not hold"),
        ({"strategy": "other"}, "1 of a strategy that the manifest does not name"),
        ({"turn": "first"}, "responses.jsonl:81: not a response row"),
        ({"text": '{"answer": "better"}'}, "1 to a question that had its answer"),
    ],
)
def test_rows_that_belong_to_nothing_are_found(run: Path, changes: dict[str, Any], said: str) -> None:
    first = orjson.loads((run / "responses.jsonl").read_bytes().splitlines()[0])
    with (run / "responses.jsonl").open("ab") as file:
        file.write(orjson.dumps({**first, **changes}) + b"\n")
    found = verification._rows(run, Manifest.model_validate_json((run / "manifest.json").read_bytes()))
    assert found.holds is False
    assert said in found.said


@pytest.mark.parametrize("program", [None, FAN_OUT])
def test_the_turns_of_a_conversation_are_made_again_from_its_replies(
    cli: Cli, endpoint: Endpoint, tmp_path: Path, program: str | None
) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(1, 5)])
    strategy = write_strategy(tmp_path / "mine", 3 if program else 2, program)
    run = tmp_path / "runs/talk"
    asked = cli("eval", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url,
                "--strategy", strategy, "--run", "talk", "--quiet")  # fmt: skip
    assert asked.code == 0, asked.err
    assert checked(run)["prompts"].holds is None
    wanted = VerifyOptions(tmp_path / "items.jsonl", (str(strategy),))
    assert held(run, wanted) == {"rows": True, "prompts": True, "questions": True, "scores": True, "seal": None}
    rows = [orjson.loads(line) for line in (run / "responses.jsonl").read_bytes().splitlines()]
    first = next(place for place, row in enumerate(rows) if row["turn"] == 0)
    edited(run / "responses.jsonl", first, text='{"answer": "salt"}')
    assert checked(run, wanted)["prompts"].holds is False


def test_a_measured_table_is_known_by_its_digest(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    shutil.copytree(ROOT / "runs/functional-example/inside", folder)
    assert held(folder) == {"table": True, "seal": None}
    pl.read_parquet(folder / "scores.parquet").head(5).write_parquet(folder / "scores.parquet")
    assert held(folder)["table"] is False


@needs_ssh
def test_who_signed_is_told_and_must_be_named_where_signers_are_given(run: Path, tmp_path: Path) -> None:
    key, other = new_key(tmp_path, "alice@lab"), new_key(tmp_path, "mallory@lab")
    alice, mallory = key.with_suffix(".pub"), other.with_suffix(".pub")

    def signed(signers: Path | None = None) -> dict[str, bool | None]:
        return {one.what: one.holds for one in verification.verify_seal(run, signers)}

    assert signed(alice) == {"seal": False}
    seal(run)
    assert [signed()["signature"], signed(alice)["signature"]] == [None, False]
    seal(run, key)
    assert [one.said for one in verification.verify_seal(run, alice)][-1].startswith("by alice@lab")
    assert signed(mallory)["signature"] is False
    edited(run / "responses.jsonl", 0, text='{"answer": "better"}')
    assert signed(alice) == {"seal": False, "signature": True}
    data = orjson.loads((run / "seal.json").read_bytes())
    (run / "seal.json").unlink()
    seal(run)
    forged = orjson.loads((run / "seal.json").read_bytes())
    forged["links"][-1]["signature"] = data["links"][-1]["signature"]
    (run / "seal.json").write_bytes(orjson.dumps(forged))
    assert signed(alice) == {"seal": True, "signature": False}
    assert held(run, VerifyOptions(signers=alice))["signature"] is False


def row(number: int) -> bytes:
    return orjson.dumps({"item": f"demo/{number}", "strategy": "vanilla", "text": "tea " * 3}) + b"\n"


def make(folder: Path, rows: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"schema": 1, "model": "tiny", "benchmark": "demo", "strategies": {}}
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    write_items(folder / "items.jsonl", [make_item(1), make_item(2)])
    (folder / "responses.jsonl").write_bytes(b"".join(map(row, range(rows))))
    return folder


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    return make(tmp_path / "r", 2_500)


def broken(folder: Path) -> list[str]:
    found = Seal.read(folder)
    return [one.text for one in seal_differences(folder, found.links)]


def test_nothing_has_changed_right_after_sealing_and_sealing_twice_is_sealing_once(long_run: Path) -> None:
    first = seal(long_run)
    assert broken(long_run) == []
    assert seal(long_run) == first
    sealed = first.files["responses.jsonl"]
    assert (sealed.lines, sealed.bytes) == (2_500, (long_run / "responses.jsonl").stat().st_size)
    assert len(sealed.chain) == 2


def test_digests_are_those_that_sha256sum_prints(long_run: Path) -> None:
    import hashlib

    link = seal(long_run)
    content = (long_run / "responses.jsonl").read_bytes()
    beginning = b"".join(content.splitlines(keepends=True)[:1000])
    assert link.files["responses.jsonl"].digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert link.files["responses.jsonl"].chain is not None
    assert link.files["responses.jsonl"].chain[0] == f"sha256:{hashlib.sha256(beginning).hexdigest()}"
    written = orjson.loads((long_run / SEAL_FILE).read_bytes())["links"][0]
    again = hashlib.sha256(orjson.dumps(written, option=orjson.OPT_SORT_KEYS)).hexdigest()
    assert link.digest == f"sha256:{again}"


@pytest.mark.parametrize(
    ("line", "where"),
    [(1, "between lines 1 and 1,000"), (1_500, "between lines 1,001 and 2,000"), (2_400, "behind line 2,000")],
)
def test_an_exchanged_reply_is_found_to_a_thousand_lines(long_run: Path, line: int, where: str) -> None:
    seal(long_run)
    lines = (long_run / "responses.jsonl").read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b"tea", b"oat")
    (long_run / "responses.jsonl").write_bytes(b"".join(lines))
    assert broken(long_run) == [f"responses.jsonl was changed {where}"]
    (long_run / "responses.jsonl").write_bytes(b"".join(lines[:2_100]))
    assert broken(long_run)[0].startswith("responses.jsonl was changed ")
    with pytest.raises(ConfigError, match="is not as it was sealed"):
        seal(long_run)


def test_rows_that_were_added_are_told_apart_from_rows_that_were_changed(long_run: Path) -> None:
    first = seal(long_run)
    with (long_run / "responses.jsonl").open("ab") as file:
        file.writelines(map(row, range(2_500, 3_700)))
    found = Seal.read(long_run)
    (one,) = seal_differences(long_run, found.links)
    assert one == ("1,200 lines of responses.jsonl were added since", True)
    second = seal(long_run)
    assert second.previous == first.whole
    chain = second.files["responses.jsonl"].chain
    assert len(chain) == 1
    assert broken(long_run) == []


@pytest.mark.parametrize("name", ["manifest.json", "items.jsonl"])
def test_a_changed_or_missing_file_is_found(long_run: Path, name: str) -> None:
    seal(long_run)
    content = (long_run / name).read_bytes()
    (long_run / name).write_bytes(content.replace(b"demo", b"domo"))
    assert broken(long_run)[0].startswith(f"{name} is another one")
    if name != "manifest.json":
        (long_run / name).unlink()
        assert broken(long_run) == [f"{name} is missing"]


def test_links_that_do_not_follow_from_each_other_are_found(long_run: Path) -> None:
    seal(long_run)
    with (long_run / "responses.jsonl").open("ab") as file:
        file.write(row(1))
    seal(long_run)
    data = orjson.loads((long_run / SEAL_FILE).read_bytes())
    data["links"][0]["time"] = "2020-01-01T00:00:00Z"
    (long_run / SEAL_FILE).write_bytes(orjson.dumps(data))
    assert broken(long_run) == [f"link 2 of {SEAL_FILE} does not follow from the one before it"]


def test_half_a_line_is_not_sealed_and_a_run_in_use_neither(long_run: Path) -> None:
    with (long_run / "responses.jsonl").open("ab") as file:
        file.write(b'{"item": "de')
    with pytest.raises(ConfigError, match=r"responses.jsonl: line 2501 ends in the middle"):
        seal(long_run)
    assert not (long_run / SEAL_FILE).exists()
    with RunFolder(long_run), pytest.raises(MachineError, match="in use by another tomserve process"):
        seal(long_run)


def test_a_seal_is_never_written_through_a_link(long_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    os.symlink(target, long_run / SEAL_FILE)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        seal(long_run)
    assert target.read_text() == "mine"


BROKEN = {
    b"{": "not JSON", b"[]": "seal.json", b'{"schema": 1, "run": "r", "links": []}': "links",
    b'{"schema": 2, "run": "r", "links": []}': "schema", b'{"schema": 1, "run": 3, "links": [{"time": "t"}]}': "run",
    b"\xff\xfe": "not JSON", b"[" * 5000: "not JSON",
}  # fmt: skip


def test_a_broken_seal_is_told_with_its_field(long_run: Path) -> None:
    for content, said in BROKEN.items():
        (long_run / SEAL_FILE).write_bytes(content)
        with pytest.raises(ConfigError, match=said):
            Seal.read(long_run)


def test_names_in_a_strangers_seal_lead_nowhere(long_run: Path) -> None:
    link = seal(long_run)
    data = orjson.loads((long_run / SEAL_FILE).read_bytes())
    data["links"][0]["files"]["../../etc/passwd"] = {"bytes": 1, "digest": link.digest}
    (long_run / SEAL_FILE).write_bytes(orjson.dumps(data))
    with pytest.raises(ConfigError, match=r"seal.json: links.0.files"):
        Seal.read(long_run)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.data())
def test_any_change_of_a_sealed_byte_is_found_however_often_it_was_sealed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], data: st.DataObject
) -> None:
    before, verification.EVERY = verification.EVERY, 7
    try:
        folder = make(tmp_path_factory.mktemp("sealed") / "r", 3)
        count = 3
        for more in steps:
            seal(folder)
            with (folder / "responses.jsonl").open("ab") as file:
                file.writelines(map(row, range(count, count + more)))
            count += more
        seal(folder)
        assert broken(folder) == []
        content = bytearray((folder / "responses.jsonl").read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        (folder / "responses.jsonl").write_bytes(content)
        found = Seal.read(folder)
        assert any(not one.grown for one in seal_differences(folder, found.links))
    finally:
        verification.EVERY = before
