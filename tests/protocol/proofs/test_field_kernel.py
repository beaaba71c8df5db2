"""field.c compared with numpy, bit for bit, with every set of instructions of this processor; and what it refuses."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.audit.rounds import short_key
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier import kernel
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.proofs import field, merkle
from psephos.protocol.proofs.field import KERNELS, PRIME, Words
from psephos.protocol.proofs.validity import Layout, prove, verify
from psephos.protocol.randomness import SimulationRandomness
from tests.tiers import sampled

pytestmark = pytest.mark.skipif("c" not in KERNELS, reason="no compiler on this machine")

EDGES = [0, 1, 2, 2**32 - 1, 2**32, 2**32 + 1, PRIME - 1, PRIME - 2, PRIME - 2**32, 2**63, 2**63 - 1]
SEEDS = st.integers(0, 2**32)


@pytest.fixture(params=[0, 1, 2], ids=["portable", "avx2", "avx512"], autouse=True, scope="module")
def instructions(request: pytest.FixtureRequest) -> Iterator[None]:
    """The instructions that field.c uses."""
    if field._field.use(request.param) != request.param:
        field._field.use(2)
        pytest.skip("this processor has no such instructions")
    yield
    field._field.use(2)


def words(seed: int, *shape: int) -> Words:
    """Return random words, a third of which are extreme."""
    generator = np.random.default_rng(seed)
    uniform = generator.integers(0, PRIME, shape, dtype=np.uint64)
    extreme = np.array(EDGES, dtype=np.uint64)[generator.integers(0, len(EDGES), shape)]
    return np.where(generator.integers(0, 3, shape) == 0, extreme, uniform)


def check(compute: Callable[..., Any], *arguments: Any) -> None:
    """Check that a function gives the same array with both kernels."""
    with field.use("numpy"):
        expected = compute(*arguments)
    with field.use("c"):
        result = compute(*arguments)
    assert result.dtype == expected.dtype == np.uint64
    assert result.shape == expected.shape
    assert result.tolist() == expected.tolist()


def test_all_pairs_of_extreme_words() -> None:
    a, b = (part.reshape(-1) for part in np.meshgrid(*[np.array(EDGES, dtype=np.uint64)] * 2))
    for compute in (field.add, field.sub, field.mul):
        check(compute, a, b)
    for extreme in (0, PRIME - 1):
        rows = np.full((2000, 9), extreme, dtype=np.uint64)
        check(field.column_sum, rows)
        check(field.sum_of_products, rows, rows)
        check(field.dot, rows[:, 0], rows)
        check(field.values, rows.T, 2048)


@given(SEEDS, st.integers(0, 70))
def test_entries(seed: int, count: int) -> None:
    a, b = words(seed, 2, count)
    for compute in (field.add, field.sub, field.mul):
        check(compute, a, b)
    check(field.inverse, a)
    check(field.power, a, seed)
    if count:
        check(field.prefix_products, a)
    check(field.ext_mul, np.stack([a, b]), np.stack([b, b]))
    check(field.ext_inverse, np.stack([a, b]))


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 5), (5,)),
        ((3, 5), ()),
        ((5,), (3, 1)),
        ((4, 1), (4, 3)),
        ((), ()),
        ((2, 3, 4), (3, 1)),
        ((0, 3), (3,)),
    ],
)
def test_shapes_that_are_broadcast(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (words(seed, *shape) for seed, shape in enumerate(shapes))
    for compute in (field.add, field.sub, field.mul):
        check(compute, a, b)


def test_arrays_that_are_not_contiguous_or_not_aligned() -> None:
    whole = words(1, 16, 24)
    shifted = np.frombuffer(b"x" + whole.tobytes(), dtype=np.uint64, offset=1).reshape(whole.shape)
    assert not shifted.flags.aligned
    for array in (whole[::2, ::3], whole.T, whole[::-1, ::-1], np.asfortranarray(whole), shifted):
        check(field.mul, array, array[::-1])
        check(field.sum_of_products, array, array)
        check(field.product, array, array.T)
        check(field.coefficients, array[:, :8])
        check(field.coset_values, array, 64)
        check(field.column_sum, array)
        check(field.inverse, array)
        check(field.ext_mul, array[:2], array[2:4])


@given(SEEDS, st.integers(0, 5), st.integers(1, 40), st.integers(0, 20))
def test_sums_and_matrix_products(seed: int, rows: int, inner: int, columns: int) -> None:
    left, right = words(seed, rows, inner), words(seed + 1, inner, columns)
    check(field.product, left, right)
    check(field.column_sum, right)
    check(field.sum_of_products, right, right[::-1])
    check(field.dot, words(seed, inner), right)


@pytest.mark.parametrize("size", sampled([1 << bits for bits in range(14)], 2))
def test_transforms_of_every_size(size: int) -> None:
    for rows in (1, 8, 11):
        for columns in {1, max(1, size // 8), max(1, size // 2 - 1), size // 2 + 1, size}:
            polynomials = words(size + columns, rows, columns)
            check(field.values, polynomials, size)
            check(field.coset_values, polynomials, size)
        evaluations = words(size, rows, size)
        check(field.coefficients, evaluations)
        with field.use("c"):
            assert np.array_equal(field.values(field.coefficients(evaluations), size), evaluations)


@given(SEEDS, st.integers(0, 10), st.integers(0, 9), st.data())
def test_values_at_some_places(seed: int, bits: int, rows: int, data: st.DataObject) -> None:
    size = 1 << bits
    polynomials = words(seed, rows, data.draw(st.integers(1, size)))
    places = data.draw(st.lists(st.integers(0, size - 1), max_size=20))
    check(field.coset_values_at, polynomials, size, places)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 8, 9, 60])
@pytest.mark.parametrize("salt", [0, 4, 32, 36])
def test_hashes_of_columns_are_those_of_hashlib(rows: int, salt: int) -> None:
    """Every number of columns beside a multiple of sixteen, and every length beside that of a block."""
    for columns in (1, 2, 15, 16, 17, 33):
        matrix = words(rows, rows, columns) if rows else np.zeros((0, columns), dtype=np.uint64)
        salts = SimulationRandomness(rows).draw(salt * columns)
        expected = [
            hashlib.sha256(b"\0" + salts[at * salt : (at + 1) * salt] + matrix[:, at].astype("<u8").tobytes()).digest()
            for at in range(columns)
        ]
        for name in KERNELS:
            with field.use(name):
                assert merkle.hash_columns(salts, matrix) == b"".join(expected)
                assert merkle.hash_columns(salts, np.asfortranarray(matrix)) == b"".join(expected)


@given(st.binary(min_size=64 * 33, max_size=64 * 33), st.integers(0, 33))
def test_hashes_of_pairs_are_those_of_hashlib(data: bytes, count: int) -> None:
    pairs = [data[64 * at : 64 * (at + 1)] for at in range(count)]
    expected = b"".join(hashlib.sha256(b"\1" + pair).digest() for pair in pairs)
    for name in KERNELS:
        with field.use(name):
            assert merkle._hash_pairs(b"".join(pairs)) == expected


@pytest.mark.parametrize("length", [0, 8, 16])
def test_salts_that_do_not_fit_are_rejected(length: int) -> None:
    for name in KERNELS:
        with field.use(name), pytest.raises(InvalidParameter):
            merkle.hash_columns(bytes(length + 4), np.zeros((2, 0 if length == 0 else 4), dtype=np.uint64))


@pytest.mark.parametrize(("classes", "degree"), [(2, 1), (4, 2)])
def test_proofs_do_not_depend_on_the_kernel(classes: int, degree: int) -> None:
    """The same randomness gives the same proof, and what one kernel proves the other one verifies."""
    key = short_key(degree=degree).public_key
    votes = VoteLayout(150, classes)
    plan = votes.plan(key, 20)
    layout = Layout.of(key, plan, classes - 1)
    entries = votes.encode(np.arange(150) % classes).astype(np.int64)
    ciphertexts, witness = Encryptor(key, expected=8).encrypt_with_witness(plan.pack(entries))
    proofs = []
    for name in KERNELS:
        with field.use(name):
            proofs.append(prove(b"", layout, entries, ciphertexts, witness, randomness=SimulationRandomness(7)))
    assert len(set(proofs)) == 1
    for name in KERNELS:
        with field.use(name):
            verify(b"", layout, ciphertexts, proofs[0])


def test_more_coefficients_than_points_are_rejected() -> None:
    with pytest.raises(ValueError, match="9"):
        field.values(words(1, 2, 9), 8)
    with pytest.raises(ValueError, match="3"):
        field.product(words(1, 2, 3), words(1, 2, 3))


@pytest.mark.parametrize("place", [-1, 16, 2**40, -(2**62)])
def test_a_place_outside_the_transform_is_rejected(place: int) -> None:
    with pytest.raises(ValueError, match="place"):
        field.coset_values_at(words(1, 2, 4), 16, [3, place])


NAMES = [
    ("add", 3),
    ("subtract", 3),
    ("multiply", 3),
    ("product", 3),
    ("column_sums", 2),
    ("column_sums", 3),
    ("inverses", 2),
    ("prefix_products", 2),
    ("extension_products", 3),
    ("transform", 4),
    ("hash_columns", 3),
    ("hash_pairs", 2),
]
LENGTHS = st.one_of(st.integers(0, 8), st.sampled_from([12, 15, 16, 24, 31, 32, 48, 64]))


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


@pytest.mark.parametrize(("name", "count"), NAMES)
def test_arguments_of_other_kinds_are_rejected(name: str, count: int) -> None:
    call = getattr(field._field, name)
    array = np.zeros(32, dtype=np.uint64)
    constant = np.zeros(32, dtype=np.uint64)
    constant.flags.writeable = False
    numbers = [1] if name in ("product", "transform") else []
    fits = [*[array] * count, *numbers]
    for wrong in (
        [],
        [array],
        [*fits, array, array],
        [None, *fits[1:]],
        [constant, *fits[1:]],
        [array[::2], *fits[1:]],
    ):
        with pytest.raises((TypeError, ValueError, BufferError)):
            call(*wrong)
    if numbers:
        for number in (-1, 2**70, "1"):
            with pytest.raises((TypeError, ValueError, OverflowError)):
                call(*fits[:count], number)
    if not name.startswith("hash"):
        shifted = np.frombuffer(bytearray(8 * 32 + 1), dtype=np.uint8, offset=1)
        with pytest.raises(ValueError, match="aligned"):
            call(*[shifted] * count, *numbers)


def test_the_switch_of_all_kernels_selects_numpy() -> None:
    assert field.native() is field._field
    with kernel.use("gmpy2"):
        assert field.native() is None
        with field.use("c"):
            assert field.native() is field._field
    with field.use("numpy"):
        assert field.native() is None
    with pytest.raises(InvalidParameter), field.use("abacus"):
        pass
    program = "from psephos.protocol.proofs import field; print(field.native())"
    environment = {**os.environ, "PSEPHOS_KERNEL": "gmpy2"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
