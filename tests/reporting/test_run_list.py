"""What is printed of a run: where its replies come from, and which flags its server had.
The table of `tomserve status` fits a terminal, whatever a cluster or a stranger's folder says."""

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import make_item
from tests.helpers.examples import change_manifest, copied_example
from tests.helpers.outcomes import passes, refuses
from tests.helpers.reports import run_folder
from tomserve.distributed.cluster import Job, Task
from tomserve.distributed.shards import PartState
from tomserve.reporting.html.report import report_html
from tomserve.reporting.run_list import origin
from tomserve.reporting.shards import show_status
from tomserve.reporting.table_layout import Terminal

WHOLE: dict[str, Any] = {
    "tool": "inspect_ai",
    "version": "0.3.285",
    "tasks": ["gsm8k"],
    "files": [{"name": "a.eval", "digest": f"sha256:{'ab' * 32}", "bytes": 12345}],
    "left_out": {"no reply": 1200, "two replies": 3},
    "counts": "tool",
    "grades": ["match"],
    "other_grades": ["f1", "model_graded_qa"],
    "settings": {"temperature": 0.0},
}


def test_a_whole_record_is_told() -> None:
    assert origin({"foreign": WHOLE}) == [
        ("collected by", "inspect_ai 0.3.285"),
        ("tasks", "gsm8k"),
        ("files", "a.eval (sha256:abababababab, 12,345 bytes)"),
        ("reading", "what counts is the other tool's grades"),
        ("grades taken", "match"),
        ("further grades", "f1, model_graded_qa"),
        ("left out", "no reply: 1,200; two replies: 3"),
        ("setting temperature", "0.0"),
    ]
    assert dict(origin({"foreign": {**WHOLE, "counts": "tomserve"}}))["reading"] == "what counts is tomserve's reading"
    assert origin({}) == origin({"foreign": None}) == []


def test_a_record_that_tells_only_its_tool_is_told_without_a_traceback(cli, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert dict(origin({"foreign": {"tool": "csv"}})) == {
        "collected by": "csv", "tasks": "unknown", "files": "unknown",
        "reading": "what counts is the other tool's grades", "left out": "nothing",
    }  # fmt: skip
    change_manifest(copied_example(tmp_path / "runs"), foreign={"tool": "\x1b[2Jcsv"})
    done = passes(cli("runs", "example"), "collected by")
    assert "\x1b[2J" not in done.out


@pytest.mark.parametrize("broken", [[1], {"tool": "csv", "files": [{"name": "a"}]}, {"tool": "csv", "left_out": 7}])
def test_a_broken_record_is_named(cli, tmp_path, broken: object) -> None:  # type: ignore[no-untyped-def]
    change_manifest(copied_example(tmp_path / "runs"), foreign=broken)
    done = cli("runs", "example")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "foreign" in done.err


def test_a_folder_that_is_called_by_bytes_of_no_text_hides_no_run(cli, tmp_path) -> None:  # type: ignore[no-untyped-def]
    odd = os.fsdecode(b"\xff")
    copied_example(tmp_path / "runs")
    shutil.copytree(tmp_path / "runs/example", folder := tmp_path / "runs" / odd)
    done = passes(cli("runs"), "example")
    assert "\\udcff" in done.out
    passes(cli("score", str(folder)), "answers scored")
    refuses(cli("pack", str(folder)), "its path is no UTF-8")
    (table := tmp_path / f"{odd}.csv").write_text("id,question,reply,ok\n1,What?,tea,1\n")
    mapped = [word for one in ("text=reply", "correct=ok") for word in ("--map", one)]
    refuses(cli("import", "csv", table, "--model", "m", "--run", "new", *mapped), "rename the file")


SERVER = {
    "command": ["python", "serve", "m", "--max-num-seqs", "8"],
    "flags": {"max-num-seqs": "8"},
    "flags_changed": {"max-num-seqs": {"preset": "64", "used": "8"}, "<b>": {"preset": "not given", "used": "\x1b"}},
    "preset": {"name": "m"},
}
SAID = "--max-num-seqs 8 (64 in the preset)"


def test_the_report_and_the_list_name_the_flags(cli, tmp_path: Path) -> None:
    item = make_item()
    answers = {"vanilla": {item.id: {"text": '{"answer": "tea"}'}}}
    folder = run_folder(tmp_path / "flagged", answers, [item], server=SERVER)
    page = report_html([str(folder)])
    head = page[: page.index("Provenance")]
    assert SAID in head
    assert "<b> " not in head
    shown = cli("runs", folder).out
    assert f"server flags          {SAID}, --<b> \\x1b (not in the preset)" in shown
    assert "server flags_changed" not in shown
    assert "\x1b" not in shown
    plain = run_folder(tmp_path / "plain", answers, [item], server={"flags_changed": {}})
    assert "server flags" not in report_html([str(plain)]) + cli("runs", plain).out


HOSTILE = "n1\x1b[2J" + "x" * 200
JOB = Job(cluster="slurm", id="17", time="2026-11-24T00:00:00Z", parts=(0, 1))


def shown(folder: Path, found: list[PartState], tasks: dict[int, Task]) -> list[str]:
    out = io.StringIO()
    show_status(folder, found, JOB, tasks, Terminal(file=out, width=80, force_terminal=True, color_system=None))
    return out.getvalue().splitlines()


def test_the_table_has_at_most_eighty_columns_and_obeys_nobody(tmp_path: Path) -> None:
    found = [PartState(0, "running", 1_234_567, 9_876_543, 12_345), PartState(1, "complete", 10, 10, 0)]
    lines = shown(
        tmp_path, found, {0: Task(HOSTILE, HOSTILE, 3, HOSTILE), 1: Task("COMPLETED", "gpu-node-017.cluster")}
    )
    table = lines[: next(number for number, line in enumerate(lines) if line.startswith("1,234"))]
    assert max(map(len, table)) <= 80, "\n".join(table)
    assert any("1234567/9876543" in line for line in table)
    assert any("12345" in line for line in table)
    assert not any("\x1b" in line for line in lines)
    assert any(line.startswith("1,234,577 of 9,876,553 requests, 12,345 failed; parts: 1 complete") for line in lines)
