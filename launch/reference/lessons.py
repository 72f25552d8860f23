"""The curriculum: in which form examples are shown, in which order the lessons come, and the batches of every training
step.
"""

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
import social
from packing import Note, Packer, Tree
from stories import Short, generate, tell
from tokens import build_tokenizer, loaded

SEED = 20260222
"""The seed of the tokenizer and, by default, of training."""
GROUP = 4
"""So many batches are made at once and their examples sorted by length, so that little padding is needed."""
FORMS: dict[str, tuple[str, bool, bool]] = {
    "bare": ("vanilla", False, False),
    "bare chain": ("cot", False, False),
    "plain": ("vanilla", False, False),
    "plain chain": ("cot", False, False),
    "vanilla": ("vanilla", True, True),
    "vanilla, no demonstration": ("vanilla", True, False),
    "vanilla_advised": ("vanilla_advised", True, True),
    "vanilla_1": ("vanilla_1", True, True),
    "cot": ("cot", True, True),
    "cot, no demonstration": ("cot", True, False),
    "cot_every_sentence": ("cot_every_sentence", True, True),
    "cot_1": ("cot_1", True, True),
    "vanilla, no unknown": ("vanilla", True, True),
}
"""By name of the form: the strategy of the reply, whether the system text comes first, and whether a demonstration
does. The bare forms have neither chat marks nor labels, which halves the tokens. In KNOWN the choices lack "unknown",
of which the system text then does not speak.
"""
KNOWN = "vanilla, no unknown"
BARE = {"bare": 0.4, "bare chain": 0.6}
PLAIN = {"bare": 0.15, "bare chain": 0.25, "plain": 0.25, "plain chain": 0.35}
REAL = {
    **{"plain": 0.05, "plain chain": 0.15, "vanilla": 0.25, "vanilla, no demonstration": 0.03, "vanilla_advised": 0.04},
    **{"vanilla_1": 0.06, "cot": 0.22, "cot, no demonstration": 0.03, "cot_every_sentence": 0.08, "cot_1": 0.09},
}
SOCIAL = {"bare": 0.12, "bare chain": 0.08, "plain": 0.1, "vanilla": 0.3, KNOWN: 0.25, "cot": 0.15}
"""How often each form is shown: BARE in the first two lessons, PLAIN in the third, REAL in the fourth, and in the fifth
SOCIAL with world stories and REAL with those of before."""


@dataclass(frozen=True)
class Recipe:
    """All settings that shape the weights. Shares are of the training steps.

    There are five lessons. Until the share `single`, stories have only the sentences that matter, one phrasing a role,
    and names and labels of one token. Until `short`, such stories have words of all kinds and more and more phrasings.
    Until `plain`, stories are whole but have no system text. After that come the project's own prompts, mixed with the
    earlier forms.

    `steps`, `batch`: number of steps, and stories a step. `matrix_rate`, `embedding_rate`: learning rates of Muon and
    of AdamW. `warmup`: steps until they are reached; `decay`: the share of the steps over which they fall to zero.
    `relay`: the share of stories with `plots.relay_plot` in the first lesson, which shrinks during the second; there
    nothing but the name tells who believes what. `change`: factor on the loss of a belief that differs from the one
    before, because most do not differ and always repeating the last one would do. `story_weight`, `hints`, `look`:
    weights of the losses on the story's own text, on the readouts and on the attention (see hints.py); the loss on
    replies has weight 1. `again`: the factor on the learning rates in the fifth lesson, where they rise and fall once
    more.
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
    social: int = 1100
    again: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.single < self.short < self.plain <= 1:
            raise ValueError(f"0 < single < short < plain <= 1, not {self.single}, {self.short}, {self.plain}")

    @property
    def total(self) -> int:
        """The number of steps of all lessons."""
        return self.steps + self.social

    def rate(self, step: int) -> float:
        """The factor on the learning rates at this step: it rises, stays at 1, and falls to zero over the last `decay`
        of the steps. The fifth lesson has a rise and a fall of its own.
        """
        if step >= self.steps:
            taken = step - self.steps
            return self.again * max(
                0.0, min((taken + 1) / self.warmup, (self.social - taken) / (0.7 * self.social), 1.0)
            )
        down = (self.steps - step) / (self.decay * self.steps)
        return max(0.0, min(1.0, (step + 1) / self.warmup, down))


Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class Batch:
    """Padded trees of one form, as arrays; a place is a position in its row, counted from 0.

    `stories` [B, S] with their `lengths` [B]; `branches` [N, L], with the story that each belongs to in `owner` [N];
    `targets` and `weights` [N, L] of the loss. `checks`: (row, place, class) of the labels whose accuracy is measured.
    `notes`: by hint those in stories and those in branches, each [n, 3] (row, place, token). `looks` [n, 4]: row,
    place, whether the source is inside the branch, and the place of the source. `opening`: which of the form's openings
    stands before the stories, counted over and over.
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
    opening: int = 0


def collate(form: str, trees: list[Tree], opening: int = 0) -> Batch:
    """Combine trees of one form into a batch, padded to the longest story and the longest branch.

    opening: which of the form's openings stands before them.
    """
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
        np.array(
            [(row, *look) for row, branch in enumerate(branches) for look in branch.looks], dtype=np.int64
        ).reshape(-1, 4),  # whole numbers also where there is none, as in a very small batch
        opening,
    )


def _noted(notes: list[list[Note]], hint: str) -> Ints:
    """The notes of one hint as an array [n, 3]: row, place, token."""
    entries = [(row, place, token) for row, own in enumerate(notes) for name, place, token in own if name == hint]
    return np.array(entries, np.int64).reshape(-1, 3)


def _padded(rows: list[Any]) -> np.ndarray[Any, Any]:
    """The rows as one array, padded with zeros at the end."""
    longest = max(map(len, rows))
    return np.array([[*row, *[0] * (longest - len(row))] for row in rows])


_packer: Packer | None = None
"""What a worker process builds once and keeps: the packer, and the short words of the first lesson (`_short`)."""
_short: Short | None = None


def _make(job: tuple[Recipe, int, int, int]) -> list[Batch]:
    """The batches of one group of steps, in training order.

    job: the recipe, the number of the group, and the rank and number of the training processes. Each process gets its
        share of every batch, made of stories of its own; the shares of one batch have about the same length.
    """
    global _packer, _short
    if _packer is None:
        _packer = Packer(build_tokenizer(SEED))
        _short = _packer.short_words()
    recipe, group, rank, world = job
    common = random.Random(f"train/{recipe.seed}/{group}")  # drawn alike in all processes
    rng = random.Random(f"train/{recipe.seed}/{group}/{rank}/{world}")
    done = group * GROUP / recipe.steps
    if done >= 1 and group % 2:
        return _social(rng, common, recipe, (group, rank, world))
    share = BARE if done < recipe.short else PLAIN if done < recipe.plain else REAL
    form = common.choices(list(share), list(share.values()))[0]
    strategy, bare = FORMS[form][0], form in BARE
    # how much of the second lesson is left, as a share of it
    left = min(1.0, max(0.0, (recipe.short - done) / (recipe.short - recipe.single)))
    trees = []
    size = recipe.batch // world
    for number in range(GROUP * size):
        phrasings = _phrasings(rng, recipe, done)
        relay = phrasings is not None and rng.random() < recipe.relay * left
        short = _short if rng.random() < (0.5 * left if left < 1 else 1.0) else None
        drawn_story = tell(rng, f"train-{group}-{rank}-{number}", most=phrasings, short=short, relay=relay)
        questions = len(drawn_story.items) if bare else 2 if strategy.startswith("cot") else 3  # real prompts are long
        asked = drawn_story.items if bare else rng.sample(drawn_story.items, min(len(drawn_story.items), questions))
        compact = bare or rng.random() < 0.85
        trees.append(_packer.tree(asked, strategy, told=drawn_story, bare=bare, compact=compact, change=recipe.change))
    return _shuffled(form, trees, common)


def _social(rng: random.Random, common: random.Random, recipe: Recipe, named: tuple[int, int, int]) -> list[Batch]:
    """The batches of one group with world stories.

    rng, common: as in `_make`. named: the number of the group, and the rank and number of the processes.
    """
    assert _packer is not None
    form = common.choices(list(SOCIAL), list(SOCIAL.values()))[0]
    strategy, bare = FORMS[form][0], form in BARE
    size = recipe.batch // named[2]
    trees: list[Tree] = []
    while len(trees) < GROUP * size:
        told = social.tell(rng, f"social-{'-'.join(map(str, named))}-{len(trees)}")
        offered = social.asked_in(told.items, form, chained=loaded(strategy).chain)
        if not offered:
            continue
        asked = offered if bare else rng.sample(offered, min(len(offered), 3))
        compact = bare or rng.random() < 0.85
        trees.append(_packer.tree(asked, strategy, told=told, bare=bare, compact=compact, change=recipe.change))
    return _shuffled(form, trees, common)


def _shuffled(form: str, trees: list[Tree], common: random.Random) -> list[Batch]:
    """The trees of one group as GROUP batches in random order, each of trees of about the same length.

    common: draws first the opening of each batch, then the order; so it stays the same in all processes.
    """
    size = len(trees) // GROUP
    ranked = sorted(trees, key=lambda tree: len(tree.story))
    shown = [common.randrange(720) for _ in range(GROUP)]
    made = [collate(form, ranked[n * size : (n + 1) * size], shown[n]) for n in range(GROUP)]
    common.shuffle(made)
    return made


def _phrasings(rng: random.Random, recipe: Recipe, done: float) -> int | None:
    """How many phrasings of a role a story may use once this share of the steps (`done`) is over.

    None means all of them, in a whole story instead of one with only the sentences that matter.
    """
    if done < recipe.single or done >= recipe.short:
        return 1 if done < recipe.single else None
    far = (done - recipe.single) / (recipe.short - recipe.single)
    return None if rng.random() < 0.5 * far else 1 + int(20 * far**2)


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends, however that ends. Only Linux can; elsewhere
    nothing is done.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _settle() -> None:
    """Prepare a worker process: it ends with its parent, which alone reacts to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()


def batches(recipe: Recipe, first: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
    """Yield the training batches from step `first` on; another process makes them ahead of time.

    rank, world: the number of this training process and how many there are; each gets its share of every batch.
    """
    groups = range(first // GROUP, math.ceil(recipe.total / GROUP))
    jobs = ((recipe, group, rank, world) for group in groups)
    with multiprocessing.get_context("spawn").Pool(1, _settle) as pool:
        window: list[Any] = [pool.apply_async(_make, (job,)) for job in itertools.islice(jobs, 3)]
        skip = first % GROUP
        while window:
            made = window.pop(0).get()
            if (job := next(jobs, None)) is not None:
                window.append(pool.apply_async(_make, (job,)))
            yield from made[skip : recipe.total - first + skip]
            first, skip = first + len(made) - skip, 0


def held_out(packer: Packer, stories: int) -> list[Batch]:
    """Batches with so many stories of words and phrasings that training never shows, in four of the forms."""
    items = list(generate(stories, 5, held_out=True))
    groups = [list(group) for _, group in itertools.groupby(items, key=lambda item: item.cluster)]
    told = [social.tell(random.Random(f"held-out/{n}"), f"held-{n}", held_out=True).items for n in range(stories)]
    worlds = {form: [social.asked_in(one, form, chained=FORMS[form][0] == "cot") for one in told] for form in SOCIAL}
    return [
        collate(
            form, [packer.tree(group, FORMS[form][0]) for group in worlds[form][start : start + 32] if group], start
        )
        for form in ("vanilla", KNOWN, "cot")
        for start in range(0, stories, 32)
    ] + [
        collate(
            form, [packer.tree(group, FORMS[form][0], bare=form in BARE) for group in groups[start : start + 32]], start
        )
        for form in ("bare", "bare chain", "vanilla", "cot", "vanilla_1", "cot_1")
        for start in range(0, len(groups), 32)
    ]
