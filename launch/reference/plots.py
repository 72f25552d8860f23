"""What happens in a generated story, before it is put into words: scenes with roles, persons and events.

The events are written as those of tomserve.benchmarks.perturbed.stages, for example "see P" or "tell W x".
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

CONTENTS_SCENARIOS = ("false_belief", "correct_label", "informed_protagonist", "open_container")
TRANSFER_SCENARIOS = ("false_belief", "no_transfer", "informed_protagonist", "present_protagonist")
CONTENTS_OTHERS = ("none", "fills", "peeks", "told", "reads", "bystander")
TRANSFER_OTHERS = ("none", "stays", "leaves", "told", "bystander")
PERTURBATIONS = ("transparent_container", "uninformative_label")


@dataclass(frozen=True)
class Scene:
    """What will be one sentence: its role (see phrases.py), the persons and labels in its slots, and its events."""

    role: str
    slots: dict[str, str]
    events: tuple[str, ...] = ()


@dataclass
class Plot:
    """What happens in a story. `asked`: keys of the persons whose belief the events settle; `factors`: the design, the
    same for every item of the story.
    """

    kind: str
    scenes: list[Scene] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    factors: dict[str, str | bool | int | float | None] = field(default_factory=dict)

    def add(self, role: str, *events: str, at: int | None = None, **slots: str) -> None:
        """Append a scene, or insert it at the position `at`."""
        self.scenes.insert(len(self.scenes) if at is None else at, Scene(role, slots, events))

    def place(self, role: str) -> int:
        """The position of the first scene with that role. Raises StopIteration where there is none."""
        return next(number for number, scene in enumerate(self.scenes) if scene.role == role)


def contents_plot(rng: random.Random, scenario: str, other: str, perturbation: str = "none") -> Plot:
    """A plot of unexpected contents: P finds a closed container, reads its label, and learns what is inside or does
    not.

    scenario: what P learns, of CONTENTS_SCENARIOS. other: what another person W does, of CONTENTS_OTHERS. perturbation:
        one of PERTURBATIONS, or "none".
    """
    plot = Plot("contents", asked=["P"])
    inside, absent = ("y", "x") if scenario == "correct_label" else ("x", "y")
    plot.add("find", A="P")
    if perturbation == "transparent_container":
        plot.add("clear", A="P")
    if perturbation == "uninformative_label":
        plot.add("label", l="y", A="P")
        plot.add("cannot_read", A="P")
    elif rng.random() < 0.4:
        plot.add("read_label", "read P y", A="P", l="y")
    else:
        plot.add("label", l="y", A="P")
        plot.add("read", "read P y", A="P")
    if other == "fills":
        plot.add("fills", f"world {inside} seen W", at=rng.choice((0, len(plot.scenes))), A="W", l=inside, n=absent)
    else:
        places = range(len(plot.scenes) + 1)
        plot.add("holds", f"world {inside}", at=rng.choice(places), l=inside, n=absent, A="P")
    if perturbation == "transparent_container":
        told = plot.place("fills" if other == "fills" else "holds")
        plot.add("sees_through", "see P", at=rng.randint(max(2, told + 1), len(plot.scenes)), A="P")
    if scenario != "open_container" or rng.random() < 0.3:
        plot.add("closed", A="P")
    if other == "reads":
        plot.add("read", "read W y", at=rng.randint(plot.place(_label_role(plot)) + 1, len(plot.scenes)), A="W")
    late: list[Late] = []
    if other == "peeks":
        late.append([("peeks", ("see W",), {"A": "W"})])
    if other == "told":
        late.append(_told(rng, "W", inside, "J"))
    if other == "bystander":
        late.append([("bystander", (), {"A": "W"})])
    if scenario == "informed_protagonist":
        late.append(_told(rng, "P", inside, "I"))
    if scenario == "open_container":
        late.append([("opens", ("see P",), {"A": "P"})])
    _finish(plot, rng, late)
    if other != "none":
        plot.asked.append("W")
    return plot


def transfer_plot(rng: random.Random, scenario: str, other: str) -> Plot:
    """A plot of unexpected transfer: P puts a thing away and M moves it or not, while P is there or not, and is told or
    not.

    scenario: what P learns, of TRANSFER_SCENARIOS. other: what another person W does, of TRANSFER_OTHERS.
    """
    plot = Plot("transfer", asked=["P", "M"])
    if rng.random() < 0.5:
        plot.add("setting", A="P", M="M")
    plot.add("put", "world x seen P", A="P")
    looked = other in ("stays", "leaves") or (other == "told" and rng.random() < 0.5)
    if looked:
        plot.add("looks_on", "see W", A="W")
    present = scenario == "present_protagonist"
    if present:
        if rng.random() < 0.6:
            plot.add("stays", A="P")
        if other == "leaves":
            plot.add("away", A="W")
    elif other == "leaves" and rng.random() < 0.6:
        plot.add("away_both", A="P", W="W")
    else:
        plot.add("away", A="P")
        if other == "leaves":
            plot.add("away", A="W")
    if looked and other == "told":  # otherwise W would see what follows
        plot.add("away", A="W")
    if scenario == "no_transfer":
        plot.add("no_move", "see M", A="M")
    elif present:
        plot.add("watches", "world y seen M, P", A="P", M="M")
        if other == "stays":
            plot.add("looks_on", "see W", A="W", P="M")  # here W sees what the mover does
    elif other == "stays":
        plot.add("watches", "world y seen M, W", A="W", M="M")
    else:
        plot.add("move", "world y seen M", A="M")
    if not present:
        plot.add("back", A="P")
    world = "x" if scenario == "no_transfer" else "y"
    late: list[Late] = []
    if other == "told":
        late.append(_told(rng, "W", world, rng.choice(("J", "M"))))
    if other == "bystander":
        late.append([("bystander", (), {"A": "W"})])
    if scenario == "informed_protagonist":
        late.append(_told(rng, "P", world, "I"))
    if rng.random() < 0.3:
        late.append([("idle", (), {"A": "P"})])
    _finish(plot, rng, late)
    if other != "none":
        plot.asked.append("W")
    return plot


def relay_plot(rng: random.Random) -> Plot:
    """A plot for learning who knows what: several people put the thing away in turn, and some look on.

    Nothing but the name tells what somebody believes here; in the other plots the role mostly gives it away.
    """
    people = ["P", "M", "W"]
    plot = Plot("transfer", asked=rng.sample(people, 3))
    place = rng.choice("xy")
    for _ in range(rng.choice((2, 2, 2, 3, 4))):
        actor, other = rng.sample(people, 2)
        plot.add("relay", f"world {place} seen {actor}", A=actor, x=place)
        if rng.random() < 0.2:
            plot.add("looks_on", f"see {other}", A=other, P=actor)
        place = "y" if place == "x" else "x"
    return plot


BARE = (
    "label",
    "read",
    "read_label",
    "holds",
    "fills",
    "opens",
    "peeks",
    "tells",
    "put",
    "away",
    "move",
    "no_move",
    "bystander",
)
"""Roles that a story of the first lesson keeps; "watches" and "looks_on" are kept, too."""


def bare(plot: Plot) -> None:
    """Keep only the scenes that matter to a belief, for the first lesson: two to four sentences."""
    plot.scenes = [scene for scene in plot.scenes if scene.role in (*BARE, "watches", "looks_on")]


def _label_role(plot: Plot) -> str:
    """The role of the scene that shows the label."""
    return "label" if any(scene.role == "label" for scene in plot.scenes) else "read_label"


Late = list[tuple[str, tuple[str, ...], dict[str, str]]]
"""Scenes that stay together and may stand anywhere in the end of a story; each has a role, events and slots."""


def _told(rng: random.Random, who: str, label: str, by: str) -> Late:
    """Somebody (`by`) tells `who` the label, after which the plot may say that they believe it."""
    told: Late = [("tells", (f"tell {who} {label}",), {"A": who, "I": by, "l": label})]
    return [*told, ("believes", (), {"A": who, "I": by})] if rng.random() < 0.6 else told


def _finish(plot: Plot, rng: random.Random, late: list[Late]) -> None:
    """Append the groups of late scenes in random order; then insert distractors until there are five to nine scenes."""
    rng.shuffle(late)
    for group in late:
        for role, events, slots in group:
            plot.add(role, *events, at=None, **slots)  # `at` is given because mypy could take it for a slot
    for role in ("idle", "setting", "believes", "closed"):  # a story that has grown too long can do without these
        if len(plot.scenes) > 9 and any(scene.role == role for scene in plot.scenes):
            del plot.scenes[plot.place(role)]
    wanted = max(5, min(9, len(plot.scenes) + rng.choice((0, 0, 1, 1, 2))))
    tellers = ["D", "K", "L", "N"]  # a distractor has a person of its own
    while len(plot.scenes) < wanted:
        together = {place for place, scene in enumerate(plot.scenes) if scene.role in ("believes", "looks_on")}
        place = rng.choice([place for place in range(1, len(plot.scenes) + 1) if place not in together])
        plot.add("distract", at=place, A=rng.choice(("P", "P", *plot.asked)), D=tellers.pop())
