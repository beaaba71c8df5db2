"""Published shares of an average of parameters (pathak), by section 6.9 of docs/wire.md."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.verifier.board import KINDS, Array, Message, Refused, Released, Report, Study, facts, require, sha256
from tests.verifier.release import Result


class Shares(Released):
    """The terms of the run, which follow from the study."""

    def __init__(self, study: Study) -> None:
        given, self.study = study.parameters, study
        self.parties, self.features = len(study.roster), len(study.features)
        self.lam, tolerance, smallest = float(given["lam"]), float(given.get("tolerance", 1e-9)), given["smallest_size"]
        curvature = 2 * self.lam
        mantissa, exponent = math.frexp(2 / (smallest * curvature) / math.sqrt(self.features))
        pitch_exponent = min(0, exponent - (mantissa < 0.5 + 2.0**-40) - 21)
        self.pitch = math.ldexp(1.0, pitch_exponent)
        moved = 2 * (1 + 2 * 2.0**-40) / float(smallest) + 2 * tolerance
        self.sensitivity = math.nextafter(moved / curvature * (1 + 2.0**-50), math.inf)
        self.longest = math.sqrt(2 * math.log(2) / curvature) + tolerance / curvature
        fields = {
            "variant": "public-bound",
            "noise": "laplace",
            "comparisons": "tournament",
            "regulariser": "lambda",
            "classes": list(study.classes),
            "parties": self.parties,
            "features": self.features,
            "lam": self.lam,
            "epsilon": study.epsilon,
            "tolerance": tolerance,
            "smallest_size": smallest,
            "largest_size": given.get("largest_size", 1 << 20),
            "excluded": given.get("excluded", 1),
            "pitch_exponent": pitch_exponent,
            "nonce": study.nonce(b"", "pathak").hex(),
        }
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        self.digest = sha256(b"psephos pathak terms\0", text.encode())

    @property
    def modulus_bits(self) -> int:
        root = math.nextafter(math.sqrt(self.features), math.inf)
        l1 = Fraction(root) * Fraction(self.sensitivity) / Fraction(self.pitch) + self.features
        scale = Fraction(math.ceil(l1 / Fraction(self.study.epsilon) * 2**20), 2**20)
        draws = 2 * self.features * self.parties
        noise = math.ceil(scale * Fraction(math.log(2) * 161 + math.log(draws) + 1e-6)) + 1
        weight = math.ceil(self.longest * (1 + 1e-9) / self.pitch) + 1
        return 8 * -(-((2 * self.parties * (weight + noise) + 1).bit_length() + 1) // 8)

    def facts(self, ballots: int) -> dict[str, Any]:
        return facts("laplace in shares", "record", self.sensitivity, "l2", lam=self.lam)

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        return np.array(sums, dtype=np.float64) * (self.pitch / self.parties)


def check_shares(study: Study, messages: list[Message], report: Report) -> tuple[Result | None, str]:
    """Check the published shares and add them."""
    terms, shares = Shares(study), dict[str, list[int]]()
    bits = terms.modulus_bits
    for message in messages:
        if message.kind != KINDS["published share"]:
            continue
        try:
            body = message.body("published share", terms.digest)
            values = [body.integer(bits // 8 + 1) for _ in range(terms.features)]
            body.end()
            require(all(value < 1 << bits for value in values), "an entry is out of range")
            require(message.sender not in shares, "it has published a share before")
            shares[message.sender] = values
        except Refused:
            continue
    if shares.keys() != study.keys.keys():
        return None, "not all shares are there"
    report.holds.append(f"{len(shares)} shares add up")
    sums = [sum(column) % (1 << bits) for column in zip(*shares.values(), strict=True)]
    total = [x - (1 << bits) if x >> (bits - 1) else x for x in sums]
    return Result(terms, range(terms.parties), total), ""
