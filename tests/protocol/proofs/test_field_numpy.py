"""The arithmetic by numpy compared with Python's integers: entries, limbs, matrix products and transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.proofs import field, field_numpy
from psephos.protocol.proofs.field import GENERATOR, PRIME, Words
from psephos.protocol.proofs.field_numpy import MOST_TERMS, PIECE

WORD = 1 << 64
MULTIPLES = [k << 32 for k in (1, 2, 3, 2**31, 2**32 - 2, 2**32 - 1)]
EDGES = [0, 1, 2**32 - 1, 2**32 + 1, 2**63, 2**63 - 1, PRIME - 2, PRIME - 1, PRIME - 2**32, *MULTIPLES]
BEYOND = [PRIME, PRIME + 1, WORD - 2**32 + 1, WORD - 2, WORD - 1]
"""Words that are no field elements; what is multiplied may be one."""

ELEMENT = st.one_of(st.sampled_from([x for x in EDGES if x < PRIME]), st.integers(0, PRIME - 1))
ANY_WORD = st.one_of(st.sampled_from(EDGES + BEYOND), st.integers(0, WORD - 1))


def words(numbers: Any) -> Words:
    return np.array(numbers, dtype=np.uint64)


def elements(seed: int, *shape: int) -> Words:
    """Return field elements, a third of them extreme."""
    generator = np.random.default_rng(seed)
    extreme = words([x for x in EDGES if x < PRIME])[generator.integers(0, len(EDGES), shape)]
    random = generator.integers(0, PRIME, shape, dtype=np.uint64)
    return np.where(generator.integers(0, 3, shape) == 0, extreme, random)


def exact(left: Words, right: Words) -> list[list[int]]:
    """Return the matrix product by Python's integers."""
    return ((left.astype(object) @ right.astype(object)) % PRIME).tolist()


@given(st.lists(st.tuples(ELEMENT, ELEMENT), min_size=1))
def test_sums_and_differences(pairs: list[tuple[int, int]]) -> None:
    a, b = (words(side) for side in zip(*pairs, strict=True))
    assert field_numpy.add(a, b).tolist() == [(x + y) % PRIME for x, y in pairs]
    assert field_numpy.sub(a, b).tolist() == [(x - y) % PRIME for x, y in pairs]


@given(st.lists(st.tuples(ANY_WORD, ANY_WORD), min_size=1))
def test_products_of_any_words(pairs: list[tuple[int, int]]) -> None:
    a, b = (words(side) for side in zip(*pairs, strict=True))
    assert field_numpy.mul(a, b).tolist() == [x * y % PRIME for x, y in pairs]


def test_all_pairs_of_extreme_words() -> None:
    a, b = (part.reshape(-1) for part in np.meshgrid(*[words(EDGES + BEYOND)] * 2))
    assert field_numpy.mul(a, b).tolist() == [x * y % PRIME for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize(
    "shapes", [((3, PIECE), (PIECE,)), ((2 * PIECE + 1,), (1,)), ((3 * PIECE, 1), ()), ((1, 2), (PIECE, 1))]
)
def test_arrays_of_several_pieces(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (elements(seed, *shape) for seed, shape in enumerate(shapes))
    expected = (a.astype(object) * b.astype(object)) % PRIME
    assert field_numpy.mul(a, b).tolist() == expected.tolist()
    assert field_numpy.sub(b, a).tolist() == ((b.astype(object) - a.astype(object)) % PRIME).tolist()


@given(st.lists(ANY_WORD, min_size=1))
def test_limbs_are_exact(numbers: list[int]) -> None:
    limbs = np.empty((3, len(numbers)))
    field_numpy.split(words(numbers), (limbs[0], limbs[1], limbs[2]))
    assert limbs.max() < 1 << 22
    assert [sum(int(x) << 22 * place for place, x in enumerate(limb)) for limb in limbs.T] == numbers


SUM = st.one_of(st.sampled_from([0, 1, 2**21 - 1, 2**21, 2**22, 2**42, 2**53 - 1, 2**53]), st.integers(0, 2**53))


@given(st.lists(st.tuples(SUM, SUM, SUM), min_size=1))
def test_sums_of_limbs_are_joined(triples: list[tuple[int, int, int]]) -> None:
    low, middle, high = np.array(triples, dtype=np.float64).T
    expected = [(x + (y << 21) + (z << 42)) % PRIME for x, y, z in triples]
    assert field_numpy.join(low, middle, high).tolist() == expected


@pytest.mark.parametrize("inner", [1, MOST_TERMS - 1, MOST_TERMS, MOST_TERMS + 1, 2 * MOST_TERMS + 5])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 300), (70, 66), (300, 2)])
def test_matrix_products(inner: int, rows: int, columns: int) -> None:
    left, right = elements(inner, rows, inner), elements(inner + 1, inner, columns)
    assert field_numpy.product(left, right).tolist() == exact(left, right)
    for extreme in (PRIME - 1, (1 << 44) - 1, (1 << 63) - 1):
        full = np.full_like(left, extreme), np.full_like(right, extreme)
        assert field_numpy.product(*full).tolist() == exact(*full)


def test_a_product_of_limbs_does_not_exceed_what_a_float_holds() -> None:
    largest = MOST_TERMS * (2 * (2**22 - 1) + 2**20 - 1) * (2**22 - 1)
    assert largest <= 2**53


@pytest.mark.parametrize(
    ("columns", "size"), [(1, 1), (3, 512), (9, 1024), (64, 128), (65, 128), (100, 1024), (300, 512)]
)
@pytest.mark.parametrize(("shift", "scale"), [(1, 1), (GENERATOR, PRIME - 1)])
def test_transforms_evaluate(columns: int, size: int, shift: int, scale: int) -> None:
    rows, root = elements(columns, 2, columns), pow(GENERATOR, (PRIME - 1) // size, PRIME)
    result = field_numpy.transform(rows, size, root, shift, scale)
    for row, at in zip(rows.tolist(), result.tolist(), strict=True):
        for place in {0, 1 % size, size // 2, size - 1, 7 % size}:
            x = shift * pow(root, place, PRIME)
            assert at[place] == scale * sum(c * pow(x, degree, PRIME) for degree, c in enumerate(row)) % PRIME


def test_full_coefficients_are_evaluated() -> None:
    """All limbs of all numbers have their largest values."""
    rows = np.full((3, 512), PRIME - 1, dtype=np.uint64)
    at = field_numpy.transform(rows, 4096, pow(GENERATOR, (PRIME - 1) // 4096, PRIME), 1, 1)
    assert at[:, 0].tolist() == [-512 % PRIME] * 3


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 100])
def test_values_at_any_points(columns: int) -> None:
    rows, points = elements(columns, 3, columns), elements(1, 9)
    result = field_numpy.values_at(rows, points)
    expected = [
        [sum(c * pow(x, degree, PRIME) for degree, c in enumerate(row)) % PRIME for x in points.tolist()]
        for row in rows.tolist()
    ]
    assert result.tolist() == expected


@pytest.mark.parametrize("kernel", field.KERNELS)
@pytest.mark.parametrize(("columns", "degree"), [(1, 8), (8, 8), (104, 256), (360, 512)])
def test_codewords_are_extended_from_their_values(kernel: str, columns: int, degree: int) -> None:
    evaluations = elements(columns, 3, columns)
    places = [0, 1, 8 * degree - 1, 7, degree]
    with field.use(kernel):
        result = field.extended_at(evaluations, degree, 8 * degree, places)
        rows = np.pad(evaluations, ((0, 0), (0, degree - columns)))
        codewords = field.coset_values(field.coefficients(rows), 8 * degree)
    assert result.tolist() == codewords[:, places].tolist()


@given(st.lists(st.lists(ELEMENT, min_size=3, max_size=3), max_size=20))
def test_sums_of_columns(rows: list[list[int]]) -> None:
    expected = [sum(column) % PRIME for column in zip(*rows, strict=True)] or [0, 0, 0]
    assert field_numpy.column_sum(words(rows).reshape(-1, 3)).tolist() == expected


def test_sums_of_many_full_rows() -> None:
    rows = np.full((3 * PIECE + 1, 2), PRIME - 1, dtype=np.uint64)
    assert field_numpy.column_sum(rows).tolist() == [-len(rows) % PRIME] * 2
    assert int(field_numpy.column_sum(rows[:, 0])) == -len(rows) % PRIME


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 33, 100])
def test_inverses(count: int) -> None:
    numbers = elements(count, count)
    expected = [pow(x, PRIME - 2, PRIME) for x in numbers.tolist()]
    assert field_numpy.inverse(numbers).tolist() == expected
