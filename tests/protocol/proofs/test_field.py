"""The field of field.c, with every set of instructions, and of numpy, compared with Python's integers and hashlib."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.paillier import kernel
from psephos.protocol.proofs import field, field_numpy
from psephos.protocol.proofs.field import GENERATOR, NONRESIDUE, PRIME, Words
from psephos.protocol.proofs.merkle import MerkleTree, opened_root
from psephos.protocol.randomness import SimulationRandomness
from tests.tiers import sampled

EDGES = [0, 1, 2, 2**32 - 1, 2**32, 2**32 + 1, PRIME - 1, PRIME - 2, PRIME - 2**32, 2**63, 2**63 - 1]
PIECE = field_numpy._PIECE
SEEDS = st.integers(0, 2**32)
with_c = pytest.mark.skipif(field._field is None, reason="no compiler on this machine")


@pytest.fixture(params=["numpy", "portable", "avx2", "avx512"], scope="module")
def computed(request: pytest.FixtureRequest) -> Iterator[str]:
    """What computes."""
    if request.param == "numpy":
        with kernel.use("gmpy2"):
            yield "numpy"
        return
    if field._field is None:
        pytest.skip("no compiler on this machine")
    level = ["portable", "avx2", "avx512"].index(request.param)
    try:
        if field._field.use(level) != level:
            pytest.skip("this processor has no such instructions")
        if not kernel.compiled():
            pytest.skip("PSEPHOS_KERNEL selects numpy")
        yield "c"
    finally:
        field._field.use(2)


def words(seed: int, *shape: int) -> Words:
    """Return random elements, a third of which are extreme."""
    generator = np.random.default_rng(seed)
    uniform = generator.integers(0, PRIME, shape, dtype=np.uint64)
    extreme = np.array(EDGES, dtype=np.uint64)[generator.integers(0, len(EDGES), shape)]
    return np.where(generator.integers(0, 3, shape) == 0, extreme, uniform)


def check_arrays(left: Words, right: Words) -> None:
    """Check all functions of two arrays of one shape (m, n) against Python's integers."""
    a, b = left.astype(object), right.astype(object)
    assert field.add(left, right).tolist() == ((a + b) % PRIME).tolist()
    assert field.sub(left, right).tolist() == ((a - b) % PRIME).tolist()
    assert field.mul(left, right).tolist() == (a * b % PRIME).tolist()
    assert field.product(left, right.T).tolist() == (a @ b.T % PRIME).tolist()
    assert field.column_sum(left).tolist() == (a.sum(axis=0, initial=0) % PRIME).tolist()
    assert field.column_sum(left, right).tolist() == ((a * b).sum(axis=0, initial=0) % PRIME).tolist()


@settings(max_examples=40)
@given(SEEDS, st.integers(0, 5), st.integers(1, 70))
def test_arrays_agree_with_integers(computed: str, seed: int, rows: int, columns: int) -> None:
    check_arrays(words(seed, rows, columns), words(seed + 1, rows, columns))


@pytest.mark.parametrize("extreme", [0, PRIME - 1, (1 << 44) - 1, (1 << 63) - 1])
@pytest.mark.parametrize(("rows", "columns"), [(2, 300), (70, 66), (3, 133), (PIECE + 1, 2)])
def test_arrays_of_extreme_words(computed: str, extreme: int, rows: int, columns: int) -> None:
    """All limbs of all numbers have their largest values, in one piece of an array and in several."""
    full = np.full((rows, columns), extreme, dtype=np.uint64)
    if rows <= 70:
        check_arrays(full, full)
    assert field.column_sum(full).tolist() == [rows * extreme % PRIME] * columns


def test_all_pairs_of_extreme_words(computed: str) -> None:
    a, b = (part.reshape(1, -1) for part in np.meshgrid(*[np.array(EDGES, dtype=np.uint64)] * 2))
    check_arrays(a, b)


SHAPES = [((3, 5), (5,)), ((5,), (3, 1)), ((4, 1), (4, 3)), ((), ()), ((2, 3, 4), (3, 1)), ((0, 3), (3,))]
SHAPES += [((3, PIECE), (PIECE,)), ((3 * PIECE, 1), ()), ((1, 2), (PIECE, 1))]


@pytest.mark.parametrize("shapes", SHAPES)
def test_shapes_that_are_broadcast(computed: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (words(seed, *shape) for seed, shape in enumerate(shapes))
    for compute, exact in ((field.mul, operator.mul), (field.sub, operator.sub)):
        expected = np.asarray(exact(a.astype(object), b.astype(object)) % PRIME)
        assert compute(a, b).tolist() == expected.tolist()


def test_arrays_that_are_not_contiguous_or_not_aligned(computed: str) -> None:
    whole = words(1, 16, 24)
    shifted = np.frombuffer(b"x" + whole.tobytes(), dtype=np.uint64, offset=1).reshape(whole.shape)
    assert not shifted.flags.aligned
    for array in (whole[::2, ::3], whole.T, whole[::-1, ::-1], np.asfortranarray(whole), shifted):
        check_arrays(array, array[::-1])
        same = np.array(array, order="C")
        assert field.coefficients(array[:, :8]).tolist() == field.coefficients(same[:, :8]).tolist()
        assert field.coset_values(array, 64).tolist() == field.coset_values(same, 64).tolist()


@given(st.lists(st.tuples(*[st.one_of(st.sampled_from(EDGES), st.integers(0, PRIME - 1))] * 2), min_size=1))
def test_inverses_in_the_quadratic_extension(computed: str, pairs: list[tuple[int, int]]) -> None:
    """7 is no square, so X^2 - 7 is irreducible."""
    assert pow(NONRESIDUE, (PRIME - 1) // 2, PRIME) == PRIME - 1
    inverses = field.ext_inverse(np.array(pairs, dtype=np.uint64).T).T.tolist()
    for (a, b), (c, d) in zip(pairs, inverses, strict=True):
        assert ((a * c + 7 * b * d) % PRIME, (a * d + b * c) % PRIME) == (int(bool(a or b)), 0)


def test_the_generator_has_full_order() -> None:
    rest = PRIME - 1
    for factor in (2, 3, 5, 17, 257, 65537):
        while rest % factor == 0:
            rest //= factor
        assert pow(GENERATOR, (PRIME - 1) // factor, PRIME) != 1
    assert rest == 1


@pytest.mark.parametrize("size", sampled([1 << bits for bits in range(14)], 3))
def test_transforms_of_every_size(computed: str, size: int) -> None:
    root = pow(GENERATOR, (PRIME - 1) // size, PRIME)
    for columns in {1, max(1, size // 8), max(1, size // 2 - 1), size // 2 + 1, size}:
        rows = words(size + columns, 3, columns)
        rows[0] = PRIME - 1
        places = sorted({0, 1 % size, size // 2, size - 1, 7 % size})
        for shift, evaluated in ((1, field.values(rows, size)), (GENERATOR, field.coset_values(rows, size))):
            for row, at in zip(rows.tolist(), evaluated.tolist(), strict=True):
                for place in places:
                    x = shift * pow(root, place, PRIME) % PRIME
                    value = 0
                    for coefficient in reversed(row):
                        value = (value * x + coefficient) % PRIME
                    assert at[place] == value
        chosen = field.coset_values(rows, size, places)
        assert chosen.tolist() == field.coset_values(rows, size)[:, places].tolist()
    evaluations = words(size, 11, size)
    assert np.array_equal(field.values(field.coefficients(evaluations), size), evaluations)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 8, 9, 60])
@pytest.mark.parametrize("salt", [0, 4, 32, 36])
def test_a_merkle_tree_is_that_of_rfc_9162(computed: str, rows: int, salt: int) -> None:
    """With hashlib; field.c hashes sixteen leaves or nodes at a time, each of any number of blocks."""
    for columns in (1, 2, 16, 32, 64):
        matrix = words(rows, rows, columns) if rows else np.zeros((0, columns), dtype=np.uint64)
        salts = SimulationRandomness(rows).draw(salt * columns)
        level = [
            hashlib.sha256(b"\0" + salts[at * salt : (at + 1) * salt] + matrix[:, at].astype("<u8").tobytes()).digest()
            for at in range(columns)
        ]
        while len(level) > 1:
            level = [hashlib.sha256(b"\1" + level[at] + level[at + 1]).digest() for at in range(0, len(level), 2)]
        assert MerkleTree(salts, matrix).root == MerkleTree(salts, np.asfortranarray(matrix)).root == level[0]


@given(st.sets(st.integers(0, 15), min_size=1), st.integers(0, 15))
def test_a_merkle_tree_opens_its_leaves(computed: str, places: set[int], changed: int) -> None:
    columns, salts, at = words(1, 2, 16), SimulationRandomness(1).draw(4 * 16), list(places)
    tree = MerkleTree(salts, columns)
    path, opened = tree.path(at), np.ascontiguousarray(columns[:, at])
    their_salts = b"".join(salts[4 * place : 4 * place + 4] for place in at)
    assert opened_root(at, their_salts, opened, 16, path) == tree.root
    assert opened_root(at, their_salts, opened ^ np.uint64(1), 16, path) != tree.root
    if path:
        spot = changed % len(path)
        assert opened_root(at, their_salts, opened, 16, [*path[:spot], b"y" * 32, *path[spot + 1 :]]) != tree.root


@with_c
def test_sizes_and_places_that_do_not_fit_are_rejected() -> None:
    if kernel.compiled():
        for compute in (
            lambda: field.values(words(1, 2, 9), 8),
            lambda: field.product(words(1, 2, 3), words(1, 2, 3)),
            *(lambda at=at: field.coset_values(words(1, 2, 4), 16, [3, at]) for at in (-1, 16, 2**40, -(2**62))),
        ):
            with pytest.raises(ValueError):  # noqa: PT011
                compute()


NAMES = [
    ("add", 3),
    ("subtract", 3),
    ("multiply", 3),
    ("product", 3),
    ("column_sums", 2),
    ("column_sums", 3),
    ("inverses", 2),
    ("transform", 4),
    ("hash_columns", 3),
    ("hash_pairs", 2),
]
LENGTHS = st.one_of(st.integers(0, 8), st.sampled_from([12, 15, 16, 24, 31, 32, 48, 64]))


@with_c
@pytest.mark.parametrize(("name", "count"), NAMES)
@given(st.data())
def test_lengths_that_do_not_fit_together_are_rejected(name: str, count: int, data: st.DataObject) -> None:
    """With any lengths a call either raises ValueError or writes into its first array and nowhere else."""
    unit = 1 if name.startswith("hash") else data.draw(st.sampled_from([8, 8, 8, 1]))
    guard = 64
    arrays = []
    for _ in range(count):
        length = data.draw(LENGTHS) * unit
        arrays.append(np.full(length + 2 * guard, 1, dtype=np.uint8))
    before = [array.copy() for array in arrays]
    numbers: list[Any] = []
    if name in ("product", "transform"):
        numbers.append(data.draw(st.integers(0, 20)))
    if name == "transform" and data.draw(st.booleans()):
        numbers.append(np.array(data.draw(st.lists(st.integers(-1, 20), max_size=9)), dtype=np.int64))
    try:
        getattr(field._field, name)(*[array[guard : len(array) - guard] for array in arrays], *numbers)
    except ValueError:
        assert all(np.array_equal(array, same) for array, same in zip(arrays, before, strict=True))
    assert all(np.array_equal(array, same) for array, same in zip(arrays[1:], before[1:], strict=True))
    assert np.array_equal(arrays[0][:guard], before[0][:guard])
    assert np.array_equal(arrays[0][-guard:], before[0][-guard:])
