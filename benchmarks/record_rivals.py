"""What a trusted curator would release with privacy of one record, beside the record step of `benchmarks.records`.

    python -m benchmarks.record_rivals DATA_DIR OUT.jsonl --splits 5

The rivals get all rows pooled by a curator who is trusted, and its noise instead of the parties' shares, which favours
them; neighbours are tables with a row added or removed. Splits, public rows and epsilons are those of
`benchmarks.records` (and `benchmarks.regression`), delta is 1e-6. Rivals in coordinates use those of the record step,
clipped by public bounds, and its public score; `ebm` and `ddssp` use the features.

* `objective`: objective perturbation (Kifer, Smith and Thakurta 2012) with an exact solver, which is Approximate Minima
  Perturbation (Iyengar et al. 2019) without its second noise; `pure` with Gamma noise (Chaudhuri et al. 2011).
* `statistics`: noisy second moments, and the logistic loss as a polynomial of degree 2 (Huggins et al. 2017).
* `descent`: full-batch gradient descent with Gaussian noise (DP-SGD without sampling).
* `diffprivlib, pure`: the mechanism of diffprivlib's logistic regression; a row is replaced.
* `ebm`: DP-EBM of `interpret`, all options at their defaults (--ebm).
* `ddssp`: data-dependent sufficient statistics (Ferrando and Sheldon 2025): second moments of Adult's features from
  noisy marginals of its attributes (`benchmarks.marginals`, --ddssp), and the polynomial of `statistics`.
* `adassp`: adaptive sufficient statistics perturbation (Wang 2018), of a numeric label.

Each setting in SETTINGS is measured. The first is fixed in advance; the best of all in hindsight has a row of its own.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from benchmarks.marginals import aim, moments, values_of, zcdp_budget
from benchmarks.records import PARTIES, PUBLIC, data, score
from benchmarks.regression import cached, kdd_count
from psephos.curator.hamm.records import plan_records
from psephos.data.datasets import Dataset
from psephos.data.partition import load_split, scaler_for
from psephos.data.splits import Split
from psephos.protocol.privacy.mechanisms import gaussian_sigma
from psephos.simulation.job import JobOptions
from psephos.simulation.regression import RegressionRun
from psephos.simulation.tally import TallyOptions

Array = NDArray[np.float64]
DELTA, ROWS = 1e-6, 30_000
EPSILONS, NUMERIC_EPSILONS = (0.3, 1.0, 3.0, 10.0), (0.1, 1.0)
SMOOTHNESS = 0.25
"""Largest second derivative of the logistic loss, of rows of norm at most 1."""

SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "objective": ({"share": 0.25}, {"share": 0.25, "offset": False}, {"share": 0.25, "wide": True}, {"share": 0.6}),
    "objective, pure": ({"share": 0.25}, {"share": 0.25, "offset": False}, {"share": 0.6}),
    "statistics": ({"reach": 3.0}, {"reach": 6.0}, {"reach": 3.0, "wide": True}),
    "descent": ({"steps": 30}, {"steps": 30, "offset": False}, {"steps": 30, "wide": True}, {"steps": 100}),
    "diffprivlib, pure": ({"C": 1.0, "offset": False}, {"C": 30.0, "offset": False}, {"C": 1000.0, "offset": False}),
    "ebm": ({},),
    "ddssp": ({"ridge": 1.0}, {"ridge": 10.0}, {"ridge": 100.0}),
    "adassp": ({}, {"offset": False}, {"wide": True}),
}
"""By rival: its settings. offset: starts from the public score. wide: as many coordinates as the public rows give."""

ADULT_WIDTHS = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
"""Features of each attribute of Adult in the form a9a, in its order, age to native country: public, as its ranges."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Pooled rows in public coordinates, of norm at most 1, and test rows.

    Attributes:
        Z, test_Z: float64 (n, r + 1).
        t, test_t: the public scores, (n,); zeros where a rival does not start from them.
        y: classes 0 and 1, or numbers of size at most 1, (n,).
        public: the public rows in the same coordinates, (N, r + 1).
    """

    Z: Array
    t: Array
    y: Array
    test_Z: Array
    test_t: Array
    public: Array


# -- rivals; each returns weights (r + 1,), to which the public score is added


def logistic_sum(w: Array, problem: Problem) -> tuple[float, Array]:
    """Return the sum of the logistic losses and its gradient at w."""
    margin = problem.Z @ w + problem.t
    loss = float((np.logaddexp(0, margin) - problem.y * margin).sum())
    return loss, np.asarray(problem.Z.T @ (expit(margin) - problem.y))


def minimise_perturbed(problem: Problem, ridge: float, noise: Array) -> Array:
    """Minimise the sum of the logistic losses + ridge/2 |w|^2 + noise w, to the precision of float64."""

    def value(w: Array) -> tuple[float, Array]:
        loss, gradient = logistic_sum(w, problem)
        return loss + ridge / 2 * float(w @ w) + float(noise @ w), gradient + ridge * w + noise

    def curvature(w: Array) -> Array:
        p = expit(problem.Z @ w + problem.t)
        return np.asarray((problem.Z * (p * (1 - p))[:, None]).T @ problem.Z + ridge * np.eye(len(w)))

    start = np.zeros(problem.Z.shape[1])
    minimum = minimize(value, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-6})
    return np.asarray(minimum.x)


def objective(problem: Problem, epsilon: float, delta: float, share: float, generator: np.random.Generator) -> Array:
    """Perturb the objective by a linear term; `share` of epsilon is for the ratio of the determinants.

    A row changes the determinant by a factor of at most 1 + SMOOTHNESS/ridge, and the linear term in its own direction
    by at most 1. The privacy loss of Gaussian noise is then at most (|N|/sigma + 1/(2 sigma^2)) for a standard normal
    N, which exceeds the rest of epsilon with probability delta.
    """
    ridge, rest = SMOOTHNESS / math.expm1(share * epsilon), (1 - share) * epsilon
    width = problem.Z.shape[1]
    noise: Array
    if delta:
        quantile = float(norm.isf(delta / 2))
        noise = generator.normal(0, (quantile + math.sqrt(quantile**2 + 2 * rest)) / (2 * rest), size=(width,))
    else:
        direction = generator.normal(size=(width,))
        noise = direction * (generator.gamma(width, 1 / rest) / float(np.linalg.norm(direction)))
    return minimise_perturbed(problem, ridge, noise)


def quadratic_loss(reach: float) -> float:
    """Return c in log(1 + e^-s) ~ a - s/2 + c s^2, which interpolates it at Chebyshev points of [-reach, reach]."""
    points = chebyshev.chebpts1(3)
    coefficients = chebyshev.chebfit(points, np.logaddexp(0, -reach * points), 2)
    return float(chebyshev.cheb2poly(coefficients)[2]) / reach**2


def statistics(problem: Problem, epsilon: float, reach: float, generator: np.random.Generator) -> Array:
    """Solve for a quadratic loss from noisy sums of z z' and y z, whose joint sensitivity is sqrt(2)."""
    sigma = gaussian_sigma(math.sqrt(2), epsilon, DELTA) if math.isfinite(epsilon) else 0.0
    return solve_statistics(problem, quadratic_loss(reach), sigma, generator)


def solve_statistics(problem: Problem, c: float, sigma: float, generator: np.random.Generator) -> Array:
    """Solve 2 c (S + ridge) w = b/2 for noisy S and b; the ridge is the size of the noise in S."""
    width = problem.Z.shape[1]
    second = problem.Z.T @ problem.Z + symmetric_noise(width, sigma, generator)
    first = problem.Z.T @ (2 * problem.y - 1) + generator.normal(0, sigma, size=width)
    value, vector = np.linalg.eigh(second)
    ridge = sigma * math.sqrt(2 * width)
    return np.asarray(vector @ ((vector.T @ first) / (4 * c * np.maximum(value + ridge, ridge + 1e-9))))


def symmetric_noise(width: int, sigma: float, generator: np.random.Generator) -> Array:
    """Return Gaussian noise for a symmetric matrix of Frobenius sensitivity 1: less off the diagonal."""
    upper = np.triu(generator.normal(0, sigma / math.sqrt(2), size=(width, width)), 1)
    return np.asarray(upper + upper.T + np.diag(generator.normal(0, sigma, size=width)))


def descent(problem: Problem, epsilon: float, steps: int, generator: np.random.Generator) -> Array:
    """Descend on noisy sums of gradients, each of sensitivity 1; the step is 1 over the public rows' smoothness."""
    sigma = gaussian_sigma(math.sqrt(steps), epsilon, DELTA) if math.isfinite(epsilon) else 0.0
    moment = problem.public.T @ problem.public / len(problem.public)
    rate = 1 / (SMOOTHNESS * float(np.linalg.eigvalsh(moment)[-1]) * ROWS)
    w = np.zeros(problem.Z.shape[1])
    for _ in range(steps):
        w -= rate * (logistic_sum(w, problem)[1] + generator.normal(0, sigma, size=len(w)))
    return w


def vector_mechanism(problem: Problem, epsilon: float, C: float, seed: int) -> Array:
    """Minimise what diffprivlib's mechanism makes of the mean logistic loss and its ridge.

    Its class LogisticRegression, which does this, passes options that scikit-learn no longer has.
    """
    import sklearn.tree._tree as tree

    for name in ("DOUBLE", "DTYPE"):  # its trees import them; nothing here uses trees
        if not hasattr(tree, name):
            setattr(tree, name, np.float64)
    from diffprivlib.mechanisms import Vector

    rows, width = problem.Z.shape
    mechanism = Vector(
        epsilon=epsilon, function_sensitivity=SMOOTHNESS, dimension=width, alpha=1 / C, n=rows, random_state=seed
    )

    def loss(w: Array) -> tuple[float, Array]:
        value, gradient = logistic_sum(w, problem)
        return (value + float(w @ w) / (2 * C)) / rows, (gradient + w / C) / rows

    return np.asarray(minimize(mechanism.randomise(loss), np.zeros(width), jac=True, method="L-BFGS-B").x)


def adassp(problem: Problem, epsilon: float, generator: np.random.Generator) -> Array:
    """Regress numbers of size at most 1 by Wang's Algorithm 2, with Gaussian noise of a third of the privacy each.

    Its three releases are the least eigenvalue, the second moment and the product with the labels. Thirds are of the
    squared multiplier, which composes exactly.
    """
    width, failure = problem.Z.shape[1], 0.05
    sigma = gaussian_sigma(math.sqrt(3), epsilon, DELTA) if math.isfinite(epsilon) else 0.0
    second = problem.Z.T @ problem.Z
    least = float(np.linalg.eigvalsh(second)[0]) + generator.normal(0, sigma)
    least = max(least - sigma * float(norm.isf(failure / 2)), 0.0)
    ridge = max(0.0, sigma * math.sqrt(width * math.log(2 * width**2 / failure)) - least)
    first = problem.Z.T @ problem.y + generator.normal(0, sigma, size=width)
    noisy = second + symmetric_noise(width, sigma, generator) + ridge * np.eye(width)
    return np.asarray(np.linalg.solve(noisy, first))


RIVALS: dict[str, Callable[..., Array]] = {
    "objective": lambda problem, epsilon, seed, share: objective(problem, epsilon, DELTA, share, coins(seed)),
    "objective, pure": lambda problem, epsilon, seed, share: objective(problem, epsilon, 0.0, share, coins(seed)),
    "statistics": lambda problem, epsilon, seed, reach: statistics(problem, epsilon, reach, coins(seed)),
    "descent": lambda problem, epsilon, seed, steps: descent(problem, epsilon, steps, coins(seed)),
    "diffprivlib, pure": lambda problem, epsilon, seed, C: vector_mechanism(problem, epsilon, C, seed),
    "adassp": lambda problem, epsilon, seed: adassp(problem, epsilon, coins(seed)),
}


def coins(seed: int) -> np.random.Generator:
    """Return simulated noise, which protects nobody."""
    return np.random.default_rng([seed, 33])


# -- splits


def split_of(name: str, rows: tuple[Any, Any], seed: int) -> Split:
    """Return the split of `benchmarks.records`."""
    X, y = rows
    dataset = Dataset(name, np.asarray(X, dtype=np.float64), np.asarray(y), None, None, ("0", "1"), "your own")
    sizes = ",".join([str(ROWS // PARTIES)] * PARTIES)
    options = TallyOptions(
        parties=PARTIES, sizes=sizes, auxiliary=PUBLIC, unit="record", seed=seed, key_bits=512, test_key=True
    )
    return load_split(options, dataset)[1]


@dataclass(frozen=True, eq=False)
class Scaled:
    """The rows of a split with the scaling of the record step, whose last feature is 1.

    Attributes:
        private, test, public: float64 (n, d). y, public_y: labels of the private and of the public rows, (n,).
    """

    private: Array
    test: Array
    public: Array
    y: Array
    public_y: NDArray[Any]


def scaled(split: Split, transform: Callable[[Any], Array]) -> Scaled:
    """Return the rows of a split, with a scaling whose last feature is a constant."""
    labels, private = split.dataset.y_train, np.concatenate(split.parties)
    own, test, public = (transform(X) for X in (split.dataset.X_train[private], split.X_test, split.X_auxiliary))
    y = np.asarray(labels[private], dtype=np.float64)
    return Scaled(own / own[:, -1:], test / test[:, -1:], public / public[:, -1:], y, labels[split.auxiliary])


def scaled_classes(split: Split) -> Scaled:
    """Return the rows of a split as `psephos simulate tally --unit record` scales them, by the public rows."""
    scaler = scaler_for(split.dataset.name)
    scaler.set_params(intercept=scaler.intercept or 1.0, components=None, scaling="unit-rows")
    return scaled(split, scaler.fit(split.X_auxiliary).transform)


def problem_of(rows: Scaled, epsilon: float | None) -> Problem:
    """Return the pooled rows in the coordinates of the record step at epsilon; in all coordinates for None."""
    plan = plan_records(rows.public, rows.public_y, 2, PARTIES, rows=ROWS, epsilon=epsilon, neighbours="add-remove")
    return pooled(plan.grid, rows)


def pooled(grid: Any, rows: Scaled) -> Problem:
    """Return rows and test rows in the coordinates of a grid, in L2."""
    Z, test_Z, public = (l2_clip(grid, X @ grid.transform) for X in (rows.private, rows.test, rows.public))
    return Problem(Z, (rows.private @ grid.offset)[:, 0], rows.y, test_Z, (rows.test @ grid.offset)[:, 0], public)


def l2_clip(grid: Any, raw: Array) -> Array:
    """Return coordinates (n, r), clipped, and the constant: (n, r + 1), of L2 norm at most 1."""
    clipped = raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1.0)
    whole = np.column_stack([clipped, np.full(len(raw), grid.constant)])
    return np.asarray(whole / math.hypot(1.0, grid.constant) * (1 - 2.0**-40))


# -- measurements


def classify(split: Split, rival: str, seed: int) -> dict[str, Any]:
    """Return accuracy and AUROC of a rival by epsilon and setting, on one split."""
    rows, measured = scaled_classes(split), dict[str, Any]()
    problems: dict[float | None, Problem] = {}
    for epsilon in EPSILONS:
        for place, setting in enumerate(SETTINGS[rival]):
            own = dict(setting)
            # Noise without a delta is larger: it gets about the coordinates that the record step takes for it.
            at = None if own.pop("wide", False) else epsilon / 3 if rival.endswith("pure") else epsilon
            if at not in problems:
                problems[at] = problem_of(rows, at)
            problem = problems[at] if own.pop("offset", True) else without_score(problems[at])
            w = RIVALS[rival](problem, epsilon, seed, **own)
            measured[f"{epsilon:g}/{place}"] = score(problem.test_Z @ w + problem.test_t, split.y_test)
    return measured


def without_score(problem: Problem) -> Problem:
    """Return a problem that does not start from the public score."""
    return replace(problem, t=0 * problem.t, test_t=0 * problem.test_t)


def references(split: Split) -> dict[str, Any]:
    """Return accuracy and AUROC of the public score alone, and of logistic regression without privacy."""
    rows = scaled_classes(split)
    problem = problem_of(rows, 1.0)
    model = LogisticRegression(C=1.0, max_iter=300).fit(rows.private, rows.y)
    return {
        "public": score(problem.test_t, split.y_test),
        "without privacy": score(model.decision_function(rows.test), split.y_test),
    }


def boost(split: Split) -> dict[str, Any]:
    """Return accuracy and AUROC of DP-EBM by epsilon; ranges of the features are those of the public rows."""
    from interpret.privacy import DPExplainableBoostingClassifier

    public, private = split.X_auxiliary, np.concatenate(split.parties)
    low, high = public.min(axis=0), public.max(axis=0)
    high = np.where(high > low, high, low + 1.0)
    X, test = (np.clip(rows, low, high) for rows in (split.dataset.X_train[private], split.X_test))
    bounds = {column: (float(low[column]), float(high[column])) for column in range(len(low))}
    measured = {}
    for epsilon in EPSILONS:
        model = DPExplainableBoostingClassifier(
            epsilon=epsilon, delta=DELTA, privacy_bounds=bounds, feature_types=["continuous"] * len(low), n_jobs=1
        )
        model.fit(X, split.dataset.y_train[private])
        measured[f"{epsilon:g}/0"] = score(model.decision_function(test), split.y_test)
    return measured


def from_marginals(split: Split, seed: int) -> dict[str, Any]:
    """Return accuracy and AUROC of DD-SSP by epsilon and setting, on a split of Adult.

    As its authors do, the loss is interpolated in [-6, 6].
    """
    private = np.concatenate(split.parties)
    values = values_of(split.dataset.X_train[private], ADULT_WIDTHS)
    rows = np.column_stack([values, split.dataset.y_train[private]])
    test = np.column_stack([split.X_test, np.ones(len(split.X_test))])
    sizes, measured = (*(width + 1 for width in ADULT_WIDTHS), 2), dict[str, Any]()
    for epsilon in EPSILONS:
        second, first = moments(aim(rows, sizes, zcdp_budget(epsilon, DELTA), coins(seed)), ADULT_WIDTHS)
        for place, setting in enumerate(SETTINGS["ddssp"]):
            regular = second + setting["ridge"] * np.eye(len(second))
            w = np.linalg.solve(regular, first) / (4 * quadratic_loss(6.0))
            measured[f"{epsilon:g}/{place}"] = score(test @ w, split.y_test)
    return measured


def regress(data_dir: str, seed: int) -> dict[str, Any]:
    """Return R^2 of AdaSSP by epsilon and setting on the counts of KDD-99, with the bounds of the record step."""
    split, measured = kdd_count(data_dir, seed), dict[str, Any]()
    options: dict[str, Any] = {"data": "kdd count", "label": "y", "public": "public", "parties": PARTIES}
    options |= {"task": "regression", "unit": "record", "neighbours": "add-remove", "announced_rows": ROWS}
    options |= {"key_bits": 512, "test_key": True}
    for epsilon in NUMERIC_EPSILONS:
        for place, setting in enumerate(SETTINGS["adassp"]):
            at = 60.0 if setting.get("wide") else epsilon  # where all coordinates are used
            run = RegressionRun(JobOptions(epsilon=(at,), **options), split)
            label, start = run.spec.plan.grid.label, setting.get("offset", True)
            assert label is not None
            problem = pooled(run.spec.plan.grid, scaled(split, run.prepared))
            problem = problem if start else without_score(problem)
            scale = label.threshold if start else label.high - label.low
            residual = problem.y - np.clip(problem.t + label.middle, label.low, label.high)
            target = replace(problem, y=np.clip(residual / scale, -1, 1))
            w = RIVALS["adassp"](target, epsilon, seed) * scale
            predicted = np.clip(problem.test_t + label.middle + problem.test_Z @ w, label.low, label.high)
            errors = split.y_test - predicted
            measured[f"{epsilon:g}/{place}"] = [1 - float(np.mean(errors**2) / np.var(split.y_test))]
    return measured


# -- the tables


def table(lines: list[dict[str, Any]]) -> str:
    """Return the means by data and rival, in advance and in hindsight, as Markdown."""
    out = []
    for name in dict.fromkeys(line["name"] for line in lines):
        epsilons = NUMERIC_EPSILONS if name == "kdd count" else EPSILONS
        out += [f"| {name} | splits | {' | '.join(f'{e:g}' for e in epsilons)} |", "| --- " * (2 + len(epsilons)) + "|"]
        own = [line for line in lines if line["name"] == name]
        for rival in dict.fromkeys(line["rival"] for line in own):
            values: dict[str, list[Any]] = defaultdict(list)
            for line in own:
                for cell, value in line["measured"].items() if line["rival"] == rival else ():
                    values[cell].append(value)
            splits, means = len(next(iter(values.values()))), {cell: np.mean(v, axis=0) for cell, v in values.items()}
            if rival == "references":
                out += [
                    f"| {cell} | {splits} | {text(mean)} |" + " |" * (len(epsilons) - 1) for cell, mean in means.items()
                ]
                continue
            for hindsight in (False, True) if len(SETTINGS[rival]) > 1 else (False,):
                places = range(len(SETTINGS[rival]) if hindsight else 1)
                best = [max((means[f"{e:g}/{p}"] for p in places), key=lambda m: m[-1]) for e in epsilons]
                label = f"{rival}, in hindsight" if hindsight else rival
                out.append(f"| {label} | {splits} | {' | '.join(map(text, best))} |")
        out.append("")
    return "\n".join(out)


def text(mean: Any) -> str:
    """Return a mean of accuracy and AUROC, or of R^2."""
    return "/".join(f"{value:.3f}" for value in mean)


def measure(split: Split, rival: str, seed: int) -> dict[str, Any]:
    """Return what `references`, `boost`, `from_marginals` or `classify` measures."""
    if rival == "references":
        return references(split)
    if rival == "ddssp":
        return from_marginals(split, seed)
    return boost(split) if rival == "ebm" else classify(split, rival, seed)


def append(path: Path, line: dict[str, Any]) -> None:
    """Write a line of the results."""
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def main() -> None:
    """Measure what OUT.jsonl lacks, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir")
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--ebm", type=int, default=0, help="splits of DP-EBM, minutes each")
    parser.add_argument("--ddssp", type=int, default=0, help="splits of DD-SSP on Adult, a minute each")
    chosen = parser.parse_args()
    lines = [json.loads(line) for line in chosen.out.read_text().splitlines()] if chosen.out.exists() else []
    done = {(line["name"], line["rival"], line["seed"]) for line in lines}
    loaded = {"adult": data("adult", chosen.data_dir), "kdd99": cached(chosen.data_dir)}

    for seed in range(max(chosen.splits, chosen.ebm, chosen.ddssp)):
        for name, rows in loaded.items():
            split = split_of(name, rows, seed)
            rivals = [*RIVALS, "references"] if seed < chosen.splits else []
            rivals += ["ebm"] * (seed < chosen.ebm) + ["ddssp"] * (seed < chosen.ddssp and name == "adult")
            for rival in rivals:
                if rival != "adassp" and (name, rival, seed) not in done:
                    lines.append({"name": name, "rival": rival, "seed": seed, "measured": measure(split, rival, seed)})
                    append(chosen.out, lines[-1])
        if seed < chosen.splits and ("kdd count", "adassp", seed) not in done:
            measured = regress(chosen.data_dir, seed)
            lines.append({"name": "kdd count", "rival": "adassp", "seed": seed, "measured": measured})
            append(chosen.out, lines[-1])
    print(table(lines))


if __name__ == "__main__":
    main()
