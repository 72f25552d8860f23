"""The seal of a run: whatever is changed behind it is found, and where."""

import os
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_item
from tomserve.errors import ConfigError, MachineError
from tomserve.items import write_items
from tomserve.runs import verification
from tomserve.runs.runfolder import RunFolder
from tomserve.runs.verification import SEAL_FILE, Seal, seal, seal_differences


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
def run(tmp_path: Path) -> Path:
    return make(tmp_path / "r", 2_500)


def broken(folder: Path) -> list[str]:
    found = Seal.read(folder)
    return [one.said for one in seal_differences(folder, found.links)]


def test_nothing_has_changed_right_after_sealing_and_sealing_twice_is_sealing_once(run: Path) -> None:
    first = seal(run)
    assert broken(run) == []
    assert seal(run) == first
    sealed = first.files["responses.jsonl"]
    assert (sealed.lines, sealed.bytes) == (2_500, (run / "responses.jsonl").stat().st_size)
    assert len(sealed.chain) == 2


def test_digests_are_those_that_sha256sum_prints(run: Path) -> None:
    import hashlib

    link = seal(run)
    content = (run / "responses.jsonl").read_bytes()
    beginning = b"".join(content.splitlines(keepends=True)[:1000])
    assert link.files["responses.jsonl"].digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert link.files["responses.jsonl"].chain is not None
    assert link.files["responses.jsonl"].chain[0] == f"sha256:{hashlib.sha256(beginning).hexdigest()}"
    written = orjson.loads((run / SEAL_FILE).read_bytes())["links"][0]
    again = hashlib.sha256(orjson.dumps(written, option=orjson.OPT_SORT_KEYS)).hexdigest()
    assert link.digest == f"sha256:{again}"


@pytest.mark.parametrize(
    ("line", "where"),
    [(1, "between lines 1 and 1,000"), (1_500, "between lines 1,001 and 2,000"), (2_400, "behind line 2,000")],
)
def test_an_exchanged_reply_is_found_to_a_thousand_lines(run: Path, line: int, where: str) -> None:
    seal(run)
    lines = (run / "responses.jsonl").read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b"tea", b"oat")
    (run / "responses.jsonl").write_bytes(b"".join(lines))
    assert broken(run) == [f"responses.jsonl was changed {where}"]
    (run / "responses.jsonl").write_bytes(b"".join(lines[:2_100]))
    assert broken(run)[0].startswith("responses.jsonl was changed ")
    with pytest.raises(ConfigError, match="is not as it was sealed"):
        seal(run)


def test_rows_that_were_added_are_told_apart_from_rows_that_were_changed(run: Path) -> None:
    first = seal(run)
    with (run / "responses.jsonl").open("ab") as file:
        file.writelines(map(row, range(2_500, 3_700)))
    found = Seal.read(run)
    (one,) = seal_differences(run, found.links)
    assert one == ("1,200 lines of responses.jsonl were added since", True)
    second = seal(run)
    assert second.previous == first.whole
    chain = second.files["responses.jsonl"].chain
    assert len(chain) == 1
    assert broken(run) == []


@pytest.mark.parametrize("name", ["manifest.json", "items.jsonl"])
def test_a_changed_or_missing_file_is_found(run: Path, name: str) -> None:
    seal(run)
    content = (run / name).read_bytes()
    (run / name).write_bytes(content.replace(b"demo", b"domo"))
    assert broken(run)[0].startswith(f"{name} is another one")
    if name != "manifest.json":
        (run / name).unlink()
        assert broken(run) == [f"{name} is missing"]


def test_links_that_do_not_follow_from_each_other_are_found(run: Path) -> None:
    seal(run)
    with (run / "responses.jsonl").open("ab") as file:
        file.write(row(1))
    seal(run)
    data = orjson.loads((run / SEAL_FILE).read_bytes())
    data["links"][0]["time"] = "2020-01-01T00:00:00Z"
    (run / SEAL_FILE).write_bytes(orjson.dumps(data))
    assert broken(run) == [f"link 2 of {SEAL_FILE} does not follow from the one before it"]


def test_half_a_line_is_not_sealed_and_a_run_in_use_neither(run: Path) -> None:
    with (run / "responses.jsonl").open("ab") as file:
        file.write(b'{"item": "de')
    with pytest.raises(ConfigError, match=r"responses.jsonl: line 2501 ends in the middle"):
        seal(run)
    assert not (run / SEAL_FILE).exists()
    with RunFolder(run), pytest.raises(MachineError, match="in use by another tomserve process"):
        seal(run)


def test_a_seal_is_never_written_through_a_link(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    os.symlink(target, run / SEAL_FILE)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        seal(run)
    assert target.read_text() == "mine"


BROKEN = {
    b"{": "not JSON",
    b"[]": "seal.json",
    b'{"schema": 1, "run": "r", "links": []}': "links",
    b'{"schema": 2, "run": "r", "links": []}': "schema",
    b'{"schema": 1, "run": 3, "links": [{"time": "t"}]}': "run",
    b"\xff\xfe": "not JSON",
    b"[" * 5000: "not JSON",
}


def test_a_broken_seal_is_told_with_its_field(run: Path) -> None:
    for content, said in BROKEN.items():
        (run / SEAL_FILE).write_bytes(content)
        with pytest.raises(ConfigError, match=said):
            Seal.read(run)


def test_names_in_a_strangers_seal_lead_nowhere(run: Path) -> None:
    link = seal(run)
    data = orjson.loads((run / SEAL_FILE).read_bytes())
    data["links"][0]["files"]["../../etc/passwd"] = {"bytes": 1, "digest": link.digest}
    (run / SEAL_FILE).write_bytes(orjson.dumps(data))
    with pytest.raises(ConfigError, match=r"seal.json: links.0.files"):
        Seal.read(run)


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
