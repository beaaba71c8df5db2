"""Sources of random numbers.

Keys, encryption, shares and released noise of a real run use the operating system's generator, the default. The seeded
source (SHAKE-256, FIPS 202, in counter mode) makes simulations repeatable; the others serve transcripts.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod

from psephos.protocol.errors import InvalidParameter


class Randomness(ABC):
    """A source of independent uniform bytes. All other values are derived from `draw`."""

    @abstractmethod
    def draw(self, count: int) -> bytes:
        """Return `count` uniform bytes."""

    def bits(self, count: int) -> int:
        return int.from_bytes(self.draw((count + 7) // 8), "big") >> (-count % 8)

    def below(self, bound: int) -> int:
        """Return a uniform integer in [0, bound); raises InvalidParameter."""
        if bound < 1:
            raise InvalidParameter(f"there is no integer in [0, {bound}); the bound must be at least 1")
        width = (bound - 1).bit_length()
        while True:
            value = self.bits(width)
            if value < bound:
                return value


class SystemRandomness(Randomness):
    def draw(self, count: int) -> bytes:
        return secrets.token_bytes(count)


SYSTEM = SystemRandomness()
"""The default source."""


class SimulationRandomness(Randomness):
    """A stream derived from a seed, for repeatable simulations and tests only: it protects nobody."""

    _BLOCK = 4096

    def __init__(self, seed: int, *labels: int | str) -> None:
        """Begin a stream; `labels` distinguish the streams of one seed."""
        self._prefix = hashlib.sha256(repr((seed, labels)).encode()).digest()
        self._counter = 0
        self._buffer = b""

    def draw(self, count: int) -> bytes:
        chunks = [self._buffer]
        available = len(self._buffer)
        while available < count:
            block = hashlib.shake_256(self._prefix + self._counter.to_bytes(8, "big")).digest(self._BLOCK)
            self._counter += 1
            chunks.append(block)
            available += self._BLOCK
        stream = b"".join(chunks)
        self._buffer = stream[count:]
        return stream[:count]


class RecordedRandomness(Randomness):
    """Draws from another source and records what was drawn. The tape is as secret as the role that it belongs to."""

    def __init__(self, source: Randomness = SYSTEM) -> None:
        self._source = source
        self._tape = bytearray()

    def draw(self, count: int) -> bytes:
        data = self._source.draw(count)
        self._tape += data
        return data

    def tape(self) -> bytes:
        return bytes(self._tape)


class ReplayedRandomness(Randomness):
    """Returns the bytes of a recorded tape."""

    def __init__(self, tape: bytes) -> None:
        self._tape = tape
        self._position = 0

    def draw(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._tape):
            raise InvalidParameter(
                f"the tape has {len(self._tape)} bytes and the run needs {end}: it was recorded from another run"
            )
        data = self._tape[self._position : end]
        self._position = end
        return data
