"""A party's noise in Pathak's protocol, in integer units of the parameters' own grid.

Printed variant: the whole noise vector for the sum of the parameters, drawn for the party's own size (Stage 2, step 3).
The paper draws eta for the average and multiplies by K later; an integer times K would leave the sum modulo K bare, so
what is drawn here is K eta itself.

Repaired variant: one share for every rung of the ladder (psephos.parties.noise), which sum to discrete Laplace noise.
"""

from __future__ import annotations

import math

from psephos.parties.noise import PolyaShares
from psephos.protocol.pathak.messages import Terms
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, SphericalLaplace
from psephos.protocol.randomness import SYSTEM, Randomness

__all__ = ["own_noise", "rung_shares"]


def own_noise(terms: Terms, size: int, randomness: Randomness = SYSTEM) -> list[int]:
    """The printed variant's noise of a party with `size` samples: d integers in [-noise_bound, noise_bound].

    Raises GridTooCoarseError when the grid is coarser than the noise.
    """
    scale, bound = terms.scale(size), terms.noise_bound
    if terms.noise == "laplace":
        drawn = DiscreteLaplace(terms.features, scale).sample(randomness)
    else:
        real = math.nextafter(float(scale) * terms.pitch, math.inf)
        drawn = SphericalLaplace(terms.features, real, terms.pitch).sample(randomness)
    return [max(-bound, min(bound, entry)) for entry in drawn]


def rung_shares(terms: Terms, randomness: Randomness = SYSTEM) -> list[list[int]]:
    """The repaired variant's shares of a party: for each rung, d integers in [-noise_bound, noise_bound]."""
    contributors = terms.parties - terms.excluded
    return [
        PolyaShares(terms.features, terms.parties, contributors, terms.scale(size)).share(randomness)
        for size in terms.ladder
    ]
