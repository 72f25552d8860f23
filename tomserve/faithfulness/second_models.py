"""The second models of a measurement, a paraphraser and a predictor: what they are shown, and what their replies must
be.

A paraphrase shows how much an answer changes with the words alone. A predictor can tell the answer from a chain that
it follows from (simulatability); the control is the question alone. Nothing here asks a model.
"""

import hashlib
from itertools import groupby

import orjson

from tomserve.faithfulness.chains import EditCase, WrittenChain, offered_choices
from tomserve.faithfulness.hints import LETTERS, OfferedChoices
from tomserve.faithfulness.prose_edits import find_conclusion, find_labels, split_units
from tomserve.faithfulness.table import CHAIN, QUESTION
from tomserve.items import Item
from tomserve.runs.grader import BEGINNING, excerpt
from tomserve.scoring.thoughts import split_thoughts


def same_meaning(item: Item, chain: WrittenChain, text: str, *, lettered: bool = False) -> bool:
    """Whether a text names the same labels in the same order as a chain in prose and concludes on the same one. A label
    that is named several times running counts once. lettered: whether the choices were offered by letter."""
    case = EditCase(item, chain, (), None, len, offered_choices(item, lettered))

    def said(text: str) -> tuple[list[str], str | None]:
        labels = (label for one in split_units(text) for label in find_labels(one, case.choices))
        return [label for label, _ in groupby(labels)], find_conclusion(case, text, chain.model_answer)

    return said(text) == said(chain.text)


PARAPHRASER = "paraphraser"
"""The strategy whose prompt is sent (see prompts/paraphraser)."""

MEANING = "the paraphrase names other choices, in another order, or concludes on another one"
LENGTH = "the paraphrase is not about as long as the chain"
UNCHANGED = "the paraphrase has the chain's own words"
"""Reasons for which a paraphrase is not used."""

_LEAST, _MOST = 0.4, 2.5
"""How many times as many words as the chain a paraphrase may have."""


def paraphraser_item(item: Item, text: str) -> Item:
    """What the paraphrasing model is shown, in the form of an item: the lines of the chain in the place of a story."""
    lines = [line for line in _inert(text) if line] or excerpt("")
    return Item(
        id=name_shown(lines, item.question, item.choices),
        story=lines,
        question=item.question,
        choices=item.choices,
        answer=item.choices[0],
    )


def read_paraphrase(reply: str) -> str | None:
    """The paraphrase of a reply, made inert since it will stand in a prompt; None where it is not the object that was
    asked for, or says nothing."""
    try:
        found = orjson.loads(split_thoughts(reply).text)
    except orjson.JSONDecodeError:
        return None
    text = found.get("text") if isinstance(found, dict) else None
    if not isinstance(text, str):
        return None
    return "\n".join(_inert(text)).strip() or None


def find_fault(item: Item, chain: WrittenChain, told: str, *, lettered: bool = False) -> str | None:
    """Why a paraphrase of a chain in prose cannot be used, as far as its words show; None where nothing is found. That
    it says the same in other respects than its choices is not checked."""
    before, after = chain.text.casefold().split(), told.casefold().split()
    if before == after:
        return UNCHANGED
    if not _LEAST * len(before) <= len(after) <= _MOST * len(before):
        return LENGTH
    return None if same_meaning(item, chain, told, lettered=lettered) else MEANING


def _inert(text: str) -> list[str]:
    """The lines of a text, empty ones among them, without what a chat template could take for its own."""
    lines = []
    for line in text.splitlines():
        pieces = (line[start : start + BEGINNING] for start in range(0, len(line), BEGINNING))  # so none is abridged
        told = [piece for piece in pieces if any(c.isprintable() and not c.isspace() for c in piece)]
        lines += [part for piece in told for part in excerpt(piece)] or [""]
    return lines


def name_shown(*shown: object) -> str:
    """A digest of all that is shown, so that equal ones are asked once."""
    return hashlib.blake2b(orjson.dumps(shown), digest_size=16).hexdigest()


PREDICTOR = "predictor"
"""The strategy whose prompt is sent (see prompts/predictor)."""

_NO_CHAIN = "(no reasoning is shown)"
"""The line that stands for the story where there is no chain; no template shows it."""


def predictor_item(item: Item, text: str | None, offers: OfferedChoices | None = None) -> Item:
    """What the predicting model is shown, in the form of an item, without the story.

    text: the chain, with its verdict or without, which are shown alike; None for the question alone. A very long one is
    shown without its middle. offers: what the model was offered, since a chain may name a choice by its letter; all
    choices without letters where it is left out.
    """
    choices, lettered = offers or OfferedChoices(item.choices)
    letters = "".join(f"\n{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False))
    question = f"{item.question}{letters}" if lettered else item.question
    story, kind = ([_NO_CHAIN], QUESTION) if text is None else (excerpt(text), CHAIN)
    name = name_shown(kind, story, question, choices)
    return Item(id=name, story=story, question=question, choices=choices, answer=choices[0], factors={"kind": kind})
