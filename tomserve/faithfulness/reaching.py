"""Finds the model whose chains are edited, and checks that it wrote them and how they can be shown to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError, RunMismatchError, ServerError
from tomserve.faithfulness.making import estimated
from tomserve.faithfulness.settings import AUTO, BOTH, Connection, Settings
from tomserve.faithfulness.showing import prefilled, ways
from tomserve.faithfulness.source import Chain, Source
from tomserve.faithfulness.table import CALL, PREFILL
from tomserve.faithfulness.written import Count
from tomserve.prompting.conversation import Turn
from tomserve.runs import evaluation
from tomserve.runs.evaluation import Servers
from tomserve.runs.manifest import make_portable
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import Listener, SilentListener
from tomserve.serving import endpoint, keys
from tomserve.serving.endpoint import Target
from tomserve.serving.probe import PrefillProbe, WaitPolicy


@dataclass
class Reached:
    """The model that is asked.

    target: its server. source: the run whose chains it wrote. gone: returns a reason once the process of a server that
    was started here has ended, else None. held_by: the field by which its server holds a continued reply to one of
    several texts; None where it knows none.
    """

    target: Target
    source: Source
    gone: Callable[[], str | None] = lambda: None
    held_by: str | None = None
    _counts: dict[str, int] = field(default_factory=dict)

    def request(self, identity: Identity, turn: Turn) -> Request:
        """The request of a turn, sampled as the run was."""
        return self._built(identity, turn, self.source.sampling)

    def answer_request(self, identity: Identity, turn: Turn) -> Request:
        """The request of a turn that asks for an answer after an edited chain, before which nothing more is thought."""
        return self._built(identity, turn, self.answering)

    @property
    def answering(self) -> Sampling:
        """How an answer after an edited chain is sampled: as the run was, but without any thinking of its own."""
        preset, own = self.source.preset, self.source.sampling
        if preset is None or preset.reasoning is None:
            return own
        return Sampling(own.temperature, own.seed, preset.extra("off"))

    def _built(self, identity: Identity, turn: Turn, sampling: Sampling) -> Request:
        at = self.target
        return Request.build(identity, turn, model=at.model, revision=at.revision, sampling=sampling)

    @contextlib.contextmanager
    def counting(self, listener: Listener) -> Iterator[Count]:
        """Gives a function that counts tokens as the server does, or estimates them where it does not count."""
        with PrefillProbe(self.target.endpoints[0], keys.api_key()) as probe:
            if probe.length(self.target.model, "one two three") is None:
                listener.message("the server counts no tokens, so that the length of filler is estimated")
                yield estimated
                return

            def count(text: str) -> int:
                if text not in self._counts:
                    found = probe.length(self.target.model, text) if text else 0
                    self._counts[text] = estimated(text) if found is None else found
                return self._counts[text]

            yield count


def choose(source: Source, connection: Connection, waiting: WaitPolicy) -> Target:
    """The server of the model that wrote the chains of the run; one without an address is to be started.

    Raises ConfigError or ServerError where none can be used, RunMismatchError where another model is served.
    """
    manifest = source.manifest
    own = manifest.model if connection.base_urls else manifest.preset or manifest.model
    # The run may come from somebody else, who could name any folder of this machine: none is served on their word.
    start = not own.startswith(("/", ".", "~"))
    found = endpoint.choose_target(connection.base_urls, own, connection.revision, waiting, start=start)
    pairs = (
        ("model", manifest.model, found.model),
        ("revision", manifest.revision, found.revision),
        ("weights", _root(manifest.server.get("root")), _root(found.server.get("root"))),
    )
    for name, was, now in pairs:
        if was and now and was != now:
            raise RunMismatchError(
                f"{source.folder}: its chains were written by {name} {was:.80}, and {now:.80} is served now; edited "
                "chains say something only about the model that wrote them: serve that one, or ask the run again"
            )
    return found


def _root(found: object) -> str | None:
    """Where a server says that it has its weights from; a path of this machine as runs keep it."""
    return str(make_portable(found)) if isinstance(found, str) and found else None


def reach(
    chosen: Target, source: Source, run: MeasuredRun, servers: Servers, waiting: WaitPolicy, connection: Connection
) -> Reached:
    """Start the server where that is needed, and check that it chats. Raises ServerError, MachineError."""
    if not chosen.embedded:
        found = Reached(chosen, source)
    else:

        def note(text: str) -> None:
            waiting.check()
            waiting.note(text)

        evaluation.ensure_engine(_Noted(waiting.note), setup=connection.setup)
        server, started = servers.of(chosen, run.path, note)
        found = Reached(started, source, server.gone)
    for endpoint in found.target.endpoints:
        with PrefillProbe(endpoint, keys.api_key(), connection.timeout, waiting) as probe:
            probe.check_chat(found.target.model, source.sampling.extra)
    with PrefillProbe(found.target.endpoints[0], keys.api_key(), connection.timeout, waiting) as probe:
        found.held_by = probe.choice_field(found.target.model, found.answering.extra)
    return found


class _Noted(SilentListener):
    """A listener that hands its messages on, and nothing else."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def message(self, text: str) -> None:
        """Hand a message on."""
        self._note(text)


def check_as_begun(reached: Reached, held_by: str | None, waiting: WaitPolicy) -> None:
    """Check that the server still continues replies as it did when the measurement was begun.

    held_by: the field by which it held replies then. Raises RunMismatchError where it does not.
    """
    with PrefillProbe(reached.target.endpoints[0], keys.api_key(), waiting=waiting) as probe:
        reason = probe.no_continuing(reached.target.model, reached.answering.extra)
    if reason is None and reached.held_by != held_by:
        reason = f"it held replies by {held_by or 'a schema'}, and now does by {reached.held_by or 'a schema'}"
    if reason is not None:
        raise RunMismatchError(
            f"{reached.target.endpoints[0]}: chains were shown as beginnings of replies when this measurement was "
            f"begun, and the server is another one now: {reason}; go on with one like that, or use --run NEW"
        )


def ways_of(
    reached: Reached, settings: Settings, listener: Listener, waiting: WaitPolicy
) -> Callable[[Chain], Sequence[str]]:
    """In which ways the chains of each strategy are shown, as the settings want it and the server can.

    Raises ServerError where only replies that are begun are wanted, and the server does not continue them; ConfigError
    where no strategy can be shown as wanted.
    """
    first: dict[str, Chain] = {}
    for chain in reached.source.chains:
        first.setdefault(chain.strategy.name, chain)
    able = {name: ways(chain) for name, chain in first.items()}
    if settings.shown == CALL or (all(found[0] == CALL for found in able.values()) and settings.shown == AUTO):
        return lambda chain: (CALL,)
    refused: dict[str, str] = {}
    with PrefillProbe(reached.target.endpoints[0], keys.api_key(), waiting=waiting) as probe:
        general = probe.no_continuing(reached.target.model, reached.answering.extra)
        for name, chain in first.items():
            reason = general or _refusal(probe, reached, chain)
            if reason is not None and PREFILL in able[name]:
                refused[name] = reason
    if refused and settings.shown == PREFILL:
        raise ServerError(
            f"the server does not continue a reply that is begun ({next(iter(refused.values()))}); leave --shown out, "
            "or use vLLM"
        )
    wanted = {
        name: tuple(way for way in found if way == CALL or name not in refused)
        for name, found in able.items()
    }  # fmt: skip
    if settings.shown == PREFILL:
        wanted = {name: tuple(way for way in found if way == PREFILL) for name, found in wanted.items()}
        if not all(wanted.values()):
            none = next(name for name, found in wanted.items() if not found)
            raise ConfigError(
                f"strategy {none!r} answers in a turn of its own, which cannot be prefilled; use --shown call"
            )
    elif settings.shown == AUTO:
        wanted = {name: found[:1] for name, found in wanted.items()}
    for name, reason in refused.items():
        if settings.shown in (AUTO, BOTH):
            listener.message(
                f"the server does not continue a reply that is begun for strategy {name} ({reason}); its chains are "
                "shown in an earlier message, and a second call asks for the answer"
            )
    return lambda chain: wanted[chain.strategy.name]


def _refusal(probe: PrefillProbe, reached: Reached, chain: Chain) -> str | None:
    """Why the server refuses the first prefilled reply of a strategy; None where it takes it."""
    turn = prefilled(chain, chain.written.text, reached.held_by)
    at = reached.target
    body = {"model": at.model, "messages": list(turn.messages), **reached.answering.to_dict(), **turn.fields}
    return probe.refusal(body)
