"""Reality and nested beliefs of any order after every sentence of a Hi-ToM story, under two named semantics.

A story is read once for an object (`trace`), which leaves the few sentences that can change a belief about it, with
the agents concerned as bits of an integer. Each of them becomes an update for an audience, and what any chain of
agents makes of those is left to the engine (tomserve.beliefs).

Seeing, in both semantics: who enters a room sees every object in it, mentioned or not; who is in a room when an
object is placed or moved there sees it. Such a sentence sets every chain of agents who are all present. Leaving
changes no belief. The object of a `Place` lies in the room that was entered last.

An agent who never entered believes "unknown", and so does everybody about an object not seen yet. Repeated agents are
refused: "Ann thinks Ann thinks" is no question of the benchmark, and the two semantics say nothing of it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from tomserve import beliefs
from tomserve.beliefs import Audience, Update, hearsay, shared_hearsay, together
from tomserve.benchmarks.hitom.events import WAITING_ROOM, Claim, Enter, Exit, Move, Place, Story, Tell
from tomserve.errors import one_of

Semantics = Literal["released", "common_knowledge"]
SEMANTICS: tuple[Semantics, ...] = ("released", "common_knowledge")
OTHER_SEMANTICS: Mapping[Semantics, Semantics] = {"released": "common_knowledge", "common_knowledge": "released"}
AUDIENCES: Mapping[Semantics, Callable[[int, int, int], Audience]] = {
    "released": hearsay,
    "common_knowledge": shared_hearsay,
}
"""Who takes over what is told, under each semantics: of speaker, hearers, and those of them who trust the speaker.

A hearer trusts a speaker who left later: the time is that of the last exit; who is in a room (not the waiting room)
has not left yet, later than all who have; who never was in one comes before all. Equal times: no trust. A public claim
reaches everybody who has entered the story, a private one its hearer, wherever they are; the speaker is no hearer of
his own words, and his own belief never changes. Of successive tells each is judged by itself, so that the last trusted
one wins, and whatever is seen later wins over both.

    released           B[h] and B[h, s] become c for every hearer h who trusts the speaker s; B[s, h] for every hearer.
                       Longer chains are not touched (the released generator stops there; so do orders above 4 here).
    common_knowledge   The exit order and a claim's audience are known to all concerned: every chain of agents who all
                       heard or said it, and that ends in a hearer who trusts s, becomes c. Nothing else changes.
"""
_INSIDE = 1 << 30  # exit time of who is in a room: after every sentence


class Mention(NamedTuple):
    """A sentence that shows or says where the traced object is. Agents are bits, see `Trace.bits`."""

    line: int  # 0-based index of the sentence
    container: str
    witnesses: int  # who sees it; of a tell the speaker and the hearers
    speaker: int = 0  # 0: it is seen, not told
    trusting: int = 0  # hearers who trust the speaker


@dataclass(frozen=True)
class Trace:
    """All sentences about one object, in a story of `lines` sentences, and what follows for beliefs about it."""

    lines: int
    bits: dict[str, int]  # agent who enters -> bit, in order of entrance
    mentions: tuple[Mention, ...]
    moved: tuple[int, ...]  # lines that place or move the object
    _under: dict[Semantics | None, beliefs.Trace] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def told(self) -> bool:
        """Whether anything is said about the object."""
        return any(mention.speaker for mention in self.mentions)

    def under(self, semantics: Semantics | None) -> beliefs.Trace:
        """Beliefs under that semantics, which says whom tellings reach; for None, and for both where nothing is said,
        as if nothing were said about the object. Raises ValueError for an unknown semantics."""
        if semantics is not None and semantics not in AUDIENCES:
            raise ValueError(one_of("semantics", str(semantics), SEMANTICS))
        known = semantics if self.told else None
        if known not in self._under:
            audience = AUDIENCES[known or SEMANTICS[0]]
            updates = [
                Update(line, (at,), audience(speaker, seen & ~speaker, trusting) if speaker else together(seen))
                for line, at, seen, speaker, trusting in self.mentions
                if known or not speaker
            ]
            self._under[known] = beliefs.Trace(self.lines, self.bits, tuple(updates))
        return self._under[known]

    def belief(self, asked: Sequence[str] = (), semantics: Semantics = "released") -> str:
        """Where the object is by `asked` (outermost agent first; none: really), at the story's end."""
        return self.under(semantics).label(asked)

    def chain(self, asked: Sequence[str] = (), semantics: Semantics = "released") -> list[str]:
        """The belief of `asked` after each sentence: `lines` labels, "unknown" until something is known."""
        return self.under(semantics).chain(asked)

    def deciding_line(self, asked: Sequence[str] = (), semantics: Semantics = "released") -> int | None:
        """0-based index of the sentence that set the final belief, or None where it is "unknown"."""
        if not asked:
            return self.moved[-1] if self.moved else None
        found = self.under(semantics).accept_updates(asked)
        return found[-1].line if found else None


def trace(story: Story, obj: str) -> Trace:
    """Read a story once for one object. An object never placed leaves no updates: everybody's belief is "unknown"."""
    bits: dict[str, int] = {}
    where: dict[str, str] = {}
    inside: dict[str, int] = {}  # room -> agents in it, as bits
    left: dict[str, int] = {}  # agent -> time of the last exit
    mentions: list[Mention] = []
    moved: list[int] = []
    entered = room = container = ""
    for line, event in enumerate(story.events):
        if isinstance(event, Exit):
            if (out := where.pop(event.agent, None)) is not None:
                inside[out] &= ~bits[event.agent]
                left[event.agent] = line
        elif isinstance(event, Move | Place):
            if event.object == obj:
                room = entered if isinstance(event, Place) else where.get(event.agent, "")
                container = event.container
                moved.append(line)
                mentions.append(Mention(line, container, inside.get(room, 0)))
        elif isinstance(event, Enter):
            entered = event.room
            for name in event.agents:
                bit = bits.setdefault(name, 1 << len(bits))
                if (out := where.get(name)) is not None:
                    inside[out] &= ~bit
                inside[entered] = inside.get(entered, 0) | bit
                where[name] = entered
                if entered != WAITING_ROOM:
                    left[name] = _INSIDE
                elif left.get(name) == _INSIDE:  # went to wait without a sentence that says so
                    left[name] = line
            if container and entered == room:
                mentions.append(Mention(line, container, inside[room]))
        elif isinstance(event, Claim | Tell) and event.object == obj and event.speaker in bits:
            speaker = bits[event.speaker]
            time = left.get(event.speaker, -1)
            hearers = trusting = 0
            for name in (event.hearer,) if isinstance(event, Tell) else bits:
                hearers |= bits.get(name, 0)
                if time > left.get(name, -1):  # which the speaker's own is not
                    trusting |= bits.get(name, 0)
            mentions.append(Mention(line, event.container, speaker | hearers, speaker, trusting))
    return Trace(len(story.events), bits, tuple(mentions), tuple(moved))


def find_mentioned(sentences: Iterable[str], choices: Sequence[str]) -> list[str]:
    """The choices that occur in the story as a word, also in tells and distractors, in order of first mention. A
    guesser who looks at the story needs no more than these: chance is 1 / their number."""
    wanted = set(choices)
    words = (word for text in sentences for word in re.findall(r"[\w'-]+", text))
    return list(dict.fromkeys(word for word in words if word in wanted))
