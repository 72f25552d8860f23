"""Models over several nodes: how they are spread, and the commands of each node; test_presets.py has vLLM take these."""

import shlex
import subprocess

import pytest

from tomserve.errors import ConfigError, MachineError
from tomserve.serving import hardware, nodes
from tomserve.serving.hardware import parse_gpus
from tomserve.serving.launching import Wanted, prepare
from tomserve.serving.presets import Preset
from tomserve.serving.provenance import flag
from tomserve.serving.sizing import choose, nodes_of


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "gpus", list)


@pytest.mark.parametrize(
    ("text", "by_node", "name"),
    [
        ("2x8xA100-40GB", [8, 8], "A100-40GB"),
        ("2 x 8 x NVIDIA A100-SXM4-80GB", [8, 8], "A100-80GB"),
        ("2x4x24GB", [4, 4], "24GB"),
        ("1x8xH100", [8], "H100"),
        ("H200", [1], "H200"),
    ],
)
def test_the_gpus_of_several_nodes(text: str, by_node: list[int], name: str) -> None:
    found = parse_gpus(text)
    assert {gpu.name for gpu in found} == {name}
    assert [sum(gpu.node == node for gpu in found) for node in range(len(by_node))] == by_node
    assert len(found) == sum(by_node)
    assert [gpu.node for gpu in found] == sorted(gpu.node for gpu in found)


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        ("qwen3-235b-a22b", "2x8xA100-40GB", (8, 2, 2)),
        ("qwen3-235b-a22b", "8xA100-80GB", (8, 1, 1)),
        ("qwen3-235b-a22b", "4x8xA100-80GB", (8, 1, 1)),  # one of four nodes is enough
        ("llama3.1-405b", "2x8xA100-80GB", (8, 2, 2)),
        ("llama3.1-405b", "4x8xA100-40GB", (8, 4, 4)),
        ("llama3.1-405b", "4x4xA100-80GB", (4, 3, 3)),  # the fourth is not needed
        ("llama3-70b", "2x1xH200", (1, 2, 2)),
    ],
)
def test_how_models_are_spread(name: str, gpus: str, expected: tuple[int, int, int]) -> None:
    layout = choose(Preset.load(name), parse_gpus(gpus))
    assert (layout.tensor, layout.pipeline, layout.nodes) == expected
    assert layout.weights_gb == pytest.approx(Preset.load(name).weights_gb / (layout.tensor * layout.pipeline))
    assert layout.weights_gb + layout.cache_gb + 5 == pytest.approx(layout.gpu.memory_gb * layout.utilization)
    assert layout.comfortable


@pytest.mark.parametrize(
    ("tensor", "pipeline", "nodes", "each", "over"),
    [
        (8, 2, 2, 8, 2),
        (4, 2, 2, 8, 1),
        (4, 3, 3, 8, 3),  # two nodes would cut a stage in two
        (4, 3, 2, 8, None),
        (16, 1, 2, 8, 2),  # a stage that alone takes two nodes
        (16, 1, 1, 8, None),
        (8, 3, 2, 8, None),
        (1, 5, 3, 2, None),  # vLLM asks for as many GPUs of every node
        (1, 6, 3, 2, 3),
    ],
)
def test_no_stage_is_cut_by_the_border_of_a_node(
    tensor: int, pipeline: int, nodes: int, each: int, over: int | None
) -> None:
    assert nodes_of(tensor, pipeline, nodes, each) == over


def test_dry_run_prints_the_commands_of_every_node(cli) -> None:
    done = cli("serve", "qwen3-235b-a22b", "--dry-run", "--gpus", "2x8xA100-40GB", "--", "--max-num-seqs", "7")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert "# Node 0 of 2, which answers requests:" in lines
    assert all('"$HEAD"' in line for line in lines if not line.startswith("#"))
    first, second = (shlex.split(line) for line in lines if not line.startswith("#"))
    for words, rank in ((first, "0"), (second, "1")):
        assert flag(words, "--tensor-parallel-size") == "8"
        assert flag(words, "--pipeline-parallel-size") == "2"
        assert flag(words, "--nnodes") == "2"
        assert flag(words, "--node-rank") == rank
        assert words[-2:] == ["--max-num-seqs", "7"]  # the user's own come last
    assert "--headless" not in first
    assert "--headless" in second


def test_dry_run_through_ray(cli) -> None:
    done = cli("serve", "llama3.1-405b", "--dry-run", "--gpus", "3x4xH100", "--backend", "ray")
    assert done.code == 0, done.err
    begin, serve, *join = (line for line in done.out.splitlines() if not line.startswith("#"))
    assert "ray start --head --port 6379 --include-dashboard false --num-gpus 4" in begin
    assert "--pipeline-parallel-size 3 --distributed-executor-backend ray" in serve
    assert "--nnodes" not in serve
    assert len(join) == 2
    assert all('ray start --address "$HEAD:6379" --num-gpus 4 --block' in line for line in join)


def test_a_shell_fills_in_the_address_and_the_port() -> None:
    (server,) = prepare(Wanted("llama3.1-405b", gpus="2x8xA100-80GB"), dry=True)
    assert [len(commands) for commands in server.ranks] == [1, 1]
    lines = [nodes.shell(one) for commands in nodes.at_port(server.ranks) for one in commands]
    printed = subprocess.run(
        ["sh", "-c", f"HEAD='10.0.0.1 x'; PORT=81; set -- {lines[1].split(' ', 3)[3]}; printf '%s\\n' \"$@\""],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert flag(printed, "--master-addr") == "10.0.0.1 x"  # one word, whatever it holds
    assert flag(printed, "--port") == "81"
    assert flag(printed, "--master-port") == "29501"


def test_only_node_0_asks_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "s3cret-key")
    for backend in nodes.BACKENDS:
        wanted = Wanted("llama3.1-405b", "0.0.0.0", gpus="2x8xA100-80GB", backend=backend)
        (server,) = prepare(wanted, dry=True)
        assert server.command.secret == {"VLLM_API_KEY": "s3cret-key"}
        assert [one.secret for one in server.ranks[1]] == [{}]
        script = "\n".join(nodes.script(server.ranks))
        assert "s3cret-key" not in script
        assert script.count("VLLM_API_KEY=") == 1


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted("llama3-70b", gpus="2x8xA100-80GB", backend="ray"), "llama3-70b takes one node, so there are no nodes"),
        (Wanted("qwen3-8b", gpus="2x8xA100-80GB", replicas=2), "--gpus names several"),
        *(
            (Wanted("llama3.1-405b", gpus="2x8xA100-80GB", extra=(word,)), "tomserve gives this flag itself")
            for word in ("--nnodes=2", "--headless", "-r")
        ),
    ],
)
def test_what_is_refused(wanted: Wanted, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        prepare(wanted, dry=True)


def test_a_backend_is_known_and_for_a_dry_run(cli) -> None:
    assert "backend 'mpi'" in cli("serve", "llama3-70b", "--dry-run", "--backend", "mpi").err
    assert "it goes with --dry-run" in cli("serve", "llama3-70b", "--backend", "mp").err


def test_too_few_gpus_over_all_nodes(cli) -> None:
    done = cli("serve", "llama3.1-405b", "--dry-run", "--gpus", "2x4xA100-80GB")
    assert done.code == 2
    assert "over 8 of them the weights take 101.5 GB of each, and 74.0 GB of each are usable" in done.err
    assert "--dry-run --gpus 3x4xA100-80GB` prints the commands for 3 nodes" in done.err
    assert cli("serve", "llama3.1-405b", "--dry-run", "--gpus", "3x4xA100-80GB").code == 0  # the way out is one
    with pytest.raises(MachineError, match="reckons with larger GPUs"):
        choose(Preset.load("llama3.1-405b").model_copy(update={"weights_gb": 9e5}), parse_gpus("2x4xL4"))
