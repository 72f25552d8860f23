"""The study of ToMBench: what is right by task, ability and language, counted by us and as its authors count.

    tomserve analyze tombench-mymodel --study tombench

Two ways to count, by `--intervals`: *recommended* (the default) reads replies by tomserve's rules, counts a reply that
cannot be read as wrong, leaves out the English question that was printed with another story's options, and has
intervals over stories; *published* takes what the official reader finds in every reply, and every question as
independent. What the paper printed stands beside it in columns that end in _quoted_columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from tomserve.studies import Context, Excerpt, Study, baselines
from tomserve.studies.answer_rows import BASELINE, split_by
from tomserve.studies.contrasts import Record, contrast, pair_rows, prompting_effects, share
from tomserve.studies.presentation import BAD, OPEN, Card, Tables, Verdict, points, readable_name, sign
from tomserve.studies.study import frames_of, has_rows, model_verdicts
from tomserve.studies.texts import Texts

TEXTS = Texts(__file__)

FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("language", "task", "part", "dimension", "ability", "fault"), pl.String),
    **{"options": pl.Int64, "metric_official_correct": pl.Boolean, "metric_official_guessed": pl.Float64},
}
_ARM = ("model", "strategy", "language")
ALL = "all"  # the language of rows that count both, where both were asked

DIRECT, VOTE = "tombench_vanilla", "tombench_vote"  # the authors' question for the letter alone, once and five times


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    rows, kinds = baselines.rows_with_rules(scores, FACTORS)
    if intervals == "published":
        rows = rows.with_columns(correct=pl.col("metric_official_correct").fill_null(False))
    else:
        rows = rows.filter(pl.col("fault").ne_missing("of_another_story"))
    eight = rows.filter(pl.col("part") == "tasks")
    shares = partial(_shares, kinds=kinds, intervals=intervals)
    tasks = [*shares(eight, ("task",)), *shares(rows.filter(part="abilities"), ("task",))]
    dimensions = [*shares(rows, ("dimension",))]
    made: dict[str, Iterable[Record]] = {
        "accuracy": shares(rows, (), language=False),
        "by_language": shares(rows, ()),
        "tasks": [*tasks, *_means([one for one in tasks if one["task"] in TEXTS.section("printed")["people"]], "task")],
        "dimensions": [*dimensions, *_means(dimensions, "dimension")],
        "abilities": shares(rows, ("dimension", "ability")),
        baselines.TABLE: baselines.records_by(rows, kinds, "language"),
    }
    if intervals == "recommended":
        made |= {
            "languages": _languages(rows),
            "prompting_effects": prompting_effects(rows, DIRECT if DIRECT in rows["strategy"] else BASELINE),
            "stories": _stories(rows),
            "official": _official(rows),
        }
    return frames_of(made)


def _shares(
    rows: pl.DataFrame, keys: Sequence[str], kinds: baselines.RuleKinds, intervals: str, *, language: bool = True
) -> Iterator[Record]:
    """A share for each model, strategy, language and value of the keys, beside chance, a rule, and what was printed."""
    of = (*_ARM[2:], *keys) if language else keys
    for one in baselines.shares_by(rows, of, kinds, intervals, brief=bool(keys), chance=True):
        yield {**one, **(_quoted_columns(one, keys[-1]) if keys[-1:] not in ((), ("ability",)) else {})}


def _quoted_columns(record: Mapping[str, Any], key: str) -> Record:
    name, printed = record[key], TEXTS.section("printed")
    gpt = printed.get(record["language"], {})
    return {"human_quoted": printed["people"].get(name), "gpt_4_1106_quoted": gpt.get(name)}


def _means(records: Sequence[Record], key: str) -> Iterator[Record]:
    """For each model, strategy and language the mean of these records' accuracies, in which each counts the same; only
    where as many are there as the paper has."""
    wanted = 8 if key == "task" else 6
    for arm in dict.fromkeys(tuple(record[name] for name in _ARM) for record in records):
        own = [record for record in records if tuple(record[name] for name in _ARM) == arm]
        if len(own) == wanted:
            named: Record = {**dict(zip(_ARM, arm, strict=True)), key: f"mean of the {key}s"}
            sums: Record = {name: sum(one[name] for one in own) for name in ("correct", "total")}
            means: Record = {name: sum(one[name] for one in own) / wanted for name in ("accuracy", "chance")}
            yield {**named, **sums, **means, **_quoted_columns(named, key)}


def _languages(rows: pl.DataFrame) -> Iterator[Record]:
    """By model and strategy, Chinese minus English on the questions that were asked in both."""
    questions = rows.with_columns(question=pl.col("item").str.replace("/[a-z]+$", ""))
    shown = ("share_treated", "share_control", "risk_difference", "rd_low", "rd_high", "p", "gained", "lost")
    for key, part in split_by(questions, ("model", "strategy")):
        found = pair_rows(part.filter(language="zh"), part.filter(language="en"), on=("question",))
        if found.height:
            effect = contrast(found)
            yield {**key, "questions": found.height, **{one: effect[one] for one in shown}}


def _stories(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy, language and task, how many stories with several questions have all of them right."""
    named = [*_ARM, "task", "cluster"]
    every = rows.group_by(named, maintain_order=True).agg(
        pl.col("correct").all(),
        pl.col("faulty").any(),
        pl.len().alias("questions"),
        (1 / pl.col("options")).product().alias("guess"),
    )
    several = every.filter(pl.col("questions") > 1)
    both = pl.concat([several, several.with_columns(task=pl.lit("all"))])
    for key, part in split_by(both, (*_ARM, "task")):
        found = share(part.with_columns(unread=pl.lit(False)))
        yield {
            **{**key, "solved": found["correct"], "stories": found["total"], "share": found["accuracy"]},
            **{"ci_low": found["ci_low"], "ci_high": found["ci_high"]},
            **{"mean_questions": part["questions"].mean(), "chance": part["guess"].mean()},
        }


def _official(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy and language, the official scorer beside tomserve's, on the replies that it can read."""
    for arm, part in rows.drop_nulls("metric_official_correct").group_by(list(_ARM), maintain_order=True):
        ours, theirs = part["correct"], part["metric_official_correct"]
        yield {
            **dict(zip(_ARM, arm, strict=True)),
            **{"replies": part.height, "accuracy": ours.mean(), "official_accuracy": theirs.mean()},
            **{"only_ours": int((ours & ~theirs).sum()), "only_official": int((~ours & theirs).sum())},
            **{"unread": int(part["unread"].sum()), "official_guessed": part["metric_official_guessed"].mean()},
        }


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    whole = {name: frame.filter(task="all") if name == "stories" else frame for name, frame in tables.items()}
    return TEXTS.excerpts(whole)


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model: its shares beside chance and the best rule, whether Chinese questions are right as often as
    English ones, and whether step-by-step reasoning helps (a vote is no reasoning)."""
    return model_verdicts(tables, context, _language_card, "language", (BASELINE, DIRECT, VOTE))


def _language_card(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether one language is right more often than the other, on the same questions."""
    if not has_rows(own, "languages", "risk_difference rd_low rd_high"):
        return
    rows = own["languages"]
    signs = {sign(row) for row in rows.iter_rows(named=True)}
    verdict, tone = {
        frozenset({0}): ("No significant difference", OPEN),
        frozenset({1}): ("Accuracy is higher in Chinese", BAD),
        frozenset({-1}): ("Accuracy is higher in English", BAD),
    }.get(frozenset(signs), ("Depends on the strategy", OPEN))
    grounds = tuple((readable_name(row["strategy"]), f"{points(row)}.") for row in rows.iter_rows(named=True))
    yield Card("Is it the same in Chinese and English?", verdict, tone, grounds, TEXTS["languages"])


STUDY = Study(
    name="tombench",
    tables=tables,
    notes=TEXTS.notes,
    warnings=baselines.missing_warnings,
    summary=summary,
    verdicts=verdicts,
    strata=("task",),
    labels={"language": "language", "task": "task", "dimension": "dimension", "ability": "ability"},
)
