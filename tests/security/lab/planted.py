"""Leaks that somebody planted who had not read the mutants, and others of their kind: where protocols are wired, their
parameters, what they release and what they say. None is in the messages that the audit compares with simulated ones.

Each is one edit of the real source, and a measurement that must fail while it lasts (`parameters`, `published`,
`canaries`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import psephos.curator.methods
import psephos.parties.noise
import psephos.parties.pathak_noise
import psephos.parties.psgd
import psephos.protocol.paillier.sharing
import psephos.simulation.psgd
import psephos.simulation.tally
from psephos.parties.psgd import GradientParty
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.paillier.encryption import Encryptor
from psephos.simulation.psgd import PsgdOptions
from psephos.simulation.sum_options import SumOptions
from psephos.simulation.sums import SumExperiment
from psephos.specs.tally import TallySpec
from tests.security.lab import canaries, parameters, published
from tests.security.lab.edits import SEEDED, Edit

__all__ = ["PLANTED", "Planted"]


@dataclass(frozen=True)
class Planted:
    """One leak: the edit, as in `psephos.audit.Mutant`, and the measurement that must not survive it."""

    name: str
    owner: Any
    function: str
    old: str
    new: str
    measure: Callable[[], None]

    @property
    def edit(self) -> Edit:
        return Edit(self.owner, self.function, self.old, self.new)


PLANTED: tuple[Planted, ...] = (
    # Those that the issue names.
    Planted(
        "rho is zero after step 10",
        psephos.parties.psgd,
        "step_share",
        """
$scale = $series.scale_at($step)
if $series.step_law == "none":
    $...no_share
""",
        """
$scale = $series.scale_at($step)
if $series.step_law == "none" or $step > 10:
    $...no_share
""",
        partial(published.law_of_steps, "paper", runs=1),
    ),
    Planted(
        "released noise is always the seed's",
        SumOptions,
        "noise_coins",
        "$seeded if self.simulate_noise else SYSTEM",
        "$seeded",
        partial(published.law_of_alpha, "spherical-laplace", draws=8),
    ),
    Planted(
        "one noise vector for every draw",
        psephos.curator.methods,
        "_perturbed",
        "Method($nonprivate, $draw, $...rest)",
        "Method($nonprivate, cache($draw), $...rest)",
        partial(published.law_of_alpha, "spherical-laplace", draws=8),
    ),
    Planted(
        "shares of the key with 40 bits of slack",
        psephos.protocol.paillier.sharing,
        "integer_polynomial",
        "$width << STATISTICAL_BITS",
        "$width << 40",
        parameters.key_shares,
    ),
    Planted(
        "an error quotes the norm of a gradient",
        GradientParty,
        "vector",
        """
$clipped = not np.array_equal($inside, $gradient)
if $clipped and not self._clip:
    raise GradientBoundError($message)
""",
        """
$clipped = not np.array_equal($inside, $gradient)
if $clipped and not self._clip:
    raise GradientBoundError($message + f" (it is {np.linalg.norm($gradient):g} long)")
""",
        canaries.gradient_errors,
    ),
    Planted(
        "a product's digest over its first ciphertext",
        BallotProduct,
        "digest",
        "self.columns",
        "self.columns[:1]",
        parameters.product_digests,
    ),
    # Others of their kind.
    Planted(
        "PSGD's noise is always the seed's",
        PsgdOptions,
        "spec",
        "self.simulate_noise",
        "True",
        partial(published.law_of_steps, "paper", runs=2),
    ),
    Planted(
        "joint noise is always the seed's",
        psephos.simulation.tally,
        "_noisy_sum",
        "$seed if $options.simulate_noise else None",
        "$seed",
        partial(published.joint_law, "discrete-laplace", "statistic", draws=2),
    ),
    Planted(
        "the noise of a study's release is everybody's to know",
        TallySpec,
        "release",
        "$method.draw($randomness)",
        f"$method.draw({SEEDED})",
        partial(published.law_of_study, "soft", draws=4),
    ),
    Planted(
        "one stream of noise for every release of a run",
        SumExperiment,
        "release",
        "partial($method.draw, $randomness)",
        "lambda method=$method: method.draw(SimulationRandomness(int(SYSTEM.bits(1))))",
        partial(published.law_of_alpha, "spherical-laplace", draws=8),
    ),
    Planted(
        "noise of output perturbation for twice the epsilon",
        psephos.curator.methods,
        "_perturbed",
        "perturb($fitted, $bound, $epsilon, $...rest)",
        "perturb($fitted, $bound, 2 * $epsilon, $...rest)",
        partial(published.law_of_alpha, "spherical-laplace"),
    ),
    Planted(
        "the statistic without noise in every other release",
        psephos.curator.methods,
        "statistic_method",
        "release_statistic($counts, $plan, $randomness)",
        "release_statistic($counts, $plan if $randomness.bits(1) else replace($plan, mechanism=None), $randomness)",
        partial(published.law_of_alpha, "spherical-laplace", draws=16),
    ),
    Planted(
        "PATE with a quarter of its noise",
        psephos.curator.methods,
        "pate_method",
        "release_pate($counts, $plan, $randomness)",
        "release_pate(4 * $counts, replace($plan, parties=4 * $plan.parties), $randomness)",
        partial(published.law_of_pate, "spherical-laplace"),
    ),
    Planted(
        "shares of noise sized for everybody",
        psephos.parties.noise,
        "shares_of",
        "contributors($parties, $colluders, $dropouts)",
        "$parties",
        partial(published.joint_law, "gaussian", "own-data", draws=80),
    ),
    Planted(
        "shares of noise sized without the colluders",
        psephos.parties.noise,
        "shares_of",
        "contributors($parties, $colluders, $dropouts)",
        "contributors($parties, 0, 0)",
        partial(published.joint_law, "discrete-laplace", "statistic", 3, 0),
    ),
    Planted(
        "a sixteenth of Pathak's noise",
        psephos.parties.pathak_noise,
        "noise_share",
        "noise_scale($terms, $size)",
        "noise_scale($terms, $size) / 16",
        partial(published.law_of_pathak, "public-bound"),
    ),
    Planted(
        "discrete Gaussian shares of PSGD for a single step",
        psephos.parties.psgd,
        "step_share",
        "DiscreteGaussianShares($series.dimension, $parties, 1, $variance)",
        "DiscreteGaussianShares($series.dimension, $parties, 1, $variance / $series.steps)",
        partial(published.law_of_steps, "gaussian", runs=1),
    ),
    Planted(
        "only one release of each method is paid for",
        SumExperiment,
        "_costs",
        "[$event for $event in $events for $release in $drawn]",
        "[$event for $event in $events for $release in range(1)]",
        partial(published.costs_add_up, "spherical-laplace"),
    ),
    Planted(
        "exponents of 128 bits",
        Encryptor,
        "__init__",
        "exponent_bits(...)",
        "128",
        partial(parameters.exponents, "half"),
    ),
)
