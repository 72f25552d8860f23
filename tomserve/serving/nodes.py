"""Turns the command of one server into the commands of several nodes (machines), over which a model is spread.

vLLM connects its processes over nodes in two ways. With multiprocessing, ``mp``, the same command runs on every node,
with the number of the node and the address of the first; it needs nothing but vLLM, and the processes of a node end
with its command, as a scheduler such as Slurm expects. With Ray, ``ray``, the nodes first become one Ray cluster, and
one command then serves on all of them; that fits where Ray runs already. So ``mp`` is the default.

>>> from tomserve.serving.launching import Wanted, prepare
>>> (server,) = prepare(Wanted("qwen3-235b-a22b", gpus="2x8xA100-40GB"), dry=True)
>>> [len(commands) for commands in server.ranks]
[1, 1]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tomserve.errors import ConfigError
from tomserve.serving.command import Command
from tomserve.serving.sizing import Layout

Backend = Literal["mp", "ray"]
"""How vLLM connects its processes over nodes."""
BACKENDS: tuple[Backend, ...] = ("mp", "ray")
"""The first is the default."""

HEAD = "$HEAD"
"""What stands in a command for the address of node 0: a variable of the shell, which `shell` leaves to be replaced."""
PORT = "$PORT"
"""What may stand for the port of the server (see `at_port`)."""
MASTER_PORT = 29501
"""The port of node 0 on which vLLM's processes meet: vLLM's own default."""
RAY_PORT = 6379
"""The port of node 0 on which the nodes of a Ray cluster meet: Ray's own default."""

_OURS = ("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--headless", "--distributed-executor-backend")


def spread(
    command: Command, layout: Layout, extra: Sequence[str] = (), *, backend: Backend = "mp", head: str = HEAD
) -> list[tuple[Command, ...]]:
    """The commands of each node, in the order of the nodes; those of one node are run one after the other.

    command: the server's, as for one node. layout: over how many nodes the model is spread. extra: the user's flags for
    vLLM, the last words of the command, which stay the last. head: the address of node 0, where the server answers.
    Raises ConfigError where the user's flags would connect the nodes in another way.
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
    """The command with further flags, before those of the user, which thus override them."""
    own = len(command.argv) - len(extra)
    return replace(command, argv=[*command.argv[:own], *words, *command.argv[own:]], env=dict(command.env))


def at_port(ranks: Sequence[Sequence[Command]], port: str = PORT) -> list[list[Command]]:
    """The commands of each node with other words for the port of the server, such as a variable of the shell."""
    return [[replace(one, argv=_ported(one.argv, port)) for one in commands] for commands in ranks]


def _ported(argv: Sequence[str], port: str) -> list[str]:
    return [port if at and "serve" in argv and argv[at - 1] == "--port" else word for at, word in enumerate(argv)]


def shell(command: Command) -> str:
    """The command as a line for a shell, which still has to replace the variables HEAD and PORT in it."""
    return re.sub(rf"'({re.escape(HEAD)}(?::\d+)?|{re.escape(PORT)})'", r'"\1"', command.shell())


def script(ranks: Sequence[Sequence[Command]]) -> list[str]:
    """What to run on which node, as lines of a shell with remarks for people."""
    lines = [
        "# On every node first: HEAD=ADDRESS, the address of node 0 by which the others reach it.",
        "# All must see this Python environment and the model's files under the same paths.",
    ]
    for rank, commands in enumerate(ranks):
        lines.append(f"# Node {rank} of {len(ranks)}{', which answers requests' if rank == 0 else ''}:")
        lines += [shell(command) for command in commands]
    return lines
