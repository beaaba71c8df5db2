"""The experiments of Rajkumar and Agarwal 2012 (section 6, Figures 1 and 2): error against parties and against skew.

Per row: **psgd** (Algorithm 1, last iterate), **gop** (Algorithm 4 with the same eta, which isolates what rho and a
finite number of steps cost), **la_printed** (Pathak 2010: the average of local minimisers plus one Laplace variable
per coordinate of scale 2/(n_(1) epsilon lambda)), **la_repaired** (the factor 1/K put in and the noise spherical: pure
epsilon exactly for the L2 sensitivity 2/(K n_(1) lambda), sizes public), **psgd_transcript** (ours: fewer steps,
Skellam shares calibrated so that everything the curator sees is (epsilon, delta)), **gop_sigma_printed** (what an
implementation of Procedure 3 as printed would show: NOT private) and **nonprivate**.

The sweeps take their sums in the clear with seeded floating-point noise. A few steps of every run are repeated on the
encrypted sum, with noise from the operating system, and must open to exactly the sum of what was encrypted.

What the paper does not state and we chose: lambda (two are shown), the step sizes and their number, the scaling of
the breast cancer data (standardised on the training fold, then rows of norm 1; not covered by any epsilon here, as it
cannot have been there), that eta, splits and Laplace noise are common to all rows of a data set, and that a party of
the simplex has at least one record. Its numbers are in figures only, so its claims stand beside ours instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.losses import Logistic
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.curator import agree
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.data.datasets import load
from psephos.data.preprocessing import PublicScaler
from psephos.parties.training import train_parties
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.privacy.mechanisms import simulate_laplace, simulate_spherical_laplace
from psephos.protocol.transcript import Transcript
from psephos.simulate.ceremony import Ceremony, hold_ceremony
from psephos.simulate.psgd import SgdRun, clear_descent, signed_labels

__all__ = ["EXPERIMENTS", "SKEWS", "reproduce_rajkumar", "sizes_from", "sweep_runs"]

Array = NDArray[np.float64]
Progress = Callable[[int], object]

PARTIES = (5, 10, 15)
SKEWS = ((0.2, 0.2, 0.2, 0.2, 0.2), (0.1, 0.2, 0.2, 0.25, 0.25), (0.01, 0.29, 0.2, 0.25, 0.25))
"""The paper's three skew vectors: each party's share of the records (section 6, experiment 1b)."""

METHODS = ("psgd", "gop", "la_printed", "la_repaired", "psgd_transcript", "gop_sigma_printed", "nonprivate")
LAMBDAS = (0.1, 0.01)
EPSILONS = (0.1, 0.2)

PAPER = {
    "numbers": "in Figures 1 and 2 only, which the text at hand does not hold",
    "claims": [
        "more parties make local aggregation worse",
        "PSGD is similar to GOP",
        "PSGD is better than local aggregation even for 5 parties",
        "the smaller the smallest party, the worse local aggregation; PSGD and GOP do not depend on the skew",
    ],
}


@dataclass(frozen=True)
class _Problem:
    """One data set: training and test records, labels -1 and +1."""

    X: Array = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    X_test: Array = field(repr=False)
    y_test: NDArray[np.int64] = field(repr=False)


def sizes_from(shares: Sequence[float], records: int) -> list[int]:
    """Whole numbers of records in these shares (which sum to 1), at least 1 each, by largest remainders.

    Raises InvalidParameter for fewer records than shares.
    """
    if records < len(shares):
        raise InvalidParameter(f"{records} records cannot be dealt to {len(shares)} parties")
    exact = np.asarray(shares, dtype=np.float64) * records
    sizes = np.maximum(1, np.floor(exact)).astype(int)
    order = np.argsort(-(exact - np.floor(exact)), kind="stable")
    for turn in range(abs(records - int(sizes.sum()))):
        if sizes.sum() < records:
            sizes[order[turn % len(sizes)]] += 1
        else:
            sizes[np.argmax(sizes)] -= 1
    return [int(size) for size in sizes]


def _simulated(seed: int, datasets: int) -> list[_Problem]:
    """1000 + 1000 points uniform in the 10-dimensional unit ball, labelled by a random hyperplane."""
    problems = []
    for number in range(datasets):
        generator = np.random.default_rng([seed, number, 1])
        points = generator.normal(size=(2000, 10))
        points *= (generator.random(2000) ** 0.1 / np.linalg.norm(points, axis=1))[:, None]
        truth = generator.normal(size=10)
        labels = np.where(points @ truth > 0, 1, -1)
        problems.append(_Problem(points[:1000], labels[:1000], points[1000:], labels[1000:]))
    return problems


def _wdbc(seed: int, folds: int) -> list[_Problem]:
    """The Wisconsin breast cancer data, each of `folds` parts once the validation set."""
    if folds < 2:
        raise InvalidParameter(f"with {folds} fold nothing is left to train on; take at least 2")
    data = load("breast-cancer")
    order = np.random.default_rng([seed, 2]).permutation(len(data.y_train))
    labels = signed_labels(data.y_train)
    problems = []
    for held in np.array_split(order, folds):
        kept = np.setdiff1d(order, held, assume_unique=True)
        scaler = PublicScaler(scaling="unit-rows", columns="standardise").fit(data.X_train[kept])
        X, X_test = scaler.transform(data.X_train[kept]), scaler.transform(data.X_train[held])
        problems.append(_Problem(X, labels[kept], X_test, labels[held]))
    return problems


EXPERIMENTS: Mapping[str, Callable[[int, int], list[_Problem]]] = {
    "rajkumar-simulated": _simulated,
    "rajkumar-wdbc": _wdbc,
}
"""(seed, how many) to the data sets, by the name that `psephos reproduce` takes."""


def _panels(seed: int, number: int) -> Iterator[tuple[str, int, Array | tuple[float, ...]]]:
    """(panel, place on its axis, the parties' shares) of both panels of a figure."""
    for parties in PARTIES:
        yield "parties", parties, np.random.default_rng([seed, number, 3, parties]).dirichlet(np.ones(parties))
    for place, skew in enumerate(SKEWS, start=1):
        yield "skew", place, skew


def sweep_runs(*, datasets: int = 5, lambdas: Sequence[float] = LAMBDAS, epsilons: Sequence[float] = EPSILONS) -> int:
    """How many runs a sweep has: the total that `progress` counts up to."""
    return datasets * len(lambdas) * len(epsilons) * (len(PARTIES) + len(SKEWS))


@dataclass
class _Sweep:
    """What all rows share."""

    steps: int
    transcript_steps: int
    delta: float
    draws: int
    check_steps: int
    ceremony: Ceremony
    test_key: bool
    seed: int
    transcript: Transcript | None
    checked: int = 0
    equal: bool = True

    def errors(
        self, problem: _Problem, number: int, sizes: list[int], lam: float, epsilon: float
    ) -> dict[str, list[float]]:
        """Test errors of every method, one per draw of the noise."""
        loss, dimension, parties = Logistic(), int(problem.X.shape[1]), len(sizes)
        common: dict[str, Any] = {
            "epsilon": epsilon, "delta": self.delta, "lam": lam, "sizes": sizes, "dimension": dimension, "loss": loss
        }  # fmt: skip
        agreement = agree(**common, steps=self.steps)
        slack = bounds.compute_slack(epsilon, lam, len(problem.y), loss.smoothness)
        private = agree(**common, steps=self.transcript_steps, variant="gaussian")
        dealt = np.random.default_rng([self.seed, number, 4]).permutation(len(problem.y))
        X, y = problem.X[dealt], problem.y[dealt]
        labels = y.astype(np.float64)
        local = train_parties(X, (y > 0).astype(np.int64), sizes, classes=2, lam=lam)
        scale = 2 / (min(sizes) * epsilon * lam)
        exact, _ = perturbed_minimiser(X, y, ridge=lam, eta=np.zeros(dimension), loss=loss)
        found: dict[str, list[float]] = {method: [] for method in METHODS}
        for draw in range(self.draws):
            generator = np.random.default_rng([self.seed, number, 5, draw])
            eta = generator.normal(scale=agreement.sigma, size=dimension)
            laplace = simulate_laplace(dimension, 1.0, generator)
            spherical = simulate_spherical_laplace(dimension, 1.0, generator)
            gop, _ = perturbed_minimiser(X, y, ridge=agreement.ridge, eta=eta, loss=loss)
            printed = bounds.sigma_as_printed(dimension, slack.epsilon, self.delta) / agreement.sigma
            hopeful, _ = perturbed_minimiser(X, y, ridge=agreement.ridge, eta=printed * eta, loss=loss)
            classifiers = {
                "psgd": clear_descent(X, labels, agreement, loss=loss, generator=generator, eta=eta),
                "gop": gop,
                "la_printed": local.mean(axis=0) + scale * laplace,
                "la_repaired": local.mean(axis=0) + scale / parties * spherical,
                "psgd_transcript": clear_descent(X, labels, private, loss=loss, generator=generator),
                "gop_sigma_printed": hopeful,
                "nonprivate": exact,
            }
            for method, w in classifiers.items():
                found[method].append(float(np.mean(np.where(problem.X_test @ w > 0, 1, -1) != problem.y_test)))
        self._check(X, y, sizes, agreement, loss)
        return found

    def _check(self, X: Array, y: NDArray[np.int64], sizes: list[int], agreement: Any, loss: Logistic) -> None:
        """A few steps of this run on the encrypted sum."""
        if not self.check_steps:
            return
        cuts, parties = np.cumsum(sizes)[:-1], len(sizes)
        records = list(zip(np.split(X, cuts), np.split(y, cuts), strict=True))
        keys = self.ceremony
        few = Ceremony(keys.threshold_key, keys.roster[:parties], keys.shares, keys.signing_keys[:parties])
        run = SgdRun(
            records,
            agreement,
            few,
            loss=loss,
            test_key=self.test_key,
            transcript=self.transcript,
            expected_steps=self.check_steps * 100,
        )
        for _ in range(self.check_steps):
            run.step()
        self.checked += self.check_steps
        self.equal = self.equal and run.sums_equal is True


def reproduce_rajkumar(
    name: str,
    *,
    seed: int = 0,
    datasets: int = 5,
    lambdas: Sequence[float] = LAMBDAS,
    epsilons: Sequence[float] = EPSILONS,
    delta: float = 0.05,
    steps: int = 10_000,
    transcript_steps: int = 100,
    draws: int = 2,
    check_steps: int = 2,
    key_bits: int = DEFAULT_KEY_BITS,
    test_key: bool = False,
    transcript: Transcript | None = None,
    progress: Progress = lambda runs: None,
) -> dict[str, Any]:
    """Figure 1 (`rajkumar-simulated`) or Figure 2 (`rajkumar-wdbc`), as a table ready for JSON.

    Args:
        name: which; as `psephos reproduce` takes it.
        datasets: how many random data sets, or folds of the Wisconsin breast cancer data, at least 2 of these.
        draws: draws of the noise for each.
        steps: of PSGD. transcript_steps: of the variant whose guarantee covers the transcript.
        check_steps: encrypted steps per run, 0 for none.
        progress: called with the number of runs done since the last call; `sweep_runs` gives the total.

    Raises InvalidParameter for arguments that make no sweep.
    """
    if name not in EXPERIMENTS:
        raise InvalidParameter(f"an experiment of Rajkumar 2012 is one of {', '.join(EXPERIMENTS)}, not {name!r}")
    if datasets < 1 or draws < 1 or not lambdas or not epsilons:
        raise InvalidParameter("a sweep has at least one data set, draw, lambda and epsilon")
    problems = EXPERIMENTS[name](seed, datasets)
    begun = time.perf_counter()
    ceremony = hold_ceremony(max(PARTIES), key_bits=key_bits, holders=3, threshold=2, test_key=test_key)
    sweep = _Sweep(steps, transcript_steps, delta, draws, check_steps, ceremony, test_key, seed, transcript)
    collected: dict[tuple[str, int, float, float], dict[str, list[float]]] = {}
    for number, problem in enumerate(problems):
        for panel, place, shares in _panels(seed, number):
            sizes = sizes_from(list(shares), len(problem.y))
            for lam in lambdas:
                for epsilon in epsilons:
                    row = collected.setdefault((panel, place, lam, epsilon), {method: [] for method in METHODS})
                    for method, errors in sweep.errors(problem, number, sizes, lam, epsilon).items():
                        row[method] += errors
                    progress(1)
    rows = [
        {"panel": panel, "place": place, "lambda": lam, "epsilon": epsilon}
        | {method: _summary(errors) for method, errors in row.items()}
        for (panel, place, lam, epsilon), row in collected.items()
    ]
    example = {
        epsilon: agree(
            epsilon=epsilon,
            delta=delta,
            lam=lambdas[0],
            sizes=sizes_from(SKEWS[0], len(problems[0].y)),
            dimension=problems[0].X.shape[1],
            steps=steps,
            loss=Logistic(),
        ).guarantee
        for epsilon in epsilons
    }
    return {
        "experiment": name,
        "settings": {
            "records": len(problems[0].y), "test": len(problems[0].y_test), "dimension": problems[0].X.shape[1],
            "data_sets": len(problems), "draws": draws, "lambdas": list(lambdas), "epsilons": list(epsilons),
            "delta": delta, "steps": steps, "transcript_steps": transcript_steps, "unit": "record",
            "skews": [list(skew) for skew in SKEWS], "seed": seed,
        },
        "noise_source": "seed (simulation, protects nobody); operating system in the encrypted steps",
        "rows": rows,
        "claims": _claims(rows),
        "paper": PAPER,
        "epsilon_transcript": {
            str(epsilon): {"psgd": guarantee.epsilon_transcript, "psgd_pure": guarantee.epsilon_transcript_pure,
                           "psgd_transcript": epsilon}
            for epsilon, guarantee in example.items()
        },
        "encrypted_steps_checked": sweep.checked,
        "sums_equal_reference": sweep.equal if sweep.checked else None,
        "key_bits": key_bits,
        "seconds": time.perf_counter() - begun,
    }  # fmt: skip


def _summary(errors: list[float]) -> dict[str, float]:
    return {"mean": float(np.mean(errors)), "std": float(np.std(errors, ddof=1)) if len(errors) > 1 else 0.0}


def _claims(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The paper's claims, as our numbers answer them."""

    def mean(method: str, panel: str, place: int) -> float:
        chosen = [row[method]["mean"] for row in rows if (row["panel"], row["place"]) == (panel, place)]
        return float(np.mean(chosen))

    gaps = [abs(row["psgd"]["mean"] - row["gop"]["mean"]) for row in rows]
    return {
        "psgd_within_one_std_of_gop_rows": int(
            sum(gap <= row["gop"]["std"] for gap, row in zip(gaps, rows, strict=True))
        ),
        "rows": len(rows),
        "largest_gap_psgd_gop": max(gaps),
        "psgd_better_than_la_printed_rows": sum(row["psgd"]["mean"] < row["la_printed"]["mean"] for row in rows),
        "psgd_better_than_la_repaired_rows": sum(row["psgd"]["mean"] < row["la_repaired"]["mean"] for row in rows),
        "mean_error_by_parties": {
            method: {str(place): mean(method, "parties", place) for place in PARTIES} for method in METHODS
        },
        "mean_error_by_skew": {
            method: {str(place): mean(method, "skew", place) for place in (1, 2, 3)} for method in METHODS
        },
    }
