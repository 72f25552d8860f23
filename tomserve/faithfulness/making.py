"""Makes the plan of a measurement: every edit, hint and prediction of the chains that were drawn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tomserve.faithfulness import edits as editing
from tomserve.faithfulness.hints import hinted
from tomserve.faithfulness.planned import Planned
from tomserve.faithfulness.settings import EDIT_PROBE, HINT_PROBE, Settings
from tomserve.faithfulness.source import Chain, Source, drawn
from tomserve.faithfulness.table import (
    CHAIN,
    EDIT,
    FULL,
    HINT,
    LEFT_OUT,
    NO_VERDICT,
    PARAPHRASE,
    PREDICTION,
    QUESTION,
)
from tomserve.faithfulness.written import Count, Edited, LeftOut, Written
from tomserve.items import Item

Ways = Callable[[Chain], Sequence[str]]
"""A function that gives the ways in which an edited chain is shown: PREFILL, CALL or both."""

Paraphrases = Mapping[tuple[str, str], str]
"""Paraphrases that a model made, by item and strategy."""

CHARACTERS_A_TOKEN = 4.0
"""How many characters a token of English text has, for a count without a tokenizer."""


def estimated(text: str) -> int:
    """About how many tokens a text has, where no server counts them."""
    return max(1, round(len(text) / CHARACTERS_A_TOKEN)) if text else 0


def plan(
    source: Source, settings: Settings, ways: Ways, tokens: Count = estimated, paraphrases: Paraphrases | None = None
) -> Iterator[Planned]:
    """Every question of the measurement, chain by chain, so that those that share a prompt come together.

    source: the run. settings: what is wanted. ways: how chains are shown. tokens: counts the tokens of a text.
    paraphrases: those that a model made, in the place of those by rules.
    """
    chains = drawn(source.chains, settings.limit)
    pools: dict[str, list[tuple[Item, Written]]] = defaultdict(list)
    for chain in source.chains:
        pools[chain.strategy.name].append((chain.item, chain.written))
    given = paraphrases or {}
    for chain in sorted(chains, key=lambda one: (one.strategy.name, one.strategy.order(one.item))):
        if EDIT_PROBE in settings.probes:
            other = editing.chosen_other(chain.item, chain.written, pools[chain.strategy.name])
            mates = source.mates_of(chain.item)
            made = editing.edits(
                chain.item, chain.written, mates=mates, other=other, tokens=tokens, lettered=chain.lettered
            )
            own = given.get((chain.item.id, chain.strategy.name))
            yield from _shown(chain, (one for one in made if one.condition in settings.edits), ways(chain), own)
        if HINT_PROBE in settings.probes:
            yield from _hints(chain)
        if settings.predictor is not None:
            yield from _predictions(chain)
    if EDIT_PROBE in settings.probes:
        for name, items in source.unreadable.items():
            for item, reason in items:
                yield Planned(item.id, name, EDIT, FULL, status=LEFT_OUT, reason=reason)


def _shown(
    chain: Chain, made: Iterable[Edited | LeftOut], shown: Sequence[str], paraphrase: str | None
) -> Iterator[Planned]:
    """The edits of one chain, each in every way in which it is shown. paraphrase: one that a model made."""
    for one in made:
        edit = Edited(PARAPHRASE, paraphrase) if one.condition == PARAPHRASE and paraphrase is not None else one
        for way in shown:
            yield _planned(chain, EDIT, edit, way)


def _hints(chain: Chain) -> Iterator[Planned]:
    for one in hinted(chain.item, chain.strategy.turn, chain.written.own, lettered=chain.lettered):
        if isinstance(one, LeftOut):
            yield _planned(chain, HINT, one)
        else:
            yield Planned(chain.item.id, chain.strategy.name, HINT, one.condition, implied=one.implied)


def _predictions(chain: Chain) -> Iterator[Planned]:
    """What the predicting model is shown: nothing of the chain, all of it, and all but its verdict."""
    rest = editing.without_verdict(chain.item, chain.written, lettered=chain.lettered)
    for condition, text in ((QUESTION, None), (CHAIN, chain.written.text), (NO_VERDICT, rest)):
        if condition == NO_VERDICT and text is None:
            yield _planned(chain, PREDICTION, LeftOut(condition, "nothing would be left of the chain but its verdict"))
            continue
        own = chain.written.own
        yield Planned(chain.item.id, chain.strategy.name, PREDICTION, condition, implied=own, edited=text)


def _planned(chain: Chain, kind: str, made: Edited | LeftOut, shown: str | None = None) -> Planned:
    item, strategy = chain.item.id, chain.strategy.name
    if isinstance(made, LeftOut):
        return Planned(item, strategy, kind, made.condition, shown, status=LEFT_OUT, reason=made.reason)
    return Planned(item, strategy, kind, made.condition, shown, made.implied, made.text)


@dataclass(frozen=True)
class Foreseen:
    """What a measurement would ask.

    requests: how many, by kind. chains: how many, by strategy. left_out: how many edits and hints cannot be made.
    """

    requests: Mapping[str, int]
    chains: Mapping[str, int]
    left_out: int

    @property
    def total(self) -> int:
        """How many requests there are in all."""
        return sum(self.requests.values())

    def lines(self) -> list[str]:
        """The same in words, a line each."""
        chains = ", ".join(f"{count:,} of {name}" for name, count in self.chains.items())
        named = {EDIT: "after edited chains", HINT: "with hints", PREDICTION: "to the predicting model"}
        parts = ", ".join(f"{self.requests[kind]:,} {words}" for kind, words in named.items() if kind in self.requests)
        return [
            f"chains: {chains or 'none'}",
            f"requests: {self.total:,} ({parts or 'none'})",
            f"edits and hints that cannot be made: {self.left_out:,}",
        ]


def foreseen(planned: Sequence[Planned], calls: Mapping[str, int]) -> Foreseen:
    """What a plan asks. calls: how many requests a whole reply takes, by strategy (a hint asks for one)."""
    asked = [one for one in planned if one.asked]
    requests: Counter[str] = Counter()
    for one in asked:
        requests[one.kind] += calls.get(one.strategy, 1) if one.kind == HINT else 1
    chains = Counter(strategy for strategy, _ in dict.fromkeys((one.strategy, one.item) for one in asked))
    return Foreseen(dict(requests), dict(chains), len(planned) - len(asked))
