"""The messages of a key setup (docs/protocols/ceremony.md): numbers of fixed length.

Each body begins with its batch (4 bytes) and the stage of the batch (1 byte).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gmpy2 import mpz

from psephos.protocol.ceremony.search import Flat, flat_primes
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import MessageError, ShareRangeError, WrongRoundError
from psephos.protocol.wire import Kind, Reader, frame

MessagesBySender = Mapping[str, bytes]
"""One message of a kind from every holder, by name."""


def written(terms: CeremonyTerms, kind: Kind, batch: int, stage: int, *parts: bytes) -> bytes:
    return frame(kind, terms.digest, batch.to_bytes(4, "big"), bytes([stage]), *parts)


def opened(terms: CeremonyTerms, kind: Kind, batch: int, stage: int, sender: str, data: bytes, length: int) -> Reader:
    """Return a reader of the body of a received message, which must have this length in bytes."""
    try:
        reader = Reader(data, kind, terms.digest, length=length + 5)
        where = (reader.integer(4), reader.integer(1))
    except (MessageError, WrongRoundError) as error:
        raise type(error)(f"{sender}: {error}") from None
    if where != (batch, stage):
        raise WrongRoundError(
            f"{sender}: a {kind.title} of batch {where[0]}, stage {where[1]}; this is {batch}, stage {stage}"
        )
    return reader


_LONGEST_REASON = 400
"""Largest length of a reason in characters; longer ones are cut."""


def failure(terms: CeremonyTerms, why: str) -> bytes:
    return frame(Kind.FAILED_CEREMONY, terms.digest, why[:_LONGEST_REASON].encode())


def reason(terms: CeremonyTerms, data: bytes) -> str:
    """Decode the reason of a failure; raise MessageError unless it is one line of text, or WrongRoundError."""
    try:
        why = Reader(data, Kind.FAILED_CEREMONY, terms.digest).rest().decode()
    except UnicodeDecodeError:
        why = ""
    if not 0 < len(why) <= _LONGEST_REASON or not why.isprintable():
        raise MessageError(f"the reason of a failed key setup must be one line of 1 to {_LONGEST_REASON} characters")
    return why


def pack_residues(terms: CeremonyTerms, residues: Flat) -> bytes:
    """Encode residues modulo every prime with as many bits as the prime has."""
    packed = []
    for prime, part in zip(terms.primes, np.split(residues, np.cumsum(terms.draws)[:-1]), strict=True):
        bits = (part[:, None] >> np.arange(prime.bit_length())) & 1
        packed.append(np.packbits(bits.astype(np.uint8)).tobytes())
    return b"".join(packed)


def packed_bytes(terms: CeremonyTerms) -> int:
    return sum((count * prime.bit_length() + 7) // 8 for prime, count in zip(terms.primes, terms.draws, strict=True))


def unpack_residues(terms: CeremonyTerms, data: bytes, sender: str) -> Flat:
    """Decode packed residues; raise ShareRangeError for a number out of range."""
    at, parts = 0, []
    for prime, count in zip(terms.primes, terms.draws, strict=True):
        width = prime.bit_length()
        size = (count * width + 7) // 8
        bits = np.unpackbits(np.frombuffer(data[at : at + size], np.uint8))[: count * width].reshape(count, width)
        parts.append(bits.astype(np.int64) @ (1 << np.arange(width)))
        at += size
    residues: Flat = np.concatenate(parts)
    if (residues >= flat_primes(terms)).any():
        raise ShareRangeError(f"{sender}: a residue outside its range")
    return residues


def pack_integers(values: Iterable[Any], bound: mpz) -> bytes:
    """Encode integers in [0, bound), each with as many bytes as the bound has."""
    size = byte_length(bound)
    return b"".join(int(value).to_bytes(size, "little") for value in values)


def byte_length(bound: mpz) -> int:
    bits: int = bound.bit_length()
    return (bits + 7) // 8


def unpack_integers(reader: Reader, count: int, bound: mpz, sender: str) -> list[mpz]:
    """Read `count` integers; raise ShareRangeError for one outside [0, bound)."""
    size = byte_length(bound)
    data = reader.take(count * size)
    values = [mpz.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    if any(value >= bound for value in values):
        raise ShareRangeError(f"{sender}: a number outside its range")
    return values
