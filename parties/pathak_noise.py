"""A party's noise in Pathak's protocol, in integer units of the parameters' own grid.

Printed variant: the whole noise vector for the sum of the parameters, drawn for the party's own size (Stage 2, step 3).
The paper draws eta for the average and multiplies by K later; an integer times K would leave the sum modulo K bare, so
what is drawn here is K eta itself.

The other variants: shares that sum to discrete Laplace noise (psephos.parties.noise), one for the public bound, or one
for every rung of the ladder.
"""

from __future__ import annotations

import math
from fractions import Fraction

from psephos.parties.noise import PolyaShares
from psephos.protocol.pathak.noise import noise_bound, noise_scale
from psephos.protocol.pathak.terms import PathakTerms
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, SphericalLaplace
from psephos.protocol.randomness import SYSTEM, Randomness


def own_noise(terms: PathakTerms, size: int, randomness: Randomness = SYSTEM) -> list[int]:
    """The printed variant's noise of a party with `size` samples: d integers in [-noise_bound, noise_bound]."""
    scale, bound = noise_scale(terms, size), noise_bound(terms)
    if terms.noise == "laplace":
        drawn = DiscreteLaplace(terms.features, scale).sample(randomness)
    else:
        real = math.nextafter(float(scale) * terms.pitch, math.inf)
        drawn = SphericalLaplace(terms.features, real, terms.pitch).sample(randomness)
    return [max(-bound, min(bound, entry)) for entry in drawn]


def noise_share(terms: PathakTerms, size: Fraction | int, randomness: Randomness = SYSTEM) -> list[int]:
    """A party's share of the noise for data sets of `size` samples: d integers in [-noise_bound, noise_bound]."""
    contributors = terms.parties - terms.excluded
    shares = PolyaShares(terms.features, terms.parties, contributors, noise_scale(terms, size))
    return shares.share(randomness)


def rung_shares(terms: PathakTerms, randomness: Randomness = SYSTEM) -> list[list[int]]:
    """The repaired variant's shares of a party, one for each rung."""
    return [noise_share(terms, size, randomness) for size in terms.ladder]
