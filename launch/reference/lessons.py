"""What is taught when: the forms of an example, the order of lessons, and the batches of every training step."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import multiprocessing
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from packing import Note, Packer, Tree, build_tokenizer
from stories import Short, generate, tell

SEED = 20260222
GROUP = 4
"""Batches made at once and sorted by length, so that little is padded."""
FORMS: dict[str, tuple[str, bool, bool]] = {
    "bare": ("vanilla", False, False),
    "bare chain": ("cot", False, False),
    "plain": ("vanilla", False, False),
    "plain chain": ("cot", False, False),
    "vanilla": ("vanilla", True, False),
    "cot": ("cot", True, False),
    "cot one-shot": ("cot", True, True),
}
"""Name: strategy of the reply, whether the system text stands before, whether the demonstration does. The bare ones
have neither chat marks nor labels: half as many tokens."""
BARE = {"bare": 0.4, "bare chain": 0.6}
PLAIN = {"bare": 0.15, "bare chain": 0.25, "plain": 0.25, "plain chain": 0.35}
REAL = {"plain": 0.05, "plain chain": 0.2, "vanilla": 0.3, "cot": 0.1, "cot one-shot": 0.35}
"""How often which form is shown: in the first two lessons, in the third, in the last."""


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the weights.

    Four lessons. `single`: until that share of the steps stories only of the sentences that matter, one phrasing a
    role, names and labels of one token each; `short`: until then such stories with words of all kinds and more and
    more phrasings; `plain`: until then whole stories without system text; then the project's own prompts, mixed with
    the forms before. `relay`: how many stories of the first lesson, and less and less of the second, have `relay_plot`,
    where nothing but the name tells who believes what. `change`: the factor on the loss of a belief that is not the one
    before it: most are, and "as before" would do. `story_weight`, `hints`, `look`: the weight of the loss on
    the story's own text, of the readouts and of the attention (hints.py), beside the loss on replies, which is 1.
    """

    steps: int = 2200
    batch: int = 32
    seed: int = SEED
    matrix_rate: float = 0.005
    embedding_rate: float = 0.001
    warmup: int = 50
    decay: float = 0.5
    single: float = 0.13
    short: float = 0.33
    plain: float = 0.6
    relay: float = 0.35
    change: float = 3.0
    story_weight: float = 0.1
    hints: float = 0.6
    look: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.single < self.short < self.plain <= 1:
            raise ValueError(f"0 < single < short < plain <= 1, not {self.single}, {self.short}, {self.plain}")

    def rate(self, step: int) -> float:
        """The factor on the learning rates: up, level, and down to zero over the last `decay` of the steps."""
        down = (self.steps - step) / (self.decay * self.steps)
        return max(0.0, min(1.0, (step + 1) / self.warmup, down))


Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class Batch:
    """Padded trees of one form: stories [B, S] with `lengths` [B], branches [N, L] with their `owner` [N]; `notes`: by
    hint those in stories and those in branches [n, 3] (row, place, token); `looks` [n, 4] (row, place, inside, source).
    """

    form: str
    stories: Ints
    lengths: Ints
    branches: Ints
    owner: Ints
    targets: Ints
    weights: np.ndarray[Any, np.dtype[np.float32]]
    checks: list[tuple[int, int, str]]
    notes: dict[str, tuple[Ints, Ints]]
    looks: Ints


def collate(form: str, trees: list[Tree]) -> Batch:
    """Pad trees to the longest story and the longest branch."""
    branches = [branch for tree in trees for branch in tree.branches]
    return Batch(
        form,
        _padded([tree.story for tree in trees]),
        np.array([len(tree.story) for tree in trees]),
        _padded([branch.tokens for branch in branches]),
        np.array([number for number, tree in enumerate(trees) for _ in tree.branches]),
        _padded([branch.targets for branch in branches]),
        _padded([branch.weights for branch in branches]).astype(np.float32),
        [(row, place, name) for row, branch in enumerate(branches) for place, name in branch.checks],
        {
            hint: (_noted([tree.notes for tree in trees], hint), _noted([branch.notes for branch in branches], hint))
            for hint in ("who", "what", "number")
        },
        np.array([(row, *look) for row, branch in enumerate(branches) for look in branch.looks]).reshape(-1, 4),
    )


def _noted(notes: list[list[Note]], hint: str) -> Ints:
    found = [(row, place, token) for row, own in enumerate(notes) for name, place, token in own if name == hint]
    return np.array(found, np.int64).reshape(-1, 3)


def _padded(rows: list[Any]) -> np.ndarray[Any, Any]:
    longest = max(map(len, rows))
    return np.array([[*row, *[0] * (longest - len(row))] for row in rows])


_packer: Packer | None = None
_short: Short | None = None


def _make(job: tuple[Recipe, int, int, int]) -> list[Batch]:
    """The batches of one group of steps, in training order; of each the share of process `rank` of `world`,
    made of stories of its own, of about the same length as the others' shares."""
    global _packer, _short
    if _packer is None:
        _packer = Packer(build_tokenizer(SEED))
        _short = _packer.short_words()
    recipe, group, rank, world = job
    common = random.Random(f"train/{recipe.seed}/{group}")  # what all processes share
    rng = random.Random(f"train/{recipe.seed}/{group}/{rank}/{world}")
    done = group * GROUP / recipe.steps
    share = BARE if done < recipe.short else PLAIN if done < recipe.plain else REAL
    form = common.choices(list(share), list(share.values()))[0]
    strategy, bare = FORMS[form][0], form in BARE
    left = min(1.0, max(0.0, (recipe.short - done) / (recipe.short - recipe.single)))  # of the second lesson
    trees = []
    size = recipe.batch // world
    for number in range(GROUP * size):
        most = _phrasings(rng, recipe, done)
        relay = most is not None and rng.random() < recipe.relay * left
        short = _short if rng.random() < (0.5 * left if left < 1 else 1.0) else None
        told = tell(rng, f"train-{group}-{rank}-{number}", most=most, short=short, relay=relay)
        most_asked = len(told.items) if bare else 3 if strategy == "vanilla" else 2  # real prompts are long
        asked = told.items if bare else rng.sample(told.items, min(len(told.items), most_asked))
        compact = bare or rng.random() < 0.85
        trees.append(_packer.tree(asked, strategy, told=told, bare=bare, compact=compact, change=recipe.change))
    trees.sort(key=lambda tree: len(tree.story))
    batches = [collate(form, trees[start : start + size]) for start in range(0, len(trees), size)]
    common.shuffle(batches)
    return batches


def _phrasings(rng: random.Random, recipe: Recipe, done: float) -> int | None:
    """How many phrasings a role has in a story when that share of the steps is done; None: all, and a whole story."""
    if done < recipe.single or done >= recipe.short:
        return 1 if done < recipe.single else None
    far = (done - recipe.single) / (recipe.short - recipe.single)
    return None if rng.random() < 0.5 * far else 1 + int(20 * far**2)


def die_with_parent() -> None:
    """Leave no process behind, however the one that started this one ends. Does nothing where that is not Linux."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _settle() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that trains
    die_with_parent()


def batches(recipe: Recipe, first: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
    """Training batches from step `first` on, made by another process ahead of time."""
    groups = range(first // GROUP, math.ceil(recipe.steps / GROUP))
    jobs = ((recipe, group, rank, world) for group in groups)
    with multiprocessing.get_context("spawn").Pool(1, _settle) as pool:
        window: list[Any] = [pool.apply_async(_make, (job,)) for job in itertools.islice(jobs, 3)]
        skip = first % GROUP
        while window:
            made = window.pop(0).get()
            if (job := next(jobs, None)) is not None:
                window.append(pool.apply_async(_make, (job,)))
            yield from made[skip : recipe.steps - first + skip]
            first, skip = first + len(made) - skip, 0


def held_out(packer: Packer, stories: int) -> list[Batch]:
    """Batches over stories of unseen words and phrasings, in four of the forms."""
    items = list(generate(stories, 5, held_out=True))
    groups = [list(group) for _, group in itertools.groupby(items, key=lambda item: item.cluster)]
    return [
        collate(form, [packer.tree(group, FORMS[form][0], bare=form in BARE) for group in groups[start : start + 32]])
        for form in ("bare", "bare chain", "vanilla", "cot one-shot")
        for start in range(0, len(groups), 32)
    ]
