"""Messages of a ceremony belong to one batch and stage, have one length, and contain numbers below their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from gmpy2 import mpz

from psephos.protocol.ceremony.messages import (
    byte_length,
    failure,
    opened,
    pack_integers,
    pack_residues,
    packed_bytes,
    reason,
    unpack_integers,
    unpack_residues,
    written,
)
from psephos.protocol.ceremony.search import flat_primes
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import MessageError, PsephosError, ShareRangeError, WrongRoundError
from psephos.protocol.wire import HEADER_BYTES, Kind, Reader, frame

TERMS = CeremonyTerms(128, 3, 2, bytes(32), test_key=True)
OTHER = CeremonyTerms(128, 4, 2, bytes(32), test_key=True)


def test_a_message_of_another_batch_stage_or_length_is_rejected() -> None:
    data = written(TERMS, Kind.TEST_VALUES, 258, 3, b"ab", b"c")
    assert data == frame(Kind.TEST_VALUES, TERMS.digest, b"\0\0\1\2\3abc")
    assert opened(TERMS, Kind.TEST_VALUES, 258, 3, "holder 2", data, 3).rest() == b"abc"
    wrong: list[tuple[CeremonyTerms, Kind, int, int, int, type[PsephosError]]] = [
        (TERMS, Kind.TEST_VALUES, 257, 3, 3, WrongRoundError),
        (TERMS, Kind.TEST_VALUES, 258, 2, 3, WrongRoundError),
        (OTHER, Kind.TEST_VALUES, 258, 3, 3, WrongRoundError),
        (TERMS, Kind.MODULUS_SHARES, 258, 3, 3, MessageError),
        (TERMS, Kind.TEST_VALUES, 258, 3, 2, MessageError),
        (TERMS, Kind.TEST_VALUES, 258, 3, 4, MessageError),
    ]
    for terms, kind, batch, stage, length, error in wrong:
        with pytest.raises(error):
            opened(terms, kind, batch, stage, "holder 2", data, length)
    with pytest.raises(MessageError):
        opened(TERMS, Kind.TEST_VALUES, 258, 3, "holder 2", data[: HEADER_BYTES + 4], 0)


def test_the_reason_of_a_failure_is_one_line_of_at_most_400_characters() -> None:
    for text in ("x", "y" * 400, "holder 2: né"):
        assert reason(TERMS, failure(TERMS, text)) == text
    assert reason(TERMS, failure(TERMS, "z" * 500)) == "z" * 400
    for malformed in (b"", b"a" * 401, b"two\nlines", b"\xff", b"bell\7"):
        with pytest.raises(MessageError):
            reason(TERMS, frame(Kind.FAILED_CEREMONY, TERMS.digest, malformed))
    with pytest.raises(WrongRoundError):
        reason(OTHER, failure(TERMS, "x"))


def test_packed_residues_round_trip_and_are_below_their_primes() -> None:
    primes = flat_primes(TERMS)
    for residues in (primes - 1, 0 * primes, np.arange(len(primes)) % primes):
        data = pack_residues(TERMS, residues)
        assert len(data) == packed_bytes(TERMS)
        assert np.array_equal(unpack_residues(TERMS, data, "holder 3"), residues)
    for place in (0, len(primes) - 1):
        residues = 0 * primes
        residues[place] = primes[place]
        with pytest.raises(ShareRangeError):
            unpack_residues(TERMS, pack_residues(TERMS, residues), "holder 3")


@pytest.mark.parametrize("bound", [2, 255, 256, 257, 2**16, 2**16 + 1, 10**30])
def test_packed_integers_round_trip_and_are_below_their_bound(bound: int) -> None:
    size = byte_length(mpz(bound))
    assert size == (bound.bit_length() + 7) // 8
    values = [0, bound - 1, bound // 2]

    def received(numbers: list[int], count: int = 3) -> list[mpz]:
        data = frame(Kind.TEST_VALUES, bytes(32), b"".join(number.to_bytes(size, "little") for number in numbers))
        return unpack_integers(Reader(data, Kind.TEST_VALUES, None), count, mpz(bound), "holder 1")

    assert pack_integers(values, mpz(bound)) == b"".join(value.to_bytes(size, "little") for value in values)
    assert received(values) == values
    assert received(values, 2) == values[:2]
    with pytest.raises(ShareRangeError):
        received([0, 1, bound])
    with pytest.raises(MessageError):
        received(values[:2])
