"""Tests of the vector that a party encrypts: the grid's vector plus its share of the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from psephos.parties.noise import PolyaShares
from psephos.parties.party import labels_of
from psephos.parties.statistic import entry_range, own_vector, with_share
from psephos.parties.training import train_whitened
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.own_data import OwnDataGrid, unit_rows
from psephos.protocol.grids.record import RecordGrid
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.grids.vote_directions import VoteDirectionGrid
from psephos.protocol.randomness import SimulationRandomness
from psephos.specs.noisy import StatisticSpec
from psephos.specs.terms import PrivacyTerms, PublicTerms

GRID = StatisticGrid(np.array([[1, 2], [3, -4], [5, 6]]), np.array([[0, 1, 0], [0, 0, 1]]))
CHOICES = np.array([1, 2, 1])
SHARES = PolyaShares(4, 5, 3, Fraction(40))


def test_the_range_of_an_entry_is_that_of_the_vector_and_the_share() -> None:
    assert entry_range(GRID, None) == (GRID.minimum, GRID.maximum)
    assert entry_range(GRID, SHARES) == (GRID.minimum - SHARES.bound, GRID.maximum + SHARES.bound)


def test_a_share_is_added_to_the_exact_vector() -> None:
    exact, noise = GRID.contribution(CHOICES), SHARES.share(SimulationRandomness(1))
    assert exact == [6, 8, 3, -4]
    assert any(noise)
    assert with_share(exact, None) == exact
    assert with_share(exact, SHARES, SimulationRandomness(1)) == [e + n for e, n in zip(exact, noise, strict=True)]
    for dimension in (3, 5):
        with pytest.raises(InvalidParameter):
            with_share(exact, PolyaShares(dimension, 5, 3, Fraction(40)))


@dataclass(frozen=True)
class Doubtful:
    """A classifier whose probabilities say more than its votes."""

    doubts: Any
    votes: Any

    def predict_votes(self, X: Any) -> Any:
        return self.votes

    def predict_probabilities(self, X: Any) -> Any:
        return self.doubts


def test_a_party_sends_the_direction_of_its_probabilities_and_the_statistic_of_its_votes() -> None:
    public = PublicTerms(auxiliary=AuxiliarySet(np.eye(3)), classes=2, parties=2)
    points = np.array([[1, 2], [3, -4], [5, 7]])
    direction, statistic = VoteDirectionGrid(points / 8.0, 2), StatisticGrid(points, np.array([[0, 1]]))
    doubts, votes = np.array([[0.9, 0.1], [0.6, 0.4], [0.1, 0.9]]), np.array([0, 0, 1])
    assert direction.contribution(doubts) != direction.contribution(votes)
    for method, grid, labels in (("vote-directions", direction, doubts), ("statistic", statistic, votes)):
        spec = StatisticSpec.plan(replace(public, method=method), PrivacyTerms(epsilon=1.0))
        spec = replace(spec, release_plan=replace(spec.release_plan, grid=grid))
        assert list(spec.vector(Doubtful(doubts, votes))) == grid.contribution(labels)


@pytest.mark.parametrize("method", ["statistic", "vote-directions"])
@pytest.mark.parametrize("data", [object(), SimpleNamespace(predict_votes=None), np.eye(3)])
def test_what_has_no_votes_is_refused_by_name(method: str, data: Any) -> None:
    public = PublicTerms(auxiliary=AuxiliarySet(np.eye(3)), classes=2, parties=2, method=method)
    with pytest.raises(InvalidParameter):
        StatisticSpec.plan(public, PrivacyTerms(epsilon=1.0)).vector(data)


@pytest.mark.parametrize(
    "doubts",
    [
        *([[0.9, 0.1], [number, 0.4], [0.1, 0.9]] for number in (np.nan, np.inf, -0.5, 0.75, None, "0.6")),
        [[1.0]] * 3,
        [[0.2, 0.3, 0.5]] * 3,
        [0.9, 0.6, 0.1],
        [[0.9, 0.1], [1.0], [0.1, 0.9]],
        0.5,
    ],
)
def test_what_is_no_probabilities_does_not_silence_a_party(doubts: Any) -> None:
    """Which a classifier gives depends on private rows, as the classes do: the direction of its votes is sent."""
    votes = np.array([0, 0, 1])
    assert labels_of(Doubtful(doubts, votes), np.eye(3), 2) is votes


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_is_trained_for_a_whitened_average_and_for_no_other(classes: int) -> None:
    generator = np.random.default_rng(classes)
    X, y, transform = generator.normal(size=(12, 3)), np.arange(12) % classes, generator.normal(size=(3, 2))
    plain, whitened = (OwnDataGrid(transform, classes, source) for source in ("own-data", "whitened"))  # type: ignore[arg-type]
    (W,) = train_whitened(unit_rows(X) @ transform, y, [12], classes=classes, transform=transform)
    assert own_vector(plain, X, y) == plain.contribution(X, y)
    assert own_vector(whitened, X, y) == whitened.contribution(X, y, lambda Z, labels: W)
    assert own_vector(whitened, X, y) != own_vector(plain, X, y)


def test_a_record_step_is_the_sum_over_rows_or_persons() -> None:
    generator = np.random.default_rng(1)
    X, y = np.column_stack([generator.normal(size=(12, 3)), np.ones(12)]), np.arange(12) % 2
    grid = RecordGrid(generator.normal(size=(4, 2)), 0.5, generator.normal(size=(4, 1)), 2)
    assert own_vector(grid, X, y) == grid.contribution(X, y)
    assert own_vector(grid, X, y, np.arange(12) // 3) == grid.contribution(X, y, np.arange(12) // 3)
    assert entry_range(grid, SHARES) == (grid.minimum - SHARES.bound, grid.maximum + SHARES.bound)
