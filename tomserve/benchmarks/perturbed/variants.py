"""Variants of the items of stage files: other names, things, wordings or order, or fewer words.

What is drawn depends on the stage, the class and what is drawn alone, so that a story changes in the same
way everywhere. The retold sentences of ``dataset/perturbed-2/stages/C01.yaml`` stand in
``dataset/perturbed-2/retold/C01.yaml``; how to write them is in dataset/perturbed-2/WRITING.md.

    >>> choose_forms([SentenceForms("Ann, who is tall, finds a tin.", "Ann finds a tin.", 2),
    ...               SentenceForms("It is a fine day.", "", 0),
    ...               SentenceForms("She has tea with milk and sugar and reads it.", "She has tea and reads it.", 2)])
    ('Ann finds a tin.', 'It is a fine day.', 'She has tea and reads it.')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from tomserve import variants
from tomserve.benchmarks.perturbed.fresh import (
    Names,
    draw_names,
    order_by_key,
    other_words,
    read_names,
    regenerate,
    scope,
    sentences,
)
from tomserve.benchmarks.perturbed.stages import (
    QUESTIONS,
    SECOND,
    SLOT,
    Edition,
    Line,
    Prose,
    Questions,
    Sentence,
    Stage,
    Story,
    derive,
    fill,
    load_stages,
    rationale,
)
from tomserve.content.validation import Strict, load_yaml, validate
from tomserve.errors import ContentError, InapplicableError, one_of
from tomserve.items import Item
from tomserve.variants import names, pronouns, text_rules
from tomserve.variants.words import WORDS, NameReplacer, NounReplacer

FOLDER = "retold"
STORY = "story"
"""Under this stand the sentences that the versions of a task share; those of a version stand under its name."""

Key = tuple[str, str, str]
"""Which sentence it is: the task, STORY or the version that holds it, and its name."""


class RetoldSentence(Strict):
    """The other wordings of one sentence."""

    short: str  # in fewer words; "" where a condensed story leaves it out
    other: Annotated[str, Field(min_length=1)] | None = None  # in other words, if the stage file has no second wording


class _Task(Strict):
    """The other wordings of the sentences of a task, and pairs of neighbours ("first second") that may change places:
    in the versions that are listed, or where none is listed in all in which the two are neighbours."""

    story: dict[str, RetoldSentence] = {}
    versions: dict[str, dict[str, RetoldSentence]] = {}
    exchange: dict[Annotated[str, Field(pattern=r"^\w+ \w+$")], list[str]] = {}


class RetoldFile(Strict):
    """A file as it is written: by task, by version and by name of the sentence, as they are named in the stage file."""

    schema_: Literal[1] = Field(alias="schema")
    stage: str
    tasks: dict[str, _Task] = Field(min_length=1)


class Fault(NamedTuple):
    """What is wrong with a file of retold sentences."""

    error: ContentError
    grave: bool  # whether a variant made of it might tell another story, so that none is made; else some are missing


def retold_path(stage: Stage) -> Path:
    """Where the file with the other wordings of this stage would lie."""
    return stage.path.absolute().parent.parent / FOLDER / f"{stage.file.stage}.yaml"


def read_retold(stage: Stage) -> Retold | None:
    """The retold sentences of a stage; None where there is no file. Raises ContentError with file, line and field for
    a mistake by which a variant might tell another story."""
    if not retold_path(stage).is_file():
        return None
    retold = Retold(stage)
    for fault in retold.faults():
        if fault.grave:
            raise fault.error
    return retold


def keyed_sentences(stage: Stage) -> dict[Key, Sentence]:
    """Every sentence of a stage by what holds it."""
    found: dict[Key, Sentence] = {}
    for name, task in stage.file.tasks.items():
        for place, sentence in sentences(task, ("tasks", name)):
            where = STORY if place[2] == STORY else str(place[3])
            found[name, where, str(place[-1])] = sentence
    return found


class Retold:
    """A file of retold sentences, and what is wrong with it. Raises ContentError where it cannot be read at all."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.path = stage, retold_path(stage)
        data, self.lines = load_yaml(self.path)
        self.file = validate(data, RetoldFile, path=self.path, lines=self.lines)
        self.sentences: dict[Key, RetoldSentence] = {}
        for task, told in self.file.tasks.items():
            for where, own in {STORY: told.story, **told.versions}.items():
                self.sentences |= {(task, where, name): one for name, one in own.items()}
        self._prose = Prose(stage.file.labels)

    def may_change(self, story: Story, first: str, second: str) -> bool:
        """Whether the author of the file says that two neighbours of a story may change places."""
        told = self.file.tasks.get(story.task)
        versions = told.exchange.get(f"{first} {second}") if told is not None else None
        return versions is not None and (not versions or story.version in versions)

    def _fault(self, reason: str, *loc: str, grave: bool = False) -> Fault:
        field = ".".join(loc)
        return Fault(ContentError(reason, path=self.path, line=self.lines.at(loc), field=field), grave)

    def faults(self) -> Iterator[Fault]:
        """Everything that is wrong, in the order of the stage file."""
        if self.file.stage != self.stage.file.stage:
            reason = f"is {self.file.stage!r}; expected {self.stage.file.stage!r}, by which the file is named"
            yield self._fault(reason, "stage", grave=True)
            return
        written, tasks = keyed_sentences(self.stage), self.stage.file.tasks
        # One that every version replaces needs no other telling.
        told = {id(sentence) for story in self.stage.stories for sentence in story.sentences.values()}
        for key in self.sentences:
            if key not in written:
                yield self._strange(key, written)
        for key, sentence in written.items():
            if key in self.sentences:
                yield from self._sentence(key, sentence)
            elif id(sentence) in told:
                yield self._fault(f"tells no {key[2]!r}, which a version uses; add it", *_place(key)[:-1])
        for task, wordings in self.file.tasks.items():
            for pair, versions in wordings.exchange.items() if task in tasks else ():
                yield from self._exchange(task, pair, versions)

    def _exchange(self, task: str, pair: str, versions: Sequence[str]) -> Iterator[Fault]:
        place, known = ("tasks", task, "exchange", pair), self.stage.file.tasks[task].versions
        if strange := [one for one in versions if one not in known]:
            yield self._fault(one_of("version", strange[0], known), *place, grave=True)
            return
        names = (pair.split(" ")[0], pair.split(" ")[1])
        stories = [story for story in self.stage.stories if story.task == task and names in pairwise(story.sentences)]
        told = [story for story in stories if not versions or story.version in versions]
        for version in versions or ([] if told else ["any version"]):
            if version not in [story.version for story in told]:
                reason = f"are no neighbours in {version}; give two names in the order of the story"
                yield self._fault(reason, *place)
        for story in told:
            if not may_commute(self.stage, story, list(story.sentences).index(names[0])):
                reason = f"cannot change places in version {story.version!r}: the events would give another answer"
                yield self._fault(reason, *place)

    def _strange(self, key: Key, written: Mapping[Key, Sentence]) -> Fault:
        task, where, name = key
        place = _place(key)
        if task not in self.stage.file.tasks:
            return self._fault(one_of("task", task, self.stage.file.tasks), *place[:2], grave=True)
        if where != STORY and where not in self.stage.file.tasks[task].versions:
            known = self.stage.file.tasks[task].versions
            return self._fault(one_of("version", where, known), *place[:-1], grave=True)
        known_names = [one for in_task, held, one in written if (in_task, held) == (task, where)]
        if not known_names:
            return self._fault(f"the version {where!r} has no sentence of its own; leave it out", *place, grave=True)
        return self._fault(one_of("sentence", name, known_names), *place, grave=True)

    def _sentence(self, key: Key, sentence: Sentence) -> Iterator[Fault]:
        told, place = self.sentences[key], _place(key)
        if told.other is None and len(sentence.texts) < 2:
            yield self._fault("is missing; the stage file has no second wording", *place, "other")
        if told.other is not None:
            yield from self._wording(told.other, sentence, (*place, "other"))
            if told.other in sentence.texts:
                yield self._fault("is a wording that stands in the stage file", *place, "other")
        if told.short:
            yield from self._wording(told.short, sentence, (*place, "short"))
            if (count := len(told.short.split())) > (before := len(sentence.text.split())):
                reason = f"has {count} words, more than the {before} of the sentence itself"
                yield self._fault(reason, *place, "short")
        elif sentence.events or slots(sentence.text):
            why = "events" if sentence.events else "labels"
            reason = f"is empty, but the sentence has {why}, so that it cannot be left out"
            yield self._fault(reason, *place, "short", grave=True)

    def _wording(self, text: str, sentence: Sentence, place: tuple[str, ...]) -> Iterator[Fault]:
        if (mistake := self._prose.mistake(text)) is not None:
            yield self._fault(mistake, *place, grave=True)
        elif slots(text) != slots(sentence.text):
            found, wanted = (" and ".join(sorted(slots(one))) or "no label" for one in (text, sentence.text))
            yield self._fault(f"names {found}; expected {wanted}, as the sentence itself", *place, grave=True)
        if not re.search(r"[.!?][\"”]?$", text):
            yield self._fault("does not end as a sentence does", *place)


def may_commute(stage: Stage, story: Story, place: int) -> bool:
    """Whether the sentence at that place (from 0) and the next may change places as far as their events go: after both,
    and from there on, reality and the belief must be the same."""
    events = [sentence.events for sentence in story.sentences.values()]
    events[place], events[place + 1] = events[place + 1], events[place]
    try:
        after = derive(events, stage.file.asked_person(story.task))
    except ValueError:  # such as a mechanism that runs before it is set
        return False
    then = [(line.world.labels, line.belief.labels) for line in after[place + 1 :]]
    return then == [(line.world.labels, line.belief.labels) for line in story.lines[place + 1 :]]


def slots(text: str) -> set[str]:
    """The labels that a text names, with their forms, as the slots that stand in it."""
    return {match[0] for match in SLOT.finditer(text)}


def _place(key: Key) -> tuple[str, ...]:
    """Where a sentence stands in the file."""
    task, where, name = key
    return ("tasks", task, STORY, name) if where == STORY else ("tasks", task, "versions", where, name)


class SentenceForms(NamedTuple):
    """A sentence as it is, in its short form ("" where it may be left out), and how much it matters (0 the least)."""

    full: str
    short: str
    weight: int


def choose_forms(forms: Sequence[SentenceForms]) -> tuple[str, ...] | None:
    """Of each sentence the full or the short form, so that the story has 30 to 40% fewer words (LEAST to MOST of
    tomserve.variants); "" for one that is left out. None where that cannot be had.

    All are short at first. Where that is too short, sentences get their full form back, those that matter least first
    and of these the first in the story first, unless the story would be too long then.
    """
    words = [(len(form.full.split()), len(form.short.split())) for form in forms]
    before = sum(full for full, _ in words)
    now = sum(short for _, short in words)
    told = [form.short for form in forms]
    for place in sorted(range(len(forms)), key=lambda place: (forms[place].weight, place)):
        full, short = words[place]
        if now >= (1 - variants.MOST) * before:
            break
        if now - short + full <= (1 - variants.LEAST) * before:
            told[place], now = forms[place].full, now - short + full
    shorter = 1 - now / before
    return tuple(told) if variants.LEAST <= shorter <= variants.MOST else None


def largest_reduction(forms: Sequence[SentenceForms]) -> float:
    """By which share a story has fewer words where all its sentences are short."""
    return 1 - sum(len(form.short.split()) for form in forms) / sum(len(form.full.split()) for form in forms)


NOT_WRITTEN = "no other telling is written for this stage"
NOT_ALL_WRITTEN = "no other telling is written for one of its sentences"
NOT_SHORTENED = "it cannot be told in 30 to 40% fewer words"
NO_THING = "no thing of the story has another word"
NO_NAMES = "there are not enough other names"
FIXED = "no sentence can change its place"

OPEN_TO_VIEW = frozenset(
    (
        *("glass", "jar", "bottle", "flask", "carafe", "vase", "window", "aquarium", "tank", "cage", "net", "basket"),
        *("bowl", "cup", "tray", "rack", "plate", "dish"),
    )
)
"""Things that one may see into by their nature. Where a story is about what a container holds, none of them takes the
place of another thing, so that the content stays as hidden as it was, and none is replaced."""

_CONTENTS = "unexpected_contents"
_TURNED = {"she": "he", "he": "she", "they": "they"}


@dataclass(frozen=True)
class RetoldStory:
    """A story in a variant: its texts with slots for the labels, the events of each, its questions, and whose belief is
    asked for."""

    texts: tuple[str, ...]
    events: tuple[Sequence[str], ...]
    questions: Questions
    asked: str

    @cached_property
    def lines(self) -> list[Line]:
        """Reality and the person's belief after each sentence, derived from the events as they stand here."""
        return derive(self.events, self.asked)

    def change_texts(self, change: Callable[[str], str]) -> RetoldStory:
        """The story with every text and both questions changed."""
        asked = Questions(belief=change(self.questions.belief), reality=change(self.questions.reality))
        return replace(self, texts=tuple(map(change, self.texts)), questions=asked)


class StageRewording:
    """Makes variants of the stories of one stage. retold: the other wordings of its sentences, where somebody wrote
    them. names: to draw from."""

    def __init__(self, stage: Stage, retold: Retold | None, names: Names) -> None:
        self.stage, self.retold, self.names = stage, retold, names
        self._keys = {id(sentence): key for key, sentence in keyed_sentences(stage).items()}
        self._ways = {
            variants.OBJECT: self._object,
            variants.PERSON: self._person,
            variants.CONDENSED: self._condense,
            variants.PARAPHRASE: self._paraphrase,
            variants.ORDER: self._order,
        }

    def retell(self, story: Story, kind: variants.Kind) -> RetoldStory:
        """The story as that kind of variant tells it: one of those that need a record. Raises InapplicableError where
        the story cannot be told so."""
        return self._ways[kind](story)

    def as_it_is(self, story: Story) -> RetoldStory:
        """The story as the stage file tells it."""
        file = self.stage.file
        questions, sentences = file.tasks[story.task].questions or file.questions, story.sentences.values()
        texts, events = tuple(one.text for one in sentences), tuple(one.events for one in sentences)
        return RetoldStory(texts, events, questions, file.asked_person(story.task))

    # Other things

    @cached_property
    def other_things(self) -> dict[str, tuple[list[str], set[str | None]]]:
        """By each thing of the stage that may get another word: these words, and the tasks in which it gets one."""
        file, found = self.stage.file, {}
        for word in file.words:
            others = [other for other, reason in other_words(file, word).items() if reason is None]
            if file.kind == _CONTENTS:
                others = [] if word in OPEN_TO_VIEW else [one for one in others if one not in OPEN_TO_VIEW]
            if others:
                found[word] = others, scope(file, word)
        return found

    def _object(self, story: Story) -> RetoldStory:
        told = self.as_it_is(story)
        new: dict[str, str] = {}
        for word, (others, tasks) in self.other_things.items():
            if story.task in tasks:
                options = order_by_key(others, "variant", self.stage.file.stage, story.task, "object", word)
                new[word] = next((one for one in options if one not in new.values()), options[0])
        things = NounReplacer(new)
        if not any(map(things.occurs, told.texts)):
            raise InapplicableError(NO_THING)
        return told.change_texts(things.replace_all)

    # Other persons

    def _person(self, story: Story) -> RetoldStory:
        mirrored, told = self._mirror_gender(self.as_it_is(story))
        file = self.stage.file
        pronouns = {person: _TURNED[pronoun] if mirrored else pronoun for person, pronoun in file.people.items()}
        key = ("variant", file.stage, story.task, "person")
        try:
            names = draw_names(file, self.names, pronouns, *key, taken=file.people)
        except LookupError:
            raise InapplicableError(NO_NAMES) from None
        people = NameReplacer(names)
        events = tuple(list(map(people.replace_all, those)) for those in told.events)
        return replace(told.change_texts(people.replace_all), events=events, asked=names[told.asked])

    def _mirror_gender(self, told: RetoldStory) -> tuple[bool, RetoldStory]:
        """The story with every "he" turned to "she" and the other way round, and True; as it is, and False, where a
        word besides pronouns says that somebody is a man or a woman, or the form of a pronoun cannot be told."""
        said = [*told.texts, told.questions.belief, told.questions.reality]
        turned = {text: pronouns.swap_gender(text) for text in said}
        if None in turned.values() or any(names.GENDERED.search(text) for text in said):
            return False, told
        return True, told.change_texts(lambda text: turned[text] or text)

    # Other words, and fewer

    def _retold(self, story: Story) -> list[RetoldSentence | None]:
        """The other wordings of each sentence, where somebody wrote them."""
        known = self.retold.sentences if self.retold is not None else {}
        return [known.get(self._keys[id(sentence)]) for sentence in story.sentences.values()]

    def _not_written(self) -> InapplicableError:
        return InapplicableError(NOT_ALL_WRITTEN if self.retold is not None else NOT_WRITTEN)

    def _paraphrase(self, story: Story) -> RetoldStory:
        wordings = []
        for own, sentence in zip(self._retold(story), story.sentences.values(), strict=True):
            other = own.other if own is not None and own.other else next(iter(sentence.texts[1:]), None)
            if other is None:
                raise self._not_written()
            wordings.append(other)
        return replace(self.as_it_is(story), texts=tuple(wordings))

    def _condense(self, story: Story) -> RetoldStory:
        told = self.as_it_is(story)
        if (wordings := choose_forms(self.forms(story))) is None:
            raise InapplicableError(NOT_SHORTENED)
        events = tuple(those for text, those in zip(wordings, told.events, strict=True) if text)
        return replace(told, texts=tuple(filter(None, wordings)), events=events)

    def forms(self, story: Story) -> list[SentenceForms]:
        """Each sentence with its short form. What matters least is scenery that may be left out; then come sentences
        without labels and events, those without events, all others. Raises InapplicableError where one has none."""
        forms = []
        for own, sentence in zip(self._retold(story), story.sentences.values(), strict=True):
            if own is None:
                raise self._not_written()
            matters = 3 if sentence.events else 2 if slots(sentence.text) else int(own.short != "")
            forms.append(SentenceForms(sentence.text, own.short, matters))
        return forms

    # Another order

    def _order(self, story: Story) -> RetoldStory:
        told = self.as_it_is(story)
        by_rule, names = self._movable(told), list(story.sentences)
        places = [
            place
            for place in range(len(names) - 1)
            if place in by_rule or (self.retold and self.retold.may_change(story, *names[place : place + 2]))
            if may_commute(self.stage, story, place)
        ]
        if not places:
            raise InapplicableError(FIXED)
        new = text_rules.swap_order(len(names), text_rules.choose_swaps(places))
        texts, events = tuple(told.texts[place] for place in new), tuple(told.events[place] for place in new)
        return replace(told, texts=texts, events=events)

    def _movable(self, told: RetoldStory) -> list[int]:
        """Places of sentences that may change theirs with the next, as far as a rule can tell from the text: one of the
        two tells how things are and speaks of no person, as who may see what is done is not in the events."""
        labels = self.stage.file.labels
        said = [fill(text, labels, told.asked) for text in told.texts]
        known = {
            word
            for slot in labels.values()
            for form in slot.forms().values()
            for word in text_rules.content_words(form)
        }
        free = text_rules.find_swaps(tuple(said), frozenset(known if self.stage.file.kind == _CONTENTS else ()))
        still = [self._still(text) for text in said]
        return [
            place
            for place in free
            if (still[place] or still[place + 1])
            and not _lets_see(*told.events[place : place + 2])
            and not _introduces_unseen(said[:place], said[place + 1])
        ]

    def _still(self, text: str) -> bool:
        """Whether a sentence says how things are, without any person."""
        if _SAYS.search(text) or pronouns.PRONOUN.search(text) or names.PERSON.search(text):
            return False
        named = set(WORDS.findall(re.sub(r"['’]s\b", "", text)))
        return _IS.search(text) is not None and named.isdisjoint(self.stage.file.people)


_IS = re.compile(r"\b(?:is|are|was|were|stands?|stood|hangs?|hung|lies?|lay|holds?|held|contains?|contained)\b", re.I)
"""Verbs of sentences that tell how things are."""

_SAYS = re.compile(
    r"[\"“”]|\b(?:they|them|their|who|whose|nobody|somebody|everybody|everyone|no one|dark|light)\b", re.I
)
"""What makes a sentence tell of somebody's words or deeds all the same, or of what can be seen."""

_THE = re.compile(r"\bthe\s+(?:[\w’'-]+\s+)?([\w’'-]+)", re.I)


def _introduces_unseen(before: Sequence[str], text: str) -> bool:
    """Whether a sentence speaks of "the lid" or the like of which no sentence before has spoken."""
    told = set(WORDS.findall(" ".join(before).lower()))
    return any(told.isdisjoint(WORDS.findall(match[0].lower())[1:]) for match in _THE.finditer(text))


def _lets_see(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether somebody perceives something by the events of one of two sentences, and the other has none: what is so
    there may let somebody see, or keep somebody from it."""
    return not (first and second) and any(event.split(" ", 1)[0] in _PERCEIVING for event in (*first, *second))


_PERCEIVING = frozenset(("see", "view", "read", "tell", "hear"))


class VariantMaker:
    """Makes variants of the items of some stages. Items that are not among them, or that say something else by the same
    id, are told by rules of text."""

    def __init__(self, stages: Iterable[StageRewording]) -> None:
        self._found: dict[str, tuple[Item, StageRewording, Story]] = {}
        for telling in stages:
            stories = (story for story in telling.stage.stories for _ in range(QUESTIONS))
            for item, story in zip(telling.stage.items(), stories, strict=True):
                self._found[item.id] = item, telling, story

    def retell(self, item: Item, kind: variants.Kind) -> Item:
        """The variant of an item. Raises InapplicableError where there is none."""
        if (found := self._found.get(item.id)) is None:
            return text_rules.retell(item, kind)
        own, telling, story = found
        if (own.story, own.question, own.choices) != (item.story, item.question, item.choices):
            return text_rules.retell(item, kind)
        told = _tell_variant(telling, story.task, story.version, kind)
        belief, swapped = own.factors["question_kind"] == "belief", bool(own.factors["swapped"])
        labels, slots = telling.stage.labels(swapped), telling.stage.slots(swapped)
        layers = [line.belief if belief else line.world for line in told.lines]
        if len(layers[-1].labels) > 1:
            raise InapplicableError(variants.CHANGES_TRUTH)
        made = variants.make_variant(
            item,
            kind,
            by=variants.RECORD,
            story=[fill(text, slots, told.asked) for text in told.texts],
            question=fill(told.questions.belief if belief else told.questions.reality, slots, told.asked),
            answer=labels[layers[-1].labels[0]],
            gold=rationale(layers, labels) if kind in REGROUPED else None,
        )
        return made.model_copy(update={"factors": {**made.factors, "asked": told.asked}})


REGROUPED = (variants.CONDENSED, variants.ORDER)
"""Kinds whose sentences are fewer or stand in another order, so that the rationale is another one, too."""


@variants.remember_reasons(2048)  # several questions are about each story
def _tell_variant(telling: StageRewording, task: str, version: str, kind: variants.Kind) -> RetoldStory:
    return telling.retell(telling.stage.story(task, version), kind)


def tell_anew(stage: Stage, seed: int, names: Names, *, other: bool) -> tuple[Stage, VariantMaker]:
    """The stage with other names, labels and things by the seed, and what makes variants of its items. other: tell
    every sentence in another wording than the released one. Raises ContentError as `regenerate` does."""
    retold, file = read_retold(stage), stage.file.model_copy(deep=True)
    known = retold.sentences if retold is not None else {}
    worded = Stage(file, stage.path, stage.lines)
    for key, sentence in keyed_sentences(worded).items():  # so that no other name or thing clashes with any wording
        own, released = known.get(key), sentence.text
        another = own.other if own is not None and own.other else sentence.texts[-1]
        sentence.texts[:] = [released, another, own.short if own is not None and own.short else released]
    told, brief = (regenerate(worded, seed, names, number) for number in (int(other), 2))
    if retold is not None:
        short = {key: sentence.text for key, sentence in keyed_sentences(brief).items()}
        retold = copy(retold)
        retold.sentences = {
            key: RetoldSentence(short=own.short and short[key]) for key, own in retold.sentences.items()
        }
    return told, VariantMaker([StageRewording(told, retold, names)])


def make_retell(path: Path | None, edition: Edition = SECOND) -> variants.Retell:
    """The function that makes variants of the edition's items. path: the user's stages; None, and for a file of items,
    those of the dataset. Raises ConfigError and ContentError for files that cannot be read."""
    names = read_names()
    own = None if path is not None and path.suffix == ".jsonl" else path
    stages = load_stages(own, edition)
    return VariantMaker(StageRewording(stage, read_retold(stage), names) for stage in stages).retell
