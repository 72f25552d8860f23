"""What a leaderboard has to know of one run, or of one folder with all three layers of a model: its tally.

A tally is computed once, by a process of its own (see tomserve.web.beside), and kept in ``runs/.web/cache``. Whether
two tallies may stand in one column is decided here alone, by `Asked`: where it is equal, the models were asked the same
questions by the same prompts, and their replies were sampled and scored in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pydantic

import tomserve
from tomserve.api import boardfacts
from tomserve.api.layering import INSIDE, Layered, analysed, finished
from tomserve.causal.settings import ITEMS
from tomserve.content import bounded, digest, files
from tomserve.errors import ConfigError, TomserveError
from tomserve.runs import kept
from tomserve.runs.evaluation import EvalResult
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import scored, scores_of
from tomserve.scoring import choices
from tomserve.scoring.scorer import SCORER
from tomserve.stats.functional import FTOM_1
from tomserve.studies import analyze, people, tasks
from tomserve.studies.combining import combined
from tomserve.studies.rows import originals
from tomserve.studies.words import finite
from tomserve.web import beside
from tomserve.web.beside import Work, run

MODULE = __name__ if __name__ != "__main__" else "tomserve.web.tallying"
LOCK = "tally"
"""The name of the lock of whatever makes tallies, of which there is one process at a time."""

AT_ONCE = 100
"""How many tallies one process makes."""

READ = ("manifest.json", *kept.FILES, choices.JOURNAL, choices.RECORD, kept.TABLE)
"""The files of a run that decide its tally. The kept table decides it only for a measured run."""


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


def work(folder: Path, cache: Path, *, layers: bool = False) -> Work:
    """The work that makes the tally of a run, or of a folder of runs with all three layers.

    The file is named by the state of the files that decide it, as the file system tells it: every change of a file
    changes it. Whether kept scores fit these files is then decided by what is in them.
    """
    folders = sorted(path for path in folder.iterdir() if (path / READ[0]).exists()) if layers else [folder]
    state = [[str(one), name, *_state(one / name)] for one in folders for name in READ]
    name = digest(orjson.dumps([SCORER, tomserve.__version__, layers, state])).removeprefix("sha256:")
    return Work(MODULE, cache / f"tally-{name}.json", ("layers" if layers else "run", str(folder)), LOCK)


def begin_all(works: Sequence[Work]) -> None:
    """Make these tallies, one after the other in one process, unless one is at work. Raises ConfigError where nothing
    can be kept."""
    some = works[:AT_ONCE]
    if some:
        more = [text for one in some[1:] for text in (str(one.path), *one.arguments)]
        beside.begin(replace(some[0], arguments=(*some[0].arguments, *more)))


def _state(path: Path) -> tuple[int, ...]:
    """What tells that a file was changed: no program can change one and keep all of this."""
    try:
        status = path.lstat()
    except OSError:
        return ()
    if path.name == kept.TABLE and (path.parent / kept.JOURNAL).exists():
        return ()  # a table of scores is made anew from the other files
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read(path: Path) -> Tally:
    """The tally in a file. Raises ConfigError where the file holds none."""
    try:
        return Tally.model_validate(bounded.json(path, "delete it, and it is made anew"))
    except pydantic.ValidationError:
        raise ConfigError(f"{path}: is no tally; delete it, and it is made anew") from None


def make(path: Path, arguments: Sequence[str]) -> None:
    """Write the tally of the run, or of the folder of runs, that the arguments name, and then those of further files
    with their own two arguments. Raises OSError where a file cannot be written."""
    given = [str(path), *arguments]
    for place, kind, folder in zip(given[::3], given[1::3], given[2::3], strict=True):
        try:
            tally = of_layers(Path(folder)) if kind == "layers" else of_run(Path(folder))
        except TomserveError as error:
            tally = Tally(broken=str(error))
        with files.replacing(Path(place)) as file:
            file.write(orjson.dumps(tally.model_dump(mode="json")))


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
    table, record = scored(folder)
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
    rules += ["a model reads"] if choices.RECORD in (record.get("files") or {}) else []
    return Asked(
        benchmark=manifest.benchmark,
        digest=manifest.benchmark_digest or "",
        gold=manifest.benchmark_gold or "",
        questions=boardfacts.questions(part),
        count=part["item"].n_unique(),
        temperature=temperature,
        repeats=manifest.repeats,
        seed=seed if temperature and type(seed) is int else None,
        scoring=", ".join(rules),
    )


def _share(part: pl.DataFrame, asked: Asked) -> Share:
    tables = analyze(part, "accuracy")
    row = tables["accuracy"].row(0, named=True)
    chances = tasks.asked(part.lazy()).rows["chance"]
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
        chance=finite(chances.mean()) if chances.len() and not chances.null_count() else None,
        rule=str(row.get("best_rule") or ""),
        rule_share=finite(row.get("best_rule_accuracy")),
        spoiled=boardfacts.mostly_lost(part),
        estimate=finite(estimate),
        low=finite(low),
        high=finite(high),
        people=crowd,
    )


def is_layered(folder: Path) -> bool:
    """Whether a folder of runs holds the layers of one model, as `tomserve functional` makes it."""
    return (folder / ITEMS / READ[0]).is_file()


def of_layers(folder: Path) -> Tally:
    """The tally of the three layers of one model. Raises ConfigError where they cannot be read."""
    inside = finished(folder)
    places = sorted(path for path in folder.iterdir() if (path / READ[0]).is_file() and not path.is_symlink())
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
    told = Layered(folder, model, results, inside, None, analysed(combined(frames), FTOM_1))
    return known.model_copy(update={"layers": _layers(boardfacts.facts(told))})


def _layers(one: boardfacts.Facts) -> Layers:
    def ends(name: str) -> tuple[float | None, ...]:
        return tuple(finite(one.row.get(f"{name}{end}")) for end in ("", "_low", "_high"))

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


if __name__ == "__main__":
    sys.exit(run(make, sys.argv[1:]))
