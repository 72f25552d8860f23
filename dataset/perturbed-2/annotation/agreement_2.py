"""How far the blind readers of the second edition agree with each other and with what the events say.

    python dataset/perturbed-2/annotation/agreement_2.py [--list | --finals]

Prints how many stories have changed since they were read, and tables over all readings as they were written and over
those whose story has not changed since, neither its text nor its questions nor its gold: Krippendorff's alpha with the
MASI distance, and the share of equal sets, over all sentences, over sentences at which the gold changes, and over last
sentences, which are the answers. --list prints every set in which a reader and the gold differ, --finals the answers.

Readers are letters. a and b read every story; a later reader reads stories that have been changed since. Two readers
are compared with each other where both were given the same stories of a stage. Labels count as x, y and u (unknown) of
their stage, so that agreement by chance is that of three labels; the 95% intervals are percentiles of 2,000 seeded
draws that resample stages, since a stage has one author and its own readers.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import record_2
from record_2 import KINDS, Reading

from tomserve.benchmarks.perturbed.stages import PERTURBATIONS, Stage, load_stages

sys.path.append(str(Path(__file__).parents[2] / "annotation"))  # of the first edition, which counts alike
from alpha import Labels, krippendorff_alpha, resampled_alpha

DRAWS, SEED = 2000, 1
"""Number and seed of the resampled sets of stages for an interval."""

GOLD = "gold"
ALL, CHANGE, LAST = "all sentences", "sentences of change", "last sentences"


class Unit(NamedTuple):
    """One sentence and question in two readings, or in one and the gold."""

    stage: str
    task: str
    question: str
    compared: str
    change: bool
    last: bool
    pair: tuple[Labels, Labels]


def units(readings: Sequence[Reading]) -> Iterator[Unit]:
    """Every sentence of each reading beside the gold, and of two readings that were given the same stories."""
    by_sheet: dict[tuple[str, str], dict[str, Reading]] = defaultdict(dict)
    for one in readings:
        by_sheet[one.stage, one.reader][one.code] = one
        yield from _units(one, one.gold.belief, one.gold.reality, f"{one.reader} and {GOLD}")
    for (first, of_first), (second, of_second) in itertools.combinations(sorted(by_sheet.items()), 2):
        alike = first[0] == second[0] and of_first.keys() == of_second.keys()
        if alike and all(of_second[key].entry.same(one.entry) for key, one in of_first.items()):
            for key, one in of_first.items():
                yield from _units(one, *of_second[key].sets, compared=f"{first[1]} and {second[1]}")


def _units(one: Reading, belief: Sequence[Labels], reality: Sequence[Labels], compared: str) -> Iterator[Unit]:
    task = one.name.split("/")[0]
    for question, read, gold, other in zip(KINDS, one.sets, one.gold, (belief, reality), strict=True):
        for t, pair in enumerate(zip(other, read, strict=True)):
            change = t > 0 and gold[t] != gold[t - 1]
            yield Unit(one.stage, task, question, compared, change, t == len(gold) - 1, pair)


def comparisons(found: Sequence[Unit]) -> list[str]:
    """What is compared: two readers first, then a reader and the gold."""
    return sorted({one.compared for one in found}, key=lambda name: (name.endswith(GOLD), name))


def part(found: Sequence[Unit], over: str) -> list[Unit]:
    """The units of one part of the stories."""
    return [one for one in found if over == ALL or (one.change if over == CHANGE else one.last)]


def alpha(found: Sequence[Unit]) -> str:
    """Alpha and its interval, or a dash where it is undefined."""
    groups: dict[str, list[tuple[Labels, Labels]]] = defaultdict(list)
    for one in found:
        groups[one.stage].append(one.pair)
    value = krippendorff_alpha([one.pair for one in found]) if found else float("nan")
    if value != value:
        return "-"
    low, high = resampled_alpha(list(groups.values()), DRAWS, SEED)
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def equal(found: Sequence[Unit]) -> str:
    """How many sets are equal, of how many, and their share."""
    same = sum(one.pair[0] == one.pair[1] for one in found)
    return f"{same}/{len(found)} ({same / len(found):.1%})" if found else "-"


def overall(found: Sequence[Unit]) -> Iterator[str]:
    """The lines of the table over all classes."""
    yield "| compared | sets | over | equal | alpha (95% interval) |"
    yield "|---|---|---|---|---|"
    for compared, question, over in itertools.product(comparisons(found), KINDS, (ALL, CHANGE, LAST)):
        chosen = part([one for one in found if one.compared == compared and one.question == question], over)
        yield f"| {compared} | {question} | {over} | {equal(chosen)} | {alpha(chosen)} |"


def by_class(found: Sequence[Unit], question: str) -> Iterator[str]:
    """The lines of a table by class: alpha over all sentences, and how many last sets are equal."""
    names = comparisons(found)
    yield f"| {question} sets | " + " | ".join(f"{name}: alpha | answers" for name in names) + " |"
    yield "|---" * (1 + 2 * len(names)) + "|"
    for task in (*PERTURBATIONS, "all classes"):
        cells = []
        for name in names:
            chosen = [one for one in found if one.compared == name and one.question == question]
            chosen = [one for one in chosen if task in (one.task, "all classes")]
            answers = part(chosen, LAST)
            same = sum(one.pair[0] == one.pair[1] for one in answers)
            cells += [alpha(chosen), f"{same}/{len(answers)}" if answers else "-"]
        yield f"| {task} | {' | '.join(cells)} |"


def coverage(readings: Sequence[Reading], total: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Lines that say how many stories were read, changed, and read again. total: the class of every story as it is
    now, by stage and code."""
    read, valid = Counter(one.reader for one in readings), Counter(one.reader for one in readings if not one.changed)
    told = ", ".join(
        f"{reader} {count} ({valid[reader]} of them have not changed since)" for reader, count in read.items()
    )
    yield f"{len(total)} stories. Read by {told}."
    first = {(one.stage, one.code) for one in readings if one.reader in "ab"}
    as_first = {(one.stage, one.code) for one in readings if one.reader in "ab" and not one.changed}
    again = {(one.stage, one.code) for one in readings if not one.changed} - as_first
    never = set(total) - as_first - again
    yield (
        f"{len(first - as_first)} stories are not as a and b read them; {len(again)} of these are as a later reader "
        f"read them, {len(never)} have been read by nobody as they are now."
    )
    yield ""
    yield "| class | stories | changed after a and b | read again as they are now | read by nobody as they are now |"
    yield "|---|---|---|---|---|"
    for task in (*PERTURBATIONS, "all classes"):
        of_task = {key for key, name in total.items() if task in (name, "all classes")}
        counts = (of_task, of_task - as_first, of_task & again, of_task & never)
        yield f"| {task} | " + " | ".join(str(len(one)) for one in counts) + " |"


def disagreements(readings: Sequence[Reading], finals: bool) -> Iterator[str]:
    """A line and its sentence for each set that is not the gold's. finals: only last sentences."""
    for one in sorted(readings, key=lambda one: (one.where, one.reader)):
        for question, read, gold in zip(KINDS, one.sets, one.gold, strict=True):
            for t, (given, right) in enumerate(zip(read, gold, strict=True)):
                last = t == len(gold) - 1
                if given != right and (last or not finals):
                    labels = {symbol: label for label, symbol in one.symbols.items()}
                    words = ["|".join(labels[symbol] for symbol in sorted(sets)) for sets in (right, given)]
                    yield (
                        f"{one.where}, {question}, sentence {t + 1}{' (the last)' if last else ''}: gold {words[0]}, "
                        f"{one.reader} {words[1]}{'; changed since' if one.changed else ''}"
                    )
                    yield f"    {one.entry.sentences[t]}"
                    if one.remark:
                        yield f"    remark: {one.remark}"


def answers(readings: Sequence[Reading]) -> str:
    """How many last sets were ever not the gold's, of how many stories, and how many of these have changed since."""
    found = {
        (one.where, kind): one.changed
        for one in readings
        for kind, read, gold in zip(KINDS, one.sets, one.gold, strict=True)
        if read[-1] != gold[-1]
    }
    names = {where for where, _ in found}
    return (
        f"Answers in which a reader ever differed from the gold: {len(found)}, of {len(names)} stories; in "
        f"{sum(found.values())} of them the story has changed since that reading."
    )


TITLES = ("Readings as they were written:", "Readings of stories that have not changed since:")


def printed(now: Sequence[Stage]) -> Iterator[str]:
    """All lines that are printed without options. now: the stages as they are."""
    readings = record_2.readings(record_2.HERE, now)
    total = {
        (stage.file.stage, key): told.name.split("/")[0]
        for stage in now
        for key, told in record_2.stories(stage).items()
    }
    yield from coverage(readings, total)
    yield from ("", answers(readings))
    if waiting := record_2.without_reply(record_2.HERE):
        yield f"Sheets without a reply: {', '.join(waiting)}."
    for title, chosen in zip(TITLES, (readings, [one for one in readings if not one.changed]), strict=True):
        found = list(units(chosen))
        yield from ("", title, "", *overall(found))
        for question in KINDS:
            yield from ("", *by_class(found, question))


def main(arguments: Sequence[str]) -> None:
    """Print the tables or, with --list or --finals, disagreements. Raises ValueError where a file is wrong."""
    if unknown := set(arguments) - {"--list", "--finals"}:
        raise ValueError(f"{sorted(unknown)[0]} is no option\n{__doc__}")
    now = load_stages()
    if arguments:
        print(*disagreements(record_2.readings(record_2.HERE, now), finals="--finals" in arguments), sep="\n")
    else:
        print(*printed(now), sep="\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        raise SystemExit(str(error)) from error
