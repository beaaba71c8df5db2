"""The features of a map, by section 7.1 of docs/wire.md: row by row, in integers and doubles of Python."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from tests.verifier.board import Array, Refused, require

ONE = 4096
FARTHEST = 4 * ONE
"""The largest magnitude of z."""
Columns = Callable[[list[int], int | None], list[float]]
"""The columns of a row z and, where a forest was grown on it, its number among such rows."""
Block = tuple[list[str], int, Columns]
"""The names of columns, how many integers state them, and the columns."""
Tree = tuple[int, int, Any, Any] | list[int]


def _listed(items: Any, least: int, most: int) -> list[Any]:
    require(isinstance(items, list) and least <= len(items) <= most, "a list of the map is too short or too long")
    return list(items)


def _integers(numbers: Any, least: int, most: int) -> list[int]:
    integers = _listed(numbers, 0, 2**21)
    fits = all(type(number) is int and least <= number <= most for number in integers)
    require(fits, "the map has something else than integers in their range")
    return integers


def _doubles(numbers: list[Any], least: float, most: float) -> list[float]:
    fits = all(type(number) in (int, float) and least <= number <= most for number in numbers)
    require(fits, "a number of the map is out of range")
    return [float(number) for number in numbers]


def _vectors(rows: Any, inputs: int, most: int, largest: int) -> list[list[int]]:
    vectors = [_integers(row, -largest, largest) for row in _listed(rows, 1, most)]
    require(all(len(vector) == inputs for vector in vectors), "a vector of the map has another length")
    require(all(sum(map(abs, vector)) <= 2**38 for vector in vectors), "a vector of the map is too long")
    return vectors


def _dot(one: list[int], other: list[int]) -> int:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _clipped(number: float, limit: float) -> float:
    return min(max(number, -limit), limit)


# -- elementary functions


def _polynomial(x: float, coefficients: Sequence[float]) -> float:
    total = 0.0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _log(x: float) -> float:
    f, exponent = math.frexp(x)
    r = (f - 1) / (f + 1)
    return 2 * r * _polynomial(r * r, [1 / (2 * k + 1) for k in range(17)]) + exponent * math.log(2)


def _exp(x: float) -> float:
    if x <= -700:
        return 0.0
    power = round(x / math.log(2))
    return math.ldexp(_polynomial(x - power * math.log(2), [1 / math.factorial(k) for k in range(16)]), power)


def _cosine(turns: float) -> float:
    angle = min(turns, 1 - turns) * math.pi
    sine = angle * _polynomial(angle * angle, [(-1) ** k / math.factorial(2 * k + 1) for k in range(13)])
    return 1 - 2 * sine * sine


# -- blocks


def _tree(tree: Any, inputs: int, width: int) -> Tree:
    columns, limits, shares = _listed(tree, 3, 3)
    nodes, values = iter(_integers(columns, -1, inputs - 1)), iter(_integers(shares, 0, ONE))
    thresholds = iter(_integers(limits, -FARTHEST, FARTHEST))

    def grown(level: int) -> Tree:
        require(level <= 32, "a tree has too many levels")
        if (column := next(nodes)) < 0:
            return [next(values) for _ in range(width)]
        return column, next(thresholds), grown(level + 1), grown(level + 1)

    try:
        root = grown(0)
    except StopIteration:
        raise Refused("a tree ends early") from None
    require(not [*nodes, *thresholds, *values], "a tree has something behind its last leaf")
    return root


def _leaf(tree: Tree, z: list[int]) -> list[int]:
    while isinstance(tree, tuple):
        column, threshold, left, right = tree
        tree = left if z[column] <= threshold else right
    return tree


def _forest(inputs: int, gives: Any, width: Any, trees: Any, drawn: Any) -> Block:
    require(gives in ("log-odds", "trees"), "a forest gives something else")
    _integers([width], 1, 2**21)
    forest = [_tree(tree, inputs, width) for tree in _listed(trees, 1, 200)]
    texts = _listed(drawn, 0, len(forest))
    fits = all(isinstance(text, str) and re.fullmatch("[0-9a-f]{1,1250}", text) for text in texts)
    require(fits and len(texts) in (0, len(forest)), "the rows that trees have drawn are not stated")
    numbers = [int(text, 16) for text in texts] or [0] * len(forest)

    def columns(z: list[int], place: int | None) -> list[float]:
        seen = [place is not None and number >> place & 1 for number in numbers]
        both = [(_leaf(tree, z), drew) for tree, drew in zip(forest, seen, strict=True)]
        others = [leaf for leaf, drew in both if not drew] or [[ONE // max(2, width)] * width]
        sums, n = [sum(values) for values in zip(*others, strict=True)], len(others)
        if gives == "log-odds":
            return [_clipped(_log((300 * s + ONE * n) / (300 * (ONE * n - s) + ONE * n)), 5.0) for s in sums]
        means = [s / n for s in sums]
        return [value / ONE for leaf, drew in both for value in (means if drew else leaf)]

    prefixes = ["forest"] if gives == "log-odds" else [f"tree {number}" for number in range(1, len(forest) + 1)]
    names = [f"({prefix} {k})" for prefix in prefixes for k in range(1, width + 1)]
    return names, sum(len(part) for tree in trees for part in tree), columns


def _landmarks(inputs: int, points: Any, rate: Any) -> Block:
    vectors, (scale,) = _vectors(points, inputs, 1000, FARTHEST), _doubles([rate], 1e-30, 1e30)

    def columns(z: list[int], place: int | None) -> list[float]:
        squares = [sum((a - b) ** 2 for a, b in zip(z, point, strict=True)) for point in vectors]
        return [_exp(-scale * (square / ONE**2)) for square in squares]

    return [f"(landmark {k})" for k in range(1, len(vectors) + 1)], inputs * len(vectors), columns


def _products(inputs: int, directions: Any) -> Block:
    vectors = _vectors(directions, inputs, 100, 2**30)
    pairs = list(combinations_with_replacement(range(len(vectors)), 2))

    def columns(z: list[int], place: int | None) -> list[float]:
        c = [_clipped(_dot(z, vector) / ONE**2, 4.0) for vector in vectors]
        return [c[i] * c[j] for i, j in pairs]

    return [f"(product {i + 1} {j + 1})" for i, j in pairs], inputs * len(vectors), columns


def _fourier(inputs: int, directions: Any, phases: Any) -> Block:
    vectors, shifts = _vectors(directions, inputs, 1000, 2**30), _integers(phases, 0, ONE**2 - 1)
    require(len(vectors) == len(shifts), "a direction of the map has no phase")

    def columns(z: list[int], place: int | None) -> list[float]:
        turns = [_dot(z, vector) + shift for vector, shift in zip(vectors, shifts, strict=True)]
        return [_cosine(turn % ONE**2 / ONE**2) for turn in turns]

    return [f"(wave {k})" for k in range(1, len(vectors) + 1)], inputs * len(vectors), columns


KINDS: dict[str, tuple[Callable[..., Block], dict[str, Any]]] = {
    "forest": (_forest, {"gives": None, "width": None, "trees": None, "drawn": []}),
    "landmarks": (_landmarks, {"points": None, "rate": None}),
    "products": (_products, {"directions": None}),
    "fourier": (_fourier, {"directions": None, "phases": None}),
}
"""How each kind of block is read, and its fields in their order, with what they are unless stated."""


class FeatureMap:
    """A map of `inputs` encoded columns: the names of the columns that it adds, and the map as a model states it."""

    def __init__(self, text: str, inputs: int) -> None:
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            raise Refused("the map is no JSON") from None
        require(isinstance(given, dict) and given.keys() == {"means", "deviations", "blocks"}, "the map is none")
        self.means = _doubles(_listed(given["means"], inputs, inputs), -1e101, 1e101)
        self.deviations = _doubles(_listed(given["deviations"], inputs, inputs), 1e-100, 1e101)
        self.names, self.blocks, self.drawn, blocks, size = list[str](), list[Columns](), list[str](), list[Any](), 0
        for block in _listed(given["blocks"], 1, 4):
            require(isinstance(block, dict) and block.get("kind") in [*KINDS], "a block of the map is of no kind")
            read, fields = KINDS[block["kind"]]
            whole = {"kind": None} | fields | block
            require(len(whole) == len(fields) + 1, "a block of the map has other fields")
            names, integers, columns = read(inputs, *list(whole.values())[1:])
            blocks.append(whole | ({"rate": float(whole["rate"])} if "rate" in whole else {}))
            self.names, self.drawn = self.names + names, self.drawn + whole.get("drawn", [])
            self.blocks.append(columns)
            size += integers
        require(size <= 2**21 and len(self.names) <= 10_000, "the map is too large")
        require(len(set(self.names)) == len(self.names), "two blocks of the map are of one kind")
        self.stated = {"means": self.means, "deviations": self.deviations, "blocks": blocks}

    def features(self, X: Array, grown: Sequence[int] = ()) -> Array:
        """The features of encoded rows; `grown`: those that forests were grown on."""
        unknown = grown and any(int(number, 16) >> len(grown) for number in self.drawn)
        require(not unknown, "a forest was grown on more rows than there are")
        places, rows = {row: place for place, row in enumerate(grown)}, []
        for number, x in enumerate(X.tolist()):
            scaled = [(a - b) / c for a, b, c in zip(x, self.means, self.deviations, strict=True)]
            z = [round(ONE * _clipped(one, 4.0)) for one in scaled]
            added = [value for columns in self.blocks for value in columns(z, places.get(number))]
            rows.append([*(one / ONE for one in z), *added])
        return np.array(rows)
