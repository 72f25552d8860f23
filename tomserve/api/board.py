"""Several models, one after the other, and a leaderboard that sets side by side only what can be compared.

Models are ranked by FToM among those that have all three layers, of the same questions and the same cases, and by
FToM_BS among all that were asked the same questions. What is left out is listed with the reason. How the leaderboard is
shown and written is said in tomserve.api.boardpage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tomserve.api.boardfacts import Facts, alike, beside, difference, facts, lacks, listed, short
from tomserve.api.layering import REPORT, Doing, Layered, Wish, analysed, carry_out, check
from tomserve.content.files import one_line
from tomserve.errors import ConfigError, StoppedError, TomserveError
from tomserve.stats.functional import FEW_SCENARIOS, Formula
from tomserve.studies import Analysis
from tomserve.studies.comparison import combine_scores
from tomserve.studies.contrasts import Record

ALL, BS, APART = "leaderboard_ftom", "leaderboard_ftom_bs", "not_ranked"
"""The names of the tables, and of their files."""

SCORES = {ALL: ("ftom", ("b", "c", "s")), BS: ("ftom_bs", ("b", "s"))}
"""The score by which each table ranks, and the layers that this score is made of."""

CALLED = {"ftom": "FToM", "ftom_bs": "FToM_BS", "b": "B", "c": "C", "s": "S"}
"""Scores and layers as readers call them."""

TOGETHER = "all ranked models together"
"""Under this name stand the warnings of a comparison, which belong to no single model."""

_EQUAL = 1e-9
"""Scores that differ by no more share a rank."""


@dataclass(frozen=True)
class Queue:
    """What came of several wishes. done: of those that could be measured. failed: why not, by the name of the model."""

    done: tuple[Layered, ...]
    failed: Mapping[str, TomserveError]


@dataclass(frozen=True)
class Board:
    """A leaderboard.

    tables: by name (ALL, BS and APART), those without rows left out. formula: the name of the score. sentences: what a
    reader must know of the tables that are there, and of those that are not. warnings: the reasons to doubt the
    numbers, by model. reports: the report of each model, where there is one. unread: the models of which more than one
    in ten replies could not be read.
    """

    tables: Mapping[str, pl.DataFrame]
    formula: str
    sentences: tuple[str, ...]
    warnings: Mapping[str, tuple[str, ...]]
    reports: Mapping[str, Path]
    unread: tuple[str, ...] = ()


def carry_out_all(wishes: Mapping[str, Wish], doing: Doing, *, report: bool = True) -> Queue:
    """Carry out the wishes one after the other; one that fails does not stop the others.

    wishes: by the name of the model. Raises StoppedError where somebody stops it; repeated, it goes on. Raises
    ConfigError, before anything is asked, for what cannot be wished of one of them.
    """
    for name, wish in wishes.items():
        try:
            check(wish)
        except ConfigError as error:
            raise ConfigError(f"{one_line(name)}: {error}") from None
    done, failed = [], {}
    for number, (name, wish) in enumerate(wishes.items(), 1):
        doing.part(f"model {number} of {len(wishes)}: {one_line(name)}")
        try:
            done.append(carry_out(wish, doing, report=report))
        except StoppedError:
            raise
        except TomserveError as error:
            failed[name] = error
            doing.note(f"{name} is left out: {error}")
    return Queue(tuple(done), failed)


def boards(queue: Queue, formula: Formula, folder: Path | None = None) -> Board:
    """The leaderboard of what could be measured.

    folder: that of all models; finished ones in it that are not on the board are named.
    """
    known = [facts(told) for told in queue.done]
    sound = list({one.model: one for one in known if not one.spoiled}.values())
    both = f"{CALLED['ftom']} and {CALLED['ftom_bs']}"
    apart = [(name, f"not measured: {short(str(error))}") for name, error in queue.failed.items()]
    apart += [(one.model, f"{both}: {one.spoiled}") for one in known if one.spoiled]
    apart += [
        (one.model, f"{both}: another model of this command goes by this name")
        for one in known
        if not one.spoiled and one not in sound
    ]
    tables: dict[str, pl.DataFrame] = {}
    sentences: list[str] = []
    lacking: dict[str, list[tuple[str, str]]] = {}
    warnings = {one.model: one.warnings for one in known if one.warnings}
    for name, (score, layers) in SCORES.items():
        having = [one for one in sound if one.row[score] is not None]
        why_none = _why_none(score, layers, formula)
        reasons = [(one.model, lacks(one, layers) or why_none) for one in sound if one not in having]
        if not having:
            sentences += (
                [f"{why_none[0].upper()}{why_none[1:]}, so there is no ranking by {CALLED[score]}."] if sound else []
            )
            lacking[score] = reasons
            continue
        same, others, tied = alike(having, cases="c" in layers)
        reasons += [(one.model, difference(one, same[0])) for one in others]
        apart += [(model, f"{CALLED[score]}: {why}") for model, why in reasons]
        ranked = _Ranked(same, score, layers, analysed(combine_scores([one.scores for one in same]), formula))
        tables[name] = ranked.table()
        sentences += ranked.sentences()
        if others:
            sentences.append(_chosen(score, same, tied))
        warnings |= _more(warnings, ranked.analysis, [one.model for one in known])
    named = {model for table in tables.values() for model in table["model"]} | {model for model, _ in apart}
    for score, reasons in lacking.items():  # that no model has a score is said once, but no model goes unmentioned
        apart += [(model, f"{CALLED[score]}: {why}") for model, why in reasons if model not in named]
    if apart:
        tables[APART] = pl.DataFrame(apart, schema={"model": pl.String, "why": pl.String}, orient="row")
    if folder is not None:
        sentences += _beside(folder, queue)
    reports = {told.model: path for told in queue.done if (path := told.folder / REPORT).is_file()}
    unread = tuple(one.model for one in known if one.many_unread)
    return Board(tables, formula.name, tuple(sentences), warnings, reports, unread)


def _why_none(score: str, layers: Sequence[str], formula: Formula) -> str:
    """Why no model has a score."""
    if "c" in layers:
        return "no model has all three layers"
    b, _, s = formula.weights
    return "no model has both B and S" if b + s > 0 else f"the weights of B and S are 0 in {formula.name}"


def _chosen(score: str, same: Sequence[Facts], tied: bool) -> str:
    """A sentence about which models are ranked, where they were asked different things."""
    group = "one of the largest groups" if tied else "the largest group"
    further = ", that with most questions, and then with most cases" if tied else ""
    names = listed(one.model for one in same)
    return (
        f"{CALLED[score]} ranks {group} of models that were asked and measured alike ({names})"
        f"{further}; the others stand under Not ranked."
    )


def _more(
    warnings: Mapping[str, tuple[str, ...]], analysis: Analysis, models: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The warnings of a comparison that no model has by itself, beside those of another one."""
    own = [said for said in analysis.warnings if not said.startswith(tuple(f"{model}: " for model in models))]
    return {TOGETHER: tuple(dict.fromkeys((*warnings.get(TOGETHER, ()), *own)))} if own else {}


def _beside(folder: Path, queue: Queue) -> Iterator[str]:
    """A sentence about the models in the folder that could stand on the board and do not."""
    if more := beside(folder, {told.model: told.folder for told in queue.done}, queue.failed):
        yield (
            f"Finished in the same folder, but not named this time and so not on this board: {listed(more)}. "
            "Repeat the command with them in --models."
        )


@dataclass(frozen=True)
class _Ranked:
    """Models that were asked alike. score: what ranks them. layers: what it is made of. analysis: of all of them."""

    known: Sequence[Facts]
    score: str
    layers: Sequence[str]
    analysis: Analysis

    @property
    def _rows(self) -> list[Record]:
        """The rows of the table `score`, the highest score first, then by name."""
        rows = list(self.analysis.tables["score"].iter_rows(named=True))
        return sorted(rows, key=lambda row: (-row[self.score], row["model"]))

    @property
    def _few(self) -> int | None:
        """Of how many scenarios the models were asked or measured on, at least, where these are too few."""
        fewest = min(one.fewest(cases="c" in self.layers) for one in self.known)
        return fewest if fewest < FEW_SCENARIOS else None

    @property
    def _open(self) -> list[str]:
        """The models whose score has no interval."""
        return [str(row["model"]) for row in self._rows if row[f"{self.score}_low"] is None]

    def table(self) -> pl.DataFrame:
        """A row for each model, the highest score first. Models of equal scores share a rank, as in 1=."""
        rows = self._rows
        of = {one.model: one for one in self.known}
        chances: dict[str, Record] = {}
        if (found := self.analysis.tables.get("ranking")) is not None and self._few is None and not self._open:
            chances = {row["model"]: row for row in found.filter(score=self.score).iter_rows(named=True)}
        ends = [f"{part}{end}" for part in (self.score, *self.layers) for end in ("", "_low", "_high")]
        made = []
        for row in rows:
            one, chance = of[row["model"]], chances.get(row["model"], {})
            made.append(
                {
                    **{"rank": self._rank(row, rows), "model": row["model"], "formula": row["formula"]},
                    **{name: row[name] for name in ends},
                    **{name: chance.get(name) for name in ("p_first", "rank_low", "rank_high")},
                    **{"questions": len(one.items), "scenarios": one.scenarios},
                    **({"cases": one.cases, "c_measured_in": one.weights} if "c" in self.layers else {}),
                    **{"replies": one.replies, "unread": one.unread, "failed": one.failed},
                }
            )
        whole = pl.col("rank_low", "rank_high").cast(pl.Int64)  # they are all null where they are withheld
        return pl.DataFrame(made, infer_schema_length=None).with_columns(
            pl.col("p_first", *ends).cast(pl.Float64), whole
        )

    def _rank(self, row: Record, rows: Sequence[Record]) -> str:
        values = [float(other[self.score]) for other in rows]
        own = float(row[self.score])
        equal = sum(abs(value - own) <= _EQUAL for value in values)
        return f"{1 + sum(value > own + _EQUAL for value in values)}{'=' if equal > 1 else ''}"

    def sentences(self) -> Iterator[str]:
        """What a reader must know of this table alone."""
        called = CALLED[self.score]
        if len(self.known) == 1:
            model = listed([self.known[0].model])
            yield f"{called}: {model} is the only model that is ranked, so its rank says nothing."
        elif self._few is not None:
            scenarios = f"{self._few} scenario{'s' if self._few > 1 else ''}"
            yield (
                f"{called}: how probable ranks are is withheld (?), as the answers are about {scenarios}, and fewer "
                f"than {FEW_SCENARIOS} say next to nothing of further ones; ask more questions (--limit, --cases)."
            )
        elif self._open:
            yield (
                f"{called}: how probable ranks are is withheld (?), as the score of {listed(self._open)} has no "
                "interval; without that model in --models they are known."
            )
        if self._open:
            yield f"{called}: where an interval is ?, the scenarios are too few, or too alike, to tell how far it goes."
