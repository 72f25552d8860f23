"""Flags of vLLM that the user gave besides the preset's are named wherever a run is shown."""

from pathlib import Path

from tests.conftest import make_item
from tests.helpers.reports import run_folder
from tomserve.reporting.html.report import report_html

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
    assert f"server flags      {SAID}, --<b> \\x1b (not in the preset)" in shown
    assert "server flags_changed" not in shown
    assert "\x1b" not in shown
    plain = run_folder(tmp_path / "plain", answers, [item], server={"flags_changed": {}})
    assert "server flags" not in report_html([str(plain)]) + cli("runs", plain).out
