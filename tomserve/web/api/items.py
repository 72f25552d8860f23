"""Items: those of a benchmark, and the prompt of one exactly as it would be sent; and one item asked of one model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from starlette.responses import Response

from tomserve.web import itemlist, previews, trying
from tomserve.web.access import Reader, Runner
from tomserve.web.api.common import COMING, Bench, coming
from tomserve.web.asking import ItemsTold, ItemsWish, PreviewTold, PreviewWish, TrialTold, TryWish
from tomserve.web.itemlist import Source
from tomserve.web.pages.trying import own_item
from tomserve.web.previews import How
from tomserve.web.schemas import Started

router = APIRouter()


@router.get("/items/{benchmark}", response_model=ItemsTold, responses=COMING)
def items(bench: Bench, person: Reader, benchmark: str, wish: Annotated[ItemsWish, Query()]) -> ItemsTold | Response:
    """The items of a benchmark in pages of 50, those that the conditions leave."""
    found = itemlist.index(Source(benchmark, wish.gold), bench.register, person)
    if found is None:
        return coming()
    wanted = itemlist.Wish(tuple(wish.where), wish.text.strip(), wish.page)
    return ItemsTold.model_validate(itemlist.listed(found, wanted))


@router.get("/items/{benchmark}/prompt", response_model=PreviewTold, responses=COMING)
def prompt(
    bench: Bench, person: Reader, benchmark: str, wish: Annotated[PreviewWish, Query()]
) -> PreviewTold | Response:
    """The requests that an evaluation would send about an item, as their bodies of JSON."""
    found = itemlist.index(Source(benchmark, wish.gold), bench.register, person)
    if found is None:
        return coming()
    how = How(wish.strategy, wish.preset, wish.model, wish.thinking, wish.temperature, wish.seed)
    made = previews.preview(itemlist.one(found, wish.item).item, how)
    return PreviewTold(strategy=made.strategy.name, more=made.more, bodies=[one.body.decode() for one in made.sent])


@router.post("/try", status_code=201, response_model=Started, responses=COMING)
def ask(bench: Bench, person: Runner, wish: TryWish) -> Started | Response:
    """Ask one item, or a story of your own, of one model. Nothing of it goes into the runs.

    The answer is the name under which `GET /try/{name}` tells what came of it.
    """
    if (wish.item is None) == (wish.own is None):
        raise HTTPException(422, "name an item of a benchmark, or give a story of your own")
    if wish.own is not None:
        own = wish.own
        chosen = own_item("\n".join(own.story), own.question, "\n".join(own.choices), own.answer)
    else:
        found = itemlist.index(Source(wish.benchmark, wish.gold), bench.register, person)
        if found is None:
            return coming()
        chosen = itemlist.one(found, wish.item or "").item
    how = How(wish.strategy, wish.preset, wish.model, wish.thinking, wish.temperature, wish.seed)
    name = trying.ask(
        bench.settings, person, chosen, how, base_url=wish.base_url.strip(), key=wish.key, seconds=wish.seconds
    )
    return Started(name=name)


@router.get("/try/{name}")
def tried(bench: Bench, person: Reader, name: str) -> TrialTold:
    """What came of a try: the raw reply, how it was read, and what was sent."""
    return TrialTold.of(trying.look(bench.settings, person, name))
