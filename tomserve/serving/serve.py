"""The command `tomserve serve`: plans servers, runs them in the foreground, lists and explains presets."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jinja2 import Template
from rich import box
from rich.console import Console
from rich.table import Table

from tomserve import content
from tomserve.content import files
from tomserve.content.text import say
from tomserve.engine.request import Sampling
from tomserve.errors import ConfigError, MachineError, ServerError
from tomserve.serving import auto_preset, install, keys, provenance, registry, sizing
from tomserve.serving.auto_preset import resolve_preset
from tomserve.serving.command import BACKENDS, Backend, Command, node_script, spread_over_nodes, vllm_command
from tomserve.serving.preflight import PLAIN, learn_adaptations
from tomserve.serving.presets import REFERENCE, Preset, Verified
from tomserve.serving.probe import Probe, is_healthy
from tomserve.serving.server import Server, check_port, reserve_port, wait_healthy
from tomserve.serving.sizing import Gpu, Layout, parse_gpus
from tomserve.serving.weights import Weights, fetch_weights, find_weights


@dataclass(frozen=True)
class ServeOptions:
    name: str = REFERENCE  # a preset, the path of a preset file, or a model that `resolve_preset` derives one for
    host: str = "127.0.0.1"
    port: int = 8000  # of the first replica; the others take the ports after it
    extra: tuple[str, ...] = ()  # flags for vLLM
    gpus: str | None = None  # GPUs to plan for, as `sizing.parse_gpus` reads them; None for those of this machine
    replicas: int = 1
    insecure: bool = False  # allow others to ask without a key
    backend: Backend | None = None  # how vLLM connects several nodes


@dataclass(frozen=True)
class Replica:
    preset: Preset
    weights: Weights  # what it loads; those of a package may have to be fetched first
    command: Command  # of several nodes that of the one that answers
    port: int
    layout: Layout | None
    gpus: tuple[Gpu, ...] = field(default=())  # those it uses; none on a CPU
    own: Preset | None = None  # the preset before the user's flags, unless launch/models/ has it
    extra: tuple[str, ...] = ()  # the user's flags for vLLM, the last words of the command
    # of each node, in their order, where the model is spread over several; empty for one node
    node_commands: tuple[tuple[Command, ...], ...] = ()

    def describe(self, revision: str | None) -> dict[str, Any]:
        """What is known about its server; with the preset itself where its name alone would not tell what it is."""
        own = None if self.own is None else self.own.model_dump(mode="json", by_alias=True, exclude_unset=True)
        found = provenance.describe_server(
            self.preset, self.weights.model, self.command, self.gpus, revision=revision, extra=self.extra
        )
        return found if own is None else {**found, "preset": own}


def plan_replicas(wanted: ServeOptions, *, dry: bool = False) -> list[Replica]:
    """The servers to start, in the order of their ports. dry: the commands will only be shown, so a machine without
    GPUs is planned for as `assume_gpus` says. Raises ConfigError, ContentError, MachineError."""
    found, derived = resolve_preset(wanted.name, wanted.extra, gpus=wanted.gpus)
    for line in (derived.announcement(), *derived.remarks) if derived is not None else ():
        say(line, error=True)
    own = None if found.name in content.names("launch/models", ".yaml") and Preset.load(found.name) == found else found
    preset = apply_flags(found, wanted.extra)
    if preset.dtype != found.dtype and provenance.flag_value(wanted.extra, "--dtype") is None:
        say(f"{preset.name}: in {preset.dtype}, as this CPU has no instructions for {found.dtype}", error=True)
    keys.check_flags(wanted.extra)
    if (last := wanted.port + wanted.replicas - 1) > 65535:
        raise ConfigError(
            f"--port {wanted.port}: {wanted.replicas} replicas would need ports up to {last}, and 65535 is the "
            "highest; choose a lower --port"
        )
    key = keys.server_key(wanted.host, insecure=wanted.insecure)
    weights = find_weights(preset)
    shares = _shares(preset, wanted, dry)
    replicas = []
    for number, (gpus, env) in enumerate(shares):
        layout = sizing.choose_layout(preset, gpus) if preset.device == "cuda" else None
        port = wanted.port + number
        command = vllm_command(
            preset, weights.model, layout=layout, gpus=gpus, host=wanted.host, port=port, key=key, extra=wanted.extra
        )
        command.env.update(env)
        used = gpus[: layout.gpus] if layout else ()
        ranks: tuple[tuple[Command, ...], ...] = ()
        if layout is not None and layout.nodes > 1:
            ranks = tuple(spread_over_nodes(command, layout, wanted.extra, backend=wanted.backend or BACKENDS[0]))
            command = ranks[0][-1]
        elif wanted.backend is not None:
            raise ConfigError(
                f"--backend {wanted.backend}: {preset.name} takes one node, so there are no nodes to connect; leave "
                "--backend out"
            )
        replicas.append(Replica(preset, weights, command, port, layout, used, own, wanted.extra, ranks))
    return replicas


def apply_flags(preset: Preset, extra: Sequence[str]) -> Preset:
    """The preset as vLLM will run it on this machine once the user's own flags have overridden it: parallelism, data
    type, quantization, revision, context length and memory utilization. Where the CPU would compute bfloat16 slowly
    (`sizing.widens_bfloat16`), it is float32. Raises ConfigError for a context longer than the model was made for."""
    changes: dict[str, object] = {}
    if preset.device == "cpu" and preset.dtype == "bfloat16" and sizing.widens_bfloat16():
        changes["dtype"] = "float32"
    for name, flags in (
        ("tensor_parallel", ("--tensor-parallel-size", "-tp")),
        ("pipeline_parallel", ("--pipeline-parallel-size", "-pp")),
        ("max_model_len", ("--max-model-len",)),
    ):
        if (value := _whole(provenance.flag_value(extra, *flags))) is not None:
            changes[name] = value
    length = changes.get("max_model_len")
    if isinstance(length, int) and preset.context is not None and length > preset.context:
        raise ConfigError(f"--max-model-len {length}: {preset.name} was made for at most {preset.context} tokens")
    for name in ("dtype", "quantization", "revision"):
        if (value_given := provenance.flag_value(extra, f"--{name}")) is not None:
            changes[name] = value_given
    with contextlib.suppress(ValueError):
        share = float(provenance.flag_value(extra, "--gpu-memory-utilization") or "no")
        changes["flags"] = {**preset.flags, "gpu-memory-utilization": share}
    factor = _SHRINKS.get(
        str(changes.get("quantization")), 2.0 if changes.get("dtype") in ("float32", "float") else 1.0
    )
    return preset.model_copy(update={**changes, "weights_gb": preset.weights_gb * factor})


_SHRINKS = {"fp8": 0.5, "bitsandbytes": 0.3}
"""Share of their size to which vLLM shrinks 16-bit weights while it loads them, by method of quantization.

Other methods are not listed because their weights are published in that form, with a size of their own.
"""


def _whole(text: str | None) -> int | None:
    """A positive whole number as vLLM reads it (``32k`` is 32,000 and ``32K`` 32,768), or None where it is not one."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([kKmM]?)", text or "")
    scale = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}
    return int(float(match[1]) * scale[match[2]]) or None if match else None


def assume_gpus(preset: Preset, text: str | None, *, dry: bool, installed: list[Gpu] | None = None) -> list[Gpu]:
    """The GPUs to plan for: those that the user names, else the usable ones of this machine. dry: nothing will be
    started, so a machine without GPUs is taken to be `sizing.STUDY`. installed: the GPUs of this machine where they
    are known already. Raises ConfigError where `text` cannot be read, MachineError for slices of GPUs."""
    if text is not None:
        return sizing.parse_gpus(text)
    here = sizing.visible_gpus(sizing.find_gpus() if installed is None else installed)
    equal = sizing.group_gpus(here)
    if len(equal) < len(here):
        say(
            f"This machine has {len(here)} GPUs of different kinds; the {len(equal)} of kind {equal[0].name} are used, "
            "because a model is spread over GPUs of one kind.",
            error=True,
        )
    return equal or (sizing.parse_gpus(sizing.STUDY) if dry and preset.device == "cuda" else [])


def check_replicas(gpus: Sequence[Gpu], replicas: int) -> None:
    """Raise ConfigError where several replicas are wanted on several nodes."""
    if replicas > 1 and len({gpu.node for gpu in gpus}) > 1:
        raise ConfigError(
            f"--replicas {replicas}: replicas share the GPUs of one node, and --gpus names several; name the GPUs of "
            "one node, or of the nodes of one replica, and run the command for each"
        )


def _shares(preset: Preset, wanted: ServeOptions, dry: bool) -> list[tuple[tuple[Gpu, ...], dict[str, str]]]:
    """The GPUs and the additional environment of each replica; GPUs, or CPU cores, are divided evenly. Raises
    MachineError where there are fewer of them than replicas."""
    count = wanted.replicas
    if preset.device == "cpu":
        if count == 1:
            return [((), {})]
        cores = (
            sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
        )
        if len(cores) < count:
            raise MachineError(
                f"--replicas {count}: each replica needs a CPU core at least, and this machine has {len(cores)}"
            )
        each = len(cores) // count
        bound = [cores[n * each : (n + 1) * each] for n in range(count)]
        return [((), {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, share))}) for share in bound]
    installed = sizing.find_gpus() if wanted.gpus is None else []
    gpus = assume_gpus(preset, wanted.gpus, dry=dry, installed=installed)
    if wanted.gpus is None and dry and not sizing.visible_gpus(installed):
        say(
            f"This machine has no usable GPU, so the command is planned for {sizing.STUDY}; --gpus names other GPUs.",
            error=True,
        )
    check_replicas(gpus, count)
    if count > 1 and len(gpus) < count:
        raise MachineError(f"--replicas {count}: each replica needs a GPU at least, and {len(gpus)} were found")
    each = len(gpus) // count
    if count == 1 and (wanted.gpus is not None or len(gpus) == len(installed)):
        return [(tuple(gpus), {})]
    shares = []
    for number in range(count):
        share = tuple(gpus[number * each : (number + 1) * each])
        names = [gpu.id if gpu.id is not None else str(number * each + at) for at, gpu in enumerate(share)]
        # Our numbers are nvidia-smi's, which follow the PCI bus; CUDA by itself counts the fastest GPU first.
        shares.append((share, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(names)}))
    return shares


SILENT = 60.0  # seconds after which a replica that runs but does not answer /health is reported as silent


def server_commands(wanted: ServeOptions) -> list[str]:
    """The exact shell lines that `serve` would run, one a replica; for several nodes, those of each with remarks."""
    replicas = plan_replicas(wanted, dry=True)
    _warn(replicas[0].preset)
    if replicas[0].node_commands:
        return node_script(replicas[0].node_commands)
    return [replica.command.shell() for replica in replicas]


def serve(wanted: ServeOptions, *, setup: bool, console: Console) -> None:
    """Start the servers and keep them running until Ctrl-C, SIGTERM, or until the last of them has ended by itself.
    setup: install vLLM first where it is missing. Raises ConfigError, ContentError or MachineError where serving
    cannot begin, ServerError where it fails."""

    def tell(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True, highlight=False)

    replicas = plan_replicas(wanted)
    preset = replicas[0].preset
    _warn(preset)
    for replica in replicas:
        check_port(wanted.host, replica.port)
    if setup:
        install.setup("cuda" if preset.device == "cuda" else None, tell)
    install.require_engine()
    fetch_weights(preset, tell)
    with contextlib.ExitStack() as stack:
        for replica in replicas:
            stack.enter_context(reserve_port(replica.port))
            check_port(wanted.host, replica.port)
        started: list[_RunningReplica] = []
        try:
            for replica in replicas:
                if replica.layout is not None and not replica.layout.comfortable:
                    questions = int(replica.layout.questions)
                    tell(f"Memory is tight: only {questions} questions fit at a time; --explain shows the arithmetic.")
                tell(replica.command.shell())
                started.append(stack.enter_context(_RunningReplica.begin(replica, wanted, several=len(replicas) > 1)))
            wait_healthy([one.server for one in started], tell)
            for one in started:
                probe = Probe(one.server.url, keys.server_key(wanted.host, insecure=True))
                learn_adaptations([probe], preset.name, [("", PLAIN)], Sampling(), "on")
            for one in started:
                one.write_record(tell)
                tell(f"serving {preset.name} at {one.server.url}")
            servers = f"these {len(started)} replicas" if len(started) > 1 else "this server"
            tell(f"`make eval` in another terminal finds {servers}; Ctrl-C ends {servers}.")
            _watch(started, tell)
        finally:
            for one in started:  # tell all of them to end before the first is waited for
                one.forget()
                one.server.end()


@dataclass
class _RunningReplica:
    replica: Replica
    server: Server
    record: Path | None = None  # the file that lets `tomserve eval` find it
    state: str = "up"  # "up", "silent" or "ended"
    answered: float = 0.0  # when it last answered /health, by time.monotonic()

    @classmethod
    def begin(cls, replica: Replica, wanted: ServeOptions, *, several: bool) -> _RunningReplica:
        log: Path | None = registry.registry_folder() / f"{replica.port}.log"
        try:
            registry.make_registry_folder()
        except OSError:
            log = None  # then the server writes to this terminal, and a failure cannot be explained from a log
        echo = f"[{replica.port}] " if several else ""
        started = cls(replica, Server(replica.command, host=wanted.host, port=replica.port, log=log, echo=echo))
        with contextlib.suppress(OSError, ConfigError):  # `write_record` tells why, once the model is loaded
            started._write(revision=None, loading=True)
        return started

    def __enter__(self) -> _RunningReplica:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        self.server.stop()

    def _write(self, **more: Any) -> Path:
        one, url = self.replica, self.server.url
        self.record = registry.write_record(one.port, url=url, model=one.preset.name, command=one.command.argv, **more)
        return self.record

    def write_record(self, say: Callable[[str], None]) -> None:
        """Write the record by which `tomserve eval` finds the server, or say why it will not."""
        server = self.replica.describe(self.replica.weights.revision)
        try:
            doubt = registry.judge_record(self._write(revision=server["revision"], server=server)).doubt
        except OSError as error:
            doubt = f"{registry.registry_folder()}: cannot be written ({error.strerror})"
        except ConfigError as error:
            doubt = str(error)
        if doubt:
            say(f"{doubt}; `tomserve eval` will not find this server: give it the address by --base-url")

    def forget(self) -> None:
        if self.record is not None:
            registry.remove_record(self.record)
            self.record = None


def _watch(started: list[_RunningReplica], say: Callable[[str], None]) -> None:
    """Watch the servers until the last has ended, and say whenever the state of one changes. Raises ServerError, with
    the reason, when the last server has ended."""
    asked = 0.0
    for one in started:
        one.answered = time.monotonic()
    while True:
        changed = False
        for one in started:
            if one.state != "ended" and (reason := one.server.gone()) is not None:
                one.state, changed = "ended", True
                one.forget()
                one.server.stop(2.0)  # its child processes may still run and hold memory of the GPU
                if all(other.state == "ended" for other in started):
                    raise ServerError(reason)
                say(f"replica at {one.server.url}: {reason}; the others go on")
        if time.monotonic() - asked >= 10:
            asked = time.monotonic()
            for one in started:
                before = one.state
                if before != "ended" and is_healthy(one.server.root, 2.0):
                    one.answered, one.state = time.monotonic(), "up"
                elif before != "ended" and time.monotonic() - one.answered > SILENT:
                    one.state = "silent"
                changed |= one.state != before
        if changed and len(started) > 1:
            say("replicas: " + ", ".join(f"{one.replica.port} {one.state}" for one in started))
        time.sleep(0.5)


def _warn(preset: Preset) -> None:
    if preset.warning:
        say(f"warning: {preset.name}: {preset.warning}", error=True)


def explain_preset(wanted: ServeOptions, console: Console) -> None:
    """Print how a preset's memory need is worked out on the GPUs it would run on, and what else is known about it.
    Raises ConfigError or ContentError for a preset, flag or GPU that cannot be read, MachineError where it cannot
    fit."""

    say = partial(_say, console)
    found, derived = resolve_preset(wanted.name, wanted.extra, gpus=wanted.gpus)
    if derived is not None:
        say(f"No preset serves {found.model}, so one is derived from its files; --save keeps it.")
        auto_preset.show_preset(derived, say)
    preset = apply_flags(found, wanted.extra)
    model, layout, gpus = sizing.describe_model(preset), None, list[Gpu]()
    kind = f"{preset.dtype}, {preset.quantization} weights" if preset.quantization else preset.dtype
    say(f"The preset {preset.name} serves {preset.model} ({kind}), whose weights take {model.weights_gb:g} GB.")
    if preset.device != "cpu":
        gpus = assume_gpus(preset, wanted.gpus, dry=True)
        check_replicas(gpus, wanted.replicas)
        gpus = gpus[: len(gpus) // wanted.replicas]
        if not gpus:
            raise MachineError(f"--replicas {wanted.replicas}: there are fewer GPUs than replicas, and each needs one")
        layout = sizing.choose_layout(preset, gpus)
    template = Template(files.read_own_text(Path(__file__).with_name("explain.txt.jinja")), trim_blocks=True)
    text = template.render(
        preset=preset,
        model=model,
        layout=layout,
        gpus=len(gpus),
        nodes=len({gpu.node for gpu in gpus}),
        cannot=[n for n in (2, 4, 8) if not sizing.divides_heads(model.shape, n)],
        sizing=sizing,
        verified=_VERIFIED[preset.verified],
    )
    for line in text.splitlines():
        say(line)


def keep_preset(wanted: ServeOptions, console: Console, *, force: bool = False) -> None:
    """Derive the preset of a model, write it to launch/models/, and say where it is. force: replace another one."""
    preset, derived = resolve_preset(wanted.name, wanted.extra, gpus=wanted.gpus, anew=True)
    if derived is None:
        raise ConfigError(f"--save: {wanted.name} is a preset already; name a model (ORG/MODEL or ./FOLDER)")
    path = auto_preset.save_preset(derived, force=force)
    _say(console, f"Written to {path}; `tomserve serve {preset.name}` serves it. Check it, and edit it as you like.")


def list_presets(console: Console, gpus: str | None = None) -> None:
    """Print the table of presets and what its columns mean.

    gpus: the machine that the GPUs of each preset are counted on, as `sizing.parse_gpus` reads it. A preset that cannot
    be read is listed below the table, and does not keep the others from being listed.
    """
    machine = gpus or sizing.STUDY
    available = parse_gpus(machine)
    rows, broken = [], []
    for name in content.names("launch/models", ".yaml"):
        try:
            rows.append(_row(Preset.load(name), available))
        except ConfigError as error:
            broken.append(f"broken: {name}: {error}")
    whole = _table(_COLUMNS, rows)
    room = whole.__rich_measure__(console, console.options.update(width=_UNBOUNDED)).maximum
    if room <= console.width:
        console.print(whole)
    else:  # A narrow terminal would cut names in two: the long model ids go into a table of their own.
        console.print(_table(_COLUMNS[:-1], [row[:-1] for row in rows]))
        console.print(_table(("preset", "model"), [(row[0], row[-1]) for row in rows]))
    for line in (
        f"GPUs: how many of {machine} the preset takes (--gpus counts on another machine).",
        "context: tokens that a prompt and its reply may take together.",
        "thinks: whether the model thinks before it answers; where it says `can`, --thinking off prevents it.",
        *(f"verified {name}: {meaning}." for name, meaning in _VERIFIED.items()),
        "`tomserve serve PRESET --explain` prints everything that is known about one preset.",
        "For a model without one, `tomserve serve ORG/MODEL` (on the Hugging Face hub) or ./FOLDER derives a preset.",
    ):
        _say(console, line)
    if broken:
        many = f"{len(broken)} presets cannot" if len(broken) > 1 else "1 preset cannot"
        _say(console, f"{many} be read, so that `tomserve serve` cannot serve what stands in it; mend the file:")
    for line in broken:
        _say(console, files.one_line(line))


def _say(console: Console, text: str) -> None:
    """Print a sentence, broken between words on a terminal and kept as one line in a file or pipe."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


_COLUMNS = ("preset", "weights GB", "GPUs", "context", "thinks", "verified", "model")
_NUMBERS = ("weights GB", "GPUs", "context")
_UNBOUNDED = 10_000
"""A width, in characters, that no table of presets reaches: rich measures no table wider than it may be."""
_VERIFIED: dict[Verified, str] = {
    "yes": "the preset was seen running with these weights",
    "documented": "its settings follow what the publisher of the model documents; it was not run with these weights",
    "unverified": "neither seen running nor documented",
}
"""What the values of a preset's `verified` mean, for people."""


def _row(preset: Preset, available: list[Gpu]) -> tuple[str, ...]:
    thinks = "" if preset.reasoning is None else "can" if preset.reasoning.disable is not None else "always"
    verified = "known not to load" if preset.warning else preset.verified
    gpus = "CPU"
    if preset.device != "cpu":
        try:
            gpus = str(sizing.choose_layout(preset, available).gpus)
        except MachineError:
            gpus = "too small"
    length = str(preset.max_model_len)
    return preset.name, f"{preset.weights_gb:g}", gpus, length, thinks, verified, preset.model


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in columns:
        justify: Literal["left", "right"] = "right" if heading in _NUMBERS else "left"
        table.add_column(heading, justify=justify, no_wrap=heading != "model", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
