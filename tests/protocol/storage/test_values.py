"""States as bytes: what comes back is what was written, and nothing else is ever made of bytes."""

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
    """A value that checks itself, with a field of its own making."""

    value: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError("out of range")
        object.__setattr__(self, "double", 2 * self.value)


@storable_as(lambda key: {"n": key.n})
class Key:
    """No dataclass."""

    def __init__(self, n: int) -> None:
        self.n = n


@dataclass(frozen=True)
class Stranger:
    """Not declared storable."""


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
    """The types of a value, all the way down: 1, 1.0, True and mpz(1) are equal and not the same."""
    if isinstance(value, tuple):
        return tuple(types(item) for item in value)
    if isinstance(value, dict):
        return [(key, type(key), types(item)) for key, item in value.items()]
    return (types(value.x), types(value.y)) if isinstance(value, Point) else type(value)


@given(values)
def test_what_is_read_is_what_was_written(value: Any) -> None:
    again = decode(encode(value))
    assert again == value
    assert types(again) == types(value)


def test_classes_of_their_own() -> None:
    assert decode(encode(Unit(1))).double == 2
    assert decode(encode(Key(2**3072))).n == 2**3072


@pytest.mark.parametrize(
    "value",
    [
        [1],
        {(1,): 2},
        {1: [2]},
        {1},
        object(),
        Stranger(),
        (Stranger(),),
        np.float64(1),
        np.arange(3),
        Point(Stranger()),
        bytearray(),
    ],
)
def test_what_is_no_value_is_not_written(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be written down"):
        encode(value)


def test_only_frozen_dataclasses_are_declared() -> None:
    @dataclass
    class Changing:
        x: int

    for cls in (Changing, int):
        with pytest.raises(TypeError, match="no frozen dataclass"):
            storable(cls)


def record(name: str, parts: Any) -> bytes:
    return cbor2.dumps(cbor2.CBORTag(50_602, [name, parts]))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cannot be read again"),
        (encode((1, 2))[:-1], "cannot be read again"),
        (b"\xff" * 8, "cannot be read again"),
        (cbor2.dumps({(1, 2): 1}), "cannot be read again"),
        (cbor2.dumps(cbor2.CBORTag(50_601, b"x")), "cannot be read again"),
        (cbor2.dumps(cbor2.CBORTag(50_602, 7)), "cannot be read again"),
        (cbor2.dumps(cbor2.CBORTag(50_603, 7)), "cannot be read again"),
        (cbor2.dumps(cbor2.CBORTag(50_601, True)), "cannot be read again"),
        (cbor2.dumps(cbor2.CBORSimpleValue(99)), "cannot be read again"),
        (cbor2.dumps({1}), "cannot be read again"),
        (cbor2.dumps(datetime(2026, 11, 22, tzinfo=UTC)), "cannot be read again"),
        (cbor2.dumps(cbor2.CBORTag(50_602, [[], {}])), "this version has none"),
        (record("os.system", {"command": "true"}), r"a os\.system was written down"),
        (record(f"{__name__}.Stranger", {}), "this version has none"),
        (record(f"{__name__}.Point", {"z": 1}), "cannot be read again"),
        (record(f"{__name__}.Point", {}), "cannot be read again"),
        (record(f"{__name__}.Unit", {"value": 7}), "cannot be read again"),
        (b"\x81" * 100_000, "cannot be read again"),
    ],
)
def test_what_is_no_value_is_not_read(data: bytes, why: str) -> None:
    with pytest.raises(JournalError, match=why):
        decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_named_error(data: bytes) -> None:
    try:
        value = decode(data)
    except JournalError:
        return
    encode(value)


def test_what_a_round_is_made_of_is_a_value(election: Any) -> None:
    again = decode(encode(election.round))
    assert again == election.round
    assert again.digest == election.round.digest
    assert again.key.form == election.round.key.form
