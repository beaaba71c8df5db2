"""The audit stays below every claim (a bound is wrong in 1e-4 at most), and convicts noise for twice the epsilon."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psephos.audit.privacy import audit_mechanism, audit_privacy, experiments, lower_bound
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SimulationRandomness
from psephos.results.security import Mechanism

NAMES = [(e.name, e.dimension) for e in experiments()]
HARDER = {"spherical-laplace": 12_000, "gaussian": 12_000}
HARDER |= {
    "statistic, gaussian": 6000,
    "own-data statistic, gaussian": 12_000,
    "vote directions, gaussian": 6000,
    "psgd series": 6000,
}
HARDER |= {"objective perturbation (GOP)": 8000, "pate gnmax": 4000}
LOOSE = {"objective perturbation (GOP)", "pate gnmax"}
"""Noise for four times the epsilon convicts them: the density-ratio condition and the answers hide as much."""


STATISTICAL = {
    "spherical-laplace",
    "gaussian",
    "psgd series",
    "pathak noise",
} | LOOSE
"""Only `make test-all` measures these; `make test` measures every third of the others, which scale and release the same
laws."""


def parameter(index: int) -> Any:
    name, dimension = NAMES[index]
    marks = [pytest.mark.statistical] * (name in STATISTICAL) + [pytest.mark.slow] * (index % 3 > 0)
    return pytest.param(index, id=f"{name} D={dimension}", marks=marks)


def measured(index: int, epsilon: float) -> Mechanism:
    """Audit the claim of an epsilon of 1 with the noise of a mechanism for `epsilon`."""
    experiment = replace(list(experiments(epsilon))[index], epsilon=1.0)
    samples = HARDER.get(NAMES[index][0], 2500)
    return audit_mechanism(experiment, samples, SimulationRandomness(1, str(epsilon), *NAMES[index]))


@pytest.mark.parametrize("index", [parameter(index) for index in range(len(NAMES))])
def test_honest_mechanisms_pass(index: int) -> None:
    result = measured(index, 1.0)
    assert result.passed
    if NAMES[index][0] not in LOOSE:  # of those, that the audit sees something is seen below
        assert result.lower_bound > 0.1, "an audit that sees nothing proves nothing"


@pytest.mark.parametrize("index", [parameter(index) for index in range(len(NAMES) - 1)])
def test_noise_for_twice_the_epsilon_is_detected(index: int) -> None:
    """All but the last, LNMax: one answer of two classes shows too little at this size."""
    result = measured(index, 4.0 if NAMES[index][0] in LOOSE else 2.0)
    assert not result.passed, f"{result.name}: {result.lower_bound:.2f} does not exceed {result.epsilon}"


def test_the_whole_audit_has_a_line_for_every_mechanism() -> None:
    seen: list[tuple[int, int]] = []
    outcome = audit_privacy(samples=10, progress=lambda what, done, total: seen.append((done, total)))
    steps = len(NAMES) + len(outcome.attacked)
    assert seen == [(done, steps) for done in range(steps)]
    assert [(one.name, one.dimension) for one in outcome.mechanisms] == NAMES
    assert outcome.as_expected


def test_lower_bound_on_known_frequencies() -> None:
    """Randomised response at log 3: 3/4 against 1/4, and a mechanism that reveals everything."""
    first = np.repeat([1.0, 1.0, 1.0, 0.0], 2500)
    second = np.repeat([0.0, 0.0, 0.0, 1.0], 2500)
    generator = np.random.default_rng(0)
    first, second = generator.permutation(first), generator.permutation(second)
    assert 0.9 < lower_bound(first, second, 0.0) < np.log(3)
    assert lower_bound(np.ones(5000), np.zeros(5000), 0.0) > 5
    assert lower_bound(first, generator.permutation(first), 0.0) < 0.1
    assert lower_bound(first, second, 0.74) == 0.0, "a delta as large as the event hides it"


def test_bad_input() -> None:
    with pytest.raises(InvalidParameter, match="at least 10"):
        lower_bound(np.zeros(3), np.zeros(3), 0.0)
    with pytest.raises(InvalidParameter, match="epsilon"):
        list(experiments(epsilon=-1.0))
