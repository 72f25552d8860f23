"""Write the figures of the second edition into its datasheet and its adjudication, where they can go stale.

    python dataset/perturbed-2/annotation/datasheet_2.py [--check]

A page holds figures between `<!-- figures: NAME -->` and `<!-- end of figures -->`; what stands between them is written
anew, the rest of the page is left alone. --check writes nothing, names the parts that are not up to date, and ends with
1 where there are any. Who changes a story runs this, after the answers of the learned rules have been written again
(see tomserve/benchmarks/perturbed/baselines.py), and asks `tomserve dataset audit perturbed-2` for the last word.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean

import agreement_2
import record_2

from tomserve.benchmarks import perturbed
from tomserve.benchmarks.perturbed import audit as audits
from tomserve.benchmarks.perturbed import baselines, validation
from tomserve.benchmarks.perturbed.stages import (
    FALSE_BELIEF,
    PERTURBATIONS,
    QUESTION_KINDS,
    ROLES,
    SECOND,
    Stage,
    load_stages,
)
from tomserve.items import UNKNOWN, Item, items_digest

PAGES = (record_2.HERE.parent / "README.md", record_2.HERE / "adjudication.md")
PART = re.compile(r"(<!-- figures: (?P<name>[a-z ]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)

TOGETHER = "all classes"
Figures = Mapping[str, Callable[[], list[str]]]
"""What makes the lines of a part, by its name."""


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def version(found: Sequence[Stage]) -> Iterator[str]:
    """What identifies this state of the edition, and its size."""
    items = [item for stage in found for item in stage.items()]
    tasks = {item.cluster for item in items}
    per_story = 2 * len(QUESTION_KINDS)
    lengths = [len(item.story) for item in items]
    words = mean(len(sentence.split()) for item in items for sentence in item.story)
    yield f"- Digest of all items: `sha256:{items_digest(items).removeprefix('sha256:')}`"
    yield (
        f"- Size: {len(found)} stages, {len(tasks)} tasks, {len(items) // per_story:,} stories, {len(items):,} "
        f"questions; {min(lengths)} to {max(lengths)} sentences a story, {words:.1f} words a sentence"
    )
    yield f"- Canary, in every stage file and every exported item: `{items[0].canary}`"


def composition(found: Sequence[Stage]) -> Iterator[str]:
    """Counts by class, by scenario, and by stage."""
    told = [item for stage in found for item in stage.items() if not item.factors["swapped"]]
    told = [item for item in told if item.factors["question_kind"] == "belief"]
    yield from table(
        ("class", "tasks", "stories", "questions", "false belief", *ROLES, "stated", "unstated", "aware"),
        [_class_row(name, told) for name in (*PERTURBATIONS, TOGETHER)],
    )
    yield ""
    scenarios = Counter((str(item.factors["kind"]), str(item.factors["scenario"])) for item in told)
    realities = Counter(
        (str(item.factors["kind"]), str(item.factors["scenario"]))
        for item in told
        if item.factors["reality"] == UNKNOWN
    )
    yield from table(
        ("kind of stage", "scenario", "stories", "questions", "stories whose reality is unknown"),
        [(kind.replace("_", " "), name, n, 4 * n, realities[kind, name]) for (kind, name), n in scenarios.items()],
    )
    yield ""
    yield from table(
        ("stage", "setting", "labels", "author", "tasks", "stories", "questions", "stories by scenario"),
        [_stage_row(stage) for stage in found],
    )


def _class_row(name: str, told: Sequence[Item]) -> list[object]:
    chosen = [item for item in told if name in (item.factors["perturbation"], TOGETHER)]
    subset = [item for item in chosen if item.factors["scenario"] == FALSE_BELIEF]
    roles = Counter(item.factors["belief_role"] for item in subset)
    ground = Counter(item.factors["ground"] for item in subset)
    aware = Counter(item.factors["aware"] for item in chosen)
    told_of = f"{aware[True]} yes, {aware[False]} no" if aware[True] + aware[False] else "-"
    counts = [len({item.cluster for item in chosen}), len(chosen), 4 * len(chosen), len(subset)]
    return [name, *counts, *(roles[role] for role in ROLES), ground["stated"], ground["unstated"], told_of]


def _stage_row(stage: Stage) -> list[object]:
    count, file = len(stage.stories), stage.file
    scenarios = Counter(file.scenario(story.version) for story in stage.stories)
    by_scenario = ", ".join(f"{name} {number}" for name, number in scenarios.items())
    labels = ", ".join(slot.label for slot in file.labels.values())
    return [file.stage, file.setting.rstrip("."), labels, file.author, len(file.tasks), count, 4 * count, by_scenario]


def checks(found: Sequence[Stage]) -> Iterator[str]:
    """What the two checks of the structure find, the former's last lines as printed."""
    lines = validation.validate_stages(found, own=True).lines
    spoilt = sum(len(validation.find_fresh_problems(stage)) for stage in found)
    yield "```"
    yield from (line for line in lines[len(found) :] if not line.startswith("problem: "))
    yield "```"
    yield ""
    yield f"`tomserve generate perturbed-2 --check` names {spoilt} words or names that a fresh edition would spoil."


def audit(found: Sequence[Stage]) -> Iterator[str]:
    """The audit's tables, with the learned answers as the score tables have them. Raises ValueError where some lack."""
    items = [item for stage in found for item in stage.items()]
    asked = [item for item in items if baselines.applies_to(item)]
    learned: dict[str, dict[str, str]] = {}
    shipped = baselines.SHIPPED[SECOND.name]
    for place, name in enumerate(shipped.names):
        given = {item.id: shipped.answer(item, place) for item in asked}
        learned[name] = {key: answer for key, answer in given.items() if answer is not None}
        if lacking := len(given) - len(learned[name]):
            raise ValueError(
                f"{shipped.file}: {lacking} questions have no answer of the rule {name!r}, since their "
                "stories have changed; write the file again (tomserve/benchmarks/perturbed/baselines.py says how)"
            )
    first = list(perturbed.load())
    second, earlier = (
        audits.count_right(items, learned),
        audits.count_right(first, baselines.fit_rules(first, SECOND)),
    )
    for title, frame in (
        ("Both editions", audits.compare_editions(second, earlier)),
        ("Second edition, right answers by class", audits.pivot_classes(second)),
        ("First edition, right answers by class", audits.pivot_classes(earlier)),
    ):
        yield f"{title}:"
        yield ""
        yield from table(frame.columns, [["-" if cell is None else cell for cell in row] for row in frame.iter_rows()])
        yield ""
    exceeding = list(audits.find_excesses(second))
    yield f"{len(exceeding)} cases exceed the goal{':' if exceeding else '.'}"
    yield from (("", *(f"- {one}" for one in exceeding)) if exceeding else ())


def agreement_in_short(lines: Sequence[str]) -> list[str]:
    """What of the lines of agreement_2.py stands in the datasheet: the coverage, and the table over all classes of all
    readings."""
    start = lines.index(agreement_2.TITLES[0])
    end = next(index for index, line in enumerate(lines) if index > start and line.startswith("| belief sets |"))
    return [*lines[: lines.index("")], *lines[start - 1 : end - 1]]


def counts_of_changes(found: Sequence[Stage]) -> Iterator[str]:
    """How many stories were edited after a and b, by what of them changed."""
    told = {(stage.file.stage, key): one for stage in found for key, one in record_2.stories(stage).items()}
    counted: Counter[tuple[bool, bool]] = Counter()
    answers = 0
    for one in record_2.readings(record_2.HERE, found):
        if one.reader == "a":
            now = told.get((one.stage, one.code))
            reworded = now is None or not now.entry.same(one.entry)
            counted[reworded, now is None or now.sets != one.gold] += 1
            answers += now is not None and any(a[-1] != b[-1] for a, b in zip(now.sets, one.gold, strict=True))
    total, changed = counted.total(), counted.total() - counted[False, False]
    yield (
        f"Of {total:,} stories that a and b read, {changed} changed afterwards: {counted[True, False]} in their words "
        f"alone, {counted[False, True]} in their gold alone, {counted[True, True]} in both. The right answer of "
        f"{answers} of them is another than it was."
    )


def parts(found: Sequence[Stage]) -> Figures:
    """What makes each part, by the name that a page gives it."""

    @cache
    def agreement() -> tuple[str, ...]:
        return tuple(agreement_2.printed(found))

    return {
        "version": lambda: list(version(found)),
        "composition": lambda: list(composition(found)),
        "checks": lambda: list(checks(found)),
        "audit": lambda: list(audit(found)),
        "agreement": lambda: list(agreement()),
        "agreement in short": lambda: agreement_in_short(agreement()),
        "changes": lambda: list(counts_of_changes(found)),
    }


def filled(page: Path, figures: Figures) -> tuple[str, list[str]]:
    """A page with its figures as they are now, and the names of the parts that said something else. Raises ValueError
    for a part that nothing makes."""
    stale: list[str] = []

    def make(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in figures:
            raise ValueError(f"{page}: there are no figures {name!r}; the names are {', '.join(figures)}")
        made = match[1] + "".join(f"{line}\n" for line in figures[name]()) + match[3]
        if made != match[0]:
            stale.append(name)
        return made

    return PART.sub(make, page.read_text("utf-8")), stale


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them. Returns 1 where a checked page is not up to date. Raises ValueError for an option
    that is none."""
    if set(arguments) - {"--check"}:
        raise ValueError(f"{arguments[0]} is no option\n{__doc__}")
    figures, code = parts(load_stages()), 0
    for page in PAGES:
        text, stale = filled(page, figures)
        if arguments:
            code = code or int(bool(stale))
        else:
            page.write_text(text, "utf-8")
        for name in stale:
            print(f"{page.name}: {name}: {'is not up to date; run this without --check' if arguments else 'written'}")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        raise SystemExit(str(error)) from error
