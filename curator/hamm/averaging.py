"""Parameter averaging (Pathak 2010; Hamm 2016, appendix B.4) from an encrypted sum of projected parameters.

Every party projects its parameters on the ball of a public radius C and encodes them in fixed point, so the party-level
sensitivity of the average is 2 C/M (`psephos.curator.hamm.sensitivity.average`), however the parties trained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.fixed_point import FixedPoint


@dataclass(frozen=True)
class Average:
    """The average w, (d,) or (K, d), of M parties' parameters in a ball of radius C: a secret, hidden in `repr`."""

    w: NDArray[np.float64] = field(repr=False)
    radius: float
    parties: int

    @property
    def inexactness(self) -> float:
        """Bound of the distance of w from the exact average, whose entries are correctly rounded. Public."""
        return 2.0**-53 * self.radius + 2.0**-1000

    @property
    def norm_limit(self) -> float:
        """Bound of the norm of w. Public."""
        return self.radius * (1 + 2.0**-50)


def average_of(
    sums: Sequence[int], parties: int, radius: float, fixed_point: FixedPoint, *, features: int, classes: int = 2
) -> Average:
    """Decode the average of M parties' parameters from the sum of their encodings, d integers, or K d row by row."""
    if parties < 1:
        raise InvalidParameter(f"an average needs at least one party, not {parties}")
    shape = (features,) if classes == 2 else (classes, features)
    if len(sums) != math.prod(shape):
        raise DataError(f"the sum has {len(sums)} entries, not {math.prod(shape)} as agreed")
    bound = parties * Fraction(radius) * 2**fixed_point.fraction_bits
    if sum(int(total) ** 2 for total in sums) > bound * bound:
        raise DataError("the sum is longer than the agreed ball allows, so a party did not project its parameters")
    return Average(fixed_point.mean(sums, parties).reshape(shape), float(radius), int(parties))
