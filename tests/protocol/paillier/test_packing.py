"""Packing: sums are exact, slots do not overflow, and values that do not fit are rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import CiphertextError, PackingError, WrongKeyError, WrongRoundError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.vectors import EncryptedVector


@st.composite
def plans(draw: st.DrawFn) -> PackingPlan:
    minimum = draw(st.one_of(st.just(0), st.integers(-(2**40), 0)))
    maximum = draw(st.integers(0 if minimum else 1, 2**40))
    return PackingPlan(
        length=draw(st.integers(1, 40)),
        addends=draw(st.integers(1, 1000)),
        minimum=minimum,
        maximum=maximum,
        key_bits=draw(st.integers(64, 600)),
    )


def vectors(plan: PackingPlan) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(plan.minimum, plan.maximum), min_size=plan.length, max_size=plan.length)


@given(st.data(), plans())
def test_sums_of_packed_vectors_are_packed_sums(data: st.DataObject, plan: PackingPlan) -> None:
    summands = data.draw(st.lists(vectors(plan), min_size=1, max_size=min(plan.addends, 5)))
    packed = [sum(column) for column in zip(*map(plan.pack, summands), strict=True)]
    assert plan.unpack(packed, len(summands)) == [sum(column) for column in zip(*summands, strict=True)]


@given(st.data(), plans())
def test_extreme_sums_fill_slots_and_carry_nothing(data: st.DataObject, plan: PackingPlan) -> None:
    """`addends` times the same mixture of largest and smallest entries, so that extreme slots are adjacent."""
    values = data.draw(
        st.lists(st.sampled_from([plan.minimum, plan.maximum]), min_size=plan.length, max_size=plan.length)
    )
    packed = [m * plan.addends for m in plan.pack(values)]
    assert all(m < 1 << (plan.key_bits - 1) for m in packed)
    assert plan.unpack(packed, plan.addends) == [v * plan.addends for v in values]


@given(plans())
def test_a_plan_is_as_tight_as_it_can_be(plan: PackingPlan) -> None:
    assert (
        plan.radix == plan.addends * (plan.maximum - plan.minimum) + 1
    )  # a sum is 0 ... radix - 1, and takes them all
    assert (
        plan.radix**plan.slots_per_plaintext <= 1 << (plan.key_bits - 1) < plan.radix ** (plan.slots_per_plaintext + 1)
    )
    assert (plan.ciphertexts - 1) * plan.slots_per_plaintext < plan.length
    assert plan.length <= plan.ciphertexts * plan.slots_per_plaintext


@pytest.mark.parametrize(
    "radix", [2, 3, 2**20 - 1, 2**31 - 1, 2**31, 2**31 + 1, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**100]
)
def test_slots_of_any_width_hold_their_largest_and_least_values(radix: int) -> None:
    """Where they fill a machine word, and where they are wider than one."""
    plan = PackingPlan(77, 1, 0, radix - 1, 512)
    values = [(0, radix - 1, radix // 2)[i % 7 % 3] for i in range(77)]
    packed = plan.pack(values)
    slots = plan.slots_per_plaintext
    assert packed[0] == sum(v * radix**i for i, v in enumerate(values[:slots]))
    assert plan.unpack(packed, 1) == values


@pytest.mark.parametrize(
    "fields",
    [
        (0, 1, 0, 1, 512),
        (1, 0, 0, 1, 512),
        (1, 1, 0, 0, 512),
        (1, 1, 1, 2, 512),
        (1, 1, -2, -1, 512),
        (1.0, 1, 0, 1, 512),
        (1, 1, 0, float("nan"), 512),
        (1, None, 0, 1, "512"),
    ],
)
def test_invalid_plans_are_rejected(fields: tuple[Any, ...]) -> None:
    with pytest.raises(PackingError):
        PackingPlan(*fields)


@given(st.integers(64, 3072), st.integers(1, 10**6))
def test_a_plan_that_could_overflow_is_rejected(key_bits: int, addends: int) -> None:
    largest = ((1 << (key_bits - 1)) - 1) // addends  # addends * largest still has key_bits - 1 bits
    assert PackingPlan(1, addends, 0, largest, key_bits).slots_per_plaintext == 1
    with pytest.raises(PackingError):
        PackingPlan(1, addends, 0, largest + 1, key_bits)
    with pytest.raises(PackingError):
        PackingPlan(1, addends, -1, largest, key_bits)


PLAN = PackingPlan(4, 10, -2, 5, 128)


@pytest.mark.parametrize(
    "values",
    [
        [0, 1, 2],
        [0, 1, 2, 3, 4],
        [],
        [0, 0, 0, 6],
        [-3, 0, 0, 0],
        *([0, 0, 0, entry] for entry in (1.0, True, float("nan"), None, "1", np.float64(1))),
        *(np.zeros(4, dtype=kind) for kind in (float, bool, object)),
        *(np.zeros(shape, dtype=int) for shape in ((2, 2), (4, 1), 3)),
        np.array([0, 0, 0, -3], dtype=np.int8),
        np.array([0, 0, 0, 2**63], dtype=np.uint64),
    ],
)
def test_values_that_do_not_fit_the_plan_are_rejected(values: Any) -> None:
    with pytest.raises(PackingError):
        PLAN.pack(values)


def test_impossible_sums_are_rejected() -> None:
    packed = PLAN.pack([1, 2, 3, 4])
    for addends in (0, -1, 11):
        with pytest.raises(PackingError):
            PLAN.unpack(packed, addends)
    for bad in ([], [*packed, mpz(0)], [mpz(-1)], [mpz(PLAN.radix) ** 4]):
        with pytest.raises(PackingError):
            PLAN.unpack(bad, 1)
    with pytest.raises(PackingError):
        PLAN.unpack([mpz(8)], 1)  # 8 > 5 - (-2)
    assert PLAN.unpack([mpz(8)], 2) == [4, -4, -4, -4]
    slots = PLAN.slots_per_plaintext
    longer = PackingPlan(2 * slots + 3, 10, -2, 5, 128)
    full, last = longer.radix**slots - 1, longer.radix**3 - 1
    assert longer.unpack([full, full, last], 10) == [50] * (2 * slots + 3)
    for bad, _place in (([full + 1, full, last], 0), ([full, full + 1, last], 1), ([full, full, last + 1], 2)):
        with pytest.raises(PackingError):
            longer.unpack(bad, 10)


def test_the_digest_of_a_plan_covers_its_fields() -> None:
    assert PackingPlan(np.int64(4), np.int32(10), np.int8(-2), np.uint8(5), 128).digest == PLAN.digest  # type: ignore[arg-type]
    others = [
        PackingPlan(5, 10, -2, 5, 128),
        PackingPlan(4, 11, -2, 5, 128),
        PackingPlan(4, 10, -3, 5, 128),
        PackingPlan(4, 10, -2, 6, 128),
        PackingPlan(4, 10, -2, 5, 129),
    ]
    assert len({PLAN.digest, *(plan.digest for plan in others)}) == 6


# -- encrypted vectors


@given(st.data())
def test_encrypted_sums(private_key: PrivateKey, data: st.DataObject) -> None:
    plan = PackingPlan(data.draw(st.integers(1, 30)), 4, -(2**20), 2**30, 512)
    summands = data.draw(st.lists(vectors(plan), min_size=1, max_size=4))
    encryptor = Encryptor(private_key.public_key, "half", expected=8)
    encrypted = [EncryptedVector.encrypt(encryptor, plan, values) for values in summands]
    total = encrypted[0]
    for other in encrypted[1:]:
        total = total + other
    assert total.addends == len(summands)
    assert total.decrypt(private_key) == [sum(column) for column in zip(*summands, strict=True)]


def test_vectors_of_different_keys_or_plans_cannot_be_added(
    private_key: PrivateKey, other_private_key: PrivateKey
) -> None:
    plan, key, other = PackingPlan(3, 3, 0, 1, 512), private_key.public_key, other_private_key.public_key
    vector = EncryptedVector.encrypt(Encryptor(key, expected=8), plan, [1, 0, 1])
    for refused, error in (
        (lambda: vector + EncryptedVector(other, plan, vector.ciphertexts), WrongKeyError),
        (lambda: vector + EncryptedVector(key, PackingPlan(3, 4, 0, 1, 512), vector.ciphertexts), WrongRoundError),
        (lambda: vector.decrypt(other_private_key), WrongKeyError),
        (lambda: EncryptedVector(key, PackingPlan(3, 3, 0, 1, 514), vector.ciphertexts), WrongKeyError),
        (lambda: EncryptedVector(key, plan, vector.ciphertexts * 2), CiphertextError),
        *((lambda n=n: EncryptedVector(key, plan, vector.ciphertexts, n), PackingError) for n in (0, -1, 4)),
    ):
        with pytest.raises(error):
            refused()
