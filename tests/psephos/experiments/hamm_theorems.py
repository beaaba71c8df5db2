"""What the papers promise about utility, as functions under their hypotheses (Hamm 2016, section 4 and appendix A).

Hypotheses of all of them: a binary loss with |l'| <= 1 whose derivative is c-Lipschitz (c = 1/4 for the logistic
loss, 1/(2h) for the approximate hinge), rows with ||x|| <= 1, d features, the ridge (lambda/2) ||w||^2, and noise with
density proportional to exp(-epsilon ||eta|| / S), so that ||eta|| is Gamma(d, S/epsilon). The papers' S is 2/lambda
for majority labels and 2/(M lambda) for soft labels; `sensitivity` puts another in its place (a smaller certified
one). The auxiliary samples of Theorem 4 and equation (11) are independent draws from the distribution that R averages
over, and the classifiers that voted do not depend on them.
"""

from __future__ import annotations

import math

from psephos.curator.checks import check_count, check_positive
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import check_delta

__all__ = ["equation_11", "lemma_5", "lemma_6", "theorem_4"]


def lemma_5(shape: int, scale: float, delta: float) -> float:
    """X ~ Gamma(k, theta), k an integer, is at most k theta log(k/delta) with probability at least 1 - delta."""
    k = check_count(shape, "the shape of the Gamma variable")
    return k * check_positive(scale, "the scale") * math.log(k / check_delta(delta))


def lemma_6(
    *,
    dimension: int,
    smoothness: float,
    lam: float,
    parties: int,
    epsilon: float,
    delta_p: float,
    sensitivity: float | None = None,
) -> float:
    """The excess empirical risk of Algorithm 2, with probability at least 1 - delta_p over its noise (equation 32):"""
    lam = check_positive(lam, "lambda")
    if sensitivity is None:
        sensitivity = 2 / (check_count(parties, "the number of parties") * lam)
    scale = check_positive(sensitivity, "the sensitivity") / check_positive(epsilon, "epsilon")
    distance = lemma_5(dimension, scale, delta_p)
    return (check_positive(smoothness, "the smoothness c") + lam) / 2 * distance**2


def theorem_4(  # wide: what the theorem is stated in
    *,
    dimension: int,
    smoothness: float,
    lam: float,
    parties: int,
    samples: int,
    epsilon: float,
    delta_p: float,
    delta_s: float,
    reference_norm: float,
    sensitivity: float | None = None,
) -> float:
    """R(w_p) - R(w_0) for Algorithm 2 and any reference w_0 of norm `reference_norm`, with probability at least
    1 - delta_p - delta_s over the noise and the choice of the N auxiliary samples (equation 22):

    4 d^2 (c + lambda) log^2(d/delta_p) / (lambda^2 M^2 epsilon^2) + 16 (32 + log(1/delta_s)) / (lambda N)
    + (lambda/2) ||w_0||^2.

    Raises InvalidParameter when the probabilities of failure add up to 1 or more, or a hypothesis cannot hold.
    """
    lam = check_positive(lam, "lambda")
    if check_delta(delta_p) + check_delta(delta_s) >= 1:
        raise InvalidParameter("delta_p + delta_s must be below 1, or the bound promises nothing")
    if not (math.isfinite(reference_norm) and reference_norm >= 0):
        raise InvalidParameter(
            f"the norm of the reference classifier must be finite and not negative: {reference_norm}"
        )
    noise = lemma_6(
        dimension=dimension,
        smoothness=smoothness,
        lam=lam,
        parties=parties,
        epsilon=epsilon,
        delta_p=delta_p,
        sensitivity=sensitivity,
    )
    sampling = 16 * (32 + math.log(1 / delta_s)) / (lam * check_count(samples, "the number of auxiliary samples"))
    return 2 * noise + sampling + lam / 2 * reference_norm**2


def equation_11(  # wide: what the equation is stated in
    *,
    dimension: int,
    smoothness: float,
    lam: float,
    samples: int,
    epsilon: float,
    delta_p: float,
    delta_s: float,
    reference_norm: float,
    sensitivity: float | None = None,
) -> float:
    """R(w_p) - R(w_0) for Algorithm 1, whose error does not vanish as M grows (equation 11, R as in equation 10)."""
    return theorem_4(
        dimension=dimension,
        smoothness=smoothness,
        lam=lam,
        parties=1,
        samples=samples,
        epsilon=epsilon,
        delta_p=delta_p,
        delta_s=delta_s,
        reference_norm=reference_norm,
        sensitivity=sensitivity,
    )
