"""Run an evaluation: items x strategies -> journal. The one place where all the parts meet.

>>> result = evaluate(EvalOptions(base_urls=["http://localhost:8000/v1"]), Console())   # doctest: +SKIP
>>> result.failures                                                                      # doctest: +SKIP
{}
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import platform
import signal
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

import tomserve
from tomserve import benchmarks
from tomserve.engine import runfolder
from tomserve.engine.journal import Journal
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import AiohttpTransport, Timeouts
from tomserve.errors import RunMismatchError, ServerLostError, StoppedError
from tomserve.items import Item, items_digest, read_items, write_items
from tomserve.reporting.progress import RunProgress
from tomserve.serving import install, reference, target
from tomserve.serving.command import vllm_command
from tomserve.serving.probe import Probe
from tomserve.serving.server import Server, free_port
from tomserve.serving.target import Target
from tomserve.strategies import Strategy

DEFAULT_STRATEGIES = ("vanilla", "cot")
LIMIT_SEED = 0
STRATUM = "perturbation"
"""The factor over which `limit` is spread; items without it are one stratum."""


@dataclass(frozen=True)
class EvalOptions:
    """What the command line offers; None or empty means the default that its help states."""

    benchmark: str = "perturbed"
    path: Path | None = None
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    model: str | None = None
    base_urls: tuple[str, ...] = ()
    run: str | None = None
    limit: int | None = None
    revision: str | None = None
    max_tokens: int | None = None
    timeout: float = 600.0
    concurrency: int = 64
    setup: bool = False
    quiet: bool = False
    policy: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True)
class EvalResult:
    """`folder` of the run; rows asked for, rows added by this call, failures by status among them, seconds spent."""

    folder: Path
    total: int
    added: int
    failures: dict[str, int]
    seconds: float


def limited(items: Sequence[Item], limit: int | None) -> list[Item]:
    """The first `limit` items of a seeded order that takes the classes in turn; file order is kept in the result."""
    if limit is None or limit >= len(items):
        return list(items)
    strata: dict[object, list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: hashlib.sha256(f"{LIMIT_SEED}:{item.id}".encode()).digest()):
        strata[item.factors.get(STRATUM)].append(item)
    ranked = sorted(
        ((place, name, item.id) for name, members in strata.items() for place, item in enumerate(members)),
        key=lambda entry: (entry[0], str(entry[1])),
    )
    chosen = {identifier for _, _, identifier in ranked[:limit]}
    return [item for item in items if item.id in chosen]


def evaluate(options: EvalOptions, console: Console) -> EvalResult:
    """Ask everything that is not final yet. Raises TomserveError subclasses; whatever completed is kept."""
    began = time.monotonic()
    every = list(benchmarks.get(options.benchmark).load(options.path))
    chosen = target.choose(options.base_urls, options.model, options.revision)
    if chosen.embedded and chosen.revision is None:
        _need_engine(options, console)
        console.print("building the reference checkpoint ...", highlight=False)
        reference.build()
        chosen.revision = reference.revision()
    preset = chosen.preset
    strategies = [
        Strategy.load(
            name,
            system_role=preset.system_role if preset else True,
            overrides=preset.prompt_parts if preset else {},
            max_tokens=options.max_tokens or 0,
        )
        for name in dict.fromkeys(options.strategies)
    ]
    sampling = Sampling(extra=dict(preset.request) if preset else {})
    job = _Job(options, chosen, limited(every, options.limit), strategies, sampling, console)
    path = runfolder.run_path(options.run or runfolder.default_name(options.benchmark, chosen.model))
    with runfolder.RunFolder(path) as folder, Journal(folder.path / "responses.jsonl") as journal:
        manifest = _manifest(folder.path, options, every, chosen, strategies, sampling, journal.asked)
        _snapshot(folder.path, job.items, fresh=not journal.asked)
        if journal.torn:
            folder.log(f"the last line was torn; moved to {journal.torn.name}")
            console.print(f"the journal's last line was torn by a crash; moved to {journal.torn.name}", markup=False)
        left = job.left(journal)
        if left == 0:
            folder.write_manifest({**manifest, "complete": True})
            return EvalResult(folder.path, job.total, 0, {}, time.monotonic() - began)
        folder.write_manifest({**manifest, "complete": False})
        progress = job.ask(folder, journal, manifest)
        folder.write_manifest({**manifest, "server": job.target.server, "complete": job.left(journal) == 0})
    return EvalResult(folder.path, job.total, progress.written, progress.failures, time.monotonic() - began)


def _need_engine(options: EvalOptions, console: Console) -> None:
    if options.setup:
        install.setup(None, lambda message: console.print(message, markup=False, highlight=False))
    install.require_engine()


@dataclass
class _Job:
    """One evaluation between its preparation and its result."""

    options: EvalOptions
    target: Target
    items: list[Item]
    strategies: list[Strategy]
    sampling: Sampling
    console: Console

    @property
    def total(self) -> int:
        return len(self.items) * len(self.strategies)

    def left(self, journal: Journal) -> int:
        """How many identities have no final row yet."""
        return sum(
            Identity(item.id, strategy.name, 0) not in journal.final
            for strategy in self.strategies
            for item in self.items
        )

    def requests(self) -> Iterator[Request]:
        """All requests, lazily: what shares the longest prompt prefix comes together."""
        for strategy in self.strategies:
            for item in self.items:
                turn = strategy.turn(item)
                yield Request.build(
                    Identity(item.id, strategy.name, turn.number),
                    turn,
                    model=self.target.model,
                    revision=self.target.revision,
                    sampling=self.sampling,
                )

    def ask(self, folder: runfolder.RunFolder, journal: Journal, manifest: dict[str, Any]) -> RunProgress:
        """Start a server where one is needed, check it, and run the requests."""
        with contextlib.ExitStack() as stack:
            server = self._start(stack, folder) if self.target.embedded else None
            self._preflight(folder)
            folder.write_manifest({**manifest, "server": self.target.server, "complete": False})
            done = self.total - self.left(journal)
            where = ", ".join(self.target.endpoints)
            self.console.print(
                f"asking {self.target.model} at {where}: {self.total - done} of {self.total} questions to go",
                markup=False,
                highlight=False,
            )
            progress = stack.enter_context(RunProgress(self.console, self.total, done, quiet=self.options.quiet))
            folder.log(f"asking {self.total - done} of {self.total}")
            try:
                asyncio.run(self._run(journal, progress, server))
            finally:
                folder.log(
                    f"{progress.written} rows added, {progress.reused} reused, by status {dict(progress.statuses)}"
                )
        return progress

    def _start(self, stack: contextlib.ExitStack, folder: runfolder.RunFolder) -> Server:
        _need_engine(self.options, self.console)
        preset = self.target.preset
        assert preset is not None  # an embedded target is the reference preset
        port = free_port()
        command = vllm_command(preset, str(reference.build()), port=port)
        self.console.print("starting the embedded server (vLLM on the CPU, reference model) ...", highlight=False)
        server = stack.enter_context(Server(command, host="127.0.0.1", port=port, log=folder.path / "server.log"))
        took = server.wait_healthy(lambda message: self.console.print(f"  {message}", highlight=False))
        self.console.print(f"server healthy after {took:.0f} s", highlight=False)
        probe = Probe(server.url)
        try:
            entry = probe.choose([preset.served_name])
            version = probe.version()
        finally:
            probe.close()
        described = {"engine_version": version, "root": entry.get("root"), "max_model_len": entry.get("max_model_len")}
        self.target = replace(
            self.target,
            endpoints=[server.url],
            context=entry.get("max_model_len"),
            server={**described, "command": command.argv, "hardware": platform.processor() or platform.machine()},
        )
        return server

    def _preflight(self, folder: runfolder.RunFolder) -> None:
        prompts = (
            (item.id, strategy.name, turn.messages, turn.max_tokens)
            for strategy in self.strategies
            for item in self.items
            for turn in [strategy.turn(item)]
        )
        for endpoint in self.target.endpoints:
            probe = Probe(endpoint, target.api_key())
            try:
                probe.check_chat(self.target.model)
                if endpoint == self.target.endpoints[0]:
                    longest = probe.check_context(self.target.model, self.target.context, prompts)
                    folder.log(
                        f"longest prompt: {longest if longest is not None else 'not counted by this server'} tokens"
                    )
            finally:
                probe.close()

    async def _run(self, journal: Journal, progress: RunProgress, server: Server | None) -> None:
        stop = asyncio.Event()
        caught: list[int] = []
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()

        def on_signal(number: int) -> None:
            caught.append(number)
            if len(caught) == 1:
                self.console.print("stopping: waiting for what is in flight (again to stop at once) ...")
                stop.set()
            elif task is not None:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal, number)
        transport = AiohttpTransport(target.api_key(), Timeouts(stall=self.options.timeout, total=self.options.timeout))
        runner = Runner(
            self.target.endpoints,
            transport,
            journal,
            concurrency=self.options.concurrency,
            policy=self.options.policy,
            observer=progress,
            stop=stop,
            alive=server.gone if server else lambda: None,
        )
        try:
            await runner.run(self.requests())
        except asyncio.CancelledError:
            if not caught:
                raise
        except ServerLostError as error:
            raise ServerLostError(f"{error}; {self.left(journal)} of {self.total} left to ask") from None
        finally:
            await transport.close()
        if caught:
            raise StoppedError(
                f"stopped; {self.left(journal)} of {self.total} left to ask, everything else is kept; "
                "repeat the command to resume",
                128 + caught[0],
            )


def _snapshot(folder: Path, items: list[Item], *, fresh: bool) -> None:
    """Keep every item ever asked in ``items.jsonl``: a run explains itself. The benchmark's digest is fixed."""
    path = folder / "items.jsonl"
    known = {item.id: item for item in read_items(path)} if path.exists() and not fresh else {}
    if known and all(item.id in known for item in items):
        return
    known.update({item.id: item for item in items})
    write_items(path, [known[identifier] for identifier in sorted(known)])


def _manifest(
    folder: Path,
    options: EvalOptions,
    every: list[Item],
    chosen: Target,
    strategies: list[Strategy],
    sampling: Sampling,
    asked: Collection[str],
) -> dict[str, Any]:
    """The run's manifest, checked against what is in the folder. Raises RunMismatchError."""
    new: dict[str, Any] = {
        "schema": 1,
        "run": folder.resolve().name,
        "benchmark": options.benchmark,
        "benchmark_path": str(options.path) if options.path else None,
        "benchmark_digest": items_digest(every),
        "benchmark_items": len(every),
        "model": chosen.model,
        "revision": chosen.revision,
        "preset": chosen.preset.name if chosen.preset else None,
        "sampling": sampling.to_dict(),
        "strategies": {s.name: {"digest": s.digest, "max_tokens": s.max_tokens} for s in strategies},
        "content": {s.name: str(s.folder) for s in strategies},
        "endpoints": chosen.endpoints,
        "server": chosen.server,
        "tomserve": tomserve.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "created": runfolder.now(),
        "limit": options.limit,
    }
    old = runfolder.read_manifest(folder)
    if old is not None:
        runfolder.check_same(old, new, folder, asked)
        for field in ("strategies", "content"):
            before = {name: value for name, value in old.get(field, {}).items() if name in asked}
            new[field] = {**before, **new[field]}
        new["created"] = old.get("created", new["created"])
        if chosen.embedded:
            new["server"] = old.get("server", {})
    elif asked:
        journal = folder / "responses.jsonl"
        raise RunMismatchError(f"{journal} is there without a manifest.json; restore it, or use --run NEW")
    return new
