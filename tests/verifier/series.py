"""A descent (psgd): its terms, announcements, sums and points, by section 6.8 of docs/wire.md."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
import numpy as np

from tests.verifier.board import KINDS, Array, Message, Refused, Released, Report, Study, facts, require, sha256
from tests.verifier.bounded import widened
from tests.verifier.hashproof import Packing
from tests.verifier.noise import gaussian_length, gaussian_variance, rounded_up
from tests.verifier.paillier import Key
from tests.verifier.release import Result
from tests.verifier.sums import Round, check_sum

DOUBLE = gmpy2.context(precision=53)


@dataclass(frozen=True)
class Step:
    """An announced step."""

    number: int
    entry: int
    nonce: bytes
    data: bytes


class Descent(Released):
    """What is agreed on before the first step, and the points so far."""

    def __init__(self, study: Study, key: Key) -> None:
        self.study, self.key, given = study, key, study.parameters
        variant = given.get("variant", "gaussian")
        require("unit" not in given, "a unit is no parameter of a descent")
        require(variant in ("gaussian", "halving"), "the variant is beyond this verifier")
        self.gaussian = variant == "gaussian"
        sizes = [int(size) for size in given["sizes"].split()]
        self.parties, self.dimension = len(study.roster), len(study.features)
        require(len(sizes) == self.parties, "the sizes are of another number of parties")
        self.records, largest = sum(sizes), max(sizes)
        self.colluders = int(given.get("colluders", max(0, study.threshold - 1)))
        dropouts = int(given.get("dropouts", 0))
        require(study.minimum == self.parties - dropouts, "the minimum of ballots is another")
        honest = self.parties - self.colluders - dropouts - self.gaussian
        require(honest >= 1, "nobody's noise is left")
        limit = 1.0 * largest * (1 + 2.0**-30)
        self.bound = min(limit, float(given.get("party_bound", limit)))
        self.fraction_bits, self.steps = int(given.get("fraction_bits", 20)), int(given.get("steps", 200))
        self.pitch, self.lam = math.ldexp(1.0, -self.fraction_bits), float(given.get("lam", 0.1))
        rounding = 2 * 1.0 * (2.0**-30 + largest * (largest + 2) * 2.0**-53)
        self.sensitivity = 2.0 + self.pitch * math.sqrt(self.dimension) + rounding
        if self.gaussian:
            self.law, l2 = "discrete-gaussian", self.sensitivity / self.pitch
            delta = study.delta - (1 + math.exp(study.epsilon)) * 2.0**-60
            scale = float(gaussian_variance(l2, study.epsilon, delta, self.steps) / honest)
        else:
            self.law, scale = "spherical-laplace-halving", self.sensitivity / study.epsilon
        self.scale = rounded_up(math.nextafter(scale, math.inf))
        require(self.scale >= 18 or not self.gaussian, "the noise is too small for its grid")
        self.smoothness = 0.25 if given.get("loss", "logistic") == "logistic" else 1.0
        total = self.smoothness + self.lam
        self.radius = float(given.get("radius", 1.0 / self.lam))
        self.first = float(given.get("first_step", 1 / total))
        self.offset = float(given.get("step_offset", 2 * total / self.lam))
        self.power = float(given.get("step_power", 1.0))
        self.tolerance, self.window = float(given.get("stop_tolerance", 0.0)), int(given.get("stop_window", 50))
        self.points = [(0.0,) * self.dimension]

    @cached_property
    def digest(self) -> bytes:
        study, zeros = self.study, (0.0,) * self.parties
        nonce = study.nonce(self.key.digest, "series")
        sizes = self.parties, self.steps, self.dimension, self.bound, self.fraction_bits
        of_series = sha256(
            b"psephos series\0", repr((*sizes, zeros, self.law, self.scale, study.minimum, nonce)).encode()
        )
        rates, stopping = (self.first, self.offset, self.power), (self.tolerance, self.window)
        descent = (self.records, self.lam, self.smoothness, self.radius, rates, stopping)
        rest = repr((descent, study.trial, study.proofs, study.confirmations)).encode()
        return sha256(b"psephos terms\0", of_series, self.key.digest, *study.roster, rest)

    # -- the sum of a step

    def entry_bound(self, step: int) -> int:
        d = self.dimension
        tail = 66 * math.log(2) + math.log(2 * d * self.parties * (self.steps + 1))
        if self.gaussian:
            noise = math.sqrt(2 * self.scale * tail)
        else:
            x = 2.0 * d
            while x - d - d * math.log(x / d) < tail:
                x *= 1.05
            noise = math.ldexp(self.scale, step) / self.pitch * x
        return math.ceil(self.bound / self.pitch) + math.ceil(noise) + 2

    def largest(self, step: int) -> int:
        """The largest absolute value of an entry of a party's vector in the range of the packing plan."""
        bound = self.entry_bound(step)
        packing = Packing(self.key, self.dimension, self.parties, -bound, bound)
        if self.study.proofs == "valid":
            packing = widened(packing)
        return max(-packing.minimum, packing.maximum)

    def square_bound(self, step: int) -> int:
        """The largest sum of squares of a party's noisy vector."""
        d, root = self.dimension, math.isqrt(self.dimension) + 1
        norm = math.ceil(self.bound / self.pitch * (1 + 2.0**-40)) + root
        if self.gaussian:
            norm += gaussian_length(d, self.scale, self.parties)
        else:
            norm += self.entry_bound(step) - math.ceil(self.bound / self.pitch) - 1 + root
        return min(norm**2, d * self.largest(step) ** 2)

    def round(self, step: Step) -> Round:
        bound, context = self.entry_bound(step.number), sha256(b"psephos step\0", step.data)
        squares = self.square_bound(step.number) if self.study.proofs == "valid" else None
        terms = self.dimension, -bound, bound, context, step.nonce
        return Round(self.study, self.key, "gradients", *terms, squares=squares)

    # -- messages

    def announced(self, message: Message, open_: Step | None) -> Step:
        require(message.sender == "curator", "only the curator announces")
        body = message.body("announcement", self.digest)
        require(len(body.data) == 20 + 8 * self.dimension, "an announcement has another length")
        number, nonce = body.integer(4), body.take(16)
        point = struct.unpack(f">{self.dimension}d", body.rest())
        require(not self.over and open_ is None and number == len(self.points), "the step is not due")
        require(point == self.points[-1], "the point is not the one that follows")
        return Step(number, message.number, nonce, message.data)

    def published(self, message: Message) -> tuple[int, int, list[int]]:
        """The step, the holder and the entries of a published sum."""
        body = message.body("published sum", self.digest)
        number, holder = body.integer(4), body.holder(message)
        require(1 <= number <= self.steps, "there is no such step")
        most = self.parties * self.largest(number)
        size = most.bit_length() // 8 + 1
        sums = [int.from_bytes(body.take(size), "big", signed=True) for _ in range(self.dimension)]
        body.end()
        require(all(abs(entry) <= most for entry in sums), "an entry exceeds every sum")
        return number, holder, sums

    # -- points

    def move(self, sums: Sequence[int]) -> None:
        """Add the point that follows from the sum of a step."""
        w, t = np.array(self.points[-1]), len(self.points) - 1
        noisy = np.array([float(s) for s in sums]) * self.pitch
        size = self.first / float(DOUBLE.pow(1 + t / self.offset, self.power))
        moved = w - size * (noisy / self.records + self.lam * w)
        norm = _norm(moved)
        moved = moved if norm <= self.radius else moved * (self.radius / norm)
        self.points.append(tuple(moved.tolist()))

    @property
    def over(self) -> bool:
        if len(self.points) > self.steps:
            return True
        if not self.tolerance or len(self.points) <= self.window:
            return False
        last = np.array(self.points[-1])
        return _norm(last - np.array(self.points[-1 - self.window])) <= self.tolerance * _norm(last)

    def facts(self, ballots: int) -> dict[str, Any]:
        chosen = {"steps": self.steps, "lam": self.lam, "colluders": self.colluders}
        return facts(self.law, "record", self.sensitivity, "l2", **chosen)

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        return np.array(self.points[-1])


def _norm(vector: Array) -> float:
    return float(DOUBLE.sqrt(DOUBLE.fsum([DOUBLE.square(gmpy2.mpfr(x)) for x in vector.tolist()])))


def check_series(
    study: Study, key: Key, messages: list[Message], readable: list[Message], report: Report
) -> tuple[Result | None, str]:
    """Check every step of a descent."""
    descent, open_, claims = Descent(study, key), None, dict[int, list[int]]()
    parties, sums, lacks = list[int](), None, ""
    of_sums = {KINDS[name] for name in ("ballot", "close", "confirmation", "partial decryption")}
    for message in messages:
        try:
            if message.kind == KINDS["announcement"]:
                open_, claims = descent.announced(message, open_), {}
                continue
            if message.kind != KINDS["published sum"]:
                continue
            number, holder, entries = descent.published(message)
            require(open_ is not None and number == open_.number and holder not in claims, "the sum is not due")
        except Refused:
            continue
        claims[holder] = entries
        if sum(one == entries for one in claims.values()) < key.threshold:
            continue
        assert open_ is not None
        round_ = descent.round(open_)
        own = [one for one in messages if one.number > open_.entry and one.kind in of_sums]
        result = check_sum(round_, [one for one in own if one.session == round_.digest], readable)
        report.fails += [f"step {number}: {why}" for why in result.failures]
        report.misconduct |= result.misconduct
        if result.sums is None:
            lacks = f"nobody opens the sum of step {number}: {result.lacks}"
        elif result.sums != entries:
            report.fails.append(f"step {number}: the published sum is not the opened one")
        parties, sums = sorted(result.counted), result.sums
        descent.move(entries)
        open_, claims = None, {}
    if not descent.over:
        return None, "the descent is not over"
    report.holds.append(f"{len(descent.points) - 1} steps")
    if lacks or sums is None:
        return None, lacks or "the last sum is not there"
    return Result(descent, parties, sums), ""
