"""Files of other tools that are broken, cut off, or were made to do harm: named, counted, and never let in."""

import io
import itertools
import json
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.helpers.foreign_files import generated, samples
from tests.helpers.outcomes import passes, refuses
from tomserve.content import files
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.interop import inspect_reader
from tomserve.interop.csv_reader import MappedFile
from tomserve.interop.importer import ImportOptions, import_replies
from tomserve.interop.inspect_reader import InspectLog, parse_json, read_fields
from tomserve.interop.lm_eval_files import LmEvalSamples
from tomserve.interop.samples import choice_labels
from tomserve.runs.scores import load_scores

HEAD = {"status": "success", "eval": {"task": "sums", "model": "m/x", "created": "2026-01-01"}, "plan": {"steps": []}}


def sample(name: str, **more: object) -> dict[str, object]:
    said = {"message": {"role": "assistant", "content": "It is 2."}, "stop_reason": "stop"}
    base = {"id": name, "epoch": 1, "input": f"{name}?", "target": "2", "messages": [], "output": {"choices": [said]}}
    return {**base, "scores": {"match": {"value": "C", "answer": "2"}}, **more}


def log(path: Path, *extra: tuple[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> Path:
    """A log with the samples a and b, and further members."""
    with zipfile.ZipFile(path, "w", kind) as file:
        file.writestr("header.json", json.dumps(HEAD))
        for name in "ab":
            file.writestr(f"samples/{name}_epoch_1.json", json.dumps(sample(name)))
        for name, data in extra:
            file.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "broken", [lambda data: data[:-200], lambda data: b"", lambda data: b"%PDF-1.7\n" + b"x" * 1000]
)
def test_a_log_that_is_no_whole_zip_file_is_refused_in_one_line(broken: Callable[[bytes], bytes], tmp_path) -> None:
    path = log(tmp_path / "x.eval")
    path.write_bytes(broken(path.read_bytes()))
    with pytest.raises(ConfigError, match=r"x\.eval: no whole zip file") as refused:
        list(InspectLog(path).samples())
    assert "copy it again, or convert it by `inspect log convert --to json`" in str(refused.value)
    assert "\n" not in str(refused.value)


def patched(path: Path, name: str, change: Callable[[bytearray, zipfile.ZipInfo], None]) -> Path:
    with zipfile.ZipFile(path) as file:
        info = file.getinfo(name)
    data = bytearray(path.read_bytes())
    change(data, info)
    path.write_bytes(bytes(data))
    return path


def central(data: bytearray, info: zipfile.ZipInfo) -> int:
    """Where the list of members names this one."""
    return data.rindex(info.filename.encode()) - 46


def checksum(data: bytearray, info: zipfile.ZipInfo) -> None:
    struct.pack_into("<I", data, central(data, info) + 16, info.CRC ^ 1)


def encrypted(data: bytearray, info: zipfile.ZipInfo) -> None:
    struct.pack_into("<H", data, central(data, info) + 8, 1)


def unknown(data: bytearray, info: zipfile.ZipInfo) -> None:
    struct.pack_into("<H", data, central(data, info) + 10, 14)


def endless(data: bytearray, info: zipfile.ZipInfo) -> None:
    struct.pack_into("<I", data, central(data, info) + 24, 1 << 31)


def shorter(data: bytearray, info: zipfile.ZipInfo) -> None:
    struct.pack_into("<I", data, central(data, info) + 24, 10)


BROKEN = {
    "the checksum is another one": (checksum, ("Bad CRC-32",)),
    "the member is encrypted": (encrypted, ("is encrypted",)),
    "the method is not known": (unknown, ("is packed by a method that is not known (number 14)",)),
    "the member claims 2 GB": (endless, ("would have 2,048 MB",)),
    "the member claims less than it has": (shorter, ("Bad CRC-32",)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_member_that_is_broken_is_left_out_and_a_head_is_refused(what: str, tmp_path: Path) -> None:
    change, reasons = BROKEN[what]
    broken = InspectLog(patched(log(tmp_path / "x.eval"), "samples/b_epoch_1.json", change))
    assert [one.id for one in broken.samples()] == ["a"]
    ((reason, (count, place)),) = broken.left_out.items()
    assert any(one in reason for one in reasons), reason
    assert (count, place) == (1, "x.eval, samples/b_epoch_1.json")
    with pytest.raises(ConfigError, match=r"x\.eval: its head ") as refused:
        InspectLog(patched(log(tmp_path / "x.eval"), "header.json", change)).about()
    assert any(one in str(refused.value) for one in reasons)


MEMBERS = {
    "a bomb": ("samples/bomb.json", b" " * (65 << 20), "would have 65 MB, unpacked from"),
    "a pit": ("samples/deep.json", b"[" * 100_000, "is no JSON"),
    "a list in many": ("samples/deep.json", b"[" * 300 + b"]" * 300, "nested too deeply"),
    "text": ("samples/text.json", b"hello", "is no JSON"),
    "a list": ("samples/list.json", b"[]", "is no sample of Inspect"),
    "no UTF-8": ("samples/latin.json", '{"id": "ä"}'.encode("latin-1"), "is no JSON"),
    "endless values": (
        "samples/many.json",
        b'{"id": [' + b"0," * (1 + (1 << 22)) + b"0]}",
        "more than 4,194,304 values",
    ),
    "numbers that are none": ("samples/nan.json", b'{"id": NaN, NaN}', "is no JSON"),
    "other types": (
        "samples/types.json",
        json.dumps({"id": "x", "epoch": "first", "output": {"choices": "no"}}).encode(),
        "has fields of other types than Inspect writes",
    ),
    "attachments named again and again": (
        "samples/more.json",
        json.dumps(sample("x", attachments={"a": "x" * 70_000}, input=[{"content": "attachment://a"}] * 1000)).encode(),
        "would have more than 64 MB with its attachments",
    ),
    "endless grades": (
        "samples/grades.json",
        json.dumps(sample("x", scores={"f1": {"value": 1}, "by": {"value": dict.fromkeys(range(1000), 1)}})).encode(),
        "has more than 1,000 grades",
    ),
}


@pytest.mark.parametrize("what", MEMBERS)
def test_a_member_that_would_do_harm_is_left_out(what: str, tmp_path: Path) -> None:
    name, data, reason = MEMBERS[what]
    found = InspectLog(log(tmp_path / "x.eval", (name, data)))
    assert [one.id for one in found.samples()] == ["a", "b"]
    ((said, (count, _)),) = found.left_out.items()
    assert reason in said
    assert count == 1


def test_a_log_of_many_small_bombs_is_refused(tmp_path: Path) -> None:
    path = log(tmp_path / "x.eval", *((f"samples/{number}.json", b" " * (1 << 24)) for number in range(17)))
    with pytest.raises(ConfigError, match=r"x\.eval: would have 272 MB in all, unpacked from"):
        list(InspectLog(path).samples())


def test_what_was_left_out_is_told_and_what_is_no_log_ends_in_one_line(cli, tmp_path: Path) -> None:
    done = cli("import", "inspect", patched(log(tmp_path / "x.eval"), "samples/b_epoch_1.json", checksum))
    assert done.code == 1
    assert "warning: 1 left out, as it cannot be unpacked (Bad CRC-32" in done.err
    assert "(x.eval, samples/b_epoch_1.json)" in done.err
    assert load_scores("sums-m-x")["item"].to_list() == ["sums/a"]
    late = ("samples/late.json", json.dumps(sample("x", epoch=10**9)).encode())
    done = cli("import", "inspect", log(tmp_path / "z.eval", late), "--run", "z")
    assert (done.code, "has no number of a repeat" in done.err) == (1, True)
    done = cli("import", "inspect", patched(log(tmp_path / "y.eval"), "header.json", checksum))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_a_member_is_unpacked_no_further_than_it_claims(tmp_path: Path) -> None:
    bomb = ("samples/bomb.json", b" " * (16 << 20))
    path = patched(log(tmp_path / "x.eval", bomb), bomb[0], shorter)
    tracemalloc.start()
    try:
        assert [one.id for one in InspectLog(path).samples()] == ["a", "b"]
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_prompt_that_is_told_once_for_many_replies_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"doc_id": 1, "doc": {}, "arguments": {"a": {"b": "Q" * 10_000}}, "tomserve_correct": [True] * 1000}
    path = samples(tmp_path / "samples_x.jsonl", [{**row, "resps": [["A"] * 1000]}])
    monkeypatch.setattr(files, "ROOM", 1 << 20)
    monkeypatch.setattr(files, "DENSEST", 10)
    with pytest.raises(ConfigError, match=r"samples_x\.jsonl: has replies of more than 1 MB, from \d+ kB"):
        import_replies([LmEvalSamples(path, "m")], ImportOptions(benchmark="none"))


def test_more_choices_than_an_item_has_are_none(tmp_path: Path) -> None:
    path = samples(
        tmp_path / "x.jsonl", [{"id": 1, "question": "Q?", "text": "c3", "choices": [f"c{n}" for n in range(501)]}]
    )
    (one,) = MappedFile(path, "jsonl", (), "m").samples()
    assert choice_labels(one) == ()
    samples(path, [{"id": 1, "question": "Q?", "text": "c3", "choices": "|" * 2_000_000}])
    (one,) = MappedFile(path, "jsonl", (), "m").samples()
    assert one.choices == ()


def test_a_zstandard_member_is_unpacked_no_further_than_it_claims(tmp_path: Path) -> None:
    """A frame that holds 64 MB of blanks, in a member that claims to have a few bytes."""
    bomb = zstandard.ZstdCompressor().compress(b" " * (1 << 30))
    path = log(tmp_path / "x.eval", ("samples/c.json", bomb), kind=zipfile.ZIP_STORED)

    def lie(data: bytearray, info: zipfile.ZipInfo) -> None:
        at = central(data, info)
        struct.pack_into("<H", data, at + 10, 93)
        struct.pack_into("<I", data, at + 24, 1000)

    patched(path, "samples/c.json", lie)
    assert len(inspect_reader.unpack_zstandard(io.BytesIO(bomb), 1000)) == 1001
    found = InspectLog(path)
    assert [one.id for one in found.samples()] == ["a", "b"]
    assert "checksum" in next(iter(found.left_out))


def test_a_part_of_a_json_log_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_reader, "LARGEST", 1 << 20)
    rows = [sample("a", store="x" * 700_000), sample("b", store="x" * 700_000), sample("c", store="x" * 3_000_000)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**HEAD, "samples": rows}))
    found = InspectLog(path)
    assert [one.id for one in found.samples()] == ["a", "b"]
    ((reason, (count, place)),) = found.left_out.items()
    assert (count, place) == (1, "x.json, sample 3")
    assert "has more than 1 MB in one part" in reason
    path.write_text(
        json.dumps({**HEAD, "samples": [sample("a"), sample("b", store=json.loads("[" * 300 + "]" * 300))]})
    )
    found = InspectLog(path)  # as deep as a run could not hold it
    assert [one.id for one in found.samples()] == ["a"]
    assert "nested too deeply" in next(iter(found.left_out))


@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_numbers_without_a_name_in_json_are_read(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_reader, "_BLOCK", block)
    text = '{"samples": [1, {"a": NaN, "b": "NaN, Infinity \\" NaN \\\\", "c": [-Infinity, Infinity]}, "NaN\\\\", NaN, 2.5, '
    text += "-12345678901234567890123, 0.12345678901234567890123, 1234567890123456789, 1234567890123456789012e3]}"
    wanted = [1, {"a": None, "b": 'NaN, Infinity " NaN \\', "c": [None, None]}, "NaN\\", None, 2.5]
    wanted += [-12345678901234567890123.0, 0.12345678901234568, 1234567890123456789, 1.234567890123456789e24]
    path = tmp_path / "x.json"
    path.write_text(text)
    assert [value for _, value in read_fields(path)] == wanted
    assert parse_json(text.encode())["samples"] == wanted
    path.write_text(text[:-120])
    found = read_fields(path)
    assert next(found) == ("samples", 1)
    with pytest.raises(ValueError, match=r"\w"):
        list(found)


NO_LOGS = ("", "[]", "{}", '"x"', "nothing", '{"eval": 5}', '{"eval": {"task": "t"}}', "[" * 100_000)


@pytest.mark.parametrize("text", [*NO_LOGS, '{"eval": {"a": "' + "\\" * 99])
def test_other_files_of_json_are_no_logs(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ConfigError, match=r"no log of Inspect|x\.json: not JSON") as refused:
        InspectLog(tmp_path / "x.json").about()
    assert "\n" not in str(refused.value)


KINDS = {"inspect": (".eval", ".json"), "lm-eval": (".jsonl",), "csv": (".csv",), "jsonl": (".jsonl",)}


@pytest.mark.parametrize("tool", KINDS)
def test_what_is_no_file_is_refused_in_one_line(tool: str, cli, tmp_path: Path) -> None:
    for ending, kind in itertools.product(KINDS[tool], ("nothing", "link", "pipe", "hole", "folder")):
        path = tmp_path / f"samples_x{ending}"
        if kind == "link":
            path.symlink_to("/etc/passwd")
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "hole":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        elif kind == "folder":
            path.mkdir()
        done = cli("import", tool, path, "--model", "m")
        assert (done.code, done.out) == (2, "")
        assert len(done.err.splitlines()) == 1
        assert str(path) in done.err
        path.rmdir() if kind == "folder" else path.unlink(missing_ok=True)
    assert not runs_root().exists()


def test_results_beside_samples_that_are_a_link_are_not_followed(cli, tmp_path: Path) -> None:
    path = samples(tmp_path / "samples_x_2026-01-01T00-00-00.0.jsonl", [generated(0, "0", 1.0)])
    secret = tmp_path / "secret.json"
    secret.write_text('{"model_name": "secret"}')
    (tmp_path / "results_2026-01-01T00-00-00.0.json").symlink_to(secret)
    refuses(cli("import", "lm-eval", path), "is a symbolic link")


ODD_ROWS = {
    "deep": '{"doc_id": 1, "doc": ' + "[" * 5000 + "]" * 5000 + ', "resps": [["x"]], "arguments": {}}',
    **{
        f"deep {name}": json.dumps({"doc_id": 1, "doc": {}, "resps": [["x"]], "arguments": {}, **given}).replace(
            '"DEEP"', "[" * 1000 + "]" * 1000
        )
        for name, given in (
            ("id", {"doc_id": "DEEP"}),
            ("reply", {"resps": "DEEP"}),
            ("prompt", {"arguments": {"a": {"b": '[{"content": "DEEP"}]'.replace('"', '"')}}}),
        )
    },
    "other types": '{"doc_id": {"a": 1}, "doc": 5, "resps": [5], "arguments": 7, "metrics": "acc", "target": {"x": 1}}',
    "empty": '{"doc_id": 1, "doc": {}, "resps": [[]], "arguments": {}}',
    "huge numbers": '{"doc_id": 1, "doc": {"n": 1e999, "k": 123456789012345678901234567890}, "resps": [["x"]], '
    '"metrics": ["acc"], "acc": 1e999, "arguments": {}}',
    "half characters": '{"doc_id": "\\ud800", "doc": {"a": "\\udc00"}, "resps": [["\\ud800"]], "arguments": {}}',
}


@pytest.mark.parametrize("what", ODD_ROWS)
def test_odd_lines_of_samples_end_in_no_traceback(what: str, cli, tmp_path: Path) -> None:
    path = samples(tmp_path / "samples_x.jsonl", [generated(n, "0", 1.0) for n in range(3)])
    with path.open("a") as file:
        file.write(ODD_ROWS[what] + "\n")
    done = cli("import", "lm-eval", path, "--model", "m")
    assert done.code in (0, 1, 2), done.err
    assert "Traceback" not in done.err
    if done.code != 2:
        assert load_scores("x-m").height >= 3
    else:
        assert len(done.err.splitlines()) == 1


def test_half_characters_and_endless_numbers_of_a_log_are_kept_as_signs(cli, tmp_path: Path) -> None:
    """Python reads both, and no file of ours can hold them."""
    odd = json.dumps(sample("a", input="\ud800?", metadata={"n": 10**40, "kind": "x"})).replace('"a"', '"a\\ud800"')
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**HEAD, "samples": []})[:-2] + odd + "]}")
    passes(cli("import", "inspect", path))
    (score,) = load_scores("sums-m-x").to_dicts()
    assert score["correct"] is True


@pytest.mark.parametrize("form", ["eval", "json", "lm-eval", "jsonl"])
def test_memory_does_not_grow_with_the_texts(form: str, tmp_path: Path) -> None:
    """150 samples of 100 kB, which are 15 MB; less than a third of them is held at once."""
    long, many, path = "word " * 20_000, range(150), tmp_path / f"samples_x.{form.replace('lm-eval', 'jsonl')}"
    if form == "lm-eval":
        samples(path, (generated(n, long, 1.0) for n in many))
    elif form == "jsonl":
        samples(path, ({"id": n, "question": f"Q{n}?", "text": long, "correct": n % 2} for n in many))
    elif form == "eval":
        log(path, *((f"samples/{n}.json", json.dumps(sample(f"q{n}", store=long)).encode()) for n in many))
    else:
        rows = (f"{',' if n else ''}{json.dumps(sample(f'q{n}', store=long))}" for n in many)
        path.write_text(f'{json.dumps(HEAD)[:-1]}, "samples": [{"".join(rows)}]}}')
    sources = {"lm-eval": lambda: LmEvalSamples(path, "m"), "jsonl": lambda: MappedFile(path, "jsonl", (), "m")}
    source = sources.get(form, lambda: InspectLog(path))()
    tracemalloc.start()
    try:
        import_replies([source], ImportOptions(benchmark="none"))
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_log_with_endless_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_reader, "MEMBERS", 2)
    with pytest.raises(ConfigError, match="has 3 members; expected at most 2"):
        InspectLog(log(tmp_path / "x.eval")).about()
