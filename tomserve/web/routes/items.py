"""Pages of items: a list of them, one of them with what would be sent, and the playground that asks one of a model."""

from dataclasses import asdict
from typing import Annotated
from urllib.parse import urlencode

import pydantic
from annotated_types import Ge, Le
from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import StringConstraints

from tomserve import benchmarks
from tomserve.errors import ConfigError, TomserveError
from tomserve.items import Item
from tomserve.serving import registry
from tomserve.web import items, playground
from tomserve.web.access import Reader, Runner, workbench
from tomserve.web.accounts import Person
from tomserve.web.items import How, ItemQuery, Source
from tomserve.web.page_templates import render_page

router = APIRouter(include_in_schema=False)


Text = Annotated[str, Query(max_length=400)]
Many = Annotated[list[str] | None, Query(max_length=40)]


def source_of(benchmark: Text = "", gold: Text = "", path: Text = "", run: Text = "") -> Source:
    """Where the items come from that an address names."""
    return Source("" if run else benchmark or benchmarks.DEFAULT, gold, path, run)


ItemSource = Annotated[Source, Depends(source_of)]
Short = Annotated[str, Query(max_length=200)]


def how_of(
    strategy: Short = "", preset: Short = "", model: Short = "", thinking: Short = "",
    temperature: Annotated[float, Query(ge=0, le=2)] = 0.0, seed: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> How:  # fmt: skip
    """How an item is asked that an address names."""
    return How(strategy=strategy, preset=preset, model=model, thinking=thinking, temperature=temperature, seed=seed)


ItemId = Annotated[str, Query(max_length=320)]


def _pairs(source: Source, query: ItemQuery, **more: str) -> list[tuple[str, str]]:
    pairs = [(name, value) for name, value in {**asdict(source), "text": query.text, **more}.items() if value]
    return [*pairs, *(("where", one) for one in query.where)]


def _address(source: Source, query: ItemQuery, **more: str) -> str:
    return urlencode(_pairs(source, query, **more))


def _conditions(where: list[str] | None, factor: list[str] | None) -> tuple[str, ...]:
    written = [one.strip() for text in where or () for one in text.split(";") if one.strip()]
    chosen = [one for one in factor or () if "=" in one]
    return tuple(dict.fromkeys((*written, *chosen)))


@router.get("/items")
def show_items(
    request: Request, person: Reader, source: ItemSource, where: Many = None, factor: Many = None, text: Text = "",
    page_: Annotated[int, Query(alias="page", ge=1, le=10**6)] = 1, part: Text = "",
) -> HTMLResponse:  # fmt: skip
    """A page of items; with `part` only the list, which fetches itself while the items are being read."""
    query = ItemQuery(_conditions(where, factor), text.strip(), page_)
    listing, error, pending = None, "", False
    try:
        found = items.find_index(source, workbench(request).register, person)
        pending = found is None
        listing = None if found is None else items.list_items(found, query)
    except ConfigError as refusal:
        error = str(refusal)
    known = benchmarks.find(source.benchmark) if source.benchmark else None
    return render_page(
        request,
        "items_part.html.j2" if part else "items.html.j2",
        source=source,
        query=query,
        listing=listing,
        error=error,
        pending=pending,
        names=benchmarks.names(),
        golds=known.golds if known is not None else (),
        address=_address(source, query),
        plain=_address(source, ItemQuery()),
    )


@router.get("/items/item")
def show_item(
    request: Request, person: Reader, source: ItemSource, how: Annotated[How, Depends(how_of)], id: ItemId,
    where: Many = None, text: Text = "", variant: Text = "",
) -> HTMLResponse:  # fmt: skip
    """The page of one item: its story with the gold chain, its factors, its variants, and what would be sent."""
    query = ItemQuery(_conditions(where, None), text.strip())
    index = items.find_index(source, workbench(request).register, person)
    if index is None:
        address = _address(source, query, id=id)
        return render_page(request, "items_wait.html.j2", address=f"/items/item?{address}", id=id)
    found = items.find_item(index, id, query)
    shown = found.item
    if variant:
        made = items.find_variants(index, id)
        if made is None:
            return render_page(request, "items_wait.html.j2", address=f"/items/item?{request.url.query}", id=id)
        shown = next((one.item for one in made if one.kind == variant and one.item is not None), found.item)
    preview, error = None, ""
    try:
        preview = items.preview(shown, how)
    except TomserveError as refusal:
        error = str(refusal)
    headings, told = items.sentences(shown)
    return render_page(
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
        strategies=items.strategies(),
        presets=items.presets(),
        address=_address(source, query),
        hidden=_pairs(source, query, id=id, variant=variant),
    )


@router.get("/items/answers")
def show_answers(request: Request, person: Reader, source: ItemSource, id: ItemId) -> HTMLResponse:
    """How runs have answered an item, which the item's page fetches."""
    index = items.find_index(source, workbench(request).register, person)
    if index is None:
        raise ConfigError("the items are still being read; look again in a moment")
    chosen = items.find_item(index, id).item
    told, left = items.run_answers(chosen, workbench(request).register, person)
    return render_page(request, "item_answers.html.j2", answers=told, left=left, item=chosen)


@router.get("/items/variants")
def show_variants(request: Request, person: Reader, source: ItemSource, id: ItemId, variant: Text = "") -> HTMLResponse:
    """The variants that can be made of an item, which the item's page fetches, again and again until they are made."""
    index = items.find_index(source, workbench(request).register, person)
    return render_page(
        request,
        "item_variants.html.j2",
        variants=None if index is None else items.find_variants(index, id),
        again=f"/items/variants?{request.url.query}",
        address=_address(source, ItemQuery()),
        id=id,
        variant=variant,
    )


HERE = "this machine"  # what the form calls a server that runs on this machine, or the embedded model

Field = Annotated[str, StringConstraints(max_length=2000)]
Long = Annotated[str, StringConstraints(max_length=200_000)]


class TrialForm(How, extra="ignore"):
    """What is to be tried, as the form or an address says it."""

    benchmark: Field = ""
    gold: Field = ""
    path: Field = ""
    run: Field = ""
    item: Field = ""
    base_url: Field = ""
    key: Field = ""
    story: Long = ""
    question: Long = ""
    choices: Long = ""
    answer: Long = ""
    seconds: Annotated[float, Ge(1), Le(playground.LONGEST)] = playground.DEADLINE


@router.get("/try")
def show_trial_form(request: Request, person: Reader, values: Annotated[TrialForm, Query()]) -> HTMLResponse:
    """The form, filled with what the address names."""
    return _form(request, person, values)


def _form(request: Request, person: Person, values: TrialForm, error: str = "", status: int = 200) -> HTMLResponse:
    chosen, pending = None, False
    if values.item and not error:
        try:
            chosen = _item(request, person, values)
            pending = chosen is None
        except TomserveError as refusal:
            error, status = str(refusal), 422
    return render_page(
        request,
        "try.html.j2",
        status=status,
        values=values.model_dump() | {"seconds": f"{values.seconds:.0f}"},
        chosen=chosen,
        pending=pending,
        error=error,
        names=benchmarks.names(),
        strategies=items.strategies(),
        presets=items.presets(),
        servers=[one.record for one in registry.believed_records() if one.state == "ready"] if person.may_run else [],
        keys=[name for name, _ in workbench(request).settings.keys],
        longest=playground.LONGEST,
    )


def _item(request: Request, person: Person, values: TrialForm) -> Item | None:
    source = source_of(values.benchmark, values.gold, values.path, values.run)
    index = items.find_index(source, workbench(request).register, person)
    return None if index is None else items.find_item(index, values.item).item


@router.post("/try")
def ask(request: Request, person: Runner, values: Annotated[TrialForm, Form()]) -> Response:
    """Begin to ask, and go to the page of what comes of it; where that cannot be, the form with the reason."""
    try:
        if values.item:
            chosen = _item(request, person, values)
        else:
            chosen = own_item(values.story, values.question, values.choices, values.answer)
        if chosen is None:
            raise ConfigError("the items are still being read for the first time; ask again in a moment")
        how = How(**values.model_dump(include=set(How.model_fields)))
        settings, address = workbench(request).settings, values.base_url.strip()
        name = playground.start_trial(
            settings, person, chosen, how, base_url=address, key=values.key, seconds=values.seconds
        )
    except TomserveError as refusal:
        return _form(request, person, values, str(refusal), 422)
    return RedirectResponse(f"/try/{name}", 303)


def own_item(story: str, question: str, choices: str, answer: str) -> Item:
    """The item of a story of one's own: sentences and choices each on a line. Raises ConfigError in words."""
    sentences = [line.strip() for line in story.splitlines() if line.strip()]
    offered = [line.strip() for line in choices.splitlines() if line.strip()]
    if not sentences or not question.strip():
        raise ConfigError("choose an item, or write a story (a sentence on each line) and a question")
    if len(offered) < 2:
        raise ConfigError("choices: give at least two, each on a line of its own")
    right = answer.strip() or offered[0]
    if right not in offered:
        raise ConfigError(f"the right answer is {right!r:.200}, which is none of the choices")
    try:
        return Item(id="own/1", story=sentences, question=question.strip(), choices=offered, answer=right)
    except pydantic.ValidationError as error:
        told = "; ".join(str(one["msg"]) for one in error.errors()[:3])
        raise ConfigError(f"this cannot be asked: {told}") from None


@router.get("/try/{name}")
def show_trial(request: Request, person: Reader, name: str, part: Text = "") -> HTMLResponse:
    """What came of a try; with `part` only that, which fetches itself until there is an answer."""
    trial = playground.read_trial(workbench(request).settings, person, name)
    return render_page(request, "try_result_part.html.j2" if part else "try_result.html.j2", trial=trial)
