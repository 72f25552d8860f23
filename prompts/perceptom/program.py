"""PercepToM: ask who perceives each sentence, keep by code what the asked persons perceived, then ask on that."""


def program(item, ask):
    """Two calls, the first of them the same for all questions of a story; a question about no mind takes the second."""
    perceived = None
    if ask.people:
        reply = yield ask("perceive")
        perceived = kept(item.story, ask.people, reply)
    yield ask("answer", perceived=perceived)


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
