"""Check the structure of the second edition: versions, roles, balance, leaks, readability.

    tomserve dataset validate perturbed-2

Each check yields one line for each problem; no line means that the property holds for every item. Mistakes within one
stage file are refused earlier, when it is read (tomserve.benchmarks.perturbed_2.check).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tomserve.benchmarks.findings import Findings
from tomserve.benchmarks.perturbed.stagefile import SCENARIOS, in_false_belief_subset
from tomserve.benchmarks.perturbed_2.derive import parse
from tomserve.benchmarks.perturbed_2.stage import Stage, Story
from tomserve.benchmarks.perturbed_2.stagefile import FALSE_BELIEF, ROLES
from tomserve.items import UNKNOWN, Item, items_digest
from tomserve.scoring.rules import mentions

INFERENCE = ("induction_from_baseline", "untrustworthy_testimony", "conclusion_from_sentiment")
"""Classes in which the asked person infers something, which the author has to state."""

STAGES = 21
SENTENCES = (4, 12)
WORDS_A_SENTENCE = 32
WORDS_ON_AVERAGE = 18.0
LEAST = 0.25
"""The least share of right answers that each role and each place has, in every class of the false-belief subset."""


def findings(stages: Sequence[Stage], own: bool) -> Findings:
    """The check as lines: one for each stage, one for each problem, and a summary. The exit code is 1 for problems.

    own: whether these are the stages of the dataset itself, so that the whole design must hold.
    """
    items = [item for stage in stages for item in stage.items()]
    listed = [problem for stage in stages for problem in of_stage(stage)]
    listed += [problem for check in (duplicates, leaks) for problem in check(items)]
    if own:
        listed += list(of_design(stages, items))
    lines = []
    for stage in stages:
        count = len(stage.stories)
        lines.append(f"{stage.file.stage}: {len(stage.file.tasks)} tasks, {count} stories, {4 * count} items")
    lines += [f"problem: {problem}" for problem in listed]
    outcome = f"{len(listed)} problems" if listed else "ok"
    lines.append(f"{len(items)} items in {len(stages)} stages, {items_digest(iter(items))[:19]}: {outcome}")
    return Findings(lines=tuple(lines), code=1 if listed else 0)


def of_stage(stage: Stage) -> Iterator[str]:
    """The problems of one stage: of its tasks' versions, and of its stories' length and words."""
    for name, task in stage.file.tasks.items():
        where = f"{stage.file.stage}/{name}"
        stories = [story for story in stage.stories if story.task == name]
        told = [story for story in stories if stage.file.scenario(story.version) == FALSE_BELIEF]
        roles = Counter(stage.role(story) for story in told)
        versions = [task.versions[story.version] for story in told]
        if name == "none":
            if set(roles) != {"cue"} or len(told) < 2:
                yield f"{where}: the unperturbed task needs two false-belief stories or more, each answered by the cue"
        else:
            if not 3 <= len(told) <= 4:
                yield f"{where}: {len(told)} false-belief stories, expected 3 or 4"
            if missing := [role for role in ROLES if not roles[role]]:
                yield f"{where}: no false-belief story has the {missing[0]!r} answer"
            if not any(version.twin for version in versions):
                yield f"{where}: no version is the `twin` of another"
        if not any(version.ground == "unstated" for version in versions):
            yield f"{where}: every false-belief story states what settles the belief; leave one unstated"
        for story in stories:
            yield from _of_story(stage, story, f"{where}/{story.version}")


def _of_story(stage: Stage, story: Story, where: str) -> Iterator[str]:
    low, high = SENTENCES
    if not low <= len(story.sentences) <= high:
        yield f"{where}: {len(story.sentences)} sentences, expected {low} to {high}"
    words = [len(sentence.text.split()) for sentence in story.sentences.values()]
    if max(words) > WORDS_A_SENTENCE or sum(words) / len(words) > WORDS_ON_AVERAGE:
        yield f"{where}: longest sentence {max(words)} words, {sum(words) / len(words):.1f} on average"
    verbs = {parse(event).verb for sentence in story.sentences.values() for event in sentence.events}
    if "infer" in verbs and story.task not in INFERENCE:
        yield f"{where}: `infer` belongs to {', '.join(INFERENCE)} only"
    version, control = stage.version(story), stage.file.scenario(story.version)
    told = control in ("informed_protagonist", *(kind[-1] for kind in SCENARIOS.values()))
    if told and version.belief != version.reality:
        yield f"{where}: the person is told or sees, but the belief is not the reality"
    if control != FALSE_BELIEF and version.reality == UNKNOWN:
        yield f"{where}: a control must settle reality"
    if version.twin and control == FALSE_BELIEF:
        other = stage.file.tasks[story.task].versions[version.twin]
        if other.belief == version.belief:
            yield f"{where}: has the same belief as its twin {version.twin}, so that the pair shows nothing"
    symbols = {symbol for sentence in story.sentences.values() for symbol in re.findall(r"\{([xy])", sentence.text)}
    if symbols != {"x", "y"}:
        yield f"{where}: does not mention both labels"


def duplicates(items: Sequence[Item]) -> Iterator[str]:
    """Check that no story occurs twice."""
    seen: dict[tuple[str, ...], str] = {}
    for item in items:
        if item.factors["question_kind"] == "belief" and (first := seen.setdefault(item.story, item.id)) != item.id:
            yield f"{item.id}: tells the same story as {first}"


def leaks(items: Sequence[Item]) -> Iterator[str]:
    """Check that no question names a label or asks about the future."""
    for item in items:
        for choice in item.choices:
            if re.search(rf"\b{re.escape(choice)}\b", item.question, re.I):
                yield f"{item.id}: the question names the label {choice!r}"
        if "will " in item.question:
            yield f"{item.id}: asks about the future, not about a belief"


def shares(items: Sequence[Item]) -> dict[tuple[str, str], Counter[str]]:
    """How often the right answer of the false-belief subset is what, by class and by what is counted: its role, its
    place among the choices, and whether it is the label mentioned first or last."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for item in items:
        if in_false_belief_subset(item.factors):
            name, named = str(item.factors["perturbation"]), mentions(item)
            place = str(item.choices.index(item.answer) + 1)
            order = UNKNOWN if item.answer == UNKNOWN else "last" if named[-1] == item.answer else "not last"
            first = UNKNOWN if item.answer == UNKNOWN else "first" if named[0] == item.answer else "not first"
            counted = {"role": str(item.factors["belief_role"]), "place": place, "last": order, "first": first}
            for what, value in counted.items():
                found[name, what][value] += 1
    return found


def of_design(stages: Sequence[Stage], items: Sequence[Item]) -> Iterator[str]:
    """The problems of the whole edition: its number of stages, and how right answers are spread in each class."""
    if len(stages) != STAGES:
        yield f"{len(stages)} stages, expected {STAGES}"
    for (name, what), counts in sorted(shares(items).items()):
        if name == "none":
            continue
        values = {
            "role": ROLES,
            "place": ("1", "2", "3"),
            "last": ("last", "not last"),
            "first": ("first", "not first"),
        }
        total = counts.total()
        for value in values[what]:
            if counts[value] < LEAST * total:
                yield f"{name}: the right answer's {what} is {value!r} in {counts[value]} of {total}, less than a quarter"
    unknown = sum(item.answer == UNKNOWN for item in items if item.factors["question_kind"] == "reality")
    if not unknown:
        yield "reality: no question has the answer 'unknown'"
