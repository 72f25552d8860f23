"""SimToM with the perspective that the truth gives: what would its second call answer if its first were right?"""

import re

from tomserve.benchmarks.hitom.events import Claim, Enter, Place, Tell, read_story
from tomserve.errors import ConfigError
from tomserve.items import UNKNOWN


def program(item, ask):
    """Ask on the sentences that the asked persons know; a question about no mind is asked directly."""
    seen = None
    if ask.people:
        kept = witnessed(item, ask.people) if item.benchmark == "hitom" else believed(item)
        seen = "\n".join(f"{number}. {item.story[number - 1]}" for number in kept)
    yield ask("answer", seen=seen)


def witnessed(item, people):
    """The numbers of the sentences of a Hi-ToM story that all these people saw, heard or were told together."""
    story = read_story(item.story)
    before, room, kept = {}, "", []
    for number, (event, after) in enumerate(zip(story.events, story.presence(), strict=True), 1):
        if isinstance(event, Enter):
            room = event.room
        if all(knows(event, person, before, after, room) for person in people):
            kept.append(number)
        before = after
    return kept


def knows(event, person, before, after, room):
    """Whether a person is there when something happens, or is told it. before, after: who is in which room."""
    if isinstance(event, Claim):
        return True
    if isinstance(event, Tell):
        return person in (event.speaker, event.hearer)
    if isinstance(event, Enter):
        return after.get(person) == event.room
    if isinstance(event, Place):
        return after.get(person) == room
    here = before.get(event.agent)
    return person == event.agent or (here is not None and before.get(person) == here)


def believed(item):
    """The numbers of the sentences that bear on what the asked person comes to believe.

    A sentence is left out where it names a label that the gold chain has neither there nor later, unless the chain
    changes with this sentence, or changes later to another label that it names.
    """
    if item.gold is None:
        raise ConfigError(
            f"simtom_oracle: item {item.id!r} has no gold, from which the perspective would be taken; ask by simtom"
        )
    chain = next(item.gold.automaton().chains())
    changes = [belief != before for before, belief in zip((UNKNOWN, *chain), chain, strict=False)]
    kept = []
    for at, sentence in enumerate(item.story):
        never = [label for label in item.choices if label not in chain[at:]]
        later = [chain[after] for after in range(at, len(chain)) if changes[after]]
        bears = changes[at] or any(names(sentence, label) for label in later)
        if bears or not any(names(sentence, label) for label in never):
            kept.append(at + 1)
    return kept


def names(sentence, label):
    """Whether the sentence holds the label's words, an article at its beginning aside."""
    word = re.sub(r"^(the|a|an|in|on|under) ", "", label)
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sentence, re.IGNORECASE) is not None
