"""Checks of DynToM's folder: whether its trials are the known ones, and what they hold and have wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from tomserve.benchmarks.dyntom import asking
from tomserve.benchmarks.dyntom.rules import RULES
from tomserve.benchmarks.dyntom.trials import QUESTIONS, SCENES, STORY, WAY_OUT, Trial, folders, known, needed, trials
from tomserve.benchmarks.findings import Findings, Say
from tomserve.benchmarks.foreign.auditing import NOTES, audited
from tomserve.benchmarks.foreign.source import digest
from tomserve.errors import ContentError
from tomserve.items import Item

SHOWN = 10
"""So many names of trials that are not as known are printed."""

PARTS = ("task", "form", "state")
"""The factors by which the audit counts."""

FAULTS = {
    "options given twice": "questions with an option that is given twice; the texts are merged, in the first place",
    "right option given twice": "of these, questions whose right option is given twice; either counts as right",
    "no change is right": 'questions whether something changes to which "No" is the right answer',
}


def validated(path: Path | None, say: Say) -> Findings:
    """Whether the trials are those of the known commit, and all of them can be asked.

    path: as for `trials`. Raises ConfigError and ContentError as `trials` does, for trials of any number of scenes.
    """
    found = folders(path)
    say(f"reading {_trials(found)} ...")
    source = known()
    there: dict[str, bytes] = {}

    def rows() -> Iterator[bytes]:
        for folder in found:
            held = row(folder)
            there[folder.name] = digest(held).encode()
            yield held

    said = source.differences(rows(), whole=len(found) > 1)
    digests = {one.encode() for one in source.digests}
    strange = [name for name, one in there.items() if one not in digests]
    if strange:
        more = f" and {len(strange) - SHOWN:,} more" if len(strange) > SHOWN else ""
        said = f"{said}: {', '.join(strange[:SHOWN])}{more}"
    questions: Counter[int] = Counter()
    for trial in trials(path, scenes=None):
        questions[len(trial.scenes)] += sum(1 for _ in asking.items(trial))
    sizes = ", ".join(f"{count:,} about stories of {size}" for size, count in sorted(questions.items()))
    lines = (f"{_trials(found)}, {questions.total():,} questions by the number of scenes: {sizes}",)
    same = "these are the known trials, byte for byte" if len(found) > 1 else "this is a known trial, byte for byte"
    return Findings(lines=(*lines, said or same), code=int(said is not None))


def _trials(found: Sequence[Path]) -> str:
    return f"{len(found):,} trial{'' if len(found) == 1 else 's'}"


def row(folder: Path) -> bytes:
    """What of a trial is compared: its story and its questions, as their bytes."""
    needed(folder)
    try:
        return b"\0".join((folder / name).read_bytes() for name in (STORY, QUESTIONS))
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); {WAY_OUT}"
        raise ContentError(reason, path=Path(error.filename or folder)) from None


def audited_trials(path: Path | None, say: Say) -> Findings:
    """What the five-scene trials hold, what readers without a mind get, and what is wrong with questions.

    path: as for `trials`. Raises ConfigError and ContentError as `trials` does.
    """
    found = folders(path)
    say(f"reading {_trials(found)} and scoring readers of every question, a minute for all of them ...")
    scenes: Counter[int] = Counter()
    faults: dict[str, Counter[str]] = {}
    done = audited(_asked(trials(path, scenes=None), scenes, faults, alone=len(found) == 1), PARTS, RULES, ())
    sizes = ", ".join(f"{count:,} of {size} scenes" for size, count in sorted(scenes.items()))
    differs = known().differences(map(row, found), whole=len(found) > 1)
    lines = [differs] if differs else []
    lines += [f"{_trials(found)}: {sizes}. Asked are those of {SCENES} scenes, the number in the paper."]
    lines += [f"{name}: {meaning}." for name, meaning in FAULTS.items()]
    rows = [
        {"form": form, **{name: counts[name] for name in ("questions", *FAULTS)}} for form, counts in faults.items()
    ]
    tables = {**done.tables, "faults": pl.DataFrame(rows)}
    notes = {**NOTES, "faults": "Known faults of questions, by the form of the question; what each means stands below."}
    return Findings(tables=tables, notes=notes, lines=tuple(lines))


def _asked(
    read: Iterable[Trial], scenes: Counter[int], faults: dict[str, Counter[str]], *, alone: bool
) -> Iterator[Item]:
    """Yield the items that are asked, and count on the way. scenes, faults: the counts. alone: of one trial only."""
    for trial in read:
        scenes[len(trial.scenes)] += 1
        if not alone and len(trial.scenes) != SCENES:
            continue
        for item in asking.items(trial):
            counts = faults.setdefault(str(item.factors["form"]), Counter())
            counts["questions"] += 1
            counts["options given twice"] += bool(item.factors["merged"])
            counts["right option given twice"] += bool(item.factors["twice_right"])
            counts["no change is right"] += item.answer.casefold() == "no"
            yield item
