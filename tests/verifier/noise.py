"""The noise of a sum, and what the plans of all sums share: sections 8 and 8.1 to 8.3 of docs/wire.md."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from tests.verifier.board import Array, Released, Study, doubles, facts, require, sha256
from tests.verifier.public import Public, squares

# -- how large an entry of a share is, and how long a share


def rounded_up(value: float) -> float:
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, 30)), exponent - 30)


def gaussian_length(dimension: int, variance: float, shares: int) -> int:
    """What no share of discrete Gaussian noise is longer than."""
    tail = math.log(shares) - math.log(2.0**-162)
    square = dimension + 2 * math.sqrt(dimension * tail) + 2 * tail
    return math.ceil(rounded_up(math.sqrt(variance * square) * (1 + 1e-9)))


def _laplace_length(dimension: int, scale: float, shares: int, contributors: int) -> int:
    shape, least = 2 * dimension / contributors, math.inf
    for u in [2.0**-i for i in range(1, 40)] + [1 - 2.0**-i for i in range(2, 12)]:
        ratio = math.log(math.expm1(-1 / scale) / math.expm1(-u / scale))
        least = min(least, (math.log(shares) - math.log(2.0**-162) + shape * ratio) * scale / (1 - u))
    return math.ceil(rounded_up(least * (1 + 1e-9)))


def _gaussian_delta(sigma: float, epsilon: float) -> float:
    """The delta of Gaussian noise for sensitivity 1, rounded up."""
    with gmpy2.context(gmpy2.get_context(), precision=128):
        ratio = 1 / gmpy2.mpfr(sigma)
        root = gmpy2.sqrt(gmpy2.mpfr(2))
        above = gmpy2.erfc((epsilon / ratio - ratio / 2) / root)
        below = gmpy2.exp(gmpy2.mpfr(epsilon)) * gmpy2.erfc((epsilon / ratio + ratio / 2) / root)
        return math.nextafter(float((above - below) / 2), 1.0)


@lru_cache(maxsize=256)
def _unit_sigma(epsilon: float, delta: float) -> float:
    low = high = 2.0**-10
    while _gaussian_delta(high, epsilon) > delta:
        low, high = high, 2 * high
    low = 0.0 if low == high else low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _gaussian_delta(middle, epsilon) <= delta else (middle, high)
    return high


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    return math.nextafter(sensitivity * _unit_sigma(epsilon, delta) * (1 + 2.0**-50), math.inf)


def gaussian_variance(l2: float, epsilon: float, delta: float, releases: int = 1) -> Fraction:
    """The variance of discrete Gaussian noise, in units of the sum."""
    sigma = gaussian_sigma(l2 * math.sqrt(releases) * (1 + 2.0**-48), epsilon, delta)
    return Fraction(math.ceil(Fraction(sigma) ** 2) + 9)


# -- matrices


def matrix(study: Study, name: str) -> Array:
    """The matrix that a parameter of a study contains, (d, r)."""
    numbers = np.frombuffer(base64.b64decode(study.parameters[name], validate=True), "<f4").astype(np.float64)
    features = len(study.features)
    require(numbers.size and numbers.size % features == 0 and np.isfinite(numbers).all(), f"{name} is no matrix")
    return numbers.reshape(features, -1)


def in_order(rows: Array, weights: Array) -> Array:
    """Rows (n, d) times weights (d, r): for each entry the products are added in the order of the features."""
    total = np.zeros((len(rows), weights.shape[1]))
    for column, row in zip(rows.T, weights, strict=True):
        total = total + np.outer(column, row)
    return total


def unit_rows(samples: Array) -> Array:
    """Rows divided by their largest magnitude and then by their length."""
    largest = np.abs(samples).max(axis=1)[:, None]
    rows = samples / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt(squares(rows))[:, None]
    return rows / np.where(lengths > 0, lengths, 1.0)


def shrinkage(X: Array) -> float:
    """The shrinkage of Ledoit and Wolf for the second moment of rows X (n, p), which are taken to be centred."""
    n, p = X.shape
    if p == 1:
        return 0.0
    squared = X * X
    trace = float(squared.sum()) / n
    mean = trace / p
    moment = float(((X.T @ X) ** 2).sum()) / n**2
    beta = (float((squared.T @ squared).sum()) / n - moment) / (p * n)
    delta = (moment - 2 * mean * trace + p * mean**2) / p
    beta = min(beta, delta)
    return beta / delta if beta else 0.0


def helmert(classes: int) -> Array:
    basis = np.zeros((classes - 1, classes))
    for j in range(1, classes):
        length = math.sqrt(j * (j + 1))
        basis[j - 1, :j] = -1 / length
        basis[j - 1, j] = j / length
    return basis


def _gamma(terms: int) -> float:
    return terms * 2.0**-53 / (1.0 - terms * 2.0**-53)


def operator_norm(x: Array) -> float:
    """An upper bound of the largest singular value, as every member computes it."""
    if x.shape[0] < x.shape[1]:
        x = x.T
    samples, width = x.shape
    exponent = max(-500, math.frexp(float(np.abs(x).max()))[1])
    x = x * 2.0**-exponent
    slack = _gamma(samples + 2) * float(np.einsum("ij,ij->", x, x)) * (1 + 2 * _gamma(x.size + 2)) + 1e-290
    gram = x.T @ x
    top = float(np.linalg.eigvalsh(gram)[-1]) * (1 + 2.0**-40) + 1e-290
    while True:
        shifted = top * np.eye(width) - gram
        try:
            np.linalg.cholesky(shifted)
            break
        except np.linalg.LinAlgError:
            top *= 1 + 2.0**-32
    trace = float(np.abs(np.diag(shifted)).sum()) * (1 + _gamma(width + 2))
    slack += 2 * _gamma(width + 3) * trace + 2.0**-51 * top
    return math.ldexp(math.sqrt(top + slack) * (1 + 2.0**-50), exponent)


# -- plans


def bounds_of(study: Study, positive: str) -> tuple[list[float], float, float]:
    """The bounds of a numeric label, their middle, and a positive parameter."""
    names = ("low", "high", positive)
    require(set(names) <= study.parameters.keys(), "a bound is missing")
    low, high, other = (float(study.parameters[name]) for name in names)
    require(all(map(math.isfinite, (low, high, high - low, other))), "a bound is not finite")
    require(low < high and other > 0, "a bound is out of range")
    return [low, high], low + (high - low) / 2, other


class Plan(Released):
    """The public plan of one sum: the vectors, their noise, what a model states of it, and the classifier."""

    kind, group = "statistic", 1
    unit = "party"
    noisy = True
    by_holders = False
    ball, slack = 0, 2.0**-50
    """The largest length of a party's vector without noise, where it is agreed on, and a margin of its L1."""
    length: int
    range: tuple[int, int]
    """The least and the largest entry of a party's vector without noise."""

    def __init__(self, study: Study, public: Public) -> None:
        self.study, self.given, self.public, self.samples = study, study.parameters, public, public.samples
        self.classes, self.parties = len(study.classes), len(study.roster)
        self.colluders = int(self.given.get("colluders", max(0, study.threshold - 1)))
        self.laplace = study.delta == 0

    def given_to_holders(self) -> bool:
        """Whether the study says that the key holders add the noise."""
        source = self.given.get("noise_from", "parties")
        require(source in ("parties", "holders"), "nobody else adds noise")
        return bool(source == "holders")

    @property
    def context(self) -> bytes:
        """The digest of what the vectors mean."""
        raise NotImplementedError

    @property
    def norm(self) -> str:
        return "l1" if self.laplace else "l2"

    @cached_property
    def divided(self) -> Array:
        """The public rows divided by their last entry."""
        return self.samples / self.samples[:, -1:]

    @cached_property
    def sensitivities(self) -> tuple[float, float]:
        """In L1 and L2, in units of the sum; here those of vectors in a ball."""
        across = 1.0 if self.laplace else math.sqrt(self.length) * (1 + self.slack)
        return rounded_up(2.0 * self.ball * across), rounded_up(2.0 * self.ball)

    @property
    def adders(self) -> int:
        """How many shares of noise there are at most."""
        return self.study.holders if self.by_holders else self.parties

    @property
    def contributors(self) -> int:
        study = self.study
        if self.by_holders:
            least = (study.holders + study.threshold - 1) // 2 + 1
            require(study.holders >= 2 and self.colluders < study.holders, "no holder's noise is left")
            require(study.confirmations >= least, "too few holders confirm what they open")
            return study.holders - max(1, self.colluders)
        dropouts = int(self.given.get("dropouts", 0))
        require(self.colluders >= 0 and dropouts >= 0, "there is a negative number of parties")
        require(study.minimum >= self.parties - dropouts, "a sum may lack more parties than the noise allows")
        left = self.parties - self.colluders - dropouts - 1
        require(left >= 1, "nobody's noise is left")
        return left

    @property
    def laplace_scale(self) -> Fraction:
        return Fraction(math.ceil(Fraction(self.sensitivities[0]) / Fraction(self.study.epsilon) * 2**20), 2**20)

    @property
    def variance(self) -> Fraction:
        """Of one entry of the noise of all contributors, in units of the sum."""
        if self.laplace:
            return 2 * self.laplace_scale**2
        return gaussian_variance(self.sensitivities[1], self.study.epsilon, self.study.delta)

    @cached_property
    def share(self) -> tuple[int, int]:
        """The largest entry and the largest length of one share of the noise."""
        shares, contributors = self.adders, self.contributors
        tail = math.log(2 * shares * self.length) - math.log(2.0**-161)
        if self.laplace:
            bound = math.ceil(Fraction(tail * (1 + 1e-9)) * self.laplace_scale)
            longest = _laplace_length(self.length, float(self.laplace_scale), shares, contributors)
        else:
            variance = float(self.variance / contributors)
            require(variance >= 18, "the noise is too small for its grid")
            bound = math.ceil(math.sqrt(2 * variance * tail) * (1 + 1e-9))
            longest = gaussian_length(self.length, variance, shares)
        return bound, min(longest, 1 + math.isqrt(self.length * bound**2))

    @property
    def own_share(self) -> tuple[int, int]:
        """What of it a party adds to its vector."""
        return self.share if self.noisy and not self.by_holders else (0, 0)

    @property
    def entries(self) -> tuple[int, int]:
        low, high = self.range
        return low - self.own_share[0], high + self.own_share[0]

    @property
    def squares(self) -> int | None:
        """The largest sum of squares of a party's vector, where it is less than its range allows."""
        if not self.ball:
            return None
        return min(self.length * max(self.entries) ** 2, (self.ball + self.own_share[1]) ** 2)

    def value(self, ballots: int) -> float:
        """What one unit of the sum is worth in the stated sensitivity."""
        raise NotImplementedError

    @property
    def about(self) -> dict[str, Any]:
        """What a model states of the vector."""
        raise NotImplementedError

    def facts(self, ballots: int) -> dict[str, Any]:
        """What a model states of a release of so many ballots besides epsilon and delta."""
        if not self.noisy:
            return {"unit": "party", "said": "", "signal": None}
        law = f"discrete {'Laplace' if self.laplace else 'Gaussian'} in shares"
        law += " of the key holders" if self.by_holders else ""
        sensitivity = self.sensitivities[0 if self.laplace else 1] * self.value(ballots)
        return facts(law, self.unit, sensitivity, self.norm, **self.about, colluders=self.colluders)

    def classifier(self, sums: Sequence[int], ballots: int) -> Array | None:
        """The classifier of scaled rows that follows from a sum, where one does."""
        return None


class Statistic(Plan):
    """A statistic of two classes, and an average of directions."""

    def __init__(self, study: Study, public: Public) -> None:
        super().__init__(study, public)
        self.transform = matrix(study, "coordinates")
        self.rank = int(self.transform.shape[1])
        self.length = (self.classes - 1) * self.rank
        self.of_votes = study.method == "statistic"
        self.ball = 0 if self.of_votes else 2**24
        self.range = self._range_of_votes() if self.of_votes else (-self.ball, self.ball)
        self.by_holders = self.given_to_holders()
        if study.protocol == "average":
            self.kind, self.noisy, self.laplace = "parameters", False, False

    @cached_property
    def contrast(self) -> NDArray[np.int64]:
        return np.rint(helmert(self.classes) * 65536).astype(np.int64)

    @cached_property
    def _coordinates(self) -> Array:
        """The coordinates of the public samples, (N, r)."""
        return in_order(unit_rows(self.samples), self.transform)

    @cached_property
    def _points(self) -> tuple[NDArray[np.int64], float]:
        """The points of votes, and their pitch."""
        Z = self._coordinates
        pitch = math.ldexp(1.0, min(0, math.frexp(float(np.abs(Z).max()))[1]) - 24)
        return np.floor(Z / pitch + 0.5).astype(np.int64), pitch

    @cached_property
    def context(self) -> bytes:
        if self.study.method == "vote-directions":
            head = repr((self._coordinates.shape, self.classes, self.norm, 24)).encode()
            return sha256(b"psephos vote directions\0", head, doubles(self._coordinates))
        if not self.of_votes:
            norm = ("l1",) if self.laplace else ()
            head = repr((self.transform.shape, self.classes, self.study.method, 24, *norm)).encode()
            return sha256(b"psephos own data\0", head, doubles(self.transform))
        points, _ = self._points
        shapes = (points.shape, self.contrast.shape)
        body = points.astype("<i8").tobytes() + self.contrast.astype("<i8").tobytes()
        return sha256(b"psephos statistic grid\0", repr(shapes).encode(), body)

    def _range_of_votes(self) -> tuple[int, int]:
        points, _ = self._points
        low, high = [0], [0]
        negative, positive = np.minimum(points, 0).sum(axis=0), np.maximum(points, 0).sum(axis=0)
        for row in self.contrast:
            least, most = int(row.min()), int(row.max())
            low += [least * int(p) + most * int(n) for p, n in zip(positive, negative, strict=True)]
            high += [most * int(p) + least * int(n) for p, n in zip(positive, negative, strict=True)]
        return min(low), max(high)

    @cached_property
    def sensitivities(self) -> tuple[float, float]:
        if not self.of_votes:
            return super().sensitivities
        points, _ = self._points
        pairs = [self.contrast[:, a] - self.contrast[:, b] for a in range(self.classes) for b in range(a)]
        longest = math.sqrt(max(sum(int(v) ** 2 for v in step) for step in pairs)) * (1 + 2.0**-50)
        widest = max(sum(abs(int(v)) for v in step) for step in pairs)
        norm = operator_norm(points.astype(np.float64))
        l2 = longest * math.sqrt(len(points)) * norm * (1 + 2.0**-44)
        direct = widest * int(np.abs(points).sum())
        l1 = min(float(direct) * (1 + 2.0**-50), math.sqrt(self.length) * l2 * (1 + 2.0**-50))
        return rounded_up(l1), rounded_up(min(l1, l2))

    @property
    def per_party(self) -> float:
        """The value of one unit of the sum, divided by the parties."""
        if not self.of_votes:
            return 1 / (2**24 * self.parties)
        points, pitch = self._points
        return pitch / (2.0**16 * len(points) * self.parties)

    def value(self, ballots: int) -> float:
        return self.per_party * self.parties / ballots

    @property
    def about(self) -> dict[str, Any]:
        return {"rank": self.rank}

    def energy(self, ballots: int) -> float:
        """The expected squared length of the noise in T, of all shares."""
        (l1, l2), study = self.sensitivities, self.study
        if study.delta:
            each = gaussian_sigma(l2 * self.per_party, study.epsilon, study.delta) ** 2
        else:
            each = 2 * (l1 * self.per_party / study.epsilon) ** 2
        share = self.parties / ballots
        energy = self.length * each * self.adders / self.contributors * share
        return energy * (share if self.by_holders else 1.0)

    def means(self, sums: Sequence[int], ballots: int) -> Array:
        """T of a sum, (K, r)."""
        contrasts = np.array([float(v) for v in sums]).reshape(self.classes - 1, self.rank)
        return helmert(self.classes).T @ contrasts * (self.per_party * self.parties / ballots)

    def filtered(self, T: Array, noise: float) -> Array:
        """The classifiers of T behind Wiener's filter, (K, d)."""
        energy = float(np.sum(T**2))
        signal = 1 / np.arange(1, self.rank + 1)
        signal *= max(energy - noise, 0.05 * energy) / signal.sum()
        return T * (signal / (signal + noise / self.rank) if energy > 0 else 1.0) @ self.transform.T

    def classifier(self, sums: Sequence[int], ballots: int) -> Array | None:
        if not self.noisy:
            return None
        W = self.filtered(self.means(sums, ballots), self.energy(ballots))
        return W[1] - W[0]
