"""A descent (psgd): its terms, announcements, sums and points, by section 6.8 of docs/wire.md."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from tests.verifier.board import KINDS, Message, Refused, Study, facts, require, sha256
from tests.verifier.bounded import Packing, widened
from tests.verifier.paillier import Key
from tests.verifier.release import Result
from tests.verifier.share_bounds import gaussian_length, gaussian_variance, rounded_up
from tests.verifier.sums import Round, check_sum

Array = NDArray[np.float64]
DOUBLE = gmpy2.context(precision=53)


@dataclass
class Terms:
    """What is agreed on before the first step."""

    study: Study
    key: Key

    def __post_init__(self) -> None:
        study, given = self.study, self.study.parameters
        self.variant = given.get("variant", "gaussian")
        require("unit" not in given, "a unit is no parameter of a descent")
        require(self.variant in ("gaussian", "halving"), "the variant is beyond this verifier")
        self.sizes = [int(size) for size in given["sizes"].split()]
        self.parties, self.dimension = len(study.roster), len(study.features)
        require(len(self.sizes) == self.parties, "the sizes are of another number of parties")
        self.records, largest = sum(self.sizes), max(self.sizes)
        self.colluders = int(given.get("colluders", max(0, study.threshold - 1)))
        dropouts = int(given.get("dropouts", 0))
        require(study.minimum == self.parties - dropouts, "the minimum of ballots is another")
        honest = self.parties - self.colluders - dropouts - (self.variant == "gaussian")
        require(honest >= 1, "nobody's noise is left")
        limit = 1.0 * largest * (1 + 2.0**-30)
        self.bound = min(limit, float(given["party_bound"])) if "party_bound" in given else limit
        self.fraction_bits, self.steps = int(given.get("fraction_bits", 20)), int(given.get("steps", 200))
        self.pitch, self.lam = math.ldexp(1.0, -self.fraction_bits), float(given.get("lam", 0.1))
        rounding = 2 * 1.0 * (2.0**-30 + largest * (largest + 2) * 2.0**-53)
        self.sensitivity = 2.0 + self.pitch * math.sqrt(self.dimension) + rounding
        if self.variant == "gaussian":
            self.law, l2 = "discrete-gaussian", self.sensitivity / self.pitch
            delta = study.delta - (1 + math.exp(study.epsilon)) * 2.0**-60
            variance = float(gaussian_variance(l2, study.epsilon, delta, self.steps) / honest)
            self.scale = rounded_up(math.nextafter(variance, math.inf))
            require(self.scale >= 18, "the noise is too small for its grid")
        else:
            self.law = "spherical-laplace-halving"
            self.scale = rounded_up(math.nextafter(self.sensitivity / study.epsilon, math.inf))
        ridge, smooth = self.lam + 0.0, 0.25 if given.get("loss", "logistic") == "logistic" else 1.0
        total = smooth + ridge
        self.ridge = ridge
        self.radius = float(given.get("radius", (1.0 + 0.0 / self.records) / ridge))
        self.first = float(given.get("first_step", 1 / total))
        self.offset = float(given.get("step_offset", 2 * total / ridge))
        self.power = float(given.get("step_power", 1.0))
        self.tolerance, self.window = float(given.get("stop_tolerance", 0.0)), int(given.get("stop_window", 50))
        self.smoothness = smooth

    @cached_property
    def digest(self) -> bytes:
        study = self.study
        series = (
            self.parties,
            self.steps,
            self.dimension,
            self.bound,
            self.fraction_bits,
            (0.0,) * self.parties,
            self.law,
            self.scale,
            study.minimum,
            study.nonce(self.key.digest, "series"),
        )
        sizes, stopping = (self.first, self.offset, self.power), (self.tolerance, self.window)
        descent = (self.records, self.ridge, self.smoothness, self.radius, sizes, stopping)
        rest = repr((descent, study.trial, study.proofs, study.confirmations)).encode()
        of_series = sha256(b"psephos series\0", repr(series).encode())
        return sha256(b"psephos terms\0", of_series, self.key.digest, *study.roster, rest)

    def entry_bound(self, step: int) -> int:
        tail = 66 * math.log(2) + math.log(2 * self.dimension * self.parties * (self.steps + 1))
        vector = math.ceil(self.bound / self.pitch) + 1
        if self.law == "discrete-gaussian":
            return vector + math.ceil(math.sqrt(2 * self.scale * tail)) + 1
        d, x = self.dimension, 2.0 * self.dimension
        while x - d - d * math.log(x / d) < tail:
            x *= 1.05
        return vector + math.ceil(math.ldexp(self.scale, step) / self.pitch * x) + 1

    def square_bound(self, step: int, packing: Packing) -> int:
        """The largest sum of squares of a party's noisy vector."""
        d, root = self.dimension, math.isqrt(self.dimension) + 1
        norm = math.ceil(self.bound / self.pitch * (1 + 2.0**-40)) + root
        if self.law == "discrete-gaussian":
            norm += gaussian_length(d, self.scale, self.parties)
        else:
            norm += self.entry_bound(step) - math.ceil(self.bound / self.pitch) - 1 + root
        return min(norm**2, d * max(-packing.minimum, packing.maximum) ** 2)

    def round(self, step: Step) -> Round:
        """The sum of a step."""
        bound = self.entry_bound(step.number)
        context = sha256(b"psephos step\0", step.data)
        terms = (self.study, self.key, "gradients", self.dimension, -bound, bound, context, step.nonce)
        round_ = Round(*terms)
        if not round_.bounded:
            return round_
        return Round(*terms, squares=self.square_bound(step.number, round_.packing))

    def largest(self, step: int) -> int:
        """The largest absolute value of an entry of a party's vector in the range of the packing plan."""
        bound = self.entry_bound(step)
        packing = Packing(self.key, self.dimension, self.parties, -bound, bound)
        if self.study.proofs == "valid":
            packing = widened(packing)
        return max(-packing.minimum, packing.maximum)

    def next(self, point: tuple[float, ...], sums: list[int], t: int) -> tuple[float, ...]:
        w = np.array(point)
        noisy = np.array([float(s) for s in sums]) * self.pitch
        size = self.first / float(DOUBLE.pow(1 + t / self.offset, self.power))
        moved = w - size * (noisy / self.records + self.ridge * w)
        norm = _norm(moved)
        moved = moved if norm <= self.radius else moved * (self.radius / norm)
        return tuple(moved.tolist())

    def over(self, points: list[tuple[float, ...]]) -> bool:
        if len(points) > self.steps:
            return True
        if not self.tolerance or len(points) <= self.window:
            return False
        last = np.array(points[-1])
        return _norm(last - np.array(points[-1 - self.window])) <= self.tolerance * _norm(last)


def _norm(vector: Array) -> float:
    return float(DOUBLE.sqrt(DOUBLE.fsum([DOUBLE.square(gmpy2.mpfr(x)) for x in vector.tolist()])))


@dataclass(frozen=True)
class Step:
    """An announced step."""

    number: int
    entry: int
    nonce: bytes
    data: bytes


def _announced(terms: Terms, message: Message, points: list[tuple[float, ...]], open_: Step | None) -> Step:
    require(message.sender == "curator", "only the curator announces")
    body = message.body("announcement", terms.digest)
    require(len(body.data) == 20 + 8 * terms.dimension, "an announcement has another length")
    number, nonce = body.integer(4), body.take(16)
    point = struct.unpack(f">{terms.dimension}d", body.rest())
    require(not terms.over(points) and open_ is None and number == len(points), "the step is not due")
    require(point == points[-1], "the point is not the one that follows")
    return Step(number, message.number, nonce, message.data)


def _published(terms: Terms, message: Message) -> tuple[int, int, list[int]]:
    body = message.body("published sum", terms.digest)
    number, holder = body.integer(4), body.integer(1)
    require(1 <= number <= terms.steps and 1 <= holder <= terms.key.holders, "there is no such step or holder")
    require(message.sender == f"holder {holder}", "it is another holder's")
    most = terms.parties * terms.largest(number)
    size = most.bit_length() // 8 + 1
    sums = [int.from_bytes(body.take(size), "big", signed=True) for _ in range(terms.dimension)]
    body.end()
    require(all(abs(entry) <= most for entry in sums), "an entry exceeds every sum")
    return number, holder, sums


def check_series(
    study: Study, key: Key, messages: list[Message], readable: list[Message], report: Any
) -> tuple[Result | None, str]:
    """Check every step of a descent."""
    terms = Terms(study, key)
    points, open_, claims = [(0.0,) * terms.dimension], None, dict[int, list[int]]()
    parties: list[int] = []
    lacks, sums = "", None
    of_sums = {KINDS[name] for name in ("ballot", "close", "confirmation", "partial decryption")}
    for message in messages:
        try:
            if message.kind == KINDS["announcement"]:
                open_, claims = _announced(terms, message, points, open_), {}
                continue
            if message.kind != KINDS["published sum"]:
                continue
            number, holder, entries = _published(terms, message)
            if number < len(points):
                continue
            require(open_ is not None and number == open_.number and holder not in claims, "the sum is not due")
        except Refused:
            continue
        claims[holder] = entries
        if sum(one == entries for one in claims.values()) < key.threshold:
            continue
        assert open_ is not None
        round_ = terms.round(open_)
        own = [
            one for one in messages if one.number > open_.entry and one.kind in of_sums and one.session == round_.digest
        ]
        result = check_sum(round_, own, readable)
        report.fails += [f"step {number}: {why}" for why in result.failures]
        report.misconduct |= result.misconduct
        if result.sums is None:
            lacks = f"nobody opens the sum of step {number}: {result.lacks}"
        elif result.sums != entries:
            report.fails.append(f"step {number}: the published sum is not the opened one")
        parties, sums = sorted(result.counted), result.sums
        points.append(terms.next(points[-1], entries, number - 1))
        open_, claims = None, {}
    if not terms.over(points):
        return None, "the descent is not over"
    report.holds.append(f"{len(points) - 1} steps")
    chosen = {"steps": terms.steps, "lam": terms.lam, "colluders": terms.colluders}
    stated = facts(terms.law, "record", terms.sensitivity, "l2", **chosen)
    if lacks or sums is None:
        return None, lacks or "the last sum is not there"
    return Result(parties, sums, np.array(points[-1]), stated), ""
