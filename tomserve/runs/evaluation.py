"""Run an evaluation: items x strategies -> journal. The one place where all the parts meet.

>>> result = evaluate(EvalOptions(base_urls=["http://localhost:8000/v1"]), Console())   # doctest: +SKIP
>>> result.failures                                                                      # doctest: +SKIP
{}
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

import tomserve
from tomserve import benchmarks
from tomserve.engine.clock import now
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.retry import RetryPolicy
from tomserve.errors import ConfigError, one_of
from tomserve.items import Item
from tomserve.items.draw import drawn, limited
from tomserve.prompting.strategy import Strategy
from tomserve.runs import reasking, runfolder
from tomserve.runs.asking import TRANSPORTS, Asking, Phase
from tomserve.runs.journal import Journal
from tomserve.runs.manifest import is_complete, portable, run_manifest, snapshot
from tomserve.serving import install, keys, provenance, reference, target
from tomserve.serving.command import vllm_command
from tomserve.serving.ports import free_port
from tomserve.serving.presets import Preset
from tomserve.serving.probe import Probe
from tomserve.serving.server import Server
from tomserve.serving.target import Target


@dataclass(frozen=True)
class EvalOptions:
    """What the command line offers; None or empty means the default that its help states."""

    benchmark: str | None = None
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
    noise_check: float | None = None
    setup: bool = False
    quiet: bool = False
    policy: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True)
class EvalResult:
    """`folder` of the run; questions selected, rows added by this call (re-asked ones too), the selection's failures by
    status, seconds."""

    folder: Path
    total: int
    added: int
    failures: dict[str, int]
    seconds: float


def evaluate(options: EvalOptions, console: Console) -> EvalResult:
    """Ask everything that is not final yet. Raises TomserveError subclasses; whatever completed is kept."""
    began = time.monotonic()
    if options.transport not in TRANSPORTS:
        raise ConfigError(one_of("transport", options.transport, TRANSPORTS))
    reasking.check_share(options.noise_check)
    benchmark = benchmarks.get(options.benchmark)
    every = list(benchmark.items(options.path, options.gold))
    chosen = target.choose(options.base_urls, options.model, options.revision)
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
        for name in dict.fromkeys(options.strategies or benchmark.strategies)
    ]
    if twice := [name for name, count in Counter(s.name for s in strategies).items() if count > 1]:
        raise ConfigError(f"two strategies are called {twice[0]!r}; rename the folder of one")
    sampling = Sampling(extra=preset.extra(options.thinking) if preset else {})
    items = limited(every, options.limit, benchmark.stratum)
    again = drawn(items, options.noise_check, benchmark.stratum) if options.noise_check else []
    job = _Job(options, chosen, items, strategies, sampling, console, again)
    switched = preset is not None and preset.reasoning is not None and thinking != preset.thinking_tokens()
    named = f"{chosen.model}-thinking-{thinking or 'off'}" if switched else chosen.model
    path = runfolder.run_path(options.run or runfolder.default_name(benchmark.name, named))
    if chosen.embedded and not path.exists():  # or an empty run would stay behind where vLLM is missing
        _need_engine(options, console)
    with runfolder.RunFolder(path) as folder, Journal(folder.path / "responses.jsonl") as journal:
        manifest = run_manifest(
            folder.path,
            benchmark.name,
            options.path,
            options.gold,
            every,
            chosen,
            strategies,
            sampling,
            journal.asked,
        )
        manifest |= benchmark.provenance
        known = snapshot(folder.path, job.items, fresh=not journal.asked)
        if journal.torn:
            folder.log(f"the last line was torn; moved to {journal.torn.name}")
            console.print(f"the journal's last line was torn by a crash; moved to {journal.torn.name}", markup=False)

        def save() -> None:
            folder.write_manifest({**manifest, "complete": is_complete(known, manifest, journal)})

        added = 0
        if job.left(journal) or job.left_again(folder.path, journal, manifest):
            save()
            added = job.ask(folder, journal, manifest, save)
        save()
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


@dataclass
class _Job:
    """One evaluation between its preparation and its result. again: the items of the noise check."""

    options: EvalOptions
    target: Target
    items: list[Item]
    strategies: list[Strategy]
    sampling: Sampling
    console: Console
    again: list[Item] = field(default_factory=list)
    session: dict[str, Any] = field(default_factory=dict)  # of the manifest; gets what asking found out

    @property
    def total(self) -> int:
        return len(self.items) * len(self.strategies)

    def _identities(self, items: list[Item]) -> Iterator[Identity]:
        return (Identity(item.id, strategy.name, 0) for strategy in self.strategies for item in items)

    def left(self, journal: Journal) -> int:
        """How many identities have no final row yet."""
        return sum(identity not in journal.final for identity in self._identities(self.items))

    def left_again(self, folder: Path, journal: Journal, manifest: dict[str, Any]) -> int:
        """How many answers of the noise check are still to come, once the run itself is asked."""
        found = 0
        for level in reasking.concurrencies(manifest) if self.again else ():
            with self._opened(folder, level) as noise:
                found += self._left_at(journal, noise)
        return found

    def _opened(self, folder: Path, level: int) -> Journal:
        noise = reasking.opened(folder, level)
        if noise.torn:
            self._say(f"{noise.path.name}: the last line was torn by a crash; moved to {noise.torn.name}")
        return noise

    def _left_at(self, journal: Journal, noise: Journal) -> int:
        wanted = self._identities(self.again)
        return sum(reasking.answered(journal, identity) and identity not in noise.final for identity in wanted)

    def requests(self, items: list[Item] | None = None) -> Iterator[Request]:
        """All requests (of these items), lazily: what shares the longest beginning of a prompt comes together."""
        for strategy in self.strategies:
            for item in sorted(self.items if items is None else items, key=strategy.order):
                turn = strategy.turn(item)
                yield Request.build(
                    Identity(item.id, strategy.name, turn.number),
                    turn,
                    model=self.target.model,
                    revision=self.target.revision,
                    sampling=self.sampling,
                )

    def ask(
        self, folder: runfolder.RunFolder, journal: Journal, manifest: dict[str, Any], save: Callable[[], None]
    ) -> int:
        """Start a server where one is needed, check it, run the requests; returns the number of rows added."""
        added = 0
        with contextlib.ExitStack() as stack:
            server = self._start(stack, folder) if self.target.embedded else None
            self._preflight(folder)
            left, told = self.left(journal), portable(self.target.server)
            if left or not manifest["server"]:  # a server that only re-asks is not the one that answered
                manifest["server"], manifest["endpoints"] = told, self.target.endpoints
            session = {"time": now(), "endpoints": self.target.endpoints, **told, "asked": bool(left)}
            self.session = {**session, "tomserve": tomserve.__version__, "limit": self.options.limit}
            if left and self.options.concurrency:  # now, in case that this session is killed; what is found comes later
                self.session["concurrency"] = self.options.concurrency
            manifest["sessions"].append(self.session)
            gone = server.gone if server else lambda: None
            asking = self._asking(folder, save, gone)
            if left:
                manifest["limit"] = self.options.limit
                where = f"{self.target.model} at {', '.join(self.target.endpoints)}"
                self._say(f"asking {where}: {left} of {self.total} questions to go")
                added += asking.ask(self._phase(journal))
            if self.again:
                share = self.options.noise_check or 0.0
                manifest["noise"] = reasking.entry(manifest, share, len(self.again), len(self.items))
                if others := manifest["noise"]["other_engines"]:
                    self._say(f"warning: engine {', '.join(others)} answered; what changes now may be another's doing")
                for level in manifest["noise"]["concurrencies"]:
                    with self._opened(folder.path, level) as noise:
                        added += self._ask_again(asking, level, noise, journal)
        return added

    def _asking(self, folder: runfolder.RunFolder, save: Callable[[], None], gone: Callable[[], str | None]) -> Asking:
        chosen, options = self.target, self.options
        return Asking(
            chosen.endpoints,
            chosen.model,
            self.console,
            folder.log,
            save,
            options.timeout,
            options.transport,
            options.policy,
            options.quiet,
            gone,
        )

    def _phase(self, journal: Journal) -> Phase:
        options = self.options
        return Phase(
            journal,
            self.requests(),
            self.total,
            lambda: self.left(journal),
            options.concurrency,
            options.hedge,
            session=self.session,
        )

    def _ask_again(self, asking: Asking, level: int, noise: Journal, journal: Journal) -> int:
        """The noise check with so many requests in flight. Not hedged: a second copy would be one more."""
        total = sum(reasking.answered(journal, identity) for identity in self._identities(self.again))
        if not (left := self._left_at(journal, noise)):
            return 0
        what = f"to ask again, {level} in flight"
        self._say(f"noise check: {left} of {total} answers {what}")
        requests = reasking.sent(self.requests(self.again), journal)
        return asking.ask(Phase(noise, requests, total, lambda: self._left_at(journal, noise), level, what=what))

    def _say(self, message: str) -> None:
        self.console.print(message, markup=False, highlight=False)

    def _start(self, stack: contextlib.ExitStack, folder: runfolder.RunFolder) -> Server:
        _need_engine(self.options, self.console)
        preset = self.target.preset
        assert preset is not None  # an embedded target is the reference preset
        port = free_port()
        command = vllm_command(preset, str(reference.folder()), port=port)
        command.env["VLLM_API_KEY"] = ""  # nobody else talks to it; a key of the environment would lock us out
        self.console.print("starting the embedded server (vLLM on the CPU, reference model) ...", highlight=False)
        server = stack.enter_context(Server(command, host="127.0.0.1", port=port, log=folder.path / "server.log"))
        took = server.wait_healthy(lambda message: self.console.print(f"  {message}", highlight=False))
        self.console.print(f"server healthy after {took:.0f} s", highlight=False)
        self.target = target.ask_endpoints([server.url], preset.served_name, self.target.revision)
        folder_served = str(reference.folder())
        self.target.server |= provenance.started(preset, folder_served, command, (), revision=self.target.revision)
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
