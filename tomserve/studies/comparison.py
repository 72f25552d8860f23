"""Comparison of two runs or strategies on the same questions, as `tomserve compare` makes it: paired effects, flips,
and what else differs. A positive difference means that B is right more often. Items made of others, such as a fresh
edition's, are compared with these."""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import polars as pl

from tomserve.errors import ConfigError, one_of
from tomserve.runs.manifest import Manifest
from tomserve.runs.measurement import refuse_measured
from tomserve.runs.runfolder import find_run, read_manifest
from tomserve.runs.scores import load_scored_run, load_scores
from tomserve.scoring.table import TABLES, Note
from tomserve.studies import comparison_tables, missing_data, people
from tomserve.studies.analysis import check_scores
from tomserve.studies.answer_rows import (
    KIND,
    REQUIRED,
    name_apart,
    name_benchmarks,
    originals,
    prepare_rows,
    split_scores,
)
from tomserve.studies.comparability import AnswerConditions, Conditions, answer_conditions, describe_difference
from tomserve.studies.contrasts import NEW_TASKS, Record, adjust_family, contrast, pair_rows
from tomserve.studies.noise import noise_columns, noise_line
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import Excerpt, cell_of, interval_cell, points, populations, readable_name, sign
from tomserve.studies.study import ANSWER_COLUMNS, default_study, load_study, measured_studies

# Manifest fields that differ between any two runs and explain nothing.
SKIPPED = frozenset(
    ("run", "sessions", "created", "endpoints", "complete", "limit", "content", "benchmark_path", "noise")
)

ABSENT = "not recorded"  # What stands for a field that a manifest lacks
WIDTH = 40  # How many characters of a long value are shown
# How many words a value may have whose words are compared one by one, which takes time by the cube of their number.
MOST_WORDS = 120
# Names of manifest fields as patterns, and what they are called in words; any other name stands for itself.
_NAMED = (
    (r"strategies\.([^.]+)", r"strategy \1"),
    (r"strategies\.(.+)\.digest", r"digest of the prompts of strategy \1"),
    (r"strategies\.(.+)\.(\w+)", r"\2 of strategy \1"),
    (r"benchmark_digest", "digest of the benchmark's questions"),
    (r"benchmark_items", "number of the benchmark's questions"),
    (r"server\.command", "command that started the server"),
    (r"server\.template\.digest", "digest of the server's chat template"),
    (r"server\.environment\.(\w+)", r"environment variable \1 of the server"),
    (r"server\.(.+)", r"\1 of the server"),
    (r"sampling\.(.+)", r"\1 of sampling"),
    (r"foreign\.tool", "tool that asked"),
    (r"foreign\.version", "version of the tool that asked"),
    (r"foreign\.counts", "whose reading of the replies counts"),
    (r"foreign\.settings\.(.+)", r"\1, as the tool recorded it"),
    (r"foreign\.(.+)", r"\1 of the imported replies"),
    (r"tomserve", "version of tomserve"),
)

_DIGEST = re.compile(r"(sha256:)?[0-9a-f]{40,128}")


class Difference(NamedTuple):
    """A field of the manifests that differs: its name (nested names joined by dots), and its values as text."""

    name: str
    a: str
    b: str

    @property
    def field(self) -> str:
        """The field in words."""
        for pattern, words in _NAMED:
            if found := re.fullmatch(pattern, self.name):
                return found.expand(words)
        return self.name


def manifest_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """The fields in which two manifests differ, without SKIPPED; what is less deeply nested comes first."""
    strategies = [{*one} if isinstance(one := side.get("strategies"), Mapping) else set() for side in (a, b)]
    alone = {f"strategies.{name}" for name in strategies[0] ^ strategies[1]}
    first, second = dict(_flat(a, alone)), dict(_flat(b, alone))
    names = sorted({*first, *second}, key=lambda name: (name.count("."), name))
    found = [Difference(name, first.get(name, ABSENT), second.get(name, ABSENT)) for name in names]
    return [one for one in found if one.a != one.b]


def _flat(value: Mapping[str, Any], alone: Collection[str], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested fields with their values as text, under names joined by dots. alone: names of which only that they are
    there is said."""
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if name in SKIPPED:
            continue
        if name in alone:
            yield name, "asked"
        elif isinstance(inner, Mapping) and inner:
            yield from _flat(inner, alone, f"{name}.")
        else:
            yield name, _text(inner)


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def shorten_pair(a: str, b: str, width: int = WIDTH) -> tuple[str, str]:
    """Two different texts, cut to `width` around what differs: of texts of several words those that differ, each group
    with the flag before it; of long words the part from the first differing character on."""
    if _DIGEST.fullmatch(a) and _DIGEST.fullmatch(b):
        return _from(a, 0, 20), _from(b, _first_difference(a, b) if a[:19] == b[:19] else 0, 20)
    if max(len(a), len(b)) <= width:
        return a, b
    words = a.split(), b.split()
    if min(map(len, words)) > 1 and max(map(len, words)) <= MOST_WORDS:
        a, b = _differing_words(*words)
    at = _first_difference(a, b)
    return _from(a, at, width), _from(b, at, width)


def _first_difference(a: str, b: str) -> int:
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _differing_words(a: list[str], b: list[str]) -> tuple[str, str]:
    """The words that only one of two texts has, each group after the flag before it."""
    shown: tuple[list[str], list[str]] = ([], [])
    for kind, *ends in difflib.SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for words, whole, start, stop in zip(shown, (a, b), ends[::2], ends[1::2], strict=True):
            flag = whole[start - 1 : start] if start and whole[start - 1].startswith("-") else []
            words += [*(["…"] if start > len(flag) else []), *flag, *(whole[start:stop] or ["(nothing)"])]
    return " ".join(shown[0]), " ".join(shown[1])


def _from(text: str, at: int, width: int) -> str:
    """At most `width` characters of a text, among them the one at place `at`, with some of what stands before it."""
    start = max(0, at - width // 3) if at >= width - 1 else 0
    cut = ("…" if start else "") + text[start:]
    return cut if len(cut) <= width else cut[: width - 1] + "…"


BASE = "base"  # The factor that names the item that an item was made from
FRESH = "fresh"  # The factor of items whose story was told anew: the seed of that edition


def match_questions(tables: Sequence[pl.DataFrame], sources: Sequence[str]) -> tuple[list[pl.DataFrame], str | None]:
    """The score tables of A and B with items that pair, and a caption that says how; None where they pair by their ids.
    Where the two share no item and items name a `base`, that takes the place of the item. Raises ConfigError for
    several items of one base."""
    made = [_names(table, BASE) for table in tables]
    shared = set(tables[0]["item"].unique()) & set(tables[1]["item"].unique())
    if shared or not any(made):
        return list(tables), None
    three = zip(tables, sources, made, strict=True)
    paired = [_rename_items(table, source) if fresh else table for table, source, fresh in three]
    anew = all(_names(table, FRESH) for table, fresh in zip(tables, made, strict=True) if fresh)
    return paired, _caption(made, anew)


def _names(table: pl.DataFrame, factor: str) -> bool:
    return factor in table.columns and table[factor].null_count() < table.height


def _rename_items(table: pl.DataFrame, source: str) -> pl.DataFrame:
    """The table with each item called by its base."""
    base = pl.coalesce(pl.col(BASE).cast(pl.String), "item")
    several = table.select(base=base, item="item").group_by("base").agg(pl.col("item").unique().sort()).sort("base")
    for name, made in several.filter(pl.col("item").list.len() > 1).iter_rows():
        raise ConfigError(
            f"{source}: the items {made[0]!r} and {made[1]!r} are both made from {name!r}, so that it is not clear "
            "which to compare; give each edition as a run or table of its own"
        )
    return table.with_columns(item=base)


def _caption(made: Sequence[bool], anew: bool) -> str:
    """How the questions pair and, where they were told anew, what a gap means. made: whether those of A and of B were
    made from others."""
    if not anew:
        return "The questions of A and of B were made from the same items, or from one another, and pair by these."
    if all(made):
        return (
            "A and B tell the same questions in two ways, and each question of B is compared with the one of A that "
            "was made from the same item. A difference shows what other names and words do by themselves."
        )
    fresh, released = ("B", "A") if made[1] else ("A", "B")
    said = f"{fresh} tells {released}'s questions anew: each is compared with the one that it was made from."
    return f"{said} {PHRASES['told_anew']}"


CLASS = "perturbation"  # The factor whose values are the classes of questions
# Why a measured run cannot be compared, and what to do instead.
_NOT_COMPARED = (
    "cannot be compared question by question",
    "`tomserve analyze RUN RUN` sets measured runs side by side",
)


class Side(NamedTuple):
    """One side of a comparison: its source (a run or a score table) and its strategy; None for all that both have."""

    source: str
    strategy: str | None = None

    def __str__(self) -> str:
        return self.source if self.strategy is None else f"{self.source} by {self.strategy}"


@dataclass(frozen=True)
class Comparison:
    """What two runs, or two strategies, differ in."""

    effects: pl.DataFrame  # A row for each strategy and class of questions, all questions last
    flips: pl.DataFrame  # Items that one side has right and the other wrong
    differences: list[tuple[str, str, str]]  # Fields of the manifests that differ: name, in A, in B
    left_out: tuple[int, int]  # How many answers of A and of B the other lacks
    noise: str | None  # The noise floor in words; None where neither side measured it
    a: Side
    b: Side
    lacking: tuple[str, ...]  # Sentences on answers that could not be read, failed or were not asked for
    caption: str | None = None  # Where one side tells the questions of the other anew, what a gap between them means
    # Where a side are people, the same differences with every person's answer counted (tomserve.studies.people).
    people: pl.DataFrame = field(default_factory=pl.DataFrame)
    changes: pl.DataFrame = field(default_factory=pl.DataFrame)  # Flips and changed answers as shares
    margins: pl.DataFrame = field(default_factory=pl.DataFrame)  # Tests against a margin, where one was named
    values: pl.DataFrame = field(default_factory=pl.DataFrame)  # Grades that are more than right or wrong
    # By name a table of differences for each factor that was asked for.
    by: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def compare(
    first: str,
    second: str | None = None,
    *,
    strategies: tuple[str, str] | None = None,
    common: bool = False,
    margin: float | None = None,
    by: Sequence[str] = (),
    note: Note | None = None,
) -> Comparison:
    """Compare two runs, two strategies, or both, on the questions that both were asked.

    first, second: names or paths of runs, or files of score tables; without a second, two strategies of the first.
    strategies: that of the first and that of the second; else those that both have, or the only one of each. common:
    leave out what only one was asked, rather than refuse. margin: the largest difference that does not matter, a share.
    by: factors such as "kind" or "kind,order". note: told which lines could not be read. Raises ConfigError for
    different questions unless `common`, unclear strategies, and unknown factors."""
    comparison_tables.check_margin(margin)
    for source in dict.fromkeys((first, second or first)):
        if not source.endswith(TABLES):
            refuse_measured(find_run(source), *_NOT_COMPARED)
    scores = [load_scores(first, note=note)]
    scores.append(scores[0] if second in (None, first) else load_scores(second, note=note))
    sources = (first, first if second is None else second)
    for source, table in zip(sources, scores, strict=True):
        if measured_studies(table):
            raise ConfigError(f"{source}: holds a measurement and no answers, so that it {'; '.join(_NOT_COMPARED)}")
    a, b = sides = _sides(sources, scores, strategies, second is None)
    tables, caption = match_questions([originals(table) for table in scores], sources)
    factors, questions = comparison_tables.question_factors(tables, by)
    rows = [_rows(side, table) for side, table in zip(sides, tables, strict=True)]
    keys = ["item", "strategy"]
    left_out = _left_out(sides, rows, keys, common)
    pairs = pair_rows(rows[1], rows[0], keys)
    if pairs.is_empty():
        raise ConfigError(f"{a} and {b} have no question in common")
    classes = _classes(scores[0], pairs)
    effects = comparison_tables.records_frame(list(_effects(pairs, classes)))
    doubts = comparison_tables.factor_warnings(pairs, tables, questions, factors)
    if caption is None:  # or other questions are what is compared
        doubts = [*_unlike(sides, [table.join(pairs, on="item", how="semi") for table in tables]), *doubts]
    found, lacking = _differences(a, b), (*_lacking(sources, scores), *doubts)
    lines = {name: noise_line(table) for name, table in zip("AB", scores, strict=True)}
    noise = [f"{name}: {text.partition(': ')[2]}" for name, text in lines.items() if text]
    grades = comparison_tables.pair_grades(pairs, tables, (a.strategy, b.strategy))
    counted = people.compare_people(_of_side(a, tables[0]), _of_side(b, tables[1]), pairs, classes)
    return Comparison(
        effects,
        _flips(pairs, rows[0]),
        found,
        left_out,
        "; ".join(noise) or None,
        a,
        b,
        lacking,
        caption,
        counted,
        comparison_tables.answer_changes(pairs, rows[0]),
        pl.DataFrame() if margin is None else comparison_tables.margin_tests(pairs, margin, grades),
        pl.DataFrame([one.row() for one in grades], infer_schema_length=None).fill_nan(None),
        comparison_tables.effects_by(pairs, questions, factors) if factors else {},
    )


def _sides(
    sources: tuple[str, str], scores: Sequence[pl.DataFrame], strategies: tuple[str, str] | None, alone: bool
) -> tuple[Side, Side]:
    """The two sides. Raises ConfigError for an unknown strategy, and where it is not clear what to compare."""
    for table in scores:
        check_scores(table, REQUIRED, {})
    known = [sorted(table["strategy"].unique()) for table in scores]
    if strategies is not None:
        for source, names, wanted in zip(sources, known, strategies, strict=True):
            if wanted not in names:
                raise ConfigError(f"--strategies: {source}: {one_of('strategy', wanted, names)}")
        if sources[0] == sources[1] and strategies[0] == strategies[1]:
            raise ConfigError(f"--strategies: {strategies[0]!r} is given twice; name two different strategies")
        return Side(sources[0], strategies[0]), Side(sources[1], strategies[1])
    if alone:
        raise ConfigError(
            f"compare needs a second run, or two strategies of {sources[0]} by --strategies A,B; it has "
            f"{', '.join(known[0])}"
        )
    if set(known[0]) & set(known[1]):
        return Side(sources[0]), Side(sources[1])
    if len(known[0]) == len(known[1]) == 1:
        return Side(sources[0], known[0][0]), Side(sources[1], known[1][0])
    raise ConfigError(
        f"{sources[0]} (strategies {', '.join(known[0])}) and {sources[1]} ({', '.join(known[1])}) have no strategy in "
        "common; say by --strategies A,B which to compare"
    )


def _rows(side: Side, scores: pl.DataFrame) -> pl.DataFrame:
    """The rows of a side; of a chosen strategy the name is left out, since that of the other side is another."""
    if scores["model"].n_unique() > 1:
        models = ", ".join(sorted(scores["model"].unique()))
        raise ConfigError(f"{side.source}: holds several models ({models}); compare runs")
    if side.strategy is not None:
        scores = scores.filter(pl.col("strategy") == side.strategy).with_columns(strategy=pl.lit(""))
    wanted = dict.fromkeys(("answer", "cluster", "stage", CLASS), pl.String)
    return prepare_rows(name_apart(scores.lazy(), ("cluster",)), REQUIRED, wanted).collect()


def _of_side(side: Side, scores: pl.DataFrame) -> pl.DataFrame:
    return scores if side.strategy is None else scores.filter(pl.col("strategy") == side.strategy)


def _left_out(
    sides: tuple[Side, Side], rows: Sequence[pl.DataFrame], keys: Sequence[str], common: bool
) -> tuple[int, int]:
    """How many answers of each side the other lacks. Raises ConfigError where there are some, unless `common`."""
    only = rows[0].join(rows[1], on=keys, how="anti"), rows[1].join(rows[0], on=keys, how="anti")
    counts = only[0].height, only[1].height
    if any(counts) and not common:
        item, strategy = only[0 if counts[0] else 1].sort(keys).select("item", "strategy").row(0)
        first = f"item {item!r}" + (f", strategy {strategy!r}" if strategy else "")
        raise ConfigError(
            f"{sides[0]} and {sides[1]} were not asked the same: {counts[0]} and {counts[1]} answers have no partner "
            f"(first: {first}); --common compares what both were asked"
        )
    return counts


def _classes(scores: pl.DataFrame, pairs: pl.DataFrame) -> list[str]:
    """The classes of the questions in the order in which the benchmark's study names them; others, and those of other
    benchmarks, in the order of the score table."""
    has = CLASS in scores.columns
    found = scores[CLASS].drop_nulls().cast(pl.String).unique(maintain_order=True).to_list() if has else []
    named = load_study(default_study(scores)).values.get(CLASS, ())
    there = set(pairs[CLASS].drop_nulls())
    return [name for name in dict.fromkeys((*named, *found, *sorted(there))) if name in there]


def _effects(pairs: pl.DataFrame, classes: Sequence[str]) -> Iterator[Record]:
    """The effects of each strategy: by class where the items have one, with what testing them together adds, then over
    all questions. Where all items have a stage, the intervals are for stages not yet written."""
    for (strategy,), part in pairs.group_by(["strategy"], maintain_order=True):
        staged = "stage" if part["stage"].null_count() == 0 else None
        key = {"strategy": strategy}
        named = {name: one for (name,), one in part.group_by([CLASS])}
        records = [{**key, CLASS: name, **contrast(named[name], staged)} for name in classes if name in named]
        overall = {**key, CLASS: "overall", **contrast(part, staged)}
        unit = "stage" if staged else "task"
        yield from adjust_family([*records, overall], classes, words=comparison_tables.CLASS_WORDS, unit=unit)


def _flips(pairs: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """The items that only one of the two has right, with both answers: "gained" where it is B, "lost" where it is A."""
    before = first.select("item", "strategy", pl.col("answer").alias("answer_a"), pl.col("status").alias("status_a"))
    flipped = pairs.filter(pl.col("correct") != pl.col("control")).join(before, on=["item", "strategy"], how="left")
    return flipped.select(
        "strategy",
        pl.when("correct").then(pl.lit("gained")).otherwise(pl.lit("lost")).alias("flip"),
        CLASS,
        "item",
        "answer_a",
        pl.col("answer").alias("answer_b"),
        "status_a",
        pl.col("status").alias("status_b"),
    ).sort("strategy", "flip", "item")


def _differences(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """What else differs between the runs; where their strategies are compared, not that each has its own."""
    if a.source == b.source or a.source.endswith(TABLES) or b.source.endswith(TABLES):
        return []
    found = manifest_differences(*(read_manifest(find_run(side.source)) or {} for side in (a, b)))
    chosen = {f"strategies.{side.strategy}" for side in (a, b) if side.strategy is not None}
    return [(one.name, one.a, one.b) for one in found if one.name not in chosen]


def _unlike(sides: tuple[Side, Side], tables: Sequence[pl.DataFrame]) -> Iterator[str]:
    """A warning where two runs were asked or scored otherwise than by the strategies that are compared, of score tables
    where their benchmarks differ. tables: the originals that both were asked."""
    if sides[0].source == sides[1].source:
        return
    if any(side.source.endswith(TABLES) for side in sides):
        one, other = map(name_benchmarks, tables)
        if one and other and one != other:
            yield (
                f"B was asked {other} instead of {one}, and questions of the same names are paired; a leaderboard "
                "would not set A and B side by side"
            )
        return
    found: list[dict[str, list[AnswerConditions]]] = []
    for side, table in zip(sides, tables, strict=True):
        run = find_run(side.source)
        manifest, record = Manifest.read(run), load_scored_run(run).record
        assert manifest is not None  # or it would have no scores
        rows = _of_side(side, table).with_columns(pl.col("benchmark").fill_null(manifest.benchmark))
        every = [one.record(manifest, record) for one in answer_conditions(rows)]
        if side.strategy is not None:
            every = [replace(one, strategy="", prompt="") for one in every]
        if any("people" in one.columns for one in tables):
            every = [one.of_people() for one in every]
        found.append({one.strategy: [same for same in every if same.strategy == one.strategy] for one in every})
    for strategy in sorted(found[0].keys() & found[1].keys()):
        if why := describe_difference(*(Conditions(tuple(own[strategy])) for own in reversed(found))):
            of = f"{strategy}: " if strategy else ""
            yield f"{of}B {why}; a leaderboard would not set A and B side by side"


def _lacking(sources: Sequence[str], scores: Sequence[pl.DataFrame]) -> tuple[str, ...]:
    places = (source if source.endswith(TABLES) else find_run(source) for source in sources)
    gaps = map(missing_data.gaps_of_source, places, scores)
    return tuple(dict.fromkeys(said for found in gaps for said in missing_data.gap_sentences(found)))


def _unit(target: str) -> str:
    return "stories" if target == NEW_TASKS else "stages"


ROUNDING = 0.005  # By less than this two numbers that are shown may differ
FLIPS_SHOWN = 20  # How many flips, and how many differences between the runs, the terminal shows


def comparison_verdicts(comparison: Comparison) -> list[str]:
    """A sentence for each strategy: whether B is clearly right more or less often than A, and which classes clearly
    differ."""
    said = []
    for (strategy,), part in comparison.effects.group_by(["strategy"], maintain_order=True):
        row = part.row(-1, named=True)
        gained = f"{row['gained']:,} questions gained, {row['lost']:,} lost"
        apart = abs(row["risk_difference"] - (row["gained"] - row["lost"]) / row["n"]) >= ROUNDING
        weighted = f", with {_unit(row['target'])} weighted equally" if apart else ""
        text = f"{_MORE[sign(row)]}: B minus A is {points(row)}{weighted}; {gained}."
        classes = part.head(-1).filter(pl.col("verdict").cast(pl.String).str.starts_with("B "))
        if classes.height:
            named = (f"{readable_name(name)} ({word})" for name, word in classes.select(CLASS, "verdict").iter_rows())
            text += f" Single classes that clearly differ: {', '.join(named)}."
        elif part.height > 1:
            text += " No single class is shown to differ."
        said.append(f"{strategy}: {text}" if strategy else text)
    effects = comparison_tables.clear_effects(comparison.by)
    return [*said, *effects, *comparison_tables.margin_verdicts(comparison.margins)]


_MORE = {
    1: "B is significantly more accurate than A",
    0: "No significant difference",
    -1: "B is significantly less accurate than A",
}


def comparison_notes(comparison: Comparison) -> dict[str, str]:
    """What a reader must know of the tables, by name."""
    said = {
        "effects": comparison.caption,
        comparison_tables.CHANGES: PHRASES["compared_changes"],
        comparison_tables.MARGINS: PHRASES["compared_margins"] if comparison.margins.height else None,
        comparison_tables.GRADE_TABLE: PHRASES["compared_values"] if comparison.values.height else None,
        people.TABLE: PHRASES["people_compared"] if comparison.people.height else None,
    }
    said |= dict.fromkeys(comparison.by, PHRASES["compared_factors"])
    return {name: text for name, text in said.items() if text}


def all_tables(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """All tables whole, by name, those that have rows; flips and differences also without."""
    found = {
        "effects": comparison.effects,
        **comparison.by,
        "flips": comparison.flips,
        people.TABLE: comparison.people,
        comparison_tables.CHANGES: comparison.changes,
        comparison_tables.MARGINS: comparison.margins,
        comparison_tables.GRADE_TABLE: comparison.values,
    }
    kept = {name: table for name, table in found.items() if table.height or name == "flips"}
    fields = {name: [one[place] for one in comparison.differences] for place, name in enumerate(("field", "a", "b"))}
    return {**kept, "differences": pl.DataFrame(fields, schema=dict.fromkeys(fields, pl.String))}


def effect_excerpt(comparison: Comparison) -> tuple[str, pl.DataFrame]:
    """The title of the table of effects, and of its columns those that a reader needs first."""
    found = comparison.effects
    classes = (found[CLASS] != "overall").any()
    shown = _effect_columns(found, [pl.col(CLASS).alias("class")] if classes else [], tested=classes)
    alone = bool((found["units"] == found["n"]).all()) and set(found["target"]) == {NEW_TASKS}
    whom = "further questions like these" if alone else " and ".join(dict.fromkeys(map(populations, found["target"])))
    return f"{TITLES['effects']}, with 95% intervals for {whom}", shown


def effects_in_short(comparison: Comparison) -> list[Excerpt]:
    """The differences by the factors that were asked for and by class, each with its interval in one cell."""
    found = [
        _in_short(f"differences in accuracy by {' and '.join(names)}", frame, names)
        for frame in comparison.by.values()
        for names in [comparison_tables.factor_columns(frame)]
    ]
    classes = comparison.effects.rename({CLASS: "class"}) if (comparison.effects[CLASS] != "overall").any() else None
    whole = comparison.effects if classes is None else classes
    return [*found, _in_short("differences in accuracy", whole, [] if classes is None else ["class"])]


def _in_short(title: str, effects: pl.DataFrame, keys: Sequence[str]) -> Excerpt:
    frame = _effect_columns(effects, keys, tested=False)
    sides = {"share_control": "lost", "share_treated": "gained"}
    apart = [(pl.col(side) - (pl.col("both") + pl.col(only)) / pl.col("n")).abs() for side, only in sides.items()]
    weighted = effects.filter(pl.max_horizontal(apart) >= ROUNDING)["target"].unique(maintain_order=True)
    if len(weighted):  # an analysis shows shares of questions
        title += f", {' and '.join(dict.fromkeys(map(_unit, weighted)))} weighted equally"
    ends = interval_cell("B - A", "low", "high", "B - A [95%]")
    p = pl.col("p").map_elements(lambda p: f"{p:.3f}", pl.String)
    named = frame.columns[: frame.columns.index("A")]
    return Excerpt(title, frame.select(*named, cell_of("A"), cell_of("B"), ends, p, "gained", "lost", "n"))


def _effect_columns(found: pl.DataFrame, keys: Sequence[pl.Expr | str], *, tested: bool) -> pl.DataFrame:
    """The columns of a table of effects that a reader needs first. keys: those that tell its rows apart beside the
    strategy. tested: whether they are tested together."""
    return found.select(
        *_strategy(found),
        *keys,
        pl.col("share_control").alias("A"),
        pl.col("share_treated").alias("B"),
        pl.col("risk_difference").alias("B - A"),
        pl.col("rd_low").alias("low"),
        pl.col("rd_high").alias("high"),
        "p",
        *(["p_adjusted"] if tested else []),
        "gained",
        "lost",
        "n",
        *noise_columns(found),
    )


# What the tables are called before a reader, by their names.
TITLES = {
    "effects": "accuracy of B minus A",
    people.TABLE: "with every person's answer counted",
    comparison_tables.MARGINS: "is B as good as A, up to the margin?",
    comparison_tables.GRADE_TABLE: "grades that are more than right or wrong",
    comparison_tables.CHANGES: "what changed from A to B, as shares of the questions",
}


def further_excerpts(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """The tables of margins, grades and changes with the columns that a reader needs first, by name."""
    margins, grades, changes = comparison.margins, comparison.values, comparison.changes
    found = {}
    if margins.height:
        of = ["of"] if margins["of"].n_unique() > 1 else []
        ends = ("low_90", "high_90", "p_not_inferior", "p_equivalent", "verdict")
        found[comparison_tables.MARGINS] = margins.select(*_strategy(margins), *of, *ends)
    if grades.height:
        named = grades.rename({"value_a": "A", "value_b": "B", "difference": "B - A"})
        columns = ("of", "A", "B", "B - A", "low", "high", "p", "n")
        found[comparison_tables.GRADE_TABLE] = named.select(*_strategy(named), *columns)
    if changes.height:
        found[comparison_tables.CHANGES] = changes.select(*_strategy(changes), pl.exclude("strategy", "method"))
    return found


def _strategy(table: pl.DataFrame) -> list[str]:
    """The column of strategies, where they are named."""
    return ["strategy"] if table["strategy"].str.len_chars().max() else []


def comparison_summary(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """What the terminal shows: differences a class, the first flips, the first differences of the manifests."""
    title, effects = effect_excerpt(comparison)
    frames = {title: effects}
    for frame in comparison.by.values():
        names = comparison_tables.factor_columns(frame)
        frames[f"{TITLES['effects']}, by {' and '.join(names)}"] = _effect_columns(frame, names, tested=True)
    if comparison.people.height:
        frames[f"{TITLES[people.TABLE]}. {PHRASES['people_compared']}"] = comparison.people.drop("method")
    frames |= {TITLES[name]: frame for name, frame in further_excerpts(comparison).items()}
    if not comparison.flips.is_empty():
        title = "flips: questions that only B (gained) or only A (lost) answers correctly"
        title += _first(comparison.flips.height)
        frames[title] = comparison.flips.select(
            *_strategy(comparison.effects), "flip", "item", "answer_a", "answer_b"
        ).head(FLIPS_SHOWN)
    rows: list[dict[str, str]] = []
    for name, a, b in comparison.differences[:FLIPS_SHOWN]:
        one = Difference(name, *shorten_pair(a, b))
        rows.append({"what": one.field, "A": one.a, "B": one.b})
    if rows:
        frames[f"what else differs between the runs{_first(len(comparison.differences))}"] = pl.DataFrame(rows)
    return frames


def _first(count: int) -> str:
    """That only the first of so many are shown, where there are more than that."""
    return f", the first {FLIPS_SHOWN} of {count}" if count > FLIPS_SHOWN else ""


def combine_scores(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all tables under the union of their columns; of kinds that have nothing in common a column becomes
    text. Where some tables hold answers and others measurements, a factor `kind` of the answers is left out."""
    if len({ANSWER_COLUMNS.isdisjoint(table.columns) for table in tables}) > 1 and any(map(measured_studies, tables)):
        measured = ANSWER_COLUMNS.isdisjoint
        tables = [table if measured(table.columns) else table.drop(KIND, strict=False) for table in tables]
    if len(tables) == 1:
        return tables[0]  # not a copy of it
    try:
        return pl.concat(tables, how="diagonal_relaxed")
    except pl.exceptions.PolarsError:
        kinds: dict[str, set[pl.DataType]] = {}
        for table in tables:
            for name, kind in table.schema.items():
                kinds.setdefault(name, set()).add(kind)
        mixed = [name for name, found in kinds.items() if len(found - {pl.Null()}) > 1]
        return pl.concat([_as_text(table, mixed) for table in tables], how="diagonal_relaxed")


def _as_text(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    there = [name for name in names if name in table.columns]
    nested = [name for name in there if table.schema[name].is_nested()]
    table = table.with_columns(
        pl.Series(name, [None if cell is None else str(cell) for cell in table[name].to_list()], dtype=pl.String)
        for name in nested
    )
    return table.with_columns(pl.col(name).cast(pl.String) for name in there)


def same_model_notes(scores: pl.DataFrame, manifests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each model that several runs are of: that they are counted as one model with all their strategies,
    and in what else these runs differ. manifests: by the run's name, those at hand."""
    if not {"run", "model", "strategy"} <= set(scores.columns):
        return []
    said = []
    scores = split_scores(scores).answers
    keys = ["model", *(["benchmark"] if "benchmark" in scores.columns else [])]  # benchmarks are never counted as one
    scores = scores.select(*keys, "run", "strategy")  # what is not read is not copied for each model
    for model, part in scores.group_by(keys, maintain_order=True):
        runs = list(part["run"].drop_nulls().unique(maintain_order=True))
        if len(runs) < 2:
            continue
        strategies = ", ".join(part["strategy"].unique(maintain_order=True))
        text = f"the runs {', '.join(runs)} are counted as one model, {model[0]}, with the strategies {strategies}"
        first, *others = [manifests.get(run) for run in runs]
        fields: dict[str, None] = {}
        for other in others:
            if first is not None and other is not None:
                found = manifest_differences(first, other)
                fields |= {one.field: None for one in found if not one.name.startswith("strategies.")}
        known = all(manifests.get(run) is not None for run in runs)
        if fields:
            text += f"; besides their strategies the runs differ in: {', '.join(fields)}"
        elif known:
            text += "; besides their strategies the runs do not differ"
        else:
            text += "; whether the runs differ in anything else is not known from score tables"
        said.append(f"{text}.")
    return said
