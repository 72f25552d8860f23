"""Check the structure of the second edition: versions, roles, minimal pairs, balance, leaks, readability.

    tomserve dataset validate perturbed-2

Each check yields one sentence for each problem, with file and line where there is one; none means that the property
holds everywhere. Mistakes that would make an answer or a chain wrong are refused earlier, when a file is read
(tomserve.benchmarks.perturbed_2.check). What the whole edition has to hold is written in
``dataset/perturbed-2/design.yaml`` (tomserve.benchmarks.perturbed_2.design).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from statistics import median

from tomserve.benchmarks.findings import Findings, outcome
from tomserve.benchmarks.perturbed.stagefile import SCENARIOS
from tomserve.benchmarks.perturbed_2 import retoldcheck
from tomserve.benchmarks.perturbed_2.check import AUTOMATIC
from tomserve.benchmarks.perturbed_2.derive import parse
from tomserve.benchmarks.perturbed_2.design import Design, load_design, of_design
from tomserve.benchmarks.perturbed_2.retoldfile import path_of
from tomserve.benchmarks.perturbed_2.stage import Stage, Story
from tomserve.benchmarks.perturbed_2.stagefile import FALSE_BELIEF, ROLES
from tomserve.items import UNKNOWN, Item, items_digest

INFERENCE = ("induction_from_baseline", "untrustworthy_testimony", "conclusion_from_sentiment")
"""Classes in which the asked person infers something, which the author has to state."""

SENTENCES = (4, 12)
WORDS_A_SENTENCE = 32
WORDS_ON_AVERAGE = 18.0


def findings(stages: Sequence[Stage], own: bool) -> Findings:
    """The check as lines: one for each stage, one for each problem, how much the minimal pairs differ, and a summary.
    The exit code is 1 for problems.

    own: whether these are the stages of the dataset itself, so that the whole design must hold. Raises ConfigError
    where the design is missing.
    """
    design = load_design()
    items = [item for stage in stages for item in stage.items()]
    listed = [problem for stage in stages for problem in of_stage(stage, design)]
    listed += [problem for check in (duplicates, exchanged, leaks) for problem in check(items)]
    listed += [problem for stage in stages for problem in retoldcheck.problems(stage)]
    if own:
        listed += list(of_design(stages, items, design))
    lines = []
    for stage in stages:
        count = len(stage.stories)
        otherwise = ", told otherwise as well" if path_of(stage).is_file() else ""
        counts = f"{len(stage.file.tasks)} tasks, {count} stories, {4 * count} questions"
        lines.append(f"{stage.file.stage}: {counts}{otherwise}")
    lines += [f"problem: {problem}" for problem in listed]
    if edits := [words for stage in stages for _, words in pairs(stage)]:
        lines.append(
            f"{len(edits)} minimal pairs, which differ in {median(edits):g} words (the median; at most {max(edits)})"
        )
    lines.append(f"{len(items)} questions in {len(stages)} stages, {items_digest(iter(items))[:19]}: {outcome(listed)}")
    return Findings(lines=tuple(lines), code=1 if listed else 0)


def _at(stage: Stage, task: str, version: str | None = None) -> str:
    """Where a task or version is written, as ``file:line: name``."""
    loc = ("tasks", task, *(("versions", version) if version else ()))
    name = "/".join((stage.file.stage, task, *([version] if version else [])))
    return f"{stage.path}:{stage.lines.at(loc)}: {name}"


def of_stage(stage: Stage, design: Design) -> Iterator[str]:
    """The problems of one stage: of its wordings, its tasks' versions, and its stories."""
    shared = [sentence for task in stage.file.tasks.values() for sentence in task.story.values()]
    several = sum(len(sentence.texts) > 1 for sentence in shared)
    if several < design.second_wordings * len(shared):
        yield (
            f"{stage.path}: Of {len(shared)} sentences under `story`, {several} have a second wording, from which "
            f"fresh editions draw; expected {design.second_wordings:.0%} at least."
        )
    for name in stage.file.tasks:
        stories = [story for story in stage.stories if story.task == name]
        yield from _of_task(stage, name, stories, design)
        for story in stories:
            yield from _length(stage, story)
            yield from _sense(stage, story)
    unsettled = sum(stage.version(story).reality == UNKNOWN for story in stage.stories)
    if unsettled < design.unknown_realities:
        expected = design.unknown_realities
        yield f"{stage.path}: Reality is unknown in {unsettled} stories of the stage; expected {expected} at least."
    for story, words in pairs(stage):
        if words > design.twin_words:
            yield (
                f"{_at(stage, story.task, story.version)}: The story differs from that of its twin in {words} words; a "
                f"minimal pair differs in {design.twin_words} at most."
            )


def _of_task(stage: Stage, name: str, stories: Sequence[Story], design: Design) -> Iterator[str]:
    where = _at(stage, name)
    told = [story for story in stories if stage.file.scenario(story.version) == FALSE_BELIEF]
    versions = [stage.version(story) for story in told]
    roles = Counter(stage.role(story) for story in told)
    low, high = design.versions.none if name == "none" else design.versions.perturbed
    if not low <= len(told) <= high:
        yield f"{where}: The task has {len(told)} stories of the false-belief scenario; expected {low} to {high}."
    if name == "none":
        if set(roles) != {"cue"}:
            yield f"{where}: A false-belief story of the unperturbed task is not answered by the cue."
    else:
        for role in ROLES:
            if not roles[role]:
                yield f"{where}: No false-belief story has the answer {role!r} (seen from the cue)."
        if not any(version.twin for version in versions):
            yield f"{where}: No version is the `twin` of another; the task needs a minimal pair."
    if not any(version.ground == "unstated" for version in versions):
        yield f"{where}: Every false-belief story states what settles the belief; leave it unstated in one of them."
    aware = {stage.version(story).aware for story in stories}
    if name == AUTOMATIC and aware != {True, False}:
        yield f"{where}: `aware` is {aware.pop()} in all versions; the person knows of the mechanism in some only."


def _length(stage: Stage, story: Story) -> Iterator[str]:
    low, high = SENTENCES
    where = _at(stage, story.task, story.version)
    if not low <= len(story.sentences) <= high:
        yield f"{where}: The story has {len(story.sentences)} sentences; expected {low} to {high}."
    words = [len(sentence.text.split()) for sentence in story.sentences.values()]
    if max(words) > WORDS_A_SENTENCE:
        yield f"{where}: The longest sentence has {max(words)} words; expected {WORDS_A_SENTENCE} at most."
    if sum(words) / len(words) > WORDS_ON_AVERAGE:
        mean = sum(words) / len(words)
        yield f"{where}: The sentences have {mean:.1f} words on average; expected {WORDS_ON_AVERAGE:g} at most."


def _sense(stage: Stage, story: Story) -> Iterator[str]:
    """The problems of what a story makes of reality and belief, by the design of its scenario and of its twin."""
    where = _at(stage, story.task, story.version)
    version, scenario = stage.version(story), stage.file.scenario(story.version)
    verbs = {parse(event).verb for sentence in story.sentences.values() for event in sentence.events}
    if "infer" in verbs and story.task not in INFERENCE:
        yield f"{where}: The event `infer` belongs to the classes {', '.join(INFERENCE)} only."
    found_out = scenario in ("informed_protagonist", *(names[-1] for names in SCENARIOS.values()))
    if found_out and version.belief != version.reality:
        yield f"{where}: The person is told or sees how it is, but the belief is not the reality."
    if scenario != FALSE_BELIEF and version.reality == UNKNOWN:
        yield f"{where}: The story is a control and never settles reality."
    if version.twin:
        other = stage.story(story.task, version.twin)
        if stage.file.tasks[story.task].versions[version.twin].belief == version.belief:
            yield f"{where}: The belief is the same as in its twin {version.twin}, so that the pair shows nothing."
        elif "cue" not in {stage.role(story), stage.role(other)}:
            yield f"{where}: In neither story of the minimal pair does the cue count again."
    symbols = {symbol for one in story.sentences.values() for symbol in re.findall(r"\{([xy])", one.text)}
    if symbols != {"x", "y"}:
        yield f"{where}: The story does not mention both labels."


def pairs(stage: Stage) -> Iterator[tuple[Story, int]]:
    """The stories that are the twin of another, each with the number of words in which the two differ: replaced,
    inserted or left out, the larger number where words replace others."""
    for story in stage.stories:
        if (twin := stage.version(story).twin) is not None:
            yield story, _edit(_words(stage.story(story.task, twin)), _words(story))


def _words(story: Story) -> list[str]:
    return [word for sentence in story.sentences.values() for word in sentence.text.split()]


def _edit(one: Sequence[str], other: Sequence[str]) -> int:
    steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for step, i1, i2, j1, j2 in steps if step != "equal")


def duplicates(items: Sequence[Item]) -> Iterator[str]:
    """Check that no story occurs twice."""
    seen: dict[tuple[str, ...], str] = {}
    for item in items:
        if item.factors["question_kind"] == "belief" and (first := seen.setdefault(item.story, item.id)) != item.id:
            yield f"{item.id}: The story is the same as that of {first}."


def exchanged(items: Sequence[Item]) -> Iterator[str]:
    """Check that of each question there are two versions, and that the second has the right answer of the first with
    the labels exchanged."""
    found: dict[str, dict[object, Item]] = {}
    for item in items:
        found.setdefault(item.id.rpartition("/")[0], {})[item.factors["swapped"]] = item
    for name, both in found.items():
        if set(both) != {False, True}:
            yield f"{name}: There is one version of the question; expected two, with the labels exchanged in one."
            continue
        one, other = both[False], both[True]
        labels = [choice for choice in one.choices if choice != UNKNOWN]
        turned = dict(zip(labels, reversed(labels), strict=True)).get(one.answer, UNKNOWN)
        if other.answer != turned or other.choices != one.choices:
            yield f"{name}: The version with exchanged labels has the answer {other.answer!r}; expected {turned!r}."


def leaks(items: Sequence[Item]) -> Iterator[str]:
    """Check that no question names a label or asks about the future."""
    for item in items:
        for choice in item.choices:
            if re.search(rf"\b{re.escape(choice)}\b", item.question, re.I):
                yield f"{item.id}: The question names the label {choice!r}."
        if "will " in item.question:
            yield f"{item.id}: The question asks about the future, not about a belief."
