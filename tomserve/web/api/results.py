"""What runs have found out: scores, tables of studies, answers, comparisons.

What takes longer than a moment is computed beside and kept, as for the pages: until it is there, the answer is 202, and
the same is asked again.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import FileResponse, Response

from tomserve.errors import ConfigError, one_of
from tomserve.studies import study_names as studies
from tomserve.web import answering, browsing, comparing, computing
from tomserve.web.access import Reader
from tomserve.web.api.common import COMING, Bench, Found, coming
from tomserve.web.browsing import Filters
from tomserve.web.computing import Result
from tomserve.web.register import Line
from tomserve.web.results import (
    AnswersTold,
    AnswersWish,
    AnswerTold,
    AnswerWish,
    CompareTold,
    CompareWish,
    FlipsTold,
    ScoresWish,
    TablesTold,
    TablesWish,
    TableTold,
)

router = APIRouter()

KINDS = {"parquet": "application/vnd.apache.parquet", "csv": "text/csv", "jsonl": "application/jsonl"}
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The table, as a file.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in KINDS.values()},
    }
}


@router.get("/scores/{name:path}", response_class=Response, responses={**FILE, **COMING})
def scores(line: Found, wish: Annotated[ScoresWish, Query()]) -> Response:
    """The scores of a run, a row for each item and strategy, as Parquet, CSV or lines of JSON."""
    result = _there(line, computing.wanted("scores", line.folder, form=wish.form))
    if result is None:
        return coming()
    return FileResponse(result.folder / result.facts["file"], filename=result.facts["as"], media_type=KINDS[wish.form])


@router.get("/tables/{name:path}", response_model=TablesTold, responses=COMING)
def tables(line: Found, wish: Annotated[TablesWish, Query()]) -> TablesTold | Response:
    """The tables of a study of a run, each as CSV. A study is one of the content, by its name."""
    if wish.study and wish.study not in studies():
        raise ConfigError(one_of("study", wish.study, studies()))
    options: dict[str, Any] = {"study": wish.study or None, "intervals": wish.intervals or None, "by": list(wish.by)}
    result = _there(line, computing.wanted("panels", line.folder, **options))
    if result is None:
        return coming()
    told = [
        TableTold(name=name, rows=rows, csv=(result.folder / f"table-{name}.csv").read_text(encoding="utf-8"))
        for name, rows in result.facts["tables"].items()
    ]
    return TablesTold(study=result.facts["study"], intervals=result.facts["intervals"], tables=told)


@router.get("/answers/{name:path}", response_model=AnswersTold, responses=COMING)
def answers(line: Found, wish: Annotated[AnswersWish, Query()]) -> AnswersTold | Response:
    """The answers of a run in pages of 50, those that the filters leave."""
    plain = wish.model_dump(exclude={"where"})
    found = browsing.page_of(line.folder, Filters(**plain, factors=_factors(wish.where))) if _asked(line) else None
    return coming() if found is None else AnswersTold.model_validate(found)


@router.get("/answer/{name:path}", response_model=AnswerTold)
def answer(line: Found, wish: Annotated[AnswerWish, Query()]) -> AnswerTold:
    """One answer: the question with its gold chain, the reply, how it was read, and what was sent."""
    found = answering.answer(line.folder, wish.item, wish.strategy, wish.sample, wish.model)
    return AnswerTold.of(found)


@router.get("/compare", response_model=CompareTold, responses=COMING)
def compare(bench: Bench, person: Reader, wish: Annotated[CompareWish, Query()]) -> CompareTold | Response:
    """How much better or worse b is than a on the same questions: effects, flips, and what else differs.

    Without b, two strategies of a are compared.
    """
    lines = [bench.register.line(name, person) for name in (wish.a, wish.b) if name]
    if bool(wish.sa) != bool(wish.sb) or not (wish.b or wish.sa):
        raise ConfigError("name a second run, b, or two strategies, sa and sb")
    pair = (wish.sa, wish.sb) if wish.sa else None
    a, b = lines[0].folder, lines[-1].folder
    result = _there(lines[0], comparing.wanted(a, b, pair, common=wish.common, margin=wish.margin))
    if result is None:
        return coming()
    flips = comparing.flips(result, wish.page, kind=wish.kind, item=wish.item, strategy=wish.strategy)
    told = {**result.facts, "tables": comparing.tables(result), "flips": FlipsTold.model_validate(flips)}
    return CompareTold.model_validate(told)


def _there(line: Line, result: Result | None) -> Result | None:
    """The result, None while it is computed. Raises ConfigError with the reason where there is none."""
    _asked(line)
    if result is not None and result.error:
        raise ConfigError(result.error)
    return result


def _asked(line: Line) -> bool:
    """Raises ConfigError where the run has nothing to show yet."""
    if line.broken:
        raise ConfigError(line.broken)
    if not line.kind:
        raise ConfigError(f"{line.name}: nothing was asked yet; wait until it has begun")
    return True


def _factors(where: list[str]) -> tuple[tuple[str, str], ...]:
    """Conditions NAME=VALUE as pairs. Raises ConfigError for one of another form."""
    pairs = [tuple(one.split("=", 1)) for one in where]
    if any(len(pair) != 2 for pair in pairs):
        raise ConfigError("where: expected conditions such as order=1")
    return tuple((pair[0], pair[1]) for pair in pairs)
