"""Fresh editions: the stages of the second edition told anew by a seed, so that no model can have seen the stories.

Persons get other names with the same pronoun (dataset/perturbed-2/names.yaml), labels are drawn from the stage's
`spare` pairs, things get other `words`, and a sentence with several wordings is told by another than the first. Events
and their order stay, and answers and gold are derived from them again. Every draw depends on the seed, the stage and
what is drawn alone, so that the same seed gives the same bytes everywhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from tomserve import content
from tomserve.benchmarks.perturbed.stages import Place, Questions, Sentence, Slot, Stage, StageFile, Task
from tomserve.content.validation import Strict, load_model
from tomserve.errors import ContentError
from tomserve.items import Item
from tomserve.items.draw import seeded_order
from tomserve.variants import words as variants_words

NAMES = "dataset/perturbed-2/names.yaml"
Option = TypeVar("Option", bound=str | int)


class _Names(Strict):
    schema_: Literal[1] = Field(alias="schema")
    she: list[Annotated[str, Field(min_length=2)]]
    he: list[Annotated[str, Field(min_length=2)]]
    they: list[Annotated[str, Field(min_length=2)]]


Names = Mapping[str, Sequence[str]]
"""Names of persons, by the pronoun that stories use of them."""


def read_names() -> Names:
    """The names to draw from. Raises ConfigError where there are none, ContentError for a mistake in the file and for a
    name that is given twice."""
    path = content.require(NAMES)
    names = load_model(path, _Names)
    listed = Counter([*names.she, *names.he, *names.they])
    if twice := next((name for name, count in listed.items() if count > 1), None):
        raise ContentError(f"the name {twice!r} is given twice", path=path)
    return {"she": names.she, "he": names.he, "they": names.they}


def order_by_key(options: Iterable[Option], *key: str | int) -> list[Option]:
    """The options in an order that looks random, and that is the same wherever the key is the same."""
    return seeded_order(options, *key, separator="\n")


def draw_names(
    file: StageFile, names: Names, people: Mapping[str, str], *key: str | int, taken: Iterable[str] = ()
) -> dict[str, str]:
    """Another name for each person, none that the stage's prose has, with another initial where that can be had.

    people: the pronoun of each person's new name. key: what the draw depends on. taken: names
    with whose initials no new one shall begin. Raises LookupError with the person for whom there is none.
    """
    prose = " ".join(text for _, _, text in texts(file)).casefold()
    chosen: dict[str, str] = {}
    for person, pronoun in people.items():
        free = [one for one in names.get(pronoun, ()) if one.casefold() not in prose and one not in chosen.values()]
        if not free:
            raise LookupError(person)
        initials = {name[0] for name in (*taken, *chosen.values())}
        options = order_by_key(free, *key, person)
        chosen[person] = next((name for name in options if name[0] not in initials), options[0])
    return chosen


def generate_items(stage: Stage, seed: int, names: Names) -> list[Item]:
    """The items of a stage told anew, in the order of the released ones: each has its id with the seed behind it, and
    the factors `base` (that id) and `fresh` (the seed). Raises ContentError as `regenerate` does."""
    fresh = regenerate(stage, seed, names)
    return mark_fresh(fresh.items(), fresh, seed)


def mark_fresh(items: Iterable[Item], stage: Stage, seed: int) -> list[Item]:
    """The items of a regenerated stage with their seed, and with the articles that its labels need."""
    labels = stage.file.label_forms  # a regenerated stage has no spare ones
    return [
        item.model_copy(
            update={
                "id": f"{item.id}/fresh-{seed}",
                "story": tuple(variants_words.fix_articles(sentence, labels) for sentence in item.story),
                "question": variants_words.fix_articles(item.question, labels),
                "factors": {**item.factors, "base": item.id, "fresh": seed},
            }
        )
        for item in items
    ]


def regenerate(stage: Stage, seed: int, names: Names, wording: int | None = None) -> Stage:
    """The stage with other names, labels, words and wordings, its answers derived anew from the events. wording: of
    each sentence, from 0; by default one of those that are not released. Raises ContentError where labels, words or
    names are lacking; what else can go wrong, `validation` finds beforehand."""
    old, key = stage.file, (seed, stage.file.stage)
    labels, words, people = _other_labels(stage, *key), _other_words(stage, *key), _other_people(stage, names, *key)
    persons, scopes = variants_words.NameReplacer(people), {word: scope(old, word) for word in words}
    things = {
        task: variants_words.NounReplacer({word: new for word, new in words.items() if task in scopes[word]})
        for task in (None, *old.tasks)
    }

    def tell(template: str, task: str | None) -> str:
        return persons.replace_all(things[task].replace_all(template))

    def ask(questions: Questions, task: str | None) -> Questions:
        return Questions(belief=tell(questions.belief, task), reality=tell(questions.reality, task))

    named = {people[name]: pronoun for name, pronoun in old.people.items()}
    changes = {"people": named, "labels": labels, "spare": [], "words": {}, "questions": ask(old.questions, None)}
    file = old.model_copy(update=changes, deep=True)
    for name, task in file.tasks.items():
        for place, sentence in sentences(task, ("tasks", name)):
            here = place if place[2] == "story" else (*place[:2], place[3], *place[5:])
            told = sentence.texts
            chosen = order_by_key(told[1:] or told, *key, *here)[0] if wording is None else told[wording]
            sentence.texts[:] = [tell(chosen, name)]
            sentence.events[:] = map(persons.replace_all, sentence.events)
        own = {"asked": task.asked and people[task.asked], "questions": task.questions and ask(task.questions, name)}
        file.tasks[name] = task.model_copy(update=own)
    made = Stage(file, stage.path, stage.lines)
    for name, task in file.tasks.items():
        for which, version in task.versions.items():
            last = made.story(name, which).lines[-1]
            answers = f"{'|'.join(last.belief.labels)}/{'|'.join(last.world.labels)}"
            task.versions[which] = version.model_copy(update={"answers": answers})
    return made


def _other_labels(stage: Stage, *key: str | int) -> dict[str, Slot]:
    """One of the spare pairs, either way round."""
    if not (spare := stage.file.spare):
        raise _lacking(stage, "is missing: pairs of labels for fresh editions", "spare", "labels")
    pair = spare[order_by_key(range(len(spare)), *key, "labels")[0]]
    turned = order_by_key((True, False), *key, "order of labels")[0]
    return {"x": pair["y"], "y": pair["x"]} if turned else {"x": pair["x"], "y": pair["y"]}


def _other_words(stage: Stage, *key: str | int) -> dict[str, str]:
    """Another word for each thing, no word for two things where that can be had."""
    chosen: dict[str, str] = {}
    for word in stage.file.words:
        left = [other for other, reason in other_words(stage.file, word).items() if reason is None]
        if not left:
            reason = "none of its other words can be used; tomserve generate perturbed-2 --check says why"
            raise _lacking(stage, reason, f"words.{word}", "words", word)
        options = order_by_key(left, *key, "word", word)
        chosen[word] = next((one for one in options if one not in chosen.values()), options[0])
    return chosen


def _other_people(stage: Stage, names: Names, *key: str | int) -> dict[str, str]:
    """Another name for each person."""
    people = stage.file.people
    try:
        return draw_names(stage.file, names, people, *key, "name")
    except LookupError as error:
        person = error.args[0]
        reason = f"there is no further name for {person!r} ({people[person]}); add some to {NAMES}"
        raise _lacking(stage, reason, "people", "people", person) from None


def _lacking(stage: Stage, reason: str, field: str, *place: str) -> ContentError:
    return ContentError(reason, path=stage.path, line=stage.lines.at(place), field=field)


def scope(file: StageFile, word: str) -> set[str | None]:
    """The tasks in which a thing gets another word; None stands for the questions that several tasks share.

    A thing that only the questions of single tasks name is the thing that these tasks are about. Where it turns up in
    another task it is scenery, for which its other words need not fit, and stays. Any other thing is replaced in all.
    """
    things, tasks = variants_words.NounReplacer({word: word}), set(file.tasks)
    about = {task for _, task, text in _questions(file) if things.occurs(text)}
    return about if about and None not in about else {None, *tasks}


def other_words(file: StageFile, word: str) -> dict[str, str | None]:
    """The other words for a thing of the stage, each with the reason why it cannot be used; None where it can."""
    things, within = variants_words.NounReplacer({word: word}), scope(file, word)
    told = [(task, text) for _, task, text in texts(file) if task in within]
    tasks = {task for task, text in told if things.occurs(text)}
    beside = " . ".join(text for task, text in told if task in tasks or None in tasks)
    return {other: _unusable(word, other, file.label_forms, beside) for other in file.words[word]}


def _unusable(word: str, other: str, labels: Iterable[str], beside: str) -> str | None:
    if other.casefold() == word.casefold():
        return "is the word itself"
    if variants_words.looks_plural(other) != variants_words.looks_plural(word):
        return f"and {word!r} are not both singular or both plural"
    near = variants_words.is_part_of_label
    if clash := next((one for one in labels if near(other, one) or near(one, other)), None):
        return f"is too near to the label {clash!r}"
    if variants_words.NounReplacer({other: other}).occurs(beside):
        return f"stands in the prose of a task already in which {word!r} stands"
    return None


def texts(file: StageFile) -> Iterator[tuple[Place, str | None, str]]:
    """Every text that a reader may see, in all wordings: its place in the file, its task (None for questions that
    several tasks share), and the text."""
    yield from _questions(file)
    for name, task in file.tasks.items():
        for place, sentence in sentences(task, ("tasks", name)):
            for number, text in enumerate(sentence.texts):
                yield (*place, number) if len(sentence.texts) > 1 else place, name, text


def _questions(file: StageFile) -> Iterator[tuple[Place, str | None, str]]:
    """The questions among the texts of `texts`."""
    for key in ("belief", "reality"):
        yield ("questions", key), None, getattr(file.questions, key)
    for name, task in file.tasks.items():
        for key in ("belief", "reality") if task.questions else ():
            yield ("tasks", name, "questions", key), name, getattr(task.questions, key)


def sentences(task: Task, here: Place) -> Iterator[tuple[Place, Sentence]]:
    """Every sentence of a task, those of the versions' edits too, with its place in the file. here: the task's."""
    groups: list[tuple[Place, Mapping[str, Sentence]]] = [((*here, "story"), task.story)]
    for name, version in task.versions.items():
        groups.append(((*here, "versions", name, "replace"), version.replace))
        groups += [((*here, "versions", name, "insert", anchor), new) for anchor, new in version.insert.items()]
    for place, group in groups:
        for name, sentence in group.items():
            yield (*place, name), sentence


def overlap(released: Iterable[Item], fresh: Iterable[Item]) -> float:
    """The share, 0 to 1, of the released stories' runs of RUN words that occur in a fresh story, too, whatever their
    case and punctuation. Raises ValueError where no released story is that long."""
    before, after = _runs(released), _runs(fresh)
    if not before:
        raise ValueError(f"no released story has {RUN} words")
    return len(before & after) / len(before)


def _runs(stories: Iterable[Item]) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for story in {item.story for item in stories}:
        words = variants_words.WORDS.findall(" ".join(story).casefold())
        found.update(zip(*(words[start:] for start in range(RUN)), strict=False))
    return found


RUN = 8
"""Words of a run by which it is counted how much of the released stories a fresh edition repeats."""


def describe_overlap(released: Sequence[Item], made: Sequence[Item]) -> str:
    """How much of the released stories a fresh edition repeats, and in which stage most."""

    def of_stage(items: Sequence[Item], stage: str) -> list[Item]:
        return [item for item in items if item.factors["stage"] == stage]

    stages = dict.fromkeys(str(item.factors["stage"]) for item in released)
    shares = {stage: overlap(of_stage(released, stage), of_stage(made, stage)) for stage in stages}
    most = max(shares, key=lambda stage: shares[stage])
    return (
        f"{overlap(released, made):.0%} of the runs of {RUN} words in the released stories occur in the fresh ones as "
        f"well (most in stage {most}: {shares[most]:.0%})"
    )
