"""Checks of stage files beyond their format: an edition's design, minimal pairs, balance, leaks, and what fresh
editions need. What an edition has to hold stands in the ``design.yaml`` of its folder.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from statistics import median
from typing import Annotated, Literal

from pydantic import Field

from tomserve import content
from tomserve.benchmarks.base import Findings, outcome
from tomserve.benchmarks.perturbed.fresh import (
    Names,
    describe_overlap,
    generate_items,
    other_words,
    scope,
    sentences,
    texts,
)
from tomserve.benchmarks.perturbed.stages import (
    AUTOMATIC,
    FALSE_BELIEF,
    PERTURBATIONS,
    ROLES,
    SCENARIOS,
    Edition,
    Place,
    Stage,
    Story,
    in_false_belief_subset,
    parse,
)
from tomserve.benchmarks.perturbed.variants import Retold, StageRewording, largest_reduction, retold_path, slots
from tomserve.content.text import count_noun
from tomserve.content.validation import Strict, load_model
from tomserve.errors import ContentError, InapplicableError
from tomserve.items import UNKNOWN, Item, items_digest
from tomserve.scoring.baselines import list_mentions
from tomserve.variants import CONDENSED, LEAST, MOST
from tomserve.variants.words import NounReplacer, find_derived, find_verb_uses, is_part_of_label, looks_plural

Kind = Literal["unexpected_contents", "unexpected_transfer"]
Share = Annotated[float, Field(ge=0, le=1)]

INFERENCE = ("induction_from_baseline", "untrustworthy_testimony", "conclusion_from_sentiment")
"""Classes in which the asked person infers something, which the author has to state."""

WORDS_ON_AVERAGE = 18.0


class Versions(Strict):
    """How many stories of the false-belief scenario a task has, at least and at most: of the class none, of others."""

    none: tuple[int, int]
    perturbed: tuple[int, int]


class Pairs(Strict):
    """What an edition with minimal pairs has to hold."""

    versions: Versions
    unknown_realities: int  # stories of a stage, at least, that never settle reality
    least_share: Share  # of each role, place and order of mention of right answers, in every class of the subset
    second_wordings: Share  # the least share of the sentences that versions share that have a second wording
    twin_words: int  # in which the stories of a minimal pair differ, at most


class Design(Strict):
    """What an edition has to hold."""

    schema_: Literal[1] = Field(alias="schema")
    stages: dict[Kind, tuple[str, ...]]
    lacks: dict[str, frozenset[str]] = {}  # classes, by the kind of stage or the stage that has no task of them
    questions: tuple[int, int]  # how many items, at least and at most
    sentences: tuple[int, int]  # of a story, at least and at most
    words: int  # of a sentence, at most
    pairs: Pairs | None = None
    critical: frozenset[str] = frozenset()  # of which half of the tasks take the critical form, without pairs


def load_design(edition: Edition) -> Design:
    """The design of the edition. Raises ConfigError where there is none, ContentError by line for a mistake in it."""
    return load_model(content.require(f"{edition.folder}/design.yaml"), Design)


def validate_stages(stages: Sequence[Stage], own: bool) -> Findings:
    """The check as lines: one for each stage, one for each problem, how much the minimal pairs differ, and a summary.
    The exit code is 1 for problems.

    own: whether these are the stages of the dataset itself, so that the whole design must hold. Raises ConfigError
    where the design is missing.
    """
    design = load_design(stages[0].edition)
    items = [item for stage in stages for item in stage.items()]
    listed = [problem for stage in stages for problem in check_stage(stage, design)]
    listed += [problem for check in (check_duplicates, check_leaks) for problem in check(items)]
    listed += [problem for stage in stages for problem in find_retold_problems(stage)]
    if own:
        listed += find_design_problems(stages, items, design)
    lines = []
    for stage in stages:
        count = len(stage.stories)
        otherwise = ", told otherwise as well" if retold_path(stage).is_file() else ""
        counts = f"{len(stage.file.tasks)} tasks, {count} stories, {4 * count} questions"
        lines.append(f"{stage.file.stage}: {counts}{otherwise}")
    summary = [f"{len(items)} questions in {len(stages)} stages, {items_digest(iter(items))[:19]}: {outcome(listed)}"]
    if edits := [words for stage in stages for _, words in compare_twins(stage)]:
        differ = f"differ in {median(edits):g} words (the median; at most {max(edits)})"
        summary.insert(0, f"{len(edits)} minimal pairs, which {differ}")
    return Findings.of_problems(listed, *summary, before=lines)


def find_design_problems(stages: Sequence[Stage], items: Sequence[Item], design: Design) -> Iterator[str]:
    """The problems of the whole edition: its stages and classes, its size, and how right answers are spread."""
    kinds = {name: kind for kind, names in design.stages.items() for name in names}
    found = {stage.file.stage: stage for stage in stages}
    for name in sorted(set(kinds) - set(found)):
        yield f"The stage {name} is missing; the design names it."
    for name, stage in found.items():
        if kinds.get(name) != stage.file.kind:
            said = f"as {kinds[name]}" if name in kinds else "not at all"
            yield f"{stage.path}: The stage {name} is of the kind {stage.file.kind}; the design names it {said}."
            continue
        lacks = design.lacks.get(stage.file.kind, frozenset()) | design.lacks.get(name, frozenset())
        for task in sorted(set(PERTURBATIONS).difference(lacks) ^ set(stage.file.tasks)):
            wrong = "has no task of" if task not in stage.file.tasks else "has a task that the design does not foresee:"
            yield f"{stage.path}: The stage {name} {wrong} the class {task}."
    low, high = design.questions
    if not low <= len(items) <= high:
        yield f"There are {len(items)} questions, expected {low} to {high}."
    yield from check_canaries(stages)
    if design.pairs is not None:
        yield from check_balance(items, design.pairs.least_share)
    else:
        yield from check_critical_forms(stages, design.critical)


def check_critical_forms(stages: Sequence[Stage], critical: frozenset[str]) -> Iterator[str]:
    """The problems of an edition without pairs: about half of the tasks of these classes take the critical form, in
    some tasks the person knows of the mechanism, and "unknown" does not stand at one place among most choices."""
    told = [(stage, stage.story(name, FALSE_BELIEF)) for stage in stages for name in stage.file.tasks]
    for name in sorted(critical):
        forms = [stage.is_critical(story) for stage, story in told if story.task == name]
        if forms and not 0.4 <= sum(forms) / len(forms) <= 0.6:
            yield f"{name}: {sum(forms)} of {len(forms)} tasks take the critical form, expected about half."
    if {stage.version(story).aware for stage, story in told if story.task == AUTOMATIC} != {True, False}:
        yield f"{AUTOMATIC}: `aware` must be true in some tasks and false in others."
    if (most := max(Counter(stage.choices(story).index(UNKNOWN) for stage, story in told).values())) > 0.6 * len(told):
        yield f"The choice {UNKNOWN!r} stands at one place in {most} of {len(told)} tasks."


def check_canaries(stages: Sequence[Stage]) -> Iterator[str]:
    """The problems of the canary, the line by which a text is known to be benchmark data: all stages have the same."""
    usual = Counter(stage.file.canary for stage in stages if stage.file.canary).most_common(1)
    for stage in stages:
        if not stage.file.canary:
            yield f"{stage.path}: The canary is missing; copy it from another stage."
        elif stage.file.canary != usual[0][0]:
            line = stage.lines.at(("canary",))
            yield f"{stage.path}:{line}: The canary is another than in most stages; copy it from one of these."


def count_shares(items: Sequence[Item]) -> Mapping[tuple[str, str], Counter[str]]:
    """How often the right answer of the false-belief subset is what, by class and by what is counted (see VALUES)."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for item in items:
        if in_false_belief_subset(item.factors):
            name, named = str(item.factors["perturbation"]), list_mentions(item)
            found[name, "role"][str(item.factors["belief_role"])] += 1
            found[name, "place"][str(item.choices.index(item.answer) + 1)] += 1
            for what, label in (("first", named[:1]), ("last", named[-1:])):
                here = what if (item.answer,) == label else f"not {what}"
                found[name, f"{what} mention"][UNKNOWN if item.answer == UNKNOWN else here] += 1
    return found


VALUES = {
    "role": ROLES,
    "place": ("1", "2", "3"),
    "first mention": ("first", "not first"),
    "last mention": ("last", "not last"),
}
"""The values that have to come up equally often, by what is counted of right answers."""


def check_balance(items: Sequence[Item], least: float) -> Iterator[str]:
    """The problems of how right answers are spread: in each class but none over roles, places and orders of mention;
    and that "unknown" is an answer of questions about reality too."""
    for (name, what), counts in sorted(count_shares(items).items()):
        if name == "none":
            continue
        total = counts.total()
        for value in VALUES[what]:
            if counts[value] < least * total:
                yield (
                    f"In the class {name} the right answer's {what} is {value!r} in {counts[value]} of {total} "
                    f"questions of the false-belief subset; expected {least:.0%} at least."
                )
    if not any(item.answer == UNKNOWN for item in items if item.factors["question_kind"] == "reality"):
        yield "No question about reality has the answer 'unknown'."


def find_retold_problems(stage: Stage) -> Iterator[str]:
    """One line for each thing that is wrong with the file of a stage, with file, line and field; none where there is no
    file. Besides mistakes these are stories that cannot be told in 30 to 40% fewer words."""
    if not retold_path(stage).is_file():
        return
    try:
        checked = Retold(stage)
    except ContentError as error:
        yield str(error)
        return
    faults = list(checked.faults())
    yield from (str(fault.error) for fault in faults)
    if not faults:
        yield from _lengths(checked)


def _lengths(checked: Retold) -> Iterator[str]:
    telling = StageRewording(checked.stage, checked, {})
    for story in checked.stage.stories:
        try:
            telling.retell(story, CONDENSED)
        except InapplicableError:
            share = largest_reduction(telling.forms(story))
            where = f"{checked.path}:{checked.lines.at(('tasks', story.task))}: {story.task}/{story.version}"
            yield (
                f"{where}: All sentences in their short form have {share:.1%} fewer words; expected {LEAST:.0%} at "
                f"least, and full ones beside them that make it {MOST:.0%} at most."
            )


def _at(stage: Stage, task: str, version: str | None = None) -> str:
    """Where a task or version is written, as ``file:line: name``."""
    loc = ("tasks", task, *(("versions", version) if version else ()))
    name = "/".join((stage.file.stage, task, *([version] if version else [])))
    return f"{stage.path}:{stage.lines.at(loc)}: {name}"


def check_stage(stage: Stage, design: Design) -> Iterator[str]:
    """The problems of one stage: of its wordings, its tasks' versions, and its stories."""
    pairs = design.pairs
    for name in stage.file.tasks:
        stories = [story for story in stage.stories if story.task == name]
        if pairs is not None:
            yield from _check_pair(stage, name, stories, pairs)
        else:
            yield from _check_classic(stage, name, design.critical)
        for story in stories:
            yield from _check_length(stage, story, design)
            yield from _check_sense(stage, story)
    if pairs is None:
        for word in stage.file.words:
            for place, reason in dict.fromkeys(_Checker(stage).word(word)):
                yield str(_at_place(stage, place, reason))
        return
    shared = [sentence for task in stage.file.tasks.values() for sentence in task.story.values()]
    several = sum(len(sentence.texts) > 1 for sentence in shared)
    if several < pairs.second_wordings * len(shared):
        yield (
            f"{stage.path}: Of {len(shared)} sentences under `story`, {several} have a second wording, from which "
            f"fresh editions draw; expected {pairs.second_wordings:.0%} at least."
        )
    unsettled = sum(stage.version(story).reality == UNKNOWN for story in stage.stories)
    if unsettled < (expected := pairs.unknown_realities):
        yield f"{stage.path}: Reality is unknown in {unsettled} stories of the stage; expected {expected} at least."
    for story, words in compare_twins(stage):
        if words > pairs.twin_words:
            yield (
                f"{_at(stage, story.task, story.version)}: The story differs from that of its twin in {words} words; a "
                f"minimal pair differs in {pairs.twin_words} at most."
            )


def _check_pair(stage: Stage, name: str, stories: Sequence[Story], design: Pairs) -> Iterator[str]:
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


def _check_classic(stage: Stage, name: str, critical: frozenset[str]) -> Iterator[str]:
    """The problems of a task with one false-belief story: what its class must make of reality and belief."""
    where, story = _at(stage, name), stage.story(name, FALSE_BELIEF)
    version, cue = stage.version(story), stage.cue(story)
    belief, reality = version.belief, version.reality
    if name in ("none", "add_unrelated_information") and (belief != cue or belief == reality):
        yield f"{where}: A classic false belief must be the cue and differ from reality."
    if name in ("transparent_container", "preposition_replacement") and belief != reality:
        yield f"{where}: The person sees, but the belief is not the reality."
    if name == "uninformative_label" and belief != UNKNOWN:
        yield f"{where}: An unreadable label must leave the belief {UNKNOWN!r}."
    if name in critical and belief == cue:
        yield f"{where}: A perturbed belief must differ from the cue."
    if name not in critical and stage.is_critical(story):
        yield f"{where}: The task takes the critical form, which is not foreseen for this class."


def _check_length(stage: Stage, story: Story, design: Design) -> Iterator[str]:
    low, high = design.sentences
    where = _at(stage, story.task, story.version)
    if not low <= len(story.sentences) <= high:
        yield f"{where}: The story has {len(story.sentences)} sentences; expected {low} to {high}."
    words = [len(sentence.text.split()) for sentence in story.sentences.values()]
    if max(words) > design.words:
        yield f"{where}: The longest sentence has {max(words)} words; expected {design.words} at most."
    if sum(words) / len(words) > WORDS_ON_AVERAGE:
        mean = sum(words) / len(words)
        yield f"{where}: The sentences have {mean:.1f} words on average; expected {WORDS_ON_AVERAGE:g} at most."


def _check_sense(stage: Stage, story: Story) -> Iterator[str]:
    """The problems of what a story makes of reality and belief, by the design of its scenario and of its twin."""
    where = _at(stage, story.task, story.version)
    version, scenario = stage.version(story), stage.file.scenario(story.version)
    verbs = {parse(event).verb for sentence in story.sentences.values() for event in sentence.events}
    if "infer" in verbs and story.task not in INFERENCE:
        yield f"{where}: The event `infer` belongs to the classes {', '.join(INFERENCE)} only."
    found_out = scenario in ("informed_protagonist", *(names[-1] for names in SCENARIOS.values()))
    if found_out and version.belief != version.reality:
        yield f"{where}: The person is told or sees how it is, but the belief is not the reality."
    if version.reality == UNKNOWN and not (scenario == FALSE_BELIEF and stage.edition.pairs):
        why = "never settles reality" if scenario == FALSE_BELIEF else "is a control and never settles reality"
        yield f"{where}: The story {why}."
    if version.twin:
        other = stage.story(story.task, version.twin)
        if stage.file.tasks[story.task].versions[version.twin].belief == version.belief:
            yield f"{where}: The belief is the same as in its twin {version.twin}, so that the pair shows nothing."
        elif "cue" not in {stage.role(story), stage.role(other)}:
            yield f"{where}: In neither story of the minimal pair does the cue count again."
    symbols = {symbol for one in story.sentences.values() for symbol in re.findall(r"\{([xy])", one.text)}
    if stage.edition.pairs and symbols != {"x", "y"}:
        yield f"{where}: The story does not mention both labels."


def compare_twins(stage: Stage) -> Iterator[tuple[Story, int]]:
    """The stories that are the twin of another, each with the number of words in which the two differ: replaced,
    inserted or left out, the larger number where words replace others."""
    for story in stage.stories:
        if (twin := stage.version(story).twin) is not None:
            one, other = (
                [word for sentence in told.sentences.values() for word in sentence.text.split()]
                for told in (stage.story(story.task, twin), story)
            )
            steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
            yield story, sum(max(i2 - i1, j2 - j1) for step, i1, i2, j1, j2 in steps if step != "equal")


def check_duplicates(items: Sequence[Item]) -> Iterator[str]:
    """Check that no story occurs twice."""
    seen: dict[tuple[str, ...], str] = {}
    for item in items:
        if item.factors["question_kind"] == "belief" and (first := seen.setdefault(item.story, item.id)) != item.id:
            yield f"{item.id}: The story is the same as that of {first}."


def check_leaks(items: Sequence[Item]) -> Iterator[str]:
    """Check that no question names a label or asks about the future."""
    for item in items:
        for choice in item.choices:
            if re.search(rf"\b{re.escape(choice)}\b", item.question, re.I):
                yield f"{item.id}: The question names the label {choice!r}."
        if "will " in item.question:
            yield f"{item.id}: The question asks about the future, not about a belief."


def find_fresh_problems(stage: Stage) -> list[ContentError]:
    """All that would go wrong in a fresh edition of the stage, each with file, line and field; sorted by line."""
    found = [_at_place(stage, place, reason) for place, reason in dict.fromkeys(_Checker(stage).problems())]
    return sorted(found, key=lambda problem: problem.line or 0)


def _at_place(stage: Stage, place: Place, reason: str) -> ContentError:
    return ContentError(reason, path=stage.path, line=stage.lines.at(place), field=".".join(map(str, place)))


Problem = tuple[Place, str]

_FROM_NAMES = r"(?:e?s|ish|\w?(?:y|ie)|it[ao])"
"""Endings of words that are made of a name, such as "Sammy"; Annecy is not made of Ann."""


class _Checker:
    """Yields the problems of a stage as pairs of a place in the file and a reason."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.file = stage, stage.file
        self.texts, self.forms = list(texts(stage.file)), stage.file.label_forms

    def problems(self) -> Iterator[Problem]:
        longest = load_design(self.stage.edition).words
        yield from self.labels()
        for word in self.file.words:
            yield from self.word(word)
        for name in self.file.people:
            yield from self.name(name)
        for name, task in self.file.tasks.items():
            for place, sentence in sentences(task, ("tasks", name)):
                yield from self.wordings(place, sentence.texts, longest)

    def labels(self) -> Iterator[Problem]:
        if not self.file.spare:
            yield ("labels",), "there are no `spare` pairs, so that a fresh edition would have the same labels"
        several = {looks_plural(slot.label) for slot in self.file.labels.values()}
        for number, pair in enumerate(self.file.spare):
            for slot in pair.values():
                if {looks_plural(slot.label)} != several:
                    yield ("spare", number), f"{slot.label!r} and the stage's labels are not all singular or all plural"

    def word(self, word: str) -> Iterator[Problem]:
        """What is wrong with replacing one thing by each of its other words."""
        here: Place = ("words", word)
        others = other_words(self.file, word)
        things = NounReplacer({word: word})
        told = [one for one in self.texts if one[1] in scope(self.file, word)]
        where = [(place, task, text) for place, task, text in told if things.occurs(text)]
        if not where:
            yield here, f"{word!r} stands in no sentence"
        if all(others.values()):
            said = "; ".join(f"{other!r} {reason}" for other, reason in others.items())
            yield here, f"there is no other word that can be used: {said or 'none is given'}"
        if clash := next((form for form in self.forms if is_part_of_label(word, form)), None):
            yield here, f"{word!r} is part of the label {clash!r}, which would stay"
        tasks = {task for _, task, _ in where}
        for place, task, text in told:
            if task not in tasks and None not in tasks:
                continue
            for found in (*find_verb_uses(text, word, self.file.people), *find_derived(text, word)):
                yield place, f"{found}; mend the sentence, or leave {word!r} out of `words`"

    def name(self, name: str) -> Iterator[Problem]:
        """What is wrong with replacing the name of one person."""
        stem = re.escape(name)
        for place, _, text in self.texts:
            if match := re.search(rf"(?<!\w)({re.escape(name.lower())}|{re.escape(name.upper())})(?!\w)", text):
                yield place, f"{match[0]!r} would stay although {name!r} is a person's name; use another word or name"
            elif (match := re.search(rf"(?<!\w){stem}{_FROM_NAMES}(?!\w)", text)) and match[0] not in self.file.people:
                yield place, f"{match[0]!r} is made of the name {name!r} and would stay; use another word or name"
        if clash := next((form for form in self.forms if is_part_of_label(name, form)), None):
            yield ("people", name), f"the name {name!r} is part of the label {clash!r}, which would stay"

    def wordings(self, place: Place, wordings: Sequence[str], longest: int) -> Iterator[Problem]:
        """Whether all wordings of a sentence name the same labels and people, and none is too long."""
        first = slots(wordings[0])
        for number, text in enumerate(wordings[1:], 1):
            if slots(text) != first:
                shown = " and ".join(sorted(first)) or "no label"
                yield (*place, number), f"the wordings name different labels; the first names {shown}"
            if len(text.split()) > longest:
                yield (*place, number), f"{len(text.split())} words, expected at most {longest}"


def find_unused_words(stage: Stage) -> Iterator[str]:
    """A line for each of the stage's other words that fresh editions do not use, and why."""
    for word in stage.file.words:
        for other, reason in other_words(stage.file, word).items():
            if reason is not None:
                yield f"{stage.path}:{stage.lines.at(('words', word))}: {other!r} is not used for {word!r}: it {reason}"


def check_fresh(stages: Sequence[Stage], names: Names) -> Findings:
    """What keeps stages from being told anew, what is not used, and how much of the released stories would be kept."""
    listed = [problem for stage in stages for problem in find_fresh_problems(stage)]
    lines = [line for stage in stages for line in find_unused_words(stage)]
    if not listed:
        released = [item for stage in stages for item in stage.items()]
        lines.append(describe_overlap(released, [one for stage in stages for one in generate_items(stage, 0, names)]))
    count = count_noun(len(listed), "problem") if listed else "every stage can be told anew"
    return Findings.of_problems(list(map(str, listed)), f"{count_noun(len(stages), 'stage')}: {count}", before=lines)
