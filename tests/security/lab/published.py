"""What is published, run after run, against what it claims: the functions behind the commands, as they call them.

The noise of a release is had from the difference of two releases of the same thing. Its scale and law are worked out
from epsilon, delta and docs/design.md, section 4, with numpy and scipy, and from no code that plans or draws noise.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import expit

from psephos.audit.studies import trial
from psephos.curator.pate import Aggregator, PateRelease, fit_student, plan_pate
from psephos.curator.statistic import SOURCE_OF, MechanismName, StatisticPlan, plan_statistic
from psephos.data.datasets import Dataset
from psephos.data.splits import Split, split_dataset
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.transcript import Transcript
from psephos.results.evaluation import Evaluation, Score
from psephos.simulation.options import TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_tally
from psephos.study import release as study_release
from tests.security.lab.canaries import table

Array = NDArray[np.float64]
RATE = 1e-9
PARTIES, FEATURES, PUBLIC, LAM, DELTA = 5, 8, 100, 0.05, 1e-6
MECHANISMS: tuple[MechanismName, ...] = ("spherical-laplace", "discrete-laplace", "gaussian")
OPTIONS: dict[str, Any] = {
    "parties": PARTIES, "holders": 3, "threshold": 2, "key_bits": 256, "test_key": True, "seed": 7,
}  # fmt: skip


@cache
def data() -> Split:
    """Two classes, unit rows."""
    draw = np.random.default_rng(11)
    X = draw.normal(size=(320, FEATURES)) + 0.3
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-9)
    y = (X @ draw.normal(size=FEATURES) > 0).astype(np.int64)
    made_up = Dataset("made up", X, y, None, None, ("no", "yes"), "made up here")
    return split_dataset(made_up, PARTIES, 3, auxiliary=PUBLIC)


def released(evaluation: Evaluation, method: str, epsilon: float | None = None) -> Array:
    """Every private release of a method, float64 (draws, d)."""
    weights = [one.w for one in evaluation.scores if one.method == method and one.epsilon is not None]
    wanted = [one.w for one in evaluation.scores if one.method == method and one.epsilon == epsilon]
    return np.array(weights if epsilon is None else wanted)


def differences(releases: Array) -> Array:
    """Of the first and the second, the third and the fourth, ...: the noise of one less that of the other."""
    assert len(releases) >= 2
    return releases[::2] - releases[1::2]


# -- laws


def sigma_of(sensitivity: float, epsilon: float, delta: float) -> float:
    """The analytic Gaussian mechanism (Balle and Wang 2018, theorem 8), by scipy."""

    def short(sigma: float) -> float:
        half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        return float(stats.norm.cdf(half - shift) - np.exp(epsilon + stats.norm.logcdf(-half - shift)) - delta)

    return float(optimize.brentq(short, sensitivity / 100, sensitivity * 100))


def noise(law: str, scale: float, dimension: int, count: int, parts: float = 1.0) -> Array:
    """By numpy, (count, dimension): of `scale` (sigma of a Gaussian); `parts` times as many shares as make up a law."""
    draw = np.random.default_rng()
    if law == "gaussian":
        return draw.normal(scale=scale * math.sqrt(parts), size=(count, dimension))
    if law == "spherical-laplace":
        direction: Array = draw.normal(size=(count, dimension))
        direction *= draw.gamma(dimension, scale, (count, 1)) / np.linalg.norm(direction, axis=1, keepdims=True)
        return direction
    # A difference of two Gamma variables: what the discrete law is when its scale is many units.
    return draw.gamma(parts, scale, (count, dimension)) - draw.gamma(parts, scale, (count, dimension))


def same_law(sample: Array, wanted: Array, what: str) -> None:
    """Entries, L1 norms and L2 norms, by Kolmogorov and Smirnov; Bonferroni over the three."""
    for name, of in (
        ("entries", np.ravel),
        ("L2 norms", lambda x: np.linalg.norm(x, axis=1)),
        ("L1 norms", lambda x: np.abs(x).sum(axis=1)),
    ):
        p = stats.ks_2samp(of(sample), of(wanted)).pvalue
        ratio = float(np.mean(np.linalg.norm(sample, axis=1)) / np.mean(np.linalg.norm(wanted, axis=1)))
        assert p > RATE / 3, (
            f"{what}: the {name} of its noise are not of the law (p = {p:.1g}, {ratio:.2f} times as long)"
        )


def fresh(releases: Iterable[Array], what: str) -> None:
    """No two releases are equal, and no noise is another's, nor a multiple of it."""
    every = np.vstack([np.atleast_2d(one) for one in releases])
    assert len(np.unique(every, axis=0)) == len(every), f"{what}: two releases are the same"
    units = differences(every[: len(every) // 2 * 2])
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    alike = np.abs(units @ units.T) > 1 - 1e-12
    assert alike.sum() == len(units), f"{what}: the noise of two releases is the same but for its scale"


# -- sums with the curator's noise


def _sensitivity(method: str, law: str, X: Array) -> float:
    """Of what is noisy, by docs/theory.md, "Sensitivities"; X the public rows as they are used."""
    rho = float(np.linalg.norm(X, 2)) / math.sqrt(len(X))
    radius = math.sqrt(0.27846454276107374 / LAM)  # W0(1/e)
    if method == "vote":
        return min(rho / LAM, 2 * radius)
    if method == "soft":
        return rho / (PARTIES * LAM)
    assert method == "avg"
    return 2 * radius / 10 / PARTIES  # the rule's ball


def run(mechanism: MechanismName, draws: int, methods: Sequence[str] = (), **more: Any) -> Any:
    """`psephos simulate tally`: (outcome, what is published besides)."""
    settings = {"mechanism": mechanism, "methods": tuple(methods), "draws": draws, "epsilon": (1.0,)}
    options = TallyOptions(**OPTIONS | {"lam": LAM, "delta": DELTA, "workers": 1} | settings | more)
    result = simulate_tally(options, data=data())
    return result, result.evaluation


def contrasts(releases: Array, plan: StatisticPlan) -> Array:
    """The one contrast T (draws, r) of each classifier w (draws, d) of two classes."""
    each, decay = plan.noise / plan.rank, 1 / np.arange(1, plan.rank + 1)

    def whole(w: Array, energy: float) -> Array:
        signal = max(energy - plan.noise, energy / 20) * decay / decay.sum()
        standardized: Array = w * (1 + each / signal)
        return standardized

    evaluation = releases @ np.linalg.pinv(plan.transform.T) / math.sqrt(2)
    ends = [
        optimize.brentq(lambda energy, w=w: float(np.sum(whole(w, energy) ** 2)) - energy, 1e-9, 1e9, rtol=1e-12)
        for w in evaluation
    ]
    return np.array([whole(w, energy) for w, energy in zip(evaluation, ends, strict=True)])


def law_of_alpha(mechanism: MechanismName, epsilon: float = 2.0, draws: int = 120) -> None:
    """Every release that a curator draws from alpha, parameters or own data, in one run, and the same run again."""
    methods = ("vote", "soft", "avg", "statistic", "own-data", "whitened")
    runs = [run(mechanism, count, methods, epsilon=(epsilon,)) for count in (draws, 4)]
    outcome, evaluation = runs[0]
    X = evaluation.scaler.transform(data().X_auxiliary)
    fresh([released(evaluation, method) for method in ("vote", "soft", "avg")], "three methods")
    for method in methods:
        releases = released(evaluation, method)
        assert len(releases) == draws
        fresh([releases, released(runs[1][1], method)], f"{method}, {mechanism}")
        law, sample = mechanism, differences(releases)
        if source := SOURCE_OF.get(method):
            plan = plan_statistic(X, 2, PARTIES, epsilon=epsilon, delta=DELTA, mechanism=mechanism, source=source)
            sample = differences(contrasts(releases, plan))
            z = X / np.linalg.norm(X, axis=1, keepdims=True) @ plan.transform
            rho = float(np.linalg.norm(z, 2)) / math.sqrt(len(z))
            reach = (2.0 if source != "votes" else math.sqrt(2) * rho) / PARTIES
            if law == "discrete-laplace" and source == "votes":  # directions have L1 norm 1
                direct = math.sqrt(2) * np.abs(z).sum() / len(z) / PARTIES
                reach = min(reach * math.sqrt(plan.rank), direct)
        else:
            law, reach = "gaussian" if law == "gaussian" else "spherical-laplace", _sensitivity(method, law, X)
        claimed = outcome.privacy[method]
        assert claimed.epsilon == epsilon
        assert reach * (1 - 1e-9) <= claimed.sensitivity <= reach * 1.0001, f"{method}: {claimed.sensitivity}, {reach}"
        scale = sigma_of(reach, epsilon, DELTA) if law == "gaussian" else reach / epsilon
        size = sample.shape[1]
        same_law(sample, noise(law, scale, size, 20000) - noise(law, scale, size, 20000), f"{method}, {mechanism}")


def law_of_study(method: str, draws: int = 40) -> None:
    """Models that a study's curator releases from one and the same sum, against what noise makes of coefficients."""
    with tempfile.TemporaryDirectory() as directory:
        _, samples = table(Path(directory))
    X, epsilon = samples.auxiliary.samples, 2.0
    study = trial(
        parties=PARTIES, classes=("no", "yes"), features=samples.features, public_table=samples.digest,
        samples=len(X), method=method, epsilon=epsilon, parameters={} if method == "statistic" else {"lam": LAM},
    ).study  # fmt: skip
    opened = OpenedSum(tuple(int(row[0] > 0) * PARTIES for row in X), tuple(range(PARTIES)))
    models = [json.loads(study_release.make_release(study, samples, opened)) for _ in range(draws)]
    weights = np.array([[*model["coefficients"][0], *model["intercepts"]] for model in models])
    fresh([weights], f"a study's {method}")
    if method == "statistic":
        plan = plan_statistic(X, 2, PARTIES, epsilon=epsilon)
        z = X / np.linalg.norm(X, axis=1, keepdims=True) @ plan.transform
        reach = math.sqrt(2) * float(np.linalg.norm(z, 2)) / math.sqrt(len(z)) / PARTIES
        folded = np.column_stack(samples.scaler.fold(plan.transform.T))
        weights = contrasts(weights @ np.linalg.pinv(folded) @ plan.transform.T, plan)
        sides = [noise("spherical-laplace", reach / epsilon, plan.rank, 20000) for _ in range(2)]
        wanted = sides[0] - sides[1]
    else:
        scale = _sensitivity(method, "", X) / epsilon
        sides = [noise("spherical-laplace", scale, X.shape[1], 20000) for _ in range(2)]
        wanted = np.column_stack(samples.scaler.fold(sides[0] - sides[1]))
    same_law(differences(weights), wanted, f"a study's {method}")


def law_of_pate(mechanism: MechanismName, draws: int = 300) -> None:
    """PATE's answers, each found again from its student, against the chance that noise on two counts makes them."""
    _, evaluation = run(mechanism, draws, ("pate",), epsilon=(1.0,))
    X = evaluation.scaler.transform(data().X_auxiliary)
    aggregator: Aggregator = "gnmax" if mechanism == "gaussian" else "lnmax"
    plan = plan_pate(PUBLIC, 2, PARTIES, epsilon=1.0, delta=DELTA, aggregator=aggregator, seed=7)
    queries = len(plan.queries)
    every = np.array(np.meshgrid(*[[0, 1]] * queries)).reshape(queries, -1).T
    students = np.array([fit_student(X, PateRelease(plan, answers)) for answers in every])
    apart = np.linalg.norm(released(evaluation, "pate")[:, None] - students, axis=2)
    assert apart.min(axis=1).max() < 1e-9
    ones = every[apart.argmin(axis=1)].sum(axis=0)
    lead = np.diff(evaluation.counts[plan.queries], axis=1)[:, 0].astype(float)
    if aggregator == "gnmax":
        sigma = sigma_of(math.sqrt(2 * queries), 1.0, DELTA)
        chance = stats.norm.cdf(lead / (sigma * math.sqrt(2)))
    else:
        q, reach = math.exp(-1 / (2 * queries)), np.arange(-2000, 2001)
        one = (1 - q) / (1 + q) * q ** np.abs(reach)
        law = np.convolve(one, one)  # of a difference of two
        above = np.arange(-4000, 4001)
        chance = np.array([law[above > -ahead].sum() for ahead in lead])  # a tie goes to class 0
    for query in range(queries):
        p = stats.binomtest(int(ones[query]), draws, float(np.clip(chance[query], 0, 1))).pvalue
        assert p > RATE / queries, f"pate, {mechanism}: query {query} is answered 1 {ones[query]} times of {draws}"
    assert len(np.unique(released(evaluation, "pate"), axis=0)) > 1


# -- sums with the parties' noise


def joint_law(mechanism: MechanismName, method: str, colluders: int = 1, dropouts: int = 1, draws: int = 40) -> None:
    """A statistic with noise in shares, absent parties and all: as many shares as there are ballots, each sized so that
    those of all but the colluders, the absent and oneself make up the law."""
    epsilon, absent = 40.0, dropouts / PARTIES
    more: dict[str, Any] = {"reveal": "statistic", "colluders": colluders, "dropouts": dropouts, "absent": absent}
    runs = [run(mechanism, count, (method,), epsilon=(epsilon,), **more) for count in (draws, 2)]
    (outcome, evaluation), ballots, honest = runs[0], PARTIES - dropouts, PARTIES - colluders - dropouts - 1
    X = evaluation.scaler.transform(data().X_auxiliary)
    releases = released(evaluation, method)
    fresh([releases, released(runs[1][1], method)], f"joint {method}, {mechanism}")
    source = SOURCE_OF[method]
    plan = plan_statistic(
        X,
        2,
        PARTIES,
        epsilon=epsilon,
        delta=DELTA,
        mechanism=mechanism,
        source=source,
        joint=True,
    )
    z = X / np.linalg.norm(X, axis=1, keepdims=True) @ plan.transform
    l2 = (2.0 if method != "statistic" else math.sqrt(2) * float(np.linalg.norm(z, 2)) / math.sqrt(len(z))) / ballots
    l1 = l2 * math.sqrt(plan.rank)
    if method == "statistic":
        l1 = min(l1, math.sqrt(2) * np.abs(z).sum() / len(z) / ballots)
    scale = l1 / epsilon if mechanism == "discrete-laplace" else sigma_of(l2, epsilon, DELTA)
    sample = differences(releases) @ np.linalg.pinv(plan.transform.T) / math.sqrt(2)
    parts, size = ballots / honest, plan.rank
    if mechanism == "gaussian":
        ratio = float((sample**2).mean()) / (2 * scale**2 * parts)
        least, most = (float(stats.chi2.ppf(p, sample.size)) / sample.size for p in (RATE / 2, 1 - RATE / 2))
        assert least <= ratio <= 1.001 * most, f"joint {method}: {ratio:.2f} times the variance"
        scale *= math.sqrt(ratio)
    many = [noise(mechanism, scale, size, 20000, parts) for _ in range(2)]
    same_law(sample, many[0] - many[1], f"joint {method}, {mechanism}")
    assert outcome.tally_equals_plaintext


# -- PSGD


STEPS = 14


@dataclass(frozen=True)
class Walked:
    """One run of PSGD: its points, and the noise in every sum, (T, d)."""

    points: Array
    noise: Array


def walked(variant: str, epsilon: float = 1.0, loss: str = "logistic", **more: Any) -> tuple[Any, Walked]:
    """`psephos simulate psgd`; the gradients at the announced points are worked out here."""
    settings = {"steps": STEPS, "delta": 1e-4, "lam": 0.5, "variant": variant, "epsilon": epsilon, "fraction_bits": 20}
    options = PsgdOptions(**OPTIONS | {"key_bits": 384} | settings | more)
    transcript, split = Transcript(secrets=True), data()
    outcome = simulate_psgd(options, data=split, transcript=transcript)
    evaluation = outcome.evaluation
    announced = [m.data for m in transcript.messages if m.kind == "announcement" and m.data]
    points = np.array([np.frombuffer(one[-8 * outcome.features :], dtype=">f8") for one in announced], dtype=float)
    away = set(options.absent_parties)
    rows = [split.party(number) for number in range(PARTIES) if number not in away]
    X = np.concatenate([evaluation.scaler.transform(X) for X, _ in rows])
    y = 2.0 * np.concatenate([y for _, y in rows]) - 1
    clear = np.array([(-expit(-y * (X @ w)) * y) @ X for w in points])
    sums = np.array([opened.sums for opened in evaluation.sums["steps"][0]], dtype=float) * 2.0**-20
    return outcome, Walked(points, sums - clear)


def law_of_steps(variant: str, runs: int = 6, epsilon: float = 1.0, colluders: int = 0, dropouts: int = 0) -> None:
    """Noise step by step: what differs from one step to the next is that of two fresh draws of every party; and what
    stays (eta) has the deviation that epsilon asks for."""
    more: dict[str, Any] = {"colluders": colluders, "dropouts": dropouts, "absent": dropouts / PARTIES}
    made = [walked(variant, epsilon, **more) for _ in range(runs)]
    here, honest = PARTIES - dropouts, PARTIES - dropouts - colluders
    every = np.array([one.noise for _, one in made])  # (runs, T, d)
    d = every.shape[2]
    assert every.shape[1] == STEPS
    fresh([one.noise for _, one in made], f"psgd {variant}")
    apart = np.diff(every, axis=1)
    if variant == "halving":  # of no eta; step t has 2^t times the scale
        apart = (every / 2.0 ** np.arange(1, STEPS + 1)[:, None])[:, 1:]
    if variant == "gaussian":
        # All T sums together, L2 sensitivity 2 each. Snapping and rounding add at most 2^-11 of it.
        least = sigma_of(2 * math.sqrt(STEPS), epsilon, 1e-4) / math.sqrt(honest - 1) * math.sqrt(here)
        ratio = float((every**2).mean()) / least**2
        low, high = (float(stats.chi2.ppf(p, every.size)) / every.size for p in (RATE / 2, 1 - RATE / 2))
        assert low <= ratio <= 1.001 * high, f"psgd gaussian: {ratio:.2f} times the variance"
        scale = least * math.sqrt(ratio)
        steps = [noise("gaussian", scale, d, 20000) for _ in range(2)]
    else:
        scale = 2.0 / epsilon
        steps = [sum(noise("spherical-laplace", scale, d, 20000) for _ in range(here)) for _ in range(2)]  # type: ignore[misc]
    wanted = steps[0] if variant == "halving" else steps[0] - steps[1]
    for step in range(STEPS - 1):
        noises = apart[:, step]
        p = stats.ks_2samp(noises.ravel(), wanted.ravel()).pvalue
        assert p > RATE / STEPS, (
            f"psgd {variant}: the noise of steps {step + 1} and {step + 2} differs otherwise (p = {p:.1g})"
        )
        size = np.abs(noises).max() / np.abs(wanted).mean()
        assert size > 0.02, f"psgd {variant}: steps {step + 1} and {step + 2} have the same noise"
    same_law(apart[:, ::2].reshape(-1, d), wanted, f"psgd {variant}, all steps")
    if variant == "paper":
        outcome = made[0][0]
        claimed, pure = outcome.guarantee.epsilon_transcript, {epsilon: STEPS}
        exact = optimize.brentq(lambda e: _delta_of(e, pure, 0.0) - 1e-4, 0, STEPS * epsilon)
        assert exact * (1 - 1e-9) <= claimed <= exact * 1.01, f"psgd paper: {claimed} for everything, not {exact}"
        records, c = outcome.records, 0.25
        left = epsilon - 2 * math.log1p(c / (records * 0.5))
        q = float(stats.chi2.isf(1e-4, d))
        sigma = 2 * (math.sqrt(q) + math.sqrt(q + 2 * left)) / (2 * left) * math.sqrt(here / honest)
        eta = every.mean(axis=1)  # of T steps: eta, and a T-th of the steps' variance
        spread = np.array(steps[0]).var() / STEPS
        ratio = float((eta**2).mean()) / (sigma**2 + spread)
        low, high = (float(stats.chi2.ppf(p, eta.size)) / eta.size for p in (RATE / 2, 1 - RATE / 2))
        assert low <= ratio <= high, f"psgd paper: eta has {ratio:.2f} times its variance"


# -- Pathak


def law_of_pathak(variant: str, runs: int = 4, epsilon: float = 1.0) -> None:
    """What is published less the mean of the parties' own minimisers, which a simulation knows."""
    noises, releases = [], []
    for _ in range(runs):
        settings: dict[str, Any] = {"lam": 0.1, "epsilon": epsilon, "variant": variant, "key_bits": 384}
        given = {name: OPTIONS[name] for name in ("parties", "test_key", "seed")}
        outcome = simulate_pathak(PathakOptions(**given | settings), data=data())
        evaluation = outcome.evaluation
        bare, published = (one.w for one in evaluation.scores if one.method == "pathak")
        assert bare is not None
        assert published is not None
        assert outcome.shares_equal_reference
        noises.append((published - bare) * PARTIES)
        releases.append(published)
    fresh(releases, f"pathak {variant}")
    sizes = min(len(rows) for rows in data().parties)
    size = 16.0 if variant == "public-bound" else max(16 * 1.5**k for k in range(9) if 16 * 1.5**k <= sizes)
    if variant == "printed":
        size = sizes
    record = 2 / (size * 2 * 0.1)
    scale, parts = math.sqrt(outcome.features) * record / epsilon, PARTIES / (PARTIES - 1)
    if variant == "printed":
        scale, parts = PARTIES * 2 / (size * epsilon * 0.1), 1.0
    same_law(np.array(noises), noise("discrete-laplace", scale, outcome.features, 20000, parts), f"pathak {variant}")


# -- what it costs


def _delta_of(epsilon: float, pure: Mapping[float, int], gaussians: float) -> float:
    """delta at `epsilon` of so many releases of each pure epsilon, as randomised responses, and of Gaussians whose
    (sensitivity/sigma)^2 add up to `gaussians` (Kairouz, Oh and Viswanath 2015; Balle and Wang 2018)."""
    losses, chances = np.zeros(1), np.ones(1)
    for each, count in pure.items():
        true = np.arange(count + 1)
        p = stats.binom.pmf(true, count, 1 / (1 + math.exp(-each)))
        losses = np.add.outer(losses, (2 * true - count) * each).ravel()
        chances = np.multiply.outer(chances, p).ravel()
    if not gaussians:
        return float((chances * np.maximum(0, -np.expm1(np.minimum(epsilon - losses, 0)))).sum())
    mu, left = math.sqrt(gaussians), epsilon - losses
    tail = stats.norm.cdf(mu / 2 - left / mu) - np.exp(np.minimum(left, 700) + stats.norm.logcdf(-mu / 2 - left / mu))
    return float((chances * tail).sum())


def costs_add_up(mechanism: MechanismName, draws: int = 4, **more: Any) -> None:
    """`composed` against the least epsilon of everything in the list of what was published."""
    outcome, evaluation = run(mechanism, draws, epsilon=(0.3, 0.7), **more)
    published: list[Score] = [one for one in evaluation.scores if one.epsilon is not None]
    assert outcome.composed.releases == len(published) == 2 * draws * len(outcome.privacy)
    pure: dict[float, int] = {}
    gaussians = 0.0
    for one in published:
        assert one.epsilon is not None
        if mechanism == "gaussian":
            gaussians += 1 / sigma_of(1.0, one.epsilon, DELTA) ** 2
        else:
            pure[one.epsilon] = pure.get(one.epsilon, 0) + 1
    claimed = outcome.composed
    exact = optimize.brentq(lambda e: _delta_of(e, pure, gaussians) - max(claimed.delta, 2.0**-41), 0, 200)
    basic = math.fsum(one.epsilon for one in published if one.epsilon is not None)
    assert claimed.epsilon >= min(exact, basic) * (1 - 1e-3), f"{mechanism}: {claimed.epsilon} < {exact}"
    assert claimed.epsilon <= min(exact * 1.1 + 0.1, basic * 1.0001), f"{mechanism}: {claimed.epsilon} > {exact}"
