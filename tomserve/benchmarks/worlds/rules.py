"""The rules that give every right answer, on one page. Where they settle no answer, the question is never asked.

Beliefs of any order follow from who perceives what and who tells whom (tomserve.beliefs): people believe what they
last saw, or were last told by somebody whom they do not distrust, and that nothing has changed since. Who tells
something expects to be believed; who believes it takes the speaker to believe it, too.

From beliefs and desires follow the rest:

    desire      what the story says that somebody wants.
    intention   Who wants something intends the act that would bring it about if what they believe were true, whatever
    and action  is really so, and does it unless prevented (belief-desire psychology: Davidson 1963; Wellman 1990; in
                models of others' actions Baker, Saxe and Tenenbaum 2009). What somebody will do who believes nothing
                of the matter is unknown.
    backward    Of who acts, the same rule read backwards gives the belief (the desire being known) or the desire (the
                belief being known), where only one fits.
    feelings    Joy and distress are about what is believed to have come about, hope and fear about what is believed to
                lie ahead, each by whether it is what was wanted; relief is joy or hope where the contrary was believed
                before, disappointment distress where it was; anger is distress at what somebody is believed to have
                done on purpose (appraisal: Roseman 1984; Ortony, Clore and Collins 1988). Who believes nothing of the
                matter feels neither.
    surprise    Finding out is surprising where it differs from what was believed, and not where it agrees (Meyer,
                Reisenzein and Schuetzwohl 1997). Who believed nothing had nothing to be surprised about: not asked. Ann
                thinks that Ben will be surprised where what she believes differs from what she thinks he believes.
    faces       A face may show another feeling than the one that is felt (display rules: Ekman and Friesen 1969). Who
                knows how the matter stands for somebody goes by that; who does not goes by the face, and who does
                not see that, either, cannot tell (Harris, Donnelly, Guz and Pitt-Watson 1986).
    replies     Where a story says how people mean to reply to a matter, they mean the one reply ("match") if they
                believe that it is as they want, and the other ("mismatch") if not.
    changes     How these states go through the scenes of a story, and why, say the rules of change below.

Rules of change: states of mind over the scenes. A line with the event ``scene`` begins a scene; what somebody
believes or feels "in" a scene is what they do at its end. Each rule here is made from a rule for a state of mind,
such as the belief:

    pair        Two states at one moment, of which one brings about the other, such as the belief and the feeling: since
                feelings and intentions are functions of belief and desire, the belief at that moment explains them.
    since       The state at the end of the scene before, and now: it changed if they differ (asked whether it changed).
    course      The state at the end of each scene so far, in order (asked how it changes).
    cause       The event that gave the belief its present content. Nothing else changed since then, so that without it
                belief, feeling and intention would be as before (the counterfactual reading of causes: Lewis 1973).
                So there is a cause only where one event of the scene bears on that belief, and the desire is the same.

    >>> from tomserve.benchmarks.worlds.record import Question
    >>> sorted(KINDS)[:4]
    ['action', 'belief', 'belief_cause', 'belief_course']
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tomserve.beliefs import Trace, Update, hearsay, together
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.errors import one_of
from tomserve.items import UNKNOWN

Rule = Callable[["Case"], Key | None]
"""A rule: a function that gives the key of the right choice, or None."""


def pair(first: Rule, second: Rule) -> Rule:
    """The rule whose answer is the keys of both states, joined by an underscore."""
    return lambda case: _join_states([first(case), second(case)])


def since(state: Rule) -> Rule:
    """The rule whose answer is the state at the end of the scene before and now, joined by an underscore; None in the
    first scene."""

    def rule(case: Case) -> Key | None:
        begins = [line for line in case.happened.scenes if line <= case.at]
        return _join_states([state(replace(case, at=begins[-1] - 1)), state(case)]) if len(begins) > 1 else None

    return rule


def course(state: Rule) -> Rule:
    """The rule whose answer is the state at the end of each scene up to now, joined by underscores."""

    def rule(case: Case) -> Key | None:
        begins = [line for line in case.happened.scenes if line <= case.at]
        return _join_states([state(replace(case, at=line)) for line in (*(line - 1 for line in begins[1:]), case.at)])

    return rule


def cause(state: Rule) -> Rule:
    """The rule whose answer is the event that changed the belief in the present scene: who said it ("fact" where it was
    no telling, "voice" for one without a name) and the value; None where the state is that of the scene before, there
    is none, or several events bear on it."""

    def rule(case: Case) -> Key | None:
        begins = [line for line in case.happened.scenes if line <= case.at]
        if len(begins) < 2:
            return None
        before, trace = replace(case, at=begins[-1] - 1), case.happened.traces[case.question.fact]
        if state(case) in (None, state(before)) or case.wanted != before.wanted:
            return None
        events = [update for update in trace.accept_updates(case.question.who) if begins[-1] <= update.line <= case.at]
        if len(events) != 1:
            return None
        place = next(place for place, update in enumerate(trace.updates) if update is events[0])
        return f"{case.happened.speakers.get((case.question.fact, place), 'fact')}_{case.find_belief()}"

    return rule


def _join_states(states: list[Key | None]) -> Key | None:
    return None if None in states else "_".join(str(state) for state in states)


_PEOPLE = r"\w+(?:, ?\w+)*"
_FORMS = {
    "fact": re.compile(rf"fact (?P<fact>\w+)=(?P<value>\w+)(?: seen (?P<people>{_PEOPLE}))?"),
    "see": re.compile(rf"see (?P<people>{_PEOPLE}) (?P<fact>\w+)"),
    "alone": re.compile(rf"alone (?P<people>{_PEOPLE}) (?P<fact>\w+)"),
    "tell": re.compile(rf"tell (?P<actor>\w+|-) (?P<people>{_PEOPLE}) (?P<fact>\w+)=(?P<value>\w+)"),
    "distrust": re.compile(rf"distrust (?P<people>{_PEOPLE}) (?P<actor>\w+)"),
    "want": re.compile(rf"want (?P<people>{_PEOPLE}) (?P<fact>\w+)=(?P<value>\w+)"),
    "seek": re.compile(rf"seek (?P<people>{_PEOPLE}) (?P<fact>\w+)"),
    "act": re.compile(r"act (?P<actor>\w+) (?P<value>\w+)"),
    "show": re.compile(rf"show (?P<actor>\w+) (?P<value>\w+)(?: seen (?P<people>{_PEOPLE}))?"),
    "scene": re.compile(r"scene"),
}


"""The forms of events. The events of a line are written so, where A and B are keys of people, F is a fact and V one of
its values:

    fact F=V [seen A, B]    from here on F is V; A and B perceive it together
    see A, B F              A and B find out together what F is
    alone A, B F            A and B find out what F is, each without knowing of anybody else
    tell S A, B F=V         S says to A and B that F is V; those who do not distrust S take it over
    distrust A S            A distrusts S from here on: whatever S says changes nothing for A
    want A F=V              A wants F to be V
    seek A F                A wants the thing that F is the place of, wherever that is
    act A V                 A does the act V, from which others may conclude what A believes or wants
    show A V [seen B, C]    A's face shows the feeling V; B and C see it
    scene                   a new scene begins with this line

`tell` says nothing of whether the speaker is right or sincere: what the speaker believes does not change. A person may
be told something by a voice without a name of its own: then S is "-".
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its verb, who acts or speaks ("" for nobody), whom it reaches, and the fact and value it is about."""

    verb: str
    actor: str = ""
    people: tuple[str, ...] = ()
    fact: str = ""
    value: str = ""


@lru_cache(maxsize=8192)
def parse(text: str) -> Event:
    """Read one event. Raises ValueError for an unknown verb, with the known ones, and for words that do not fit."""
    verb = text.split(" ", 1)[0]
    if (form := _FORMS.get(verb)) is None:
        raise ValueError(f"event {text!r}: unknown verb {verb!r}; known: {', '.join(_FORMS)}")
    if (match := form.fullmatch(text)) is None:
        raise ValueError(f"event {text!r}: does not fit the form of {verb!r} (see tomserve/benchmarks/worlds/rules.py)")
    found = match.groupdict()
    people = tuple(name.strip() for name in (found.get("people") or "").split(",") if name.strip())
    actor = found.get("actor") or ""
    return Event(verb, "" if actor == "-" else actor, people, found.get("fact") or "", found.get("value") or "")


@dataclass(slots=True)
class WorldHistory:
    """All that happened in a world of `lines` lines."""

    lines: int
    traces: dict[str, Trace]  # beliefs about each fact
    # pairs of line and wanted value, by person and fact; the value is "" where a thing is sought wherever it is
    wants: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    acts: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))  # by person
    # line, feeling and who saw it, by person
    shown: dict[str, list[tuple[int, str, tuple[str, ...]]]] = field(default_factory=lambda: defaultdict(list))
    scenes: list[int] = field(default_factory=list)  # the lines with which scenes begin
    # who makes an update of a trace by saying it ("voice" for one without a name), by the fact and the update's place
    speakers: dict[tuple[str, int], str] = field(default_factory=dict)
    _beliefs: dict[tuple[str, tuple[str, ...]], list[str]] = field(default_factory=dict, repr=False, compare=False)

    def beliefs(self, fact: str, who: tuple[str, ...]) -> list[str]:
        """What a person, or a chain of them, believes about a fact after each line [lines]; UNKNOWN where several
        values are possible. It is kept, because the rules ask for it after each line and for several kinds of question.
        Raises ValueError as `Trace.spans` does."""
        if (found := self._beliefs.get((fact, who))) is None:
            found = self._beliefs[fact, who] = []
            for belief, lines in self.traces[fact].spans(who):
                found += [belief.labels[0] if len(belief.labels) == 1 else UNKNOWN] * lines
        return found

    def find_wish(self, person: str, fact: str, at: int | None = None) -> str | None:
        """What the person last wanted the fact to be, by the 0-based line `at` (None: the end); None for nothing."""
        found = [value for line, value in self.wants.get((person, fact), ()) if at is None or line <= at]
        return found[-1] if found else None


def read_events(
    story: Sequence[Sequence[str]], facts: Mapping[str, Sequence[str]], people: Iterable[str]
) -> WorldHistory:
    """What happened, from the events of each line.

    story: the events of each line. facts: the values of each fact. people: the keys of everybody. Raises ValueError by
    line for an event that cannot be read, and for a person, fact or value that the world does not have.

    >>> lines = [["fact place=x seen P, Q"], ["fact place=y seen Q"], ["tell Q P place=x"]]
    >>> world = read_events(lines, {"place": ("x", "y")}, "PQ")
    >>> world.traces["place"].chain(()), world.traces["place"].chain(("P",))
    (['x', 'y', 'y'], ['x', 'x', 'x'])
    """
    bits = {name: 1 << place for place, name in enumerate(people)}
    told = WorldHistory(len(story), {})
    updates: dict[str, list[Update]] = {fact: [] for fact in facts}
    real: dict[str, str] = {}
    distrusted: set[tuple[str, str]] = set()

    def mask(names: Iterable[str]) -> int:
        return sum({bits[name] for name in names})

    for line, texts in enumerate(story):
        for text in texts:
            event = _read_event(line, text, bits, facts)
            match event:
                case Event("fact", _, who, fact, value):
                    real[fact] = value
                    updates[fact].append(Update(line, (value,), together(mask(who))))
                case Event("see" | "alone", _, who, fact):
                    groups = [who] if event.verb == "see" else [(name,) for name in who]
                    seen = (real.get(fact, UNKNOWN),)
                    updates[fact] += [Update(line, seen, together(mask(group))) for group in groups]
                case Event("tell", actor, who, fact, value):
                    trusting = [name for name in who if (name, actor) not in distrusted]
                    heard = hearsay(bits[actor] if actor else 0, mask(who), mask(trusting))
                    told.speakers[fact, len(updates[fact])] = actor or "voice"
                    updates[fact].append(Update(line, (value,), heard))
                case Event("distrust", actor, who):
                    distrusted |= {(name, actor) for name in who}
                case Event("want" | "seek", _, who, fact, value):
                    for name in who:
                        told.wants[name, fact].append((line, value))
                case Event("act", actor, _, _, value):
                    told.acts[actor].append((line, value))
                case Event("show", actor, who, _, value):
                    told.shown[actor].append((line, value, who))
                case _ if line not in told.scenes:
                    told.scenes.append(line)
    told.traces |= {fact: Trace(len(story), bits, tuple(found)) for fact, found in updates.items()}
    return told


def _read_event(line: int, text: str, people: Mapping[str, int], facts: Mapping[str, Sequence[str]]) -> Event:
    """The event of that text in that line. Raises ValueError for one that makes no sense in this world."""
    try:
        event = parse(text)
    except ValueError as error:
        raise ValueError(f"line {line + 1}: {error}") from None
    for name in (*event.people, *([event.actor] if event.actor else [])):
        if name not in people:
            raise ValueError(f"line {line + 1}: event {text!r} names {name!r}, who is nobody of this world")
    if event.fact and event.fact not in facts:
        raise ValueError(f"line {line + 1}: event {text!r}: unknown fact; known: {', '.join(facts)}")
    if event.fact and event.value not in ("", UNKNOWN, *facts[event.fact]):
        known = ", ".join(facts[event.fact])
        raise ValueError(f"line {line + 1}: event {text!r}: unknown value; known: {known}")
    return event


GLAD, SAD, ANGRY, RELIEVED, DISAPPOINTED = "glad", "sad", "angry", "relieved", "disappointed"
AFRAID, HOPEFUL, SURPRISED, UNSURPRISED, INDIFFERENT = "afraid", "hopeful", "surprised", "not_surprised", "indifferent"
FEELINGS: Mapping[Key, str] = {
    **{name: name for name in (GLAD, SAD, ANGRY, RELIEVED, DISAPPOINTED, AFRAID, HOPEFUL, SURPRISED)},
    UNSURPRISED: "not surprised",
    INDIFFERENT: "neither glad nor sad",
}
"""The feelings of the rules, by their keys in every world, with the words that name them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a world with all that happened in it. at: the 0-based line after which the answer is wanted."""

    world: World
    happened: WorldHistory
    question: Question
    at: int

    def find_belief(self, who: tuple[Key, ...] | None = None, at: int | None = None) -> Key:
        """What the fact is by the people asked about, or by `who`, after the line `at`; UNKNOWN where they cannot tell
        or several values are possible."""
        people = self.question.who if who is None else who
        return self.happened.beliefs(self.question.fact, people)[self.at if at is None else at]

    @property
    def wanted(self) -> Key | None:
        """What the innermost person asked about wants the fact to be; None where the story does not say."""
        return self.happened.find_wish(self.question.who[-1], self.question.fact, self.at)

    def believed_before(self) -> set[Key]:
        """All values that the people asked about believed at some time before, UNKNOWN left out."""
        return {self.find_belief(at=line) for line in range(self.at)} - {UNKNOWN, self.find_belief()}

    def act(self, belief: Key, wanted: Key | None) -> Key | None:
        """The act of somebody with this belief and desire, by the world's plan; None where the plan says nothing."""
        plan = self.world.plans.get(self.question.fact, {})
        if wanted is None:
            return None
        if belief == UNKNOWN:
            return UNKNOWN
        if "match" in plan:
            return plan["match" if belief == wanted else "mismatch"] if wanted else None
        return plan.get(belief)

    def find_act(self) -> Key | None:
        """What the innermost person asked about last did; None for nothing."""
        found = [act for line, act in self.happened.acts.get(self.question.who[-1], ()) if line <= self.at]
        return found[-1] if found else None


def _belief(case: Case) -> Key | None:
    return case.find_belief()


def _action(case: Case) -> Key | None:
    return case.act(case.find_belief(), case.wanted)


def _belief_from_act(case: Case) -> Key | None:
    acted, values = case.find_act(), case.world.facts[case.question.fact]
    return _only({value for value in values if acted and case.act(value, case.wanted) == acted})


def _desire_from_act(case: Case) -> Key | None:
    acted, values, belief = case.find_act(), case.world.facts[case.question.fact], case.find_belief()
    if belief == UNKNOWN:
        return None
    return _only({value for value in values if acted and case.act(belief, value) == acted})


def feelings(case: Case) -> set[Key]:
    """The feelings that the people asked about have about the fact (the outer ones: think that the innermost has)."""
    wanted, now = case.wanted, case.find_belief()
    if not wanted:
        return set()
    if now == UNKNOWN:
        return {INDIFFERENT}
    ahead = case.question.fact in case.world.prospects
    if now == wanted:
        relief = {RELIEVED} if case.believed_before() else set()
        return relief | {HOPEFUL if ahead else GLAD}
    lost = {DISAPPOINTED} if wanted in case.believed_before() else set()
    return {AFRAID} if ahead else {SAD} | lost


def _feeling(case: Case) -> Key | None:
    return _only(feelings(case) & set(case.question.choices))


def _seen_feeling(case: Case) -> Key | None:
    """What an onlooker thinks that somebody feels: by how the matter stands for them, else by the face they saw;
    UNKNOWN where they saw none."""
    if case.find_belief() != UNKNOWN:
        return _feeling(case)
    return _face(case) or UNKNOWN


def _face(case: Case) -> Key | None:
    """What the face of the innermost person showed last, to the outer ones where there are any."""
    *onlookers, person = case.question.who
    shown = case.happened.shown.get(person, ())
    seen = [value for line, value, people in shown if line <= case.at and set(onlookers) <= set(people)]
    return seen[-1] if seen else None


def _surprise(case: Case) -> Key | None:
    """Whether finding out will surprise the innermost person, by what is so, or what the outer ones believe is so."""
    believed, real = case.find_belief(), case.find_belief(case.question.who[:-1])
    if UNKNOWN in (believed, real):
        return None
    return UNSURPRISED if believed == real else SURPRISED


def _mood(case: Case) -> Key | None:
    """Whether the person is glad or sad, whatever finer feelings apply."""
    return _only(feelings(case) & {GLAD, SAD})


def _reply(case: Case) -> Key | None:
    """Which of two replies the person intends: "match" or "mismatch"."""
    believed = case.find_belief()
    if believed == UNKNOWN or not case.wanted:
        return None
    return "match" if believed == case.wanted else "mismatch"


def _only(found: set[Key]) -> Key | None:
    return next(iter(found)) if len(found) == 1 else None


KINDS: Mapping[str, Callable[[Case], Key | None]] = {
    "reality": lambda case: case.find_belief(()),
    "belief": _belief,
    "desire": lambda case: case.wanted or None,
    "intention": _action,
    "action": _action,
    "belief_from_act": _belief_from_act,
    "desire_from_act": _desire_from_act,
    "feeling": _feeling,
    "seen_feeling": _seen_feeling,
    "face": _face,
    "blame": _belief,  # whoever is believed to have done on purpose what was not wanted
    "surprise": _surprise,
    "feeling_about": pair(_mood, _belief),
    "reply_about": pair(_reply, _belief),
    "belief_then_feeling": pair(_belief, _mood),
    "belief_then_reply": pair(_belief, _reply),
    "belief_since": since(_belief),
    "feeling_since": since(_mood),
    "reply_since": since(_reply),
    "belief_course": course(_belief),
    "feeling_course": course(_mood),
    "belief_cause": cause(_belief),
    "feeling_cause": cause(_mood),
}
"""The rule that answers each kind of question: a function that gives the key of the right choice, or None."""


def read_world(world: World) -> WorldHistory:
    """What happened in a world. Raises ValueError by line for an event that makes no sense."""
    return read_events([scene.events for scene in world.scenes], world.facts, world.people)


def answer(
    world: World,
    question: Question,
    known: WorldHistory | None = None,
    at: int | None = None,
    *,
    case: type[Case] = Case,
) -> Key | None:
    """The key of the right choice, or None where the rules do not settle the question or its answer is no choice.
    known: what happened, where it was read before. at: the 0-based line after which the answer is wanted; by default
    that of the question, or the end. case: who reads the world; another reader overrides what people believe in it.
    Raises ValueError for an event that makes no sense, and for an unknown kind."""
    known = known or read_world(world)
    if at is None:
        at = question.at if question.at is not None else known.lines - 1
    if question.kind not in KINDS:
        raise ValueError(one_of("kind of question", question.kind, KINDS))
    found = KINDS[question.kind](case(world, known, question, at))
    return found if found in question.choices else None


def believed(world: World, question: Question, who: tuple[Key, ...], known: WorldHistory | None = None) -> Key | None:
    """What these people believe of the fact that a question is about, when it is asked; what is so, for nobody."""
    known = known or read_world(world)
    at = question.at if question.at is not None else known.lines - 1
    found = Case(world, known, question, at).find_belief(who)
    return found if found in (*world.facts[question.fact], UNKNOWN) else None


def answers(world: World, question: Question, known: WorldHistory | None = None) -> list[Key] | None:
    """The right answer after every line, up to the line that is asked about; None where some line has none."""
    known = known or read_world(world)
    last = question.at if question.at is not None else known.lines - 1
    found: list[Key] = []
    for at in range(last + 1):
        if found and not world.scenes[at].events:
            found.append(found[-1])  # no rule's answer changes with a line in which nothing happens
        elif (key := answer(world, question, known, at)) is not None:
            found.append(key)
        else:
            return None
    return found
