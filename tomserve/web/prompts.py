"""Makes the prompts of one answer once more, and tells by their keys whether they are those that were sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tomserve import content
from tomserve.engine.request import Identity, Request
from tomserve.items import Item
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.conversations import Conversations
from tomserve.runs.manifest import AskedStrategy, Manifest
from tomserve.runs.verification import find_same_strategy, recorded_sampling
from tomserve.scoring.score import sample_of
from tomserve.web.digests import Digests


@dataclass(frozen=True)
class Prompt:
    """What was sent for a turn. messages: each with role and content. body: the JSON of the request. proved: whether
    the key of the journal's row is that of this prompt, so that it is what was sent."""

    turn: int
    messages: tuple[Mapping[str, str], ...]
    body: str
    proved: bool


def prompts_of(manifest: Manifest, item: Item, rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[Prompt, ...], str]:
    """The prompts of the rows of one conversation, and in words why they cannot be made, "" where they can.

    rows: of one item, strategy and sample. Raises TomserveError where the strategy's program makes a mistake.
    """
    if not rows:
        return (), "Nothing was sent."
    name, sample = str(rows[0].get("strategy")), sample_of(rows[0])
    if any(isinstance(row.get("person"), str) for row in rows):
        return (), "A person was asked, by a form."
    asked = manifest.strategies.get(name)
    strategy = None if asked is None else _strategy(name, asked, manifest)
    if strategy is None:
        return (), (
            "There is no strategy of that name and content here any more, so that its prompt cannot be made again. "
            "The row of the journal holds its digest."
        )
    sampling = recorded_sampling(manifest)
    keys = {row.get("turn") or 0: row.get("key") for row in rows}

    def build(identity: Identity, turn: Turn) -> Request:
        return Request.build(identity, turn, model=manifest.model, revision=manifest.revision, sampling=sampling)

    last = {row.get("turn") or 0: row for row in rows}
    talks, made = Conversations(build), list[Request]()
    waiting = list(talks.begin(strategy, item, sample))
    while waiting and len(made) < len(last) + 1:
        request = waiting.pop(0)
        made.append(request)
        if strategy.several and (row := last.get(request.identity.turn)) is not None:
            waiting += talks.follow({**row, "item": item.id, "strategy": strategy.name, "sample": sample})
    return tuple(_prompt(request, keys.get(request.identity.turn)) for request in made), ""


_digests = Digests()
_known: dict[bytes, Strategy | None] = {}
_MOST = 64


def _strategy(name: str, asked: AskedStrategy, manifest: Manifest) -> Strategy | None:
    """The strategy of today that asks what that one of the run asked (see tomserve.runs.verification.find_same_strategy).

    It is kept for as long as no file of any strategy changes, since looking for one costs a tenth of a second.
    """
    folders = (root / "prompts" for root in content.roots())
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    state = [[str(path), _digests.of(path)] for path in paths]
    sampling = manifest.sampling.get("thinking_token_budget")
    key = orjson.dumps([name, asked.model_dump(mode="json"), manifest.preset, sampling, state])
    if key not in _known:
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = find_same_strategy(name, asked, manifest)
    return _known[key]


def _prompt(request: Request, key: Any) -> Prompt:
    body = orjson.loads(request.body)
    messages = tuple(
        {"role": str(one.get("role", "")), "content": str(one.get("content", ""))} for one in body["messages"]
    )
    text = orjson.dumps(body, option=orjson.OPT_INDENT_2).decode()
    return Prompt(request.identity.turn, messages, text, key == request.key)
