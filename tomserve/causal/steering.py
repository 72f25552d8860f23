"""Every move of a layer's states: by the perspective-taking map, by its controls, and the references at their own norm.

What each map means stands in `tomserve.causal.table`. States are those of one layer, averaged over both orders of the
choices. What is random is drawn from the seed and what it is for, not from the layer, so that all layers share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tomserve.causal import table
from tomserve.causal.activations import Floats as Floats32
from tomserve.causal.projection import Fit, Floats, Ints, Map, Ridge, draw_partners
from tomserve.causal.strengths import Trial, choose_strengths

TRANSFER_LEAST = 30  # a map is fitted on a family, and applied to another, only where both have so many items
PAIRS, TARGETS, MAP_DRAW, DIRECTION = range(4)  # what random numbers are drawn for; each has a stream of its own

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LayerStates:
    """What a layer holds at the last token of every case, averaged over both orders of the choices: [n, d] each."""

    false: Floats  # x, of the false-belief item
    own: Floats  # y, of the story as the protagonist saw it, told to "you"
    own_twin: Floats  # y~, of the true-belief twin told to "you"
    twin: Floats  # of the true-belief twin in the third person; NaN where a case has none
    clusters: Ints  # [n], the scenario of each case
    families: tuple[str, ...]  # [n]

    def target(self, name: str) -> Floats:
        """The states [n, d] at which a move aims: y~ for TO_TRUE, y for TO_FALSE."""
        return self.own_twin if name == table.TO_TRUE else self.own


@dataclass(frozen=True, slots=True)
class Step:
    """One move of the states of all cases; the first four fields as in the table."""

    map: str
    target: str | None  # None for `no_op` and `replace_no_op`, which aim nowhere
    alpha: float | None  # None for references that have none
    fitted: str
    delta: Floats32  # [n, d], what is added to the state of each case; NaN where the step does not apply
    replaces: bool = False  # whether it stands there instead


@dataclass(frozen=True, slots=True)
class FitRow:
    """How well a map fits where it was fitted; the columns of the table's rows of kind `map`."""

    map: str
    fitted: str
    fold: int | None  # that was left out
    penalty: float | None  # None where none is chosen (identity)
    error: float  # of predicting each scenario without itself, relative to |y|
    rank: int
    gain: float  # the median singular value, NaN where the rank is 0
    norm: float  # the median norm of the states x


PUBLISHED_ALPHAS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
"""The strengths of Mohanty et al., who print the window from 1e-4 to 1e-2."""
PUBLISHED_PENALTY = 1e-4  # the ridge penalty that they print


@dataclass(frozen=True, slots=True)
class Pilot:
    """On which cases strengths are tried, and how (see tomserve.causal.strengths)."""

    cases: Ints  # places
    ask: Trial


Strengths = Sequence[float] | Pilot
"""Values of alpha, or how to choose them."""


def steps(
    layer: LayerStates, folds: Ints, alphas: Strengths, seed: int, second: Strengths | None = None
) -> tuple[list[Step], list[FitRow]]:
    """All moves of a layer's states, and how well the maps fit.

    Maps and means are those of the cases outside of a case's own fold. Each control's displacement of a case has the
    norm of `perspective`'s at the same alpha and target; where the control has a whole step of its own (W = I, the mean
    difference), it is never longer than that. Beside them stand the references, what Mohanty et al. do, and the
    transfer from every family with at least TRANSFER_LEAST cases to the cases of every other such family that are about
    other scenarios. folds: int64 [n] (`projection.assign_folds`). alphas: the strengths, or how to choose them.
    second: those of a second map, which is fitted on pairs of true beliefs, too; None for no such map.

    Raises ConfigError where more than half of the cases in training are about one scenario, so that they cannot be
    shuffled.
    """
    made: list[Step] = []
    rows: list[FitRow] = []
    held = [_fit_with_controls(layer, folds != fold, table.HELD_OUT, int(fold), seed) for fold in np.unique(folds)]
    rows += [row for part in held for row in part.rows]
    alphas = _choose(layer, held, folds, alphas)
    for target in (table.TO_TRUE, table.TO_FALSE):
        made += _control_steps(layer, held, alphas, target, seed)
    if second is not None:
        told = [_fit_true_pairs(layer, folds != fold, int(fold), seed) for fold in np.unique(folds)]
        rows += [row for part in told for row in part.rows]
        made += _true_pairs_steps(layer, told, _choose(layer, told, folds, second), seed)
    published, row = _published_steps(layer, seed)
    made += published
    rows.append(row)
    for family, to in _transfers(layer):
        source = _fit_with_controls(layer, _of_family(layer, family), family, None, seed)
        rows += source.rows
        made += _transfer_steps(layer, replace(source, test=to), alphas)
    return made + reference_steps(layer), rows


def reference_steps(layer: LayerStates) -> list[Step]:
    """What is compared with at its own norm and has no alpha: no_op, patch, patch_twin and replace_no_op."""
    nothing = np.zeros(layer.false.shape, dtype=np.float32)
    return [
        Step(table.NO_OP, None, None, table.HELD_OUT, nothing),
        *(
            Step(table.PATCH, to, None, table.HELD_OUT, _float32(layer.target(to) - layer.false))
            for to in (table.TO_TRUE, table.TO_FALSE)
        ),
        Step(table.PATCH_TWIN, table.TO_TRUE, None, table.HELD_OUT, _float32(layer.twin - layer.false)),
        Step(table.REPLACE_NO_OP, None, None, table.HELD_OUT, _float32(layer.false), replaces=True),
    ]


def _choose(layer: LayerStates, held: Sequence[_Fitted], folds: Ints, pilot: Strengths) -> Sequence[float]:
    if not isinstance(pilot, Pilot):
        return pilot
    every = [(part.perspective.map, layer.false[part.test], layer.own_twin[part.test]) for part in held]
    by_fold = [pilot.cases[folds[pilot.cases] == fold] for fold in np.unique(folds)]
    if not pilot.cases.size:
        return choose_strengths(every, None)
    some = [
        (part.perspective.map, layer.false[own], layer.own_twin[own]) for part, own in zip(held, by_fold, strict=True)
    ]
    back = np.argsort(np.argsort(folds[pilot.cases], kind="stable"), kind="stable")
    return choose_strengths(every, (some, lambda moved: pilot.ask(moved[:, back])))


def _published_steps(layer: LayerStates, seed: int) -> tuple[list[Step], FitRow]:
    """What Mohanty et al. do: W is fitted on the very cases with PUBLISHED_PENALTY, and the moved mean of both orders
    stands in place of each order's own state. Beside it stand, by the same rule, W of shuffled pairs and W = I."""
    every = np.ones(len(layer.families), dtype=bool)
    ridge, partner = Ridge(layer.false, layer.clusters), draw_partners(layer.clusters, _stream(seed, PAIRS))
    fitted = ridge.fit(layer.own, PUBLISHED_PENALTY)
    shuffled = ridge.fit(layer.own[partner], PUBLISHED_PENALTY)
    made: list[Step] = []
    for target in (table.TO_TRUE, table.TO_FALSE):
        y = layer.target(target)
        whole = np.array([(y - layer.false) / (1 + alpha) for alpha in PUBLISHED_ALPHAS])
        moved = {
            table.REPLACE: _displace(fitted.map, layer, every, y, PUBLISHED_ALPHAS),
            table.SHUFFLED_PAIRS: _displace(shuffled.map, layer, every, y, PUBLISHED_ALPHAS),
            table.IDENTITY: whole,
        }
        for name, deltas in moved.items():
            made += [
                Step(name, target, alpha, table.IN_SAMPLE, _float32(layer.false + delta), replaces=True)
                for alpha, delta in zip(PUBLISHED_ALPHAS, deltas, strict=True)
            ]
    return made, _row(table.PPT, table.IN_SAMPLE, None, fitted, layer.false)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Maps of some cases, for other ones."""

    name: str  # of `fitted`
    test: Mask  # [n], the cases that they are for
    perspective: Fit  # W of the pairs as they are
    shuffled: Fit  # W of pairs put together at random
    random: Map  # with the gains of W
    means: dict[str, Floats]  # of the states x and of both targets [d], over the cases they were fitted on
    rows: list[FitRow]


def _fit_with_controls(layer: LayerStates, training: Mask, name: str, fold: int | None, seed: int) -> _Fitted:
    """The maps of the cases in training, for all others."""
    x, y = layer.false[training], layer.own[training]
    ridge = Ridge(x, layer.clusters[training])
    partner = draw_partners(layer.clusters[training], _stream(seed, PAIRS, fold))
    fitted, shuffled = ridge.fit(y), ridge.fit(y[partner])
    means = {"x": x.mean(axis=0), table.TO_FALSE: y.mean(axis=0), table.TO_TRUE: layer.own_twin[training].mean(axis=0)}
    norm = float(np.median(np.linalg.norm(x, axis=1)))
    same = float(np.linalg.norm(y - x) / np.linalg.norm(y)) if y.any() else float("inf")
    rows = [
        _row(table.PPT, name, fold, fitted, x),
        _row(table.SHUFFLED_PAIRS, name, fold, shuffled, x),
        FitRow(table.IDENTITY, name, fold, None, same, x.shape[1], 1.0, norm),
    ]
    drawn = _like(fitted.map, _stream(seed, MAP_DRAW, fold))
    return _Fitted(name, ~training, fitted, shuffled, drawn, means, rows)


def _fit_true_pairs(layer: LayerStates, training: Mask, fold: int, seed: int) -> _Fitted:
    """The map of the cases in training, and of their third-person twins to the twins told to "you", for all others."""
    told = training & np.isfinite(layer.twin[:, 0])
    x = np.concatenate([layer.false[training], layer.twin[told]])
    y = np.concatenate([layer.own[training], layer.own_twin[told]])
    clusters = np.concatenate([layer.clusters[training], layer.clusters[told]])
    ridge, partner = Ridge(x, clusters), draw_partners(clusters, _stream(seed, PAIRS, fold))
    fitted, shuffled = ridge.fit(y), ridge.fit(y[partner])
    rows = [
        _row(table.PPT, table.TRUE_PAIRS, fold, fitted, x),
        _row(table.SHUFFLED_PAIRS, table.TRUE_PAIRS, fold, shuffled, x),
    ]
    return _Fitted(table.TRUE_PAIRS, ~training, fitted, shuffled, fitted.map, {}, rows)


def _true_pairs_steps(
    layer: LayerStates, held: Sequence[_Fitted], alphas: Sequence[float], seed: int
) -> Iterator[Step]:
    """The moves by maps of true-belief pairs, too, and their own controls."""
    every = np.ones(len(layer.families), dtype=bool)
    partner = draw_partners(layer.clusters, _stream(seed, TARGETS))
    for target in (table.TO_TRUE, table.TO_FALSE):
        y = layer.target(target)
        moved = _displace_by_fold(layer, held, alphas, lambda part: part.perspective.map, y)
        norms, same = displacement_norms(moved), (y - layer.false)[None]
        shuffled = _displace_by_fold(layer, held, alphas, lambda part: part.shuffled.map, y)
        other = _displace_by_fold(layer, held, alphas, lambda part: part.perspective.map, y[partner])
        for name, one, most in (
            (table.PPT, moved, norms),
            (table.SHUFFLED_PAIRS, shuffled, norms),
            (table.SHUFFLED_TARGET, other, norms),
            (table.IDENTITY, same, np.minimum(norms, displacement_norms(same))),
        ):
            yield from _make_steps(name, target, alphas, table.TRUE_PAIRS, scale_to_norms(one, most), every)


def _row(name: str, fitted: str, fold: int | None, fit: Fit, x: Floats) -> FitRow:
    gain = float(np.median(fit.map.gains)) if fit.map.rank else float("nan")
    norm = float(np.median(np.linalg.norm(x, axis=1)))
    return FitRow(name, fitted, fold, fit.penalty, fit.error, fit.map.rank, gain, norm)


def _control_steps(
    layer: LayerStates, held: Sequence[_Fitted], alphas: Sequence[float], target: str, seed: int
) -> Iterator[Step]:
    """`perspective`, `replace` and all controls towards a target, each case by the maps fitted without its fold."""
    y, every = layer.target(target), np.ones(len(layer.families), dtype=bool)
    partner = draw_partners(layer.clusters, _stream(seed, TARGETS))
    moved = _displace_by_fold(layer, held, alphas, lambda part: part.perspective.map, y)
    norms = displacement_norms(moved)
    yield from _make_steps(table.PPT, target, alphas, table.HELD_OUT, moved, every)
    instead = layer.false + moved
    for alpha, delta in zip(alphas, instead, strict=True):
        yield Step(table.REPLACE, target, float(alpha), table.HELD_OUT, _float32(delta), replaces=True)

    def by_fold(chosen: Callable[[_Fitted], Map], goal: Floats, strengths: Sequence[float] = alphas) -> Floats:
        return _displace_by_fold(layer, held, strengths, chosen, goal)

    shift, seen = _shift(layer, held, table.TO_FALSE), _predict_held_out(layer, held, y)
    directions: tuple[tuple[str, Callable[[], Floats], Callable[[], Floats] | None], ...] = (
        (table.SHUFFLED_PAIRS, lambda: by_fold(lambda part: part.shuffled.map, y), None),
        (table.SHUFFLED_TARGET, lambda: by_fold(lambda part: part.perspective.map, y[partner]), None),
        (table.RANDOM_MAP, lambda: by_fold(lambda part: part.random, y), None),
        (table.RANDOM_DIRECTION, lambda: _stream(seed, DIRECTION).standard_normal((1, *y.shape)), None),
        (table.IDENTITY, lambda: (y - layer.false)[None], lambda: (y - layer.false)[None]),
        (table.SHIFTED_IDENTITY, lambda: (y - layer.false - shift)[None], lambda: (y - layer.false - shift)[None]),
        (
            table.SEEN_IDENTITY,
            lambda: by_fold(lambda part: part.perspective.map, seen),
            lambda: by_fold(lambda part: part.perspective.map, seen, (0.0,)),
        ),
        (table.MEAN_DIFFERENCE, lambda: _shift(layer, held, target)[None], lambda: _shift(layer, held, target)[None]),
    )
    for name, direction, whole in directions:
        most = norms if whole is None else np.minimum(norms, displacement_norms(whole()))
        yield from _make_steps(name, target, alphas, table.HELD_OUT, scale_to_norms(direction(), most), every)


def scale_to_norms(displacements: Floats, norms: Floats) -> Floats:
    """The displacements, each scaled to its norm; those that are zero stay zero. displacements: [alphas or 1, n, d].
    norms: [alphas, n]."""
    sizes = displacement_norms(displacements)
    factors = np.divide(norms, sizes, out=np.zeros_like(norms), where=sizes > 0)
    return np.asarray(displacements * factors[:, :, None])


def displacement_norms(displacements: Floats) -> Floats:
    """The norms [alphas, n] of displacements [alphas, n, d], without an array of their squares."""
    return np.asarray(np.sqrt(np.einsum("ijk,ijk->ij", displacements, displacements)))


def _displace_by_fold(
    layer: LayerStates,
    held: Sequence[_Fitted],
    alphas: Sequence[float],
    chosen: Callable[[_Fitted], Map],
    target: Floats,
) -> Floats:
    """The displacement of every case by the map chosen of those fitted without its fold [alphas, n, d]."""
    moved = np.empty((len(alphas), *target.shape))
    for part in held:
        moved[:, part.test] = _displace(chosen(part), layer, part.test, target, alphas)
    return moved


def _displace(w: Map, layer: LayerStates, cases: Mask, target: Floats, alphas: Sequence[float]) -> Floats:
    return w.displacements(layer.false[cases], target[cases], alphas)


def _predict_held_out(layer: LayerStates, held: Sequence[_Fitted], target: Floats) -> Floats:
    """What the map fitted without a case's fold makes of its target, as if that, after both means are taken off, were a
    state like x [n, d]."""
    seen, shifted = np.empty_like(target), target - _shift(layer, held, table.TO_FALSE)
    for part in held:
        seen[part.test] = part.perspective.map.apply(shifted[part.test])
    return seen


def _shift(layer: LayerStates, held: Sequence[_Fitted], target: str) -> Floats:
    """For every case the mean of the target's states less that of x, over the cases outside of its fold [n, d]."""
    shift = np.empty_like(layer.false)
    for part in held:
        shift[part.test] = part.means[target] - part.means["x"]
    return shift


def _like(w: Map, rng: np.random.Generator) -> Map:
    """A random map with the singular values of another; both of its frames are uniformly drawn."""
    return Map(_frame(w.left.shape, rng), w.gains, _frame(w.right.shape, rng))


def _frame(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Orthonormal columns, uniformly drawn (Mezzadri, Notices of the AMS 54:592, 2007, for the signs)."""
    q, r = np.linalg.qr(rng.standard_normal(shape))
    return np.asarray(q * np.where(np.diag(r) < 0, -1.0, 1.0))


def _stream(seed: int, role: int, fold: int | None = None) -> np.random.Generator:
    """The random numbers of one role and fold, the same for every layer."""
    return np.random.default_rng([seed, role, 0 if fold is None else fold + 1])


def _of_family(layer: LayerStates, family: str) -> Mask:
    return np.array([one == family for one in layer.families])


def _transfers(layer: LayerStates) -> Iterator[tuple[str, Mask]]:
    """Each family that is large enough, and the cases of the others to which its maps are applied [n]."""
    sizes = {one: layer.families.count(one) for one in sorted(set(layer.families))}
    large = [one for one, size in sizes.items() if size >= TRANSFER_LEAST]
    for family in large if len(large) > 1 else ():
        own = _of_family(layer, family)
        others = np.array([one in large and one != family for one in layer.families])
        yield family, others & ~np.isin(layer.clusters, layer.clusters[own])


def _transfer_steps(layer: LayerStates, source: _Fitted, alphas: Sequence[float]) -> Iterator[Step]:
    """The moves by maps of another family: `perspective`, `shuffled_pairs` and `identity`."""
    to = source.test
    for target in (table.TO_TRUE, table.TO_FALSE):
        y = layer.target(target)
        moved = _displace(source.perspective.map, layer, to, y, alphas)
        norms = displacement_norms(moved)
        shuffled = _displace(source.shuffled.map, layer, to, y, alphas)
        yield from _make_steps(table.PPT, target, alphas, source.name, moved, to)
        yield from _make_steps(table.SHUFFLED_PAIRS, target, alphas, source.name, scale_to_norms(shuffled, norms), to)
        same = (y - layer.false)[to][None]
        most = np.minimum(norms, displacement_norms(same))
        yield from _make_steps(table.IDENTITY, target, alphas, source.name, scale_to_norms(same, most), to)


def _make_steps(
    name: str, target: str, alphas: Sequence[float], fitted: str, moved: Floats, cases: Mask
) -> Iterator[Step]:
    """One step for each alpha from the displacements of some cases [alphas, cases, d]."""
    for alpha, one in zip(alphas, moved, strict=True):
        delta = np.full((cases.size, one.shape[1]), np.nan, dtype=np.float32)
        delta[cases] = one
        yield Step(name, target, float(alpha), fitted, delta)


def _float32(values: Floats) -> Floats32:
    return values.astype(np.float32)
