"""Unexpected contents: a closed container whose label is true until its contents are changed, twice.

At first the container holds what its label says. Unseen, Q puts something else in, and S a third thing after Q has
left. P and L only read the label, W looks inside at the end, R never learns of the container. So in each story with a
false belief the label, either change, and "unknown" are each what somebody believes, and the question picks whose
belief is asked about; the contents are all named equally often. P wishes for one of label and truth, L and W for the
other, so that in each story one of them sees the wish met and another does not. In the twin "opened" P looks inside, in
"informed" S tells P, and in "correct_label" Q and S have only to do with other things.
"""

from __future__ import annotations

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.record import Key, World
from tomserve.benchmarks.worlds.rules import GLAD, SAD, SURPRISED, UNSURPRISED
from tomserve.items import UNKNOWN

CONTENTS = ("x", "y", "z")
CHOICES = (*CONTENTS, UNKNOWN)
VERSIONS = (("false_belief", "opened"), ("false_belief", "informed"), ("false_belief", "correct_label"))


def draw(draft: Draft, scenario: str) -> World:
    """A world of unexpected contents; see the module for the scenarios."""
    rng = draft.rng
    label, first, last = rng.sample(CONTENTS, 3)
    _words(draft)
    early, wish, other = rng.random() < 0.5, *rng.sample((label, last), 2)
    extra = rng.choice(("action", "feeling"))
    draft.scene("things", _listed("abc", rng.sample(CONTENTS, 3)))
    draft.scene("box", {"l": label}, f"fact inside={label}")
    draft.scene("people", _listed("ABCDEF", rng.sample("PQRSLW", 6)), part="filler")
    draft.scene("absent", {"A": "R"})
    wants = (f"want P inside={wish}", f"want L, W inside={other}")
    pair = _listed("BC", rng.sample("LW", 2))
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
    draft.scene("closing", _listed("abc", rng.sample(CONTENTS, 3)), part="filler")
    _ask(draft, scenario, rng.choice("SW"), rng.choice("LQ"), extra)
    return draft.world(scenario=scenario)


def _words(draft: Draft) -> None:
    """People, words and what is done with the container."""
    rng = draft.rng
    draft.cast(("P", "Q", "R", "S", "L", "W"))
    theme = rng.choice(draft.lexicon.words["contents"])
    draft.words |= {
        "box": rng.choice(theme["containers"]),
        "room": rng.choice(draft.lexicon.extra("contents", "rooms")),
    }
    draft.words |= _listed("xyz", rng.sample(theme["contents"], 3))
    draft.words |= _listed("mn", rng.choice(draft.lexicon.extra("contents", "plans")))
    draft.facts, draft.plans = {"inside": CONTENTS}, {"inside": {"match": "m", "mismatch": "n"}}


def _listed(slots: str, keys: list[str]) -> dict[str, str]:
    return dict(zip(slots, keys, strict=True))


def _learns(draft: Draft, name: Key) -> None:
    """W looks inside; who else it is reads the label."""
    if name == "W":
        draft.scene("look", {"A": "W"}, "alone W inside")
    else:
        label = next(scene.slots["l"] for scene in draft.scenes if scene.role == "box")
        draft.scene("read", {"A": name}, f"tell - {name} inside={label}")


def _ask(draft: Draft, scenario: str, knowing: Key, mistaken: Key, extra: str) -> None:
    """The questions: of beliefs each of the four, of the rest one person and another for whom it is the other way."""
    draft.ask("reality", "inside", CONTENTS, dimension="reality", task="reality")
    others = {"false_belief": ("Q", "R", knowing), "correct_label": ("R",)}.get(scenario, ("Q", "R", "L"))
    for name in ("P", *others):
        draft.ask("belief", "inside", CHOICES, (name,), dimension="belief", task="belief")
    opposite = "L" if scenario in ("false_belief", "correct_label") else "W"
    if scenario != "correct_label":  # there nobody would be surprised; elsewhere one person is and another is not
        for name in ("P", knowing if scenario == "false_belief" else mistaken):
            draft.ask("surprise", "inside", (SURPRISED, UNSURPRISED), (name,), dimension="emotion", task="surprise")
    for kind, dimension, choices in (("action", "action", ("m", "n")), ("feeling", "emotion", (GLAD, SAD))):
        for name in ("P", *([opposite] if kind == extra else [])):
            draft.ask(kind, "inside", choices, (name,), dimension=dimension, task=kind)


FAMILY = Family(
    "contents",
    draw,
    VERSIONS,
    twins={"false_belief": "opened"},
    reasons={("reality", "always reality"): (1.0, "it is the question")},
)
"""The value by which worlds knows the family."""
