"""The main job end to end, at small test keys that say so; the real sizes are in benchmarks and `make demo`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

from psephos.audit.adversary import Tampering
from psephos.curator.methods import statistic_nonprivate
from psephos.curator.signal import noise_energy
from psephos.curator.statistic import fit_statistic, plan_statistic, release_sum
from psephos.curator.tally import Tally
from psephos.data.datasets import Dataset
from psephos.data.partition import load_split
from psephos.parties.statistic import own_vector
from psephos.progress import silent
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import TooFewBallotsError
from psephos.protocol.transcript import Transcript
from psephos.simulation import sums
from psephos.simulation.options import TallyOptions
from psephos.simulation.tally import simulate_tally
from psephos.specs.noisy import StatisticSpec, plan_of
from psephos.specs.terms import PrivacyTerms, PublicTerms

SMALL = TallyOptions(parties=7, key_bits=512, test_key=True, holders=4, threshold=2, workers=1, epsilon=(5.0,), draws=1)
JOINT = {"reveal": "statistic"}
METHODS = ("vote", "soft", "avg", "statistic", "own-data", "whitened", "pate")


def run_tally(options: TallyOptions, **more) -> dict:
    """The run's JSON, its accuracies and ledger as the tests look at them."""
    return simulate_tally(options, **more).as_json()


@pytest.fixture(scope="module")
def result() -> dict:
    return run_tally(SMALL)


def test_the_opened_counts_equal_the_clear_counts(result: dict) -> None:
    assert result["tally_equals_plaintext"] is True
    assert result["ballots"] == 7


class OffByOne(Tampering):
    """A curator whose result is another sum than it opened."""

    def result(self, state):
        opened = super().result(state)
        return opened and replace(opened, sums=(opened.sums[0] ^ 1, *opened.sums[1:]))


def test_a_wrong_count_is_detected() -> None:
    outcome = simulate_tally(SMALL, roles={"curator": OffByOne})
    assert outcome.tally_equals_plaintext is False
    assert outcome.exact is False


def test_classifiers_reach_a_minimum_accuracy(result: dict) -> None:
    # Always saying the larger class scores 0.63 on this data.
    for name in METHODS:
        assert result["accuracy"][name]["nonprivate"] > 0.85
    assert result["accuracy"]["batch"]["nonprivate"] > 0.9


def clear(result: Any, method: str) -> Any:
    """The classifier without noise."""
    return next(one.w for one in result.evaluation.scores if (one.method, one.epsilon) == (method, None))


def without_noise(terms: PublicTerms, data: list[Any]) -> Any:
    """A statistic of these parties, in all public coordinates."""
    plan = plan_of(terms, PrivacyTerms(epsilon=None), "spherical-laplace", joint=False)
    if terms.method == "vote-directions":
        vectors = [plan.grid.contribution(voter.predict_probabilities(terms.samples)) for voter in data]
    else:
        vectors = [own_vector(plan.grid, *rows) for rows in data]
    return fit_statistic(release_sum([sum(column) for column in zip(*vectors, strict=True)], plan))


def test_a_classifier_without_noise_is_of_all_rows_that_are_there() -> None:
    """In all public coordinates; the shares of the noise are sized as it was agreed."""
    change: dict[str, Any] = {"absent": 0.3, "dropouts": 3, "colluders": 1, "lam": 0.02}
    options = replace(SMALL, **JOINT, **change, methods=("statistic", "own-data", "whitened", "vote-directions"))
    result = simulate_tally(options)
    population = sums.populate(*load_split(options), silent)
    X, rows, there = population.auxiliary, population.rows(), population.present
    assert len(there) == 5
    for method in ("own-data", "whitened"):
        terms = PublicTerms(auxiliary=AuxiliarySet(X), classes=2, parties=len(there), method=method)
        expected = without_noise(terms, [rows[number] for number in there])
        np.testing.assert_allclose(clear(result, method), expected)
    votes = [population.trained.voters[number] for number in there]
    directions = without_noise(replace(terms, method="vote-directions"), votes)
    np.testing.assert_allclose(clear(result, "vote-directions"), directions)
    np.testing.assert_allclose(
        clear(result, "statistic"), statistic_nonprivate(population.counts(X), X, options.local_lam)
    )
    for _, _, factory, _ in result.evaluation.contributions:
        assert (factory.spec.shares.contributors, factory.spec.colluders) == (2, 1)


def test_two_ballots_at_least_are_opened_however_many_may_stay_away() -> None:
    """Where the key holders add the noise, the number of those who stay away has no other limit."""
    options = replace(SMALL, **JOINT, parties=5, methods=("own-data",), noise_from="holders")
    for dropouts, least in ((4, 2), (3, 2), (2, 3)):
        assert simulate_tally(replace(options, dropouts=dropouts)).min_ballots == least


@pytest.mark.parametrize(
    ("keys", "proofs"),
    [("dealer", "knowledge"), ("dealer", "valid"), pytest.param("ceremony", "knowledge", marks=pytest.mark.slow)],
)
def test_proofs_and_ceremony_keys_change_no_count(keys: str, proofs: str) -> None:
    options = replace(SMALL, parties=5, holders=3, threshold=2, auxiliary=20, keys=keys, proofs=proofs)
    plain, outcome = simulate_tally(replace(options, keys="dealer", proofs="none")), simulate_tally(options)
    assert outcome.tally_equals_plaintext
    assert (outcome.options["keys"], outcome.options["proofs"]) == (keys, proofs)
    assert outcome.accuracy["soft"].nonprivate == plain.accuracy["soft"].nonprivate
    assert outcome.bytes_per_ballot > plain.bytes_per_ballot


# -- what the curator is given


def test_dropouts_lower_the_minimum_and_spread_the_noise_over_fewer() -> None:
    joint = run_tally(replace(SMALL, reveal="statistic", mechanism="gaussian", colluders=2, dropouts=1))
    assert joint["min_ballots"] == SMALL.parties - 1
    assert joint["privacy"]["statistic"]["chosen"]["contributors"] == SMALL.parties - 4
    assert joint["privacy"]["statistic"]["delta"] == joint["delta"] == SMALL.delta + 2.0**-64
    assert joint["colluders"] == 2


def test_the_rule_for_lambda_uses_public_numbers_only(result: dict) -> None:
    # Other private labels (another seed deals other samples): the sensitivity can only change through X.
    again = run_tally(replace(SMALL, learners=("tree",)))
    assert again["privacy"]["soft"]["chosen"]["lam"] == result["privacy"]["soft"]["chosen"]["lam"]
    assert again["privacy"]["statistic"]["chosen"]["rank"] == result["privacy"]["statistic"]["chosen"]["rank"]
    assert again["privacy"]["pate"]["chosen"]["queries"] == result["privacy"]["pate"]["chosen"]["queries"]


# -- noise of the key holders


@pytest.mark.parametrize("mechanism", [None, "gaussian"])
@pytest.mark.parametrize("recorded", [False, True])
def test_the_holders_noise_is_in_every_opened_sum(mechanism: Any, recorded: bool) -> None:
    terms: dict[str, Any] = {"holders": 5, "threshold": 3, "noise_from": "holders", "mechanism": mechanism}
    options = replace(SMALL, **JOINT, **terms, epsilon=(60.0,))
    transcript = Transcript(secrets=True) if recorded else None
    result = simulate_tally(options, transcript=transcript)
    assert result.tally_equals_plaintext is True
    assert result.colluders == 2
    for name, (opened,) in result.evaluation.sums.items():
        (contribution,) = (c for c in result.evaluation.contributions if c[0] == name)
        _, round_, factory, _ = contribution
        assert round_.holder_noise
        assert round_.confirmations == 4
        assert factory.spec.shares.contributors == 3
        assert factory.spec.shares.parties == 5
        exact = np.sum([factory.spec.vector(factory.data[number]) for number in range(7)], axis=0)
        assert (np.array(opened.sums) != exact).any()
        assert abs(np.array(opened.sums) - exact).max() <= 5 * factory.spec.shares.bound
        released, signal = factory.spec.statistic(opened), result.privacy[name.split()[-1]].signal
        noise = noise_energy(released.plan.mechanism, released.plan.unit, 5 / 3).mean
        assert signal is not None
        assert signal.share == pytest.approx(max(0.0, 1 - noise / float((released.T**2).sum())), abs=1e-4)


def test_a_continued_run_opens_the_noise_that_the_holders_posted(tmp_path: Path) -> None:
    """The run stops after the holders have posted; a continued one must compare with the same noise."""
    options = replace(SMALL, **JOINT, methods=("own-data",), noise_from="holders", epsilon=(1.0, 5.0))
    journaled = replace(options, journal=str(tmp_path / "journal"))

    class Stopped(Exception):
        pass

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Tally, "_on_idle", _stop(Stopped))
        with pytest.raises(Stopped):
            run_tally(journaled)
    assert run_tally(journaled)["tally_equals_plaintext"] is True


def _stop(error: type[Exception]) -> Any:
    def stopped(self: Any, state: Any) -> Any:
        raise error

    return stopped


def test_noise_of_the_holders_has_the_variance_that_is_stated() -> None:
    """h shares of which h - t + 1 make up the law; of parties that stay away no noise is missing."""
    plan = plan_statistic(np.eye(6)[:, :3], 2, 20, epsilon=1.0, mechanism="discrete-laplace", joint=True)
    spec = StatisticSpec.private(plan, PrivacyTerms(epsilon=1.0, colluders=1, holders=3))
    assert spec.counting(20).noise == pytest.approx(plan.noise * 3 / 2)
    assert spec.counting(10).noise == pytest.approx(plan.noise * 3 / 2 * 4)
    assert spec.square_bound == StatisticSpec(plan, None).square_bound
    assert "key holders" in spec.cost(20).mechanism


# -- who holds what, and who stays away


def test_too_many_absent_is_an_error_by_name() -> None:
    with pytest.raises(TooFewBallotsError):
        run_tally(replace(SMALL, absent=0.6, min_ballots=4))


@pytest.mark.slow
def test_baselines_and_recall_are_those_of_scikit_learn() -> None:
    outcome = simulate_tally(replace(SMALL, dataset="digits", draws=2, sizes="dirichlet"))
    evaluation = outcome.evaluation
    assert evaluation.split is not None
    y = evaluation.split.y_test
    for one in evaluation.scores:
        if one.w is None:
            continue
        predicted = (evaluation.test @ one.w.T).argmax(axis=1)
        assert one.accuracy == pytest.approx(accuracy_score(y, predicted))
        assert one.balanced == pytest.approx(balanced_accuracy_score(y, predicted))
        np.testing.assert_allclose(one.recall, recall_score(y, predicted, average=None, zero_division=0.0))
    assert outcome.accuracy["majority"].balanced == pytest.approx(0.1)
    assert [draw.draw for draw in evaluation.scores if draw.method == "soft"] == [None, 0, 1]
    private = [draw.accuracy for draw in evaluation.scores if draw.method == "soft" and draw.epsilon == 5.0]
    assert outcome.accuracy["soft"].private == pytest.approx(np.mean(private))
    (table,) = outcome.page().tables
    assert [row[0] for row in table.rows] == list(outcome.accuracy)
    assert table.columns[1:] == outcome.class_names


@pytest.mark.parametrize("missing", [0, 1])
def test_kdd99_is_split_as_in_hamm_2016(missing: int) -> None:
    """22 rows a party and 43,000 public ones, section 6.2."""
    rows, few = 2 * 22 + 43_000 - missing, np.zeros((10, 1), dtype=np.float32)
    X, y = np.zeros((rows, 1), dtype=np.float32), np.arange(rows) % 2
    data = Dataset("kdd99", X, y, few, np.arange(10) % 2, ("normal", "attack"), "drawn")
    split = TallyOptions(dataset="kdd99", parties=2).deal(data)
    assert (len(split.auxiliary) == 43_000 and set(split.sizes) == {22}) is not bool(missing)
    chosen = TallyOptions(dataset="kdd99", parties=2, samples_per_party=5).deal(data)
    assert set(chosen.sizes) == {5}
    assert len(chosen.auxiliary) != 43_000
    assert len(TallyOptions(dataset="kdd99", parties=2, auxiliary=100).deal(data).auxiliary) == 100
    assert len(TallyOptions(parties=2).deal(replace(data, name="kdd98")).auxiliary) != 43_000


def test_sums_at_different_epsilons_are_separate_in_a_journal(tmp_path: Path) -> None:
    """What is summed of own data depends on epsilon."""
    options = replace(SMALL, methods=("own-data",), epsilon=(1.0, 5.0), journal=str(tmp_path / "journal"))
    first, again = run_tally(options), run_tally(options)
    assert first["tally_equals_plaintext"]
    assert again["continued_from"] == 2 * 7
    assert first["accuracy"]["own-data"]["nonprivate"] == again["accuracy"]["own-data"]["nonprivate"]
