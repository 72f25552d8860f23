"""Linear maps of activations with whole scenarios held out: low-rank ridge maps, the projection onto their targets,
and linear probes.

Vectors are columns in formulas and rows in arrays: a stack of n states is [n, d]. No array is ever d x d: all comes
from one thin singular value decomposition of the states x and one QR decomposition of the states y, in float64.

The probe is least squares on one column for each label, with a ridge penalty and an intercept; of the labels that a
state is offered, the one whose column is largest is the answer. Its control task (Hewitt and Liang, EMNLP 2019) gives
every state the label of a state of another scenario of its fold: what a probe still gets right is known from how often
each label is right, and not read out of the states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tomserve.errors import ConfigError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Map:
    """W = left diag(gains) right', a map of rank k from states of width d to states of width d."""

    left: Floats  # [d, k], orthonormal columns
    gains: Floats  # [k], the singular values, above zero, the largest first
    right: Floats  # [d, k], orthonormal columns

    @property
    def rank(self) -> int:
        return int(self.gains.size)

    def apply(self, x: Floats) -> Floats:
        """W x of every state [n, d]. x: states [n, d]."""
        return np.asarray((x @ self.right * self.gains) @ self.left.T)

    def displacements(self, x: Floats, target: Floats, alphas: Sequence[float] | Floats) -> Floats:
        """z - x of the state z nearest to x that W takes near the target, for every strength [alphas, n, d].

        z = argmin |W z - target|^2 + a |z - x|^2, which is x + R diag(g / (g^2 + a)) (P' target - g * R' x) with
        W = P diag(g) R' (Aoki and Kawahara 2025, the intervention; the closed form solves its normal equations
        (W'W + a I)(z - x) = W' (target - W x)). A large a leaves x where it is; a = 0 reaches all that W can.

        x, target: [n, d]. alphas: each at least 0.
        """
        inside = self._inside(x, target, alphas)
        rows = inside.reshape(len(alphas) * x.shape[0], self.rank)  # one product is quicker than one a strength
        return np.asarray((rows @ self.right.T).reshape(len(alphas), *x.shape))

    def lengths(self, x: Floats, target: Floats, alphas: Sequence[float] | Floats) -> Floats:
        """The lengths of the displacements [alphas, n]."""
        return np.asarray(np.linalg.norm(self._inside(x, target, alphas), axis=2))

    def _inside(self, x: Floats, target: Floats, alphas: Sequence[float] | Floats) -> Floats:
        """R' (z - x) for every strength [alphas, n, k]."""
        wanted = target @ self.left - (x @ self.right) * self.gains
        factors = self.gains / (self.gains**2 + np.asarray(alphas, dtype=np.float64)[:, None])
        return np.asarray(wanted * factors[:, None, :])


PENALTIES = 31  # how many penalties are tried, in equal ratios
BELOW, ABOVE = 1e-6, 100.0  # from the least squared singular value times BELOW to the greatest times ABOVE,
FLOOR = 1e-12  # and none below this part of the greatest, where it would be lost in rounding


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted map."""

    map: Map  # W
    penalty: float  # the lambda that was chosen
    error: float  # |Y - Y^| / |Y|, each scenario predicted without itself; 1 is no better than a map to zero


class Ridge:
    """The states x of some items, decomposed once for every penalty and every y.

    W minimises |X W' - Y|^2 + lambda |W|^2 over all W, without an intercept (Hoerl and Kennard, Technometrics 12:55,
    1970). With X = U diag(s) V' that is W = Y' U diag(s / (s^2 + lambda)) V'.

    The penalty is the one of a grid with the least error of leaving out one scenario at a time, since the items of a
    scenario tell nearly the same story, so that an item left out alone is predicted from its siblings. With A = I - H,
    where H is the hat matrix X (X'X + lambda I)^-1 X', the residuals of scenario B predicted without B are exactly
    A_BB^-1 (A Y)_B (Cook and Weisberg, "Residuals and Influence in Regression", 1982, section 3.6). A is put together
    from positive terms only (lambda / (s^2 + lambda), and 1 where X has no component), since 1 minus a diagonal of H
    near 1 would have no correct digit.
    """

    def __init__(self, x: Floats, clusters: ArrayLike, *, intercept: bool = False) -> None:
        """Decompose the states x [n, d], of any rank. clusters: the scenario of each item [n]. intercept: whether the
        mean is fitted without a penalty, too, as for probes.

        Raises ValueError for no items, states that are not finite, or clusters of another length.
        """
        x, clusters = np.asarray(x, dtype=np.float64), np.asarray(clusters)
        if x.ndim != 2 or not x.size or clusters.shape != x.shape[:1] or not np.isfinite(x).all():
            raise ValueError(f"a map is fitted on finite states [n, d] of n scenarios: {x.shape}, {clusters.shape}")
        self.centre = x.mean(axis=0) if intercept else np.zeros(x.shape[1])
        left, s, right = np.linalg.svd(x - self.centre, full_matrices=False)
        rank = int((s > s[0] * max(x.shape) * np.finfo(np.float64).eps).sum()) if s[0] > 0 else 0
        self.left, self.s, self.right = left[:, :rank], s[:rank], right[:rank].T
        fixed = np.full((x.shape[0], int(intercept)), x.shape[0] ** -0.5)
        rest = np.empty((x.shape[0], 0))
        if fixed.shape[1] + rank < x.shape[0]:
            rest = np.linalg.qr(np.hstack([fixed, self.left]), mode="complete")[0][:, fixed.shape[1] + rank :]
        self._basis = np.hstack([self.left, rest])  # what A is diagonal in; the intercept's direction has no part in A
        self._blocks = _blocks(clusters)

    def penalties(self) -> Floats:
        """The penalties that are tried [PENALTIES], the smallest first, scaled by the squared singular values of x."""
        if not self.s.size:
            return np.ones(1)
        top, least = float(self.s[0] ** 2), float(self.s[-1] ** 2)
        return np.geomspace(max(least * BELOW, top * FLOOR), top * ABOVE, PENALTIES)

    def errors(self, y: Floats, penalties: ArrayLike) -> Floats:
        """For every penalty |Y - Y^|, each scenario predicted without itself [penalties]. y: [n, e], or anything with
        the same inner products of rows, such as the transpose of R of Y' = Q R."""
        rotated, rank = self._basis.T @ y, self.s.size
        rest = self._basis[:, rank:] @ rotated[rank:]  # what no penalty changes
        found = []
        for penalty in np.asarray(penalties, dtype=np.float64):
            weights = np.ones(self._basis.shape[1])
            weights[:rank] = penalty / (self.s**2 + penalty)
            residuals = self._basis[:, :rank] @ (weights[:rank, None] * rotated[:rank]) + rest
            total = 0.0
            for rows in self._blocks:
                part = self._basis[rows]
                hat = (part * weights) @ part.transpose(0, 2, 1)
                total += float((np.linalg.solve(hat, residuals[rows]) ** 2).sum())
            found.append(np.sqrt(total))
        return np.array(found)

    def choose_penalty(self, y: Floats) -> tuple[float, float]:
        """The penalty with the least error, and that error over |y| (infinite where y is zero). y: as in `errors`."""
        penalties = self.penalties()
        errors = self.errors(y, penalties)
        best, size = int(errors.argmin()), float(np.linalg.norm(y))
        return float(penalties[best]), float(errors[best]) / size if size else float("inf")

    def shrunk(self, penalty: float) -> Floats:
        """s / (s^2 + penalty), what the components of x are multiplied by [rank]."""
        return np.asarray(self.s / (self.s**2 + penalty))

    def fit(self, y: Floats, penalty: float | None = None) -> Fit:
        """The map to y [n, d], with the penalty given, or the one that is chosen. Raises ValueError for another number
        of rows, or states that are not finite."""
        y = np.asarray(y, dtype=np.float64)
        if y.ndim != 2 or y.shape[0] != self.left.shape[0] or not np.isfinite(y).all():
            raise ValueError(f"a map is fitted to finite states [n, d] of the {self.left.shape[0]} items: {y.shape}")
        frame, small = np.linalg.qr(y.T)  # Y = small' frame'; what follows needs only `small`
        if penalty is None:
            penalty, error = self.choose_penalty(small.T)
        else:
            size = float(np.linalg.norm(small))
            error = float(self.errors(small.T, [penalty])[0]) / size if size else float("inf")
        core = (small @ self.left) * self.shrunk(penalty)
        if not core.size:
            return Fit(Map(np.zeros((y.shape[1], 0)), np.zeros(0), np.zeros((self.right.shape[0], 0))), penalty, error)
        p, gains, q = np.linalg.svd(core, full_matrices=False)
        kept = gains > gains[0] * max(core.shape) * np.finfo(np.float64).eps
        return Fit(Map(frame @ p[:, kept], gains[kept], self.right @ q[kept].T), penalty, error)


def _blocks(clusters: NDArray[np.generic]) -> list[NDArray[np.intp]]:
    """The rows of all scenarios that have q items, for every q [scenarios, q]."""
    _, index, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(index, kind="stable"), np.cumsum(sizes)[:-1])
    return [np.stack([one for one in rows if one.size == size]) for size in np.unique(sizes)]


Ints = NDArray[np.int64]

TRIES = 1000  # how often two partners are exchanged at random before a rotation, which always works, is taken instead


def assign_folds(clusters: ArrayLike, k: int = 5, seed: int = 0, families: Sequence[str] | None = None) -> Ints:
    """The fold, from 0 to k - 1, of every item [n]; the items of a scenario are all in the same fold.

    Scenarios are dealt in a random order, the larger ones first, each to the fold that so far has the fewest items of
    its family (that of its first item), and among those the fewest items. So no fold is empty, and each holds about
    the same share of every family. Raises ConfigError where there are fewer scenarios than folds.
    """
    names, first, index = np.unique(np.asarray(clusters), return_index=True, return_inverse=True)
    if len(names) < k:
        raise ConfigError(
            f"the items are about {len(names)} scenario{'s' * (len(names) != 1)}, and {k} folds by scenario need at "
            f"least {k}: give items about more scenarios, or ask for fewer folds"
        )
    of = np.zeros(index.size) if families is None else np.asarray(families)
    _, kinds = np.unique(of, return_inverse=True)
    sizes = np.bincount(index)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]
    held = np.zeros((kinds.max() + 1, k), dtype=np.int64)
    fold = np.empty(len(names), dtype=np.int64)
    for scenario in order:
        family = kinds[first[scenario]]
        chosen = int(np.lexsort((held.sum(axis=0), held[family]))[0])
        held[family, chosen] += sizes[scenario]
        fold[scenario] = chosen
    return np.asarray(fold[index])


def draw_partners(clusters: ArrayLike, rng: np.random.Generator) -> Ints:
    """A random permutation that gives every item another item, which is about another scenario [n].

    Items that got one of their own scenario exchange theirs with others at random; where that does not end, the items
    are put in order of their scenarios and shifted by the size of the largest one. Raises ConfigError where more than
    half of the items are about one scenario, so that there is no such permutation.
    """
    _, index, sizes = np.unique(np.asarray(clusters), return_inverse=True, return_counts=True)
    n = index.size
    if n and 2 * sizes.max() > n:
        raise ConfigError(
            f"{sizes.max()} of {n} items are about one scenario, so that not every item can be paired with one of "
            "another scenario: give items of which at most half are about the same scenario"
        )
    partner = rng.permutation(n)
    for _ in range(TRIES):
        wrong = np.flatnonzero(index[partner] == index)
        if not wrong.size:
            return np.asarray(partner, dtype=np.int64)
        one, other = wrong[0], int(rng.integers(n))
        if index[partner[other]] != index[one] and index[partner[one]] != index[other]:
            partner[[one, other]] = partner[[other, one]]
    order = np.argsort(rng.permutation(sizes.size)[index], kind="stable")
    partner[order] = np.roll(order, int(sizes.max()))
    return np.asarray(partner, dtype=np.int64)


Mask = NDArray[np.bool_]
UNSEEN = -1e300  # the score of a label that no state in training has: below that of any which some state has


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe got right, for every state [m], from a probe that was trained without its fold."""

    right: tuple[bool | None, ...]  # None where a label or that of the control task is none that training knows
    shuffled: tuple[bool | None, ...]  # the same in the control task, None for the same states
    chance: Floats  # the share of these in its fold that is right by how often each label was in training; NaN as above


def probe(
    states: Floats,
    labels: Ints,
    folds: Ints,
    groups: Ints,
    seed: int,
    offered: Mask | None = None,
    ridges: dict[bytes, Ridge] | None = None,
) -> ProbeResult:
    """Probe every state, by its fold's probe.

    The penalty is chosen inside the training folds (see `Ridge`); the probe of the control task chooses its own. States
    are not standardised, and there is no nonlinearity: a probe says what is there for a linear reader.

    states: [m, d]. labels: [m], from 0; a negative one is unknown, and its state takes no part. folds: [m].
    groups: [m], the scenario of each. seed: of the control task, the same for every layer. offered: bool [m,
    labels], which labels each state may be given; None for all. ridges: those of other labels of the same states, by
    the states that they are made of; those that are made here are added. Raises ValueError where a scenario lies in
    two folds, so that nothing is held out, and where a state is not offered its own label.
    """
    known = labels >= 0
    if offered is None:
        offered = np.ones((labels.size, int(labels.max(initial=0)) + 1), dtype=bool)
    if not offered[known, labels[known]].all():
        raise ValueError("a state is not offered its own label: expected it among those that the state may be given")
    for group in np.unique(groups):
        if np.unique(folds[groups == group]).size > 1:
            raise ValueError(f"scenario {group} lies in {np.unique(folds[groups == group]).size} folds: expected 1")
    m, ridges = labels.size, {} if ridges is None else ridges
    right, shuffled = np.full(m, -1), np.full(m, -1)
    chance = np.full(m, np.nan)
    taken = np.arange(m)
    rng = np.random.default_rng(seed)
    for fold in np.unique(folds[known]):
        own = np.flatnonzero(known & (folds == fold))
        taken[own] = own[_draw_permutation(groups[own], rng)]
    for fold in np.unique(folds[known]):
        train, test = known & (folds != fold), known & (folds == fold)
        if np.unique(labels[train]).size < 2 or np.unique(groups[train]).size < 2:
            continue
        if (ridge := ridges.get(train.tobytes())) is None:
            ridge = ridges[train.tobytes()] = Ridge(states[train], groups[train], intercept=True)
        learnt = np.all([np.isin(labels[of][test], labels[of][train]) for of in (np.arange(m), taken)], axis=0)
        for of, found in ((np.arange(m), right), (taken, shuffled)):
            read = _read(ridge, labels[of][train], states[test], offered[of][test])
            found[test] = np.where(learnt, read == labels[of][test], -1)
        often = np.bincount(labels[train], minlength=offered.shape[1])
        if learnt.any():
            guessed = np.where(offered[test], often, -1).argmax(axis=1) == labels[test]
            chance[test] = np.where(learnt, guessed[learnt].mean(), np.nan)
    return ProbeResult(_answers(right), _answers(shuffled), chance)


def _draw_permutation(groups: Ints, rng: np.random.Generator) -> Ints:
    """For each state one of another scenario; any one where a scenario has more than half of them."""
    try:
        return draw_partners(groups, rng)
    except ConfigError:
        return rng.permutation(groups.size)


def _read(ridge: Ridge, labels: Ints, states: Floats, offered: Mask) -> Ints:
    """The labels of states, each of those offered, read by a classifier of those that the ridge was made with."""
    names, code = np.unique(labels, return_inverse=True)
    hot = np.eye(names.size)[code]
    centred = hot - hot.mean(axis=0)
    penalty, _ = ridge.choose_penalty(centred)
    weights = ridge.right @ (ridge.shrunk(penalty)[:, None] * (ridge.left.T @ centred))
    scores = np.full(offered.shape, UNSEEN)
    scores[:, names] = (states - ridge.centre) @ weights + hot.mean(axis=0)
    return np.asarray(np.where(offered, scores, -np.inf).argmax(axis=1), dtype=np.int64)


def _answers(found: NDArray[np.int64]) -> tuple[bool | None, ...]:
    return tuple(None if one < 0 else bool(one) for one in found)
