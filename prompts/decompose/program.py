"""Decompose-ToM: take the persons off the question one by one, from the outermost, and ask what is left."""

PART = 5
"""How many sentences are judged in one request."""


def program(item, ask):
    """Simulate each person in turn, then answer a question about no mind on what the innermost knows."""
    yield from solve(item.story, item.question, ask.people, ask)


def solve(story, question, people, ask):
    """Answer a question on these sentences; each level takes the outermost person off."""
    if not people:
        yield ask("answer", story=story, question=question)
        return
    person, *inner = people
    parts = [range(at, min(at + PART, len(story))) for at in range(0, len(story), PART)]
    replies = []
    if parts:
        replies = yield [ask("aware", person=person, story=story[: part.stop], part=part) for part in parts]
    known = [sentence for part, reply in zip(parts, replies, strict=True) for sentence in aware(story, part, reply)]
    reply = yield ask("reduce", person=person, question=question)
    yield from solve(known, reduced(reply, question), inner, ask)


def aware(story, part, reply):
    """The sentences of a part that the person knows of; all where the reply does not say it (it may be cut off)."""
    try:
        known = reply.json()["knows"]
        return [story[at] for at, knows in zip(part, known, strict=True) if knows is True]
    except (ValueError, TypeError, LookupError):
        return [story[at] for at in part]


def reduced(reply, question):
    """The question without its outermost person; the same question where the reply does not say it."""
    try:
        text = reply.json()["question"]
    except (ValueError, TypeError, LookupError):
        return question
    return " ".join(text.split()) or question if isinstance(text, str) else question
