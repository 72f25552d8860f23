"""How many GPUs a model takes: the arithmetic, what it reads from disk, and the GPUs that users name."""

import shlex
import subprocess
from pathlib import Path

import orjson
import pytest

from tomserve.errors import ConfigError, MachineError
from tomserve.serving import command, sizing
from tomserve.serving.checkpoint import find_snapshot
from tomserve.serving.presets import Preset, Shape
from tomserve.serving.provenance import flag_value
from tomserve.serving.serve import ServeOptions, plan_replicas
from tomserve.serving.sizing import Gpu, choose_layout, describe_model, divides_heads, parse_gpus

A100 = parse_gpus("8xA100-80GB")


def test_the_sum_is_what_it_says() -> None:
    layout = choose_layout(Preset.load("llama3-70b"), A100)
    assert (layout.tensor, layout.pipeline) == (4, 1)
    assert layout.weights_gb == pytest.approx(141 / 4)
    assert layout.token_kb == pytest.approx(2 * 80 * 8 * 128 * 2 / 1e3)
    left = 81920 * 2**20 / 1e9 * 0.92 - 141 / 4 - 5
    assert layout.cache_gb == pytest.approx(left)
    assert layout.questions == pytest.approx(4 * left * 1e9 / (2 * 80 * 8 * 128 * 2 * 2048))


def test_kv_heads_are_repeated_on_more_gpus_than_there_are() -> None:
    layout = choose_layout(Preset.load("qwen3-235b-a22b").model_copy(update={"reasoning": None}), A100)
    assert (layout.tensor, layout.model.shape.kv_heads) == (8, 4)
    assert layout.questions == pytest.approx(4 * layout.cache_gb * 1e6 / (layout.token_kb * layout.tokens_each))


@pytest.mark.parametrize("number", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["llama3-70b", "vicuna-33b", "qwen3-235b-a22b", "qwen3-8b", "mixtral-8x7b"])
def test_what_is_chosen_fits_and_nothing_smaller_does(name: str, number: int) -> None:
    preset = Preset.load(name)
    try:
        layout = choose_layout(preset, A100[:number])
    except MachineError:
        assert preset.weights_gb / number > A100[0].memory_gb * 0.92 - 2 * sizing.SPARE_GB
        return
    assert layout.gpus <= number
    assert layout.weights_gb + sizing.SPARE_GB < A100[0].memory_gb * 0.92
    assert preset.shape.heads % layout.tensor == 0
    for fewer in range(1, layout.gpus):
        try:
            other = choose_layout(preset, A100[:fewer])
            assert not other.comfortable or other.pipeline > 1  # which is slower, so only a last resort
        except MachineError:
            continue


def test_heads_are_divided_and_pipelines_come_last() -> None:
    for heads, kv_heads, over in ((52, 52, [1, 2, 4]), (64, 4, [1, 2, 4, 8]), (48, 3, [1])):  # each kv head twice
        shape = Shape(layers=1, heads=heads, kv_heads=kv_heads, head_dim=128)
        assert [n for n in (1, 2, 4, 8) if divides_heads(shape, n)] == over
    six = {"shape": Shape(layers=60, heads=6, kv_heads=6, head_dim=64), "weights_gb": 200.0}
    layout = choose_layout(Preset.load("vicuna-33b").model_copy(update=six), A100)
    assert (layout.tensor, layout.pipeline) == (2, 2)


def write_model(folder: Path, config: dict, gigabytes: float | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(orjson.dumps(config))
    if gigabytes is not None:
        index = {"metadata": {"total_size": int(gigabytes * 1e9)}, "weight_map": {}}
        (folder / "model.safetensors.index.json").write_bytes(orjson.dumps(index))
    return folder


LLAMA = {"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_size": 8192}


def test_what_is_on_disk_counts_more_than_the_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    preset = Preset.load("llama2-70b")
    assert find_snapshot(preset.model, None) is None
    assert describe_model(preset).source == "the preset's figure"
    cache = tmp_path / "hub/models--meta-llama--Llama-2-70b-chat-hf"
    folder = write_model(cache / "snapshots/0ff1ce", {**LLAMA, "num_hidden_layers": 40}, 70.5)
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("0ff1ce")
    assert find_snapshot(preset.model, None) == folder
    found = describe_model(preset)
    assert (found.weights_gb, found.commit, found.source) == (70.5, "0ff1ce", "the size of its files")
    assert found.shape.layers == 40
    assert choose_layout(preset, A100).gpus == 2
    assert find_snapshot(preset.model, "0ff1ce") == folder
    assert find_snapshot(preset.model, "other") is None


@pytest.mark.parametrize(
    ("text", "by_node", "name"),
    [
        ("8xA100-80GB", [8], "A100-80GB"),
        ("H200", [1], "H200"),
        ("8×H100 SXM5", [8], "H100"),
        ("2x8xA100-40GB", [8, 8], "A100-40GB"),
        ("2 x 8 x NVIDIA A100-SXM4-80GB", [8, 8], "A100-80GB"),
        ("1x8xH100", [8], "H100"),
    ],
)
def test_gpus_as_users_write_them(text: str, by_node: list[int], name: str) -> None:
    found = parse_gpus(text)
    assert {gpu.name for gpu in found} == {name}
    assert [gpu.node for gpu in found] == [node for node, count in enumerate(by_node) for _ in range(count)]
    assert found[0].memory_gb > 20


@pytest.mark.parametrize(
    "text",
    [
        *("", "8x", "A100", "0xH100", "8xH1OO", "x", "3;rm", "99999xH100", "2xA100-80GB+H100"),
        *("0x8xH100", "2x0xH100", "2x2x2xH100", "2x8x", "1000x8xH100"),
    ],
)
def test_gpus_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--gpus .*(COUNTxNAME-MEMORY|how much memory)"):
        parse_gpus(text)


def test_the_smallest_gpu_decides() -> None:
    mixed = [Gpu("big", 200.0), Gpu("small", 25.0)]
    assert choose_layout(Preset.load("llama3.1-8b"), mixed).gpu.name == "small"


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "find_gpus", list)


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        ("qwen3-235b-a22b", "2x8xA100-40GB", (8, 2, 2)),
        ("qwen3-235b-a22b", "4x8xA100-80GB", (8, 1, 1)),  # one of four nodes is enough
        ("llama3.1-405b", "2x8xA100-80GB", (8, 2, 2)),
        ("llama3.1-405b", "4x4xA100-80GB", (4, 3, 3)),  # the fourth is not needed
    ],
)
def test_how_models_are_spread(name: str, gpus: str, expected: tuple[int, int, int]) -> None:
    layout = choose_layout(Preset.load(name), parse_gpus(gpus))
    assert (layout.tensor, layout.pipeline, layout.nodes) == expected
    assert layout.weights_gb == pytest.approx(Preset.load(name).weights_gb / (layout.tensor * layout.pipeline))
    assert layout.weights_gb + layout.cache_gb + 5 == pytest.approx(layout.gpu.memory_gb * layout.utilization)
    assert layout.comfortable


def test_dry_run_prints_the_commands_of_every_node(cli) -> None:
    done = cli("serve", "qwen3-235b-a22b", "--dry-run", "--gpus", "2x8xA100-40GB", "--", "--max-num-seqs", "7")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert "# Node 0 of 2, which answers requests:" in lines
    assert all('"$HEAD"' in line for line in lines if not line.startswith("#"))
    first, second = (shlex.split(line) for line in lines if not line.startswith("#"))
    for words, rank in ((first, "0"), (second, "1")):
        assert flag_value(words, "--tensor-parallel-size") == "8"
        assert flag_value(words, "--pipeline-parallel-size") == "2"
        assert flag_value(words, "--nnodes") == "2"
        assert flag_value(words, "--node-rank") == rank
        assert words[-2:] == ["--max-num-seqs", "7"]  # the user's own come last
    assert "--headless" not in first
    assert "--headless" in second


def test_a_shell_fills_in_the_address_and_the_port() -> None:
    (server,) = plan_replicas(ServeOptions("llama3.1-405b", gpus="2x8xA100-80GB"), dry=True)
    assert [len(commands) for commands in server.node_commands] == [1, 1]
    lines = [command.shell_line(one) for commands in command.set_port(server.node_commands) for one in commands]
    printed = subprocess.run(
        ["sh", "-c", f"HEAD='10.0.0.1 x'; PORT=81; set -- {lines[1].split(' ', 3)[3]}; printf '%s\\n' \"$@\""],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert flag_value(printed, "--master-addr") == "10.0.0.1 x"  # one word, whatever it holds
    assert flag_value(printed, "--port") == "81"
    assert flag_value(printed, "--master-port") == "29501"


def test_only_node_0_asks_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "s3cret-key")
    for backend in command.BACKENDS:
        wanted = ServeOptions("llama3.1-405b", "0.0.0.0", gpus="2x8xA100-80GB", backend=backend)
        (server,) = plan_replicas(wanted, dry=True)
        assert server.command.secret == {"VLLM_API_KEY": "s3cret-key"}
        assert [one.secret for one in server.node_commands[1]] == [{}]
        script = "\n".join(command.node_script(server.node_commands))
        assert "s3cret-key" not in script
        assert script.count("VLLM_API_KEY=") == 1


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            ServeOptions("llama3-70b", gpus="2x8xA100-80GB", backend="ray"),
            "llama3-70b takes one node, so there are no nodes",
        ),
        (ServeOptions("qwen3-8b", gpus="2x8xA100-80GB", replicas=2), "--gpus names several"),
        *(
            (ServeOptions("llama3.1-405b", gpus="2x8xA100-80GB", extra=(word,)), "tomserve gives this flag itself")
            for word in ("--nnodes=2", "--headless", "-r")
        ),
    ],
)
def test_what_is_refused(wanted: ServeOptions, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan_replicas(wanted, dry=True)


def test_too_few_gpus_over_all_nodes(cli) -> None:
    done = cli("serve", "llama3.1-405b", "--dry-run", "--gpus", "2x4xA100-80GB")
    assert done.code == 2
    assert "over 8 of them the weights take 101.5 GB of each, and 74.0 GB of each are usable" in done.err
    assert "--dry-run --gpus 3x4xA100-80GB` prints the commands for 3 nodes" in done.err
    assert cli("serve", "llama3.1-405b", "--dry-run", "--gpus", "3x4xA100-80GB").code == 0  # the way out is one
    with pytest.raises(MachineError, match="reckons with larger GPUs"):
        choose_layout(Preset.load("llama3.1-405b").model_copy(update={"weights_gb": 9e5}), parse_gpus("2x4xL4"))
