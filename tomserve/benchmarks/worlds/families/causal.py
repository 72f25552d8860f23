"""Causal stories in the manner of BigToM (Gandhi, Fraenken, Gerstenberg and Goodman 2023), with proven answers.

A thing is in the state x, which P and R learn together; something turns x into y, which one of them notices and the
other does not; S never hears of the thing. In the control scenarios nothing changes: one of them notices an unrelated
event, and R is told by mistake that it is y. So in every story one person believes x, one y, and one nothing, and who
believes which cannot be told from the words alone. What P and R want, the same or the contrary, is drawn as well.

Forwards, percepts and wishes are told, and beliefs, acts and feelings are asked about. In the scenarios of the kind
"act" wishes and acts are told, and the beliefs behind them are asked about; in those of the kind "wish" percepts and
acts are told, and the wishes behind them are asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.record import Key, World
from tomserve.benchmarks.worlds.rules import GLAD, SAD
from tomserve.benchmarks.worlds.wording import expanded
from tomserve.items import UNKNOWN

STATES = ("x", "y")
FORWARD = ("false_belief", "true_belief")
ACT = ("act_false_belief", "act_true_belief")
WISH = ("wish_false_belief", "wish_true_belief")
VERSIONS = ((*FORWARD, "true_control"), ACT, (*FORWARD, "false_control"), WISH)
TOLD = ("setting", "either", "view", "cause", "notice", "random", "random_notice", "detail")
"""What a template tells in several phrasings, of which a world has one."""


def draw(draft: Draft, scenario: str) -> World:
    """A causal story; see the module for the scenarios."""
    rng = draft.rng
    draft.cast(("P", "R", "S"))
    template = rng.choice(draft.lexicon.extra(draft.family, "templates"))
    _words(draft, template)
    draft.facts, draft.plans = {"state": STATES}, {"state": {"match": "match", "mismatch": "mismatch"}}
    wanted, agreed, same_act = rng.choice(STATES), rng.random() < 0.5, rng.choice(("match", "mismatch"))
    crowd, pair = rng.sample("PRS", 3), rng.sample("PR", 2)
    listed = [rng.sample("xy", 2) for _ in range(3)]
    early = rng.random() < 0.5  # whether S is spoken of before the first percept
    controlled, acting, wishing = "control" in scenario, scenario in ACT, scenario in WISH
    # Where no twin balances what a story asks, both want the same: their beliefs differ, so their acts and feelings do.
    wishes = {"P": wanted, "R": wanted if agreed or acting or controlled else _other(wanted)}
    aware = "P" if scenario.rpartition("_")[0].endswith("true") else "R"
    unaware = "R" if aware == "P" else "P"

    draft.scene("setting")
    draft.scene("states", {"a": f"l{listed[0][0]}", "b": f"l{listed[0][1]}"}, part="filler")
    draft.scene("people", dict(zip("ABC", crowd, strict=True)), part="filler")
    if wishing:
        draft.scene("wish_untold", {**_two(pair), "wa": f"w{listed[1][0]}", "wb": f"w{listed[1][1]}"})
    else:
        for name in pair:
            draft.scene("wants", {"A": name, "w": f"w{wishes[name]}"}, f"want {name} state={wishes[name]}")
    draft.scene("plan")
    if early:
        draft.scene("ignorant", {"A": "S"})
    draft.scene("view", _two(pair), "fact state=x seen P, R")
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
    _ask(draft, pair, acting, wishing)
    return draft.world(scenario=scenario, template=template["name"], sight=template["sight"], change=template["change"])


def _words(draft: Draft, template: Mapping[str, Any]) -> None:
    """The words of a world of this template: of what it tells in several phrasings, one each."""
    draft.words |= {key: template[key] for key in ("thing", "match", "mismatch")}
    for key in STATES:
        state = template[key]
        draft.words |= {key: state["clause"], f"l{key}": state["label"], f"w{key}": state["want"]}
    for key in TOLD:
        draft.words[key] = draft.rng.choice([one for phrasing in template[key] for one in expanded(phrasing)])


def _two(pair: Sequence[Key]) -> dict[str, Key]:
    return dict(zip("AB", pair, strict=True))


def _other(state: Key) -> Key:
    return "y" if state == "x" else "x"


def _act(draft: Draft, name: Key, wish: Key, *, told: bool, aware: bool, same_act: Key) -> None:
    """Somebody acts. told: whether the story said what they noticed; where it did not, the act of somebody who is
    aware of the change says so itself."""
    act = same_act if told else "match" if ("y" if aware else "x") == wish else "mismatch"
    if aware and not told:
        draft.scene("act", {"A": name, "act": act}, f"see {name} state", f"act {name} {act}", part="percept")
    else:
        draft.scene("act", {"A": name, "act": act}, f"act {name} {act}")


def _ask(draft: Draft, pair: Sequence[Key], acting: bool, wishing: bool) -> None:
    """The questions about both people, in random order."""
    for name in pair:
        if acting:
            draft.ask("belief_from_act", "state", STATES, (name,), dimension="belief", task="backward_belief")
        elif wishing:
            draft.ask("desire_from_act", "state", STATES, (name,), dimension="desire", task="backward_desire")
        else:
            draft.ask("action", "state", ("match", "mismatch"), (name,), dimension="action", task="forward_action")
        if not wishing:
            role = "feeling_in_act" if acting else "feeling"
            draft.ask("feeling", "state", (GLAD, SAD), (name,), role=role, dimension="emotion", task="feeling")
    if not acting:
        for name in (*pair, "S"):
            choices = (*STATES, UNKNOWN)
            draft.ask("belief", "state", choices, (name,), dimension="belief", task="forward_belief")


FAMILY = Family(
    "causal",
    draw,
    VERSIONS,
    twins=dict((FORWARD, ACT, WISH)),
    most=7,  # all of them: what one question gives away, its counterpart in the same story takes back
)
"""The value by which worlds knows the family."""
