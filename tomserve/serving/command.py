"""The vLLM command line and environment of a preset, for one node or for several over which the model is spread: with
multiprocessing (``mp``), the same command runs on every node, or with ``ray``, one command on a Ray cluster."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tomserve import content
from tomserve.content.python_file import module_command
from tomserve.errors import ConfigError, ContentError
from tomserve.serving import keys
from tomserve.serving.presets import Flag, Preset
from tomserve.serving.sizing import Gpu, Layout

TEMPLATES = "launch/chat_templates"
QUEUE = 2048
"""How many requests a server queues. It answers 503 to any beyond that, so the client waits instead of timing out."""

LAPTOP = 8
"""How many cores a machine has at most where one core more is worth more than threads that are bound to cores."""


@dataclass(frozen=True)
class Command:
    argv: list[str]
    env: dict[str, str]  # variables to add to the environment
    # further variables, which hold secrets and are never shown, logged or recorded
    secret: dict[str, str] = field(default_factory=dict, repr=False)

    def shell(self) -> str:
        """The command as one line that can be pasted into a shell. Secrets are not written out: the line reads them
        from the variable or file that tomserve took them from."""
        line = shlex.join([*(f"{name}={value}" for name, value in self.env.items()), *self.argv])
        return f"VLLM_API_KEY={keys.shell_source()} {line}" if self.secret else line


def vllm_command(
    preset: Preset,
    model: str,
    *,
    layout: Layout | None = None,
    gpus: Sequence[Gpu] = (),
    host: str = "127.0.0.1",
    port: int = 8000,
    key: str | None = None,
    extra: Sequence[str] = (),
) -> Command:
    """The command that serves a model as its preset says.

    model: a hub id, or a folder of weights. layout: how it is spread over GPUs; None takes the preset's own numbers, or
    one GPU. key: the API key that it asks for, passed in its environment alone. extra: further vLLM flags, which come
    last and override the others. Raises ContentError where the preset's chat template is missing.
    """
    flags: dict[str, Flag] = {
        "host": host,
        "port": port,
        "served-model-name": preset.name,
        "dtype": preset.dtype,
        "max-model-len": preset.max_model_len,
        # Otherwise the repository's generation_config could set a repetition penalty or a limit of tokens unnoticed.
        "generation-config": "vllm",
        # "auto" keeps the backend that the first structured request needs, so output would depend on request order.
        "structured-outputs-config.backend": "xgrammar",
        "structured-outputs-config.disable_any_whitespace": "true",
        "enable-prompt-tokens-details": True,
        "max-num-queued-reqs": QUEUE,
    }
    if preset.revision:
        flags["revision"] = preset.revision
    tensor = layout.tensor if layout else preset.tensor_parallel or 1
    pipeline = layout.pipeline if layout else preset.pipeline_parallel or 1
    if tensor > 1:
        flags["tensor-parallel-size"] = tensor
    if pipeline > 1:
        flags["pipeline-parallel-size"] = pipeline
    if (template := template_file(preset)) is not None:
        flags["chat-template"] = str(template)
    if preset.reasoning is not None:
        flags["reasoning-parser"] = preset.reasoning.parser
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if preset.device == "cpu":
        flags["enforce-eager"] = True
        env |= {"VLLM_HOST_IP": "127.0.0.1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        if (os.cpu_count() or 1) <= LAPTOP:
            # The model computes in the process of the engine, by all cores, rather than in a third process, which
            # imports vLLM once more and leaves one core idle. The answers are the same.
            env["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    elif preset.batch_invariant and gpus and all(gpu.batch_invariant for gpu in gpus):
        # Otherwise a greedy answer depends on what else is in the batch. A value that the user has set is kept.
        env["VLLM_BATCH_INVARIANT"] = os.environ.get("VLLM_BATCH_INVARIANT", "1")
    if Path(model).is_absolute() or Path(model).is_dir():  # a folder may be made only before the command runs
        env["HF_HUB_OFFLINE"] = "1"
    argv = module_command("tomserve.serving.vllm_cli", "serve", model)
    for name, value in (flags | preset.flags).items():
        if value is True:
            argv.append(f"--{name}")
        elif value is False:
            argv.append(f"--no-{name}")
        else:
            argv += [f"--{name}", str(value)]
    return Command([*argv, *extra], env | preset.env, {"VLLM_API_KEY": key} if key else {})


def template_file(preset: Preset) -> Path | None:
    """The path of the chat template that the preset names, or None where it uses the one in the model's repository.
    Raises ContentError where the named file does not exist."""
    if preset.chat_template is None or preset.chat_template.file is None:
        return None
    name = preset.chat_template.file
    path = content.find(f"{TEMPLATES}/{name}") if "/" not in name else None
    if path is None:
        raise ContentError("chat template not found", path=Path(TEMPLATES) / name, field="chat_template.file")
    return path


Backend = Literal["mp", "ray"]  # how vLLM connects its processes over nodes
BACKENDS: tuple[Backend, ...] = ("mp", "ray")  # the first is the default
HEAD = "$HEAD"  # what stands in a command for the address of node 0: a variable of the shell (see `shell_line`)
PORT = "$PORT"  # what may stand for the port of the server (see `set_port`)
MASTER_PORT = 29501  # the port of node 0 on which vLLM's processes meet: vLLM's own default
RAY_PORT = 6379  # the port of node 0 on which the nodes of a Ray cluster meet: Ray's own default
_OURS = ("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--headless", "--distributed-executor-backend")


def spread_over_nodes(
    command: Command, layout: Layout, extra: Sequence[str] = (), *, backend: Backend = "mp", head: str = HEAD
) -> list[tuple[Command, ...]]:
    """The commands of each node, in the order of the nodes; those of one node are run one after the other.

    extra: the user's flags for vLLM, the last words of the command, which stay the last. head: the address of node 0,
    where the server answers. Raises ConfigError where the user's flags would connect the nodes in another way.
    """
    if taken := [word for word in extra if word.partition("=")[0] in _OURS]:
        raise ConfigError(
            f"{taken[0]}: over several nodes tomserve gives this flag itself; leave it out, and choose between "
            f"{' and '.join(BACKENDS)} by --backend"
        )
    if backend == "ray":
        return _by_ray(command, layout, extra, head)
    ranks: list[tuple[Command, ...]] = []
    for rank in range(layout.nodes):
        words = ["--nnodes", str(layout.nodes), "--node-rank", str(rank)]
        words += ["--master-addr", head, "--master-port", str(MASTER_PORT)]
        one = _with(command, [*words, *(["--headless"] if rank else [])], extra)
        # Only node 0 answers requests, so only it asks for a key.
        ranks.append((replace(one, secret={}) if rank else one,))
    return ranks


def _by_ray(command: Command, layout: Layout, extra: Sequence[str], head: str) -> list[tuple[Command, ...]]:
    """The same through Ray: node 0 begins a cluster that the others join, and one command serves on all of them."""
    start = [str(Path(sys.executable).with_name("ray")), "start"]
    gpus = ["--num-gpus", str(layout.gpus // layout.nodes)]
    quiet = {"RAY_USAGE_STATS_ENABLED": "0"}
    begin = Command([*start, "--head", "--port", str(RAY_PORT), "--include-dashboard", "false", *gpus], quiet)
    join = Command([*start, "--address", f"{head}:{RAY_PORT}", *gpus, "--block"], quiet)
    serve = _with(command, ["--distributed-executor-backend", "ray"], extra)
    return [(begin, serve), *[(join,)] * (layout.nodes - 1)]


def _with(command: Command, words: Sequence[str], extra: Sequence[str]) -> Command:
    own = len(command.argv) - len(extra)
    return replace(command, argv=[*command.argv[:own], *words, *command.argv[own:]], env=dict(command.env))


def set_port(ranks: Sequence[Sequence[Command]], port: str = PORT) -> list[list[Command]]:
    """The commands of each node with other words for the port of the server, such as a variable of the shell."""

    def replaced(argv: Sequence[str]) -> list[str]:
        return [port if at and "serve" in argv and argv[at - 1] == "--port" else word for at, word in enumerate(argv)]

    return [[replace(one, argv=replaced(one.argv)) for one in commands] for commands in ranks]


def shell_line(command: Command) -> str:
    """The command as a line for a shell, which still has to replace the variables HEAD and PORT in it."""
    return re.sub(rf"'({re.escape(HEAD)}(?::\d+)?|{re.escape(PORT)})'", r'"\1"', command.shell())


def node_script(ranks: Sequence[Sequence[Command]]) -> list[str]:
    lines = [
        "# On every node first: HEAD=ADDRESS, the address of node 0 by which the others reach it.",
        "# All must see this Python environment and the model's files under the same paths.",
    ]
    for rank, commands in enumerate(ranks):
        lines.append(f"# Node {rank} of {len(ranks)}{', which answers requests' if rank == 0 else ''}:")
        lines += [shell_line(command) for command in commands]
    return lines
