"""The pages of items: a list of them, and one of them with what would be sent."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from tomserve import benchmarks
from tomserve.errors import ConfigError, TomserveError
from tomserve.web import itemlist, previews, storyline, varieties
from tomserve.web.access import Reader
from tomserve.web.itemlist import Source, Wish
from tomserve.web.rendering import page
from tomserve.web.workbench import workbench

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Query(max_length=400)]
Many = Annotated[list[str] | None, Query(max_length=40)]


def _source(benchmark: str, gold: str, path: str, run: str) -> Source:
    return Source("" if run else benchmark or benchmarks.DEFAULT, gold, path, run)


def _address(source: Source, wish: Wish, **more: str) -> str:
    """What an address needs to come back to the same items."""
    fields = {"benchmark": source.benchmark, "gold": source.gold, "path": source.path, "run": source.run}
    pairs = [(name, value) for name, value in {**fields, "text": wish.text, **more}.items() if value]
    return urlencode([*pairs, *(("where", one) for one in wish.where)])


def _conditions(where: list[str] | None, factor: list[str] | None) -> tuple[str, ...]:
    """The conditions that were written, and those that were chosen from lists, whose first entry stands for any."""
    written = [one.strip() for text in where or () for one in text.split(";") if one.strip()]
    chosen = [one for one in factor or () if "=" in one]
    return tuple(dict.fromkeys((*written, *chosen)))


@router.get("/items")
def items(
    request: Request, person: Reader, benchmark: Text = "", gold: Text = "", path: Text = "", run: Text = "",
    where: Many = None, factor: Many = None, text: Text = "",
    page_: Annotated[int, Query(alias="page", ge=1, le=10**6)] = 1, part: Text = "",
) -> HTMLResponse:  # fmt: skip
    """A page of items; with `part` only the list, which fetches itself while the items are being read."""
    source = _source(benchmark, gold, path, run)
    wish = Wish(_conditions(where, factor), text.strip(), page_)
    listing, error, pending = None, "", False
    try:
        found = itemlist.index(source, workbench(request).register, person)
        pending = found is None
        listing = None if found is None else itemlist.listed(found, wish)
    except ConfigError as refusal:
        error = str(refusal)
    known = benchmarks.find(source.benchmark) if source.benchmark else None
    return page(
        request,
        "items_part.html.j2" if part else "items.html.j2",
        source=source,
        wish=wish,
        listing=listing,
        error=error,
        pending=pending,
        names=benchmarks.names(),
        golds=known.golds if known is not None else (),
        address=_address(source, wish),
        plain=_address(source, Wish()),
    )


@router.get("/items/item")
def item(
    request: Request, person: Reader, id: Annotated[str, Query(max_length=320)], benchmark: Text = "",
    gold: Text = "", path: Text = "", run: Text = "", where: Many = None, text: Text = "", variant: Text = "",
    strategy: Text = "", preset: Text = "", model: Text = "", thinking: Text = "",
    temperature: Annotated[float, Query(ge=0, le=2)] = 0.0, seed: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> HTMLResponse:  # fmt: skip
    """The page of one item: its story with the gold chain, its factors, its variants, and what would be sent."""
    source, wish = _source(benchmark, gold, path, run), Wish(_conditions(where, None), text.strip())
    index = itemlist.index(source, workbench(request).register, person)
    if index is None:
        address = _address(source, wish, id=id)
        return page(request, "items_wait.html.j2", address=f"/items/item?{address}", id=id)
    found = itemlist.one(index, id, wish)
    shown = found.item
    if variant:
        made = varieties.made(index, id)
        if made is None:
            return page(request, "items_wait.html.j2", address=f"/items/item?{request.url.query}", id=id)
        shown = next((one.item for one in made if one.kind == variant and one.item is not None), found.item)
    how = previews.How(strategy, preset, model, thinking, temperature, seed)
    preview, error = None, ""
    try:
        preview = previews.preview(shown, how)
    except TomserveError as refusal:
        error = str(refusal)
    headings, told = storyline.sentences(shown)
    return page(
        request,
        "item.html.j2",
        source=source,
        found=found,
        item=shown,
        variant=variant if shown is not found.item else "",
        headings=headings,
        sentences=told,
        how=how,
        preview=preview,
        error=error,
        strategies=previews.strategies(),
        presets=previews.presets(),
        address=_address(source, wish),
        hidden=[(name, value) for name, value in (("benchmark", source.benchmark), ("gold", gold), ("path", path),
                ("run", run), ("text", wish.text), ("id", id), ("variant", variant)) if value]
               + [("where", one) for one in wish.where],
    )  # fmt: skip


@router.get("/items/answers")
def answers(
    request: Request, person: Reader, id: Annotated[str, Query(max_length=320)], benchmark: Text = "",
    gold: Text = "", path: Text = "", run: Text = "",
) -> HTMLResponse:  # fmt: skip
    """How runs have answered an item, which the item's page fetches."""
    source = _source(benchmark, gold, path, run)
    index = itemlist.index(source, workbench(request).register, person)
    if index is None:
        raise ConfigError("the items are still being read; look again in a moment")
    chosen = itemlist.one(index, id).item
    told, left = storyline.answers(chosen, workbench(request).register, person)
    return page(request, "item_answers.html.j2", answers=told, left=left, item=chosen)


@router.get("/items/variants")
def variants(
    request: Request, person: Reader, id: Annotated[str, Query(max_length=320)], benchmark: Text = "",
    gold: Text = "", path: Text = "", run: Text = "", variant: Text = "",
) -> HTMLResponse:  # fmt: skip
    """The variants that can be made of an item, which the item's page fetches, again and again until they are made."""
    source = _source(benchmark, gold, path, run)
    index = itemlist.index(source, workbench(request).register, person)
    return page(
        request,
        "item_variants.html.j2",
        variants=None if index is None else varieties.made(index, id),
        again=f"/items/variants?{request.url.query}",
        address=_address(source, Wish()),
        id=id,
        variant=variant,
    )
