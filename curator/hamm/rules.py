"""Rules for the method and its parameters, from public quantities only (X, M, K, epsilon, learners).

A parameter tuned on private accuracy would be a release of its own, so these rules use no private data.

* **Ridge of vote and soft** (`ridge`). The released vector is a minimiser of norm at most R(lambda) plus noise of mean
  norm D S(lambda)/epsilon. The rule takes the smallest lambda at which the noise is expected to be at most 0.3 of that
  norm, D S(lambda)/epsilon <= 0.3 R(lambda). With a smaller lambda noise dominates the classifier; a larger one shrinks
  both and flattens the fit towards the class means. lambda stays between Hamm's 1e-4 and 0.03, above which the
  flattening costs more than the noise. Without noise it is 1e-4.
* **Method** (`choose_method`). For linear learners, the rehearsed step where public rows have labels: on ordinary
  tables it has the highest mean accuracy and the smallest worst loss of all methods (benchmarks/tables.md). Without
  labels the whitened average where parties are few, because each then has enough rows for a classifier of its own, and
  otherwise the own-data statistic, because rows carry more information than votes. Directions of votes for every other
  kind of classifier, which only votes can represent: they need less noise than a statistic of counted votes, and nobody
  counts them.
* **Advice** (`suggest_method`). Another method suits better where public rows have labels, where the chosen one's noise
  is expected to exceed 0.3 of what is released, or where linear classifiers could be summed without opening counts of
  votes. For two classes without labelled public rows it is clipped averaging, where its noise is expected to be no
  longer than the ball: classifiers that parties trained keep the classes' shares, which linear statistics lose
  (benchmarks/tables.md).
* **Averaging** (`averaging_radius`). Only the direction of a linear classifier matters for its predictions, and once
  the parameters of every party are projected on the ball, the ratio of noise to average no longer depends on its radius
  C. C = R(lambda)/10 is small enough for that, with the parties' lambda at Hamm's 1e-4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from psephos.curator.hamm.sensitivity import Sensitivity, radius
from psephos.protocol.errors import InvalidParameter

HAMM_LAMBDA = 1e-4
"""The lambda of all experiments in Hamm 2016, section 6."""

LARGEST_RIDGE = 0.03
"""Largest lambda of the rule: measured; above it the flattening of the fit costs more accuracy than the noise."""

NOISE_SHARE = 0.3
"""Largest expected norm of the noise, as a multiple of R(lambda)."""

FEW_PARTIES = 100
"""`choose_method` averages below this number of parties: chosen on the development half of docs/accuracy.md."""

LONGEST_NOISE = 1.0
"""Expected norm of the noise of clipped averaging, as a multiple of its radius, up to which it is suggested."""

FEWEST_LABELLED = 20
"""Labelled public rows, of two classes or more, from which on `choose_method` takes the rehearsed step."""


def ridge(sensitivity_at_one: Sensitivity, dimension: int, classes: int, epsilon: float | None) -> float:
    """Choose lambda of Hamm's Algorithm 1 or 2 for a sensitivity of the form S(lambda) = S(1)/lambda.

    Solves D S(1)/(lambda epsilon) = 0.3 R(1)/sqrt(lambda), limited to [1e-4, 0.03].

    Args:
        sensitivity_at_one: L2 sensitivity at lambda = 1.
        dimension: D, the dimension of the noise.
        classes: K.
        epsilon: privacy parameter; None for no noise.

    Returns:
        lambda.

    Raises:
        InvalidParameter: the dimension is below 1.
    """
    if dimension < 1:
        raise InvalidParameter(f"the dimension of a release must be at least 1, not {dimension}")
    if epsilon is None:
        return HAMM_LAMBDA
    lam = (dimension * sensitivity_at_one.value / (epsilon * NOISE_SHARE * radius(1.0, classes))) ** 2
    return min(max(lam, HAMM_LAMBDA), LARGEST_RIDGE)


def averaging_radius(lam: float, classes: int) -> float:
    """Return the radius C of clipped averaging, R(lambda)/10.

    Raises:
        InvalidParameter: lambda or K is out of range.
    """
    return radius(lam, classes) / 10


def choose_method(
    learners: Sequence[str], parties: int, labelled: int = 0
) -> Literal["rehearsed", "own-data", "whitened", "vote-directions"]:
    """Choose the release for `method="auto"`, before any private data is seen.

    Args:
        learners: names of the learners that the parties agreed on.
        parties: M.
        labelled: number of labelled public rows; 0 unless they are of two classes or more.

    Returns:
        "vote-directions" unless all learners are linear; then "rehearsed" for `FEWEST_LABELLED` labelled rows or more;
        then "whitened" for fewer than `FEW_PARTIES` parties, else "own-data".

    Raises:
        InvalidParameter: there are no learners.
    """
    if not learners:
        raise InvalidParameter("the list of learners is empty; name at least one")
    if not set(learners) <= {"logistic", "whitened"}:
        return "vote-directions"
    if labelled >= FEWEST_LABELLED:
        return "rehearsed"
    return "whitened" if parties < FEW_PARTIES else "own-data"


def average_noise_share(features: int, classes: int, parties: int, epsilon: float) -> float:
    """Return the expected norm of the noise of clipped averaging over its radius, 2 D/(M epsilon).

    Args:
        features: d, with the constant of the scaling. classes: K.
        parties: M.
        epsilon: privacy parameter.

    Raises:
        InvalidParameter: a number is not positive.
    """
    if min(features, classes, parties, epsilon) <= 0:
        raise InvalidParameter("the numbers of features, classes and parties and epsilon must be positive")
    return 2 * features * (1 if classes == 2 else classes) / (parties * epsilon)


def suggest_method(
    method: str,
    learners: Sequence[str],
    parties: int,
    noise_share: float,
    labelled: int = 0,
    average_share: float = math.inf,
) -> tuple[Literal["rehearsed", "own-data", "whitened", "statistic", "avg"], str] | None:
    """Suggest a method that suits a run better than the chosen one.

    Args:
        method: the chosen method, "statistic", "soft", "vote", "avg" or another.
        learners: names of the learners that the parties agreed on.
        parties: M.
        noise_share: expected norm of the release's noise, as a multiple of the largest norm of what is released.
        labelled: as in `choose_method`.
        average_share: `average_noise_share` for two classes; infinite for more, for which averaging is not suggested.

    Returns:
        The method and the reason, as the end of a sentence; None if the chosen method is as good.

    Raises:
        InvalidParameter: there are no learners.
    """
    if method != "rehearsed" and labelled >= FEWEST_LABELLED:
        return "rehearsed", (
            f"it starts from a model of the {labelled} labelled public rows, and asks the parties only where a private "
            "step is expected to improve it"
        )
    if average_share <= LONGEST_NOISE and method in ("avg", "statistic"):
        return (
            None
            if method == "avg"
            else (
                "avg",
                "with so few features, its noise is small beside an average of linear classifiers, which keeps the "
                "shares of the classes; the curator then sees the exact average",
            )
        )
    average: Literal["own-data", "whitened"] = "whitened" if parties < FEW_PARTIES else "own-data"
    linear = choose_method(learners, parties) != "vote-directions"
    if method == "avg":
        return average, "the noise is added to directions of norm 1, whatever the ridge, and no exact sum is opened"
    if method in ("soft", "vote") and noise_share > NOISE_SHARE:
        return "statistic", "it releases a linear statistic of the same votes, which needs less noise"
    if method == "statistic" and linear:
        return average, "all parties train linear classifiers, which are summed without opening any count of votes"
    if method == "statistic" and noise_share > NOISE_SHARE:
        return "whitened", "with so few parties at this epsilon an average of linear classifiers needs less noise"
    return None
