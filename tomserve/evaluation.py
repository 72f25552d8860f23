"""Run an evaluation: items x strategies -> journal. The one place where all the parts meet.

>>> result = evaluate(EvalOptions(base_urls=["http://localhost:8000/v1"]), Console())   # doctest: +SKIP
>>> result.failures                                                                      # doctest: +SKIP
{}
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import resource
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

import tomserve
from tomserve import benchmarks
from tomserve.engine import runfolder
from tomserve.engine.adaptive import MOST
from tomserve.engine.journal import Journal
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import AiohttpTransport, Timeouts, Transport
from tomserve.errors import ConfigError, JournalError, ServerLostError, StoppedError, one_of
from tomserve.items import Item
from tomserve.manifest import is_complete, portable, run_manifest, snapshot
from tomserve.reporting.progress import RunProgress
from tomserve.serving import install, keys, provenance, reference, target
from tomserve.serving.command import vllm_command
from tomserve.serving.ports import free_port
from tomserve.serving.presets import Preset
from tomserve.serving.probe import Probe
from tomserve.serving.server import Server
from tomserve.serving.target import Target
from tomserve.strategies import Strategy

TRANSPORTS = ("aiohttp", "openai")
LIMIT_SEED = 0
SPARE_FILES = 128
"""Open files that are no connections."""

STRATUM = "perturbation"
"""The factor over which `limit` is spread, unless the benchmark names another; items without it are one stratum."""


@dataclass(frozen=True)
class EvalOptions:
    """What the command line offers; None or empty means the default that its help states."""

    benchmark: str = "perturbed"
    path: Path | None = None
    gold: str | None = None
    strategies: tuple[str, ...] = ()
    model: str | None = None
    base_urls: tuple[str, ...] = ()
    run: str | None = None
    limit: int | None = None
    revision: str | None = None
    max_tokens: int | None = None
    thinking: str | None = None
    timeout: float = 600.0
    concurrency: int | None = None
    transport: str = "aiohttp"
    hedge: float | None = None
    setup: bool = False
    quiet: bool = False
    policy: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True)
class EvalResult:
    """`folder` of the run; questions selected, rows added by this call, the selection's failures by status, seconds."""

    folder: Path
    total: int
    added: int
    failures: dict[str, int]
    seconds: float


def limited(items: Sequence[Item], limit: int | None, stratum: str = STRATUM) -> list[Item]:
    """The first `limit` items of a seeded order that takes the values of `stratum` in turn; file order is kept."""
    if limit is None or limit >= len(items):
        return list(items)
    strata: dict[object, list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: hashlib.sha256(f"{LIMIT_SEED}:{item.id}".encode()).digest()):
        strata[item.factors.get(stratum)].append(item)
    ranked = sorted(
        ((place, name, item.id) for name, members in strata.items() for place, item in enumerate(members)),
        key=lambda entry: (entry[0], str(entry[1])),
    )
    chosen = {identifier for _, _, identifier in ranked[:limit]}
    return [item for item in items if item.id in chosen]


def evaluate(options: EvalOptions, console: Console) -> EvalResult:
    """Ask everything that is not final yet. Raises TomserveError subclasses; whatever completed is kept."""
    began = time.monotonic()
    if options.transport not in TRANSPORTS:
        raise ConfigError(one_of("transport", options.transport, TRANSPORTS))
    every = list(benchmarks.load(options.benchmark, options.path, options.gold))
    chosen = target.choose(options.base_urls, options.model, options.revision)
    if chosen.embedded and chosen.revision is None:
        _need_engine(options, console)
        console.print("building the reference checkpoint ...", highlight=False)
        reference.build()
        chosen.revision = reference.revision()
    preset = chosen.preset
    thinking = _thinking(preset, chosen.model, options.thinking)
    strategies = [
        Strategy.load(
            name,
            system_role=preset.system_role if preset else True,
            overrides=preset.prompt_parts if preset else {},
            max_tokens=options.max_tokens or 0,
            thinking=thinking,
        )
        for name in dict.fromkeys(options.strategies or benchmarks.strategies(options.benchmark))
    ]
    if twice := [name for name, count in Counter(s.name for s in strategies).items() if count > 1]:
        raise ConfigError(f"two strategies are called {twice[0]!r}; rename the folder of one")
    sampling = Sampling(extra=preset.extra(options.thinking) if preset else {})
    stratum = getattr(benchmarks.get(options.benchmark), "STRATUM", STRATUM)
    job = _Job(options, chosen, limited(every, options.limit, stratum), strategies, sampling, console)
    named = chosen.model if options.thinking is None else f"{chosen.model}-thinking-{options.thinking}"
    path = runfolder.run_path(options.run or runfolder.default_name(options.benchmark, named))
    with runfolder.RunFolder(path) as folder, Journal(folder.path / "responses.jsonl") as journal:
        manifest = run_manifest(
            folder.path,
            options.benchmark,
            options.path,
            options.gold,
            every,
            chosen,
            strategies,
            sampling,
            journal.asked,
        )
        known = snapshot(folder.path, job.items, fresh=not journal.asked)
        if journal.torn:
            folder.log(f"the last line was torn; moved to {journal.torn.name}")
            console.print(f"the journal's last line was torn by a crash; moved to {journal.torn.name}", markup=False)
        added = 0
        if job.left(journal):
            folder.write_manifest({**manifest, "complete": False})
            added = job.ask(folder, journal, manifest)
        folder.write_manifest({**manifest, "complete": is_complete(known, manifest, journal)})
    return EvalResult(folder.path, job.total, added, _failures(journal, job), time.monotonic() - began)


def _thinking(preset: Preset | None, model: str, wanted: str | None) -> int:
    """Tokens a reply may think. Raises ConfigError where nobody knows how to switch the model's thinking."""
    if preset is None and wanted is not None:
        raise ConfigError(
            f"--thinking {wanted}: no preset tells how {model} is switched; write launch/models/NAME.yaml with a "
            "reasoning: section (qwen3-8b.yaml is an example)"
        )
    return preset.thinking_tokens(wanted) if preset is not None else 0


def _failures(journal: Journal, job: _Job) -> dict[str, int]:
    """Statuses of the selection's last rows that are no answers, counted."""
    items, strategies = {item.id for item in job.items}, {strategy.name for strategy in job.strategies}
    wanted = (status for key, status in journal.failed.items() if key.item in items and key.strategy in strategies)
    return dict(sorted(Counter(wanted).items()))


def _need_engine(options: EvalOptions, console: Console) -> None:
    if options.setup:
        install.setup(None, lambda message: console.print(message, markup=False, highlight=False))
    install.require_engine()


def _most(endpoints: int) -> int:
    """Requests that may be out at one endpoint: each is a connection, and open files have a limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = endpoints * MOST + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, (soft - SPARE_FILES) // endpoints))


def _transport(name: str, timeouts: Timeouts) -> Transport:
    if name == "openai":
        from tomserve.engine.openai_transport import OpenAITransport

        return OpenAITransport(keys.api_key(), timeouts)
    return AiohttpTransport(keys.api_key(), timeouts)


@dataclass
class _Job:
    """One evaluation between its preparation and its result."""

    options: EvalOptions
    target: Target
    items: list[Item]
    strategies: list[Strategy]
    sampling: Sampling
    console: Console
    session: dict[str, Any] = field(default_factory=dict)  # of the manifest; gets what asking found out

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
        """All requests, lazily: what shares the longest beginning of a prompt comes together."""
        for strategy in self.strategies:
            for item in sorted(self.items, key=strategy.order):
                turn = strategy.turn(item)
                yield Request.build(
                    Identity(item.id, strategy.name, turn.number),
                    turn,
                    model=self.target.model,
                    revision=self.target.revision,
                    sampling=self.sampling,
                )

    def ask(self, folder: runfolder.RunFolder, journal: Journal, manifest: dict[str, Any]) -> int:
        """Start a server where one is needed, check it, run the requests; returns the number of rows added."""
        with contextlib.ExitStack() as stack:
            server = self._start(stack, folder) if self.target.embedded else None
            self._preflight(folder)
            manifest["server"], manifest["endpoints"] = portable(self.target.server), self.target.endpoints
            manifest["limit"] = self.options.limit
            session = {"time": runfolder.now(), "endpoints": self.target.endpoints, **manifest["server"]}
            self.session = {**session, "tomserve": tomserve.__version__, "limit": self.options.limit}
            manifest["sessions"].append(self.session)
            folder.write_manifest({**manifest, "complete": False})
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
            except BaseException:
                with contextlib.suppress(JournalError):  # a full disk is being reported already
                    folder.write_manifest({**manifest, "complete": False})
                raise
            finally:
                if progress.written:
                    self.console.print(progress.summary(), markup=False, highlight=False)
                folder.log(
                    f"{progress.written} rows added, {progress.reused} reused, by status {dict(progress.statuses)}"
                )
        return progress.written

    def _start(self, stack: contextlib.ExitStack, folder: runfolder.RunFolder) -> Server:
        _need_engine(self.options, self.console)
        preset = self.target.preset
        assert preset is not None  # an embedded target is the reference preset
        port = free_port()
        command = vllm_command(preset, str(reference.build()), port=port)
        command.env["VLLM_API_KEY"] = ""  # nobody else talks to it; a key of the environment would lock us out
        self.console.print("starting the embedded server (vLLM on the CPU, reference model) ...", highlight=False)
        server = stack.enter_context(Server(command, host="127.0.0.1", port=port, log=folder.path / "server.log"))
        took = server.wait_healthy(lambda message: self.console.print(f"  {message}", highlight=False))
        self.console.print(f"server healthy after {took:.0f} s", highlight=False)
        self.target = target.ask_endpoints([server.url], preset.served_name, self.target.revision)
        told = provenance.started(preset, str(reference.checkpoint_path()), command, ())
        self.target.server |= told | {"revision": self.target.revision}
        self.target.server["unknown"] = provenance.unknown(self.target.server)
        return server

    def _preflight(self, folder: runfolder.RunFolder) -> None:
        prompts = (
            (item.id, strategy.name, turn.messages, turn.max_tokens)
            for strategy in self.strategies
            for item in self.items
            for turn in [strategy.turn(item)]
        )
        for endpoint in self.target.endpoints:
            with Probe(endpoint, keys.api_key(), self.options.timeout) as probe:
                probe.check_chat(self.target.model, self.sampling.extra)
                if endpoint == self.target.endpoints[0]:
                    longest = probe.check_context(self.target.model, self.target.context, prompts, self.sampling.extra)
                    folder.log(f"longest prompt: {longest or 'not counted by this server, so unknown'} tokens")

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
        timeouts = Timeouts(stall=self.options.timeout, total=self.options.timeout)
        transport = _transport(self.options.transport, timeouts)
        runner = Runner(
            self.target.endpoints,
            transport,
            journal,
            concurrency=self.options.concurrency,
            most=_most(len(self.target.endpoints)),
            policy=self.options.policy,
            observer=progress,
            stop=stop,
            alive=server.gone if server else lambda: None,
            hedge=self.options.hedge,
            probe=orjson.dumps(
                {"model": self.target.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
            ),
        )
        try:
            await runner.run(self.requests())
        except asyncio.CancelledError:
            if not caught:
                raise
        except ServerLostError as error:
            raise ServerLostError(f"{error}; {self.left(journal)} of {self.total} left to ask") from None
        finally:
            limit = progress.now.limit if progress.now.found else self.options.concurrency
            self.session |= {"concurrency": limit, "prompt_tokens": runner.prefix.to_dict()}
            await transport.close()
        if caught:
            raise StoppedError(
                f"stopped; {self.left(journal)} of {self.total} left to ask, everything else is kept; "
                "repeat the command to resume",
                128 + caught[0],
            )
