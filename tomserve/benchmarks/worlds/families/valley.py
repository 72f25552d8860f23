"""Valley: five scenes in a social setting, in which one matter is settled anew in every scene (after DynToM, 2025).

Four people wish for four different outcomes. All hear the first decision; of each later one only P or only Q hears, and
in scenes 2 to 4 the other is then told something, true or false, by R, whom both trust, or by S, whom both distrust.
What P and Q believe, feel, intend and do therefore goes its own way through the scenes. Before scene 5 P is right; in
the scenario "missed" it is P who misses the last decision, in "noticed" it is Q. Every outcome is named in a list at
the beginning, twice in scenes 1 to 5, and in a list at the end.

What a question is to have as its right answer is drawn first, uniformly, and then a course of events is drawn until
there is one that has it. So no answer is right more often because such events are more frequent, and all else that
could give it away (who heard of it, in which scene, from whom) is left to chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.families.valley_course import (
    MOODS,
    REPLIES,
    VALUES,
    Course,
    Place,
    aims,
    course,
    places,
)
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.record import Key, World


def draw(draft: Draft, scenario: str) -> World:
    """A world of five scenes; see the module for the scenarios."""
    rng = draft.rng
    draft.cast(("P", "Q", "R", "S"))
    setting = _setting(draft)
    draft.facts, draft.plans = {"matter": VALUES}, {"matter": {value: f"act_{value}" for value in VALUES}}
    aim, wish = aims(rng), rng.choice((3, 4))
    while (told := course(rng, wish)) is None or (asked := places(rng, told, aim)) is None:
        pass
    lists = [rng.sample("PQRS", 4) for _ in range(3)] + [rng.sample("PQ", 2)]
    wishes = told.wishes | dict(zip("RS", rng.sample(sorted({*VALUES} - {*told.wishes.values()}), 2), strict=True))
    ends = _tell(draft, told, lists, wishes, ("P", "Q") if scenario == "noticed" else ("Q", "P"))
    last = told.real[4] if scenario == "noticed" else told.beliefs["P"][3]
    asking = _Asking(draft, told, asked, ends, last)
    for add in (asking.understanding, asking.influence, asking.whether, asking.how, asking.why):
        add()
    return draft.world(scenario=scenario, setting=setting)


def _setting(draft: Draft) -> str:
    """Choose the setting and write its words; returns its name."""
    rng, extra = draft.rng, draft.lexicon.extra
    setting = rng.choice(extra(draft.family, "settings"))
    draft.words |= {"g": setting["group"], "d": setting["decider"], "m": setting["matter"]}
    for value, text in zip(VALUES, rng.sample(setting["values"], 4), strict=True):
        draft.words |= {value: text, f"c_{value}": setting["claim"].format(v=f"{{{value}}}")}
        draft.words[f"act_{value}"] = setting["act"].format(v=f"{{{value}}}")
    draft.words |= dict(zip(REPLIES, rng.choice(extra(draft.family, "replies")), strict=True))
    draft.words |= dict(zip("stuv", rng.sample(extra(draft.family, "traits"), 4), strict=True))
    draft.words |= dict(zip("opqr", rng.sample(draft.lexicon.words["occupations"], 4), strict=True))
    draft.words |= {f"n{k}": f"Scene {k + 1}:" for k in range(5)} | {f"k{k}": f"scene {k + 1}" for k in range(5)}
    return str(setting["group"])


def _tell(
    draft: Draft, told: Course, lists: Sequence[list[Key]], wishes: dict[Key, Key], last: tuple[Key, Key]
) -> list[int]:
    """Add all scenes; last: who hears the last decision, and who misses it. Returns the last line of each scene."""
    draft.scene("people", _slots("ABCD", lists[0]))
    slots = _slots("ABCD", lists[1]) | _slots("abef", [wishes[name] for name in lists[1]])
    draft.scene("wishes", slots, *(f"want {name} matter={value}" for name, value in wishes.items()))
    draft.scene("trust", _slots("ABIU", [*lists[3], "R", "S"]), "distrust P, Q S")
    draft.scene("replies", {"x1": "match", "x2": "mismatch"})
    draft.scene("begins", {"n": "n0", "c": f"c_{told.real[0]}"}, "scene", f"fact matter={told.real[0]}")
    draft.scene("all_hear", _slots("ABCD", lists[2]), "see P, Q, R, S matter")
    ends = [len(draft.scenes) - 1]
    for k, (hearer, teller, said) in enumerate(zip(told.hears, told.tellers, told.told, strict=True), start=1):
        other = "Q" if hearer == "P" else "P"
        fact = f"fact matter={told.real[k]} seen {hearer}"
        draft.scene("change", {"n": f"n{k}", "A": hearer, "B": other, "c": f"c_{told.real[k]}"}, "scene", fact)
        draft.scene("told", {"A": other, "I": teller, "c": f"c_{said}"}, f"tell {teller} {other} matter={said}")
        ends.append(len(draft.scenes) - 1)
    draft.scene("last_day", {"n": "n4"}, "scene")
    draft.scene("last_change", {"c": f"c_{told.real[4]}"}, f"fact matter={told.real[4]}", part="cause")
    draft.scene("last_percept", _slots("AB", last), f"see {last[0]} matter", part="percept")
    ends.append(len(draft.scenes) - 1)
    draft.scene("closing", _slots("abef", draft.rng.sample(VALUES, 4)), part="filler")
    return ends


class _Asking:
    """Adds the questions. told: what happens. asked: who is asked about in which scene, by question. ends: the last
    line of each scene. last: what P believes at the end."""

    def __init__(self, draft: Draft, told: Course, asked: Mapping[str, Place], ends: Sequence[int], last: Key) -> None:
        self.draft, self.told, self.asked, self.ends = draft, told, asked, ends
        self.beliefs = [*told.beliefs["P"], last]
        self.final = told.real[3:]
        for value in VALUES:
            draft.words |= {f"{mood}_{value}": f"{mood} about {{{value}}}" for mood in MOODS}
            draft.words |= {f"{reply}_{value}": f"to {{{reply}}} because of {{{value}}}" for reply in REPLIES}
            speakers = {"fact": "d", "R": "R", "S": "S"}
            draft.words |= {f"{key}_{value}": f"what {{{who}}} said about {{{value}}}" for key, who in speakers.items()}

    def ask(self, task: str, kind: str, role: str, place: Place, choices: Sequence[Key]) -> None:
        """Ask of the person what `kind` says at the end of the scene; the dimension is the last word of the role."""
        (who, k), dimension = place, role.rpartition("_")[2]
        slots = {"n": f"k{k}", "k": f"k{max(k - 1, 0)}"}
        given: dict[str, str | int] = {"task": task, "dimension": dimension, "scene": k + 1}
        self.draft.ask(kind, "matter", choices, (who,), role=role, at=self.ends[k], slots=slots, **given)

    def understanding(self) -> None:
        """What a person believes, feels, intends and does."""
        end = ("P", 4)
        for place in (self.asked["belief1"], self.asked["belief2"], end):
            self.ask("understanding", "belief", "belief", place, VALUES)
        self.ask("understanding", "feeling_about", "emotion", end, _grid(MOODS, self.final))
        self.ask("understanding", "reply_about", "intention", end, _grid(REPLIES, self.final))
        for place in (self.asked["action"], end):
            self.ask("understanding", "action", "action", place, [f"act_{value}" for value in VALUES])

    def influence(self) -> None:
        """Which feeling and which intention comes from the belief; one of the two beliefs offered is the wish."""
        for role, kind, states in (
            ("influence_emotion", "belief_then_feeling", MOODS),
            ("influence_intention", "belief_then_reply", REPLIES),
        ):
            who, k = self.asked[role]
            now, wish = self.told.beliefs[who][k], self.told.wishes[who]
            lure = wish if now != wish else self.draft.rng.choice([value for value in VALUES if value != now])
            verb = "is|are|am" if states is MOODS else "means|mean"
            for value, state in ((value, state) for value in (now, lure) for state in states):
                then = state if states is MOODS else f"to {{{state}}}"
                text = f"believing that {{c_{value}}}, {{{who}}} {{{who}:{verb}}} {then}"
                self.draft.words[f"{value}_{state}"] = text
            self.ask("influence", kind, role, (who, k), _grid((now, lure), states))

    def whether(self) -> None:
        """Whether belief, feeling and intention change from one scene to the next."""
        who, k = self.asked["whether_belief"]
        start, now = self.told.beliefs[who][k - 1 : k + 1]
        others = self.draft.rng.sample([value for value in VALUES if value not in (start, now)], 2)
        end = now if now != start else next(value for value in VALUES if value not in (start, *others))
        changes = _grid((start, others[0]), (end, others[1]))
        changes.pop(self.draft.rng.randrange(1, 4))
        words = {change: f"yes, from {{{change[0]}}} to {{{change[2]}}}" for change in changes}
        self.draft.words |= words | {f"{start}_{start}": "no, it stays the same"}
        self.ask("transformation_whether", "belief_since", "whether_belief", (who, k), [f"{start}_{start}", *changes])
        for role, kind, states, text in (
            ("whether_emotion", "feeling_since", MOODS, MOODS),
            ("whether_intention", "reply_since", REPLIES, [f"to {{{reply}}}" for reply in REPLIES]),
        ):
            for one, before in zip(states, text, strict=True):
                for two, after in zip(states, text, strict=True):
                    said = f"no, {before} both times" if one == two else f"yes, first {before}, then {after}"
                    self.draft.words[f"{one}_{two}"] = said
            self.ask("transformation_whether", kind, role, self.asked[role], _grid(states, states))

    def how(self) -> None:
        """How P's belief and feeling change over the scenes; the choices differ in one scene and in the last."""
        k, held = self.asked["how_belief"][1], self.beliefs
        lures = [self.told.real[k], held[k - 1], *self.draft.rng.sample(VALUES, 4)]
        lure = next(value for value in lures if value != held[k])
        self._course("belief_course", "how_belief", held, k, (held[k], lure), self.final)
        moods = [MOODS[value != self.told.wishes["P"]] for value in held]
        self._course("feeling_course", "how_emotion", moods, self.asked["how_emotion"][1], MOODS, MOODS)

    def _course(
        self, kind: str, role: str, states: Sequence[Key], k: int, here: Sequence[Key], end: Sequence[Key]
    ) -> None:
        """Ask for P's states over the scenes; what is offered differs in scene k and at the end."""
        choices = []
        for one in here:
            for two in end:
                offered = [*states[:k], one, *states[k + 1 : 4], two]
                choices.append("_".join(offered))
                text = [state if state in MOODS else f"{{{state}}}" for state in offered]
                self.draft.words[choices[-1]] = ", ".join(text)
        self.ask("transformation_how", kind, role, ("P", 4), choices)

    def why(self) -> None:
        """Which event of the story changed belief or feeling: two decisions and two tellings are offered."""
        told = self.told
        for role, kind in (("why_belief", "belief_cause"), ("why_emotion", "feeling_cause")):
            place = self.asked[role]
            decisions = [told.event((place[0], k), heard=True) for k in range(5)]
            tellings = [told.event((place[0], k), heard=False) for k in (1, 2, 3)]
            chosen = []
            for events, own in ((decisions, decisions[place[1]]), (tellings, tellings[place[1] - 1])):
                chosen += [own, self.draft.rng.choice([event for event in events if event != own])]
            self.ask("transformation_why", kind, role, place, chosen)


def _grid(first: Sequence[Key], second: Sequence[Key]) -> list[Key]:
    return [f"{one}_{two}" for one in first for two in second]


def _slots(names: str, keys: Sequence[Key]) -> dict[str, Key]:
    return dict(zip(names, keys, strict=True))


FAMILY = Family("valley", draw, versions=(("missed", "noticed"),), twins={"missed": "noticed"}, most=12)
"""The value by which worlds knows the family."""
