"""SimToM: take the perspective of each person whose mind the question goes through, then ask on what is left."""


def program(item, ask):
    """Filter the story once a person, the outermost first, then ask. A question about no mind is asked directly."""
    seen, through = None, []
    for person in ask.people:
        reply = yield ask("perspective", person=person, through=through, seen=seen)
        seen = reply.text.strip()
        through = [*through, person]
    yield ask("answer", seen=seen)
