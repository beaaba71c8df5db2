"""Accuracy on ordinary tables whose public rows are labelled: a rehearsed step against what there was before.

    python -m benchmarks.tables OUT.json --half report --splits 5
    python -m benchmarks.tables SHARES.json --half report --splits 3 --class-shares

The tables come from scikit-learn and from generators: 1 to 50 % positives or several classes, 5 to 100 parties, 178 to
100,000 rows, numbers with categories and dates, columns that say nothing, parties with different shares of the classes.
Half of them are for development and half only report; the halves were fixed before anything was tuned. The report half
showed that plans were too bold where public rows are few. Plans have been compared with caution since, which was tuned
on the development half, to which three tables were added, and is confirmed by tables that were made afterwards. Rows
are scaled as `psephos run` scales a user's own table. All releases have a pure epsilon and the noise that `psephos run`
adds: sums of own rows and of steps that of the parties' shares, of which two are not counted on; votes and averages the
curator's. OUT.json has a line for each split; splits that it has already are not repeated. With --class-shares
the methods that do not use labels are measured with and without announced class shares.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.linear_model import LogisticRegression

from benchmarks.accuracy import COLLUDERS, _ours, _trained, accuracy, joint_noise
from psephos.curator.checks import public_features
from psephos.curator.class_shares import with_class_shares
from psephos.curator.methods import ReleaseRequest, statistic_method
from psephos.curator.rehearsal import fit_public
from psephos.curator.rehearsed import (
    fit_rehearsed,
    model_classifier,
    plan_rehearsed,
    rehearsal_of,
)
from psephos.data.preprocessing import default_scaler
from psephos.parties.learners import make_learner
from psephos.parties.noise import contributors, shares_of
from psephos.parties.party import labels_of
from psephos.protocol.grids.own_data import unit_rows
from psephos.protocol.randomness import SYSTEM
from psephos.simulation.options import MIXED_LEARNERS

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

EPSILONS = (0.3, 1.0, 3.0, 10.0)
TODAY = ("statistic", "avg", "joint own-data", "joint whitened", "joint vote-directions")
"""Methods of `psephos run` that do not use the labels of public rows."""

METHODS = ("rehearsed", "public", "most frequent", *TODAY)

SHARES = "class shares"
"""The law that stands in a line of `measure_shares`."""

DEFAULT = "default"
"""What `psephos run` releases unless a method is named: the statistic of mixed learners' votes, for `--half cases`."""

CASE_EPSILONS = (1.0, 3.0, 10.0, 30.0)
TEST_ROWS = 2000
SHARES_KNOWN = 0.01
"""To which announced class shares are rounded; no share is smaller."""

WRONG = 0.05
"""By how much the largest announced share is too small in a second measurement."""


def clinics(
    share: float,
    seed: int,
    *,
    numbers: int,
    categories: tuple[int, ...],
    empty: int,
    rows: int = 6000,
    noise: float = 0.6,
) -> tuple[Array, Labels]:
    """Return rows of numbers (one skewed), categories, a date and columns that say nothing.

    Args:
        share: of the rows with the second class.
        seed: of the rows.
        numbers: their columns. categories: levels of each category. empty: columns that say nothing.
        rows: how many.
        noise: scale of the logistic noise in the score that decides a row's class.
    """
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(rows, numbers))
    score = 0.3 * values @ generator.normal(size=numbers) + 0.8 * values[:, 1]
    values[:, 0] = np.exp(values[:, 0])
    columns = [values]
    for levels in categories:
        level = generator.choice(levels, size=rows, p=generator.dirichlet(np.full(levels, 2.0)))
        score = score + 0.9 * generator.normal(size=levels)[level]
        columns.append(np.eye(levels)[level])
    day = generator.integers(0, 1500, rows)
    columns += [day[:, None] / 365.0, np.eye(12)[day // 30 % 12], generator.normal(size=(rows, empty))]
    score = score + 0.9 * day / 365 + 0.5 * np.sin(day / 365 * 2 * np.pi) + noise * generator.logistic(size=rows)
    return np.hstack(columns), (score > np.quantile(score, 1 - share)).astype(np.int64)


def clusters(rows: int, seed: int, **shape: Any) -> tuple[Array, Labels]:
    """Return rows of scikit-learn's Gaussian clusters."""
    X, y = datasets.make_classification(rows, random_state=seed, **shape)
    return X, y.astype(np.int64)


def bundled(name: str, label: Callable[[Labels], Labels] = lambda y: y) -> tuple[Array, Labels]:
    """Return a data set that scikit-learn contains."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, label(np.asarray(y, dtype=np.int64))


def rare(seed: int, features: int, separation: float) -> tuple[Array, Labels]:
    """Return 20,000 rows with 1 % positives."""
    shape = {"n_features": features, "n_informative": 6, "n_redundant": 3, "weights": [0.99], "flip_y": 0.0}
    return clusters(20_000, seed, class_sep=separation, **shape)


def uninformative(seed: int, features: int, informative: int, rows: int = 9000, wrong: float = 0.05) -> Any:
    """Return rows of two classes most of whose columns say nothing."""
    return clusters(rows, seed, n_features=features, n_informative=informative, n_redundant=0, flip_y=wrong)


def four_classes(seed: int, features: int) -> tuple[Array, Labels]:
    """Return rows of four classes for which every column matters."""
    shape = {"n_features": features, "n_informative": features, "n_redundant": 0, "n_clusters_per_class": 1}
    return clusters(9000, seed, n_classes=4, class_sep=1.5, **shape)


class Table(NamedTuple):
    """A table and how it is dealt.

    Attributes:
        rows: makes features and labels.
        parties: M. size: rows of a party. public: number of labelled public rows.
        skew: concentration of the parties' class shares; None deals at random.
    """

    rows: Callable[[], tuple[Array, Labels]]
    parties: int
    size: int
    public: int
    skew: float | None = None


DEVELOPMENT: Mapping[str, Table] = {
    "cancer": Table(partial(bundled, "breast_cancer"), 12, 25, 60),
    "digits, even or odd": Table(partial(bundled, "digits", lambda y: y % 2), 25, 40, 100),
    "clinics, 30 %": Table(partial(clinics, 0.3, 11, numbers=5, categories=(3, 5, 8, 12), empty=4), 12, 33, 60),
    "clinics, 10 %, skewed": Table(
        partial(clinics, 0.1, 12, numbers=5, categories=(3, 5, 8, 12), empty=4), 25, 60, 60, 0.5
    ),
    "four classes": Table(partial(four_classes, 5, 16), 100, 50, 150),
    "1 %": Table(partial(rare, 6, 20, 1.5), 25, 100, 200),
    "60 empty columns": Table(partial(uninformative, 7, 65, 5), 100, 30, 100),
    "35 empty columns": Table(partial(uninformative, 17, 39, 4), 25, 50, 40),
    "clinics, 20 %": Table(partial(clinics, 0.2, 13, numbers=4, categories=(3, 4, 7), empty=5), 12, 33, 60),
    "clinics, 12 %": Table(partial(clinics, 0.12, 15, numbers=6, categories=(4, 4, 9), empty=5), 80, 50, 100),
    "100,000 rows": Table(partial(uninformative, 8, 20, 8, 103_000), 50, 1990, 300, 1.0),
}
REPORT: Mapping[str, Table] = {
    "wine": Table(partial(bundled, "wine"), 5, 20, 25),
    "cancer, skewed": Table(partial(bundled, "breast_cancer"), 5, 40, 40, 1.0),
    "digits": Table(partial(bundled, "digits"), 25, 40, 150),
    "clinics, 30 %, other": Table(partial(clinics, 0.3, 21, numbers=4, categories=(2, 4, 6, 10), empty=6), 12, 33, 60),
    "clinics, 10 %": Table(partial(clinics, 0.1, 22, numbers=6, categories=(4, 4, 9), empty=5), 100, 50, 100),
    "four classes, skewed": Table(partial(four_classes, 25, 12), 25, 60, 100, 0.5),
    "1 %, other": Table(partial(rare, 26, 15, 1.2), 100, 100, 100),
    "40 empty columns": Table(partial(uninformative, 27, 44, 4), 25, 50, 40),
    "100,000 rows, other": Table(partial(uninformative, 28, 30, 10, 103_000), 100, 1000, 200),
}
CONFIRMATION: Mapping[str, Table] = {
    "iris": Table(partial(bundled, "iris"), 5, 12, 24),
    "digits, above 4": Table(partial(bundled, "digits", lambda y: (y > 4).astype(np.int64)), 5, 60, 60),
    "clinics, 25 %": Table(partial(clinics, 0.25, 51, numbers=5, categories=(3, 5, 7), empty=3), 12, 33, 60),
    "clinics, 8 %, skewed": Table(
        partial(clinics, 0.08, 52, numbers=4, categories=(2, 6, 8), empty=4), 60, 40, 80, 0.5
    ),
    "four classes, other": Table(partial(four_classes, 53, 14), 100, 40, 90),
    "1 %, third": Table(partial(rare, 54, 18, 1.3), 50, 100, 150),
    "25 empty columns": Table(partial(uninformative, 55, 30, 5), 100, 40, 60),
    "50,000 rows, skewed": Table(partial(uninformative, 56, 24, 8, 53_000), 50, 1000, 150, 1.0),
}
_twelve: dict[str, Any] = {"numbers": 3, "categories": (4,), "empty": 2, "rows": 8000, "noise": 0.2}
CASES: Mapping[str, Table] = {
    "12 parties, 400 rows": Table(partial(clinics, 0.3, 61, **_twelve), 12, 33, 60),
    "12 parties, 4,000 rows": Table(partial(clinics, 0.3, 61, **_twelve), 12, 333, 60),
    "12 parties, 1 % of 4,000": Table(partial(clinics, 0.01, 61, **_twelve), 12, 333, 200),
}
"""Twelve parties with numbers, a category, a date and two columns that say nothing: what a newcomer's table is like."""

HALVES = {"development": DEVELOPMENT, "report": REPORT, "confirmation": CONFIRMATION, "cases": CASES}
GENERATED = ("clinics", "four", "1 %", "60", "40", "25", "100,000", "50,000", "35")
"""Beginnings of the names of tables that generators make."""


@cache
def _rows(half: str, name: str) -> tuple[Array, Labels]:
    return HALVES[half][name].rows()


def _deal(labels: Labels, table: Table, generator: np.random.Generator) -> list[NDArray[np.intp]]:
    """Deal the places of labels to the parties, without repetition."""
    size = min(table.size, len(labels) // table.parties)
    if table.skew is None:
        return list(generator.permutation(len(labels))[: size * table.parties].reshape(table.parties, size))
    classes = int(labels.max()) + 1
    shares = np.bincount(labels) / len(labels)
    left = [list(generator.permutation(np.flatnonzero(labels == number))) for number in range(classes)]
    parties = []
    for _ in range(table.parties):
        own = []
        law = generator.dirichlet(table.skew * classes * shares + 1e-3)
        for wanted in generator.choice(classes, size, p=law):
            number = wanted if left[wanted] else max(range(classes), key=lambda each: len(left[each]))
            own.append(left[number].pop())
        parties.append(np.array(own))
    return parties


def prepare(half: str, name: str, seed: int, *, trained: bool = True) -> dict[str, Any]:
    """Return one split, scaled, as `benchmarks.accuracy.prepare` does.

    `trained`: with what the parties' classifiers say.
    """
    table, (X, y) = HALVES[half][name], _rows(half, name)
    generator = np.random.default_rng([seed, len(name), len(X)])
    order = generator.permutation(len(X))
    public, rest = order[: table.public], order[table.public :]
    tested = min(TEST_ROWS, max(len(rest) - table.parties * table.size, len(rest) // 4))
    test, rest = rest[:tested], rest[tested:]
    parties = [rest[own] for own in _deal(y[rest], table, generator)]
    own = np.concatenate(parties)
    scaler = default_scaler("your own").set_params(scaling="unit-rows").fit(X[public])
    private = scaler.transform(X[own])
    sizes = [len(party) for party in parties]
    problem: dict[str, Any] = {
        "X": private,
        "y": y[own],
        "edges": np.concatenate([[0], np.cumsum(sizes)]),
        "unit private": unit_rows(private),
        "classes": int(y.max()) + 1,
        "parties": table.parties,
        "auxiliary": scaler.transform(X[public]),
        "public labels": y[public],
        "size": sizes[0],
        "X_test": scaler.transform(X[test]),
        "y_test": y[test],
    }
    problem["model"] = fit_public(public_features(problem["auxiliary"]), problem["public labels"], problem["classes"])
    return problem | _trained(problem, sizes) if trained else problem


def mixed_votes(problem: dict[str, Any]) -> NDArray[np.int64]:
    """Return the counts (N, K) of the votes of the learners that `psephos run` assigns to the parties in turn."""
    classes, auxiliary = problem["classes"], problem["auxiliary"]
    counts = np.zeros((len(auxiliary), classes), np.int64)
    for number, (a, b) in enumerate(pairwise(problem["edges"])):
        learner = make_learner(MIXED_LEARNERS[number % len(MIXED_LEARNERS)], classes=classes, seed=number)
        labels = labels_of(learner.fit(problem["X"][a:b], problem["y"][a:b]), auxiliary, classes)
        counts[range(len(auxiliary)), labels.argmax(axis=1) if labels.ndim == 2 else labels] += 1
    return counts


def rehearsed(problem: dict[str, Any], epsilon: float) -> tuple[Callable[[], Array], dict[str, Any]]:
    """Return what draws a release of the rehearsed step, and what its plan says."""
    parties, classes = problem["parties"], problem["classes"]
    start = time.process_time()
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "contributors": contributors(parties, COLLUDERS)}
    rehearsal = rehearsal_of(
        problem["auxiliary"],
        problem["public labels"],
        classes,
        parties,
        rows=problem["size"],
        model=problem["model"],
        mechanism="discrete-laplace",
        **terms,
    )
    summary = {
        "seconds": round(time.process_time() - start, 2),
        "asks": rehearsal.asks,
        "plan": list(map(str, rehearsal.plan)),
        "gain": rehearsal.gain,
        "spread": float(rehearsal.gains.std()),
        "public in worlds": rehearsal.public_accuracy,
        "public by cross-validation": rehearsal.calibration.cross_validated,
    }
    if not rehearsal.asks:
        return partial(model_classifier, problem["model"]), summary
    plan = plan_rehearsed(rehearsal, parties, **terms)
    total, edges = np.zeros(plan.dimension, np.int64), problem["edges"]
    for a, b in pairwise(edges):
        total += np.array(plan.grid.contribution(problem["X"][a:b], problem["y"][a:b]))
    shares = shares_of(plan, colluders=COLLUDERS)
    assert plan.mechanism is not None
    mechanism = plan.mechanism

    def draw() -> Array:
        noise = joint_noise(mechanism, shares)
        return fit_rehearsed(plan, [int(entry) + extra for entry, extra in zip(total, noise, strict=True)])

    return draw, summary


def references(problem: dict[str, Any], name: str, seed: int) -> dict[str, Any]:
    """Return what a line of a split starts with: the accuracies of the references."""
    y, test = problem["y"], problem["y_test"]
    pooled = LogisticRegression(max_iter=300).fit(public_features(problem["X"]), y)
    return {
        "table": name,
        "seed": seed,
        "public": accuracy(problem, model_classifier(problem["model"])),
        "most frequent": float(np.mean(test == np.bincount(y).argmax())),
        "pooled": float(pooled.score(public_features(problem["X_test"]), test)),
    }


def measure(half: str, name: str, seed: int, draws: int, columns: tuple[str, ...] = METHODS) -> dict[str, Any]:
    """Return the accuracies of one split: of references, and of every draw by epsilon and method."""
    problem = prepare(half, name, seed)
    line = references(problem, name, seed) | {"cells": {}, "plans": {}}
    if half == "cases":
        mixed = mixed_votes(problem)
    for epsilon in CASE_EPSILONS if half == "cases" else EPSILONS:
        draw, line["plans"][f"{epsilon:g}"] = rehearsed(problem, epsilon)
        cell = {"rehearsed": [accuracy(problem, draw()) for _ in range(draws)]}
        request = ReleaseRequest(epsilon, 1e-6, "spherical-laplace", None)
        ours = _ours(problem, "pure", request, seed, None)
        for method in set(TODAY) & set(columns):
            release = ours[method]()
            cell[method] = [accuracy(problem, release.draw(SYSTEM)) for _ in range(draws)]
        if half == "cases":
            default = statistic_method(mixed, problem["auxiliary"], request)
            cell[DEFAULT] = [accuracy(problem, default.draw(SYSTEM)) for _ in range(draws)]
        line["cells"][f"{epsilon:g}"] = cell
    return line


def announced_shares(labels: Labels, classes: int, wrong: float = 0.0) -> Array:
    """Return the class shares (K,) that a public source could state of rows with these labels.

    `wrong`: taken from the largest share and given to the others alike.
    """
    shares = np.maximum(np.round(np.bincount(labels, minlength=classes) / len(labels) / SHARES_KNOWN), 1) * SHARES_KNOWN
    shares += np.where(shares == shares.max(), -wrong, wrong / (classes - 1))
    return np.asarray(np.maximum(shares, SHARES_KNOWN / 2) / np.maximum(shares, SHARES_KNOWN / 2).sum())


def measure_shares(half: str, name: str, seed: int, draws: int) -> dict[str, Any]:
    """Return the accuracies of one split: of releases without labels of public rows, and with announced shares."""
    problem = prepare(half, name, seed)
    line = references(problem, name, seed) | {"law": SHARES, "cells": {}}
    auxiliary, classes = problem["auxiliary"], problem["classes"]
    shares = {
        SHARES: announced_shares(problem["y"], classes),
        f"wrong {SHARES}": announced_shares(problem["y"], classes, WRONG),
    }
    for epsilon in EPSILONS:
        request = ReleaseRequest(epsilon, 1e-6, "spherical-laplace", None)
        ours, cell = _ours(problem, "pure", request, seed, None), defaultdict[str, list[float]](list)
        for method in TODAY:
            release = ours[method]()
            for _ in range(draws):
                w = release.draw(SYSTEM)
                cell[method].append(accuracy(problem, w))
                for words, stated in shares.items():
                    adjusted = with_class_shares(w, auxiliary, stated.tolist())
                    cell[f"{method}, {words}"].append(accuracy(problem, adjusted))
        line["cells"][f"{epsilon:g}"] = dict(cell)
    return line


def means(lines: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the mean accuracy of every method by table and epsilon."""
    cells: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        for epsilon, cell in line["cells"].items():
            at = cells[line["table"], epsilon]
            for reference in ("public", "most frequent", "pooled"):
                at[reference].append(line[reference])
            for method, values in cell.items():
                at[method].append(float(np.mean(values)))
    return {at: {name: float(np.mean(values)) for name, values in cell.items()} for at, cell in cells.items()}


def page(lines: list[dict[str, Any]]) -> str:
    """Return the tables and the figures of the report as Markdown."""
    cells = means(lines)
    methods = [name for name in (*METHODS, DEFAULT) if name in next(iter(cells.values()))]
    out = [f"| table | epsilon | {' | '.join(methods)} | pooled |", "| --- " * (len(methods) + 3) + "|"]
    for (table, epsilon), cell in cells.items():
        out.append(f"| {table} | {epsilon} | {' | '.join(f'{cell[name]:.3f}' for name in (*methods, 'pooled'))} |")
    out += ["", *_regrets(cells, methods, methods)]
    return "\n".join([*out, "", *_harm(lines), *_gaps(cells)])


def _harm(lines: list[dict[str, Any]]) -> list[str]:
    """Return how often a split's mean is below the references, in sentences."""
    below: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        for cell in line["cells"].values():
            for reference in ("public", "most frequent"):
                below[reference].append(line[reference] - float(np.mean(cell["rehearsed"])))
    words = []
    for reference, values in below.items():
        worse = np.array(values)
        words.append(
            f"* rehearsed is more than .005 below {reference} in {100 * np.mean(worse > 0.005):.1f} % of {len(worse)} "
            f"cells (a table, a split, an epsilon), at most by {worse.max():.3f}"
        )
    plans = [plan for line in lines for plan in line["plans"].values()]
    share = 100 * float(np.mean([plan["asks"] for plan in plans]))
    drift = [abs(plan["public in worlds"] - plan["public by cross-validation"]) for plan in plans]
    seconds = max(plan["seconds"] for plan in plans)
    words.append(
        f"* the parties are asked in {share:.0f} % of cells; a rehearsal takes at most {seconds:.1f} s; the public "
        f"model's accuracy in the worlds is within {np.median(drift):.3f} (median) of its cross-validated accuracy, at "
        f"most {max(drift):.3f} away"
    )
    return words


def _gaps(cells: dict[tuple[str, str], dict[str, float]]) -> list[str]:
    """Return what share of the gap between public and pooled is closed at epsilon 10, for generated tables."""
    words = []
    for (table, epsilon), cell in cells.items():
        if epsilon == "10" and table.startswith(GENERATED):
            gap = cell["pooled"] - cell["public"]
            words.append(f"* {table}, epsilon 10: {cell['rehearsed'] - cell['public']:+.3f} of a gap of {gap:.3f}")
    return words


def _regrets(cells: dict[tuple[str, str], dict[str, float]], rated: Sequence[str], methods: Sequence[str]) -> list[str]:
    """Return a table of the mean of methods, and of their distance from the best of those that are rated."""
    best = {at: max(cell[name] for name in rated) for at, cell in cells.items()}
    out = ["| method | mean | median regret | 90th percentile | worst |", "| --- " * 5 + "|"]
    for name in methods:
        regret = np.array([best[at] - cell[name] for at, cell in cells.items()])
        figures = np.mean([cell[name] for cell in cells.values()]), *np.quantile(regret, [0.5, 0.9]), regret.max()
        out.append(f"| {name} | {' | '.join(f'{figure:.3f}' for figure in figures)} |")
    return out


def shares_page(lines: list[dict[str, Any]]) -> str:
    """Return what announced class shares change, as Markdown: in the mean of all cells, and in each."""
    cells = means(lines)
    out = ["| method | mean | with shares | worst | with wrong shares | worst |", "| --- " * 6 + "|"]
    for method in TODAY:
        now = float(np.mean([cell[method] for cell in cells.values()]))
        words = [f"{now:.3f}"]
        for stated in (f"{method}, {SHARES}", f"{method}, wrong {SHARES}"):
            change = [cell[stated] - cell[method] for cell in cells.values()]
            words += [f"{now + float(np.mean(change)):.3f}", f"{min(change):+.3f}"]
        out.append(f"| {method} | {' | '.join(words)} |")
    columns = ["most frequent", *(column for method in TODAY for column in (method, f"{method}, {SHARES}"))]
    out += ["", f"| table | epsilon | {' | '.join(columns)} |", "| --- " * (len(columns) + 2) + "|"]
    for (table, epsilon), cell in cells.items():
        out.append(f"| {table} | {epsilon} | {' | '.join(f'{cell[name]:.3f}' for name in columns)} |")
    return "\n".join(out)


def main() -> None:
    """Measure what OUT.json lacks, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--only", nargs="*", help="only these tables")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--class-shares", action="store_true", help="with and without announced class shares")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(line["table"], line["seed"], line.get("law")) for line in lines}
    law = SHARES if options.class_shares else None
    for seed, name in product(range(options.splits), options.only or HALVES[options.half]):
        if (name, seed, law) in done:
            continue
        terms = options.half, name, seed, options.draws
        lines.append(measure(*terms, tuple(options.methods)) if law is None else measure_shares(*terms))
        with options.out.open("a") as file:
            file.write(json.dumps(lines[-1]) + "\n")
    own = [line for line in lines if line.get("law") == law]
    print(page(own) if law is None else shares_page(own))


if __name__ == "__main__":
    main()
