"""What is printed of a run: where its replies come from, and which flags its server had."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import make_item
from tests.helpers.examples import copied_example
from tests.helpers.reports import run_folder
from tomserve.reporting.html.report import report_html
from tomserve.reporting.run_list import origin

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
        "collected by": "csv",
        "tasks": "unknown",
        "files": "unknown",
        "reading": "what counts is the other tool's grades",
        "left out": "nothing",
    }
    path = copied_example(tmp_path / "runs") / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**manifest, "foreign": {"tool": "\x1b[2Jcsv"}}))
    done = cli("runs", "example")
    assert done.code == 0, done.err
    assert "collected by" in done.out
    assert "\x1b[2J" not in done.out


@pytest.mark.parametrize("broken", [[1], {"tool": "csv", "files": [{"name": "a"}]}, {"tool": "csv", "left_out": 7}])
def test_a_broken_record_is_named(cli, tmp_path, broken: object) -> None:  # type: ignore[no-untyped-def]
    path = copied_example(tmp_path / "runs") / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**manifest, "foreign": broken}))
    done = cli("runs", "example")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "foreign" in done.err


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
