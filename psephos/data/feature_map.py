"""Public feature maps: more columns, computed from the encoded columns of a row, for a model that is linear in them.

A map is a function of public rows, and is applied to one row at a time before anything is scaled: privacy is what it is
without a map. It is plain JSON, checked when it is read.

A row is standardised, clipped to `CLIP` standard deviations and rounded to multiples of 1 / `UNIT`. What follows are
comparisons, sums and products of integers below 2^53, which no order of summation changes, and elementwise operations
of IEEE 754. A mapped row therefore has the same bits in a batch of any size and on every machine.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import reduce
from itertools import combinations_with_replacement
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

UNIT = 1 << 12
"""Columns are rounded to multiples of 1 / UNIT of a standard deviation, and shares in leaves to those of 1 / UNIT."""
CLIP = 4
"""Columns are clipped to so many standard deviations from their mean."""
MOST_NUMBERS = 1 << 21
"""The largest number of integers in a map, about 20 MB of JSON."""
MOST_COLUMNS = 10_000
"""The largest number of columns that a map adds."""
MOST_TREES = 200
"""The largest number of trees of a forest."""
MOST_GROWN = 5000
"""The largest number of labelled public rows that a forest is grown on."""
MOST_LEVELS = 32
"""The largest number of comparisons from the root of a tree to a leaf."""
LARGEST_LOG_ODDS = 5.0
"""The log odds of a forest are clipped to this magnitude."""
SMOOTHING = 300
"""1 / SMOOTHING is added to the trees' mean for a class and to that against it, before log odds are taken."""

_MOST_WEIGHT = (
    1 << 38
)  # the largest sum of a direction's magnitudes: times 2^14, the largest entry of a row, below 2^53
_BLOCK = 4096  # most rows that are mapped at a time
_BLOCK_NUMBERS = 1 << 22  # most features of these rows

Finite = Annotated[float, Meta(ge=-1e101, le=1e101)]  # numbers of a table are at most 1e100
Spread = Annotated[float, Meta(ge=1e-100, le=1e101)]
Entry = Annotated[int, Meta(ge=-CLIP * UNIT, le=CLIP * UNIT)]
Row = Annotated[tuple[Entry, ...], Meta(min_length=1)]
Weights = Annotated[tuple[Annotated[int, Meta(ge=-(1 << 30), le=1 << 30)], ...], Meta(min_length=1)]
Share = Annotated[int, Meta(ge=0, le=UNIT)]


class Tree(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A binary tree, which any valid sequence of nodes is: no node names another one.

    Attributes:
        columns: the nodes, each before its left and then its right subtree: the column that a node compares, -1 for a
            leaf. A row with an entry of at most the threshold goes left.
        thresholds: of the nodes that compare, in order.
        values: of the leaves, in order: `Forest.width` values each, in multiples of 1 / `UNIT`.
    """

    columns: Annotated[tuple[Annotated[int, Meta(ge=-1)], ...], Meta(min_length=1)]
    thresholds: tuple[Entry, ...]
    values: Annotated[tuple[Share, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        levels = [0]  # of the subtrees that are still to come
        for column in self.columns:
            if not levels:
                raise ValueError("a tree has nodes behind its last leaf")
            if (level := levels.pop()) > MOST_LEVELS:
                raise ValueError(f"a tree compares more than {MOST_LEVELS} times")
            if column >= 0:
                levels += [level + 1, level + 1]
        if levels:
            raise ValueError("a tree ends before its last leaf")
        if len(self.thresholds) != len(self.columns) // 2:
            raise ValueError("a tree has one threshold for each node that is no leaf")

    def arrays(self, width: int) -> tuple[Integers, Integers, Integers, Integers]:
        """Return the columns (0 for a leaf), thresholds and right children (left is the next node; a leaf is its own)
        of all nodes, (m,), and the values of the leaves, (m, width), 0 elsewhere.
        """
        columns, places = np.array(self.columns), np.arange(len(self.columns))
        leaf = columns < 0
        thresholds, values = np.full(len(columns), CLIP * UNIT), np.zeros((len(columns), width), dtype=np.int64)
        thresholds[~leaf], values[leaf] = self.thresholds, np.reshape(self.values, (-1, width))
        right, waiting = places.copy(), []
        for place in range(len(columns) - 1):
            if not leaf[place]:
                waiting.append(place)
            else:  # the next node is the right child of the last one that has none
                right[waiting.pop()] = place + 1
        return np.where(leaf, 0, columns), thresholds, right, values

    def leaves(self, rows: Integers, width: int) -> Integers:
        """Return the values of the leaves that rows (n, d) fall into, int64 (n, width)."""
        columns, thresholds, right, values = self.arrays(width)
        left = np.where(right == np.arange(len(right)), right, np.arange(len(right)) + 1)
        at, each = np.zeros(len(rows), dtype=np.intp), np.arange(len(rows))
        while True:
            below = rows[each, columns[at]] <= thresholds[at]
            following = np.where(below, left[at], right[at])
            if (following == at).all():
                return values[at]
            at = following


class Forest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="forest"):
    """Classification trees. A leaf has the share of each class; of two classes that of the second alone.

    Attributes:
        gives: "log-odds": one column for each value of a leaf, the log odds of the trees' mean, clipped; "trees": the
            values of every tree.
        width: the number of values of a leaf.
        drawn: for each tree the rows that it was grown on, a hexadecimal number whose bit k stands for row k of the
            `grown_rows`; () where this is not known.
    """

    gives: Literal["log-odds", "trees"]
    width: Annotated[int, Meta(ge=1)]
    trees: Annotated[tuple[Tree, ...], Meta(min_length=1, max_length=MOST_TREES)]
    drawn: tuple[Annotated[str, Meta(pattern=r"^[0-9a-f]+\Z", max_length=MOST_GROWN // 4)], ...] = ()

    def __post_init__(self) -> None:
        if any(len(tree.values) != (len(tree.columns) // 2 + 1) * self.width for tree in self.trees):
            raise ValueError(f"a leaf has {self.width} values")
        if len(self.drawn) not in (0, len(self.trees)):
            raise ValueError("the rows that a forest was grown on are stated for every tree, or for none")

    @property
    def numbers(self) -> int:
        return sum(len(tree.columns) + len(tree.thresholds) + len(tree.values) for tree in self.trees)

    @property
    def features(self) -> list[str]:
        columns = [str(k + 1) for k in range(self.width)]
        if self.gives == "log-odds":
            return [f"(forest {column})" for column in columns]
        return [f"(tree {number} {column})" for number in range(1, len(self.trees) + 1) for column in columns]

    def fits(self, inputs: int) -> bool:
        return all(column < inputs for tree in self.trees for column in tree.columns)

    def apply(self, rows: Integers) -> Array:
        leaves = (tree.leaves(rows, self.width) for tree in self.trees)
        if self.gives == "trees":
            return np.concatenate(list(leaves), axis=1) / UNIT
        votes = reduce(np.add, leaves)
        return _log_odds(votes, np.full((len(rows), 1), len(self.trees)))

    def unseen(self, rows: Integers) -> Array:
        """Return the columns of the rows that it was grown on, (n, e), which no row's own label reaches: trees that
        drew a row count as the mean of those that did not; if all did, they count as undecided.
        """
        if not self.drawn:
            return self.apply(rows)
        without = np.stack([_bits(drawn, len(rows)) for drawn in self.drawn], axis=1) == 0
        # One tree at a time: the leaves of all trees would be up to 200 times as large as the columns.
        votes = reduce(np.add, (tree.leaves(rows, self.width) * without[:, [k]] for k, tree in enumerate(self.trees)))
        counts = without.sum(axis=1)[:, None]
        never = counts[:, 0] == 0
        votes[never], counts[never] = UNIT // (2 if self.width == 1 else self.width), 1
        if self.gives == "log-odds":
            return _log_odds(votes, counts)
        mean = votes / counts / UNIT
        shares = [
            np.where(without[:, [k]], tree.leaves(rows, self.width) / UNIT, mean) for k, tree in enumerate(self.trees)
        ]
        return np.concatenate(shares, axis=1)


def grown_rows(known: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the labelled public rows that a forest is grown on, of all of them: evenly spaced ones of many."""
    count = min(len(known), MOST_GROWN)
    return known[np.arange(count) * len(known) // max(1, count)]


def _bits(number: str, count: int) -> Integers:
    """Return the bits of a hexadecimal number, the lowest first, (count,)."""
    if (bits := int(number, 16)) >> count:
        raise ValueError(f"a forest was grown on more than the {count} labelled public rows")
    digits = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.unpackbits(digits, bitorder="little")[:count].astype(np.int64)


def _log_odds(votes: Integers, trees: Integers) -> Array:
    """Return the clipped log odds of the mean value of trees: of sums of values (n, k), over (n, 1) trees each."""
    votes, total = votes * SMOOTHING, trees * UNIT
    odds = (votes + total) / (total * SMOOTHING - votes + total)
    return np.clip(_log(odds), -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)


class Landmarks(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="landmarks"):
    """Gaussian kernels exp(-`rate` |z - p|^2) at points p, in units of a standard deviation (Nystroem)."""

    points: Annotated[tuple[Row, ...], Meta(min_length=1, max_length=1000)]
    rate: Annotated[float, Meta(ge=1e-30, le=1e30)]

    @property
    def numbers(self) -> int:
        return sum(map(len, self.points))

    @property
    def features(self) -> list[str]:
        return [f"(landmark {number})" for number in range(1, len(self.points) + 1)]

    def fits(self, inputs: int) -> bool:
        return all(len(point) == inputs for point in self.points)

    def apply(self, rows: Integers) -> Array:
        points = np.array(self.points)
        distances = (rows**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * _product(rows, points)
        return _exp(-self.rate * (distances / UNIT**2))


class Products(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="products"):
    """Squares and products of pairs of components, each a weighted sum of the columns, clipped to `CLIP`; the weights
    are in multiples of 1 / `UNIT`.
    """

    directions: Annotated[tuple[Weights, ...], Meta(min_length=1, max_length=100)]

    @property
    def numbers(self) -> int:
        return sum(map(len, self.directions))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations_with_replacement(range(len(self.directions)), 2))

    @property
    def features(self) -> list[str]:
        return [f"(product {first + 1} {second + 1})" for first, second in self.pairs]

    def fits(self, inputs: int) -> bool:
        return _directions_fit(self.directions, inputs)

    def apply(self, rows: Integers) -> Array:
        components = np.clip(_product(rows, np.array(self.directions)) / UNIT**2, -CLIP, CLIP)
        first, second = np.transpose(self.pairs)
        products: Array = components[:, first] * components[:, second]
        return products


class Fourier(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="fourier"):
    """Random Fourier features cos(2 pi (w z + b)) (Rahimi and Recht 2007), of the kernel of `Landmarks`.

    `directions` are the w in multiples of 1 / `UNIT`, `phases` the b in multiples of 1 / `UNIT`^2.
    """

    directions: Annotated[tuple[Weights, ...], Meta(min_length=1, max_length=1000)]
    phases: tuple[Annotated[int, Meta(ge=0, lt=UNIT**2)], ...]

    def __post_init__(self) -> None:
        if len(self.phases) != len(self.directions):
            raise ValueError("every direction has a phase")

    @property
    def numbers(self) -> int:
        return sum(map(len, self.directions))

    @property
    def features(self) -> list[str]:
        return [f"(wave {number})" for number in range(1, len(self.directions) + 1)]

    def fits(self, inputs: int) -> bool:
        return _directions_fit(self.directions, inputs)

    def apply(self, rows: Integers) -> Array:
        turns = _product(rows, np.array(self.directions)) + np.array(self.phases)
        return _cosine(turns % UNIT**2 / UNIT**2)


Block: TypeAlias = Forest | Landmarks | Products | Fourier


class FeatureMap(Struct, frozen=True, forbid_unknown_fields=True):
    """A map of rows with d encoded columns to rows of d + e: the standardised columns, and those of all blocks.

    `means` and `deviations` are those of the columns, (d,); the latter 1 for a constant column.
    """

    means: Annotated[tuple[Finite, ...], Meta(min_length=1)]
    deviations: tuple[Spread, ...]
    blocks: Annotated[tuple[Block, ...], Meta(min_length=1, max_length=4)]

    def __post_init__(self) -> None:
        if len(self.deviations) != len(self.means):
            raise ValueError("every column has a mean and a deviation")
        if sum(block.numbers for block in self.blocks) > MOST_NUMBERS:
            raise ValueError(f"a map has more than {MOST_NUMBERS:,} integers")
        if not all(block.fits(len(self.means)) for block in self.blocks):
            raise ValueError(f"a block is not one of {len(self.means)} columns")
        if len(names := self.features) > MOST_COLUMNS or len(set(names)) < len(names):
            raise ValueError(f"a map adds at most {MOST_COLUMNS:,} columns, by blocks of different kinds")

    @property
    def features(self) -> list[str]:
        """Names of the columns that are added."""
        return [name for block in self.blocks for name in block.features]

    @property
    def log_odds(self) -> tuple[int, ...]:
        """Places among all d + e columns of those with the log odds of a forest; () without one."""
        forests = [block for block in self.blocks if isinstance(block, Forest) and block.gives == "log-odds"]
        names = [name for block in forests for name in block.features]
        return tuple(len(self.means) + self.features.index(name) for name in names)

    @property
    def grown(self) -> bool:
        """Whether there are trees, grown on labelled public rows."""
        return any(isinstance(block, Forest) for block in self.blocks)

    @property
    def encoded(self) -> bytes:
        """The map as JSON."""
        return msgspec.json.encode(self)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the map, 32 bytes."""
        return hashlib.sha256(b"psephos feature map\0" + self.encoded).digest()

    @property
    def summary(self) -> str:
        """Describe the map in half a sentence."""
        words = []
        for block in self.blocks:
            match block:
                case Forest(gives="log-odds"):
                    words.append(f"the log odds of a forest of {len(block.trees)} trees, grown on labelled public rows")
                case Forest():
                    words.append(f"the classes' shares in {len(block.trees)} trees, grown on labelled public rows")
                case Landmarks():
                    words.append(f"Gaussian kernels at {len(block.points)} points")
                case Products():
                    words.append(f"{len(block.pairs)} products of pairs of columns or their principal components")
                case Fourier():
                    words.append(f"{len(block.phases)} random Fourier features")
        return " and ".join(words)

    def integers(self, X: Array) -> Integers:
        """Return encoded rows (n, d) standardised, clipped, and in multiples of 1 / `UNIT`, int64 (n, d)."""
        with np.errstate(over="ignore"):
            rows: Array = np.clip((X - np.array(self.means)) / np.array(self.deviations), -CLIP, CLIP)
        return np.rint(rows * UNIT).astype(np.int64)

    def apply(self, X: Array) -> Array:
        """Map encoded rows, finite, float64 (n, d), to float64 (n, d + e)."""
        mapped = np.empty((len(X), len(self.means) + len(self.features)))
        step = max(1, min(_BLOCK, _BLOCK_NUMBERS // mapped.shape[1]))
        for at in range(0, len(X), step):
            rows = self.integers(X[at : at + step])
            columns = [rows / UNIT, *(block.apply(rows) for block in self.blocks)]
            mapped[at : at + step] = np.concatenate(columns, axis=1)
        return mapped

    def apply_to_public(self, X: Array, known: NDArray[np.intp]) -> Array:
        """Map the encoded public rows that the map was fitted to, (n, d); `known`: the places of the labelled ones.

        As `apply`, except that columns of a forest are as in `Forest.unseen`, so that they do not know a row's label.
        """
        known = grown_rows(known)
        mapped, rows, first = self.apply(X), self.integers(X[known]), X.shape[1]
        for block in self.blocks:
            width = len(block.features)
            if isinstance(block, Forest) and len(known):
                mapped[known, first : first + width] = block.unseen(rows)
            first += width
        return mapped


def _directions_fit(directions: Sequence[Sequence[int]], inputs: int) -> bool:
    return all(len(one) == inputs and sum(map(abs, one)) <= _MOST_WEIGHT for one in directions)


def _product(rows: Integers, directions: Integers) -> Integers:
    """Return rows (n, d) times directions (k, d), int64 (n, k): floats hold every partial sum, all below 2^53."""
    products: Array = rows.astype(np.float64) @ directions.T.astype(np.float64)
    return np.asarray(products, dtype=np.int64)


# -- elementary functions by operations that IEEE 754 rounds correctly; errors are below 2^-48


def _series(x: Array, coefficients: Sequence[float]) -> Array:
    """Return the sum of coefficient k times x^k (Horner)."""
    total = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _log(x: Array) -> Array:
    """Return the logarithm of positive numbers: of the mantissa m by 2 atanh((m - 1) / (m + 1))."""
    mantissa, exponent = np.frexp(x)
    ratio = (mantissa - 1) / (mantissa + 1)
    series: Array = 2 * ratio * _series(ratio * ratio, [1 / (2 * k + 1) for k in range(17)])
    return series + exponent * math.log(2)


def _exp(x: Array) -> Array:
    """Return e^x of numbers that are not positive; 0 below e^-700."""
    x = np.maximum(x, -700.0)
    halvings = np.rint(x / math.log(2))
    power = _series(x - halvings * math.log(2), [1 / math.factorial(k) for k in range(16)])
    return np.where(x > -700.0, np.ldexp(power, halvings.astype(np.int64)), 0.0)


def _cosine(turns: Array) -> Array:
    """Return cos(2 pi t) of 0 <= t < 1, as 1 - 2 sin^2(pi t)."""
    angle = np.minimum(turns, 1 - turns) * math.pi
    square = angle * angle
    sine = angle * _series(square, [(-1) ** k / math.factorial(2 * k + 1) for k in range(13)])
    return np.asarray(1 - 2 * sine * sine, dtype=np.float64)
