"""The decision about one sum by what its specification expects of it (`Spec.expected`), before anything is charged.

It is a function of public values and nothing else, as `psephos.simulation.forecast` is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from psephos.protocol.errors import UselessReleaseError
from psephos.simulation.forecast import EPSILONS, PUBLIC_RELEASED
from psephos.specs.base import Expectation
from psephos.specs.registry import spec_of
from psephos.specs.terms import StudyTerms


@dataclass(frozen=True)
class SumForecast:
    """The decision about one sum over the rows, a function of public values; `decision` as in `Forecast`.

    `useful`: whether the answer is expected to be worth its cost; `expectation`: what is expected, in a sentence.
    """

    decision: Literal["release", "public", "stop"]
    useful: bool
    expectation: str

    @property
    def reason(self) -> str:
        """What was decided, and why, in one line."""
        decided = {
            "release": f"Released{'' if self.useful else ', although it is not expected to be worth its cost'}",
            "public": PUBLIC_RELEASED,
            "stop": "Nothing was encrypted or charged, because it is not expected to be worth its cost",
        }[self.decision]
        return f"{decided}. {self.expectation}"


def decided(
    expected: Callable[[float], Expectation | None], epsilon: float, *, anyway: bool = False, writes: bool = False
) -> SumForecast | None:
    """Decide by what is `expected` at an epsilon; None where nothing is, as in `Spec.expected`.

    `writes`: whether the prediction of the public rows can be written instead; otherwise raises UselessReleaseError
    where the answer is not worth its cost, and the options do not insist.
    """
    if (one := expected(epsilon)) is None:
        return None
    if one.useful or anyway or writes:
        return SumForecast("release" if one.useful or anyway else "public", one.useful, one.words)
    larger = ((value, expected(value)) for value in EPSILONS if value > epsilon)
    enough = [f"--epsilon {value:g}" for value, more in larger if more is not None and more.useful]
    found = [*enough[:1], *one.changes] or ["nothing that was tried"]
    raise UselessReleaseError(SumForecast("stop", one.useful, one.words).reason, found)


def forecast_study(terms: StudyTerms, *, anyway: bool) -> SumForecast | None:
    """Decide about a study of one sum; returns and raises as `decided`."""

    def expected(epsilon: float) -> Expectation | None:
        spec = spec_of(replace(terms, study=replace(terms.study, epsilon=epsilon)))
        return spec.expected(terms.public_terms(spec.parameters))

    return decided(expected, terms.study.epsilon, anyway=anyway)
