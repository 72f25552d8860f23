"""How the generated stories say things: several phrasings for each role of a sentence, kept in ``phrases.yaml``.

Some phrasings are held out from training; they begin with ``*``. A phrasing is a sentence with alternatives ``(a|b|)``,
slots ``{A}`` and verbs ``[put]``. ``{A}`` is the sentence's actor and ``{he} {him} {his}`` are its pronouns. A verb
takes the tense of the story and agrees with the actor (who may be "you"), ``[put?]`` with the protagonist; ``[put!]``
is the third person singular, ``[put+]`` the plural; ``[do_]`` agrees but stays in the present.

Slots: A the actor, P the protagonist, M who moves or fills, I who informs, W who is told or stands by, o the thing, c
the container, x and y the two labels as the text says them, l the label that a sentence is about, n the other one, r
the room.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import yaml

_FILE: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
CONTENTS, TRANSFER, PERTURBED, SHARED, QUESTIONS = (
    _FILE[name] for name in ("contents", "transfer", "perturbed", "shared", "questions")
)
"""Phrasings by role: of stories of unexpected contents and of unexpected transfer, of perturbed and of all stories, and
of the questions.
"""
_PAST = {
    "find": "found", "come": "came", "have": "had", "be": "was", "stand": "stood", "lie": "lay", "see": "saw",
    "say": "said", "read": "read", "bend": "bent", "take": "took", "hold": "held", "fill": "filled", "do": "did",
    "leave": "left", "put": "put", "sit": "sat", "set": "set", "keep": "kept", "break": "broke", "know": "knew",
    "tell": "told", "hear": "heard", "meet": "met", "hide": "hid", "lay": "laid", "drop": "dropped", "go": "went",
    "run": "ran", "step": "stepped", "let": "let", "think": "thought", "write": "wrote", "drink": "drank",
    "get": "got", "make": "made", "sing": "sang", "stop": "stopped", "shine": "shone", "nod": "nodded", "shut": "shut",
}  # fmt: skip
_VERB = re.compile(r"\[(\w+?)([!+?_]?)\]")
_CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")


def phrasings(role: str, kind: str, held_out: bool, most: int | None = None) -> list[str]:
    """The phrasings of a role.

    kind: of story, "contents" or "transfer". held_out: those that training never shows, instead of the others. most:
        only so many, the first ones; None gives all.
    """
    own = CONTENTS if kind == "contents" else TRANSFER
    text = own.get(role) or SHARED.get(role) or PERTURBED.get(role) or QUESTIONS[f"{kind}_{role}"]
    lines = [line.strip() for line in text.strip().splitlines()]
    return [line.lstrip("*") for line in lines if line.startswith("*") == held_out][:most]


def every_word() -> set[str]:
    """Every word that a phrasing can show, in every form of its verbs, as it is and capitalised."""
    shown: set[str] = set()
    for text in (*CONTENTS.values(), *TRANSFER.values(), *PERTURBED.values(), *SHARED.values(), *QUESTIONS.values()):
        for verb, _ in _VERB.findall(text):
            shown |= {verb, *(_verb(verb, mark, past, you) for mark in "!+_" for past in (0, 1) for you in (0, 1))}
        shown |= set(re.findall(r"[A-Za-z]+", re.sub(r"\{\w+\}", " ", _VERB.sub(" ", text))))
    return shown | {word.capitalize() for word in shown}


def say(phrasing: str, rng: random.Random, slots: dict[str, str], *, past: bool, protagonist_is_you: bool) -> str:
    """One sentence of a phrasing: alternatives drawn, verbs in their forms, slots filled.

    phrasing, rng: the phrasing, and the source of random choices.
    slots: the words for its slots.
    past: whether the story is told in the past tense.
    protagonist_is_you: whether the story calls its protagonist "you".
    """
    while match := _CHOICE.search(phrasing):
        phrasing = phrasing[: match.start()] + rng.choice(match[1].split("|")) + phrasing[match.end() :]
    you = slots.get("A") == "you"

    def form(match: re.Match[str]) -> str:
        second = protagonist_is_you if match[2] == "?" else you and match[2] != "!"
        return _verb(match[1], match[2], past, second)

    text = _VERB.sub(form, phrasing)
    text = re.sub(r"\{(\w+)\}", lambda match: slots[match[1]], text)
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", re.sub(r"\s+", " ", text)).replace(" ,", ",").replace(" .", ".")
    text = re.sub(r",(?=[,.;:])", "", text)  # a name with an apposition ends in a comma of its own
    return text[:1].upper() + text[1:]


def _verb(verb: str, mark: str, past: int | bool, second: int | bool) -> str:
    """A verb in the form that its mark, the tense and the person (`second`: you) ask for."""
    if mark == "_":  # of a question, such as "what does Ann believe"
        return {"do": ("does", "do"), "be": ("is", "is")}[verb][second] if verb in ("do", "be") else verb
    if past:
        if verb == "be":
            return "were" if second or mark == "+" else "was"
        regular = (
            verb + "d" if verb.endswith("e") else verb[:-1] + "ied" if verb.endswith(("ry", "ly")) else verb + "ed"
        )
        return _PAST.get(verb, regular)
    if second or mark == "+":
        return {"be": "are"}.get(verb, verb)
    irregular = {"be": "is", "have": "has", "do": "does", "go": "goes"}
    if verb in irregular:
        return irregular[verb]
    if verb.endswith(("s", "sh", "ch", "x")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith(("ry", "ly")) else verb + "s"
