"""Variants rewritten by a model: the prompt, the form of the reply, and what is checked by the text alone.

Nothing here asks a model: tomserve.runs.rewriter does. A rewriting that fails one check is dropped with the reason.

>>> item = Item(id="q", story=["Ann has 2 caps.", "Ben does not see them."], question="What does Ben know?",
...             choices=["nothing", "all"], answer="nothing")
>>> job = plan_jobs([(item, variants.PARAPHRASE)])[0][0]
>>> find_fault(job, ("Two caps belong to Ann.", "They are not seen by Ben."))
'the numbers are others'
>>> find_fault(job, ("Ann owns 2 caps.", "They are seen by Ben."))
'the negations are others'
>>> find_fault(job, ("Ann owns 2 caps.", "They are not seen by Ben."))
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from tomserve import variants
from tomserve.errors import InapplicableError
from tomserve.items import Item
from tomserve.variants import names, pronouns, text_rules
from tomserve.variants.names import EITHER
from tomserve.variants.words import NameReplacer

REWRITTEN = (variants.OBJECT, variants.PERSON, variants.CONDENSED, variants.PARAPHRASE, variants.ORDER)
"""The kinds that a rewriter can make."""

NO_REPLY = "the rewriter did not reply"
NO_LIST = "the reply is no list of sentences"
NAMES = "the names are others"
WORDS = "other words than those that should change did"
UNCHANGED = "nothing or not everything was changed"
ANSWER = "the answer was not kept"
NOT_ASKED = "the verifier did not reply"
"""Reasons for which a rewriting is dropped."""

_FEW = 3
"""How many different words an object or its detail may take away, and how many it may bring."""

_ARTICLES = {"a", "an", "the"}

_LONGEST = 4
"""A rewriting has at most this many times as many characters as the story, so that no endless text is kept."""


class Job(NamedTuple):
    """A story that is to be rewritten in one respect, once for all questions about it.

    name: a digest of all that the model is told. kind: the respect. story: its sentences. questions: each with its
    choices. old, new: for PERSON all forms of the old name, the usual one first, and the new name.
    """

    name: str
    kind: variants.Kind
    story: tuple[str, ...]
    questions: tuple[tuple[str, tuple[str, ...]], ...]
    old: tuple[str, ...] = ()
    new: str = ""


class PendingVariant(NamedTuple):
    """An item that waits for the rewriting of its story. job: by its name."""

    item: Item
    kind: variants.Kind
    job: str


def plan_jobs(
    left: Iterable[tuple[Item, variants.Kind]],
) -> tuple[list[Job], list[PendingVariant], list[tuple[Item, variants.Kind, str]]]:
    """What is to be rewritten for these items and kinds: the jobs, the items that wait for each, and those that no
    rewriter can help, each with the reason."""
    units: dict[tuple[variants.Kind, tuple[str, ...], tuple[str, ...], str], list[Item]] = {}
    hopeless = []
    for item, kind in left:
        try:
            old, new = _choose_new_name(item) if kind is variants.PERSON else ((), "")
        except InapplicableError as reason:
            hopeless.append((item, kind, str(reason)))
            continue
        units.setdefault((kind, item.story, old, new), []).append(item)
    made, wanted = [], []
    for (kind, story, old, new), items in units.items():
        questions = tuple(dict.fromkeys((item.question, item.choices) for item in items))
        content = orjson.dumps([kind.name, story, questions, old, new])
        name = hashlib.blake2b(content, digest_size=16).hexdigest()
        made.append(Job(name, kind, story, questions, old, new))
        wanted += [PendingVariant(item, kind, name) for item in items]
    return made, wanted, hopeless


def _choose_new_name(item: Item) -> tuple[tuple[str, ...], str]:
    """All forms of the protagonist's name, and the new name. Raises InapplicableError where there is none."""
    text_rules.refuse_long(item)
    old = text_rules.find_protagonist(item)
    forms = (
        old,
        *(name for name in names.find_people(item.story) if name != old and text_rules.are_alike(old, (name,))),
    )
    gender = pronouns.known_gender(item.story, old, forms[1:]) or EITHER
    made = names.choose_names([(old, gender)], item.cluster, names.find_capitalised(item.story))
    if made is None:
        raise InapplicableError(text_rules.NO_NEW_NAME)
    parts = dict.fromkeys((*forms, *(part for form in forms for part in form.split(" "))))
    return tuple(parts), made[old]


def make_prompt_item(job: Job) -> Item:
    """What the rewriter is shown, in the form of an item (see prompts/rewriter)."""
    words = _words(job.story)
    told: dict[str, str | int] = {"kind": job.kind.name}
    if job.kind is variants.PERSON:
        told |= {"old": job.old[0], "new": job.new}
    if job.kind is variants.CONDENSED:
        fewest, most = (
            -(-words * (100 - round(100 * variants.MOST)) // 100),
            words * (100 - round(100 * variants.LEAST)) // 100,
        )
        told |= {"words": words, "fewest": fewest, "most": most}
    choices = list({choice.casefold(): choice for _, offered in job.questions for choice in offered}.values())
    asked = "\n".join(f"{question} {orjson.dumps(offered).decode()}" for question, offered in job.questions)
    return Item(id=job.name, story=job.story, question=asked, choices=choices, answer=choices[0], factors={**told})


def parse_sentences(reply: str) -> tuple[str, ...] | None:
    """The sentences of a reply; None where it is not the object that was asked for, with at least one sentence."""
    try:
        found = orjson.loads(reply)
    except orjson.JSONDecodeError:
        return None
    told = found.get("story") if isinstance(found, dict) else None
    if not isinstance(told, list) or not told or not all(isinstance(one, str) for one in told):
        return None
    made = tuple(" ".join(one.split()) for one in told)
    return made if all(made) and all(one.isprintable() for one in made) else None


def find_fault(job: Job, told: Sequence[str]) -> str | None:
    """Why a rewriting cannot be used, as far as its text shows; None where nothing is found. told: its sentences."""
    before, after = "\n".join(job.story), "\n".join(told)
    kind, same_count = job.kind, len(told) == len(job.story)
    if not same_count and (kind is not variants.CONDENSED or len(told) > len(job.story)):
        return "the number of sentences is another"
    if not _fits(job, told):
        return "the length is not what it should be"
    if kind is variants.ORDER and Counter(told) != Counter(job.story):
        return "the sentences are not those of the story"
    if count_numbers(before) != count_numbers(after):
        return "the numbers are others"
    if count_negations(before) != count_negations(after):
        return "the negations are others"
    if kind is variants.PERSON:
        return _fault_of_person(job, told)
    if not all(_has(word, after) for word in names.find_openers(job.story)):
        return NAMES
    lost = set(names.find_people(job.story)) if kind is variants.CONDENSED else _entities(before)
    if not all(names.occurs(name, after) for name in lost):
        return NAMES
    if not all(names.occurs(name, before) for name in _entities(after)):
        return NAMES
    if any(_has(label, before) and not _has(label, after) for label in _words_to_keep(job)):
        return "words of the question or the choices are missing"
    if kind is variants.OBJECT and _looks(before) != _looks(after):
        return "something became or stopped being transparent, open or labelled"
    if kind is variants.OBJECT:
        lost, new = (
            set(_bare(one)) - set(_bare(other)) - _ARTICLES for one, other in ((before, after), (after, before))
        )
        if max(len(lost), len(new)) > _FEW or not _same_besides(job, told, lost, new):
            return WORDS
    return None if _has_changed(job, told) else UNCHANGED


def _has_changed(job: Job, told: Sequence[str]) -> bool:
    """Whether what should change did: every sentence of a paraphrase, anything otherwise."""
    if job.kind is variants.PARAPHRASE:
        return all(_bare(a) != _bare(b) for a, b in zip(job.story, told, strict=True))
    return tuple(told) != job.story


def _fits(job: Job, told: Sequence[str]) -> bool:
    """Whether the rewriting is as long as it should be."""
    if job.kind is variants.CONDENSED:
        return variants.LEAST <= 1 - _words(told) / _words(job.story) <= variants.MOST
    return sum(map(len, told)) <= _LONGEST * sum(map(len, job.story))


def _fault_of_person(job: Job, told: Sequence[str]) -> str | None:
    for sentence, made in zip(job.story, told, strict=True):
        was = any(names.occurs(form, sentence) for form in job.old)
        if any(names.occurs(form, made) for form in job.old) or names.occurs(job.new, made) != was:
            return NAMES
        if _entities(sentence) - set(job.old) != _entities(made) - {job.new}:
            return NAMES
        if _pronouns(sentence) != _pronouns(made):
            return "the pronouns are others"
    if not _same_besides(job, told, set(_bare(" ".join(job.old))), set(_bare(job.new))):
        return WORDS
    return None if _has_changed(job, told) else UNCHANGED


def _same_besides(job: Job, told: Sequence[str], lost: set[str], new: set[str]) -> bool:
    """Whether each sentence has the words of the original in their order, besides the lost ones and the new ones."""
    left = ([word for word in _bare(one) if word not in lost | _ARTICLES] for one in job.story)
    kept = ([word for word in _bare(one) if word not in new | _ARTICLES] for one in told)
    return all(a == b for a, b in zip(left, kept, strict=True))


def make_rewritten(wanted: PendingVariant, job: Job, told: Sequence[str], model: str) -> Item:
    """The variant of an item whose story was rewritten. model: who has rewritten it."""
    item = wanted.item
    question, choices = item.question, item.choices
    if job.kind is variants.PERSON:
        people = NameReplacer(dict.fromkeys(sorted(job.old, key=len, reverse=True), job.new))
        question, *renamed = map(people.replace_all, (question, *choices))
        choices = tuple(renamed)
    return variants.make_variant(
        item, wanted.kind, by=f"{variants.REWRITER}{model}", story=told, question=question, choices=choices
    )


def choice_orders(item: Item) -> tuple[Item, Item]:
    """The item with its choices in both orders."""
    turned = item.meanings[::-1] if item.meanings else None
    return item, item.model_copy(update={"choices": item.choices[::-1], "meanings": turned})


_NUMBER = re.compile(
    r"\d+(?:[.,:]\d+)*|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    r"seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|both|"
    r"twice|half|dozen|first|second|third|fourth|fifth)\b",
    re.I,
)
_NEGATION = re.compile(
    r"\b(?:not|never|no|nobody|nothing|nowhere|none|neither|nor|without|cannot|unaware|unbeknownst|unknowingly|unnoticed|"
    r"fails\s+to|failed\s+to|misses|missed)\b|n['’]t\b",
    re.I,
)


def count_numbers(text: str) -> Counter[str]:
    """How often each number occurs in a text, in digits or in words."""
    return Counter(found.lower() for found in _NUMBER.findall(text))


def count_negations(text: str) -> int:
    """How many words of a text negate something. "no one" is one of them, and so is "fails to"."""
    return len(_NEGATION.findall(text))


def _entities(text: str) -> set[str]:
    """The names of persons and places in a text, without possessives."""
    inside = {
        found for found in names.find_capitalised([text]) if re.search(rf"[^\n.!?:]\s*\b{re.escape(found)}\b", text)
    }
    return inside | set(names.find_people(text.split("\n")))


def _pronouns(text: str) -> Counter[str]:
    return Counter(found["word"].lower() for found in pronouns.PRONOUN.finditer(text))


def _looks(text: str) -> Counter[str]:
    return Counter(found.lower() for found in text_rules.SHOWS.findall(text))


def _words_to_keep(job: Job) -> set[str]:
    """The words that must stay in the story where it has them: the labels that it uses as they are; where an object
    changes, every word of the questions and the choices."""
    labels = {choice for _, offered in job.questions for choice in offered}
    if job.kind is variants.OBJECT:
        asked = " ".join((*labels, *(question for question, _ in job.questions)))
        return labels | text_rules.content_words(asked)
    return labels


def _has(word: str, text: str) -> bool:
    """Whether a word or a label occurs in a text, whatever its letter case."""
    return re.search(rf"(?<!\w){re.escape(word)}(?:e?s)?(?!\w)", text, re.I) is not None


def _words(story: Sequence[str]) -> int:
    return sum(len(sentence.split()) for sentence in story)


def _bare(sentence: str) -> list[str]:
    """The words of a sentence without letter case and punctuation."""
    return re.findall(r"\w+", sentence.lower())
