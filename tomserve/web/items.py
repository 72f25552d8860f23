"""Items to look at: an index of those of a benchmark, file or run, belief timelines, variants, and the prompts that
would be sent, byte for byte as an evaluation sends them."""

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
import polars as pl
from pydantic import Field

from tomserve import benchmarks
from tomserve.benchmarks import ANYBODYS
from tomserve.benchmarks.items import tables_of
from tomserve.content import files
from tomserve.content.paths import names, roots
from tomserve.content.validation import Strict
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError, TomserveError, one_of
from tomserve.items import EVERY, Item, read_items
from tomserve.items.item import factor_text, gold_layers
from tomserve.prompting import strategy as known
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.planning import EvalOptions, load_strategies, thinking_budget
from tomserve.scoring.table import MEASURED
from tomserve.serving.presets import Preset
from tomserve.variants import AGAIN, KINDS, Dropped, make_variants
from tomserve.web import background
from tomserve.web.accounts import Person
from tomserve.web.background import Computation
from tomserve.web.run_index import RunIndex

TABLE = "items.parquet"
FACTOR = "factor:"  # how the columns of factors begin
MOST = 5_000_000  # how many items are indexed at most


def index_computation(benchmark: str, gold: str, file: Path | None) -> Computation:
    """What makes the index of a benchmark's items, or of those in a file. benchmark: its name, "" where only the file
    is read, which then holds items of any. The content of the files decides that items may come from."""
    options = {"benchmark": benchmark, "gold": gold, "file": str(file or "")}
    return Computation("items", (), options, sources=tuple(_sources(benchmark, file)))


def _sources(benchmark: str, file: Path | None) -> Iterator[Path]:
    if file is not None:
        yield from (file, *(tables_of(file) if benchmark == ANYBODYS else ()))
        yield from sorted(file.rglob("*"))[:10_000] if file.is_dir() else ()
    if benchmark:
        for root in roots():
            yield from sorted((root / "dataset").rglob("*"))


def items(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the index of items. options: benchmark, gold, file. Raises ConfigError where the items cannot be read."""
    del runs
    benchmark, gold, file = options["benchmark"], options["gold"], options["file"]
    source: Iterable[Item]
    if benchmark:
        source = benchmarks.get(benchmark).items(Path(file) if file else None, gold or None, benchmarks.ALL)
    else:
        files.check_regular(Path(file))  # it lies in a run, which may come from anybody
        source = read_items(Path(file))
    rows: list[tuple[Any, ...]] = []
    factors: dict[str, dict[int, str]] = {}
    for number, item in enumerate(source):
        if number >= MOST:
            raise ConfigError(f"there are more than {MOST:,} items; give a file of fewer")
        rows.append((item.id, item.question, " ".join(item.story), item.to_json().decode()))
        for name, factor in item.factors.items():
            factors.setdefault(name, {})[number] = factor_text(factor)
    made = pl.DataFrame(rows, orient="row", schema=dict.fromkeys(("id", "question", "story", "line"), pl.String))
    made.with_row_index("place").with_columns(
        pl.Series(f"{FACTOR}{name}", [values.get(place) for place in range(len(rows))], dtype=pl.String)
        for name, values in factors.items()
    ).write_parquet(out / TABLE, compression="lz4", row_group_size=10_000)
    return {}


SIZE = 50  # how many items a page has
VALUES = 24  # a factor with more values is a name rather than a condition, and no list to choose from


@dataclass(frozen=True, slots=True)
class Source:
    """Where items come from."""

    benchmark: str = ""  # its name, "" for a run or a file alone
    gold: str = ""  # which set of right answers counts
    path: str = ""  # a file or folder below a content folder that the benchmark reads, such as dataset/mine.jsonl
    run: str = ""  # the name of a run whose own items are looked at


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which items are wanted."""

    where: tuple[str, ...] = ()  # conditions factor=value
    text: str = ""  # what id, story or question holds, whatever the size of letters
    page: int = 1  # from 1


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of items."""

    items: tuple[Item, ...]
    total: int
    matched: Annotated[int, Field(description="How many of them the conditions leave.")]
    page: int
    pages: int
    factors: Annotated[dict[str, tuple[str, ...]], Field(description="The values of factors that have few.")]
    names: Annotated[tuple[str, ...], Field(description="All factors.")]


@dataclass(frozen=True, slots=True)
class ItemPlace:
    """One item, its place among those that are wanted (from 1), how many these are, and the ids beside it."""

    item: Item
    place: int
    matched: int
    before: str | None
    after: str | None


def find_index(source: Source, register: RunIndex, person: Person) -> Path | None:
    """The index of the items of a source; None where it is being made. Raises ConfigError where there is no such
    source, or its items cannot be read; NoSuchRunError for a run that the person may not see."""
    if source.run:
        file = register.line(source.run, person).folder / "items.jsonl"
        computation = index_computation("", "", file.absolute())
    else:
        if source.benchmark not in benchmarks.names():
            raise ConfigError(one_of("benchmark", source.benchmark, benchmarks.names()))
        path = content_path(source.path) if source.path else None
        computation = index_computation(source.benchmark, source.gold, path)
    found = background.require(computation)
    return None if found is None else found.folder / TABLE


def content_path(text: str) -> Path:
    """The file or folder of data with that path below a content folder; no link leads out of it. Raises ConfigError for
    any other."""
    for root in roots() if "\0" not in text else ():
        folder = (root / "dataset").resolve()
        path = (root / text).resolve()
        if path.is_relative_to(folder) and path.exists():
            return path
    raise ConfigError(
        f"{text}: is no file below dataset/ of the content folders; put the file there, or ask it by "
        "`tomserve eval` and look at the items of that run"
    )


def _open_index(found: Path) -> tuple[pl.LazyFrame, tuple[str, ...]]:
    table = files.scan_parquet(found)
    columns = table.collect_schema().names()
    return table, tuple(name.removeprefix(FACTOR) for name in columns if name.startswith(FACTOR))


def list_items(found: Path, query: ItemQuery) -> Listing:
    """A page of the items in an index. Raises ConfigError for a condition of another form and for an unknown factor."""
    table, names = _open_index(found)
    total = int(table.select(pl.len()).collect().item())
    places = _places(table, query, names)
    pages = max(1, -(-len(places) // SIZE))
    page = min(max(1, query.page), pages)
    shown = places[SIZE * (page - 1) : SIZE * page]
    counted = table.select(pl.col(f"{FACTOR}{name}").drop_nulls().unique().implode() for name in names).collect()
    factors = {
        name: tuple(sorted(values, key=lambda value: (float(value), "") if value.isdecimal() else (math.inf, value)))
        for name in names
        if 1 < len(values := counted[f"{FACTOR}{name}"][0].to_list()) <= VALUES
    }
    return Listing(_items(table, shown), total, len(places), page, pages, factors, names)


def find_item(found: Path, name: str, query: ItemQuery | None = None) -> ItemPlace:
    """The item of that id, among those that are wanted where it is one of them. Raises ConfigError where there is none,
    and as `list_items` does."""
    table, names = _open_index(found)
    here = table.filter(pl.col("id") == name).select("place").collect()
    if here.is_empty():
        raise ConfigError(f"there is no item {name!r:.320} here")
    own = int(here["place"][0])
    places = _places(table, query or ItemQuery(), names)
    at = places.index(own) if own in places else None
    if at is None:
        return ItemPlace(_items(table, [own])[0], 0, len(places), None, None)
    around = [places[at - 1] if at else None, places[at + 1] if at + 1 < len(places) else None]
    ids = [
        None if place is None else str(table.filter(pl.col("place") == place).select("id").collect().item())
        for place in around
    ]
    return ItemPlace(_items(table, [own])[0], at + 1, len(places), *ids)


def _places(table: pl.LazyFrame, query: ItemQuery, names: Sequence[str]) -> list[int]:
    chosen = table
    for condition in query.where:
        if condition == EVERY or not condition.strip():
            continue
        name, equals, value = condition.partition("=")
        if not equals:
            raise ConfigError(f"{condition!r:.200}: expected factor=value, or {EVERY} for every item")
        if name not in names:
            raise ConfigError(one_of("factor", name, names))
        values = [value, *(() if ", " in value else value.split(","))]
        chosen = chosen.filter(pl.col(f"{FACTOR}{name}").is_in(values))
    if query.text:
        wanted = query.text.lower()
        held = [
            pl.col(name).str.to_lowercase().str.contains(wanted, literal=True) for name in ("id", "question", "story")
        ]
        chosen = chosen.filter(pl.any_horizontal(held))
    return [int(place) for place in chosen.select("place").collect()["place"]]


def _items(table: pl.LazyFrame, places: Sequence[int]) -> tuple[Item, ...]:
    lines = table.filter(pl.col("place").is_in(places)).select("line").collect()["line"]
    return tuple(Item.from_json(line) for line in lines)


RUNS = 30  # how many runs are looked at for the answers to one item, the newest first


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a story beside the gold chain and the chain of a reply."""

    number: int  # from 1
    text: str
    gold: Annotated[tuple[str, ...], Field(description="The labels that are right after it.")]
    stated: Annotated[str, Field(description="What the reply says is believed then.")]
    verdict: Annotated[str, Field(description="How that was judged.")]
    breaks: Annotated[bool, Field(description="Whether the chain breaks here.")]
    more: Annotated[tuple[str, ...], Field(description="What else the benchmark knows to be believed.")]


def stated_labels(score: Mapping[str, Any], labels: Sequence[str] | None) -> dict[int, str]:
    """What a reply says is believed, by the number of the sentence. labels: of its chain, in order."""
    numbers = score.get("chain_sentences") or range(1, len(labels or ()) + 1)
    return dict(zip(numbers, labels or (), strict=False))


def sentences(
    item: Item, score: Mapping[str, Any] | None = None, stated: Mapping[int, str] | None = None
) -> tuple[tuple[str, ...], tuple[Sentence, ...]]:
    """The headings of what the benchmark knows besides, and the sentences of an item.

    score: the row of the score table of a reply, None where nothing was asked. stated: what the reply says, by the
    number of the sentence; None for the chain of the score.
    """
    score = score or {}
    stated = stated_labels(score, score.get("chain")) if stated is None else stated
    golds = gold_layers(item.gold)
    verdicts = score.get("chain_verdicts") or ()
    benchmark = benchmarks.find(item.benchmark)
    beliefs = list(benchmark.beliefs(item)) if benchmark is not None else []
    found = tuple(
        Sentence(
            number,
            text,
            golds[number - 1] if number <= len(golds) else (),
            str(stated.get(number, "")),
            str(verdicts[number - 1] or "") if number <= len(verdicts) else "",
            score.get("chain_break") == number,
            tuple(str(labels[number - 1]) if number <= len(labels) else "" for _, labels in beliefs),
        )
        for number, text in enumerate(item.story, 1)
    )
    return tuple(heading for heading, _ in beliefs), found


class RunAnswer(NamedTuple):
    """How a run answered an item, by one strategy."""

    run: str
    model: str
    strategy: str
    status: str
    answer: str
    correct: bool | None


def run_answers(item: Item, register: RunIndex, person: Person) -> tuple[list[RunAnswer], int]:
    """How the runs that a person may see have answered an item, and how many runs were not looked at, because they are
    older than the RUNS newest ones of the benchmark, are being asked, or were not scored yet, which this begins. The
    table in a run's folder is not read, as it may come from anybody."""
    benchmarks_of_item = (item.benchmark, benchmarks.ANYBODYS)
    lines = [
        line
        for line in register.lines(person)
        if line.kind not in ("", MEASURED) and not line.broken and line.benchmark in benchmarks_of_item
    ]
    found: list[RunAnswer] = []
    left = max(0, len(lines) - RUNS)
    asked = [line for line in lines[:RUNS] if not line.running]
    left += len(lines[:RUNS]) - len(asked)
    made = background.find_all([Computation("scores", (line.folder,), {"form": "parquet"}) for line in asked])
    for line, result in zip(asked, made, strict=True):
        if result is None or result.error:
            left += 1
            continue
        try:
            rows = (
                files.scan_parquet(result.folder / result.facts["file"])
                .filter(pl.col("item") == item.id)
                .select("strategy", "status", "answer", "correct")
                .collect()
            )
        except (OSError, pl.exceptions.PolarsError):
            left += 1
            continue
        for strategy, status, said, correct in rows.iter_rows():
            found.append(RunAnswer(line.name, line.model, str(strategy), str(status), str(said or ""), correct))
    return found, left


class Variant(NamedTuple):
    """A variant that can be made of an item, or why not."""

    kind: str  # its name
    changes: str  # what it changes
    item: Item | None  # None where it cannot be made
    reason: str = ""  # why it cannot be made


def varieties(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The variants of an item. runs: none. options: index, item."""
    del out, runs
    made = variants(find_item(Path(options["index"]), options["item"]).item)
    return {
        "variants": [
            [one.kind, one.changes, None if one.item is None else one.item.to_json().decode(), one.reason]
            for one in made
        ]
    }


def find_variants(index: Path, name: str) -> tuple[Variant, ...] | None:
    """The variants of an item; None while they are made. index: of items, whose folder is named by what it holds.
    Raises ConfigError where they cannot be made."""
    result = background.require(Computation("varieties", (), {"index": str(index), "item": name}))
    if result is None:
        return None
    return tuple(
        Variant(kind, changes, None if line is None else Item.from_json(line), reason)
        for kind, changes, line, reason in result.facts["variants"]
    )


def variants(item: Item) -> tuple[Variant, ...]:
    """The variants of an item; none of one that is a variant itself."""
    if item.base is not None:
        return ()
    benchmark = benchmarks.find(item.benchmark) or benchmarks.get(benchmarks.ANYBODYS)
    made, teller = [], functools.cache(benchmarks.retelling(benchmark))  # which may read all of its records
    for kind in KINDS:
        if kind is AGAIN:
            continue
        try:
            found = next(iter(make_variants([item], [kind], teller)), None)
        except TomserveError as error:
            found = Dropped(item.id, kind, str(error))
        if isinstance(found, Dropped):
            made.append(Variant(kind.name, kind.changes, None, found.reason))
        elif found is not None:
            made.append(Variant(kind.name, kind.changes, found))
    return tuple(made)


MODEL = "MODEL"  # what stands for the name of the model where neither a preset nor a name is given


Word = Annotated[str, Field(max_length=200)]


class How(Strict, defer_build=False):  # or pydantic warns at the first request, where FastAPI no longer silences it
    """How an item is asked, by the options of `tomserve eval`."""

    strategy: Annotated[Word, Field(description="The benchmark's first where it is left out.")] = ""
    preset: Annotated[Word, Field(description="A preset of a model, by its name.")] = ""
    model: Annotated[Word, Field(description="The name by which the server knows the model.")] = ""
    thinking: Annotated[Word, Field(description="on, off, or a number of tokens.")] = ""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    max_tokens: Annotated[int, Field(ge=0, description="The strategy's own number where it is left out.")] = 0


@dataclass(frozen=True, slots=True)
class PreviewedRequest:
    """One request."""

    messages: tuple[dict[str, str], ...]  # each with role and content
    schema: str  # what the reply has to look like, as JSON with indents, "" for free text
    fields: dict[str, object]  # the further fields of the body, in their order
    body: bytes  # all of it as it is sent

    @property
    def readable(self) -> str:
        """The body with line breaks and indents."""
        return orjson.dumps(orjson.loads(self.body), option=orjson.OPT_INDENT_2).decode()


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be sent."""

    strategy: Strategy  # by which it is asked
    sent: tuple[PreviewedRequest, ...]
    """The first requests, of which there are several where the strategy asks them side by side."""
    more: bool  # whether others follow that are made from the replies
    digest: str  # of the strategy's prompts, as the manifest of a run notes it


def strategies() -> tuple[str, ...]:
    """The names of all strategies of the content."""
    return tuple(known.list_strategies())


def presets() -> tuple[str, ...]:
    """The names of all presets of the content."""
    return tuple(names("launch/models", ".yaml"))


def preview(item: Item, how: How) -> Preview:
    """What would be sent about an item. Raises ConfigError for a strategy or preset that is not among the content, for
    what does not fit together, and ContentError where a template cannot be rendered."""
    benchmark = benchmarks.find(item.benchmark) or benchmarks.get(ANYBODYS)
    name = how.strategy or benchmark.strategies[0]
    if name not in strategies():
        raise ConfigError(one_of("strategy", name, strategies()))
    if how.preset and how.preset not in presets():
        raise ConfigError(one_of("preset", how.preset, presets()))
    preset = Preset.load(how.preset) if how.preset else None
    model = how.model or (preset.name if preset is not None else MODEL)
    options = EvalOptions(strategies=(name,), max_tokens=how.max_tokens or None, thinking=how.thinking or None)
    thinking = thinking_budget(preset, model, options.thinking)
    (strategy,) = load_strategies(options, benchmark, preset, thinking)
    extra = preset.extra(options.thinking) if preset is not None else {}
    sampling = Sampling(float(how.temperature), how.seed, extra)
    turns = strategy.conversation(item).open if strategy.is_multi_turn else [strategy.turn(item)]
    sent = tuple(_sent(item, strategy, turn, model, sampling) for turn in turns)
    return Preview(strategy, sent, strategy.turns is None or strategy.turns > len(sent), strategy.digest)


def _sent(item: Item, strategy: Strategy, turn: Turn, model: str, sampling: Sampling) -> PreviewedRequest:
    identity = Identity(item.id, strategy.name, turn.number)
    request = Request.build(identity, turn, model=model, revision=None, sampling=sampling)
    fields = orjson.loads(request.body)
    fields.pop("messages")
    schema = fields.pop("response_format", None)
    told = "" if schema is None else orjson.dumps(schema["json_schema"]["schema"], option=orjson.OPT_INDENT_2).decode()
    return PreviewedRequest(tuple(turn.messages), told, fields, request.body)
