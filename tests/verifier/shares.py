"""Published shares of an average of parameters (pathak), by section 6.9 of docs/wire.md."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.verifier.board import KINDS, Message, Refused, Study, facts, require, sha256
from tests.verifier.release import Result


@dataclass
class Terms:
    """The terms of the run, which follow from the study."""

    study: Study

    def __post_init__(self) -> None:
        given = self.study.parameters
        self.lam, self.tolerance = float(given["lam"]), float(given.get("tolerance", 1e-9))
        self.smallest, self.largest = given["smallest_size"], given.get("largest_size", 1 << 20)
        self.excluded = given.get("excluded", 1)
        self.parties, self.features = len(self.study.roster), len(self.study.features)
        self.curvature = 2 * self.lam
        sensitivity = 2 / (self.smallest * self.curvature)
        mantissa, exponent = math.frexp(sensitivity / math.sqrt(self.features))
        exponent -= mantissa < 0.5 + 2.0**-40
        self.pitch_exponent = min(0, exponent - 21)
        self.pitch = math.ldexp(1.0, self.pitch_exponent)

    def fields(self) -> dict[str, Any]:
        return {
            "variant": "public-bound",
            "noise": "laplace",
            "comparisons": "tournament",
            "regulariser": "lambda",
            "classes": list(self.study.classes),
            "parties": self.parties,
            "features": self.features,
            "lam": self.lam,
            "epsilon": self.study.epsilon,
            "tolerance": self.tolerance,
            "smallest_size": self.smallest,
            "largest_size": self.largest,
            "excluded": self.excluded,
            "pitch_exponent": self.pitch_exponent,
            "nonce": self.study.nonce(b"", "pathak").hex(),
        }

    @property
    def digest(self) -> bytes:
        text = json.dumps(self.fields(), sort_keys=True, separators=(",", ":"))
        return sha256(b"psephos pathak terms\0", text.encode())

    @property
    def sensitivity(self) -> float:
        moved = 2 * (1 + 2 * 2.0**-40) / float(self.smallest) + 2 * self.tolerance
        return math.nextafter(moved / self.curvature * (1 + 2.0**-50), math.inf)

    @property
    def modulus_bits(self) -> int:
        root = math.nextafter(math.sqrt(self.features), math.inf)
        l1 = Fraction(root) * Fraction(self.sensitivity) / Fraction(self.pitch) + self.features
        scale = Fraction(math.ceil(l1 / Fraction(self.study.epsilon) * 2**20), 2**20)
        draws = 2 * self.features * self.parties
        noise = math.ceil(scale * Fraction(math.log(2) * 161 + math.log(draws) + 1e-6)) + 1
        longest = math.sqrt(2 * math.log(2) / self.curvature) + self.tolerance / self.curvature
        weight = math.ceil(longest * (1 + 1e-9) / self.pitch) + 1
        return 8 * -(-((2 * self.parties * (weight + noise) + 1).bit_length() + 1) // 8)


def check_shares(study: Study, messages: list[Message], report: Any) -> tuple[Result | None, str]:
    """Check the published shares and add them."""
    terms = Terms(study)
    bits, digest, shares = terms.modulus_bits, terms.digest, dict[str, list[int]]()
    width = bits // 8 + 1
    for message in messages:
        if message.kind != KINDS["published share"]:
            continue
        try:
            body = message.body("published share", digest)
            require(len(body.data) == width * terms.features, "a share has another length")
            values = [body.integer(width) for _ in range(terms.features)]
            require(all(value < 1 << bits for value in values), "an entry is out of range")
            require(message.sender in study.keys and message.sender not in shares, "it has published a share before")
            shares[message.sender] = values
        except Refused:
            continue
    if shares.keys() != study.keys.keys():
        return None, "not all shares are there"
    report.holds.append(f"{len(shares)} shares add up")
    sums = [sum(column) % (1 << bits) for column in zip(*shares.values(), strict=True)]
    total = [x - (1 << bits) if x >> (bits - 1) else x for x in sums]
    stated = facts("laplace in shares", "record", terms.sensitivity, "l2", lam=terms.lam)
    w = np.array(total, dtype=np.float64) * (terms.pitch / terms.parties)
    return Result(range(terms.parties), total, w, stated), ""
