"""Rivals of the rehearsed step on the tables of `benchmarks.tables`, tuned by the same rehearsal, at equal privacy.

* `rounds`: clipped averaging over rounds. In each, every party sends one gradient step from the current model, clipped
  or scaled to norm 1.
* `DP-FedAvg` (McMahan, Ramage, Talwar and Zhang 2018): the same, with `LOCAL_STEPS` steps of local training a round and
  flat clipping. All parties take part in every round: with a share q of them, drawn afresh, and a pure epsilon, the
  average's noise cannot be smaller, because log(1 + (e^epsilon - 1)/q) <= epsilon/q.
* `PATE` with confident aggregation (Papernot et al. 2018). Parties train on their own rows, starting from the public
  model, and vote on rows drawn from a smoothed bootstrap of the public rows. Where the plurality is large, a query is
  answered; the student starts from the public model.
* `AAFV`, abstention-aware federated voting (Xu, Zhang and Gu 2024, arXiv:2406.10563). Each party perturbs its predicted
  probabilities for the same rows itself, and votes or abstains by what comes out. The votes label the rows; the same
  student is trained on them.

Party-level privacy, one party replaced. The first three have a trusted curator's noise, which favours them: the parties
of the rehearsed step add theirs in shares, two of which are not counted on. In AAFV each party adds all of its noise,
and needs to trust nobody. None has the rehearsed step's shrinkage.

* Averages have L2 sensitivity 2/M. T rounds with a pure epsilon take spherical Laplace noise for epsilon/T each; with a
  delta, T Gaussians are exactly one with multiplier sigma/sqrt(T).
* A vote moves one count up and one down by 1. With a pure epsilon each of Q queries is one permute-and-flip (McKenna
  and Sheldon 2020) at epsilon/Q among the classes and "no answer", whose score is the threshold. With a delta each
  query has a Gaussian check of the largest count, of sensitivity 1, and a Gaussian answer (GNMax), of sensitivity
  sqrt(2); all of them are exactly one Gaussian. That is data-independent: Papernot's tighter bounds are functions of
  the votes.
* A party of AAFV sends n perturbed numbers, each by the piecewise mechanism (Wang et al. 2019) at epsilon/n. What it
  sends is exactly epsilon-locally private, whatever its rows are; votes and labels are computed from that. With a delta
  the release is the same.

All start from the public model and move in its coordinates. A setting is chosen like the plan of a rehearsed step
(`psephos.curator.hamm.rehearsal`): by its prudent gain in simulated worlds, the best of a first set again in a second
one, and the public model is released where the gain is not large enough. The best setting in hindsight is measured,
too. The noise is simulated and protects nobody.

What is AAFV's, and what is our reading of it. Its abstract, the beginning of its introduction and summaries by others
were at hand, not its method section. From them are: two classes; predictions on public unlabelled rows; the piecewise
mechanism on them, by each party; a vote for the second class above an upper threshold, for the first one below a lower
one, and else abstention; pseudo labels from the votes. Ours is the rest:

* The mechanism is given 2p - 1, which fills its domain [-1, 1]. Both thresholds are at the same distance from p = 1/2,
  a tuned share of the mechanism's range, so that parties abstain however much wider than [-1, 1] the range is.
* Epsilon is divided evenly over the predictions that a party sends. They are those for all Q rows or, where that is
  better (`Voting.subsampled`), for as many as Wang et al. find best for means, `numbers_sent`; rows are dealt to the
  parties in turn, whatever their data are.
* With more than two classes each is voted for and against (one against the rest), and a party sends for a row the
  probabilities of `numbers_sent` classes, dealt likewise: one, unless it has an epsilon of 5 for the row. Sending all
  K probabilities at epsilon/K each has more noise.
* A row's label is the class with the most votes for it less those against it, and none where two classes are level.
* There is one round: in a further one every party would have to pay for its predictions again. In the paper the
  parties go on training with the labels; here the public student does, since what is compared is a public model.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.rehearsal import (
    _CAUTION,
    _DRAWS,
    _FINALISTS,
    _INSIDE,
    _LEAST_GAIN,
    _SIMULATED_PARTIES,
    _SIMULATED_ROWS,
    _WORLDS,
    PublicModel,
    _prudent,
    _simulated_rows,
    _World,
    _world,
    calibrate,
)
from psephos.curator.hamm.rehearsed import public_features
from psephos.protocol.grids.local_step import clip_rows, local_steps, softmax
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.privacy.mechanisms import gaussian_sigma, simulate_gaussian, simulate_spherical_laplace

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

LAWS = ("pure", "gaussian")
"""A pure epsilon, and epsilon at `DELTA`."""

DELTA = 1e-6
COORDINATES = ((0, 0.0), *product((2, 8, 32, 128), (0.0, 0.5)))
"""Ranks and powers of the public coordinates (`PublicModel.coordinates`); at most all principal directions are used."""

LOCAL_STEPS = 5
"""Gradient steps of a party in a round of DP-FedAvg."""

TEACHER_RIDGE = 0.1
"""Ridge of a party's step from the public model to its own classifier, for PATE and AAFV."""

MOST_QUERIES = 80
CHECK_SHARE = 0.2
"""Share of the privacy, in squared multipliers, that the Gaussian checks of confident aggregation get."""

BLOCK = 4_000_000
"""Most numbers of an array of all rows' scores."""

HINDSIGHT_DRAWS = 2
"""Releases of every setting, of which those with the best `_FINALISTS` means are looked at again in hindsight."""


class Averaging(NamedTuple):
    """A setting of `rounds` and DP-FedAvg.

    Attributes:
        rank, power: of the coordinates.
        rounds: T.
        quantile: of the parties' norms in the first round, at which longer vectors are clipped; 0 scales all to norm 1.
        length: multiple of the mean by which a round moves the model.
    """

    rank: int
    power: float
    rounds: int
    quantile: float
    length: float


class Answers(NamedTuple):
    """A setting of PATE.

    Attributes:
        rank, power: of the coordinates.
        queries: Q.
        agreement: share of the parties that the plurality of an answered query has; 0 answers every query.
        ridge: of the student's step from the public model.
    """

    rank: int
    power: float
    queries: int
    agreement: float
    ridge: float


class Voting(NamedTuple):
    """A setting of AAFV.

    Attributes:
        rank, power: of the coordinates.
        queries: Q.
        subsampled: a party sends predictions for `numbers_sent` of the rows, not for all of them.
        threshold: of a vote, as a share of the largest number that the mechanism returns; 0 abstains never.
        ridge: of the student's step from the public model.
    """

    rank: int
    power: float
    queries: int
    subsampled: bool
    threshold: float
    ridge: float


Setting = Averaging | Answers | Voting
Item = tuple[float, Setting]
"""An epsilon and a setting."""

Play = Callable[..., tuple[Array, dict[Setting, float]]]
"""Plays items on a scene: accuracies (items, draws), and the norm at the quantile of every setting that has one."""


def _averaging(rounds: Sequence[int], quantiles: Sequence[float], lengths: Sequence[float]) -> tuple[Averaging, ...]:
    return tuple(
        Averaging(rank, power, number, quantile, length)
        for (rank, power), number, quantile, length in product(COORDINATES, rounds, quantiles, lengths)
    )


SETTINGS: Mapping[str, Sequence[Setting]] = {
    "rounds": _averaging((1, 2, 5), (0.0, 0.5), (0.5, 1.5, 4.0)),
    "DP-FedAvg": _averaging((1, 3), (0.1, 0.5), (0.5, 1.0, 2.0)),
    "PATE": tuple(
        Answers(rank, power, queries, agreement, ridge)
        for (rank, power), queries, agreement, ridge in product(
            COORDINATES, (5, 10, 20, 40, MOST_QUERIES), (0.0, 0.6, 0.8), (0.03, 0.3, 1.0)
        )
    ),
    "AAFV": tuple(
        Voting(rank, power, queries, subsampled, threshold, ridge)
        for (rank, power), queries, subsampled, threshold, ridge in product(
            COORDINATES, (5, 10, 20, 40, MOST_QUERIES), (False, True), (0.0, 0.25, 0.5), (0.3, 1.0, 3.0)
        )
    ),
}
"""By rival: all its settings."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A simulated world, or the table itself, with what all of them share.

    Attributes:
        world: the parties' rows in principal directions, and the test rows.
        model: the public model.
        parties: M, of which a simulated world may have fewer.
        law: of `LAWS`.
        queries: float64 (MOST_QUERIES, D), the public rows that PATE and AAFV ask about, in principal directions.
    """

    world: _World
    model: PublicModel
    parties: int
    law: str
    queries: Array

    @cached_property
    def basis(self) -> Array:
        """The contrasts (K - 1, K)."""
        return contrast_basis(self.model.classes)

    def coordinates(self, rows: Array, rank: int, power: float) -> Array:
        """Return public coordinates (..., r) of rows (..., D)."""
        return self.model.coordinates(rows, min(rank, rows.shape[-1]), power)

    def clipped(self, rows: Array, rank: int, power: float) -> Array:
        """Return the coordinates of rows, clipped to the length to which a rehearsed step clips them."""
        public = np.linalg.norm(self.coordinates(self.model.rows, rank, power), axis=1)
        return clip_rows(self.coordinates(rows, rank, power), float(np.quantile(public, _INSIDE)))

    def rate(self, rank: int, power: float) -> float:
        """Return the length of a gradient step: 1 over the public rows' bound of the second derivative."""
        Z = self.coordinates(self.model.rows, rank, power)
        return 2 / float(np.linalg.eigvalsh(Z.T @ Z / len(Z))[-1])

    def score(self, rank: int, power: float, steps: Array) -> Array:
        """Return the accuracies (b,) of the public model plus steps (b, K - 1, r)."""
        test = self.coordinates(self.world.test, rank, power)
        return np.array([self.world.accuracy(self.world.start + test @ step.T) for step in steps])


# -- clipped averaging over rounds, and DP-FedAvg


def noise_scale(law: str, epsilon: float, rounds: int, parties: int) -> float:
    """Return the scale (pure) or the standard deviation (Gaussian) of the noise in a mean of vectors of norm 1.

    Args:
        law: of `LAWS`.
        epsilon: of all rounds together.
        rounds: T.
        parties: M.
    """
    reach = 2 / parties
    return reach * rounds / epsilon if law == "pure" else gaussian_sigma(reach * math.sqrt(rounds), epsilon, DELTA)


def draw_noise(law: str, scales: Sequence[float], size: tuple[int, int], generator: np.random.Generator) -> Array:
    """Return one vector of noise, (K - 1, r) = size, for each scale."""
    law_of = simulate_spherical_laplace if law == "pure" else simulate_gaussian
    return np.array([law_of(math.prod(size), scale, generator) for scale in scales]).reshape(len(scales), *size)


def trained(scene: Scene, Z: NDArray[np.float32], start: Array, steps: int, rate: float) -> NDArray[np.float32]:
    """Return how far parties move models by gradient descent on the softmax loss of their own rows.

    Args:
        scene: has labels and public scores.
        Z: coordinates (m, n, r).
        start: models (b, K - 1, r), of which each party trains all.
        steps: number of gradient steps.
        rate: length of a gradient step.

    Returns:
        float32 (m, b, K - 1, r).
    """
    basis = scene.basis.astype(np.float32)
    m, n, r = Z.shape
    b, contrasts = start.shape[:2]
    targets = basis.T[scene.world.labels].transpose(0, 2, 1)[:, None]  # (m, 1, K - 1, n)
    offset = scene.world.offset.astype(np.float32).transpose(0, 2, 1)[:, None]
    first = np.broadcast_to(start.astype(np.float32), (m, *start.shape))
    moved = first
    for _ in range(steps):
        scores = (moved.reshape(m, -1, r) @ Z.transpose(0, 2, 1)).reshape(m, b, contrasts, n) + offset
        logits = basis.T @ scores
        logits -= logits.max(axis=2, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=2, keepdims=True)
        residual = basis @ logits - targets
        gradient = (residual.reshape(m, -1, n) @ Z).reshape(m, b, contrasts, r) / n
        moved = moved - np.float32(rate) * gradient
    return np.asarray(moved - first)


def bounded(steps: NDArray[np.float32], radii: Array, scaled: NDArray[np.bool_]) -> Array:
    """Return the vectors that parties send: steps divided by the larger of norm and radius, or by the norm.

    Args:
        steps: (m, b, K - 1, r).
        radii: (b,).
        scaled: (b,), whether all of a model's steps are scaled to norm 1.

    Returns:
        float64 (m, b, K - 1, r), of norm at most 1.
    """
    wide = np.asarray(steps, dtype=np.float64)
    norms = np.sqrt((wide**2).sum(axis=(2, 3)))
    divisors = np.where(scaled, np.maximum(norms, 1e-12), np.maximum(norms, radii))
    return np.asarray(wide / divisors[:, :, None, None])


def play_rounds(
    scene: Scene,
    items: Sequence[Item],
    units: Mapping[Setting, float],
    draws: int,
    generator: np.random.Generator,
    *,
    steps: int = 1,
) -> tuple[Array, dict[Setting, float]]:
    """Play averaging over rounds; `steps`: of local training in a round. See `Play`."""
    accuracies, norms = np.zeros((len(items), draws)), dict[Setting, float]()
    groups: dict[tuple[int, float, int], list[tuple[int, float, Averaging]]] = defaultdict(list)
    for place, (epsilon, setting) in enumerate(items):
        assert isinstance(setting, Averaging)
        groups[setting[:3]].append((place, epsilon, setting))
    for (rank, power, rounds), group in groups.items():
        Z, rate = scene.clipped(scene.world.rows, rank, power).astype(np.float32), scene.rate(rank, power)
        shape = scene.model.classes - 1, Z.shape[2]
        first = trained(scene, Z, np.zeros((1, *shape)), steps, rate)
        lengths = np.sqrt((first.astype(np.float64) ** 2).sum(axis=(1, 2, 3)))
        for _, _, setting in group:
            norms[setting] = max(float(np.quantile(lengths, setting.quantile or 0.5)), 1e-9)
        each = [(place, draw, epsilon, setting) for place, epsilon, setting in group for draw in range(draws)]
        size = max(1, BLOCK // (scene.world.labels.size * scene.model.classes))
        for block in (each[at : at + size] for at in range(0, len(each), size)):
            radii = np.array([units.get(setting) or norms[setting] for *_, setting in block])
            scaled = np.array([setting.quantile == 0 for *_, setting in block])
            moves = radii * np.array([setting.length for *_, setting in block])
            scales = [noise_scale(scene.law, epsilon, rounds, scene.parties) for _, _, epsilon, _ in block]
            models = np.zeros((len(block), *shape))
            for number in range(rounds):
                sent = trained(scene, Z, models, steps, rate) if number else np.repeat(first, len(block), axis=1)
                mean = bounded(sent, radii, scaled).mean(axis=0)
                models += moves[:, None, None] * (mean + draw_noise(scene.law, scales, shape, generator))
            for (place, draw, _, _), right in zip(block, scene.score(rank, power, models), strict=True):
                accuracies[place, draw] = right
    return accuracies, norms


def play_fedavg(
    scene: Scene, items: Sequence[Item], units: Mapping[Setting, float], draws: int, generator: np.random.Generator
) -> tuple[Array, dict[Setting, float]]:
    """Play DP-FedAvg. See `Play`."""
    return play_rounds(scene, items, units, draws, generator, steps=LOCAL_STEPS)


# -- PATE with confident aggregation


def permute_and_flip(scores: Array, epsilon: float, generator: np.random.Generator) -> Labels:
    """Choose one of k scores of sensitivity 1 with a pure epsilon.

    McKenna and Sheldon (2020); the largest score with exponential noise has the same law (Ding et al. 2021).

    Args:
        scores: (..., k).
        epsilon: of each choice; infinite for the largest score.
        generator: of the noise.

    Returns:
        Places of the chosen scores, (...).
    """
    return np.asarray((scores + generator.exponential(2 / epsilon, size=scores.shape)).argmax(axis=-1))


def confident_sigmas(epsilon: float, queries: int, *, checked: bool) -> tuple[float, float]:
    """Return the standard deviations of the Gaussian check and answer of each of Q queries, (epsilon, DELTA) in all.

    Q/check^2 + 2 Q/answer^2 is the squared multiplier of one Gaussian; without checks the first is infinite.
    """
    sigma = gaussian_sigma(1.0, epsilon, DELTA)
    if not checked:
        return math.inf, sigma * math.sqrt(2 * queries)
    return sigma * math.sqrt(queries / CHECK_SHARE), sigma * math.sqrt(2 * queries / (1 - CHECK_SHARE))


def answer(law: str, counts: Array, threshold: float, epsilon: float, generator: np.random.Generator) -> Labels:
    """Answer queries by confident aggregation.

    Args:
        law: of `LAWS`.
        counts: votes (Q, K), or with more axes in front, for draws.
        threshold: least plurality of an answered query; 0 answers all.
        epsilon: of all Q answers together.
        generator: of the noise.

    Returns:
        Class numbers (..., Q), -1 where there is no answer.
    """
    queries, classes = counts.shape[-2:]
    if law == "pure":
        none = np.full((*counts.shape[:-1], 1), threshold if threshold else -np.inf)
        chosen = permute_and_flip(np.concatenate([counts, none], axis=-1), epsilon / queries, generator)
        return np.where(chosen == classes, -1, chosen)
    check, sigma = confident_sigmas(epsilon, queries, checked=threshold > 0)
    chosen = (counts + generator.normal(scale=sigma, size=counts.shape)).argmax(axis=-1)
    if not threshold:
        return np.asarray(chosen)
    plurality = counts.max(axis=-1) + generator.normal(scale=check, size=counts.shape[:-1])
    return np.where(plurality >= threshold, chosen, -1)


def teacher_scores(scene: Scene, rank: int, power: float) -> tuple[Array, Array]:
    """Return the queries' coordinates (Q, r), and how the scene's m parties score the classes of each, (m, Q, K)."""
    world = scene.world
    teachers = local_steps(scene.clipped(world.rows, rank, power), world.labels, world.offset, TEACHER_RIDGE)
    Z = scene.clipped(scene.queries, rank, power)
    return Z, (scene.model.scores(scene.queries) + Z @ teachers.transpose(0, 2, 1)) @ scene.basis


def teacher_votes(scene: Scene, rank: int, power: float) -> tuple[Array, Array]:
    """Return the queries' coordinates (Q, r), and the votes (Q, K) of M parties in the proportions of the scene's."""
    Z, scores = teacher_scores(scene, rank, power)
    counts = np.array([np.bincount(own, minlength=scores.shape[2]) for own in scores.argmax(axis=-1).T])
    return Z, counts * (scene.parties / len(scores))


def students(scene: Scene, Z: Array, answers: Labels, ridge: float) -> Array:
    """Return the steps (b, K - 1, r) from the public model that fit answers (b, Q) to queries Z (Q, r) best."""
    known = answers >= 0
    rows = Z * known[..., None]  # a row of zeros has no gradient
    offset = np.broadcast_to(scene.model.scores(scene.queries[: len(Z)]), (*answers.shape, scene.model.classes - 1))
    return local_steps(rows, np.where(known, answers, 0), offset, ridge)


def play_pate(
    scene: Scene, items: Sequence[Item], units: Mapping[Setting, float], draws: int, generator: np.random.Generator
) -> tuple[Array, dict[Setting, float]]:
    """Play PATE with confident aggregation. See `Play`; no setting has a norm."""
    accuracies = np.zeros((len(items), draws))
    groups: dict[tuple[int, float], dict[tuple[int, float], list[tuple[int, float, float]]]] = {}
    for place, (epsilon, setting) in enumerate(items):
        assert isinstance(setting, Answers)
        group = groups.setdefault(setting[:2], {}).setdefault((setting.queries, setting.ridge), [])
        group.append((place, epsilon, setting.agreement))
    for (rank, power), by_queries in groups.items():
        Z, counts = teacher_votes(scene, rank, power)
        for (queries, ridge), each in by_queries.items():
            votes = np.broadcast_to(counts[:queries], (draws, queries, scene.model.classes))
            answers = np.concatenate(
                [
                    answer(scene.law, votes, agreement * scene.parties, epsilon, generator)
                    for _, epsilon, agreement in each
                ]
            )
            steps = students(scene, Z[:queries], answers, ridge)
            found = scene.score(rank, power, steps).reshape(len(each), draws)
            for (place, _, _), own in zip(each, found, strict=True):
                accuracies[place] = own
    return accuracies, {}


# -- abstention-aware federated voting


class SentPredictions(NamedTuple):
    """What all M parties sent in several draws: s predictions a party, each of k classes.

    Attributes:
        numbers: perturbed, (draws, M, s, k).
        places: of each number, its query times the number of classes that are asked about, plus its class; (M, s, k).
        shape: number of queries, and of the classes that are asked about: 1 of two classes, else all.
        reach: the largest number that the mechanism returns.
    """

    numbers: Array
    places: Labels
    shape: tuple[int, int]
    reach: float


def piecewise_reach(epsilon: float) -> float:
    """Return the largest number that the piecewise mechanism returns: (e^(epsilon/2) + 1)/(e^(epsilon/2) - 1)."""
    return 1 / math.tanh(epsilon / 4)


def piecewise(values: Array, epsilon: float, generator: np.random.Generator) -> Array:
    """Perturb each of several values by the piecewise mechanism (Wang et al. 2019, algorithm 2).

    With C = `piecewise_reach`, a number within (C - 1)/2 of (C + 1)/2 times the value has e^epsilon times the density
    of the other numbers in [-C, C]. Its mean is the value.

    Args:
        values: in [-1, 1].
        epsilon: of each value.
        generator: of the noise.

    Returns:
        Numbers in [-C, C], of the shape of values.
    """
    C = piecewise_reach(epsilon)
    left = (C + 1) / 2 * values - (C - 1) / 2
    near = generator.random(values.shape) < 1 / (1 + math.exp(-epsilon / 2))
    where = generator.random(values.shape)
    far = (C + 1) * where - C  # as if the interval from left to left + C - 1 had been cut out
    far += (C - 1) * (far >= left)
    return np.asarray(np.clip(np.where(near, left + (C - 1) * where, far), -C, C))


def numbers_sent(count: int, epsilon: float) -> int:
    """Return how many of its numbers a party sends, so that the means of all parties' numbers have the least noise.

    Which ones does not depend on them, and each is perturbed at an equal share of epsilon (Wang et al. 2019, algorithm
    4).
    """
    return max(1, min(count, math.floor(epsilon / 2.5)))


def send(
    values: Array, parties: int, epsilon: float, draws: int, generator: np.random.Generator, *, subsampled: bool
) -> SentPredictions:
    """Perturb the predictions of all parties, so that what each sends is epsilon-locally private.

    Args:
        values: in [-1, 1], (m, Q, K), of m parties that stand for all.
        parties: M.
        epsilon: of all that a party sends.
        draws: how often.
        generator: of the noise.
        subsampled: see `Voting`.
    """
    queries, classes = values.shape[1:]
    if classes == 2:  # the first class has the opposite value
        values, classes = values[..., 1:], 1
    rows = numbers_sent(queries, epsilon) if subsampled else queries
    each = numbers_sent(classes, epsilon / rows)
    turns = np.arange(parties * rows).reshape(parties, rows)
    query, turn = turns % queries, turns // queries
    asked = (((turn * each) + query)[..., None] + np.arange(each)) % classes
    party = generator.permuted(np.tile(np.arange(parties), (draws, 1)), axis=1) % len(values)
    predicted = values[party[..., None, None], query[None, ..., None], asked[None]]
    share = epsilon / (rows * each)
    places = query[..., None] * classes + asked
    return SentPredictions(piecewise(predicted, share, generator), places, (queries, classes), piecewise_reach(share))


def pseudo_labels(predictions: SentPredictions, threshold: float) -> Labels:
    """Return the class numbers (draws, Q) that the votes give the queries, -1 where classes are level.

    Args:
        predictions: by the parties.
        threshold: of a vote, see `Voting`.
    """
    draws, size = len(predictions.numbers), math.prod(predictions.shape)
    least = threshold * predictions.reach
    votes = (predictions.numbers > least).astype(np.float64) - (predictions.numbers < -least)
    places = np.arange(draws)[:, None] * size + predictions.places.ravel()
    leads = np.bincount(places.ravel(), votes.ravel(), draws * size).reshape(draws, *predictions.shape)
    if predictions.shape[1] == 1:
        leads = np.concatenate([-leads, leads], axis=-1)
    alone = (leads == leads.max(axis=-1, keepdims=True)).sum(axis=-1) == 1
    return np.where(alone, leads.argmax(axis=-1), -1)


def play_aafv(
    scene: Scene, items: Sequence[Item], units: Mapping[Setting, float], draws: int, generator: np.random.Generator
) -> tuple[Array, dict[Setting, float]]:
    """Play abstention-aware federated voting. See `Play`; no setting has a norm.

    Settings that differ in threshold and ridge see the same perturbed predictions.
    """
    accuracies = np.zeros((len(items), draws))
    groups: dict[tuple[int, float], dict[tuple[int, float], list[tuple[int, float, Voting]]]] = {}
    for place, (epsilon, setting) in enumerate(items):
        assert isinstance(setting, Voting)
        group = groups.setdefault(setting[:2], {}).setdefault((setting.queries, setting.ridge), [])
        group.append((place, epsilon, setting))
    for (rank, power), by_queries in groups.items():
        Z, scores = teacher_scores(scene, rank, power)
        values, predictions = 2 * softmax(scores) - 1, dict[tuple[float, int, bool], SentPredictions]()
        for (queries, ridge), each in by_queries.items():
            answers = []
            for _, epsilon, setting in each:
                key = epsilon, queries, setting.subsampled
                if key not in predictions:
                    own = values[:, :queries]
                    predictions[key] = send(
                        own, scene.parties, epsilon, draws, generator, subsampled=setting.subsampled
                    )
                answers.append(pseudo_labels(predictions[key], setting.threshold))
            steps = students(scene, Z[:queries], np.concatenate(answers), ridge)
            found = scene.score(rank, power, steps).reshape(len(each), draws)
            for (place, _, _), right in zip(each, found, strict=True):
                accuracies[place] = right
    return accuracies, {}


RIVALS: Mapping[str, Play] = {
    "rounds": play_rounds,
    "DP-FedAvg": play_fedavg,
    "PATE": play_pate,
    "AAFV": play_aafv,
}
"""By name: how a rival is played. It takes a scene, items, norms of settings, the number of draws and a generator."""


# -- the rehearsal, and the measurement


class Choice(NamedTuple):
    """What a rehearsal chose for one epsilon.

    Attributes:
        setting: the best one.
        asks: whether it is expected to beat the public model; otherwise that is released.
        gain: mean gain over the public model in the second set of worlds.
    """

    setting: Setting
    asks: bool
    gain: float


def simulated_scenes(model: PublicModel, parties: int, rows: int, law: str) -> tuple[list[Scene], Array]:
    """Return the worlds in which a rehearsed step is rehearsed, by their law, and the queries of PATE and AAFV.

    Args:
        model: the public model.
        parties: M.
        rows: about how many rows a party has, as announced.
        law: of `LAWS`.
    """
    generator = np.random.default_rng([parties, rows, *model.digest])
    calibration = calibrate(model, generator)
    queries = _simulated_rows(model, MOST_QUERIES, generator)
    rows = min(rows, max(1, _SIMULATED_ROWS // min(parties, _SIMULATED_PARTIES)))
    simulated = min(parties, _SIMULATED_PARTIES, max(1, _SIMULATED_ROWS // rows))
    scenes = []
    for number in range(sum(_WORLDS)):
        place = number if number < _WORLDS[0] else number - _WORLDS[0]
        truth = calibration[:2] if place // 2 % 2 == 0 else calibration.widest
        world = _world(model, truth, simulated, rows, place % 2 == 1, generator)
        scenes.append(Scene(world, model, parties, law, queries))
    return scenes, queries


def rehearse_rival(
    name: str, scenes: Sequence[Scene], epsilons: Sequence[float], generator: np.random.Generator
) -> tuple[dict[float, Choice], dict[Setting, float]]:
    """Choose a setting for every epsilon as a rehearsed step chooses its plan.

    Returns:
        The choice by epsilon, and the norms at the quantiles of all settings.
    """
    play, first = RIVALS[name], scenes[: _WORLDS[0]]
    items: list[Item] = list(product(epsilons, SETTINGS[name]))
    played = [play(scene, items, {}, _DRAWS, generator) for scene in first]
    units = {key: float(np.median([norms[key] for _, norms in played])) for key in played[0][1]}
    public = np.array([scene.world.accuracy(scene.world.start) for scene in scenes])
    gains = np.array([found.mean(axis=1) for found, _ in played]) - public[: len(first), None]
    prudent = np.array([_prudent(gain) for gain in gains.T])
    finalists = [items[place] for place in best_places(items, prudent, _FINALISTS)]
    again = np.array(
        [play(scene, finalists, units, _DRAWS, generator)[0].mean(axis=1) for scene in scenes[len(first) :]]
    )
    gains = again - public[len(first) :, None]
    choices = {}
    for place in best_places(finalists, np.array([_prudent(gain) for gain in gains.T]), 1):
        (epsilon, setting), gain = finalists[place], gains[:, place]
        asks = bool(gain.mean() - _CAUTION / 2 * gain.std() > _LEAST_GAIN)
        choices[epsilon] = Choice(setting, asks, float(gain.mean()))
    return choices, units


def table_scene(problem: dict[str, Any], model: PublicModel, law: str, queries: Array) -> Scene:
    """Return a split of `benchmarks.tables` as a scene, in which accuracy is that on the test rows."""

    def directions(X: Array) -> Array:
        return np.asarray((public_features(X) - model.mean) / model.spread @ model.axes)

    rows = directions(problem["X"]).reshape(problem["parties"], problem["size"], -1)
    labels = problem["y"].reshape(problem["parties"], problem["size"])
    test = directions(problem["X_test"])
    chances = np.eye(problem["classes"])[problem["y_test"]]
    world = _World(rows, labels, model.scores(rows), test, model.scores(test), chances)
    return Scene(world, model, problem["parties"], law, queries)


def measure_rivals(
    problem: dict[str, Any],
    model: PublicModel,
    law: str,
    epsilons: Sequence[float],
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """Return what every rival reaches on one split, by name.

    Args:
        problem: a split of `benchmarks.tables`.
        model: the public model.
        law: of `LAWS`.
        epsilons: privacy parameters.
        draws: number of releases of the rehearsed setting.
        seed: of the noise.

    Returns:
        By rival the "seconds" of processor time that the rehearsal of all epsilons took, and by epsilon: "released",
        accuracies of the releases; "setting", and its expected "gain"; "asks", else the public model is released;
        "asked anyway", the setting's mean accuracy; "hindsight", the mean accuracy of the setting that was the best of
        all on this split, measured again, or of the public model if that is better; "best setting".
    """
    scenes, queries = simulated_scenes(model, problem["parties"], problem["size"], law)
    scene = table_scene(problem, model, law, queries)
    public, found = scene.world.accuracy(scene.world.start), dict[str, Any]()
    for number, (name, play) in enumerate(RIVALS.items()):
        generator, start = np.random.default_rng([seed, number]), time.process_time()
        choices, units = rehearse_rival(name, scenes, epsilons, generator)
        seconds = time.process_time() - start
        chosen = [(epsilon, choices[epsilon].setting) for epsilon in epsilons]
        released = play(scene, chosen, units, draws, generator)[0]
        items: list[Item] = list(product(epsilons, SETTINGS[name]))
        tried = play(scene, items, units, HINDSIGHT_DRAWS, generator)[0].mean(axis=1)
        best = best_places(items, tried, _FINALISTS)
        again = play(scene, [items[place] for place in best], units, draws, generator)[0].mean(axis=1)
        best = [best[place] for place in best_places([items[place] for place in best], again, 1)]
        hindsight = play(scene, [items[place] for place in best], units, draws, generator)[0]
        found[name] = {"seconds": round(seconds, 1)}
        for place, epsilon in enumerate(epsilons):
            choice, late = choices[epsilon], float(hindsight[place].mean())
            found[name][f"{epsilon:g}"] = {
                "released": np.round(released[place] if choice.asks else [public], 4).tolist(),
                "setting": list(choice.setting),
                "asks": choice.asks,
                "gain": round(choice.gain, 4),
                "asked anyway": round(float(released[place].mean()), 4),
                "hindsight": round(max(late, public), 4),
                "best setting": list(items[best[place]][1]) if late > public else None,
            }
    return found


def best_places(items: Sequence[Item], accuracies: Array, count: int) -> list[int]:
    """Return the places of the items with the best `count` accuracies for each epsilon, by epsilon."""
    places: list[int] = []
    for epsilon in dict.fromkeys(epsilon for epsilon, _ in items):
        own = [place for place, item in enumerate(items) if item[0] == epsilon]
        places += sorted(own, key=lambda place: -accuracies[place])[:count]
    return places
