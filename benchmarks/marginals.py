"""Data-dependent sufficient statistics (DD-SSP): second moments from noisy marginals of categorical attributes.

Ferrando and Sheldon (2025), "Private Regression via Data-Dependent Sufficient Statistic Perturbation", TMLR. A private
mechanism for marginals releases a graphical model of the attributes and the label; the moments X'X and X'y of one-hot
features follow from the model's marginals of pairs, and so does a quadratic approximation of the logistic loss. The
mechanism is AIM (McKenna, Mullins, Sheldon and Miklau, VLDB 2022) for the workload of all pairs; the model is fitted to
what was measured by mirror descent (Private-PGM: McKenna, Sheldon and Miklau, ICML 2019). Neighbours are tables with a
row added or removed, so a table of counts moves by at most 1 in L1 and in L2.

Noise is simulated. `benchmarks.record_rivals` runs it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

Array = NDArray[np.float64]
Clique = tuple[int, ...]

ROUNDS_PER_ATTRIBUTE = 16
"""Rounds for which AIM plans its first noise, by attribute."""

NOISE_SHARE = 0.9
"""Share of the budget of a round for the measurement; the rest is for the choice of what is measured."""

LARGEST_MODEL = 1 << 16
"""Most entries of the model's tables, of which AIM allows the share of the budget that is used."""

STEPS = 100
"""Steps of mirror descent in a round, from the model of the round before."""


def zcdp_budget(epsilon: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (epsilon, delta)-DP (Canonne, Kamath, Steinke 2020)."""

    def log_delta(rho: float) -> float:
        def bound(log_order: float) -> float:
            a = 1 + math.exp(log_order)
            return (a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1)

        return float(minimize_scalar(bound, bounds=(-6, 12), method="bounded").fun)

    return float(brentq(lambda rho: log_delta(rho) - math.log(delta), 1e-8, 2 * epsilon + 1))


# -- the model


@dataclass(frozen=True, eq=False)
class Measurement:
    """The average of noisy tables of one clique, weighted by the inverse of their variances.

    Attributes:
        counts: one axis for each attribute of the table, of length 1 where it is not in the clique.
        precision: inverse of the variance of an entry.
    """

    counts: Array
    precision: float


@dataclass(eq=False)
class Model:
    """A distribution of attributes that is the exponential of a sum of tables, scaled to a number of rows.

    All tables have one axis for each attribute, of length 1 where they do not depend on it.

    Attributes:
        sizes: number of values of each attribute.
        total: number of rows.
        potentials: by clique, its table.
        order: in which the attributes are summed out.
        conditional: by attribute, its distribution given those that are summed out after it and share a table with it.
        belief: by attribute, the joint distribution of the same attributes.
    """

    sizes: tuple[int, ...]
    total: float
    potentials: dict[Clique, Array]
    order: list[int] = field(default_factory=list)
    conditional: dict[int, Array] = field(default_factory=dict)
    belief: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.order, _ = elimination(self.sizes, self.potentials)
        self.update(self.potentials)

    def update(self, potentials: dict[Clique, Array]) -> None:
        """Replace the potentials by others of the same cliques, and compute the distributions."""
        self.potentials, pool, scopes = potentials, list(potentials.values()), dict[int, list[int]]()
        for attribute in self.order:
            uniform = np.zeros([size if axis == attribute else 1 for axis, size in enumerate(self.sizes)])
            table = sum((t for t in pool if t.shape[attribute] > 1), uniform)
            pool = [t for t in pool if t.shape[attribute] == 1]
            largest = table.max(axis=attribute, keepdims=True)
            weights = np.exp(table - largest)
            summed = weights.sum(axis=attribute, keepdims=True)
            pool.append(largest + np.log(summed))
            self.conditional[attribute] = weights / summed
            scopes[attribute] = [axis for axis, size in enumerate(summed.shape) if size > 1]
        for attribute in reversed(self.order):
            parents: Array = np.ones((1,) * len(self.sizes))
            if scopes[attribute]:
                nearest = min(scopes[attribute], key=self.order.index)
                parents = self._summed(self.belief[nearest], scopes[attribute])
            self.belief[attribute] = self.conditional[attribute] * parents

    def _summed(self, table: Array, kept: Iterable[int]) -> Array:
        """Return a table summed over all attributes that are not kept."""
        others = tuple(set(range(len(self.sizes))) - set(kept))
        return np.asarray(table.sum(axis=others, keepdims=True))

    def within(self, clique: Clique) -> Array:
        """Return the expected counts of a clique that a table contains."""
        return self.total * self._summed(self.belief[min(clique, key=self.order.index)], clique)

    def counts(self, clique: Clique) -> Array:
        """Return the expected counts of any clique: sums over what the conditional distributions of it depend on."""
        needed: set[int] = set()
        pending = set(clique)
        while pending:
            needed |= pending
            depends = [np.flatnonzero(np.array(self.conditional[a].shape) > 1).tolist() for a in pending]
            pending = set(itertools.chain(*depends)) - needed
        pool = [self.conditional[attribute] for attribute in needed]
        for attribute in (a for a in self.order if a in needed and a not in clique):
            table = math.prod((t for t in pool if t.shape[attribute] > 1), start=np.ones((1,) * len(self.sizes)))
            pool = [t for t in pool if t.shape[attribute] == 1]
            pool.append(table.sum(axis=attribute, keepdims=True))
        return self.total * np.asarray(math.prod(pool, start=np.ones((1,) * len(self.sizes))))


def elimination(sizes: Sequence[int], cliques: Iterable[Clique]) -> tuple[list[int], int]:
    """Return an order that sums each time the attribute of the smallest table, and the size of all tables."""
    near = [{attribute} for attribute in range(len(sizes))]
    for clique in cliques:
        for attribute in clique:
            near[attribute] |= set(clique)
    order, cells, left = list[int](), 0, set(range(len(sizes)))
    while left:
        size, attribute = min((math.prod(sizes[other] for other in near[a]), a) for a in left)
        cells += size
        left.remove(attribute)
        for other in near[attribute] - {attribute}:
            near[other] = (near[other] | near[attribute]) - {attribute}
        order.append(attribute)
    return order, cells


def fit(model: Model, measured: dict[Clique, Measurement], steps: int = STEPS) -> Model:
    """Fit a model to noisy tables by least squares weighted by precision, by mirror descent with a line search."""
    potentials = {clique: model.potentials.get(clique, np.zeros_like(own.counts)) for clique, own in measured.items()}
    fitted = Model(model.sizes, model.total, potentials)
    rate = 1 / (model.total * max(own.precision for own in measured.values()))

    def error() -> tuple[float, dict[Clique, Array]]:
        gaps = {clique: fitted.within(clique) - own.counts for clique, own in measured.items()}
        loss = sum(own.precision * float((gaps[clique] ** 2).sum()) / 2 for clique, own in measured.items())
        return loss, {clique: own.precision * gaps[clique] for clique, own in measured.items()}

    loss, slope = error()
    for _ in range(steps):
        before = fitted.potentials
        fitted.update({clique: before[clique] - rate * slope[clique] for clique in before})
        new_loss, new_slope = error()
        if new_loss < loss:
            loss, slope, rate = new_loss, new_slope, 1.5 * rate
        else:
            rate /= 3
            fitted.update(before)
    return fitted


# -- the mechanism


def table_of(rows: NDArray[np.int64], sizes: Sequence[int], clique: Clique) -> Array:
    """Return the counts of a clique in rows (n, attributes)."""
    shape = [sizes[attribute] for attribute in clique]
    place = np.ravel_multi_index([rows[:, attribute] for attribute in clique], shape)
    counts = np.bincount(place, minlength=math.prod(shape)).astype(np.float64)
    return counts.reshape([size if axis in clique else 1 for axis, size in enumerate(sizes)])


def aim(rows: NDArray[np.int64], sizes: tuple[int, ...], rho: float, generator: np.random.Generator) -> Model:
    """Release a model of all pairs of attributes with rho-zCDP, where a row is added or removed.

    Args:
        rows: values of the attributes, (n, attributes).
        sizes: number of values of each attribute.
    """
    numbers = range(len(sizes))
    cliques: list[Clique] = [(a,) for a in numbers] + list(itertools.combinations(numbers, 2))
    truth = {clique: table_of(rows, sizes, clique) for clique in cliques}
    # What a clique tells about the workload: for each pair, how many of its attributes the clique has.
    weight = {clique: len(clique) * (len(sizes) - 1) for clique in cliques}
    measured: dict[Clique, Measurement] = {}

    def measure(clique: Clique, sigma: float) -> None:
        noisy = truth[clique] + generator.normal(0, sigma, size=truth[clique].shape)
        old, precision = measured.get(clique, Measurement(noisy, 0.0)), sigma**-2
        both = old.precision + precision
        measured[clique] = Measurement((old.precision * old.counts + precision * noisy) / both, both)

    rounds = ROUNDS_PER_ATTRIBUTE * len(sizes)
    sigma, epsilon = round_noise(rho / rounds)
    used = 0.0
    for attribute in numbers:
        measure((attribute,), sigma)
        used += 1 / (2 * sigma**2)
    model = fit(Model(sizes, total_of(measured), {}), measured)
    last = False
    while not last:
        if rho - used < 2 * (1 / (2 * sigma**2) + epsilon**2 / 8):
            (sigma, epsilon), last = round_noise(rho - used), True
        used += 1 / (2 * sigma**2) + epsilon**2 / 8
        most = LARGEST_MODEL * used / rho
        small = [c for c in cliques if c in measured or elimination(sizes, [*measured, c])[1] <= most]
        expected = {clique: model.counts(clique) for clique in small}
        noise = math.sqrt(2 / math.pi) * sigma
        gain = [weight[c] * (np.abs(truth[c] - expected[c]).sum() - noise * truth[c].size) for c in small]
        scores = np.array(gain) * epsilon / (2 * max(weight.values()))
        chosen = small[int(np.argmax(scores + generator.gumbel(size=len(small))))]
        measure(chosen, sigma)
        model = fit(model, measured)
        if np.abs(model.within(chosen) - expected[chosen]).sum() <= noise * truth[chosen].size:
            sigma, epsilon = sigma / 2, 2 * epsilon
    return fit(model, measured, 5 * STEPS)


def round_noise(rho: float) -> tuple[float, float]:
    """Return the noise of a measurement, and the epsilon of the exponential mechanism, of a round with rho-zCDP."""
    return math.sqrt(1 / (2 * NOISE_SHARE * rho)), math.sqrt(8 * (1 - NOISE_SHARE) * rho)


def total_of(measured: dict[Clique, Measurement]) -> float:
    """Return the number of rows that tables of one attribute tell, weighted by the inverse of their variances."""
    weights = [own.precision / own.counts.size for own in measured.values()]
    return float(np.average([own.counts.sum() for own in measured.values()], weights=weights))


# -- what a model tells about features


def values_of(X: Array, widths: Sequence[int]) -> NDArray[np.int64]:
    """Return the values of attributes, (n, attributes), from features that are 1 where an attribute has their value.

    Args:
        X: zeros and ones, (n, sum of the widths), at most a single one in the columns of an attribute.
        widths: number of columns of each attribute; this number itself stands for a missing value.
    """
    columns = np.split(X, np.cumsum(widths)[:-1], axis=1)
    pairs = zip(columns, widths, strict=True)
    return np.column_stack([np.where(own.any(axis=1), own.argmax(axis=1), width) for own, width in pairs])


def moments(model: Model, widths: Sequence[int]) -> tuple[Array, Array]:
    """Return X'X (d + 1, d + 1) and X'y (d + 1,) of features as in `values_of`, a constant, and labels -1 and 1.

    Args:
        model: of the attributes, where a last value means that it is missing, and of a label of two values.
        widths: number of columns of each attribute, without the label.
    """
    width, starts = sum(widths) + 1, np.concatenate([[0], np.cumsum(widths)])
    encodings = [np.eye(own + 1, width, k=start) for own, start in zip(widths, starts[:-1], strict=True)]
    for encoding in encodings:
        encoding[-1] = 0.0
    encodings[0][:, -1] = 1.0
    second, label = np.zeros((width, width)), len(widths)
    first = np.zeros(width)
    for i, own in enumerate(encodings):
        first += own.T @ model.counts((i, label)).reshape(len(own), 2) @ [-1.0, 1.0]
        second += own.T @ (model.counts((i,)).reshape(-1, 1) * own)
        for j, other in enumerate(encodings[:i]):
            cross = other.T @ model.counts((j, i)).reshape(len(other), len(own)) @ own
            second += cross + cross.T
    return second, first
