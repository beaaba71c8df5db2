"""What Rajkumar 2012 warns of, done by a curator that sees the opened sums: sections 3.2 and 3.3."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.agreement import Agreement, agree
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.parties.gradients import LocalLoss
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.transcript import Transcript
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.simulation.psgd import PsgdOptions, clear_descent, descend

Array = NDArray[np.float64]
D = 4
OPTIONS = PsgdOptions(epsilon=0.5, delta=0.05, lam=0.5, test_key=True)
SEEDED = replace(OPTIONS, simulate_noise=True)
LOSS = OPTIONS.phi


def neighbours(n: int = 60) -> tuple[Array, Array, Array, Array]:
    """Two data sets that differ in their last record as much as two can: (X, y, X', y')."""
    generator = np.random.default_rng(8)
    X = generator.normal(size=(n, D))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[-1], other = np.eye(D)[1], X.copy()
    other[-1] = -np.eye(D)[1]
    y[-1] = 1.0
    return X, y, other, y.copy()


def agreement_for(steps: int, **changes: Any) -> Agreement:
    return agree(replace(OPTIONS, steps=steps, **changes), (20, 20, 20), D)


def gradient(X: Array, y: Array, w: Array) -> Array:
    return LocalLoss(X, y).gradient(w)


@pytest.fixture(scope="module")
def ceremony() -> KeySetup:
    return setup_keys(
        3, key_bits=512, holders=3, threshold=2, test_key=True, randomness=SimulationRandomness(4, "attack")
    )


def opened_sums(ceremony: KeySetup, agreement: Agreement) -> tuple[list[Array], list[Array]]:
    """The encrypted protocol: the points and the opened sums, in real units."""
    X, y, _, _ = neighbours()
    transcript, private = Transcript(secrets=True), [LocalLoss(X[k::3], y[k::3]) for k in range(3)]
    walk = descend(OPTIONS, private, agreement, ceremony, transcript=transcript)
    points = [
        np.frombuffer(m.data[-8 * D :], ">f8") for m in transcript.messages if m.data and m.kind == "announcement"
    ]
    return points, [np.array(one.sums) * agreement.series.pitch for one in walk.opened]


# -- without rho


def test_without_rho_differences_are_the_true_gradients(ceremony: KeySetup) -> None:
    """Two sums under one eta: it cancels, and what is left is the gradients' difference to the last lattice unit."""
    X, y, _, _ = neighbours()
    agreement = agreement_for(2)
    bare = replace(agreement, series=replace(agreement.series, step_law="none", step_scale=0.0))
    points, sums = opened_sums(ceremony, bare)
    true = gradient(X, y, points[0]) - gradient(X, y, points[1])
    assert np.linalg.norm(true) > 100 * agreement.series.pitch
    assert np.abs((sums[0] - sums[1]) - true).max() <= 3 * agreement.series.pitch
    # eta does hide a single sum: the same attacker is off by about sigma there.
    assert np.linalg.norm(sums[0] - gradient(X, y, points[0])) > 0.1 * agreement.sigma


def test_with_rho_differences_are_noise(ceremony: KeySetup) -> None:
    X, y, _, _ = neighbours()
    agreement = agreement_for(6)
    points, sums = opened_sums(ceremony, agreement)
    errors = []
    for a in range(5):
        true = gradient(X, y, points[a]) - gradient(X, y, points[a + 1])
        errors.append(float(np.linalg.norm((sums[a] - sums[a + 1]) - true)))
    # Six spherical Laplace vectors of scale 4 in four dimensions: root mean square 4 sqrt(6 * 20) = 44.
    assert np.mean(errors) > 10


# -- without eta


@pytest.mark.slow
def test_without_eta_descent_recovers_the_minimiser() -> None:
    """The breach: rho averages out, and the curator ends at w*."""
    X, y, _, _ = neighbours()
    agreement = agreement_for(20_000)
    best = perturbed_minimiser(X, y, ridge=agreement.descent.ridge, eta=np.zeros(D), loss=LOSS).w
    far = []
    for eta in (np.zeros(D), None):
        points = [clear_descent(LocalLoss(X, y), agreement, np.random.default_rng(seed), eta=eta) for seed in range(4)]
        far.append(float(np.mean([np.linalg.norm(w - best) for w in points])))
    naked, protected = far
    assert naked < 0.05 * float(np.linalg.norm(best)) + 0.03
    # With eta it cannot come nearer than eta/N moves the minimiser.
    curvature = 0.25 + agreement.descent.ridge
    assert protected > 0.5 * agreement.sigma * math.sqrt(D) / (len(y) * curvature)
    assert protected > 5 * naked


def test_a_step_size_cannot_be_used_to_escape_the_projection() -> None:
    """Whatever the sums are, the public point stays in the public ball: parties are never asked outside it."""
    descent = agreement_for(50, first_step=2.0, step_offset=1e9).descent
    w = np.zeros(D)
    for t, sign in enumerate((1, -1) * 25):
        w = descent.step(w, np.full(D, sign * 1e300), t)
        assert np.linalg.norm(w) <= descent.radius * (1 + 1e-12)
