"""Accuracy against epsilon of every release method under its public rule, and of rival methods at equal privacy.

    python -m benchmarks.accuracy har digits --data-dir DIR --splits 10 --draws 20
    python -m benchmarks.accuracy_page

The first command measures and writes the results after every split. The second one writes docs/accuracy.md and
benchmarks/accuracy.md from them.

Rows are split as in Hamm 2016, section 6. Counts and sums are computed in the clear to save time; the encrypted ones
are exactly equal, which every `psephos run` checks. The columns whose name begins with "joint" are the releases of
`psephos run`, to which the parties add the noise in shares. In all other columns a trusted curator adds it. The noise
of our methods comes from the operating system and lies on the lattice, as in a real release; that of the rivals in
`benchmarks.rivals` is simulated.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import diags_array
from sklearn.datasets import make_multilabel_classification
from sklearn.neighbors import NearestNeighbors

from benchmarks.rivals import ROUNDS, confident, rounds
from psephos.curator.hamm.averaging import average_of
from psephos.curator.hamm.erm import Minimiser
from psephos.curator.hamm.methods import (
    Method,
    ReleaseRequest,
    average_method,
    erm_fit,
    erm_method,
    own_data_method,
    pate_method,
    statistic_method,
)
from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius
from psephos.curator.hamm.statistic import (
    SOURCE_OF,
    MechanismName,
    StatisticPlan,
    fit_statistic,
    mechanism_with_less_noise,
    plan_statistic,
    public_coordinates,
    release_total,
    with_joint_noise,
)
from psephos.curator.losses import loss_named
from psephos.data.datasets import Dataset, data_folder, load, make_synthetic
from psephos.data.preprocessing import PublicScaler, default_scaler
from psephos.data.splits import Split, split_dataset
from psephos.parties.learners import make_learner
from psephos.parties.noise import DiscreteGaussianShares, Shares, shares_of
from psephos.parties.party import labels_of
from psephos.parties.training import WHITENED_RIDGE, train_parties, train_whitened, votes, votes_in_blocks
from psephos.protocol.encrypted_sum.fixed_point import FixedPoint, project
from psephos.protocol.encrypted_sum.own_data import OWN, Own, OwnDataGrid, contrast_basis, unit_rows
from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.encrypted_sum.vote_directions import VoteDirectionGrid
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, NoiseMechanism, RoundedGaussian
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.simulation.job import MIXED_LEARNERS, JobOptions
from psephos.simulation.linear import count_votes
from psephos.sweep import Sampler, sweep

RESULTS = Path(__file__).parent / "results" / "accuracy"
"""Folder of the results. Each task has a file of its own, so that several processes can measure at once."""

TEST_ROWS = 20_000
SMALL, MIDDLE, LARGE = (0.1, 0.3, 1.0), (0.3, 1.0, 3.0, 10.0), (0.1, 0.3, 1.0, 3.0, 10.0)
TASKS: dict[str, dict[str, Any]] = {
    "har": {"parties": 1000, "pure": LARGE, "gaussian": LARGE},
    "digits": {"parties": 200, "pure": MIDDLE, "gaussian": MIDDLE},
    "adult": {"parties": 1000, "pure": SMALL, "gaussian": SMALL},
    "breast-cancer": {"parties": 100, "pure": LARGE, "gaussian": MIDDLE},
    "kdd99": {"parties": 5000, "pure": (0.03, 0.1, 0.3), "gaussian": (), "size": 22, "auxiliary": 43_000},
    "kdd99-held-out": {"parties": 5000, "pure": (0.03, 0.1, 0.3), "gaussian": (), "size": 22, "auxiliary": 43_000},
    "who": {"parties": 200, "pure": (1.0, 3.0, 10.0), "gaussian": (1.0, 3.0, 10.0)},
    "tall": {"parties": 2000, "pure": SMALL, "gaussian": SMALL},
    "wide": {"parties": 500, "pure": (0.3, 1.0, 3.0), "gaussian": (0.3, 1.0, 3.0)},
    "moving": {"parties": 500, "pure": SMALL, "gaussian": SMALL},
    "occupation": {"parties": 1000, "pure": MIDDLE, "gaussian": MIDDLE},
    "har-60": {"parties": 60, "pure": (1.0, 3.0, 10.0), "gaussian": (1.0, 3.0, 10.0)},
    "har-subjects": {"parties": 30, "pure": (1.0, 3.0, 10.0), "gaussian": (1.0, 3.0, 10.0)},
}
"""Settings of each task: the number of parties, and the epsilons of pure privacy and of privacy at delta = 1e-6.

`size` is the number of rows of a party and `auxiliary` the number of public rows, where these are not those of
`split_dataset`. Some tasks use the rows of another data set:

* `kdd99-held-out`: KDD-99, tested on held-out rows of the training file.
* `who`: which of 21 people a row of HAR is from.
* `tall`: 40,000 synthetic rows of 10 features.
* `wide`: synthetic bags of 1,000 words, generated by scikit-learn.
* `moving`: whether the person of a row of HAR is moving or still.
* `occupation`: which of 14 occupations, from Adult's other features.
* `har-60`: HAR with 60 parties.
* `har-subjects`: HAR, where each party is one person.
"""

LAWS = ("pure", "gaussian")
"""Kinds of privacy: pure epsilon, and (epsilon, 1e-6)."""

DEVELOPMENT = ("har", "digits", "adult", "tall", "moving", "occupation", "har-60")
"""Tasks on which the constants of the rules are chosen (`benchmarks.constants`). The other tasks report accuracy."""

VOTERS = ("whitened votes", "propagation")
"""Columns of the statistic of the votes of other learners: those that train in the public coordinates
(`--learners whitened`), and parties that spread their labels over the public rows (`_propagated`)."""

SUMMED = (*OWN, "statistic")
DIRECTIONS: dict[str, tuple[str, ...]] = {
    "joint vote-directions": ("logistic",),
    "joint mixed vote-directions": MIXED_LEARNERS,
}
"""Columns of vote-directions with joint noise, and the learners that are assigned to the parties in turn."""

JOINT = tuple(f"joint {name}" for name in SUMMED)
"""Columns of the releases of `psephos run`: the parties add the noise to the sum in shares."""

METHODS = (*JOINT, "avg", "soft", "pate", "confident", "rounds")
"""Columns that are measured by default, and with which the method that the rule selects is compared."""

RIVALS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "rounds": (rounds, ROUNDS),
    "confident": (confident, (0.5, 1.0, 2.0)),
}
"""Rival methods with a parameter that a user would tune, and the values tried. The best value in hindsight counts."""

SHOWN = (*JOINT, "avg", "soft", "pate", *SUMMED, "confident", "rounds")
COLUMNS = (*SHOWN, *VOTERS, *DIRECTIONS)

COLLUDERS = JobOptions().opening_threshold - 1
"""Number of parties that may reveal their noise shares to each other: one less than the key holders who open a sum."""


def _har_subjects(folder: Path) -> tuple[Any, Any]:
    """Return the number of the person, 1 to 30, of each training row and of each test row of HAR, int64 (rows,)."""
    archive = zipfile.ZipFile(next(folder.glob("**/UCI HAR Dataset.zip")))
    train, test = (
        np.loadtxt(io.BytesIO(archive.read(f"UCI HAR Dataset/{part}/subject_{part}.txt"))).astype(np.int64)
        for part in ("train", "test")
    )
    return train, test


_load = cache(load)


def _load_split(task: str, seed: int, folder: Path) -> tuple[Split, PublicScaler]:
    """Return one split of a task, and the scaler of its rows, which is not fitted yet."""
    settings = TASKS[task]
    scaler = PublicScaler(scaling="unit-rows", components=50)
    if task == "har-subjects":
        data = _load("har", folder)
        X, y = np.concatenate([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
        subject = np.concatenate(_har_subjects(folder))
        whole = Dataset("har", X, y, None, None, data.classes, data.source)
        order = np.random.default_rng(seed).permutation(len(X))
        public, test, private = np.split(order, [len(X) // 10, 4 * len(X) // 10])
        parties = tuple(private[subject[private] == person] for person in range(1, 31))
        return Split(whole, seed, auxiliary=public, parties=parties, test=test), scaler
    if task == "who":
        har = _load("har", folder)
        _, label = np.unique(_har_subjects(folder)[0], return_inverse=True)
        data = Dataset("har", har.X_train, label, None, None, tuple(map(str, range(label.max() + 1))), har.source)
    elif task == "moving":
        har = _load("har", folder)
        y = (har.y_train > 2).astype(np.int64)
        data = Dataset("moving", har.X_train, y, None, None, ("moving", "still"), har.source)
    elif task == "occupation":
        adult = _load("adult", folder)
        own = np.arange(46, 60)  # a9a's columns of the 14 occupations
        rows = adult.X_train[:, own].any(axis=1)
        X, y = np.delete(adult.X_train[rows], own, axis=1), adult.X_train[rows][:, own].argmax(axis=1)
        data = Dataset("occupation", X, y, None, None, tuple(map(str, range(14))), adult.source)
    elif task == "kdd99-held-out":
        kdd = _load("kdd99", folder)
        data, scaler = replace(kdd, X_test=None, y_test=None), default_scaler("kdd99").set_params(scaling="unit-rows")
    elif task == "har-60":
        data = _load("har", folder)
    elif task == "tall":
        data = make_synthetic(classes=5, features=10, samples=40_000, test=10_000, seed=seed)
        scaler = PublicScaler(scaling="unit-rows")
    elif task == "wide":
        X, Y = make_multilabel_classification(
            n_samples=8000, n_features=1000, n_classes=4, n_labels=1, allow_unlabeled=False, random_state=0
        )
        data = Dataset("wide", X.astype(float), Y.argmax(axis=1), None, None, tuple("abcd"), "scikit-learn")
        scaler = PublicScaler(scaling="unit-rows", components=100)
    else:
        data, scaler = _load(task, folder), default_scaler(task).set_params(scaling="unit-rows")
    split = split_dataset(
        data, settings["parties"], seed, samples_per_party=settings.get("size"), auxiliary=settings.get("auxiliary")
    )
    return split, scaler


def prepare(task: str, seed: int, folder: Path, *, trained: bool = True) -> dict[str, Any]:
    """Return one split of a task, scaled, as the dictionary that all methods start from.

    Args:
        task: a key of `TASKS`.
        seed: of the split.
        folder: where the data files are.
        trained: whether to train the parties' classifiers, which "counts" and "average" need.

    Returns:
        The entries below. Methods store further ones, which several releases share.

        * X, y, unit private: the private rows in the order of the parties, float64 (n, d), their class numbers (n,),
          and the same rows at unit length.
        * edges: int (M + 1,); party m has the rows from edges[m] to edges[m + 1] - 1.
        * classes, parties: K and M.
        * auxiliary: the public rows, (N, d).
        * teacher: None; `benchmarks.rivals.confident` stores its plan here.
        * X_test, y_test: the test rows and their class numbers, at most `TEST_ROWS`, chosen at random.
        * counts, average: as `_trained` returns them.
    """
    split, scaler = _load_split(task, seed, folder)
    auxiliary = scaler.fit(split.X_auxiliary).transform(split.X_auxiliary)
    test_rows = np.random.default_rng(seed).permutation(len(split.y_test))[:TEST_ROWS]
    X, y, sizes = split.private()
    X = scaler.transform(X)
    problem = {
        "X": X,
        "y": y,
        "edges": np.concatenate([[0], np.cumsum(sizes)]),
        "unit private": unit_rows(X),
        "classes": len(split.dataset.classes),
        "parties": TASKS[task]["parties"],
        "auxiliary": auxiliary,
        "teacher": None,
        "X_test": scaler.transform(split.X_test[test_rows]),
        "y_test": split.y_test[test_rows],
    }
    return problem | _trained(problem, sizes) if trained else problem


def _trained(problem: dict[Any, Any], sizes: Any) -> dict[str, Any]:
    """Train a logistic classifier for each party, on as many rows as `sizes` (M,) says.

    Returns:
        "counts", their votes for each class of each public row, int64 (N, K); and "average", the `Average` of their
        projected parameters.
    """
    X, y, edges, classes = problem["X"], problem["y"], problem["edges"], problem["classes"]
    auxiliary, parties = problem["auxiliary"], problem["parties"]
    parameters = [
        train_parties(X[edges[a] : edges[b]], y[edges[a] : edges[b]], sizes[a:b], classes=classes, lam=HAMM_LAMBDA)
        for a in range(0, parties, 500)
        for b in [min(parties, a + 500)]
    ]
    W = np.concatenate(parameters)
    radius, fixed_point = averaging_radius(HAMM_LAMBDA, classes), FixedPoint(24)
    sums = np.sum([np.array(fixed_point.encode(project(w, radius), radius), dtype=object) for w in W], axis=0)
    return {
        "counts": count_votes((block for _, block in votes_in_blocks(W, auxiliary)), len(auxiliary), classes),
        "average": average_of(list(sums), parties, radius, fixed_point, features=auxiliary.shape[1], classes=classes),
    }


def accuracy(problem: dict[Any, Any], w: Any) -> float:
    """Return the share of test rows that a classifier (d,) or (K, d) predicts correctly, rounded to 4 decimals."""
    w = w[1] - w[0] if w.ndim == 2 and len(w) == 2 else w
    return round(float(np.mean(votes(w[None], problem["X_test"])[0] == problem["y_test"])), 4)


def _noise(problem: dict[Any, Any], law: str, epsilon: float, *, joint: bool = False) -> MechanismName:
    """Return the mechanism of a law: Laplace noise for "pure", and for "gaussian" the one that adds less noise."""
    if law == "pure":
        return "discrete-laplace" if joint else "spherical-laplace"
    agreed = problem["auxiliary"], problem["classes"], problem["parties"]
    return mechanism_with_less_noise(*agreed, epsilon=epsilon, delta=1e-6, joint=joint)


def joint_noise(mechanism: NoiseMechanism, shares: Shares, randomness: Randomness = SYSTEM) -> list[int]:
    """Draw the sum of all parties' noise shares, `shares.dimension` integers.

    The variances of discrete Gaussian shares add up, so their sum is drawn at once. Where its variance is above 2^80 it
    is drawn as a rounded Gaussian, which is faster. The Polya shares of `shares.contributors` parties add up to exactly
    the distribution of `mechanism`, which is drawn at once; the shares of the other parties are drawn one by one.
    """
    if isinstance(shares, DiscreteGaussianShares):
        variance = shares.variance * shares.parties / shares.contributors
        if variance > 2**80:
            return RoundedGaussian(shares.dimension, math.sqrt(variance), 1.0).sample(randomness)
        return DiscreteGaussian(shares.dimension, variance).sample(randomness)
    others = (shares.share(randomness) for _ in range(shares.parties - shares.contributors))
    return [sum(entry) for entry in zip(mechanism.sample(randomness), *others, strict=True)]


def joint_at(
    problem: dict[Any, Any],
    law: str,
    epsilon: float,
    name: str = "own-data",
    lam: float = WHITENED_RIDGE,
    learners: Sequence[str] = ("logistic",),
) -> Method:
    """Return a method with joint noise: every party adds its share, as for a release of `psephos run`.

    Args:
        problem: from `prepare`.
        law: "pure" or "gaussian".
        epsilon: privacy parameter.
        name: one of `SUMMED`, or "vote-directions".
        lam: lambda of the parties' classifiers, for "whitened".
        learners: the learners that are assigned to the parties in turn, for "vote-directions".
    """
    auxiliary, classes, parties = problem["auxiliary"], problem["classes"], problem["parties"]
    source = SOURCE_OF[name]
    noise = _noise(problem, law, epsilon, joint=True)
    terms: dict[str, Any] = {"epsilon": epsilon, "mechanism": noise, "source": source, "joint": True}
    plan = plan_statistic(auxiliary, classes, parties, **terms)
    assert plan.mechanism is not None
    mechanism, shares = plan.mechanism, shares_of(plan, colluders=COLLUDERS)
    plan = with_joint_noise(plan, shares.contributors)
    grid = plan.grid
    if isinstance(grid, StatisticGrid):
        total = grid.total(problem["counts"])
    elif isinstance(grid, VoteDirectionGrid):
        total = _vote_direction_sum(problem, plan, learners)
    else:
        total = _own_sum(problem, plan, lam)

    def draw(randomness: Randomness) -> Any:
        noisy = [exact + entry for exact, entry in zip(total, joint_noise(mechanism, shares, randomness), strict=True)]
        return fit_statistic(release_total(plan, noisy))

    return replace(own_data_method(total, plan), draw=draw)


def own_data_at(
    problem: dict[Any, Any], law: str, epsilon: float, source: Own = "own-data", lam: float = WHITENED_RIDGE
) -> Method:
    """Return own-data or whitened under the public rules, with the noise of a trusted curator.

    Args:
        problem: from `prepare`.
        law: "pure" or "gaussian".
        epsilon: privacy parameter.
        source: the method.
        lam: lambda of the parties' classifiers, for "whitened".
    """
    auxiliary, classes, parties = problem["auxiliary"], problem["classes"], problem["parties"]
    mechanism = _noise(problem, law, epsilon)
    plan = plan_statistic(auxiliary, classes, parties, epsilon=epsilon, mechanism=mechanism, source=source)
    return own_data_method(_own_sum(problem, plan, lam), plan)


def measure_split(
    task: str, seed: int, draws: int, folder: Path, columns: set[str], laws: Sequence[str] = LAWS
) -> dict[str, list[float]]:
    """Measure one split of a task.

    Args:
        task: a key of `TASKS`.
        seed: of the split.
        draws: number of releases of each method at each epsilon.
        folder: where the data files are.
        columns: the columns to measure, of `COLUMNS`.
        laws: the noises to measure, of `LAWS`.

    Returns:
        The accuracies of the releases by "law epsilon column". For a rival with a parameter they are those of the value
        with the best mean.
    """
    problem = prepare(task, seed, folder, trained=not columns <= {*JOINT[: len(OWN)], *OWN, *VOTERS, *DIRECTIONS})
    loss = loss_named("logistic", problem["classes"])
    fit = erm_fit("soft", problem["counts"], problem["auxiliary"], loss) if "soft" in columns else None
    generator = np.random.default_rng(seed)
    mechanisms: dict[str, MechanismName] = {"pure": "spherical-laplace", "gaussian": "gaussian"}
    accuracies: dict[str, list[float]] = {}
    for law in laws:
        mechanism = mechanisms[law]

        def samplers_at(epsilon: float, law: str = law, mechanism: MechanismName = mechanism) -> dict[str, Sampler]:
            """Return the sampler of each method, and of each rival with each value of its parameter, at an epsilon."""
            request = ReleaseRequest(epsilon, 1e-6, mechanism, None, "certified", False)
            ours = _ours(problem, law, request, seed, fit)
            methods = {name: make() for name, make in ours.items() if name in columns}
            samplers: dict[str, Sampler] = {name: partial(method.draw, SYSTEM) for name, method in methods.items()}
            for name, (rival, values) in RIVALS.items():
                for value in values if name in columns else ():
                    samplers[f"{name} {value:g}"] = partial(rival, law, epsilon, value, problem, generator)
            return samplers

        for draw in sweep(samplers_at, TASKS[task][law], draws):
            key = f"{law} {draw.epsilon:g} {draw.method}"
            accuracies.setdefault(key, []).append(accuracy(problem, draw.weights))
        for epsilon in TASKS[task][law]:
            for name in RIVALS.keys() & columns:
                keys = [f"{law} {epsilon:g} {name} {value:g}" for value in RIVALS[name][1]]
                accuracies[f"{law} {epsilon:g} {name}"] = max((accuracies.pop(key) for key in keys), key=np.mean)
    return accuracies


def _ours(
    problem: dict[Any, Any], law: str, request: ReleaseRequest, seed: int, fit: Callable[[float], Minimiser] | None
) -> dict[str, Callable[[], Method]]:
    """Return, by column, functions that build our methods at the epsilon of a request.

    Args:
        problem: from `prepare`. Without "counts" the methods that need trained classifiers are left out.
        law: "pure" or "gaussian".
        request: the parameters of the releases; methods that may choose their noise have that of `_noise` instead.
        seed: public seed of the choice of PATE's queries.
        fit: an `erm_fit` for "soft", which several epsilons share; None computes it anew.
    """
    counts, auxiliary = problem.get("counts"), problem["auxiliary"]
    loss = loss_named("logistic", problem["classes"])
    less_noise = replace(request, mechanism=_noise(problem, law, request.epsilon))
    ours: dict[str, Callable[[], Method]] = {
        f"joint {name}": partial(joint_at, problem, law, request.epsilon, name)
        for name in (SUMMED if counts is not None else OWN)
    }
    ours |= {
        "own-data": lambda: own_data_at(problem, law, request.epsilon),
        "whitened": lambda: own_data_at(problem, law, request.epsilon, "whitened"),
        "whitened votes": lambda: whitened_votes(problem, law, request.epsilon),
        "propagation": lambda: statistic_method(_propagated(problem), auxiliary, less_noise),
    }
    for column, learners in DIRECTIONS.items():
        name = "vote-directions"
        ours[column] = partial(joint_at, problem, law, request.epsilon, name, learners=learners)
    if counts is not None:
        ours |= {
            "statistic": lambda: statistic_method(counts, auxiliary, less_noise),
            "avg": lambda: average_method(problem["average"], HAMM_LAMBDA, request),
            "soft": lambda: erm_method("soft", counts, auxiliary, loss, request, fit),
            "pate": lambda: pate_method(counts, auxiliary, request, seed),
        }
    return ours


def _propagated(problem: dict[Any, Any]) -> Any:
    """Return the counts (N, K) of the votes of parties that use label spreading (Zhou et al. 2004).

    The labels of a party start at the ten public rows nearest to each of its own rows. They spread over the graph of
    the public rows' ten nearest neighbours, with alpha = 0.95 and 60 steps.
    """
    if "propagated" not in problem:
        public, y, edges, classes = unit_rows(problem["auxiliary"]), problem["y"], problem["edges"], problem["classes"]
        nearest = NearestNeighbors(n_neighbors=10).fit(public)
        graph = nearest.kneighbors_graph()
        graph = graph.maximum(graph.T)
        scale = diags_array(1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
        spread, near = scale @ graph @ scale, nearest.kneighbors(problem["unit private"], return_distance=False)
        counts = np.zeros((len(public), classes), np.int64)
        for a, b in pairwise(edges):
            start = np.zeros((len(public), classes))
            np.add.at(start, (near[a:b], y[a:b, None]), 1.0)
            labels = start
            for _ in range(60):
                labels = 0.95 * (spread @ labels) + 0.05 * start
            labels += 1e-12 * start.sum(axis=0)  # rows that no label reaches get the party's most frequent class
            counts[np.arange(len(public)), labels.argmax(axis=1)] += 1
        problem["propagated"] = counts
    return problem["propagated"]


def _whitened(problem: dict[Any, Any], transform: Any, lam: float = WHITENED_RIDGE) -> Any:
    """Train every party's classifier in the coordinates of `transform` (d, r); return their coefficients (M, K, r)."""
    y, edges, classes = problem["y"], problem["edges"], problem["classes"]
    Z, sizes = problem["unit private"] @ transform, np.diff(edges)
    fixed = {"classes": classes, "transform": transform, "lam": lam}
    vectors = [
        train_whitened(Z[edges[a] : edges[b]], y[edges[a] : edges[b]], sizes[a:b], **fixed)
        for a in range(0, len(sizes), 500)
        for b in [min(len(sizes), a + 500)]
    ]
    return np.concatenate(vectors)


def whitened_votes(problem: dict[Any, Any], law: str, epsilon: float, rank: int = 12) -> Method:
    """Return the statistic of the votes of the learner `whitened` in `rank` public coordinates.

    The counts of the votes are stored in `problem`. A trusted curator adds the noise.
    """
    key, auxiliary = ("whitened votes", rank), problem["auxiliary"]
    if key not in problem:
        transform = public_coordinates(auxiliary, rank)
        W = _whitened(problem, transform) @ transform.T
        blocks = (block for _, block in votes_in_blocks(W, auxiliary))
        problem[key] = count_votes(blocks, len(auxiliary), problem["classes"])
    request = ReleaseRequest(epsilon, 1e-6, _noise(problem, law, epsilon), None, "certified", False)
    return statistic_method(problem[key], auxiliary, request)


def _own_sum(problem: dict[Any, Any], plan: StatisticPlan, lam: float) -> list[int]:
    """Return the exact sum of the parties' vectors: `plan.dimension` integers, in lattice units.

    It is stored in `problem` under the source, the rank, lambda and the norm, which determine it.
    """
    assert isinstance(plan.grid, OwnDataGrid)
    key = (plan.source, plan.rank, lam, plan.grid.norm)
    if key not in problem:
        X, y, total = problem["X"], problem["y"], np.zeros(plan.dimension, np.int64)
        W = _whitened(problem, plan.transform, lam) if plan.source == "whitened" else None
        for number, (a, b) in enumerate(pairwise(problem["edges"])):
            train = None if W is None else lambda Z, labels, own=W[number]: own
            total += np.array(plan.grid.contribution(X[a:b], y[a:b], train), dtype=np.int64)
        problem[key] = total.tolist()
    entries: list[int] = problem[key]
    return entries


def _vote_direction_sum(problem: dict[Any, Any], plan: StatisticPlan, learners: Sequence[str]) -> list[int]:
    """Return the exact sum of the parties' vote-directions: `plan.dimension` integers, in lattice units.

    The statistic of each party's votes in all coordinates is stored in `problem`. A plan uses the first `plan.rank`.
    """
    assert isinstance(plan.grid, VoteDirectionGrid)
    if learners not in problem:
        X, y, edges, classes = problem["X"], problem["y"], problem["edges"], problem["classes"]
        Z, auxiliary = plan.self_training.rows @ plan.self_training.transform, problem["auxiliary"]
        matrices = []
        for number, (a, b) in enumerate(pairwise(edges)):
            learner = make_learner(learners[number % len(learners)], classes=classes, seed=number)
            labels = labels_of(learner.fit(X[a:b], y[a:b]), auxiliary, classes)
            weights = labels if labels.ndim == 2 else np.eye(classes)[labels]
            matrices.append(contrast_basis(classes) @ weights.T @ Z)
        problem[learners] = np.array(matrices)
    vectors = (plan.grid.direction(matrix[:, : plan.rank]) for matrix in problem[learners])
    return [sum(column) for column in zip(*vectors, strict=True)]


def main() -> None:
    """Measure the named tasks, one split at a time, and store the accuracies after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", choices=[[], *TASKS])
    parser.add_argument("--data-dir")
    parser.add_argument("--methods", nargs="*", choices=COLUMNS, default=METHODS, help="only these columns")
    parser.add_argument("--laws", nargs="*", choices=LAWS, default=LAWS, help="only these noises")
    parser.add_argument("--again", action="store_true", help="measure what has been measured before, too")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    folder = data_folder(options.data_dir)
    for seed in range(options.splits):
        for task in options.tasks or TASKS:
            splits = measured(task)[seed : seed + 1]
            complete = {
                c.split(" ", 2)[2] for one in splits for c, releases in one.items() if len(releases) >= options.draws
            }
            if missing := set(options.methods) - (set() if options.again else complete):
                scores = measure_split(task, seed, options.draws, folder, missing, options.laws)
                results = measured(task)  # read again, since another process may have added other columns
                results += [{} for _ in range(seed + 1 - len(results))]
                results[seed] |= scores
                (RESULTS / f"{task}.json").write_text(json.dumps(results) + "\n")


def measured(task: str) -> list[dict[str, list[float]]]:
    """Return the stored accuracies of a task: for each split a list of draws by "law epsilon method"."""
    file = RESULTS / f"{task}.json"
    splits: list[dict[str, list[float]]] = json.loads(file.read_text()) if file.exists() else []
    return splits


if __name__ == "__main__":
    main()
