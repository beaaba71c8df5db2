"""The privacy ledger: what one release costs the unit it protects (docs/design.md, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.hamm.signal import Signal
from psephos.protocol.privacy.accounting import PrivacyEvent

__all__ = ["Release", "ledger_entry"]


@dataclass(frozen=True)
class Release:
    """What one release costs: a row of the privacy ledger.

    Attributes:
        mechanism: the noise.
        epsilon: None where no finite one holds or words (`said`) take its place.
        delta: None where it is not stated.
        unit: what one replaces to get a neighbour: a party, a record, ...
        sensitivity, norm: of what the noise is added to; None where it is a secret or not one number.
        source: where the sensitivity comes from.
        said: words in place of a number for epsilon.
        chosen: parameters that a public rule or the caller chose.
        signal: how much of it is signal, from itself and public values; None where that is not computed.
    """

    mechanism: str
    epsilon: Annotated[float, Meta(gt=0)] | None
    delta: Annotated[float, Meta(ge=0, le=1)] | None
    unit: str
    sensitivity: Annotated[float, Meta(ge=0)] | None = None
    norm: str | None = None
    source: str = ""
    said: str = ""
    chosen: dict[str, Any] = field(default_factory=dict)
    signal: Signal | None = None

    @property
    def worth(self) -> str:
        """How much of it is signal, in words for everybody; empty where that is not computed."""
        if (signal := self.signal) is None:
            return ""
        return (
            f"{signal.share:.0%} (± {signal.share_std:.0%}) of the release's energy is signal, the rest is noise; of "
            f"the public rows it is expected to classify {signal.agreement:.0%} like the classifier without noise, "
            f"which gives its most frequent class to {signal.usual:.0%}"
        )


def ledger_entry(event: PrivacyEvent, bound: Sensitivity, mechanism: str, chosen: dict[str, Any]) -> Release:
    """Return the row of the privacy ledger of a release.

    Args:
        event: what the release costs.
        bound: the sensitivity that the noise was sized for.
        mechanism: the noise.
        chosen: parameters that a public rule or the caller chose.
    """
    cost = (event.epsilon, event.delta, event.unit)
    return Release(mechanism, *cost, bound.value, bound.norm, bound.source, chosen=chosen)
