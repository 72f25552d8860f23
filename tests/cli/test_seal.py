"""The commands `seal` and `verify`, as a person sees them."""

import shutil
from pathlib import Path

import orjson
import pytest

import tomserve
from tests.conftest import Cli
from tests.helpers.examples import copied_example, shortened
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.ssh import needs_ssh, new_key
from tomserve.content.paths import cache_root


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return shortened(copied_example(tmp_path / "runs"), 40)


def test_a_sealed_run_verifies_and_a_forged_one_exits_with_one(cli: Cli, run: Path) -> None:
    sealed = passes(cli("seal", "example"))
    head, digest = sealed.out.splitlines()
    assert head.startswith("sealed: ")
    good = passes(cli("verify", "example"), digest)
    assert [line.split()[1] for line in good.out.splitlines()[1:]] == ["ok"] * 5 + ["-"]
    row = orjson.loads((run / "responses.jsonl").read_bytes().splitlines()[0])
    text = (run / "responses.jsonl").read_text().replace(orjson.dumps(row["text"]).decode(), '"{}"', 1)
    (run / "responses.jsonl").write_text(text)
    bad = cli("verify", "example")
    assert bad.code == 1
    assert "NOT OK  not as it was sealed" in bad.out
    assert "responses.jsonl was changed behind line 0" in bad.out
    assert bad.out.splitlines()[-1] == "not everything is as it should be"
    refuses(cli("seal", "example"), "is not as it was sealed")


@pytest.mark.system
def test_a_report_is_compared_with_the_one_that_the_files_give(cli: Cli, run: Path) -> None:
    cli("report", "example")
    assert "report.html is as tomserve wrote it here" in cli("verify", "example").out
    shutil.rmtree(cache_root() / "tomserve/reports")  # as on another person's machine
    assert "report.html is what the run gives, to the byte" in cli("verify", "example").out
    page = (run / "report.html").read_text()
    (run / "report.html").write_text(page.replace("</h1>", "!</h1>"))
    bad = cli("verify", "example")
    assert bad.code == 1
    assert "report.html is not what the run gives" in bad.out
    (run / "report.html").write_text(page.replace(f"tomserve {tomserve.__version__}", "tomserve 0.0.1"))
    passes(cli("verify", "example"), "another version of tomserve made it")


def test_the_record_of_a_strangers_report_runs_no_program(cli: Cli, run: Path, tmp_path: Path) -> None:
    study = tmp_path / "evil.py"
    study.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (run / "report.html").write_text("<!doctype html>")
    (run / "report.json").write_bytes(orjson.dumps({"wishes": {"study": str(study), "by": 3, "labels": {"a": 1}}}))
    cli("verify", "example")
    assert not (tmp_path / "ran").exists()


@needs_ssh
def test_a_seal_is_signed_and_its_signer_named(cli: Cli, run: Path, tmp_path: Path) -> None:
    key = new_key(tmp_path, "alice@lab")
    signed = cli("seal", "example", "--key", key)
    assert signed.out.startswith("sealed and signed: ")
    passes(cli("verify", "example", "--signers", f"{key}.pub"), "signature  ok      by alice@lab (ED25519 key SHA256:")
    assert tomserve.Run.open("example").verify(signers=f"{key}.pub").holds


def test_mistakes_are_told_in_one_line(cli: Cli, run: Path, tmp_path: Path) -> None:
    for arguments, said in {
        ("seal", "example", "--key", tmp_path / "none"): "there is no key",
        ("verify", "example", "--signers", tmp_path / "none"): "there is no such file",
        ("verify", "nothing"): "no run there",
    }.items():
        refuses_in_a_line(cli(*arguments), said)


def test_what_a_strangers_seal_says_cannot_control_the_terminal(cli: Cli, run: Path) -> None:
    cli("seal", "example")
    data = orjson.loads((run / "seal.json").read_bytes())
    data["links"][0]["time"] = "\x1b]0;owned\x07\u202e"
    (run / "seal.json").write_bytes(orjson.dumps(data))
    shown = cli("verify", "example").out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
