"""`tomserve report`: from run folders to one HTML file.

>>> write_report(["perturbed-reference"])                                                       # doctest: +SKIP
PosixPath('runs/perturbed-reference/report.html')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

import tomserve
from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.reporting.html import page as pages
from tomserve.reporting.html.choice import choose
from tomserve.reporting.html.figures import figures
from tomserve.reporting.html.headline import verdicts
from tomserve.reporting.html.items import packed
from tomserve.reporting.html.sources import MENTIONED, Source, load, made_from, provenance
from tomserve.reporting.html.standing import PAGE, Wishes, keep
from tomserve.runs.manifest import portable
from tomserve.scoring.table import Note
from tomserve.serving import identity
from tomserve.studies import noise
from tomserve.studies import study as studies


def write_report(
    runs: Sequence[str | None] = (None,),
    out: Path | None = None,
    intervals: str | None = None,
    labels: Sequence[str] = (),
    study: str | None = None,
    note: Note | None = None,
) -> Path:
    """Write the report of these runs (None: the newest) and return its path.

    out: where to; without it `report.html` in the run's folder, or for several runs in the current one. intervals,
    study, labels: as for `tomserve analyze`. note: told what could not be read. Raises ConfigError.
    """
    wishes = Wishes(intervals, labels, study)
    sources, text = _report(runs or (None,), wishes, note)
    path = out or (sources[0].folder if len(sources) == 1 else Path()) / PAGE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None
    if out is None and len(sources) == 1:
        keep(sources[0], text, wishes)
    return path


def report(
    runs: Sequence[str | None],
    intervals: str | None = None,
    labels: Sequence[str] = (),
    study: str | None = None,
    note: Note | None = None,
) -> str:
    """The report as text; see write_report."""
    return _report(runs, Wishes(intervals, labels, study), note)[1]


def _report(runs: Sequence[str | None], wishes: Wishes, note: Note | None) -> tuple[list[Source], str]:
    sources, scores = load(runs, wishes.labels, note)
    name, intervals = wishes.study or studies.default_study(scores), wishes.intervals
    module = studies.load_study(name)
    found = studies.analyze(scores, module, intervals)
    kind = intervals or getattr(module, "INTERVALS", ("published",))[0]
    said = studies.notes(module, intervals, found)
    guesses, canaries = _outlined(sources, scores)
    chance = _chance(scores, guesses)
    extra = {"tables": pages.copies(found, getattr(module, "LAYOUTS", {}))}
    chosen = choose(scores)
    data, cut = packed(sources, extra, chosen.items)
    models = list(scores["model"].unique(maintain_order=True))
    page = pages.Page(
        title=f"{len(models)} models" if len(models) > 3 else ", ".join(models),
        facts=tuple(_facts(sources, scores, name, kind, chance)),
        warnings=tuple(_warnings(sources)),
        intervals=kind,
        verdicts=tuple(verdicts(found, chance.get("all"))),
        figures=figures(found, chance),
        tables=tuple(pages.shown(title, frame, said.get(title, "")) for title, frame in found.items()),
        failures=tuple(_failures(scores)),
        provenance=tuple((source.run, _provenance(source)) for source in sources),
        canaries=canaries,
        cut=cut,
        chosen=chosen.said,
        data=data,
        version=tomserve.__version__,
    )
    return sources, pages.render(page)


def _provenance(source: Source) -> list[tuple[str, str]]:
    return [*provenance(portable(dict(source.manifest))), *made_from(source.made_from)]


def _outlined(sources: Sequence[Source], scores: pl.DataFrame) -> tuple[dict[str, int], tuple[str, ...]]:
    """Of the items with answers: among how many choices a guesser chooses, and the canaries, each once."""
    asked = set(scores["item"].unique())
    guesses, canaries = {}, set()
    for source in sources:
        for item in source.outlines():
            if item.item in asked:
                guesses[item.item] = item.guesses
                canaries |= {item.canary} if item.canary else set()
    return guesses, tuple(sorted(canaries))


def _chance(scores: pl.DataFrame, guesses: Mapping[str, int]) -> dict[str, float]:
    """For each subset of the design what a guesser gets right: the mean over its questions of 1 / number of choices, or
    where many choices stand nowhere in the story (Hi-ToM) 1 / those that do."""
    asked = scores.select("item", *(name for name in ("scenario", "question_kind") if name in scores.columns)).unique()
    subsets = {"all": asked}
    if asked.width == 3:
        text = asked.with_columns(pl.col("scenario", "question_kind").cast(pl.String))
        subsets["false_belief"] = text.filter(scenario="false_belief", question_kind="belief")
    shares = {
        name: [1 / guesses[item] for item in sorted(part["item"].unique()) if item in guesses]
        for name, part in subsets.items()
    }
    return {name: sum(values) / len(values) for name, values in shares.items() if values}


def _facts(
    sources: Sequence[Source], scores: pl.DataFrame, study: str, kind: str, chance: Mapping[str, float]
) -> list[tuple[str, str]]:
    benchmarks = ", ".join(sorted(map(str, scores["benchmark"].drop_nulls().unique())))
    strategies = ", ".join(sorted(scores["strategy"].unique(), key=lambda name: (not name.endswith("vanilla"), name)))
    found = [
        ("benchmark", benchmarks or "unknown"),
        ("questions", f"{scores['item'].n_unique():,}"),
        ("strategies", strategies),
        ("answers", f"{scores.height:,}"),
        ("runs", ", ".join(source.run for source in sources)),
        ("study", f"{study}, {kind} intervals"),
    ]
    if (floor := noise.line(scores)) is not None:
        found.append(("noise floor", floor.partition(": ")[2]))
    if "all" in chance:
        what = "containers mentioned" if MENTIONED in scores.columns else "choices"
        found.append(("chance", f"{chance['all']:.2f} (mean over questions of 1 / number of {what})"))
    return found


def _warnings(sources: Sequence[Source]) -> list[str]:
    found = [
        f"Run {source.run} is incomplete: it has not asked everything yet, and what it has may not be typical."
        for source in sources
        if not source.manifest.get("complete")
    ]
    for source in sources:
        for change in identity.history(source.manifest.get("sessions")):
            found.append(f"Run {source.run} holds answers of more than one server or model. Changed at {change}.")
    return found


def _failures(scores: pl.DataFrame) -> list[str]:
    """How many rows hold no answer, by model and strategy; a difference between strategies can fake an effect."""
    counted = (
        scores.with_columns(failed=~studies.answered())
        .group_by("model", "strategy", maintain_order=True)
        .agg(pl.len().alias("asked"), pl.col("failed").sum())
        .sort("model", "strategy")
    )
    if not counted["failed"].sum():
        return [f"None: all {scores.height:,} answers could be read."]
    lines = [
        f"{row['model']}, {row['strategy']}: {row['failed']:,} of {row['asked']:,} without an answer "
        f"({100 * row['failed'] / row['asked']:.1f}%)."
        for row in counted.iter_rows(named=True)
        if row["failed"]
    ]
    shares = counted.with_columns(share=pl.col("failed") / pl.col("asked")).group_by("model", maintain_order=True)
    for row in shares.agg((pl.col("share").max() - pl.col("share").min()).alias("gap")).iter_rows(named=True):
        if row["gap"] >= 0.02:
            lines.append(
                f"{row['model']}: strategies differ by {100 * row['gap']:.0f} points in how often they fail, which can "
                "look like an effect of the prompt; read the bounds in the table of failures."
            )
    return lines
