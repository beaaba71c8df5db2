"""Where random numbers come from.

Every round function takes its randomness as an argument. The default is the operating system's generator,
and it is the only source that keys, encryption, shares and released noise may use in earnest. The seeded
source exists so that a simulation can be repeated and is named for what it is; the recorded and replayed
sources are what a transcript keeps of a role's coin tosses (its *view*).

No paper behind it: rejection sampling is folklore, and the seeded stream is SHAKE-256 (FIPS 202) in counter mode.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod

from psephos.protocol.errors import InvalidParameter, RandomnessExhausted


class Randomness(ABC):
    """A source of independent uniform bytes; everything else is derived from `draw`."""

    @abstractmethod
    def draw(self, count: int) -> bytes:
        """`count` uniform bytes."""

    def bits(self, count: int) -> int:
        """A uniform integer in [0, 2**count)."""
        return int.from_bytes(self.draw((count + 7) // 8), "big") >> (-count % 8)

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), by rejection; raises InvalidParameter when bound < 1."""
        if bound < 1:
            raise InvalidParameter(f"a uniform integer below {bound} does not exist; the bound must be at least 1")
        width = (bound - 1).bit_length()
        while True:
            value = self.bits(width)
            if value < bound:
                return value


class SystemRandomness(Randomness):
    """The operating system's cryptographic generator."""

    def draw(self, count: int) -> bytes:
        return secrets.token_bytes(count)


SYSTEM = SystemRandomness()
"""The default source everywhere."""


class SimulationRandomness(Randomness):
    """A stream expanded from a seed (SHAKE-256), for repeatable simulations and tests only.

    Whoever knows the seed knows everything drawn from it, so nothing drawn from it protects anybody.
    """

    _BLOCK = 4096

    def __init__(self, seed: int, *labels: int | str) -> None:
        self._prefix = hashlib.sha256(repr((seed, labels)).encode()).digest()
        self._counter = 0
        self._buffer = b""

    def draw(self, count: int) -> bytes:
        chunks = [self._buffer]
        held = len(self._buffer)
        while held < count:
            block = hashlib.shake_256(self._prefix + self._counter.to_bytes(8, "big")).digest(self._BLOCK)
            self._counter += 1
            chunks.append(block)
            held += self._BLOCK
        stream = b"".join(chunks)
        self._buffer = stream[count:]
        return stream[:count]


class RecordedRandomness(Randomness):
    """Passes another source through and keeps what was drawn. The tape is as secret as the role it belongs to."""

    def __init__(self, source: Randomness = SYSTEM) -> None:
        self._source = source
        self._tape = bytearray()

    def draw(self, count: int) -> bytes:
        drawn = self._source.draw(count)
        self._tape += drawn
        return drawn

    def tape(self) -> bytes:
        """All bytes drawn so far, in order."""
        return bytes(self._tape)

    def __repr__(self) -> str:
        return f"<RecordedRandomness, {len(self._tape)} bytes drawn>"


class ReplayedRandomness(Randomness):
    """Plays a tape back, byte for byte; raises RandomnessExhausted at its end."""

    def __init__(self, tape: bytes) -> None:
        self._tape = tape
        self._position = 0

    def draw(self, count: int) -> bytes:
        """The next `count` bytes of the tape; raises RandomnessExhausted at its end."""
        end = self._position + count
        if end > len(self._tape):
            raise RandomnessExhausted(
                f"the tape holds {len(self._tape)} bytes and {end} were asked for: this is not the run it was "
                "recorded from"
            )
        drawn = self._tape[self._position : end]
        self._position = end
        return drawn

    def __repr__(self) -> str:
        return f"<ReplayedRandomness, {len(self._tape) - self._position} bytes left>"
