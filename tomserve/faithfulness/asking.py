"""Asks what was planned: the model after each edit and hint, a rewriter, and a second model that predicts answers.

Every reply is kept in a journal in the run's folder of work, so that the asking may be killed and repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tomserve.engine import transports
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import ModelGuard
from tomserve.errors import ConfigError
from tomserve.faithfulness import offering, paraphrasing, predicting
from tomserve.faithfulness.asked import check_texts
from tomserve.faithfulness.hints import Hinted, hinted
from tomserve.faithfulness.planned import Planned
from tomserve.faithfulness.reaching import Reached
from tomserve.faithfulness.settings import Connection
from tomserve.faithfulness.showing import AfterHint, Once, called, prefilled
from tomserve.faithfulness.source import Chain
from tomserve.faithfulness.table import EDIT, HINT, PREDICTION, PREFILL
from tomserve.faithfulness.written import LeftOut
from tomserve.items import Item
from tomserve.prompting.conversation import Asker
from tomserve.runs.conversations import Asker as PhasesAsker
from tomserve.runs.conversations import Conversations, Phase, Question, is_finished
from tomserve.runs.grader import Reader, check_chat
from tomserve.runs.journal import Journal, read_rows, row_identity
from tomserve.runs.manifest import Session
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import Listener, Stop
from tomserve.status import ANSWERS

REPLIES, PREDICTED, PARAPHRASED = "replies.jsonl", "predictions.jsonl", "paraphrases.jsonl"
"""The journals in the folder of work."""

MARK = "asked_by"
"""The field of a row that tells one second model and prompt from another."""

Chains = Mapping[tuple[str, str], Chain]
"""The chains of a run, by item and strategy."""

Drive = Callable[["Asking"], None]
"""Runs `Asking.ask` to its end."""


def driven(asking: Asking) -> None:
    """Ask in an event loop of its own; the calling thread must have none that runs."""
    transports.run_loop(asking.ask())


@dataclass
class Asking:
    """One phase, asked by one asker. listener: told what happens. stop: ends it early."""

    asker: PhasesAsker
    phase: Phase
    listener: Listener
    stop: Stop

    async def ask(self) -> None:
        """Ask everything that is left. Raises TomserveError; every reply that came is kept."""
        await self.asker.ask(self.phase)


@dataclass
class Work:
    """What the phases of one measurement share.

    run: its folder. connection: how models are reached. listener: told what happens. stop: ends the asking early.
    drive: runs an Asking to its end; a command line gives its own, which handles signals meanwhile. session: notes the
    prompt tokens of the edits and hints, and how many of them the server had in its cache.
    """

    run: MeasuredRun
    connection: Connection
    listener: Listener
    stop: Stop
    drive: Drive = driven
    session: Session = field(default_factory=Session)

    def left(self, planned: Sequence[Planned], chains: Chains) -> bool:
        """Whether any edit or hint has no final reply yet."""
        wanted = [one for one in planned if one.asked and one.kind in (EDIT, HINT)]
        asks = _Asks(chains, None)
        with Journal(self.run.work_file(REPLIES)) as journal:
            return any(not is_finished(journal, Question(one.item, asks.of(one))) for one in wanted)

    def ask(self, reached: Reached, planned: Sequence[Planned], chains: Chains) -> None:
        """Ask the model what is left of the edits and hints."""
        wanted = [one for one in planned if one.asked and one.kind in (EDIT, HINT)]
        with Journal(self.run.work_file(REPLIES)) as journal:
            asks = _Asks(chains, reached.held_by)

            def questions() -> Iterator[Question]:
                return (Question(one.item, asks.of(one)) for one in wanted)

            def left(talks: Conversations) -> Iterator[Request]:
                for one in wanted:
                    if not is_finished(journal, Question(one.item, asks.of(one))):
                        yield from talks.begin(asks.of(one), chains[one.item, one.strategy].item)

            edits = {one.name for one in wanted if one.kind == EDIT}

            def build(identity: Identity, turn: Any) -> Request:
                make = reached.answer_request if identity.strategy in edits else reached.request
                return make(identity, turn)

            at = reached.target
            where = f"{at.model} at {', '.join(at.endpoints)}"
            what = "requests with edited chains or hints"
            phase = Phase(
                journal,
                questions,
                left,
                build,
                lambda left, total: f"asking {where}: {left:,} of {total:,} {what} to go",
                self.connection.concurrency,
                what=f"of the {what}",
                session=self.session,
            )
            self._run(at.endpoints, at.model, phase, reached.gone)

    def ask_second(self, who: Reader, shown: Mapping[str, Item], file: str, what: str) -> dict[str, dict[str, Any]]:
        """Ask a second model about each of these items, once each, and return its last rows by the items' names."""
        name = who.strategy.name
        with Journal(self.run.work_file(file), {MARK: who.mark}) as journal:
            identities = {one: Identity(one, name, 0) for one in shown}
            if any(identity not in journal.final for identity in identities.values()):
                check_chat(who)
            at = who.target

            def left(talks: Conversations) -> Iterator[Request]:
                del talks  # one request each
                names = [one for one in shown if identities[one] not in journal.final]
                return (who.request(identities[one], who.strategy.turn(shown[one])) for one in names)

            phase = Phase(
                journal,
                lambda: (Question(one, who.strategy) for one in shown),
                left,
                who.request,
                lambda left, total: f"asking {at.model} at {', '.join(at.endpoints)}: {left:,} of {total:,} {what}",
                what=f"of the {what}",
            )
            self._run(at.endpoints, at.model, phase)
        return second_rows(self.run, file, who.mark, shown)

    def _run(
        self, endpoints: Sequence[str], model: str, phase: Phase, alive: Callable[[], str | None] = lambda: None
    ) -> None:
        given = self.connection
        patience = {} if given.patience is None else {"lost_after": given.patience}
        policy = given.policy if not patience else type(given.policy)(**{**vars(given.policy), **patience})
        asker = PhasesAsker(
            endpoints, model, self.listener, self.stop, self.run.log, lambda: None, given.timeout, given.transport,
            policy, alive, ModelGuard(phase.journal.models, acceptable=False),
        )  # fmt: skip
        self.drive(Asking(asker, phase, self.listener, self.stop))


class _Asks:
    """What asks each planned question; hints of one chain are made once for all of them."""

    def __init__(self, chains: Chains, held_by: str | None) -> None:
        self._chains, self._held_by = chains, held_by
        self._last: tuple[tuple[str, str], dict[str, Hinted | LeftOut]] | None = None

    def of(self, one: Planned) -> Asker:
        """What asks that question. Raises ConfigError where the hint can no longer be made."""
        key = (one.item, one.strategy)
        chain = self._chains[key]
        if one.kind == EDIT:
            text, held_by = one.edited or "", self._held_by
            if one.shown == PREFILL:
                return Once(one.name, lambda: prefilled(chain, text, held_by))
            return Once(one.name, lambda: called(chain, text))
        return AfterHint(one.name, chain.strategy, self._hint(chain, key, one.condition))

    def _hint(self, chain: Chain, key: tuple[str, str], condition: str) -> Hinted:
        if self._last is None or self._last[0] != key:
            made = hinted(chain.item, chain.strategy.turn, chain.written.own, lettered=chain.lettered)
            self._last = (key, {found.condition: found for found in made})
        found = self._last[1].get(condition)
        if not isinstance(found, Hinted):
            raise ConfigError(f"item {key[0]!r}: the hint {condition!r} can no longer be made; use --run NEW")
        return found


def rows_of(run: MeasuredRun) -> dict[tuple[str, str], dict[int, dict[str, Any]]]:
    """The rows of the model's replies by item and planned name, then by turn; the last of a turn counts."""
    found: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for _, row in read_rows(run.work / REPLIES):
        identity = row_identity(row)
        check_texts(run.work / REPLIES, row)
        found.setdefault((identity.item, identity.strategy), {})[identity.turn] = row
    return found


def second_rows(run: MeasuredRun, file: str, mark: str, shown: Mapping[str, Item]) -> dict[str, dict[str, Any]]:
    """The last rows of a second model, by the names of what it was shown."""
    found = {}
    for _, row in read_rows(run.work / file):
        if row.get(MARK) == mark and row["item"] in shown:
            check_texts(run.work / file, row)
            found[row["item"]] = row
    return found


def shown_to_predictor(planned: Sequence[Planned], chains: Chains) -> dict[tuple[str, str, str], Item]:
    """What the predicting model is shown, by item, strategy and condition: choices as the model was offered them."""
    found = {}
    for one in planned:
        if one.kind == PREDICTION and one.asked:
            chain = chains[one.item, one.strategy]
            told = offering.asked(chain.strategy.turn(chain.item).messages)[1]
            offers = offering.offered(chain.item, told, lettered=chain.lettered)
            found[one.item, one.strategy, one.condition] = predicting.shown(chain.item, one.edited, offers)
    return found


def shown_to_rewriter(chains: Sequence[Chain]) -> dict[tuple[str, str], Item]:
    """What the rewriter is shown, by item and strategy: every chain of prose."""
    return {
        (chain.item.id, chain.strategy.name): paraphrasing.shown(chain.item, chain.written.text)
        for chain in chains
        if not chain.written.entries
    }


def texts(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The texts of the rows that are answers, by name."""
    return {name: row.get("text") or "" for name, row in rows.items() if row["status"] in ANSWERS}
