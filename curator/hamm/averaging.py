"""Parameter averaging (Pathak 2010; Hamm 2016, appendix B.4), from an encrypted sum of projected parameters.

Every party projects its parameters on the ball of a public radius C and encodes them in fixed point
(`psephos.protocol.encrypted_sum.fixed_point`); the curator sees the integer sum only. The average's party-level
sensitivity is 2 C/M (`psephos.curator.hamm.sensitivity.average`), whatever the parties did to get their parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.encrypted_sum.fixed_point import FixedPoint
from psephos.protocol.errors import DataError, InvalidParameter


@dataclass(frozen=True)
class Average:
    """An average of parameters before any noise; its repr shows nothing of it.

    `w`: float64, (d,) for a binary problem, (K, d) for several classes. `radius`: C. `parties`: M.
    """

    w: NDArray[np.float64] = field(repr=False)
    radius: float
    parties: int

    @property
    def inexactness(self) -> float:
        """How far w may be from the exact average: each entry is correctly rounded. Public."""
        return 2.0**-53 * self.radius + 2.0**-1000

    @property
    def norm_limit(self) -> float:
        """A bound of the norm of w. Public."""
        return self.radius * (1 + 2.0**-50)


def average_of(
    sums: Sequence[int], parties: int, radius: float, fixed_point: FixedPoint, *, features: int, classes: int = 2
) -> Average:
    """The average of the parameters of `parties` parties from the sum of their encodings.

    `sums`: d integers for two classes, K d for more (row by row). Raises InvalidParameter when there is no party and
    DataError when the number of entries is wrong or no vectors of the ball can have this sum.
    """
    if parties < 1:
        raise InvalidParameter(f"an average over {parties} parties was asked for; at least one must have taken part")
    shape = (features,) if classes == 2 else (classes, features)
    if len(sums) != math.prod(shape):
        raise DataError(f"the sum has {len(sums)} entries; {math.prod(shape)} were agreed")
    bound = parties * Fraction(radius) * 2**fixed_point.fraction_bits
    if sum(int(total) ** 2 for total in sums) > bound * bound:
        raise DataError("no vectors of the agreed ball have this sum; a party did not project its parameters")
    return Average(fixed_point.mean(sums, parties).reshape(shape), float(radius), int(parties))
