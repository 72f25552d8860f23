"""Hi-ToM (arXiv 2310.16755) as a benchmark, and `tomserve generate hitom` with the tables of balance that it prints.

    tomserve items hitom --where order=3 --where deception=false
    tomserve items hitom --path Hi-ToM_data.json

Without `--path`: 120 stories of our own x orders 0 to 4 (3 lengths x with and without lies x 20, as in the paper),
generated from seed 0 when they are asked for (generator.py), with gold chains; BUILT_IN is the plan. With it: a file
that `tomserve generate hitom` wrote, or the official one; which of them, its content tells.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import orjson
import polars as pl
import typer

from tomserve import content
from tomserve.benchmarks.base import Benchmark, Findings, Say, read_own
from tomserve.benchmarks.hitom import baselines, generator
from tomserve.benchmarks.hitom.baselines import RULES
from tomserve.benchmarks.hitom.generator import Rows, items
from tomserve.benchmarks.hitom.items import CORRECTED, Record, TrackedBeliefs, make_row, read_records, story_factors
from tomserve.benchmarks.hitom.plan import TRAITS, Plan, levels
from tomserve.benchmarks.hitom.tracker import SEMANTICS, trace
from tomserve.benchmarks.hitom.variants import make_retell
from tomserve.content import files, output_path
from tomserve.content.output_path import parse_file
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.items import Factor, Item, write_chunks
from tomserve.items.draw import Draw

_QUESTION = (
    *("order", "equals_first_order", "equals_reality", "equals_joint_witness", "answer_place", "answer_position"),
    *("tell_relevant", "order_sensitive"),
)
_STORY = ("length", "deception", "n_lines", "n_agents", "n_containers_mentioned", "n_tells", "n_distractors")


class Tally:
    """Counts of questions and stories by the factors that have to be balanced."""

    def __init__(self) -> None:
        self._questions: Counter[tuple[Factor, ...]] = Counter()
        self._stories: Counter[tuple[Factor, ...]] = Counter()

    def add(self, asked: Iterable[tuple[tuple[str, ...], Mapping[str, Factor]]]) -> None:
        """Count questions, each given by the sentences of its story and its factors, and each story once."""
        stories: dict[tuple[str, ...], list[Mapping[str, Factor]]] = {}
        for story, factors in asked:
            stories.setdefault(story, []).append(factors)
        for listed in stories.values():
            self._stories[tuple([listed[0][name] for name in _STORY])] += 1
            self._questions.update([tuple([factors[name] for name in _QUESTION]) for factors in listed])

    def orders(self, name: str) -> pl.DataFrame:
        """One row for each order: the number of items, and the share of them whose answer is of each kind.

        The column `letters` holds how often the rarest and the commonest place among the choices is right.

        `name` stands in the column `set`. place_1 to place_3: the answer is the first, second or a later container in
        which the object is seen or said to be.
        """
        frame = _frame(self._questions, _QUESTION)
        letters = frame.group_by("order", "answer_position").agg(pl.col("count").sum())
        spread = letters.group_by("order").agg(letters=pl.format("{}-{}", pl.col("count").min(), pl.col("count").max()))
        return (
            frame.group_by("order")
            .agg(
                pl.lit(name).alias("set"),
                pl.col("count").sum().alias("items"),
                _share(pl.col("equals_first_order")).alias("first_order"),
                _share(pl.col("equals_reality")).alias("reality"),
                _share(pl.col("equals_joint_witness")).alias("joint_witness"),
                *(_share(pl.col("answer_place") == place).alias(f"place_{place}") for place in (1, 2)),
                _share(pl.col("answer_place") > 2).alias("place_3+"),
                _share(pl.col("tell_relevant")).alias("tell_relevant"),
                _share(pl.col("order_sensitive")).alias("order_sensitive"),
            )
            .join(spread, on="order")
            .select("set", "order", pl.exclude("set", "order"))
            .sort("order")
        )

    def stories(self, name: str) -> pl.DataFrame:
        """One row for each number of chapters, with and without deception: the number of stories, and their means."""
        means = {"lines": "n_lines", "agents": "n_agents", "containers": "n_containers_mentioned", "tells": "n_tells"}
        means["distractors"] = "n_distractors"
        weight = pl.col("count")
        return (
            _frame(self._stories, _STORY)
            .group_by("length", "deception")
            .agg(
                pl.lit(name).alias("set"),
                weight.sum().alias("stories"),
                *((pl.col(source) * weight).sum().truediv(weight.sum()).alias(to) for to, source in means.items()),
            )
            .rename({"length": "chapters"})
            .select("set", "chapters", "deception", pl.exclude("set", "chapters", "deception"))
            .sort("chapters", "deception")
        )


def _frame(counts: Counter[tuple[Factor, ...]], names: tuple[str, ...]) -> pl.DataFrame:
    rows = [(*key, count) for key, count in counts.items()]
    return pl.DataFrame(rows, schema=[*names, "count"], orient="row", infer_schema_length=None)


def _share(condition: pl.Expr) -> pl.Expr:
    return condition.fill_null(value=False).cast(pl.Int64).dot("count").truediv(pl.col("count").sum())


NOTES = {
    "answers": (
        "share of items whose answer is also that of the rule (innermost agent's belief, reality, what all asked "
        "agents saw together last), is the first, second or a later container of the object, hangs on a tell, would be "
        "another for another order of the asked agents; letters: how often the rarest and the commonest place is right"
    ),
    "stories": "means a story; containers are the choices that it mentions",
}


def make_balance_tables(tally: Tally, official: Path | None = None) -> dict[str, pl.DataFrame]:
    """Two titled tables, by order and by chapters; with the official file's rows below where `official` is given."""

    sets = {"generated": tally}
    if official is not None:
        sets["official"] = Tally()
        sets["official"].add((item.story, item.factors) for item in load(official))
    return {
        "answers by order": pl.concat([found.orders(name) for name, found in sets.items()]),
        "stories by chapters": pl.concat([found.stories(name) for name, found in sets.items()]),
    }


FORMATS = ("items", "hitom")


def generate(
    out: Annotated[Path, typer.Option(parser=parse_file, help="JSONL or JSON file to write.")],
    stories: Annotated[
        int, typer.Option(help="How many stories to write; with --twins each of the four versions counts.")
    ] = 120,
    seed: Annotated[
        int, typer.Option(help="Seed of the random draws. The same seed and options give the same bytes everywhere.")
    ] = 0,
    chapters: Annotated[
        str, typer.Option(help="Chapters of a story, as 2 or 1,3 or 1-3; several values are taken in turn.")
    ] = "1-3",
    agents: Annotated[
        str, typer.Option(help="Persons of a story, from 3 to 8; several values are taken in turn.")
    ] = "5",
    orders: Annotated[
        str, typer.Option(help="Orders of belief to ask about, from 0 to 6; every story is asked all of them.")
    ] = "0-4",
    tells: Annotated[
        str | None,
        typer.Option(help="Tells of a story, taken in turn. If left out: 0,2 (2 with --twins or --order-sensitive)."),
    ] = None,
    tell_kind: Annotated[str, typer.Option(help="Who hears what is told: public, private or both.")] = "both",
    truth: Annotated[
        str, typer.Option(help="Whether what is told is true: deceptive, truthful or mixed.")
    ] = "deceptive",
    moves: Annotated[
        str, typer.Option(help="Moves of the object in a chapter; one of these values is drawn for each.")
    ] = "1-5",
    distractors: Annotated[
        str, typer.Option(help="Distracting lines of a story; one of these values is drawn for each.")
    ] = "0-3",
    lines: Annotated[
        int | None, typer.Option(help="Give every story this many lines, by adding distracting lines.")
    ] = None,
    choices: Annotated[
        str, typer.Option(help="Containers to choose from: a number, or mentioned (those of the story).")
    ] = "15",
    balance: Annotated[
        list[str] | None,
        typer.Option(
            help="Trait to balance: position, first-order, tell, letter; repeat it. Or none. If left out: all."
        ),
    ] = None,
    order_sensitive: Annotated[
        bool,
        typer.Option(
            "--order-sensitive", help="At least half of the answers change when the persons asked about change places."
        ),
    ] = False,
    twins: Annotated[
        bool,
        typer.Option(
            "--twins", help="Tell each story four times: without tells, with true ones, with lies, with neutral lines."
        ),
    ] = False,
    semantics: Annotated[
        str | None,
        typer.Option(
            help="Rules by which beliefs follow: released or common_knowledge. If left out: as the options need."
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Form of the file: items (JSONL), or hitom (JSON like the official file).")
    ] = "items",
    report: Annotated[
        Path | None, typer.Option(parser=parse_file, help="Markdown file to write the achieved balance to as well.")
    ] = None,
) -> Findings:
    """Generate Hi-ToM stories with their questions and right beliefs.

    Every story is asked one question of each order. How well the answers are balanced is printed at the end.
    """
    if form not in FORMATS:
        raise ConfigError(one_of("--format", form, FORMATS))
    if semantics is not None and semantics not in SEMANTICS:
        raise ConfigError(one_of("--semantics", semantics, SEMANTICS))
    offered, *more = (None,) if choices == "mentioned" else levels(choices, "--choices")
    if more:
        reason = f"every story has the same number; give one, such as {offered}"
        raise ConfigError(f"--choices {choices!r}: {reason}")
    plan = Plan(
        stories=stories,
        seed=seed,
        chapters=levels(chapters, "--chapters"),
        agents=levels(agents, "--agents"),
        orders=levels(orders, "--orders"),
        tells=levels(tells or ("2" if twins or order_sensitive else "0,2"), "--tells"),
        tell_kind=tell_kind,
        truth=truth,
        moves=levels(moves, "--moves"),
        distractors=levels(distractors, "--distractors"),
        lines=lines,
        choices=offered,
        balance=TRAITS if balance is None else () if balance == ["none"] else tuple(dict.fromkeys(balance)),
        order_sensitive=order_sensitive,
        twins=twins,
        semantics=next((name for name in SEMANTICS if name == semantics), None),
    ).check()
    if form == "hitom" and (twins or plan.gold != SEMANTICS[0]):
        what = "--twins" if twins else f"{plan.gold} semantics"
        raise ConfigError(f"--format hitom: the official form has no field for {what}; leave --format out")
    if report is not None and report.resolve() == out.resolve():
        raise ConfigError(f"--report {report} would overwrite the items of --out; choose another file")
    for one in (out, report):
        if one is not None:
            output_path.check_output(one)
    tally = _write(plan, form, out)
    made = f"written: {stories} stories, {stories * len(plan.orders)} items ({plan.gold} semantics) to {out}"
    tables = make_balance_tables(tally, content.data_file("Hi-ToM_data.json"))
    return Findings(tables=tables, notes=NOTES, lines=(made,), markdown=report)


def _write(plan: Plan, form: str, out: Path) -> Tally:
    """Write the stories of a plan to a file as they are made; returns the counts of what came of it."""
    tally = Tally()

    def counted() -> Iterator[Rows]:
        for rows in generator.generate(plan):
            tally.add((row["story"], row["factors"]) for row in rows)
            yield rows

    lines = (line + b"\n" for rows in counted() for line in generator.item_lines(rows))
    pieces = generator.official_file(counted()) if form == "hitom" else lines
    write_chunks(out, pieces, output_path.open_output)
    return tally


GOLDS = ("corrected", "tracked", "released")
"""The official file holds every question twice, in a CoTP and a VP half whose labels differ in places, so the answer
has to be chosen by name (`--gold`):

    corrected   (default) one item a distinct question, with the label of the CoTP half, which the authors corrected.
                Where that label is not the tracker's (17 of 600, all in stories that enter a room again; see `dataset
                audit hitom`) the factor `label_agrees` is false and the item has no gold chain.
    tracked     one item a distinct question, with the tracker's answer under the `released` semantics.
    released    one item a record, with the file's own label, stale ones too; factor `prompting_type` tells the half.

The factor `gold` names the choice, so that every table can say what its answers were compared with.
"""

BUILT_IN = Plan(stories=120, seed=0)


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The built-in items, those of a generated file, or those of the official one with answers as `gold` says (one of
    GOLDS, None for the first). Raises ContentError for what cannot be read, ConfigError for another gold than the
    default where there is one only."""
    gold = gold or GOLDS[0]
    if path is not None and not _is_items(path):
        records = read_records(path)
        for record in records if gold == "released" else _questions(records, path, gold):
            yield _item(record, gold)
        return
    if gold != GOLDS[0]:
        raise ConfigError(f"--gold {gold!r}: only the official file has several sets of answers; leave --gold out")
    yield from items(BUILT_IN) if path is None else read_own(path, "hitom")


def _is_items(path: Path) -> bool:
    """Whether a file is JSONL of items; the official one is a single object with the field "data"."""
    try:
        with files.open_own(path) as file:
            line = next((line for line in file if line.strip()), b"")
        first = orjson.loads(line)
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(first, dict) and "data" not in first and ("id" in first or "story" in first)


def _questions(records: Sequence[Record], path: Path, gold: str) -> list[Record]:
    """One record for each distinct question, that of the corrected half if there is one, in the order of the file."""
    found: dict[str, Record] = {}
    for record in records:
        if record.key not in found or record.half == CORRECTED:
            found[record.key] = record
    for record in found.values():
        if gold == "corrected" and record.half != CORRECTED:
            reason = (
                f"no {CORRECTED} record asks this, and labels of the {record.half} half may be stale; "
                "use --gold tracked, or --gold released for the file's own"
            )
            raise ContentError(reason, path=path, field=f"{record.field}.prompting_type")
    return list(found.values())


def _item(record: Record, gold: str) -> Item:
    factors: dict[str, Factor] = {
        "length": record.length,
        "deception": record.deception,
        "object": record.object,
        "gold": gold,
    }
    if gold == "released":
        factors["prompting_type"] = record.half
    story, ends = record.story, TrackedBeliefs(trace(record.story, record.object))
    answer = None if gold == "tracked" else record.answer
    factors |= story_factors(story, record.choices)
    told = f"hitom/{record.story_id}"
    row = make_row(told, story.sentences(), ends, record.asked, record.choices, factors, answer=answer)
    return Item.model_validate({**row, "id": f"{row['id']}/{record.half}"} if gold == "released" else row)


def audit(path: Path | None, say: Say) -> Findings:
    """Compare every label of the official file with the tracker (see tomserve.benchmarks.hitom.audit). Raises
    ConfigError where no file is given."""
    from tomserve.benchmarks.hitom.audit import Audit, audit_findings  # asking needs none of it

    del say
    if path is None:
        raise ConfigError("the audit of 'hitom' needs the official file: --path Hi-ToM_data.json")
    return audit_findings(Audit(read_records(path)))


BENCHMARK = Benchmark(
    "hitom",
    load,
    papers=(
        "Hi-ToM: A Benchmark for Evaluating Higher-Order Theory of Mind Reasoning in Large "
        "Language Models (arXiv:2310.16755)",
    ),
    study="hitom",
    reasoned=("order=1,2,3,4",),
    strategies=("hitom_vanilla", "hitom_cot"),
    draw=Draw(over=("length", "deception"), unit=("story", "stories")),
    golds=GOLDS,
    lettered=True,
    metrics=(baselines.PLACES,),
    rules=RULES,
    beliefs=baselines.who_knows_what,
    audit=audit,
    generate=generate,
    retelling=make_retell,
)
