"""What a leaderboard has to know of one run, or of one folder with all three layers of a model: its tally.

A tally is computed once, by a process of its own, and kept (see tomserve.web.computing). Whether two tallies may stand
in one column is decided here alone, by `Asked`: where it is equal, the models were asked the same questions by the same
prompts, and their replies were sampled and scored in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pydantic

from tomserve.causal.settings import ITEMS
from tomserve.content import digest
from tomserve.content.text import sanitize
from tomserve.errors import ConfigError, TomserveError
from tomserve.runs.evaluation import EvalResult
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import load_scored_run, scores_of
from tomserve.scoring import grades
from tomserve.stats.functional import FTOM_1
from tomserve.studies import analyze, breakdowns, people
from tomserve.studies.answer_rows import originals
from tomserve.studies.comparison import combine_scores
from tomserve.studies.presentation import finite_or_none
from tomserve.web.computing import Wish
from tomserve.web.process import without_paths
from tomserve.workflows import leaderboard
from tomserve.workflows.functional import INSIDE, FunctionalResult, analyze_layers, find_measurement

MANIFEST = "manifest.json"


class Part(pydantic.BaseModel):
    """A part of a tally."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Asked(Part):
    """What was asked, and how: the answers of two models may be set side by side where all of this is equal.

    benchmark: its name. digest: of all its items. gold: which set of right answers counts. questions: a digest of those
    that were asked, without their variants; count: how many. strategy, prompt: its name and the digest of its prompts.
    temperature, repeats: how replies were sampled; seed: where there is chance in that. scoring: what the replies were
    read by, besides the rules of this version.
    """

    benchmark: str
    digest: str = ""
    gold: str = ""
    questions: str = ""
    count: int = 0
    strategy: str = ""
    prompt: str = ""
    temperature: float = 0.0
    repeats: int = 1
    seed: int | None = None
    scoring: str = ""

    @property
    def key(self) -> str:
        """A short name of all this."""
        return digest(orjson.dumps(self.model_dump(), option=orjson.OPT_SORT_KEYS)).removeprefix("sha256:")[:16]

    @property
    def ground(self) -> tuple[str, str, str, str]:
        """What people's answers have to share with a model's to stand beside them: the questions."""
        return self.benchmark, self.digest, self.gold, self.questions


class Share(Part):
    """The share of right answers by one strategy.

    estimate, low, high: the accuracy and its interval, as the study of accuracies computes it. correct, total: counts.
    failed: how many requests got no reply; unread: how many replies could not be read. chance: what a guesser scores on
    these questions. rule, rule_share: the best rule that follows nobody's belief, and its share of right answers.
    spoiled: why the share cannot be ranked, "" where it can. people: how many people answered, 0 for a model.
    """

    asked: Asked
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    correct: int = 0
    total: int = 0
    failed: int = 0
    unread: int = 0
    chance: float | None = None
    rule: str = ""
    rule_share: float | None = None
    spoiled: str = ""
    people: int = 0


class Layers(Part):
    """The three layers of one model. asked: a digest of all questions; inside: one of the cases that were measured, and
    how. score, b, c, s: each with its interval. cases, scenarios, questions: counts."""

    asked: str
    inside: str = ""
    formula: str = ""
    ftom: tuple[float | None, ...] = ()
    ftom_bs: tuple[float | None, ...] = ()
    b: tuple[float | None, ...] = ()
    c: tuple[float | None, ...] = ()
    s: tuple[float | None, ...] = ()
    questions: int = 0
    scenarios: int = 0
    cases: int = 0
    unread: int = 0
    failed: int = 0
    spoiled: str = ""


class Tally(Part):
    """What a leaderboard knows of one run. model, revision: of it. served: further fields of every request that say how
    the model was to think. complete: whether all was asked. broken: why it cannot be read."""

    model: str = ""
    revision: str = ""
    served: str = ""
    created: str = ""
    complete: bool = False
    shares: tuple[Share, ...] = ()
    layers: Layers | None = None
    broken: str = ""


def wish(folder: Path, *, layers: bool = False) -> Wish:
    """What makes the tally of a run, or of a folder of runs with all three layers. The content of their files
    decides."""
    if not layers:
        return Wish("tally", (folder,))
    inside = sorted(path for path in folder.iterdir() if (path / MANIFEST).exists())
    return Wish("layers", tuple(inside), {"folder": str(folder)})


def read(facts: Mapping[str, Any]) -> Tally:
    """The tally that was made. Raises pydantic.ValidationError where it is none."""
    return Tally.model_validate(facts)


def tally(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The tally of a run; one that says so where it cannot be read. out: stays empty. options: none."""
    del out, options
    return _told(of_run, Path(runs[0]))


def layers(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The tally of the three layers of a model; one that says so where they cannot be read. out: stays empty. runs:
    those in the folder, whose files decide. options: folder."""
    del out, runs
    return _told(of_layers, Path(options["folder"]))


def _told(made: Callable[[Path], Tally], folder: Path) -> dict[str, Any]:
    try:
        found = made(folder)
    except TomserveError as error:
        found = Tally(broken=sanitize(without_paths(str(error))))
    return found.model_dump(mode="json")


def of_run(folder: Path) -> Tally:
    """The tally of one run. Raises ConfigError where it cannot be read."""
    manifest = Manifest.read(folder)
    if manifest is None:
        raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
    known = Tally(
        model=manifest.model,
        revision=manifest.revision or "",
        served=_served(manifest.sampling),
        created=manifest.created or "",
        complete=manifest.complete,
    )
    if manifest.measured or not manifest.complete:
        return known
    table, record = load_scored_run(folder)
    rows = originals(table)
    return known.model_copy(update={"shares": tuple(_shares(rows, manifest, record))})


_SAMPLING = ("temperature", "seed", "repeats")


def _served(sampling: Mapping[str, Any]) -> str:
    """Fields of every request that belong to the model rather than to the question, such as whether it is to think."""
    own = {name: value for name, value in sampling.items() if name not in _SAMPLING}
    return orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode() if own else ""


def _shares(rows: pl.DataFrame, manifest: Manifest, record: Mapping[str, Any]) -> Iterator[Share]:
    """The share of each strategy and, where items of several benchmarks were asked, of each benchmark."""
    if rows.is_empty():
        return
    rows = rows.with_columns(pl.col("benchmark").fill_null(manifest.benchmark))
    for (name, strategy), part in rows.group_by(["benchmark", "strategy"], maintain_order=True):
        asked = _asked(part, manifest, record).model_copy(update={"benchmark": str(name), "strategy": str(strategy)})
        prompt = manifest.strategies.get(str(strategy))
        yield _share(part, asked.model_copy(update={"prompt": (prompt.digest or "") if prompt is not None else ""}))


def _asked(part: pl.DataFrame, manifest: Manifest, record: Mapping[str, Any]) -> Asked:
    temperature = float(manifest.sampling.get("temperature") or 0)
    seed = manifest.sampling.get("seed")
    rules = [str(record["benchmark_file"])] if "benchmark_file" in record else []
    rules += ["a model reads"] if grades.RECORD in (record.get("files") or {}) else []
    return Asked(
        benchmark=manifest.benchmark,
        digest=manifest.benchmark_digest or "",
        gold=manifest.benchmark_gold or "",
        questions=leaderboard.digest_questions(part),
        count=part["item"].n_unique(),
        temperature=temperature,
        repeats=manifest.repeats,
        seed=seed if temperature and type(seed) is int else None,
        scoring=", ".join(rules),
    )


def _share(part: pl.DataFrame, asked: Asked) -> Share:
    tables = analyze(part, "accuracy")
    row = tables["accuracy"].row(0, named=True)
    chances = breakdowns.task_rows(part.lazy()).rows["chance"]
    failed, unread = int(row["failed"] or 0), int(row["unread"] or 0)
    estimate, low, high, crowd = row["estimate"], row["ci_low"], row["ci_high"], 0
    if people.TABLE in tables:
        each = tables[people.TABLE].filter(factor=people.OVERALL).row(0, named=True)
        estimate, low, high, crowd = each["share"], each["ci_low"], each["ci_high"], int(each["people"])
    return Share(
        asked=asked,
        correct=int(row["correct"]),
        total=int(row["total"]),
        failed=max(0, failed - unread),
        unread=unread,
        chance=finite_or_none(chances.mean()) if chances.len() and not chances.null_count() else None,
        rule=str(row.get("best_rule") or ""),
        rule_share=finite_or_none(row.get("best_rule_accuracy")),
        spoiled=leaderboard.explain_lost(part),
        estimate=finite_or_none(estimate),
        low=finite_or_none(low),
        high=finite_or_none(high),
        people=crowd,
    )


def is_layered(folder: Path) -> bool:
    """Whether a folder of runs holds the layers of one model, as `tomserve functional` makes it."""
    return (folder / ITEMS / MANIFEST).is_file()


def of_layers(folder: Path) -> Tally:
    """The tally of the three layers of one model. Raises ConfigError where they cannot be read."""
    inside = find_measurement(folder)
    places = sorted(path for path in folder.iterdir() if (path / MANIFEST).is_file() and not path.is_symlink())
    parts = [path for path in places if not path.name.startswith(INSIDE)]
    manifests = [manifest for path in parts if (manifest := Manifest.read(path)) is not None]
    first = Manifest.read(folder / ITEMS)
    assert first is not None  # or `is_layered` would have said so
    complete = all(one.complete for one in manifests)
    known = Tally(model=first.model, revision=first.revision or "", created=first.created or "", complete=complete)
    if not complete:
        return known
    frames = [scores_of(path) for path in (*parts, *([inside] if inside is not None else []))]
    model = str(frames[0]["model"][0])
    if inside is not None:
        frames[-1] = frames[-1].with_columns(pl.lit(model).alias("model"))
    results = tuple(EvalResult(path, 0, 0, {}, 0.0) for path in parts)
    told = FunctionalResult(folder, model, results, inside, None, analyze_layers(combine_scores(frames), FTOM_1))
    return known.model_copy(update={"layers": _layers(leaderboard.collect_facts(told))})


def _layers(one: leaderboard.ModelFacts) -> Layers:
    def ends(name: str) -> tuple[float | None, ...]:
        return tuple(finite_or_none(one.row.get(f"{name}{end}")) for end in ("", "_low", "_high"))

    measured = digest(orjson.dumps([one.on, repr(one.how)])) if one.cases else ""
    return Layers(
        asked=one.asked,
        inside=measured,
        formula=FTOM_1.name,
        **{name: ends(name) for name in ("ftom", "ftom_bs", "b", "c", "s")},
        questions=len(one.items),
        scenarios=one.scenarios,
        cases=one.cases,
        unread=one.unread,
        failed=one.failed,
        spoiled=one.spoiled,
    )
