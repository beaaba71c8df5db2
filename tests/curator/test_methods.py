"""What can be released of sums that are known: each method's bound, cost, noise and classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psephos.curator import methods
from psephos.curator.hamm import sensitivity
from psephos.curator.hamm.averaging import average_of
from psephos.curator.hamm.erm import minimise
from psephos.curator.hamm.labels import alpha, majority, one_hot
from psephos.curator.losses import loss_named
from psephos.curator.methods import ReleaseRequest
from psephos.curator.noise_plan import check_mechanism
from psephos.curator.statistic import fit_statistic, plan_statistic, release_sum
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.fixed_point import FixedPoint
from psephos.protocol.randomness import SimulationRandomness
from tests.curator.hamm import row_bounds

PARTIES = 30
REQUEST = ReleaseRequest(2.0, 1e-5, "spherical-laplace", None)


def auxiliary(samples: int = 40, features: int = 3) -> Any:
    X = np.random.default_rng(5).normal(size=(samples, features))
    return X / (np.linalg.norm(X, axis=1).max() * (1 + 1e-9))


def counts(classes: int) -> Any:
    return np.random.default_rng(6).multinomial(PARTIES, [1 / classes] * classes, size=40)


@pytest.mark.parametrize(
    ("mechanism", "output"),
    [("gaussian", "gaussian"), ("discrete-laplace", "spherical-laplace"), ("spherical-laplace", "spherical-laplace")],
)
def test_the_noise_of_a_release_is_that_of_the_request(mechanism: Any, output: str) -> None:
    """And its delta: nothing but what the sampler is off by where the law is pure."""
    request, X = replace(REQUEST, mechanism=mechanism), auxiliary()
    assert request.output_noise == output
    soft = methods.erm_method("soft", counts(3), X, loss_named("logistic", 3), request)
    assert (soft.chosen["mechanism"], soft.event.epsilon) == (output, 2.0)
    assert (soft.event.delta > 1e-6) == (mechanism == "gaussian")
    statistic = methods.statistic_method(counts(3), X, request)
    assert (statistic.chosen["mechanism"], statistic.event.epsilon) == (mechanism, 2.0)
    assert (statistic.event.delta > 1e-6) == (mechanism == "gaussian")
    pate = methods.pate_method(counts(3), X, request, 7)
    assert pate.chosen["mechanism"] == ("gnmax" if mechanism == "gaussian" else "lnmax")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("labels", ["majority", "soft"])
def test_releases_of_hamms_algorithms(labels: Any, classes: int) -> None:
    """Without noise the minimiser itself; with epsilon beyond reason nearly that; the bound is that of lambda."""
    X, votes, loss = auxiliary(), counts(classes), loss_named("logistic", classes)
    targets = alpha(votes) if labels == "soft" else one_hot(majority(votes), classes)
    request = replace(REQUEST, lam=0.05, epsilon=64.0, mechanism="gaussian")
    made = methods.erm_method(labels, votes, X, loss, request)
    w = minimise(X, targets, 0.05, loss).w
    np.testing.assert_allclose(made.nonprivate(), w, atol=1e-6)
    release = made.draw(SimulationRandomness(1, "draw"))
    assert np.linalg.norm(release - w) > 0
    assert made.chosen["lam"] == 0.05
    bound = {
        ("majority", 2): lambda: row_bounds.binary_majority(0.05, sensitivity.rho(X)),
        ("soft", 2): lambda: row_bounds.binary_soft(0.05, PARTIES, sensitivity.rho(X)),
        ("majority", 3): lambda: row_bounds.multiclass_majority(0.05, 3, sensitivity.rho(X)),
        ("soft", 3): lambda: row_bounds.multiclass_soft(0.05, PARTIES, 3, sensitivity.rho(X)),
    }[labels, classes]()
    assert made.sensitivity.value == pytest.approx(bound.value, rel=1e-2)
    assert made.sensitivity.value >= bound.value
    entry = made.ledger_entry
    assert (entry.mechanism, entry.epsilon, entry.unit) == ("gaussian", 64.0, "party")
    assert (entry.sensitivity, entry.norm) == (made.sensitivity.value, "l2")
    assert entry.chosen == {"lam": 0.05}
    assert made.chosen.keys() == {"lam", "mechanism"}, "the ledger has taken it out of the method"
    plain = methods.erm_method(labels, votes, X, loss, REQUEST)
    np.testing.assert_allclose(plain.nonprivate(), minimise(X, targets, 1e-4, loss).w, atol=1e-4)


def test_private_auxiliary_samples_cost_more() -> None:
    X, votes, loss = auxiliary(), counts(2), loss_named("logistic", 2)
    requests = (replace(REQUEST, lam=0.05, protect_auxiliary=one) for one in (False, True))
    public, hidden = (methods.erm_method("soft", votes, X, loss, request) for request in requests)
    assert hidden.sensitivity.value > public.sensitivity.value
    assert hidden.event.unit == "party and one auxiliary sample"


@pytest.mark.parametrize("source", ["own-data", "whitened"])
def test_the_statistic_of_an_exact_sum(source: Any) -> None:
    plan = plan_statistic(auxiliary(), 3, PARTIES, epsilon=2.0, delta=1e-5, mechanism="gaussian", source=source)
    total = list(range(plan.dimension))
    made = methods.own_data_method(total, plan)
    np.testing.assert_array_equal(made.nonprivate(), fit_statistic(release_sum(total, replace(plan, mechanism=None))))
    release = made.draw(SimulationRandomness(2, "draw"))
    np.testing.assert_array_equal(release, fit_statistic(release_sum(total, plan, SimulationRandomness(2, "draw"))))
    assert np.linalg.norm(release - made.nonprivate()) > 0
    assert (made.sensitivity, made.event) == (plan.sensitivity, plan.event)
    assert made.chosen == {"source": source, "rank": plan.rank, "mechanism": type(plan.mechanism).__name__}


def test_the_statistic_of_votes() -> None:
    X, votes = auxiliary(), counts(3)
    made, again = (methods.statistic_method(votes, X, replace(REQUEST, lam=lam)) for lam in (None, 0.1))
    loss = loss_named("logistic", 3)
    np.testing.assert_allclose(made.nonprivate(), minimise(X, alpha(votes), 1e-4, loss).w, atol=1e-4)
    np.testing.assert_allclose(again.nonprivate(), minimise(X, alpha(votes), 0.1, loss).w, atol=1e-6)
    one, other, same = (made.draw(SimulationRandomness(seed, "draw")) for seed in (1, 2, 1))
    np.testing.assert_array_equal(one, same)
    assert np.linalg.norm(one - other) > 0
    assert made.chosen.keys() == {"source", "rank", "mechanism"}
    assert made.chosen["source"] == "votes"


@pytest.mark.parametrize(("name", "joint"), [("uniform", False), ("uniform", True), ("spherical-laplace", True)])
def test_unknown_mechanisms_and_rounded_ones_in_shares_are_refused(name: str, joint: bool) -> None:
    with pytest.raises(InvalidParameter):
        check_mechanism(name, joint=joint)


def test_signal_statements_use_public_values_only() -> None:
    """Only where there are public rows to judge by, and only of what was released."""
    w = np.random.default_rng(3).normal(size=(20, 3))
    limit, point = 8.0, FixedPoint(24)
    sums = [sum(column) for column in zip(*(point.encode(one, limit) for one in w), strict=True)]
    average = average_of(sums, 20, limit, point, features=3)
    without, with_rows = (methods.average_method(average, 0.01, REQUEST, rows) for rows in (None, auxiliary()))
    private = methods.average_method(average, 0.01, replace(REQUEST, protect_auxiliary=True), auxiliary())
    assert with_rows.signal() is None
    for made in (without, with_rows, private):
        made.draw(SimulationRandomness(1, "draw"))
    assert without.signal() is private.signal() is None
    assert with_rows.signal() is not None
    for protected in (False, True):
        request = replace(REQUEST, protect_auxiliary=protected)
        made = methods.erm_method("soft", counts(3), auxiliary(), loss_named("logistic", 3), request)
        made.draw(SimulationRandomness(1, "draw"))
        assert (made.signal() is None) is protected


# -- wiring
