"""`encode` and `decode`: values are restored exactly, and nothing but values is encoded or decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import cbor2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import JournalError
from psephos.protocol.storage.values import decode, encode, storable, storable_as


@storable
@dataclass(frozen=True)
class Point:
    """A value."""

    x: Any
    y: Any = None


@storable
@dataclass(frozen=True)
class Unit:
    """A dataclass that validates its argument and computes another field."""

    value: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError("out of range")
        object.__setattr__(self, "double", 2 * self.value)


@storable_as(lambda key: {"n": key.n})
class Key:
    """A class that is not a dataclass."""

    def __init__(self, n: int) -> None:
        self.n = n


@dataclass(frozen=True)
class Unregistered:
    """A frozen dataclass that is not registered."""


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**4000), max_value=2**4000),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.integers().map(mpz),
    st.integers(min_value=-(2**7000), max_value=2**7000).map(mpz),
)
names = st.text() | st.integers() | st.binary()
values = st.recursive(
    plain,
    lambda inner: st.lists(inner).map(tuple) | st.builds(Point, inner, inner) | st.dictionaries(names, inner),
    max_leaves=20,
)


def types(value: Any) -> Any:
    """Return the types in a value, recursively: 1, 1.0, True and mpz(1) are equal."""
    if isinstance(value, tuple):
        return tuple(types(item) for item in value)
    if isinstance(value, dict):
        return [(key, type(key), types(item)) for key, item in value.items()]
    return (types(value.x), types(value.y)) if isinstance(value, Point) else type(value)


@given(values)
def test_values_are_restored_with_their_types(value: Any) -> None:
    decoded = decode(encode(value))
    assert decoded == value
    assert types(decoded) == types(value)


@pytest.mark.parametrize(
    "value",
    [
        [1],
        {(1,): 2},
        {1: [2]},
        {1},
        object(),
        Unregistered(),
        (Unregistered(),),
        np.float64(1),
        np.arange(3),
        Point(Unregistered()),
        bytearray(),
    ],
)
def test_other_objects_are_not_encoded(value: Any) -> None:
    with pytest.raises(TypeError):
        encode(value)


def test_only_frozen_dataclasses_can_be_registered() -> None:
    @dataclass
    class Mutable:
        x: int

    for cls in (Mutable, int):
        with pytest.raises(TypeError):
            storable(cls)


def record(name: str, parts: Any) -> bytes:
    return cbor2.dumps(cbor2.CBORTag(50_602, [name, parts]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        encode((1, 2))[:-1],
        b"\xff" * 8,
        cbor2.dumps({(1, 2): 1}),
        cbor2.dumps(cbor2.CBORTag(50_601, b"x")),
        cbor2.dumps(cbor2.CBORTag(50_602, 7)),
        cbor2.dumps(cbor2.CBORTag(50_603, 7)),
        cbor2.dumps(cbor2.CBORTag(50_601, True)),
        cbor2.dumps(cbor2.CBORSimpleValue(99)),
        cbor2.dumps({1}),
        cbor2.dumps(datetime(2026, 11, 22, tzinfo=UTC)),
        cbor2.dumps(cbor2.CBORTag(50_602, [[], {}])),
        record("os.system", {"command": "true"}),
        record(f"{__name__}.Unregistered", {}),
        record(f"{__name__}.Point", {"z": 1}),
        record(f"{__name__}.Point", {}),
        record(f"{__name__}.Unit", {"value": 7}),
        b"\x81" * 100_000,
    ],
)
def test_other_bytes_are_not_decoded(data: bytes) -> None:
    with pytest.raises(JournalError):
        decode(data)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_value_or_raise_journal_error(data: bytes) -> None:
    try:
        value = decode(data)
    except JournalError:
        return
    encode(value)
