"""Measures time and memory of reading other tools' files into runs, beside reading and parsing the same files once.

    python bench/importing.py [--samples 100000] [--rounds 3] [--words 60] [--peer]

The same replies lie in a log of Inspect (.eval, zstandard and deflate), in lm-eval's samples, in a spreadsheet and in
JSON lines. *floor* reads and parses the file once, by the same libraries, and keeps nothing. *ours* is the whole
import: items, rows, manifest, digests. *memory* is the peak of the process above that of one that has imported the same
modules. With --peer, Inspect's own `read_eval_log` reads the log, of which it holds all samples at once. Aims: 12
floors for a log, and memory that does not grow with the texts: ten times as long, they may cost a tenth more.

*ours, of our benchmark* has the prompts of `perturbed-2`, all of which are looked for among 6,080 items; *unlike ours*
is what it costs to see that prompts are no questions of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard
from _figures import figure, spread_figure

PROGRAM = """
import sys, time
from pathlib import Path
kind, what, path, options = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
import csv, json, orjson, zipfile, zstandard
if what == "ours":
    from tomserve import benchmarks
    from tomserve.interop.importer import ImportOptions, import_replies
    from tomserve.interop.inspect_reader import InspectLog
    from tomserve.interop.lm_eval_files import LmEvalSamples
    from tomserve.interop.csv_reader import MappedFile
if what == "peer":
    from inspect_ai.log import read_eval_log

def ours():
    source = {"eval": InspectLog, "deflate": InspectLog}.get(kind)
    if kind == "lm-eval":
        read = LmEvalSamples(path, "m")
    else:
        read = source(path) if source else MappedFile(path, kind, (), "m")
    import_replies([read], ImportOptions(benchmark=options[0] if options else None, run="made"))

def floor():
    if kind in ("eval", "deflate"):
        with zipfile.ZipFile(path) as file, path.open("rb") as raw:
            for member in file.infolist():
                if kind == "deflate":
                    data = file.read(member)
                else:
                    raw.seek(member.header_offset + 26)
                    name, extra = int.from_bytes(raw.read(2), "little"), int.from_bytes(raw.read(2), "little")
                    raw.seek(name + extra, 1)
                    data = zstandard.decompress(raw.read(member.compress_size), member.file_size)
                orjson.loads(data)
    elif kind == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                pass
    else:
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)

def peak():  # of this program alone; ru_maxrss would begin with what its parent had
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

before, begun = peak(), time.process_time()
{"ours": ours, "floor": floor, "peer": lambda: read_eval_log(str(path))}[what]()
print(json.dumps([time.process_time() - begun, peak() - before]))
"""

FORMS = ("eval", "deflate", "lm-eval", "csv", "jsonl")


def replies(count: int, words: int) -> Iterator[dict[str, Any]]:
    """Replies to sums. words: the length of each."""
    said = "so that we find that it is " * (words // 7)
    for number in range(count):
        asked = f"Ann has {number} pens and Ben gives her {number % 97} more.\n\nHow many pens has Ann now?"
        yield {"id": f"q{number}", "asked": asked, "text": f"{said}{number}", "right": number % 3 > 0, "n": number % 7}


def write(folder: Path, form: str, given: list[dict[str, Any]]) -> Path:
    """The replies in one form of file."""
    if form in ("eval", "deflate"):
        path = folder / f"{form}.eval"
        with zipfile.ZipFile(path, "w") as file:
            _put(file, form, "header.json", {"version": 2, "status": "success", "eval": HEAD, "plan": {"steps": []}})
            for one in given:
                _put(file, form, f"samples/{one['id']}_epoch_1.json", _sample(one))
        return path
    if form == "lm-eval":
        path = folder / "samples_sums.jsonl"
        path.write_text("".join(json.dumps(_document(number, one)) + "\n" for number, one in enumerate(given)))
        return path
    rows = [
        {"id": one["id"], "asked": one["asked"], "text": one["text"], "correct": one["right"], "n": one["n"]}
        for one in given
    ]
    path = folder / f"rows.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


HEAD = {
    **{"eval_id": "e", "run_id": "r", "task_id": "t", "created": "2026-01-01T00:00:00+00:00", "task": "sums"},
    **{"task_version": 0, "task_args": {}, "dataset": {"name": "sums"}, "model": "m", "model_args": {}, "config": {}},
    "model_generate_config": {},
}


def _put(file: zipfile.ZipFile, form: str, name: str, data: Any) -> None:
    text = json.dumps(data).encode()
    if form == "deflate":
        file.writestr(name, text, zipfile.ZIP_DEFLATED, 1)
        return
    packed = zstandard.ZstdCompressor(level=1).compress(text)
    info = zipfile.ZipInfo(name)
    file.writestr(info, packed, zipfile.ZIP_STORED)
    info.compress_type, info.file_size, info.CRC = 93, len(text), zlib.crc32(text)


def _sample(one: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": one["text"], "source": "generate", "model": "m"}
    return {
        "id": one["id"], "epoch": 1, "input": one["asked"], "target": one["id"][1:],
        "messages": [{"role": "user", "content": one["asked"], "source": "input"}, message],
        "output": {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}]},
        "scores": {"match": {"value": "C" if one["right"] else "I", "answer": one["id"][1:]}},
        "metadata": {"n": one["n"]}, "store": {}, "events": [], "model_usage": {}, "attachments": {},
    }  # fmt: skip


def _document(number: int, one: dict[str, Any]) -> dict[str, Any]:
    return {
        "doc_id": number, "doc": {"question": one["asked"], "n": one["n"]}, "target": one["id"][1:],
        "arguments": {"gen_args_0": {"arg_0": one["asked"], "arg_1": {"until": []}}}, "resps": [[one["text"]]],
        "filtered_resps": [one["id"][1:]], "filter": "none", "metrics": ["exact_match"],
        "exact_match": float(one["right"]),
    }  # fmt: skip


def run(form: str, what: str, path: Path, *options: str) -> tuple[float, float]:
    """CPU seconds and megabytes. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-c", PROGRAM, form, what, str(path), *options]
        environment = {**os.environ, "TOMSERVE_RUNS": made}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    cpu, megabytes = json.loads(done.stdout.splitlines()[-1])
    return cpu, megabytes


def ours_again(folder: Path, count: int) -> Path:
    """JSON lines with prompts of our benchmark, as another tool may have asked them."""
    from tomserve import benchmarks
    from tomserve.prompting.strategy import Strategy

    asks, path = Strategy.load("vanilla"), folder / "ours.jsonl"
    items = list(benchmarks.load("perturbed-2", None, None, benchmarks.ALL))
    with path.open("w") as file:
        for number in range(count):
            item = items[number % len(items)]
            asked = "\n\n".join(one["content"] for one in asks.turn(item).messages)
            row = {"id": f"{number}", "asked": asked, "text": item.answer, "repeat": number // len(items)}
            file.write(json.dumps(row) + "\n")
    return path


def main() -> None:
    """Print a line for each form of file: the floor, ours, the ratio, the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--peer", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = list(replies(given.samples, given.words))
        paths = {form: write(folder, form, made) for form in FORMS}
        longer = folder / "longer"
        longer.mkdir()
        long = write(longer, "eval", list(replies(given.samples, 10 * given.words)))
        del made
        print(f"{given.samples:,} replies; microseconds of CPU a reply, megabytes above the start")
        for form, path in paths.items():
            _show(form, path, given.samples, given.rounds, peer=given.peer and form == "eval")
        short, more = (run("eval", "ours", path)[1] for path in (paths["eval"], long))
        print(f"texts ten times as long (eval): {more:.0f} MB instead of {short:.0f}")
        figure("memory with texts ten times as long", more / short, unit="times", at_most=1.1)
        for name, path, options in (
            ("taken as they are", paths["jsonl"], ("none",)),
            ("looked at, and unlike ours", paths["jsonl"], ()),
            ("of our benchmark", ours_again(folder, given.samples), ()),
        ):
            found = [1e6 * run("jsonl", "ours", path, *options)[0] / given.samples for _ in range(given.rounds)]
            print(f"jsonl, {name:28s} {sorted(found)[len(found) // 2]:7.0f} us ({min(found):.0f} to {max(found):.0f})")
            spread_figure(f"jsonl, {name}", found, unit="us CPU")


def _show(form: str, path: Path, count: int, rounds: int, *, peer: bool) -> None:
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for what in ("floor", "ours", *(("peer",) if peer else ())):
            found.setdefault(what, []).append(run(form, what, path))
    middle = {what: sorted(cpu for cpu, _ in each)[len(each) // 2] for what, each in found.items()}
    ratios = [ours[0] / floor[0] for ours, floor in zip(found["ours"], found["floor"], strict=True)]
    for what, each in found.items():
        memory = max(megabytes for _, megabytes in each)
        each_us = 1e6 * middle[what] / count
        print(f"{form:8s} {what:6s} {each_us:7.1f} us  {middle[what] / middle['floor']:6.1f} floors  {memory:6.0f} MB")
    aim = 12.0 if form in ("eval", "deflate") else None  # to parse a line of text takes a microsecond or two
    spread_figure(f"{form}, ours", ratios, unit="floors", at_most=aim)
    figure(f"{form}, a reply", 1e6 * middle["ours"] / count, unit="us CPU")
    figure(f"{form}, memory", max(megabytes for _, megabytes in found["ours"]), unit="MB")
    if peer:
        figure("eval, Inspect's own", middle["peer"] / middle["floor"], unit="floors")
        figure("eval, Inspect's own memory", max(megabytes for _, megabytes in found["peer"]), unit="MB")


if __name__ == "__main__":
    main()
