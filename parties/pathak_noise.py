"""A party's noise in the protocol of Pathak, Rane and Raj (2010), in integer units of the parameters' grid.

The paper draws eta for the average and multiplies by K later, which would leave an integer sum modulo K without noise,
so K eta itself is drawn here. The variants other than the printed one draw shares of discrete Laplace noise.
"""

from __future__ import annotations

from fractions import Fraction

from psephos.parties.noise import PolyaShares
from psephos.protocol.pathak.noise import noise_bound, noise_scale
from psephos.protocol.pathak.terms import PathakTerms
from psephos.protocol.privacy.mechanisms import DiscreteLaplace
from psephos.protocol.randomness import SYSTEM, Randomness


def own_noise(terms: PathakTerms, size: int, randomness: Randomness = SYSTEM) -> tuple[int, ...]:
    """Draw the printed variant's noise of a party with `size` samples: d integers in [-noise_bound, noise_bound]."""
    scale, bound = noise_scale(terms, size), noise_bound(terms)
    noise = DiscreteLaplace(terms.features, scale).sample(randomness)
    return tuple(max(-bound, min(bound, entry)) for entry in noise)


def noise_share(terms: PathakTerms, size: Fraction | int, randomness: Randomness = SYSTEM) -> tuple[int, ...]:
    """Draw a party's share of the noise for data sets of `size` samples: d integers in [-noise_bound, noise_bound]."""
    contributors = terms.parties - terms.excluded
    shares = PolyaShares(terms.features, terms.parties, contributors, noise_scale(terms, size))
    return tuple(shares.share(randomness))


def rung_shares(terms: PathakTerms, randomness: Randomness = SYSTEM) -> tuple[tuple[int, ...], ...]:
    return tuple(noise_share(terms, size, randomness) for size in terms.ladder)
