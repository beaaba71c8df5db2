"""The privacy ledger: the privacy cost of each release."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.signal import Signal
from psephos.protocol.privacy.accounting import PrivacyEvent
from psephos.protocol.privacy.unit import PrivacyUnit


@dataclass(frozen=True)
class Release:
    """A row of the privacy ledger: the privacy cost of one release.

    Attributes:
        mechanism: the noise.
        epsilon: privacy parameter; None where none is finite, or where `said` describes it; 0 where no party was asked.
        delta: privacy parameter; None where it is not stated.
        unit: what neighbouring inputs differ in, such as "party" or "record".
        sensitivity: sensitivity of the vector that gets the noise; None where it is a secret or not one number.
        norm: norm of the sensitivity.
        source: derivation of the sensitivity.
        said: description of the guarantee in place of epsilon.
        chosen: parameters that a public rule or the caller chose.
        signal: how much of the release is signal, from public values; None where that is not computed.
        protects: what neighbouring inputs differ in, exactly; unknown in the files of older versions.
    """

    mechanism: str
    epsilon: Annotated[float, Meta(ge=0)] | None
    delta: Annotated[float, Meta(ge=0, le=1)] | None
    unit: str
    sensitivity: Annotated[float, Meta(ge=0)] | None = None
    norm: str | None = None
    source: str = ""
    said: str = ""
    chosen: dict[str, Any] = field(default_factory=dict)
    signal: Signal | None = None
    protects: PrivacyUnit = field(default_factory=PrivacyUnit)

    def __post_init__(self) -> None:
        if self.epsilon == 0 and self.mechanism != "none":
            raise ValueError("epsilon is 0, which only a release without noise for which no party was asked has")

    @property
    def worth(self) -> str:
        """Description of how much of the release is signal; empty where that is not computed."""
        if (signal := self.signal) is None:
            return ""
        return (
            f"{signal.share:.0%} (± {signal.share_std:.0%}) of the release's energy is signal, the rest is noise; of "
            f"the public rows it is expected to classify {signal.agreement:.0%} like the classifier without noise, "
            f"which gives its most frequent class to {signal.usual:.0%}"
        )


@dataclass(frozen=True)
class NeighbourCost:
    """What several releases that protect `unit` cost together: sums, None where one has no finite cost."""

    unit: PrivacyUnit
    releases: Annotated[int, Meta(ge=0)]
    epsilon: Annotated[float, Meta(ge=0)] | None
    delta: Annotated[float, Meta(ge=0, le=1)] | None

    def __str__(self) -> str:
        finite = self.epsilon is not None and self.delta is not None
        cost = f"epsilon {self.epsilon:.6g}, delta {self.delta:.3g}" if finite else "no finite epsilon"
        number = "1 release" if self.releases == 1 else f"{self.releases} releases"
        return f"{cost} of one {self.unit} ({number})"


def costs_together(releases: Iterable[Release]) -> tuple[NeighbourCost, ...]:
    """Return what releases cost each unit that one of them protects, in the order of the releases.

    The costs of those that protect a unit (`PrivacyUnit.covers`) are added (basic composition); others may reveal more
    about it. A release for which no party was asked costs nothing and is not counted.
    """
    costly = [release for release in releases if release.epsilon != 0]
    costs: list[NeighbourCost] = []
    for place, release in enumerate(costly):
        unit = release.protects
        if unit.covers(unit) and any(cost.unit == unit for cost in costs):
            continue
        alike = [one for other, one in enumerate(costly) if other == place or one.protects.covers(unit)]
        total = _total(one.epsilon for one in alike), _total((one.delta for one in alike), 1.0)
        costs.append(NeighbourCost(unit, len(alike), *total))
    return tuple(costs)


def _total(numbers: Iterable[float | None], most: float = math.inf) -> float | None:
    """Return the sum of numbers, at most `most`; None if one of them is None."""
    known = list(numbers)
    given = [number for number in known if number is not None]
    return min(math.fsum(given), most) if len(given) == len(known) else None


def ledger_entry(event: PrivacyEvent, bound: Sensitivity, mechanism: str, chosen: dict[str, Any]) -> Release:
    """Return the row of the privacy ledger of a release; `chosen`: parameters that a rule or the caller chose."""
    cost = (event.epsilon, event.delta, event.unit)
    return Release(mechanism, *cost, bound.value, bound.norm, bound.source, chosen=chosen)


def public_entry(chosen: dict[str, Any], unit: str = "party") -> Release:
    """Return the row of the ledger of a classifier for which no party was asked: it costs nothing."""
    return Release("none", 0.0, 0.0, unit, 0.0, "l2", "a function of public rows alone", chosen=chosen)
