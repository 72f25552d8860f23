"""Families about false beliefs: unexpected contents, unexpected transfer, and second-order belief."""

from collections.abc import Sequence

from tomserve.benchmarks.worlds.draft import Draft, Family, by_slot
from tomserve.benchmarks.worlds.record import Key, Part, World
from tomserve.benchmarks.worlds.rules import GLAD, SAD, SURPRISED, UNSURPRISED
from tomserve.items import UNKNOWN

VALUES = ("x", "y", "z")
CHOICES = (*VALUES, UNKNOWN)
SECOND_ORDER_VERSIONS = (("secret", "together"), ("secret", "told"), ("secret", "no_transfer"))


def draw_second_order(draft: Draft, scenario: str) -> World:
    """What one thinks that another thinks: two people learn of a change apart, and neither knows that the other knows.

    P puts a thing away in front of Q and S, S moves it twice, the second time in front of R, who has just arrived. Q
    leaves before the first move, and P before the second; Q alone looks between the moves ("middle"), or each of them
    looks after both ("late"). Or they leave together between the moves, and each looks later ("joint"). Nobody learns
    of these looks: what P thinks that Q thinks is then neither what Q thinks, nor what is so, nor what P thinks
    (Perner and Wimmer 1985). In the twin "together" they look together; in "told" P tells Q; in "no_transfer" nothing
    is moved. T is away, or leaves with one of them or before the first move.

    Asked is only what the story settles. So nobody is asked what somebody thinks of a person who stayed behind, once
    that somebody has secretly found the thing moved: the one who stayed may or may not have seen the move.
    """
    rng = draft.rng
    places = rng.sample(VALUES, 3)
    _draw_words(draft, "PQRST")
    course = rng.choices(("middle", "late", "joint"), (45, 20, 35))[0]
    companion = rng.choice((None, None, None, None, "Q", "P"))  # with whom T leaves; T is away where there is none
    swap, extra, deep = rng.random() < 0.5, rng.randrange(6), rng.random()
    draft.scene("places", by_slot("abc", rng.sample(VALUES, 3)))
    draft.scene("people", by_slot("ABCDE", rng.sample("PQRST", 5)), part="filler")
    draft.scene("wants", by_slot("AB", rng.sample("PQ", 2)), "seek P, Q place")
    draft.scene("late", {"A": "R"})
    if companion is None:
        draft.scene("absent", {"A": "T"})
    _before(draft, places, scenario, course, companion)
    if scenario == "no_transfer":
        draft.scene("elsewhere", {"A": "S", "l": places[2]}, part="cause")
    else:
        slots = {"A": "S", "B": "R", "l": places[2]}
        draft.scene("move_again", slots, f"fact place={places[2]} seen S, R", part="cause")
    if course != "middle":
        _find(draft, scenario, places[2], ["Q", "P"] if swap else ["P", "Q"])
    everybody = by_slot("ABCDE", rng.sample("PQRST", 5))
    draft.scene("closing", everybody | by_slot("abc", rng.sample(VALUES, 3)), part="filler")
    _ask_second_order(draft, scenario, course, swap, extra)
    if scenario != "no_transfer" and course != "late" and deep < 0.5:
        chain = _third(course, companion, deep)
        slots = {"C": chain[1]}
        draft.ask("belief", "place", CHOICES, chain, role="third", slots=slots, task="third_order_belief")
    return draft.world(scenario=scenario)


def _draw_words(draft: Draft, people: Sequence[Key]) -> None:
    """People and words; whoever wants the thing looks for it where they believe it to be."""
    rng = draft.rng
    draft.cast(people)
    surrounding, thing = rng.choice(draft.lexicon.words["surroundings"]), rng.choice(draft.lexicon.words["objects"])
    draft.words |= {"room": surrounding["in"], "o": thing["name"], "for": rng.choice(thing["for"])}
    draft.words |= by_slot(VALUES, rng.sample(surrounding["places"], 3))
    draft.facts, draft.plans = {"place": VALUES}, {"place": {key: key for key in VALUES}}


def _before(draft: Draft, places: Sequence[Key], scenario: str, course: str, companion: Key | None) -> None:
    """All that happens before the second move."""
    group = ["Q", "S"] if companion is None else ["Q", "S", "T"]
    draft.scene(
        "put",
        {"A": "P", "W": _together(draft, group), "l": places[0]},
        f"fact place={places[0]} seen P, {', '.join(group)}",
    )
    if course == "joint":
        if companion is not None:
            draft.scene("goes", {"A": "T"}, part="percept")
        _move(draft, places[1], scenario, ["P", "Q"], part="plain")  # neither of them misses it
        draft.scene("go_both", {"A": "P", "B": "Q"}, part="percept")
        return
    _goes(draft, "Q", companion)
    _move(draft, places[1], scenario, ["P", "T"] if companion == "P" else ["P"])
    if course == "middle":
        _find(draft, scenario, places[1], ["Q"])
    _goes(draft, "P", companion)


def _together(draft: Draft, group: Sequence[Key]) -> Key:
    """The key of these people, as a phrase where they are several."""
    if len(group) == 1:
        return group[0]
    *others, last = (f"{{{name}}}" for name in group)
    key = f"all{len(group)}{group[-1]}"
    draft.words[key] = f"{', '.join(others)} and {last}"
    return key


def _goes(draft: Draft, name: Key, companion: Key | None) -> None:
    """Somebody goes away, with T as companion or alone."""
    if companion == name:
        draft.scene("go_both", {"A": name, "B": "T"}, part="percept")
    else:
        draft.scene("goes", {"A": name}, part="percept")


def _move(draft: Draft, place: Key, scenario: str, watching: Sequence[Key], part: Part = "cause") -> None:
    """S moves the thing in front of these people for the first time, or in "no_transfer" leaves it where it is."""
    watchers = _together(draft, watching)
    if scenario == "no_transfer":
        draft.scene("elsewhere", {"A": "S", "l": place}, part=part)
    else:
        slots = {"A": "S", "W": watchers, "l": place}
        draft.scene("move", slots, f"fact place={place} seen S, {', '.join(watching)}", part=part)


def _find(draft: Draft, scenario: str, place: Key, finders: Sequence[Key]) -> None:
    """The finders find out that the thing is in the place now: each alone, or P and Q together, or Q from P."""
    if scenario == "together":
        draft.scene("together", {"A": "P", "B": "Q"}, "see P, Q place", part="percept")
        return
    for name in finders:
        if scenario != "told" or name == "P":
            draft.scene("peek", {"A": name}, f"alone {name} place", part="percept")
    if scenario == "told":
        draft.scene("told", {"A": "P", "B": "Q"}, f"tell P Q place={place}", part="percept")


def _ask_second_order(draft: Draft, scenario: str, course: str, swap: bool, extra: int) -> None:
    """The questions but for those of third order."""
    both_ways = swap and scenario in ("told", "no_transfer")  # there P and Q think the same of one another
    pair = ("Q", "P") if both_ways else ("P", "Q")
    second, actions, first = [pair], [pair], ["P", "Q", "T"] if course == "middle" else ["Q" if swap else "P", "T"]
    if scenario == "no_transfer":
        first = [pair[0], "R"]
    elif scenario == "secret":
        other = ("Q", "P") if course == "joint" and swap else ("S", "P")
        second += [(("S", "P"), ("P", "S"), ("S", "Q"))[extra % 3] if course == "middle" else other, ("P", "R")]
        second += [("R", "S") if swap else ("S", "R")] if course != "middle" and extra < 3 else []
        actions.append(("S", "Q") if course == "middle" and extra % 3 else other)
    else:
        second += [("S", "P") if course == "joint" else ("S", "Q"), ("P", "R")]
        second += [("S", "P")] if course == "late" else []
        actions.append(("S", "P") if course == "late" else ("S", "Q"))
    draft.ask("reality", "place", VALUES)
    for name in first:
        draft.ask("belief", "place", CHOICES, (name,))
    for chain in second:
        draft.ask("belief", "place", CHOICES, chain, role="second", task="second_order_belief")
    for chain in actions:
        draft.ask("action", "place", VALUES, chain, role="second_action", task="second_order_action")


def _third(course: str, companion: Key | None, deep: float) -> tuple[Key, Key, Key]:
    """A chain of three people."""
    if course == "middle" and companion == "P":
        return ("S", "T", "P")
    return ("S", "P", "R") if deep < 0.15 else ("S", "P", "Q")


SECOND_ORDER_FAMILY = Family(
    "second_order",
    draw_second_order,
    SECOND_ORDER_VERSIONS,
    twins={"secret": ("together",)},
    reasons={("reality", "always reality"): (1.0, "it is the question")},
)


TRANSFER_VERSIONS = (("false_belief", "present"), ("false_belief", "informed"), ("false_belief", "no_transfer"))


def draw_transfer(draft: Draft, scenario: str) -> World:
    """Unexpected transfer: a thing is put away and moved twice, and every person last saw it at another moment. P puts
    it into x before the eyes of the others, Q moves it to y, S moves it to z. P stays for none, one or both of the
    moves; R sees the first moment, or nothing at all. So the beliefs asked about are x, y, z or unknown, whoever is
    asked, and what a person believes cannot be read off how often or how late a place is named: every place is named in
    a list at the beginning, where it matters, and in a list at the end, both in random order. In the scenario
    "no_transfer" Q and S only do something to y and z."""
    rng = draft.rng
    _draw_words(draft, "PQRS")
    missed = rng.choice((1, 2, 2))  # the first move that P misses: x is the right answer in "no_transfer", too
    late = rng.random() < 0.75  # R sees nothing at all: "unknown" is right once in four
    onlookers = rng.sample("QS" if late else "QRS", 2 if late else 3)
    draft.words["crowd"] = " and ".join([", ".join(f"{{{key}}}" for key in onlookers[:-1]), f"{{{onlookers[-1]}}}"])
    mover, finder = rng.choice("QS"), rng.random() < 0.5
    first, last, crowd = rng.sample(VALUES, 3), rng.sample(VALUES, 3), rng.sample("PQRS", 4)
    draft.scene("places", by_slot("abc", first))
    draft.scene("people", by_slot("ABCD", crowd))
    draft.scene("wants", {"A": "P"}, "seek P place")
    until = {"P": missed - 1 if scenario in ("false_belief", "informed") else 2, "R": -1 if late else 0}
    if until["R"] < 0:
        draft.scene("absent", {"A": "R"}, part="percept")
    draft.scene("put", {"A": "P", "l": "x"}, f"fact place=x seen {_present(until, 0, 'P', 'Q', 'S')}")
    for moment, actor, place in ((1, "Q", "y"), (2, "S", "z")):
        _leave(draft, until, moment)
        if scenario == "no_transfer":
            draft.scene("elsewhere", {"A": actor, "l": place}, part="cause")
            continue
        here, seen = until["P"] >= moment, _present(until, moment, "S" if moment == 1 else "", actor)
        role = "move_seen" if here else "move_unseen"
        part: Part = "plain" if moment < missed else "cause"  # what P sees in all of these stories is no cause
        draft.scene(role, {"A": actor, "W": "P", "l": place}, f"fact place={place} seen {seen}", part=part)
        if moment == 1:
            draft.scene("goes", {"A": "Q"}, part="percept")
    if scenario == "informed":
        for place in ("x", "y"):  # so that no place is named more often than another
            draft.scene("elsewhere", {"A": "S", "l": place}, part="filler")
        draft.scene("told", {"A": "P", "I": "S", "l": "z"}, "tell S P place=z", part="percept")
    draft.scene("closing", by_slot("abc", last), part="filler")
    draft.ask("reality", "place", VALUES)
    for name in ("P", "R", mover):
        draft.ask("belief", "place", CHOICES, (name,))
    draft.ask("action", "place", VALUES, ("P",))
    if scenario != "no_transfer":  # there nobody would be surprised; elsewhere one person is and another is not
        other = "S" if scenario == "false_belief" else "Q"
        asked = "P" if finder else other
        draft.ask("surprise", "place", (SURPRISED, UNSURPRISED), (asked,))
    return draft.world(scenario=scenario)


def _present(until: dict[Key, int], moment: int, *always: Key) -> str:
    """Those who see the moment: the ones named, and P and R as long as they stay."""
    here = [name for name in always if name] + [name for name, last in until.items() if last >= moment]
    return ", ".join(dict.fromkeys(here))


def _leave(draft: Draft, until: dict[Key, int], moment: int) -> None:
    """P and R leave once they have seen the last that they will see."""
    for name in ("P", "R"):
        if until[name] == moment - 1:
            draft.scene("leaves", {"A": name}, part="percept")


HALF = (0.55, "half of the stories are told with a true belief by design; read it beside the condition, and jointly")
NAMED = (0.55, "whoever the sentence of a move names sees it in half of the stories and misses it in the other half")

TRANSFER_FAMILY = Family(
    "transfer",
    draw_transfer,
    TRANSFER_VERSIONS,
    twins={"false_belief": ("present", "informed")},
    parted=("informed",),
    reasons={
        ("reality", "always reality"): (1.0, "it is the question"),
        ("belief", "always reality"): HALF,
        ("action", "always reality"): HALF,
        ("action", "beside the name"): NAMED,
        ("belief", "beside the name"): NAMED,
    },
)


CONTENTS_VERSIONS = (("false_belief", "opened"), ("false_belief", "informed"), ("false_belief", "correct_label"))


def draw_contents(draft: Draft, scenario: str) -> World:
    """Unexpected contents: a closed container whose label is true until its contents are changed, twice. At first the
    container holds what its label says. Unseen, Q puts something else in, and S a third thing after Q has left. P and L
    only read the label, W looks inside at the end, R never learns of the container. So in each story with a false
    belief the label, either change, and "unknown" are each what somebody believes, and the question picks whose belief
    is asked about; the contents are all named equally often. P wishes for one of label and truth, L and W for the
    other, so that in each story one of them sees the wish met and another does not. In the twin "opened" P looks
    inside, in "informed" S tells P, and in "correct_label" Q and S have only to do with other things."""
    rng = draft.rng
    label, first, last = rng.sample(VALUES, 3)
    _draw_contents_words(draft)
    early, wish, other = rng.random() < 0.5, *rng.sample((label, last), 2)
    extra = rng.choice(("action", "feeling"))
    draft.scene("things", by_slot("abc", rng.sample(VALUES, 3)))
    draft.scene("box", {"l": label}, f"fact inside={label}")
    draft.scene("people", by_slot("ABCDEF", rng.sample("PQRSLW", 6)), part="filler")
    draft.scene("absent", {"A": "R"})
    wants = (f"want P inside={wish}", f"want L, W inside={other}")
    pair = by_slot("BC", rng.sample("LW", 2))
    draft.scene("wishes", {"A": "P", **pair, "u": wish, "v": other, "w": first}, *wants)
    draft.scene("plan")
    # Who only reads the label does so before the changes or after them; who looks inside does so after them.
    after = ["L", "W"] if early else ["P", "L", "W"]
    rng.shuffle(after)
    if early:
        _learns(draft, "P")
    for actor, content in (("Q", first), ("S", last)):
        if scenario == "correct_label":
            draft.scene("elsewhere", {"A": actor, "l": content}, part="cause")
        else:
            role = "refill" if actor == "Q" else "refill_again"
            slots = {"A": actor, "B": "Q", "l": content}
            draft.scene(role, slots, f"fact inside={content} seen {actor}", part="cause")
    for name in after:
        _learns(draft, name)
    if scenario == "opened":
        draft.scene("opens", {"A": "P"}, "alone P inside", part="percept")
    elif scenario == "informed":
        draft.scene("told", {"A": "P", "I": "S"}, f"tell S P inside={last}", part="percept")
    else:
        draft.scene("shut", {"A": "P"}, part="percept")
    draft.scene("closing", by_slot("abc", rng.sample(VALUES, 3)), part="filler")
    _ask_contents(draft, scenario, rng.choice("SW"), rng.choice("LQ"), extra)
    return draft.world(scenario=scenario)


def _draw_contents_words(draft: Draft) -> None:
    """People, words and what is done with the container."""
    rng = draft.rng
    draft.cast(("P", "Q", "R", "S", "L", "W"))
    theme = rng.choice(draft.lexicon.words["contents"])
    draft.words |= {
        "box": rng.choice(theme["containers"]),
        "room": rng.choice(draft.lexicon.extra("contents", "rooms")),
    }
    draft.words |= by_slot("xyz", rng.sample(theme["contents"], 3))
    draft.words |= by_slot("mn", rng.choice(draft.lexicon.extra("contents", "plans")))
    draft.facts, draft.plans = {"inside": VALUES}, {"inside": {"match": "m", "mismatch": "n"}}


def _learns(draft: Draft, name: Key) -> None:
    """W looks inside; who else it is reads the label."""
    if name == "W":
        draft.scene("look", {"A": "W"}, "alone W inside")
    else:
        label = next(scene.slots["l"] for scene in draft.scenes if scene.role == "box")
        draft.scene("read", {"A": name}, f"tell - {name} inside={label}")


def _ask_contents(draft: Draft, scenario: str, knowing: Key, mistaken: Key, extra: str) -> None:
    """The questions: of beliefs each of the four, of the rest one person and another for whom it is the other way."""
    draft.ask("reality", "inside", VALUES)
    others = {"false_belief": ("Q", "R", knowing), "correct_label": ("R",)}.get(scenario, ("Q", "R", "L"))
    for name in ("P", *others):
        draft.ask("belief", "inside", CHOICES, (name,))
    opposite = "L" if scenario in ("false_belief", "correct_label") else "W"
    if scenario != "correct_label":  # there nobody would be surprised; elsewhere one person is and another is not
        for name in ("P", knowing if scenario == "false_belief" else mistaken):
            draft.ask("surprise", "inside", (SURPRISED, UNSURPRISED), (name,))
    for kind, choices in (("action", ("m", "n")), ("feeling", (GLAD, SAD))):
        for name in ("P", *([opposite] if kind == extra else [])):
            draft.ask(kind, "inside", choices, (name,))


CONTENTS_FAMILY = Family(
    "contents",
    draw_contents,
    CONTENTS_VERSIONS,
    twins={"false_belief": ("opened", "informed")},
    parted=("informed",),
    reasons={("reality", "always reality"): (1.0, "it is the question")},
)
