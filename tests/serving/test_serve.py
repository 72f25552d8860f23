"""Presets, command lines, memory arithmetic, server records, process control: without starting vLLM."""

import os
import re
import shlex
import socket
import subprocess
from pathlib import Path

import orjson
import pytest

from tests.conftest import Endpoint
from tests.helpers.command import group_of, until
from tests.helpers.outcomes import passes, refuses
from tomserve import content
from tomserve.errors import ConfigError, MachineError, ServerError
from tomserve.runs import runfolder
from tomserve.serving import install, provenance, registry, sizing
from tomserve.serving.command import Command, vllm_command
from tomserve.serving.endpoint import choose_target
from tomserve.serving.presets import Preset
from tomserve.serving.probe import WaitPolicy
from tomserve.serving.provenance import flag_value
from tomserve.serving.serve import ServeOptions, plan_replicas
from tomserve.serving.server import Server, free_port, reserve_port, wait_healthy
from tomserve.serving.sizing import Gpu, choose_layout, parse_gpus

STUDY = {
    "llama2-70b": ("meta-llama/Llama-2-70b-chat-hf", 4),
    "vicuna-33b": ("lmsys/vicuna-33b-v1.3", 2),
    "mixtral-8x7b": ("mistralai/Mixtral-8x7B-Instruct-v0.1", 2),
    "yi-34b": ("01-ai/Yi-34B-Chat", 2),
    "llama3-70b": ("meta-llama/Meta-Llama-3-70B-Instruct", 4),
    "dbrx": ("databricks/dbrx-instruct", 4),
}


@pytest.fixture
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "find_gpus", list)


@pytest.mark.parametrize("name", STUDY)
def test_the_six_models_of_the_study(name: str) -> None:
    preset, (model, parallel) = Preset.load(name), STUDY[name]
    assert (preset.model, preset.revision, Preset.lookup(model)) == (model, None, preset)
    gpus = parse_gpus("8xA100-80GB")
    argv = vllm_command(preset, preset.model, layout=choose_layout(preset, gpus), gpus=gpus).argv
    assert argv[1:6] == ["-P", "-m", "tomserve.serving.vllm_cli", "serve", model]
    for words in (
        f"--tensor-parallel-size {parallel}",
        "--host 127.0.0.1",
        "--structured-outputs-config.backend xgrammar",
        "--generation-config vllm",
        "--max-num-queued-reqs 2048",
    ):
        assert flag_value(argv, words.split()[0]) == words.split()[1]


def test_every_preset_says_what_is_known_and_fits_on_one_machine_of_today() -> None:
    for name in set(content.names("launch/models", ".yaml")) - {"reference"}:
        preset = Preset.load(name)
        assert preset.revision is None
        assert None not in (preset.shape, preset.chat_template, preset.context), name
        choose_layout(preset, parse_gpus("8xH200"))


def test_dry_run_prints_the_exact_command(cli, no_gpus) -> None:
    done = passes(cli("serve", "dbrx", "--port", "8123", "--dry-run", "--", "--max-num-seqs", "7"))
    assert "This machine has no usable GPU, so the command is planned for 8xA100-80GB" in done.err
    words = shlex.split(done.out)
    assert (words[0], words[-2:]) == ("VLLM_NO_USAGE_STATS=1", ["--max-num-seqs", "7"])
    assert (flag_value(words, "--port"), flag_value(words, "--tensor-parallel-size")) == ("8123", "4")
    two = cli("serve", "llama3.1-8b", "--dry-run", "--gpus", "4xL40S", "--replicas", "2").out.splitlines()
    assert [flag_value(shlex.split(line), "--port") for line in two] == ["8000", "8001"]
    assert "CUDA_VISIBLE_DEVICES=0,1 " in two[0]
    assert "CUDA_VISIBLE_DEVICES=2,3 " in two[1]


@pytest.mark.parametrize(
    ("model", "gpus", "words", "code", "said"),
    [
        ("vicuna-33b", "8xA100-80GB", "-tp 4", 0, "--tensor-parallel-size 4"),
        ("vicuna-33b", "8xA100-80GB", "--tensor-parallel-size=8", 2, "52 attention heads cannot be split over 8"),
        ("llama3.1-8b", "V100-32GB", "--dtype half", 0, "--dtype half"),
        ("llama3.1-8b", "V100-32GB", "", 2, "`-- --dtype half`"),
        ("llama3-70b", "1xA100-80GB", "--quantization fp8", 0, "--quantization fp8"),  # half of the memory
        ("llama3-70b", "4xA100-80GB", "--gpu-memory-utilization 0.4", 2, "GPUs found"),
        ("dbrx", "8xA100-80GB", "--max-model-len 64k", 2, "64000: dbrx was made for at most 32768 tokens"),
        ("dbrx", "8xA100-80GB", "--tensor-parallel-size ³", 0, "³"),  # vLLM will say
    ],
)
def test_what_the_user_says_after_the_dashes_wins_and_is_reckoned_with(
    cli, no_gpus, model: str, gpus: str, words: str, code: int, said: str
) -> None:
    done = cli("serve", model, "--dry-run", "--gpus", gpus, "--", *words.split())
    assert done.code == code, done.err
    assert said in done.out + done.err


def test_a_machine_that_cannot_hold_the_model(cli, no_gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(
        cli("serve", "dbrx"),
        "it needs 263 GB for weights, room for keys and values, and 5 GB of working space on each GPU",
        "GPUs found: none; `tomserve serve dbrx --dry-run` prints",
    )
    monkeypatch.setattr(sizing, "find_gpus", lambda: [Gpu("A100", 42.9)] * 4)
    refuses(cli("serve", "dbrx"), "spread over 4 of them the weights take 65.8 GB of each, and 34.5 GB")


def test_a_server_for_everybody_asks_for_a_key(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    refuses(
        cli("serve", "--dry-run", "--host", "0.0.0.0"),
        "set TOMSERVE_API_KEY (or TOMSERVE_API_KEY_FILE) to a key to ask for, or say --insecure",
    )
    assert "--host 0.0.0.0" in cli("serve", "--dry-run", "--host", "0.0.0.0", "--insecure").out
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        plan_replicas(ServeOptions(host=host), dry=True)
    monkeypatch.setenv("TOMSERVE_API_KEY", "s3cret-key")
    asked = passes(cli("serve", "--dry-run", "--host", "0.0.0.0"))
    assert "s3cret-key" not in asked.out + asked.err
    (one,) = plan_replicas(ServeOptions(host="0.0.0.0"))
    assert one.command.secret == {"VLLM_API_KEY": "s3cret-key"}
    assert "s3cret-key" not in repr(one)
    assert "s3cret-key" not in str(provenance.describe_server(one.preset, "m", one.command, ()))
    for flags in (("--api-key", "x"), ("--api_key=x",), ("--hf-token", "hf_x"), ("--api-k", "x"), ("--hf-t", "x")):
        with pytest.raises(ConfigError, match="the process list would show --"):
            plan_replicas(ServeOptions(extra=flags), dry=True)
    pasted = cli("serve", "--dry-run", "--host", "0.0.0.0").out
    assert pasted.startswith('VLLM_API_KEY="$TOMSERVE_API_KEY" VLLM_NO')  # what is pasted asks for the key, too


def test_replicas_divide_cores_and_ports(monkeypatch: pytest.MonkeyPatch, cli) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 2, 3, 5, 7})
    found = plan_replicas(ServeOptions(port=9000, replicas=2))
    assert [one.port for one in found] == [9000, 9001]
    assert [one.command.env["VLLM_CPU_OMP_THREADS_BIND"] for one in found] == ["0,2", "3,5"]
    assert "each replica needs a CPU core at least, and this machine has 5" in cli("serve", "--replicas", "6").err
    assert "need ports up to 65536, and 65535 is the highest" in cli("serve", "--replicas", "2", "--port", "65535").err


def test_a_cpu_without_instructions_for_bfloat16_serves_in_float32(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sizing, "CPU", tmp_path / "cpuinfo")
    wanted = ServeOptions("smollm2"), ServeOptions("smollm2", extra=("--dtype", "bfloat16"))
    for flags, dtypes in (("avx2 fma", ["float32", "bfloat16"]), ("avx2 avx512f", ["bfloat16"] * 2)):
        sizing.CPU.write_text(f"flags : {flags}")
        assert [plan_replicas(one, dry=True)[0].preset.dtype for one in wanted] == dtypes


def test_gpus_that_the_shell_leaves_to_us(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [Gpu("H100", 85.5, 9.0, "570.1", str(n), f"GPU-{n}") for n in (0, 1)]
    monkeypatch.setattr(sizing, "find_gpus", lambda: here)
    assert "CUDA_VISIBLE_DEVICES" not in plan_replicas(ServeOptions("llama3.1-8b"))[0].command.env
    here.append(Gpu("L40S", 48.3, 8.9, "570.1", "2", "GPU-2"))
    (every,) = plan_replicas(ServeOptions("llama3.1-8b"))
    assert (every.gpus, every.command.env["VLLM_BATCH_INVARIANT"]) == ((here[0],), "1")
    assert every.command.env["CUDA_VISIBLE_DEVICES"] == "0,1"  # the odd one is left out
    two = plan_replicas(ServeOptions("llama3.1-8b", replicas=2))
    assert [one.command.env["CUDA_VISIBLE_DEVICES"] for one in two] == ["0", "1"]
    told = provenance.describe_server(every.preset, every.preset.model, every.command, every.gpus)
    assert (told["hardware"], told["driver"], told["batch_invariant"]) == (["H100"], "570.1", True)
    assert told["unknown"] == ["quantization", "revision", "template"]  # nothing of the repository is on this disk
    for chosen, ids in {"GPU-1,0": ["GPU-1", "0"], "1,-1,0": ["1"], "0,0": ["0"], "³": [], "": [], "7": []}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        assert [gpu.id for gpu in sizing.visible_gpus(here)] == ids, chosen
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    with pytest.raises(MachineError, match="MIG slices"):
        sizing.visible_gpus(here)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "0")
    (last,) = plan_replicas(ServeOptions("llama3.1-8b"))
    assert (last.gpus, last.command.env["VLLM_BATCH_INVARIANT"]) == ((here[2],), "0")


def test_who_has_the_port(cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = cli("serve", "--port", port)
    assert done.code == 2
    assert f"127.0.0.1:{port}: cannot listen (Address already in use by pid {os.getpid()} (" in done.err
    assert "choose another --port" in done.err


# what `make serve` records


def record(endpoint: Endpoint, model: str, **more) -> None:
    registry.write_record(
        endpoint.port, url=endpoint.url, model=model, revision="r1", command=["vllm", "serve"], **more
    )


def test_an_address_of_our_own_server_tells_as_much(endpoint: Endpoint) -> None:
    record(endpoint, "tiny", server={"dtype": "float32", "unknown": []})
    found = choose_target((endpoint.url,), None, None)
    assert (found.server["dtype"], found.server["unknown"], found.revision) == ("float32", [], "r1")


def test_servers_that_cannot_be_asked_together(endpoint: Endpoint) -> None:
    record(endpoint, "tiny", server={"dtype": "float32"})
    with pytest.raises(ConfigError, match=f"model 'reference' is not served; live servers: tiny at {endpoint.url}"):
        choose_target((), "reference", None)
    with pytest.raises(ServerError, match="Served there: tiny"):
        choose_target((endpoint.url,), "else", None)
    other = {"url": endpoint.url, "revision": "r1", "command": ["vllm", "serve"]}
    registry.write_record(1, **other, model="tiny", server={"dtype": "float16"})
    with pytest.raises(ConfigError, match="started in different ways"):
        choose_target((), None, None)
    registry.write_record(1, **other, model="b")
    with pytest.raises(ConfigError, match=r"several models are served; name one by --model \(MODEL=\): b, tiny"):
        choose_target((), None, None)


def test_a_broken_preset_is_named_and_does_not_stop_another(cli, tmp_path: Path, monkeypatch) -> None:
    (models := tmp_path / "launch/models").mkdir(parents=True)
    (models / "wrong.yaml").write_text("name: [")
    (models / "good.yaml").write_text("schema: 1\nname: good\nmodel: acme/good\nweights_gb: 1\nmax_model_len: 4096\n")
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path))
    passes(cli("serve", "--list"), "acme/good", "broken: wrong: ")
    assert Preset.lookup("acme/good") == Preset.load("good")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("env: {HF_TOKEN: hf_x}", "no secrets in a preset"),
        ("env: {AWS_SECRET_ACCESS_KEY: x}", "no secrets in a preset"),
        ("flags: {api_k: x}", "the process list would show --api-key"),
        ("flags: {host: 0.0.0.0}", "flags: host: tomserve must know it; use tomserve's --host"),
        ("flags: {served-model-name: x}", "`name:` in a preset file"),
        ("request: {max_tokens: 5}", "request: max_tokens is tomserve's own to set"),
    ],
)
def test_what_a_preset_may_not_say(tmp_path: Path, line: str, said: str) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(f"schema: 1\nname: mine\nmodel: a/b\nweights_gb: 1\nmax_model_len: 4096\n{line}\n")
    with pytest.raises(ConfigError, match=re.escape(said)):
        plan_replicas(ServeOptions(str(preset)), dry=True)


def test_request_fields_are_merged_and_false_flags_said() -> None:
    changes = {"request": {"chat_template_kwargs": {"foo": 1}, "stop": ["END"]}, "flags": {"enable-x": False}}
    preset = Preset.load("qwen3-8b").model_copy(update=changes)
    extra = preset.extra("off")
    assert extra["chat_template_kwargs"] == {"foo": 1, "enable_thinking": False}
    assert extra["stop"] == ["END", "<|im_end|>"]
    assert extra["skip_special_tokens"] is False  # or vLLM would not see <|im_end|> in the text
    assert "--no-enable-x" in vllm_command(preset, "m").argv


def test_a_port_that_another_serve_is_loading_for() -> None:
    """vLLM listens only after minutes of loading; until then a lock tells that the port is taken."""
    taken = pytest.raises(MachineError, match=f"taken by another `tomserve serve`.*pid {os.getpid()}")
    with reserve_port(8765), taken:
        reserve_port(8765).__enter__()
    with reserve_port(8765):
        pass


def test_a_record_of_another_is_not_removed(endpoint: Endpoint) -> None:
    path = registry.registry_folder() / f"{endpoint.port}.json"
    record(endpoint, "tiny")
    registry.remove_record(path)
    assert not path.exists()
    record(endpoint, "tiny")
    told = orjson.loads(path.read_bytes())
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        path.write_bytes(orjson.dumps({**told, "pid": other.pid, "born": registry.process_birth(other.pid)}))
        registry.remove_record(path)
        assert path.exists()
        assert registry.records_at([endpoint.url], WaitPolicy()) is not None


# what is installed


def test_one_engine_has_to_be_installed(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "installed_version", lambda name: "0.32.0" if name.startswith("vllm") else None)
    refuses(cli("serve", "--port", free_port()), "both vllm and vllm-cpu are installed")
    monkeypatch.setattr(install, "installed_version", lambda name: None)
    refuses(cli("eval", "--limit", 1), "vLLM is not installed here; run `tomserve setup`")
    assert not list(runfolder.runs_root().glob("*"))  # nothing that `make report` would take for a run


# process control, with a small process in vLLM's place


def shell(code: str) -> Command:
    return Command(["sh", "-c", code], {})


def loading(tmp_path: Path, code: str = "exec sleep 100", port: int | None = None) -> Server:
    return Server(shell(code), host="127.0.0.1", port=port or free_port(), log=tmp_path / f"log {code[:5]}")


def test_a_server_that_does_not_become_healthy_says_why(tmp_path: Path) -> None:
    died = pytest.raises(ServerError, match=r"ended with exit code 3; .* ValueError: no such weights")
    bad = "echo 'ValueError: no such weights'; exit 3"
    with loading(tmp_path) as one, loading(tmp_path, bad) as other, died:
        wait_healthy([one, other], print, timeout=1000)
    with loading(tmp_path) as server, pytest.raises(ServerError, match="the server is not healthy after 0 s"):
        wait_healthy([server], print, timeout=0)


def test_health_of_another_server_is_not_ours(endpoint: Endpoint, tmp_path: Path) -> None:
    wrong = pytest.raises(ServerError, match=f"answered by another server .pid {os.getpid()}.")
    with loading(tmp_path, port=endpoint.port) as server, wrong:
        wait_healthy([server], print, timeout=1000)


def test_stopping_ends_the_whole_group(tmp_path: Path) -> None:
    """A server that ignores SIGTERM, as one that loads does, and a process that it has started."""
    server = loading(tmp_path, "trap '' TERM; sleep 100 & wait; sleep 100")
    assert until(lambda: len(group_of(server.process.pid)) == 2)
    server.stop(patience=0.2)
    server.stop()
    assert group_of(server.process.pid) == []
