"""The page on which one item is asked of one model, and the page of what came of it."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from tomserve import benchmarks
from tomserve.errors import ConfigError, TomserveError
from tomserve.items import Item
from tomserve.serving import registry
from tomserve.web import itemlist, previews, trying
from tomserve.web.access import Reader, Runner
from tomserve.web.itemlist import Source
from tomserve.web.people import Person
from tomserve.web.previews import How
from tomserve.web.rendering import page
from tomserve.web.workbench import workbench

router = APIRouter(include_in_schema=False)

HERE = "this machine"
"""What the form calls a server that runs on this machine, or the embedded model."""

Text = Annotated[str, Query(max_length=400)]
Field = Annotated[str, Form(max_length=2000)]
Long = Annotated[str, Form(max_length=200_000)]


@router.get("/try")
def form(
    request: Request, person: Reader, benchmark: Text = "", gold: Text = "", path: Text = "", run: Text = "",
    item: Text = "", strategy: Text = "", preset: Text = "", model: Text = "", base_url: Text = "",
) -> HTMLResponse:  # fmt: skip
    """The form, filled with what the address names."""
    values = {"benchmark": benchmark, "gold": gold, "path": path, "run": run, "item": item, "strategy": strategy,
              "preset": preset, "model": model, "base_url": base_url}  # fmt: skip
    return _form(request, person, values)


def _form(request: Request, person: Person, values: dict[str, Any], error: str = "", status: int = 200) -> HTMLResponse:
    bench = workbench(request)
    chosen, pending = None, False
    if values.get("item") and not error:
        try:
            chosen = _item(request, person, values)
            pending = chosen is None
        except TomserveError as refusal:
            error, status = str(refusal), 422
    return page(
        request,
        "try.html.j2",
        status=status,
        values={**dict.fromkeys(_FIELDS, ""), "seconds": f"{trying.DEADLINE:.0f}", **values},
        chosen=chosen,
        pending=pending,
        error=error,
        names=benchmarks.names(),
        strategies=previews.strategies(),
        presets=previews.presets(),
        servers=[one.record for one in registry.believed_records() if one.state == "ready"] if person.may_run else [],
        keys=[name for name, _ in bench.settings.keys],
        longest=trying.LONGEST,
    )


_FIELDS = ("benchmark", "gold", "path", "run", "item", "strategy", "preset", "model", "base_url", "key", "thinking",
           "story", "question", "choices", "answer", "temperature", "seed")  # fmt: skip


def _item(request: Request, person: Person, values: dict[str, Any]) -> Item | None:
    """The item that is named; None where the items are still being read."""
    name = "" if values["run"] else values["benchmark"] or benchmarks.DEFAULT
    source = Source(name, values["gold"], values["path"], values["run"])
    index = itemlist.index(source, workbench(request).register, person)
    return None if index is None else itemlist.one(index, values["item"]).item


@router.post("/try")
def ask(
    request: Request, person: Runner, benchmark: Field = "", gold: Field = "", path: Field = "", run: Field = "",
    item: Field = "", strategy: Field = "", preset: Field = "", model: Field = "", base_url: Field = "",
    key: Field = "", thinking: Field = "", story: Long = "", question: Long = "", choices: Long = "",
    answer: Long = "", temperature: Annotated[float, Form(ge=0, le=2)] = 0.0,
    seed: Annotated[int, Form(ge=0, lt=2**31)] = 0,
    seconds: Annotated[float, Form(ge=1, le=trying.LONGEST)] = trying.DEADLINE,
) -> Response:  # fmt: skip
    """Begin to ask, and go to the page of what comes of it; where that cannot be, the form with the reason."""
    values: dict[str, Any] = {
        "benchmark": benchmark, "gold": gold, "path": path, "run": run, "item": item, "strategy": strategy,
        "preset": preset, "model": model, "base_url": base_url, "key": key, "thinking": thinking, "story": story,
        "question": question, "choices": choices, "answer": answer, "temperature": temperature, "seed": seed,
        "seconds": f"{seconds:.0f}",
    }  # fmt: skip
    try:
        chosen = _item(request, person, values) if item else own_item(story, question, choices, answer)
        if chosen is None:
            raise ConfigError("the items are still being read for the first time; ask again in a moment")
        how = How(strategy, preset, model, thinking, temperature, seed)
        settings = workbench(request).settings
        name = trying.ask(settings, person, chosen, how, base_url=base_url.strip(), key=key, seconds=seconds)
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
def result(request: Request, person: Reader, name: str, part: Text = "") -> HTMLResponse:
    """What came of a try; with `part` only that, which fetches itself until there is an answer."""
    trial = trying.look(workbench(request).settings, person, name)
    return page(request, "try_result_part.html.j2" if part else "try_result.html.j2", trial=trial)
