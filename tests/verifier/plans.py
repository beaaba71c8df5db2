"""The plan and the round of a study of one sum, by its protocol: section 8 of docs/wire.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tests.verifier.board import Array, Study, require, sha256
from tests.verifier.evaluations import ErrorEvaluation, Evaluation
from tests.verifier.multiclass import Multiclass
from tests.verifier.noise import Plan, Statistic, helmert
from tests.verifier.paillier import Key
from tests.verifier.public import Public
from tests.verifier.records import Records
from tests.verifier.regression import Regression
from tests.verifier.rehearsed import Rehearsed
from tests.verifier.sums import Noise, Round


class Votes(Plan):
    """The votes of a tally."""

    kind, noisy, range = "votes", False, (0, 1)

    def __init__(self, study: Study, public: Public) -> None:
        super().__init__(study, public)
        self.group = self.classes - 1
        self.length = len(self.samples) * self.group

    @cached_property
    def context(self) -> bytes:
        names = b"".join(len(str(k)).to_bytes(4, "big") + str(k).encode() for k in range(self.classes))
        return sha256(b"psephos votes\0", b"\0", self.public.digest, self.classes.to_bytes(4, "big"), names)


class Parameters(Plan):
    """The parameters of classifiers, of which an average is made."""

    kind, noisy = "parameters", False

    def __init__(self, study: Study, public: Public) -> None:
        super().__init__(study, public)
        self.radius = float(self.given["radius"])
        self.limit = math.floor(Fraction(self.radius) * 2**24)
        self.range = -self.limit, self.limit
        self.length = len(study.features) * (1 if self.classes == 2 else self.classes)

    @cached_property
    def context(self) -> bytes:
        return sha256(f"psephos parameters {self.radius.hex()} 24".encode())

    @property
    def squares(self) -> int:
        return min(self.length * self.limit**2, math.floor((Fraction(self.radius) * 2**24) ** 2))


class Head(Plan):
    """The mean of linear classifiers that the parties bring."""

    ball, range = 2**24, (-(2**24), 2**24)

    def __init__(self, study: Study, public: Public) -> None:
        super().__init__(study, public)
        self.radius, self.shape = float(self.given["radius"]), (self.classes - 1, len(study.features))
        self.length, self.by_holders = self.shape[0] * self.shape[1], self.given_to_holders()
        require(2.0**-20 <= self.radius <= 2.0**20, "the radius is out of range")
        require(study.delta > 0, "Gaussian noise needs a delta")

    @cached_property
    def context(self) -> bytes:
        return sha256(b"psephos head\0", repr((self.shape[1], self.classes, self.radius.hex(), 24)).encode())

    def value(self, ballots: int) -> float:
        return self.radius / (2**24 * ballots)

    @property
    def about(self) -> dict[str, Any]:
        return {"radius": self.radius}

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        mean = np.array([int(v) / (ballots * 2**24) for v in sums]).reshape(self.shape) * self.radius
        return mean[0] if self.classes == 2 else helmert(self.classes).T @ mean


def plan_of(study: Study, public: Public) -> Plan:
    plans: dict[str, type[Plan]] = {
        "tally": Votes,
        "average": Parameters if study.method == "avg" else Statistic,
        "head": Head,
        "statistic": Multiclass if len(study.classes) > 2 else Statistic,
        "record": Records,
        "regression": Regression,
        "evaluation": Evaluation if study.classes else ErrorEvaluation,
        "rehearsed": Rehearsed,
    }
    return plans[study.protocol](study, public)


def round_of(plan: Plan, key: Key) -> Round:
    nonce = plan.study.nonce(key.digest, "round")
    noise = Noise(plan.share[0], plan.share[1] ** 2) if plan.by_holders else None
    terms = plan.length, *plan.entries, plan.context, nonce, plan.group, plan.squares, noise
    return Round(plan.study, key, plan.kind, *terms)
