"""The field compared with Python's integers, the transform with evaluation, the Merkle tree with hashlib."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.proofs import field
from psephos.protocol.proofs.field import (
    PRIME,
    add,
    coefficients,
    coset_values,
    coset_values_at,
    dot,
    ext_inverse,
    ext_mul,
    inverse,
    mul,
    power,
    prefix_products,
    product,
    sub,
    sum_of_products,
    values,
)
from psephos.protocol.proofs.merkle import MerkleTree, opened_root

EDGES = [0, 1, 2, 2**32 - 1, 2**32, 2**32 + 1, PRIME - 1, PRIME - 2, PRIME - 2**32, 2**63, 2**63 - 1]
ELEMENTS = st.lists(st.tuples(*[st.one_of(st.sampled_from(EDGES), st.integers(0, PRIME - 1))] * 2), min_size=1)


@given(ELEMENTS)
def test_field_arithmetic_agrees_with_integers(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(side, dtype=np.uint64) for side in zip(*pairs, strict=True))
    assert add(a, b).tolist() == [(x + y) % PRIME for x, y in pairs]
    assert sub(a, b).tolist() == [(x - y) % PRIME for x, y in pairs]
    assert mul(a, b).tolist() == [x * y % PRIME for x, y in pairs]
    assert dot(a, b[:, None]).tolist() == [sum(x * y for x, y in pairs) % PRIME]


@given(ELEMENTS)
def test_inverses_and_products_agree_with_integers(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(side, dtype=np.uint64) for side in zip(*pairs, strict=True))
    assert sum_of_products(a[:, None], b[:, None]).tolist() == [sum(x * y for x, y in pairs) % PRIME]
    assert inverse(a).tolist() == [pow(x, PRIME - 2, PRIME) for x, _ in pairs]
    assert power(a, 5).tolist() == [pow(x, 5, PRIME) for x, _ in pairs]
    products = [1]
    for x, _ in pairs:
        products.append(products[-1] * x % PRIME)
    assert prefix_products(a).tolist() == products[1:]


@given(ELEMENTS)
def test_the_quadratic_extension(pairs: list[tuple[int, int]]) -> None:
    """7 is no square, so X^2 - 7 is irreducible; products and inverses are those of pairs modulo it."""
    assert pow(field.NONRESIDUE, (PRIME - 1) // 2, PRIME) == PRIME - 1
    a = np.array(pairs, dtype=np.uint64).T
    b = a[::-1]
    expected = [((x * y + 7 * y * x) % PRIME, (x * x + y * y) % PRIME) for x, y in pairs]
    assert ext_mul(a, b).T.tolist() == [list(pair) for pair in expected]
    ones = [[int(x != 0 or y != 0), 0] for x, y in pairs]
    assert ext_mul(a, ext_inverse(a)).T.tolist() == ones


def test_inverses_of_no_elements() -> None:
    empty = np.zeros(0, dtype=np.uint64)
    assert inverse(empty).shape == prefix_products(empty).shape == (0,)
    assert ext_inverse(np.zeros((2, 0), dtype=np.uint64)).shape == (2, 0)
    assert inverse(np.full((3, 5), 3, dtype=np.uint64)).tolist() == [[pow(3, -1, PRIME)] * 5] * 3


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_values_and_coefficients(size: int) -> None:
    generator = np.random.default_rng(size)
    rows = generator.integers(0, PRIME, (3, size), dtype=np.uint64)
    root = pow(7, (PRIME - 1) // (2 * size), PRIME)
    for shift, evaluated in ((1, values(rows, 2 * size)), (7, coset_values(rows, 2 * size))):
        for row, at in zip(rows.tolist(), evaluated.tolist(), strict=True):
            points = [shift * pow(root, i, PRIME) % PRIME for i in range(2 * size)]
            assert at == [sum(c * pow(x, d, PRIME) for d, c in enumerate(row)) % PRIME for x in points]
    assert coefficients(values(rows, size)).tolist() == rows.tolist()


@given(st.integers(0, 2**32), st.sampled_from([1, 5, 2048]))
def test_matrix_products_are_exact(seed: int, inner: int) -> None:
    """Limbs with all bits set give the largest sums."""
    generator = np.random.default_rng(seed)
    left, right = (generator.integers(0, PRIME, shape, dtype=np.uint64) for shape in ((2, inner), (inner, 3)))
    for a, b in ((left, right), (np.full_like(left, PRIME - 1), np.full_like(right, PRIME - 1))):
        exact = (a.astype(object) @ b.astype(object)) % PRIME
        assert product(a, b).tolist() == exact.tolist()


def test_coset_values_at_some_places() -> None:
    rows = np.random.default_rng(1).integers(0, PRIME, (3, 20), dtype=np.uint64)
    places = [5, 0, 63, 7]
    assert coset_values_at(rows, 64, places).tolist() == coset_values(rows, 64)[:, places].tolist()


def test_the_generator_has_full_order() -> None:
    factors = (2, 3, 5, 17, 257, 65537)
    rest = PRIME - 1
    for factor in factors:
        while rest % factor == 0:
            rest //= factor
        assert pow(field.GENERATOR, (PRIME - 1) // factor, PRIME) != 1
    assert rest == 1


@given(st.sets(st.integers(0, 15), min_size=1), st.integers(0, 15))
def test_a_merkle_tree_opens_its_leaves(places: set[int], changed: int) -> None:
    leaves = [bytes([place]) * 3 for place in range(16)]
    tree = MerkleTree(leaves)
    path = tree.path(sorted(places))
    opened = {place: leaves[place] for place in places}
    assert opened_root(opened, 16, path) == tree.root
    assert opened_root({**opened, min(places): b"another"}, 16, path) != tree.root
    assert opened_root(opened, 16, [*path, b"x" * 32]) is None
    if path:
        assert opened_root(opened, 16, path[:-1]) is None
        spot = changed % len(path)
        assert opened_root(opened, 16, [*path[:spot], b"y" * 32, *path[spot + 1 :]]) != tree.root


def test_the_merkle_tree_is_that_of_rfc_9162() -> None:
    left, right = (hashlib.sha256(b"\0" + leaf).digest() for leaf in (b"a", b"b"))
    assert MerkleTree([b"a", b"b"]).root == hashlib.sha256(b"\1" + left + right).digest()
