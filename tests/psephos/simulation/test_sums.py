"""What simulations of encrypted sums have in common: what was asked for arrives where it is due, and what cannot be
asked for is refused before anything is computed; small test keys that say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psephos.curator.statistic import public_coordinates
from psephos.data.datasets import Dataset
from psephos.data.partition import load_split
from psephos.parties.learners import make_learner
from psephos.parties.training import train_parties
from psephos.progress import silent
from psephos.simulation import sums
from psephos.simulation.options import AverageOptions, SumOptions, TallyOptions
from psephos.simulation.sums import SumExperiment

SMALL = AverageOptions(
    parties=7, key_bits=512, test_key=True, holders=4, threshold=2, workers=1, methods=("own-data",), draws=1
)


# -- what was asked for arrives


def begun(options: SumOptions, journal: Any = None, **how: Any) -> SumExperiment:
    """A run whose parties are trained, and which has summed nothing."""
    options, split = load_split(options)
    return SumExperiment(options, split, journal, how)  # type: ignore[arg-type]


# -- the parties, and what they are compared with


def test_the_scaling_does_not_depend_on_private_rows() -> None:
    """What everybody scales with is learned on public rows only."""
    options, split = load_split(SMALL)
    private = np.setdiff1d(np.arange(len(split.dataset.X_train)), split.auxiliary)
    X = split.dataset.X_train.copy()
    X[private] = 40 * X[private] + 3
    other = replace(split, dataset=replace(split.dataset, X_train=X))
    probe = np.random.default_rng(1).normal(size=(20, X.shape[1]))
    one, two = (SumExperiment(options, each, None, {}).population for each in (split, other))  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.auxiliary, two.auxiliary)
    np.testing.assert_array_equal(one.scaler.transform(probe), two.scaler.transform(probe))
    assert (one.trained.parameters != two.trained.parameters).any()


@pytest.mark.parametrize("name", ["har", "kdd99", "digits", "your own"])
def test_a_scaled_record_is_a_function_of_that_row_with_every_data_set(name: str) -> None:
    """Bit for bit: also where other units of privacy take principal components, a product with all rows at once."""
    generator = np.random.default_rng(0)
    data = Dataset(name, generator.normal(size=(500, 80)), generator.integers(2, size=500), None, None, ("a", "b"), "")
    options, split = load_split(TallyOptions(parties=3, workers=1, unit="record"), data)
    population = sums.populate(options, split, silent)
    for number, (X, _) in enumerate(population.records()):
        alone = [population.scaler.transform(row[None])[0] for row in split.party(number)[0][:40]]
        assert np.array_equal(X[:40], alone)
    assert population.auxiliary.shape[1] == 81  # every feature and a constant


def test_each_party_has_the_next_learner_with_its_own_seed() -> None:
    """As `make_learner` makes it: lambda is for logistic regression, public coordinates for whitened classifiers."""
    learners = ("tree", "whitened", "logistic", "knn")
    options = TallyOptions(parties=8, workers=1, learners=learners, lam=0.05, seed=5)
    progress = list[tuple[str, int, int]]()
    population = begun(options, progress=lambda *step: progress.append(step)).population
    white, rows = public_coordinates(population.auxiliary), population.rows()
    for number, (X, y) in enumerate(rows):
        learner = learners[number % 4]
        ridge = 0.05 if learner == "logistic" else None
        alone = make_learner(learner, classes=2, seed=5 + number, lam=ridge, coordinates=white).fit(X, y)
        own = population.trained.voters[number]
        np.testing.assert_array_equal(own.predict_votes(population.test), alone.predict_votes(population.test))
    assert [step for step in progress if step[0] == "train voters"] == [("train voters", n, 8) for n in range(9)]


def test_a_party_without_rows_has_no_parameters_and_is_counted() -> None:
    options, split = load_split(replace(SMALL, methods=("avg",)))
    few = replace(split, parties=[*split.parties[:-1], split.parties[-1][:0]])
    population = SumExperiment(options, few, None, {}).population
    assert not population.trained.parameters[-1].any()
    assert population.trained.parameters[:-1].any(axis=1).all()
    assert population.rows()[-1][0].shape == (0, population.auxiliary.shape[1])
    assert population.counts(population.test).sum() == 7 * len(population.test)


@pytest.mark.parametrize("learners", [("logistic",), ("tree", "logistic")])
def test_parties_train_independently(learners: tuple[str, ...]) -> None:
    """Bit for bit what a party computes from its own rows on a machine of its own."""
    options = TallyOptions(parties=7, workers=1, sizes="dirichlet", learners=learners)
    progress = list[tuple[str, int, int]]()
    population = begun(options, progress=lambda *step: progress.append(step)).population
    for number in range(7):
        X, y = population.split.party(number)
        alone = train_parties(population.scaler.transform(X), y, [len(y)], classes=2, lam=options.local_lam)[0]
        np.testing.assert_array_equal(population.trained.parameters[number], alone)
        voter: Any = population.trained.voters[number]
        if learners[number % len(learners)] == "logistic" and "tree" in learners:
            np.testing.assert_array_equal(voter.parameters, alone)
    assert len(population.trained.voters) == 7
    assert ("train", 7, 7) in progress
