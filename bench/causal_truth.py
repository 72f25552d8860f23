"""Simulates what a verdict of `tomserve causal` is worth: how often it says yes of states whose truth is planted.

    python bench/causal_truth.py            # everything: rates, and power by items, gain and noise; half an hour
    python bench/causal_truth.py --quick    # a few seeds of some rows
    python bench/causal_truth.py --power    # the table of power alone, as tomserve/causal/power.py has it
    python bench/causal_truth.py --command  # checkpoints with planted maps by the public command; needs torch, minutes

States of one layer are drawn, and moved by the program's own steps at strengths that it chooses itself; what the model
answers then is known, and tables and verdict are its own. Another's belief is a code a of length 1 in a space A, what
"you" believe is M a in a space B at right angles to it, where M is not symmetric and its gain is that of the row. Every
telling has fresh noise of the length told (1: as long as the code), and all tellings of a case share a vector as long
as `shared` says.

map        the answer is read from B, to which the next block adds M A: a true map, which is used
shared     one code in one space for both: no map is needed
shuffled   what "you" believe is another story's: no map
random     the answer is read by random directions: nothing in the states says it
seen, told, learnt
           the map is there, and the answer is read from a copy of the story's surface: of what the protagonist saw, was
           told, or learnt in either way, believed or not. In half of the items these part from the belief, as those of
           `worlds` do (COPIES); without such items (`parted` 0) nothing tells them from a map

The second table is the test of what a map has over its strongest control (`above_all`): the map flips .9 of the items
in one cell of 27, one of eight controls that much less, all else nearly nothing.

The exit code is 1 where a true map with noise as long as its code is found in less than .8 of the seeds with 150 items
at width 1024, or nothing in more than .05, by more than 2.5 Monte-Carlo errors.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
import polars as pl
from _figures import figure

from analysis.causal.study import CAUSES, outcome
from analysis.causal.tables import headline
from tomserve.causal import table as t
from tomserve.causal.projection import Floats, Ints, assign_folds
from tomserve.causal.steering import LayerStates, Pilot, Step, steps
from tomserve.causal.strengths import spread
from tomserve.stats.selection import above_all, select_best

LABELS, CODE = 12, 8
COPIES = {
    "seen": {"informed": "fff", "trusted": "oot"},
    "told": {"trusted": "fff", "distrusted": "ooo"},
    "learnt": {"distrusted": "oot"},
}
"""What a copy of the surface says in the three tellings, by the sort of item: the false label, the true one or another,
"fft" where nothing stands here."""
SEEDS, POWER_SEEDS, ITEMS, GAINS, NOISES = 20, 20, (60, 100, 150, 250), (0.5, 1.0, 2.0), (0.5, 1.0)
POWER, LEVEL, ERRORS = 0.8, 0.05, 2.5
Answer = Callable[[Floats], Ints]


@dataclass(frozen=True)
class Planted:
    """A truth: what the states hold, and how loud the rest is."""

    kind: str
    items: int = 150
    width: int = 1024
    gain: float = 1.0
    noise: float = 1.0
    shared: float = 0.0  # the length of what all tellings of a case share
    parted: float = 0.5  # in which share of the items a surface cue parts from the belief: 0, .5 or 1

    @property
    def aim(self) -> str:
        if self.kind != "map" or not self.parted:
            return "no"
        usual = self.items >= 150 and self.width >= 1024 and self.noise == 1 and not self.shared
        return "yes" if usual else ""


ROWS = (
    *(Planted("map", gain=gain) for gain in GAINS),
    Planted("map", noise=0.5),
    Planted("map", shared=1.0),
    Planted("map", width=128, gain=2.0),
    *(Planted("shared", items, noise=noise, width=width)
      for width in (128, 1024) for items, noise in ((150, 1), (150, 0.5), (60, 1))),
    *(Planted("shuffled", width=width, noise=0.5) for width in (128, 1024)),
    *(Planted("random", width=width, noise=0.5) for width in (128, 1024)),
    *(Planted(kind, noise=noise) for kind in COPIES for noise in (0.5, 1)),
    *(Planted(kind, noise=0.5, parted=0) for kind in ("map", "seen")),
)  # fmt: skip


def codes(rng: np.random.Generator) -> Floats:
    """Unit vectors [LABELS, CODE] that point away from one another."""
    made = rng.normal(size=(LABELS, CODE))
    for _ in range(400):
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        near = made @ made.T - np.eye(LABELS)
        made -= 0.3 * (np.sign(near) * np.abs(near) ** 5) @ made
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True))


def planted(of: Planted, seed: int) -> tuple[LayerStates, Ints, Ints, Answer]:
    """The states of every case, the labels of its false and its true belief, and what is answered after any states."""
    rng, n, d = np.random.default_rng(seed), of.items, of.width
    a, b, c = np.split(np.linalg.qr(rng.normal(size=(d, 3 * CODE)))[0], 3, axis=1)
    code = codes(rng)
    left, right = (np.linalg.qr(rng.normal(size=(CODE, CODE)))[0] for _ in range(2))
    matrix = left @ np.diag(of.gain * np.linspace(0.8, 1.25, CODE)) @ right
    false = rng.integers(LABELS, size=n)
    true = (false + rng.integers(1, LABELS, size=n)) % LABELS

    def drawn(length: float, rows: int = n) -> Floats:
        return rng.normal(size=(rows, d)) * length / math.sqrt(d)

    story, theirs, yours = drawn(of.shared), drawn(2, 1), drawn(2, 1)
    space, m = (a, np.eye(CODE)) if of.kind == "shared" else (b, matrix)
    held = rng.permutation(false) if of.kind == "shuffled" else false
    x = code[false] @ a.T + story + theirs + drawn(of.noise)
    y, twin = (code[of_label] @ m.T @ space.T + story + yours + drawn(of.noise) for of_label in (held, true))
    if of.kind in COPIES:
        labels = {"f": false, "t": true, "o": (false + rng.integers(1, LABELS, size=n)) % LABELS}
        told = [COPIES[of.kind].get(sort, "fft") for sort in sorts(of)]
        said = [np.array([labels[one[place]][k] for k, one in enumerate(told)]) for place in range(3)]
        x, y, twin = (one + code[label] @ c.T for one, label in zip((x, y, twin), said, strict=True))
    read, bias = {
        "map": ((a + b @ np.linalg.inv(matrix).T) @ code.T, 0.0),
        "shuffled": ((a + b @ np.linalg.inv(matrix).T) @ code.T, 0.0),
        "shared": (a @ code.T, -(theirs @ a @ code.T)),
        **dict.fromkeys(COPIES, (c @ code.T, 0.0)),
        "random": (drawn(1, LABELS).T, 0.0),
    }[of.kind]
    if of.kind == "random":  # its answers are right, as those of eligible items are, for whatever reason
        bias = np.zeros((n, LABELS))
        bias[np.arange(n), false] = (x @ read).max(axis=1) - (x @ read)[np.arange(n), false] + 0.3
    layer = LayerStates(x, y, twin, twin, np.arange(n), ("all",) * n)
    return layer, false, true, lambda states: np.asarray((states @ read + bias).argmax(axis=1), np.int64)


def sorts(of: Planted) -> list[str]:
    """How a surface cue parts from the belief in each case; empty where it does not."""
    every = {0: ("",), 0.5: ("", "informed", "", "trusted", "", "distrusted"), 1: ("informed", "trusted", "distrusted")}
    return [one for one, _ in zip(itertools.cycle(every[of.parted]), range(of.items), strict=False)]


def verdict(of: Planted, seed: int) -> tuple[str, t.Record]:
    """What is said of one draw, and the row of the table `headline`."""
    layer, false, true, answer = planted(of, seed)
    eligible = answer(layer.false) == false
    cases = spread(eligible.tolist())

    def ask(moved: Floats) -> Floats:
        every = np.repeat(layer.false[None], len(moved), axis=0)
        every[:, cases] += moved
        return np.array([(answer(one) == true)[cases].mean() for one in every])

    made, _ = steps(layer, assign_folds(layer.clusters, 5, seed), Pilot(cases, ask), seed)
    (row,) = headline(measured(of, made, layer, eligible, true, answer))
    return outcome(row)[0], row


def measured(
    of: Planted, made: list[Step], layer: LayerStates, eligible: np.ndarray, true: Ints, answer: Answer
) -> t.Outcomes:
    """What a table of these moves would hold; both orders are alike."""
    names = [f"item{k:04d}" for k in range(len(true))]
    before, length = answer(layer.false), np.linalg.norm(layer.false, axis=1)
    by: dict[tuple[str, float | None, str], dict[str, Floats]] = {}
    for step in made:
        if not step.replaces:
            after, to = answer(layer.false + step.delta), step.target or t.TO_TRUE
            columns = by.setdefault((step.map, step.alpha, step.fitted), {})
            columns |= {f"{reading}_{to}": (eligible & (after == true)).astype(float) for reading in t.READINGS}
            columns[f"changed_{to}"] = (after != before).astype(float)
            columns[f"displacement_{to}"] = np.linalg.norm(step.delta, axis=1) / length
    frames = [
        pl.DataFrame({"item": names, **columns}).with_columns(
            pl.lit(1).alias("layer"), pl.lit(alpha, pl.Float64).alias("alpha"),
            pl.lit(name).alias("map"), pl.lit(fitted).alias("fitted"),
        )
        for (name, alpha, fitted), columns in by.items()
    ]  # fmt: skip
    items = pl.DataFrame({"item": names, "cluster": names, "eligible": eligible, "eligible_choices": eligible})
    items = items.with_columns(parted=pl.Series([sort or None for sort in sorts(of)], dtype=pl.String))
    items = items.with_columns(family=pl.lit("all"), answered=pl.lit(1.0), understood=pl.lit(value=True))
    maps = pl.DataFrame({"layer": [1], "map": [t.PPT], "fitted": [t.HELD_OUT], "error": [0.0]})
    arm = {"model": "planted", "benchmark": "planted"}
    return t.Outcomes(arm, items, pl.DataFrame(), pl.concat(frames, how="diagonal"), maps, pl.DataFrame())


def rates(seeds: int, rows: tuple[Planted, ...]) -> int:
    """Print how often each outcome is said of each truth; returns how many rows miss their aim."""
    missed = 0
    names = ("items", "width", "gain", "noise", "shared", "parted", "eligible", "net", "adjusted", "yes")
    print(f"{'truth':9s}" + "".join(f"{name:>9s}" for name in names) + "  otherwise")
    for of in rows:
        found = [verdict(of, seed) for seed in range(seeds)]
        said = Counter(one for one, _ in found)
        yes = said.pop(CAUSES, 0) / seeds
        aim = POWER if of.aim == "yes" else LEVEL
        error = ERRORS * math.sqrt(aim * (1 - aim) / seeds)
        wrong = bool(of.aim) and (yes < aim - error if of.aim == "yes" else yes > aim + error)
        missed += wrong
        eligible, net, adjusted = (np.mean([row[name] for _, row in found]) for name in ("eligible", "net", "adjusted"))
        rest = ", ".join(f"{name} {count / seeds:.2f}" for name, count in said.most_common())
        told = f"{of.kind:9s}{of.items:9d}{of.width:9d}{of.gain:9.1f}{of.noise:9.1f}{of.shared:9.1f}{of.parted:9.1f}"
        told += f"{eligible:9.0f}{net:9.2f}{adjusted:9.2f}{yes:9.2f}  {rest}{'  misses its aim' * wrong}"
        print(told, flush=True)
        name = f"yes: {of.kind} {of.items}/{of.width} gain {of.gain:g} noise {of.noise:g} shared {of.shared:g}"
        name += "" if of.parted else " unparted"
        least, most = (POWER if of.aim == "yes" else None), (LEVEL if of.aim == "no" else None)
        figure(name, yes, rounds=seeds, at_least=least, at_most=most)
    return missed


def print_test_rates(draws: int) -> None:
    """Print how often the test and the interval of `adjusted` find how much a map is ahead of its strongest control."""
    print(f"\n{'items':>5s} {'ahead':>5s} {'p < .05':>8s} {'interval above 0':>17s}")
    cells, ladders = 27, np.repeat(np.arange(3), 9)
    for items in (60, 150, 400):
        for ahead in (0.0, 0.1, 0.2, 0.3):
            rng, hits = np.random.default_rng([items, int(10 * ahead)]), np.zeros(2)
            for _ in range(draws):
                every = [
                    np.sign(rng.random((items, cells)) - 0.5) * (rng.random((items, cells)) < 0.04) for _ in range(9)
                ]
                every[0][:, 10], every[1][:, 10] = rng.random(items) < 0.9, rng.random(items) < 0.9 - ahead
                named = {str(k): one for k, one in enumerate(every[1:])}
                p = above_all(every[0], every[1:], np.arange(items), 399, ladders=ladders).p
                found = select_best(every[0], named, np.arange(items), ladders=ladders, splits=6, draws=100)
                hits += [p < LEVEL, found.adjusted.low > 0]
            print(f"{items:5d} {ahead:5.1f} {hits[0] / draws:8.2f} {hits[1] / draws:17.2f}", flush=True)
            figure(
                f"above all by {ahead:.1f}, {items} items",
                hits[0] / draws,
                rounds=draws,
                at_most=None if ahead else LEVEL,
            )


def power(seeds: int) -> None:
    """Print in which share of the seeds a true map is found, by gain, noise and the number of eligible items, in all of
    which a surface cue parts from the belief, at width 1024."""
    print("\nPOWER = {  # by the length of the fresh noise: for each gain, by the number of eligible items")
    for noise in NOISES:
        print(f"    {noise}: {{", flush=True)
        for gain in GAINS:
            print(f"        {gain}: (", end="", flush=True)
            for items in ITEMS:
                of = Planted("map", items, gain=gain, noise=noise, parted=1)
                share = np.mean([verdict(of, seed)[0] == CAUSES for seed in range(seeds)])
                print(f"{share:.2f}, ", end="", flush=True)
            print("),", flush=True)
        print("    },")
    print("}")


def commands(cases: int) -> int:
    """Measure checkpoints of known mechanism (tests.helpers.subjects) as the command does, and print what is said of
    them; returns how many are wrong."""
    from tests.helpers.mechanism import write_items
    from tests.helpers.subjects import Kind, build
    from tomserve.causal.experiment import Hardware, measure
    from tomserve.causal.settings import Settings
    from tomserve.runs.scores import scores_of
    from tomserve.studies import compute

    wrong = 0
    with TemporaryDirectory() as name:
        folder = Path(name)
        items = write_items(folder / "items.jsonl", cases)
        known: tuple[tuple[Kind, float], ...] = (("map", 0.5), ("map", 1.0), ("map", 2.0), ("shared", 1.0))
        for kind, gain in known:
            model = build(kind, folder / f"{kind}-{gain}", gain=gain)
            settings = Settings(model=str(model), items=str(items), layers=(3,))
            run = measure(settings, folder / f"run-{kind}-{gain}", on=Hardware(device="cpu")).folder
            (row,) = compute(scores_of(run)).tables["headline"].to_dicts()
            wrong += (row["verdict"] == CAUSES) != (kind == "map")
            shown = f"net {row['net']:.2f}, adjusted {row['adjusted']:.2f} from {row['adjusted_low']:.2f}"
            print(f"{kind}, gain {gain:g}, {row['eligible']} eligible: {row['verdict']} ({shown})", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seeds of some rows")
    parser.add_argument("--power", action="store_true", help="the table of power alone")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--command", action="store_true", help="checkpoints by the public command alone")
    options, start = parser.parse_args(), time.perf_counter()
    if options.command:
        return int(commands(120) > 0)
    if options.power:
        power(options.seeds)
        return 0
    rows = tuple(of for of in ROWS if of.width < 1024) if options.quick else ROWS
    missed = rates(2 if options.quick else options.seeds, rows)
    print_test_rates(2 if options.quick else 100)
    if not options.quick:
        power(options.seeds)
    print(f"{time.perf_counter() - start:.0f} s; {missed} rows miss their aim")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
