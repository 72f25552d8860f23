"""What a leaderboard has to know of each measured model: what it was asked and measured on, and how much of it came.

Models are compared where their facts say that they were asked the same; `difference` says what else they were asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from tomserve.api.layering import Layered, scored
from tomserve.causal.settings import ITEMS
from tomserve.causal.table import ANSWER
from tomserve.content import digest
from tomserve.content.files import one_line
from tomserve.content.paths import run_name
from tomserve.errors import ConfigError
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import scores_of
from tomserve.status import UNANSWERED
from tomserve.studies import missing_data
from tomserve.studies.answer_rows import is_answered, is_unreadable, originals, split_scores
from tomserve.studies.presentation import Row
from tomserve.studies.presentation import one_line as presentation_one_line

_HOW = ("strategy", "where", "alphas", "folds")
"""The settings of a measurement that have to be the same where C is compared; layers differ from model to model."""

LONGEST = 160
"""How many characters of an error a table tells at most; the whole of it was said when it happened."""


@dataclass(frozen=True)
class Facts:
    """One measured model.

    told: what came of its wish. scores: all of its rows, by which it is compared with others. row: of the table
    `score`. items: the questions without their variants, each with its benchmark. asked: a digest of all of them with
    their variants. scenarios: how many they are about. cases, on: how many were measured, and a digest of them; inner:
    how many scenarios these are about; how: the settings of the measurement. weights: those in which C was measured, ""
    for none. replies: how many came. unread: how many of them hold no answer that could be read; many_unread: whether
    these are more than one in ten of a benchmark. failed: how many did not come. spoiled: why the model cannot be
    ranked at all, "" where it can. warnings: the reasons to doubt its numbers.
    """

    told: Layered
    scores: pl.DataFrame
    row: Row
    items: frozenset[tuple[str, str]]
    asked: str
    scenarios: int
    cases: int
    on: str
    inner: int
    how: Mapping[str, object]
    weights: str
    replies: int
    unread: int
    failed: int
    many_unread: bool
    spoiled: str
    warnings: tuple[str, ...]

    @property
    def model(self) -> str:
        """The name in the tables."""
        return self.told.model

    def fewest(self, *, cases: bool) -> int:
        """The scenarios of that part of a score which has fewest. cases: whether the score counts cases."""
        return min(self.scenarios, self.inner) if cases else self.scenarios


def facts(told: Layered) -> Facts:
    """What a leaderboard has to know of a measured model, from the folders of its parts."""
    frame = scored(told)
    answers, moved = split_scores(frame)
    inside = Manifest.read(told.inside) if told.inside is not None else None
    cases = moved.filter(pl.col("kind").cast(pl.String) == ANSWER) if moved.height else moved
    lacking = list(_lacking(told))
    prefix = f"{told.model}: "  # stands above the warnings of a model anyway
    return Facts(
        told=told,
        scores=frame,
        row=told.analysis.tables["score"].row(0, named=True),
        items=frozenset(originals(answers).select("benchmark", "item").unique().iter_rows()),
        asked=questions(answers),
        scenarios=answers.select("benchmark", pl.coalesce("cluster", "item")).n_unique(),
        cases=cases["item"].n_unique() if cases.height else 0,
        on=(inside.benchmark_digest or "") if inside is not None else "",
        inner=cases["cluster"].n_unique() if cases.height else 0,
        how={name: inside.settings.get(name) for name in _HOW} if inside is not None else {},
        weights=_called(inside.model) if inside is not None else "",
        replies=sum(gap.replies for gap in lacking),
        unread=sum(gap.unread for gap in lacking),
        failed=sum(sum(gap.failed.values()) for gap in lacking),
        many_unread=any(gap.many_unread for gap in lacking),
        spoiled=_spoiled(answers, told.analysis.tables.get("inputs", pl.DataFrame())),
        warnings=(
            *missing_data.gap_sentences(lacking),
            *(said.removeprefix(prefix) for said in told.analysis.warnings),
        ),
    )


def _called(weights: str) -> str:
    """What weights are called: a folder by its own name, as its place on this machine tells readers nothing."""
    return Path(weights).name or weights if weights.startswith(("/", ".", "~")) else weights


def _lacking(told: Layered) -> Iterator[missing_data.Gaps]:
    """What is lacking of the answers to each benchmark; that a limit was set is no lack."""
    for one in told.answers:
        for gap in missing_data.gaps_of_scores(scores_of(one.folder), one.folder, one.folder.name):
            yield replace(gap, of=None, given=missing_data.shell_argument(run_name(one.folder)))


def _spoiled(answers: pl.DataFrame, inputs: pl.DataFrame) -> str:
    """Why a model cannot be ranked: most of its replies, or of those that the score counts, hold no answer."""
    answers = answers.filter(pl.col("status").cast(pl.String).fill_null("") != UNANSWERED)
    counted = inputs.filter((pl.col("holds") == "answers") & pl.col("counted")) if inputs.height else inputs
    plain = answers.join(counted.select("benchmark", "strategy"), on=["benchmark", "strategy"], how="semi")
    names = ", ".join(counted["strategy"].unique(maintain_order=True))
    return mostly_lost(answers) or mostly_lost(plain, f" by {names}")


def mostly_lost(rows: pl.DataFrame, by: str = "") -> str:
    """Why these answers cannot be ranked, where more than half of them did not come or hold no answer; else "".

    rows: of a score table. by: words that say which replies these are.
    """
    rows = rows.filter(pl.col("status").cast(pl.String).fill_null("") != UNANSWERED)
    lost = rows.filter(~is_answered()).height
    if 2 * lost <= rows.height:
        return ""
    unread = rows.filter(is_unreadable()).height
    of = f"of {rows.height:,} replies{by}"
    if lost in (unread, lost - unread):
        return f"{lost:,} {of} {'could not be read' if unread else 'did not come'}, more than half"
    return f"{unread:,} {of} could not be read and {lost - unread:,} did not come, together more than half"


def questions(answers: pl.DataFrame) -> str:
    """A digest of the questions of a score table; two tables that were asked the same have the same."""
    asked = answers.select("benchmark", "item").unique().sort("benchmark", "item")
    return digest(asked.write_csv().encode())


def difference(one: Facts, ranked: Facts) -> str:
    """What a model was asked or measured on that those which are ranked were not, with the way out."""
    if one.asked == ranked.asked and one.on == ranked.on:
        other = ", ".join(name for name in _HOW if one.how.get(name) != ranked.how.get(name))
        return f"was measured with other settings ({other}): repeat with the same options"
    if one.asked == ranked.asked:
        if one.cases == ranked.cases:
            return "was measured on other cases of the same number (another file or version)"
        return f"was measured on {one.cases:,} cases, the ranked ones on {ranked.cases:,}: repeat with the same --cases"
    benchmarks, others = (sorted({name for name, _ in each.items}) for each in (one, ranked))
    if benchmarks != others:
        return (
            f"was asked {', '.join(benchmarks)}, the ranked ones {', '.join(others)}: repeat with the same --benchmark"
        )
    if len(one.items) != len(ranked.items):
        counts = f"{len(one.items):,} questions, the ranked ones {len(ranked.items):,}"
        return f"was asked {counts}: repeat with the same --limit"
    if one.items != ranked.items:
        return "was asked other questions of the same number (another file or version)"
    return "was asked other variants of the same questions: repeat it in a new folder (--run)"


def alike(known: Sequence[Facts], *, cases: bool) -> tuple[list[Facts], list[Facts], bool]:
    """The largest group that was asked the same (and measured on the same cases), the others, and whether another
    group is as large; then it is that with most questions, then with most cases."""
    groups: dict[tuple[str, ...], list[Facts]] = {}
    for one in known:
        inside = (one.on, repr(one.how)) if cases else ()
        groups.setdefault((one.asked, *inside), []).append(one)
    if not groups:
        return [], [], False
    best = max(groups.values(), key=lambda group: (len(group), len(group[0].items), group[0].cases))
    tied = sum(len(group) == len(best) for group in groups.values()) > 1
    return best, [one for one in known if one not in best], tied


def lacks(one: Facts, layers: Iterable[str]) -> str:
    """Which layers a model lacks, and why."""
    named = {"b": "behaviour", "c": "mechanism", "s": "stability"}
    why = {name: str(one.row[f"no_{name}"]) for name in layers if one.row[f"no_{name}"]}
    if "c" in why and one.told.failed is not None:
        why["c"] = short(str(one.told.failed))
    return "; ".join(f"no {name.upper()} ({named[name]}): {said}" for name, said in why.items())


def short(text: str) -> str:
    """The first sentence of an error, in at most LONGEST characters that are safe to print."""
    return presentation_one_line(re.split(r"(?<=[.;!?])\s", text.strip(), maxsplit=1)[0].rstrip(".;"), LONGEST)


def listed(names: Iterable[str], most: int = 5) -> str:
    """The names in a row; of many only the first ones, and how many others there are."""
    known = [one_line(name) for name in names]
    more = f" and {len(known) - most} others" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def beside(folder: Path, on_board: Mapping[str, Path], failed: Iterable[str]) -> list[str]:
    """The names of models that were asked to the end in a folder below this one, and that this command does not name.

    on_board: the folders of models by their names. failed: names of models that could not be measured.
    """
    known = {place.resolve() for place in on_board.values()}
    found = []
    for inner in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            manifest = Manifest.read(inner / ITEMS) if inner.is_dir() and inner.resolve() not in known else None
        except ConfigError:  # a broken record is no finished model
            continue
        if manifest is not None and manifest.complete and manifest.model not in failed:
            found.append(manifest.model)
    return found
