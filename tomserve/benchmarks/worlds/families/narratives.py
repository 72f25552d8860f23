"""Families in the manner of published benchmarks: causal stories (BigToM) and the valley of five scenes (DynToM)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tomserve.benchmarks.worlds.draft import Draft, Family, by_slot
from tomserve.benchmarks.worlds.lexicon import expand_phrasing
from tomserve.benchmarks.worlds.record import Key, World
from tomserve.benchmarks.worlds.rules import GLAD, SAD
from tomserve.items import UNKNOWN

VALUES = ("w", "x", "y", "z")
MOODS, REPLIES = ("glad", "sad"), ("match", "mismatch")
Place = tuple[Key, int]
"""Somebody in a scene, which is counted from 0."""


@dataclass(frozen=True)
class Course:
    """What happens. real: the decisions. told: what is said in scenes 2 to 4. hears, tellers: who hears the decision,
    and who tells the other something, in those scenes. beliefs: of P and Q after scenes 1 to 4. wishes: of P and Q."""

    real: list[Key]
    told: list[Key]
    hears: list[Key]
    tellers: list[Key]
    beliefs: dict[Key, list[Key]]
    wishes: dict[Key, Key]

    def glad(self, place: Place) -> bool:
        """Whether the person believes to have got the wish."""
        return self.beliefs[place[0]][place[1]] == self.wishes[place[0]]

    def event(self, place: Place, heard: bool) -> Key:
        """The event of a scene: what the person, or the other one, heard from whoever decides, or was told."""
        k = place[1]
        return f"fact_{self.real[k]}" if heard else f"{self.tellers[k - 1]}_{self.told[k - 1]}"


def draw_course(rng: random.Random, wish: int) -> Course | None:
    """A course of events drawn at random; None where it does not fit. wish: P's is the decision of this scene."""
    named = [*VALUES, *VALUES]
    rng.shuffle(named)
    real, told = named[:5], named[5:]
    hears, tellers = rng.choices("PQ", k=3), rng.choices("RS", k=3)
    if any(one == two for one, two in pairwise(real)):
        return None
    beliefs = {"P": real[:1], "Q": real[:1]}
    for now, said, hearer, teller in zip(real[1:4], told, hears, tellers, strict=True):
        other = beliefs["Q" if hearer == "P" else "P"]
        beliefs[hearer].append(now)
        if said == other[-1]:
            return None
        other.append(said if teller == "R" else other[-1])
    if beliefs["P"][3] != real[3]:
        return None
    wishes = {"P": real[wish]}
    wishes["Q"] = rng.choice([value for value in VALUES if value != wishes["P"]])
    return Course(real, told, hears, tellers, beliefs, wishes)


@dataclass(frozen=True)
class TargetAnswers:
    """What the right answers are to be: booleans that say, by question, whether a belief is true or a person glad."""

    true: tuple[bool, bool, bool]
    glad: tuple[bool, bool]
    stays: bool
    moods: tuple[tuple[bool, bool], tuple[bool, bool]]
    heard: tuple[bool, bool]
    scene: tuple[bool, bool]


def draw_targets(rng: random.Random) -> TargetAnswers:
    """Uniform over the choices, but that beliefs before scene 5 are rarely true: there half of them are by design."""
    coin = [rng.random() < 0.5 for _ in range(10)]
    rare = [rng.random() < 1 / 8 for _ in range(3)]
    return TargetAnswers(
        true=(rare[0], rare[1], False),
        glad=(coin[0], coin[1]),
        stays=rng.random() < 1 / 4,
        moods=((coin[2], coin[3]), (coin[4], coin[5])),
        heard=(coin[6], coin[7]),
        scene=(coin[8], coin[9]),
    )


def places(rng: random.Random, told: Course, aim: TargetAnswers) -> dict[str, Place] | None:
    """Who is asked about in which scene, for each question; None where this course has no answer as it is wanted."""
    every = [(who, k) for who in "PQ" for k in (1, 2, 3)]
    rng.shuffle(every)
    belief = {place: told.beliefs[place[0]][place[1]] for place in every}
    stays = {place: belief[place] == told.beliefs[place[0]][place[1] - 1] for place in every}
    glad = {place: (told.glad((place[0], place[1] - 1)), told.glad(place)) for place in every}
    heard = {place: told.hears[place[1] - 1] == place[0] for place in every}
    true = {place: belief[place] == told.real[place[1]] for place in every}
    wanted = {
        "whether_emotion": [place for place in every if glad[place] == aim.moods[0]],
        "whether_intention": [place for place in every if glad[place] == aim.moods[1]],
        "why_emotion": [place for place in every if len({*glad[place]}) == 2 and heard[place] == aim.heard[1]],
        "why_belief": [place for place in every if not stays[place] and heard[place] == aim.heard[0]],
        "influence_emotion": [place for place in every if glad[place][1] == aim.glad[0]],
        "influence_intention": [place for place in every if glad[place][1] == aim.glad[1]],
        "how_emotion": [place for place in every if place[0] == "P" and glad[place][1] == aim.scene[0]],
        "how_belief": [place for place in every if place[0] == "P" and true[place] == aim.scene[1]],
        "whether_belief": [place for place in every if stays[place] == aim.stays],
        "action": [place for place in every if true[place] == aim.true[2]],
        "belief1": [place for place in every if true[place] == aim.true[0]],
        "belief2": [place for place in reversed(every) if true[place] == aim.true[1]],
    }
    found: dict[str, Place] = {}
    for name, fitting in wanted.items():
        if not fitting:
            return None
        unused = [place for place in fitting if place not in found.values()]
        found[name] = (unused or fitting)[0]
    return found if found["belief1"] != found["belief2"] and len({*told.told}) > 1 else None


def draw_valley(draft: Draft, scenario: str) -> World:
    """Valley: five scenes in a social setting, in which one matter is settled anew in every scene (after DynToM, 2025).

    Four people wish for four different outcomes. All hear the first decision; of each later one only P or only Q
    hears, and in scenes 2 to 4 the other is then told something, true or false, by R, whom both trust, or by S, whom
    both distrust. What P and Q believe, feel, intend and do therefore goes its own way through the scenes. Before
    scene 5 P is right; in the scenario "missed" it is P who misses the last decision, in "noticed" it is Q. Every
    outcome is named in a list at the beginning, twice in scenes 1 to 5, and in a list at the end.

    What a question is to have as its right answer is drawn first, uniformly, and then a course of events is drawn
    until there is one that has it. So no answer is right more often because such events are more frequent, and all
    else that could give it away (who heard of it, in which scene, from whom) is left to chance.
    """
    rng = draft.rng
    draft.cast(("P", "Q", "R", "S"))
    setting = _setting(draft)
    draft.facts, draft.plans = {"matter": VALUES}, {"matter": {value: f"act_{value}" for value in VALUES}}
    aim, wish = draw_targets(rng), rng.choice((3, 4))
    while (told := draw_course(rng, wish)) is None or (asked := places(rng, told, aim)) is None:
        pass
    lists = [rng.sample("PQRS", 4) for _ in range(3)] + [rng.sample("PQ", 2)]
    wishes = told.wishes | by_slot("RS", rng.sample(sorted({*VALUES} - {*told.wishes.values()}), 2))
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
    draft.words |= by_slot(REPLIES, rng.choice(extra(draft.family, "replies")))
    draft.words |= by_slot("stuv", rng.sample(extra(draft.family, "traits"), 4))
    draft.words |= by_slot("opqr", rng.sample(draft.lexicon.words["occupations"], 4))
    draft.words |= {f"n{k}": f"Scene {k + 1}:" for k in range(5)} | {f"k{k}": f"scene {k + 1}" for k in range(5)}
    return str(setting["group"])


def _tell(
    draft: Draft, told: Course, lists: Sequence[list[Key]], wishes: dict[Key, Key], last: tuple[Key, Key]
) -> list[int]:
    """Add all scenes; last: who hears the last decision, and who misses it. Returns the last line of each scene."""
    draft.scene("people", by_slot("ABCD", lists[0]))
    slots = by_slot("ABCDabef", [*lists[1], *(wishes[name] for name in lists[1])])
    draft.scene("wishes", slots, *(f"want {name} matter={value}" for name, value in wishes.items()))
    draft.scene("trust", by_slot("ABIU", [*lists[3], "R", "S"]), "distrust P, Q S")
    draft.scene("replies", {"x1": "match", "x2": "mismatch"})
    draft.scene("begins", {"n": "n0", "c": f"c_{told.real[0]}"}, "scene", f"fact matter={told.real[0]}")
    draft.scene("all_hear", by_slot("ABCD", lists[2]), "see P, Q, R, S matter")
    ends = [len(draft.scenes) - 1]
    for k, (hearer, teller, said) in enumerate(zip(told.hears, told.tellers, told.told, strict=True), start=1):
        other = "Q" if hearer == "P" else "P"
        fact = f"fact matter={told.real[k]} seen {hearer}"
        draft.scene("change", {"n": f"n{k}", "A": hearer, "B": other, "c": f"c_{told.real[k]}"}, "scene", fact)
        draft.scene("told", {"A": other, "I": teller, "c": f"c_{said}"}, f"tell {teller} {other} matter={said}")
        ends.append(len(draft.scenes) - 1)
    draft.scene("last_day", {"n": "n4"}, "scene")
    draft.scene("last_change", {"c": f"c_{told.real[4]}"}, f"fact matter={told.real[4]}", part="cause")
    draft.scene("last_percept", by_slot("AB", last), f"see {last[0]} matter", part="percept")
    ends.append(len(draft.scenes) - 1)
    draft.scene("closing", by_slot("abef", draft.rng.sample(VALUES, 4)), part="filler")
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


VALLEY_FAMILY = Family(
    "valley", draw_valley, versions=(("missed", "noticed"),), twins={"missed": ("noticed",)}, most=12
)


STATES = ("x", "y")
FORWARD = ("false_belief", "true_belief")
ACT = ("act_false_belief", "act_true_belief")
WISH = ("wish_false_belief", "wish_true_belief")
CAUSAL_VERSIONS = ((*FORWARD, "true_control"), ACT, (*FORWARD, "false_control"), WISH)
TELLINGS = ("setting", "either", "view", "cause", "notice", "random", "random_notice", "detail")
"""What a template tells in several phrasings, of which a world has one."""


def draw_causal(draft: Draft, scenario: str) -> World:
    """Causal stories in the manner of BigToM (Gandhi, Fraenken, Gerstenberg and Goodman 2023), with proven answers.

    A thing is in the state x, which P and R learn together; something turns x into y, which one of them notices and
    the other does not; S never hears of the thing. In the control scenarios nothing changes: one of them notices an
    unrelated event, and R is told by mistake that it is y. So in every story one person believes x, one y, and one
    nothing, and who believes which cannot be told from the words alone. What P and R want, the same or the contrary,
    is drawn as well.

    Forwards, percepts and wishes are told, and beliefs, acts and feelings are asked about. In the scenarios of the
    kind "act" wishes and acts are told, and the beliefs behind them are asked about; in those of the kind "wish"
    percepts and acts are told, and the wishes behind them are asked about.
    """
    rng = draft.rng
    draft.cast(("P", "R", "S"))
    template = rng.choice(draft.lexicon.extra(draft.family, "templates"))
    _draw_words(draft, template)
    draft.facts, draft.plans = {"state": STATES}, {"state": {"match": "match", "mismatch": "mismatch"}}
    wanted, agreed, same_act = rng.choice(STATES), rng.random() < 0.5, rng.choice(("match", "mismatch"))
    crowd, pair = rng.sample("PRS", 3), rng.sample("PR", 2)
    listed = [rng.sample("xy", 2) for _ in range(3)]
    early = rng.random() < 0.5  # whether S is spoken of before the first percept
    controlled, acting, wishing = "control" in scenario, scenario in ACT, scenario in WISH
    # Where no twin balances what a story asks, both want the same: their beliefs differ, so their acts and feelings do.
    wishes = {"P": wanted, "R": wanted if agreed or acting or controlled else STATES[wanted == "x"]}
    aware = "P" if scenario.rpartition("_")[0].endswith("true") else "R"
    unaware = "R" if aware == "P" else "P"

    draft.scene("setting")
    draft.scene("states", {"a": f"l{listed[0][0]}", "b": f"l{listed[0][1]}"}, part="filler")
    draft.scene("people", by_slot("ABC", crowd), part="filler")
    if wishing:
        draft.scene("wish_untold", {**by_slot("AB", pair), "wa": f"w{listed[1][0]}", "wb": f"w{listed[1][1]}"})
    else:
        for name in pair:
            draft.scene("wants", {"A": name, "w": f"w{wishes[name]}"}, f"want {name} state={wishes[name]}")
    draft.scene("plan")
    if early:
        draft.scene("ignorant", {"A": "S"})
    draft.scene("view", by_slot("AB", pair), "fact state=x seen P, R")
    if not early:
        draft.scene("ignorant", {"A": "S"})
    draft.scene("detail", part="filler")
    if controlled:
        draft.scene("event", {"e": "random"})
        draft.scene("percept", {"N": aware, "M": unaware, "notice": "random_notice"}, part="percept")
        draft.scene("told", {"A": "R", "B": "P"}, "tell - R state=y", part="percept")
    else:
        draft.scene("event", {"e": "cause"}, "fact state=y", part="cause")
        if not acting:
            draft.scene("percept", {"N": aware, "M": unaware}, f"see {aware} state", part="percept")
    if acting or wishing:
        for name in pair:
            _act(draft, name, wishes[name], told=wishing, aware=name == aware, same_act=same_act)
    draft.scene("closing", {"a": f"l{listed[2][0]}", "b": f"l{listed[2][1]}"}, part="filler")
    _ask_causal(draft, pair, acting, wishing)
    return draft.world(scenario=scenario, template=template["name"], sight=template["sight"], change=template["change"])


def _draw_words(draft: Draft, template: Mapping[str, Any]) -> None:
    """The words of a world of this template: of what it tells in several phrasings, one each."""
    draft.words |= {key: template[key] for key in ("thing", "match", "mismatch")}
    for key in STATES:
        state = template[key]
        draft.words |= {key: state["clause"], f"l{key}": state["label"], f"w{key}": state["want"]}
    for key in TELLINGS:
        draft.words[key] = draft.rng.choice([one for phrasing in template[key] for one in expand_phrasing(phrasing)])


def _act(draft: Draft, name: Key, wish: Key, *, told: bool, aware: bool, same_act: Key) -> None:
    """Somebody acts. told: whether the story said what they noticed; where it did not, the act of somebody who is
    aware of the change says so itself."""
    act = same_act if told else "match" if ("y" if aware else "x") == wish else "mismatch"
    if aware and not told:
        draft.scene("act", {"A": name, "act": act}, f"see {name} state", f"act {name} {act}", part="percept")
    else:
        draft.scene("act", {"A": name, "act": act}, f"act {name} {act}")


def _ask_causal(draft: Draft, pair: Sequence[Key], acting: bool, wishing: bool) -> None:
    """The questions about both people, in random order."""
    for name in pair:
        if acting:
            draft.ask("belief_from_act", "state", STATES, (name,), task="backward_belief")
        elif wishing:
            draft.ask("desire_from_act", "state", STATES, (name,), task="backward_desire")
        else:
            draft.ask("action", "state", ("match", "mismatch"), (name,), task="forward_action")
        if not wishing:
            role = "feeling_in_act" if acting else "feeling"
            draft.ask("feeling", "state", (GLAD, SAD), (name,), role=role)
    if not acting:
        for name in (*pair, "S"):
            choices = (*STATES, UNKNOWN)
            draft.ask("belief", "state", choices, (name,), task="forward_belief")


CAUSAL_FAMILY = Family(
    "causal",
    draw_causal,
    CAUSAL_VERSIONS,
    twins={missed: (noticed,) for missed, noticed in (FORWARD, ACT, WISH)},
    most=7,  # all of them: what one question gives away, its counterpart in the same story takes back
)
