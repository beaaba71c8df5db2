"""The experiments of Rajkumar and Agarwal 2012 (section 6, Figures 1 and 2): error against parties and against skew.

`psephos.results.base.METHODS` says what the methods of a row are. Local aggregation (Pathak 2010) has noise of scale
2/(n_(1) epsilon lambda); repaired, it is spherical with the factor 1/K, which has pure epsilon for the L2 sensitivity
2/(K n_(1) lambda) with public sizes. psgd_transcript is our variant "gaussian" with fewer steps.

The sweeps compute their sums in the clear with seeded floating-point noise; a few steps of every run are repeated on
the encrypted sum. What the paper does not state is our choice (docs/reproduce.md); its numbers are in figures only.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from psephos.curator.ledger import Release
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.agreement import Agreement, DescentGuarantee, agree
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.data.datasets import load
from psephos.data.preprocessing import PublicScaler
from psephos.options import OneOrMore, option
from psephos.parties.gradients import LocalLoss, signed_labels
from psephos.parties.training import train_parties
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import simulate_spherical_laplace
from psephos.protocol.transcript import Transcript
from psephos.results.base import Panel, timed
from psephos.results.papers import Mean, PaperResult, beside, curve
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.simulation.options import KeyOptions
from psephos.simulation.psgd import PsgdOptions, clear_descent, descend

Array = NDArray[np.float64]
PARTIES = (5, 10, 15)
SKEWS = ((0.2, 0.2, 0.2, 0.2, 0.2), (0.1, 0.2, 0.2, 0.25, 0.25), (0.01, 0.29, 0.2, 0.25, 0.25))
"""The paper's three skew vectors: each party's share of the records (section 6, experiment 1b)."""

METHODS = ("psgd", "gop", "la_printed", "la_repaired", "psgd_transcript", "gop_sigma_printed", "nonprivate")
"""Methods that a row compares."""


@dataclass(frozen=True)
class _Problem:
    X: Array = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    X_test: Array = field(repr=False)
    y_test: NDArray[np.int64] = field(repr=False)


def sizes_from(shares: Sequence[float], records: int) -> list[int]:
    """Divide records among parties by the largest remainder method, with at least one record for each."""
    if records < len(shares):
        raise InvalidParameter(f"{records} records are too few for {len(shares)} parties, which need at least one each")
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
    """Generate 1000 + 1000 points uniform in the 10-dimensional unit ball, labelled by a random hyperplane."""
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
    """Split the Wisconsin breast cancer data into folds; each is the test set of one problem."""
    if folds < 2:
        raise InvalidParameter(
            f"the number of folds (datasets) is {folds}; it must be at least 2, to leave records for training"
        )
    data = load("breast-cancer")
    order = np.random.default_rng([seed, 2]).permutation(len(data.y_train))
    labels = signed_labels(data.y_train)
    problems = []
    for test_rows in np.array_split(order, folds):
        train_rows = np.setdiff1d(order, test_rows, assume_unique=True)
        scaler = PublicScaler(scaling="unit-rows", columns="standardise").fit(data.X_train[train_rows])
        X, X_test = scaler.transform(data.X_train[train_rows]), scaler.transform(data.X_train[test_rows])
        problems.append(_Problem(X, labels[train_rows], X_test, labels[test_rows]))
    return problems


EXPERIMENTS: Mapping[str, Callable[[int, int], list[_Problem]]] = {
    "rajkumar-simulated": _simulated,
    "rajkumar-wdbc": _wdbc,
}
"""Functions that return the data sets for a seed and their number, by the name that `psephos reproduce` takes."""


def _panels(seed: int, number: int) -> Iterator[tuple[str, int, Array | tuple[float, ...]]]:
    for parties in PARTIES:
        yield "parties", parties, np.random.default_rng([seed, number, 3, parties]).dirichlet(np.ones(parties))
    for place, skew in enumerate(SKEWS, start=1):
        yield "skew", place, skew


@dataclass(frozen=True)
class SweepOptions(KeyOptions):
    """Options of a sweep; `name` is a key of `EXPERIMENTS`."""

    name: Literal["rajkumar-simulated", "rajkumar-wdbc"] = option("rajkumar-simulated")
    quick: bool = option(False, "Two data sets, one draw, 1,000 steps: nothing to cite.")
    datasets: OneOrMore = option(5, "Random data sets, or folds.")
    draws: OneOrMore = option(2, "Noise draws for each of them.")
    lambdas: Annotated[tuple[float, ...], Meta(min_length=1)] = option((0.1, 0.01), "Ridges.")
    epsilons: Annotated[tuple[float, ...], Meta(min_length=1)] = option((0.1, 0.2), "Of each release.")
    delta: float = option(0.05, "The paper's.")
    steps: int = option(10_000, "Of PSGD.")
    transcript_steps: int = option(100, "The number of steps of the variant whose guarantee covers the transcript.")
    seed: int = option(0, "The seed of splits and noise.")
    check_steps: int = option(2, "Encrypted steps per run, 0 for none.", group="Encryption")

    def psgd(self, lam: float, epsilon: float) -> PsgdOptions:
        """Return the options of one run."""
        return PsgdOptions(
            epsilon=epsilon,
            delta=self.delta,
            lam=lam,
            steps=self.steps,
            key_bits=self.key_bits,
            test_key=self.test_key,
            colluders=0,  # as in the paper, whose noise is all parties' together
        )


class _Sweep:
    def __init__(self, options: SweepOptions, transcript: Transcript | None) -> None:
        self.options, self.transcript = options, transcript
        self.ceremony = setup_keys(
            max(PARTIES), key_bits=options.key_bits, holders=3, threshold=2, test_key=options.test_key
        )
        self.checked, self.equal = 0, True

    def errors(
        self, problem: _Problem, number: int, sizes: list[int], lam: float, epsilon: float
    ) -> dict[str, list[float]]:
        """Return the test errors of every method, one per draw of the noise."""
        options, descent = self.options, self.options.psgd(lam, epsilon)
        loss, dimension, parties = descent.phi, int(problem.X.shape[1]), len(sizes)
        agreement = agree(descent, sizes, dimension)
        private = agree(replace(descent, variant="gaussian", steps=options.transcript_steps), sizes, dimension)
        slack = bounds.compute_slack(epsilon, lam, len(problem.y), loss.smoothness)
        printed = bounds.sigma_as_printed(dimension, slack.epsilon, options.delta) / agreement.sigma
        ridge = agreement.descent.ridge
        split = np.random.default_rng([options.seed, number, 4]).permutation(len(problem.y))
        pooled = LocalLoss(problem.X[split], problem.y[split])
        X, y = pooled.X, pooled.y
        local = train_parties(X, (y > 0).astype(np.int64), sizes, classes=2, lam=lam)
        scale = 2 / (min(sizes) * epsilon * lam)
        exact = perturbed_minimiser(X, y, ridge=lam, eta=np.zeros(dimension), loss=loss).w
        errors: dict[str, list[float]] = {method: [] for method in METHODS}
        for draw in range(options.draws):
            generator = np.random.default_rng([options.seed, number, 5, draw])
            eta = generator.normal(scale=agreement.sigma, size=dimension)
            laplace = generator.laplace(size=dimension)
            spherical = simulate_spherical_laplace(dimension, 1.0, generator)
            classifiers = {
                "psgd": clear_descent(pooled, agreement, generator, eta=eta),
                "gop": perturbed_minimiser(X, y, ridge=ridge, eta=eta, loss=loss).w,
                "la_printed": local.mean(axis=0) + scale * laplace,
                "la_repaired": local.mean(axis=0) + scale / parties * spherical,
                "psgd_transcript": clear_descent(pooled, private, generator),
                "gop_sigma_printed": perturbed_minimiser(X, y, ridge=ridge, eta=printed * eta, loss=loss).w,
                "nonprivate": exact,
            }
            for method, w in classifiers.items():
                errors[method].append(float(np.mean(np.where(problem.X_test @ w > 0, 1, -1) != problem.y_test)))
        if options.check_steps:
            self._check(descent, pooled, sizes, agreement)
        return errors

    def _check(self, descent: PsgdOptions, pooled: LocalLoss, sizes: list[int], agreement: Agreement) -> None:
        """Repeat the first steps of a run on the encrypted sum, with the noise that the whole run would have."""
        cuts, parties = np.cumsum(sizes)[:-1], len(sizes)
        losses = [LocalLoss(X, y) for X, y in zip(np.split(pooled.X, cuts), np.split(pooled.y, cuts), strict=True)]
        keys = self.ceremony
        run_keys = KeySetup(keys.threshold_key, keys.roster[:parties], keys.shares, keys.signing_keys[:parties])
        first_steps = replace(agreement, series=replace(agreement.series, steps=self.options.check_steps))
        state = descend(descent, losses, first_steps, run_keys, transcript=self.transcript)
        self.checked += state.steps
        self.equal = self.equal and state.sums_equal_reference is True


def reproduce_rajkumar(
    options: SweepOptions,
    *,
    transcript: Transcript | None = None,
    progress: Progress = silent,
) -> PaperResult:
    """Compute Figure 1 or Figure 2 as a table."""
    start = time.perf_counter()
    if options.quick:
        options = replace(options, datasets=min(2, options.datasets), draws=1, steps=min(1000, options.steps))
    problems = EXPERIMENTS[options.name](options.seed, options.datasets)
    first = problems[0]
    sweep = _Sweep(options, transcript)
    collected: dict[tuple[str, int, float, float], dict[str, list[float]]] = {}
    panels = [(number, *each) for number in range(len(problems)) for each in _panels(options.seed, number)]
    runs = list(itertools.product(panels, options.lambdas, options.epsilons))
    for done, ((number, panel, place, shares), lam, epsilon) in enumerate(runs, 1):
        sizes = sizes_from(list(shares), len(problems[number].y))
        row = collected.setdefault((panel, place, lam, epsilon), {method: [] for method in METHODS})
        for method, errors in sweep.errors(problems[number], number, sizes, lam, epsilon).items():
            row[method] += errors
        progress(options.name, done, len(runs))
    rows = [
        _Row(*place, {method: Mean.of(errors) for method, errors in row.items()}) for place, row in collected.items()
    ]
    sizes = sizes_from(SKEWS[0], len(first.y))
    costs = {
        epsilon: agree(options.psgd(options.lambdas[0], epsilon), sizes, first.X.shape[1]).guarantee
        for epsilon in options.epsilons
    }
    agreement = {True: ", sums equal to the clear ones", False: ", SUMS DIFFER FROM THE CLEAR ONES"}
    return PaperResult(
        phases=timed({"total": time.perf_counter() - start}),
        experiment=options.name,
        paper="Rajkumar and Agarwal 2012, section 6, Figures 1 and 2; the text at hand holds no numbers",
        quick=options.quick,
        draws_per_point=options.draws * len(problems),
        test=len(first.y_test),
        seed=options.seed,
        options=asdict(options),
        facts=[
            ("Data sets or folds", len(problems), ""),
            ("Training records", len(first.y), f" of {first.X.shape[1]} features"),
            ("Gradient steps", options.steps, ""),
            ("Steps repeated under encryption", sweep.checked, agreement[sweep.equal] if sweep.checked else ""),
        ],
        panels=list(_figures(rows)),
        privacy=_costs(options.delta, {str(epsilon): cost for epsilon, cost in costs.items()}),
        tables=beside(list(_claims(rows))),
        sums_equal_reference=sweep.equal if sweep.checked else None,
        key_bits=options.key_bits,
    )


class _Row(NamedTuple):
    """Test errors of every method in one setting; `place`: number of parties, or of the skew vector from 1."""

    panel: str
    place: int
    lam: float
    epsilon: float
    errors: dict[str, Mean]


def _figures(rows: Sequence[_Row]) -> Iterator[Panel]:
    grouped: dict[tuple[str, float, float], list[_Row]] = {}
    for row in rows:
        grouped.setdefault((row.panel, row.lam, row.epsilon), []).append(row)
    vectors = "; ".join(f"{n}: {', '.join(f'{part:g}' for part in skew)}" for n, skew in enumerate(SKEWS, 1))
    labels = {
        "parties": ("parties", ""),
        "skew": ("skew of the parties' sizes, from even", f"each party's share of the records, {vectors}"),
    }
    for (panel, lam, epsilon), group in grouped.items():
        places = [row.place for row in group]
        curves = [curve(name, places, [row.errors[name] for row in group]) for name in METHODS]
        title, (label, note) = f"lambda = {lam:g}, epsilon = {epsilon:g}, {panel}", labels[panel]
        yield Panel(title, label, "test error", curves, log=False, note=note)


def _costs(delta: float, guarantees: Mapping[str, DescentGuarantee]) -> dict[str, Release]:
    """Return the privacy cost of each method, and by requested epsilon that of all noisy sums of PSGD together."""
    theorem = "the paper's claim (Rajkumar 2012, Theorem 4.2), for the exact minimiser"
    releases = {
        name: Release(mechanism, None, delta, "record", source=source, said=said)
        for name, mechanism, said, delta, source in (
            ("psgd, gop: the classifier", "Gaussian objective perturbation", "the panel's", delta, theorem),
            ("la_printed", "a Laplace variable per coordinate, as printed", "not claimed here", 0.0, "Pathak 2010"),
            ("la_repaired", "spherical Laplace", "the panel's", 0.0, "L2, 2/(K n_(1) lambda), sizes public"),
            ("gop_sigma_printed", "sigma solved as printed", "NONE: not private", delta, "Rajkumar 2012, Procedure 3"),
        )
    }
    for requested, cost in guarantees.items():
        for name, epsilon, composed in (
            ("psgd", cost.epsilon_transcript, delta),
            ("psgd_pure", cost.epsilon_transcript_pure, 0.0),
            ("psgd_transcript", float(requested), delta),
        ):
            finite = epsilon is not None and math.isfinite(epsilon)
            releases[f"{name} at {requested}: every noisy sum"] = Release(
                "noise at every step, composed" + ("" if composed else ", without a delta"),
                epsilon if finite else None,
                composed,
                "record",
                source="2 L for one record's gradient, ||x|| <= 1 (Rajkumar 2012, section 4)",
                said="" if finite else "without a finite bound",
            )
    return releases


def _claims(rows: Sequence[_Row]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield each claim of the paper as a row for `beside`, with a verdict if it is precise enough for one."""

    def means(panel: str, *methods: str) -> str:
        places = {row.place: [one for one in rows if one[:2] == row[:2]] for row in rows if row.panel == panel}
        return "; ".join(
            f"{name} {', '.join(f'{np.mean([one.errors[name].mean for one in at]):.3f}' for at in places.values())}"
            for name in methods
        )

    def better(method: str) -> int:
        return sum(row.errors["psgd"].mean < row.errors[method].mean for row in rows)

    def verdict(number: int) -> str:
        return "holds" if number == len(rows) else "FAILS"

    gaps = [abs(row.errors["psgd"].mean - row.errors["gop"].mean) for row in rows]
    close = sum(gap <= row.errors["gop"].std for gap, row in zip(gaps, rows, strict=True))
    places = ", ".join(map(str, PARTIES))
    for what, here, holds in (
        (
            "PSGD is similar to GOP",
            f"within one standard deviation in {close} of {len(rows)} rows; largest gap {max(gaps):.3f}",
            verdict(close),
        ),
        (
            "PSGD is better than local aggregation even for 5 parties",
            f"in {better('la_printed')} of {len(rows)} rows; with its noise repaired in {better('la_repaired')}",
            verdict(better("la_printed")),
        ),
        (
            "more parties make local aggregation worse",
            f"mean errors with {places} parties: {means('parties', 'la_printed', 'la_repaired')}",
            "see the numbers",
        ),
        (
            "the smaller the smallest party, the worse local aggregation; PSGD and GOP do not depend on the skew",
            f"mean errors from even to most uneven: {means('skew', 'la_printed', 'la_repaired', 'psgd', 'gop')}",
            "see the numbers",
        ),
    ):
        yield what, "claims so", here, holds, ""
