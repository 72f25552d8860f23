"""PercepToM: ask who perceives each sentence, keep by code what the asked persons perceived, then ask on that."""

import re

NAME = re.compile(r"[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)*")
"""One or several words that begin with a capital."""

OPENERS = """
A After All Although An And Another As At Because Before Behind Both But By During Each Early Every Everybody Everyone
Everything Finally For From He Her Here His I If In Inside It Its Just Later Meanwhile Near Next No Nobody Nothing Now
Of On Once One Only Out Outside Over She Since So Some Someone Soon Still Suddenly That The Their Then There These They
This Though Through Today Two Under Until We What When Where Which While Who With Without You Your
"""
"""Words that begin a sentence with a capital and are no names."""


def program(item, ask):
    """Two calls, the first of them the same for all questions of a story; a question about no mind takes the second."""
    perceived = None
    if ask.people:
        reply = yield ask("perceive", names=names(item.story, ask.people))
        perceived = kept(item.story, ask.people, reply)
    yield ask("answer", perceived=perceived)


def names(story, people):
    """The names in the story, in the order of their first mention, and those of the asked persons that it lacks.

    Places and the like are among them: nobody needs to choose them.
    """
    found, openers = {}, frozenset(OPENERS.split())
    for sentence in story:
        for match in NAME.finditer(sentence):
            words = match[0].removesuffix("'s").removesuffix("’s").split()
            while words and words[0] in openers:
                words = words[1:]
            if words:
                found[" ".join(words)] = None
    return [*found, *(person for person in people if not any(same(person, name) for name in found))]


def kept(story, people, reply):
    """The sentences that all these people perceive, with their numbers; None, for the whole story, where the reply does
    not say it, such as where it was cut off."""
    try:
        entries = reply.json()["sentences"]
        by_number = {entry["sentence"]: [str(name) for name in entry["perceived_by"]] for entry in entries}
    except (ValueError, TypeError, LookupError):
        return None
    return [
        (number, sentence)
        for number, sentence in enumerate(story, 1)
        if all(any(same(person, name) for name in by_number.get(number, [])) for person in people)
    ]


def same(person, name):
    """Whether two names mean one person: "the nurse Ann" and "Ann", but not "Ann" and "Anna"."""
    one, other = person.casefold().split(), name.casefold().split()
    return bool(one and other) and (set(one) <= set(other) or set(other) <= set(one))
