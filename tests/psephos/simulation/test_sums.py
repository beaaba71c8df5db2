"""What simulations of encrypted sums have in common: what was asked for arrives where it is due, and what cannot be
asked for is refused before anything is computed; small test keys that say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from psephos.curator.statistic import public_coordinates
from psephos.data.datasets import Dataset
from psephos.data.partition import load_split, scaler_for
from psephos.parties.holder import KeyHolder
from psephos.parties.learners import make_learner
from psephos.parties.training import train_parties
from psephos.progress import silent
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import InvalidParameter, JournalError, WeakKeyError
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.simulation import sums
from psephos.simulation.average import AverageOptions
from psephos.simulation.charges import charges_of
from psephos.simulation.encrypted_sum import simulate_sum
from psephos.simulation.sum_options import SumOptions
from psephos.simulation.sums import SumExperiment, journal_of
from psephos.simulation.tally import TallyOptions
from psephos.specs.average import AverageSpec
from tests.security.lab.edits import replaced

SMALL = AverageOptions(
    parties=7, key_bits=512, test_key=True, holders=4, threshold=2, workers=1, methods=("own-data",), draws=1
)


# -- what can be asked for, and what cannot


@pytest.mark.parametrize(
    ("one", "words"),
    [
        ({"parties": 1, "holders": 1, "threshold": 1}, "at least 2 parties"),
        ({"epsilon": (0.0,)}, "epsilon"),
        ({"epsilon": ()}, "one epsilon or several"),
        ({"epsilon": (1.0, 1.0)}, "one epsilon or several"),
        ({"lam": 0.0}, "lambda must be positive"),
        ({"delta": 0.0}, "delta"),
        ({"workers": 0}, "--workers must be at least 1, not 0"),
        ({"draws": 0}, "--draws must be at least 1, not 0"),
        ({"degree": 0}, "degree"),
        ({"degree": 5}, "degree"),
        ({"randomness": "none"}, "randomness is one of"),
        ({"keys": "mine"}, "keys is one of dealer, ceremony"),
        ({"proofs": "some"}, "proofs is one of none, knowledge, valid"),
        ({"proofs": "valid", "randomness": "full"}, "in randomness modes half and short"),
        ({"mechanism": "uniform"}, "mechanism is one of"),
        ({"methods": ("vote",)}, "methods is one of avg, own-data, whitened"),
        ({"threshold": 0}, r"the threshold \(0\)"),
        ({"threshold": 5}, r"the threshold \(5\)"),
        ({"holders": 8}, "lower --holders"),
        ({"auxiliary": 0}, "--auxiliary is at least 1"),
        ({"min_ballots": 1}, "lies between 2 and the parties, not 1"),
        ({"min_ballots": 8}, "lies between 2 and the parties, not 8"),
    ],
    ids=str,
)
def test_the_first_invalid_values_are_refused(one: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        replace(SMALL, **one).check()


def test_a_short_key_needs_the_option_test_key() -> None:
    replace(SMALL, key_bits=2048, test_key=False).check()
    with pytest.raises(WeakKeyError):
        replace(SMALL, test_key=False).check()


# -- what was asked for arrives


def rounds(simulate: Callable[..., Any], options: SumOptions) -> list[tuple[Round, int]]:
    """Of each sum: what the curator and the last holder agree on, and who that holder is."""
    seen: list[tuple[Round, int]] = []

    def keep(role: Role) -> Role:
        assert isinstance(role, KeyHolder)
        seen.append((role.round, int(role.name.split()[1])))
        return role

    simulate(options, roles={f"holder {options.holders}": keep})
    return seen


def begun(options: SumOptions, journal: Any = None, **how: Any) -> SumExperiment:
    """A run whose parties are trained, and which has summed nothing."""
    options, split = load_split(options)
    return SumExperiment(options, split, journal, how)  # type: ignore[arg-type]


def test_a_sum_is_taken_under_the_conditions_of_the_run() -> None:
    class TakenError(Exception):
        """Raised to stop the run when it takes a sum."""

    def take(*terms: Any) -> Any:
        raise TakenError(*terms)

    def keep(role: Role) -> Role:
        return role

    transcript, steps = Transcript(), list[tuple[str, int, int]]()
    journal = SimpleNamespace(key_setup=lambda make: make())
    options = replace(SMALL, randomness="short", absent=0.3, proofs="knowledge", min_ballots=3)
    how: dict[str, Any] = {"transcript": transcript, "roles": {"curator": keep}}
    run = begun(options, journal, **how, progress=lambda *far: steps.append(far))
    spec, data = AverageSpec(31, 2, 1.0, 1e-4), np.zeros((7, 31), dtype=np.int64)
    for least, named in ((None, 3), (4, 4)):
        with replaced([sums], "simulate_sum", simulate_sum, take), pytest.raises(TakenError) as taken:
            run.sum(spec, data, "a phase", label="a name", minimum_ballots=least)
        round_, keys, factory, config = taken.value.args
        assert keys is run.keys_for(spec)
        assert (factory.spec, factory.data is data, factory.first) == (spec, True, 0)
        assert (round_.minimum_ballots, round_.proofs, round_.test_key) == (named, "knowledge", True)
        assert (config.mode, config.engine, config.journal) == ("short", run._engine, journal)
        assert (config.transcript, config.roles, config.label) == (transcript, {"curator": keep}, "a name")
        assert (config.present, len(config.present)) == (run.population.present, 5)
        assert steps[-1] == ("a phase", 0, 5)


@pytest.mark.parametrize(
    ("context", "repeats"),
    [
        ({}, True),
        ({"roles": {}, "transcript": Transcript()}, True),
        ({"roles": {"party 0": lambda role: role}}, False),
        ({"transcript": Transcript(secrets=True)}, False),
    ],
)
def test_a_run_whose_noise_no_journal_keeps_is_charged_again(context: Any, repeats: bool) -> None:
    """All roles are in one run where one is replaced, or a transcript keeps secrets; its sum is not opened again."""
    checked = list[str]()

    def charges(*terms: Any, **more: Any) -> Any:
        assert (terms, more) == ((SMALL, "split", "journal"), {"repeats": repeats})
        return SimpleNamespace(check=lambda: checked.append("check"))

    with replaced([sums], "charges_of", charges_of, charges):
        assert sums._charges_of(SMALL, "split", "journal", context) is not None  # type: ignore[arg-type]
    assert checked == ["check"]
    with replaced([sums], "charges_of", charges_of, lambda *terms, **more: None):
        assert sums._charges_of(SMALL, "split", "journal", context) is None  # type: ignore[arg-type]


def test_the_journal_identity_excludes_engine_and_draws(tmp_path: Path) -> None:
    """What may change when a journal is gone on with: the machine, and how often is drawn."""
    options = replace(SMALL, journal=str(tmp_path / "journal"))
    journal_of(options).close()
    free = {"workers": 2, "engine": "dask", "scheduler": "a:1", "draws": 4, "data_dir": str(tmp_path)}
    free |= {"budget": str(tmp_path / "b"), "budget_limit": "3"}
    for change in ({name: value} for name, value in free.items()):
        journal_of(replace(options, **change)).close()
    for change in ({"seed": 1}, {"epsilon": (2.0,)}, {"methods": ("avg",)}, {"randomness": "full"}, {"absent": 0.2}):
        with pytest.raises(JournalError, match=f"another run.*{next(iter(change))}"):
            journal_of(replace(options, **change))
    other = TallyOptions(**{name: value for name, value in vars(options).items() if name != "methods"})
    with pytest.raises(JournalError, match="run: 'AverageOptions' there, 'TallyOptions' here"):
        journal_of(replace(other, methods=("own-data",)))
    with journal_of(replace(SMALL, journal=None)) as none:
        assert none is None


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
    assert (one.parameters != two.parameters).any()


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


@pytest.mark.parametrize("name", ["har", "kdd99", "digits", "your own"])
@pytest.mark.parametrize(
    ("change", "divided", "whole"),
    [({}, False, False), ({"unit": "record"}, True, True), ({"class_shares": ("a=0.5", "b=0.5")}, True, False)],
    ids=str,
)
def test_rows_have_a_constant_where_they_are_divided_by_it(
    name: str, change: dict[str, Any], divided: bool, whole: bool
) -> None:
    """That of the data set or, where it has none, 1; principal components are left out for records alone."""
    generator, usual = np.random.default_rng(0), scaler_for(name)
    data = Dataset(name, generator.normal(size=(500, 80)), generator.integers(2, size=500), None, None, ("a", "b"), "")
    chosen = TallyOptions(parties=3, workers=1, auxiliary=60, **change)
    options, split = load_split(chosen, data)
    scaler = sums.populate(options, split, silent).scaler
    assert scaler.intercept == ((usual.intercept or 1.0) if divided else usual.intercept)
    assert scaler.components == (None if whole else usual.components)
    assert scaler.scaling == "unit-rows"


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
        own = population.voters[number]
        np.testing.assert_array_equal(own.predict_votes(population.test), alone.predict_votes(population.test))
    assert [step for step in progress if step[0] == "train voters"] == [("train voters", n, 8) for n in range(9)]


def test_a_party_without_rows_has_no_parameters_and_is_counted() -> None:
    options, split = load_split(replace(SMALL, methods=("avg",)))
    few = replace(split, parties=[*split.parties[:-1], split.parties[-1][:0]])
    population = SumExperiment(options, few, None, {}).population
    assert not population.parameters[-1].any()
    assert population.parameters[:-1].any(axis=1).all()
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
        np.testing.assert_array_equal(population.parameters[number], alone)
        voter: Any = population.voters[number]
        if learners[number % len(learners)] == "logistic" and "tree" in learners:
            np.testing.assert_array_equal(voter.parameters, alone)
    assert len(population.voters) == 7
    assert ("train", 7, 7) in progress
