"""The rivals of `benchmarks.table_rivals` are what their papers say, at the privacy that is claimed for them.

All seeds are fixed, so that nothing fails by chance.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy import stats
from sklearn.linear_model import LogisticRegression

from benchmarks import table_rivals as rivals
from benchmarks import tables
from benchmarks.accuracy import accuracy
from benchmarks.table_rivals import DELTA, Answers, Averaging, Scene, SentPredictions, Voting
from psephos.curator.hamm.rehearsal import _World, fit_public
from psephos.curator.hamm.rehearsed import model_classifier
from psephos.protocol.encrypted_sum.local_step import local_steps
from tests.statistical import FALSE_ALARM

SMALL = {
    "rounds": (Averaging(2, 0.0, 1, 0.0, 0.5), Averaging(2, 0.0, 3, 0.5, 1.5)),
    "DP-FedAvg": (Averaging(2, 0.0, 1, 0.5, 0.5), Averaging(2, 0.5, 3, 0.9, 1.0)),
    "PATE": (Answers(2, 0.0, 5, 0.0, 0.3), Answers(2, 0.5, 20, 0.8, 0.03)),
    "AAFV": (Voting(2, 0.0, 5, False, 0.0, 0.3), Voting(2, 0.5, 20, True, 0.25, 0.03)),
}


def a_scene(parties: int = 6, rows: int = 30, classes: int = 3, law: str = "pure") -> Scene:
    generator = np.random.default_rng(4)
    centres = generator.normal(size=(classes, 5))
    labels = generator.integers(0, classes, 60)
    model = fit_public(centres[labels] + generator.normal(size=(60, 5)), labels, classes)

    def directions(y: Any) -> Any:
        X = centres[y] + generator.normal(size=(*y.shape, 5))
        return (X - model.mean) / model.spread @ model.axes

    own, test = generator.integers(0, classes, (parties, rows)), generator.integers(0, classes, 200)
    private, held_out = directions(own), directions(test)
    world = _World(private, own, model.scores(private), held_out, model.scores(held_out), np.eye(classes)[test])
    return Scene(world, model, parties, law, directions(generator.integers(0, classes, rivals.MOST_QUERIES)))


# -- permute and flip


def law_of_permute_and_flip(scores: list[float], epsilon: float) -> np.ndarray:
    """The closed form of McKenna and Sheldon (2020), proposition 5."""
    chances = np.exp(epsilon / 2 * (np.array(scores) - max(scores)))
    law = []
    for place, own in enumerate(chances):
        others = np.delete(chances, place)
        subsets = (set_ for size in range(len(others) + 1) for set_ in itertools.combinations(others, size))
        law.append(own * sum((-1) ** len(set_) / (len(set_) + 1) * math.prod(set_) for set_ in subsets))
    return np.array(law)


def test_permute_and_flip_has_its_closed_form() -> None:
    scores, epsilon, draws = [5.0, 3.0, 3.0, 0.0], 0.8, 40_000
    expected = law_of_permute_and_flip(scores, epsilon)
    assert expected.sum() == pytest.approx(1)
    chosen = rivals.permute_and_flip(np.tile(scores, (draws, 1)), epsilon, np.random.default_rng(0))
    seen = np.bincount(chosen, minlength=4)
    assert stats.chisquare(seen, draws * expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_vote_changes_the_law_of_an_answer_by_at_most_epsilon(epsilon: float) -> None:
    """Over all votes of five parties for three classes, beside a threshold of 3 that no vote moves."""
    worst = 0.0
    for counts in itertools.product(range(6), repeat=3):
        if sum(counts) != 5:
            continue
        law = law_of_permute_and_flip([*counts, 3], epsilon)
        for before, after in itertools.permutations(range(3), 2):
            if counts[before]:
                moved = list(counts)
                moved[before] -= 1
                moved[after] += 1
                worst = max(worst, float(np.log(law / law_of_permute_and_flip([*moved, 3], epsilon)).max()))
    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-9)


# -- PATE


@pytest.mark.parametrize("law", rivals.LAWS)
def test_without_noise_the_answer_is_the_plurality_where_it_is_large(law: str) -> None:
    """Counts so large that the noise of the largest epsilon does not matter."""
    counts = 1e6 * np.array([[3, 1, 0], [0, 4, 0], [1, 1, 2.0]])
    generator = np.random.default_rng(0)
    assert rivals.answer(law, counts, 0.0, 64.0, generator).tolist() == [0, 1, 2]
    assert rivals.answer(law, counts, 2.5e6, 64.0, generator).tolist() == [0, 1, -1]
    assert rivals.answer(law, np.stack([counts] * 2), 3.5e6, 64.0, generator).tolist() == [[-1, 1, -1]] * 2


def test_the_queries_of_a_pure_law_share_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = []
    monkeypatch.setattr(rivals, "permute_and_flip", lambda scores, each, generator: spent.append(each) or np.zeros(20))
    rivals.answer("pure", np.zeros((20, 3)), 0.0, 3.0, np.random.default_rng(0))
    assert spent == [3.0 / 20]


def accounted(multipliers: list[tuple[float, int]]) -> float:
    """The epsilon at DELTA of Gaussians of sensitivity 1, by another accountant."""
    accountant = PLDAccountant()
    for multiplier, count in multipliers:
        accountant.compose(dp_accounting.GaussianDpEvent(multiplier), count)
    return float(accountant.get_epsilon(DELTA))


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_checks_and_answers_together_cost_epsilon(epsilon: float, checked: bool) -> None:
    check, answer = rivals.confident_sigmas(epsilon, 20, checked=checked)
    checks = [(check, 20)] if checked else []
    assert math.isfinite(check) == checked
    assert accounted([*checks, (answer / math.sqrt(2), 20)]) == pytest.approx(epsilon, rel=0.002)


def test_checks_and_answers_are_drawn_with_their_deviations() -> None:
    """Each decides a count that lies one deviation away: correct with probability .84, or Phi(1/sqrt(2)) = .76."""
    epsilon, queries, draws = 1.0, 4, 20_000
    check, sigma = rivals.confident_sigmas(epsilon, queries, checked=True)
    counts = np.tile([1e6 + sigma, 1e6], (draws, queries, 1))
    answers = rivals.answer("gaussian", counts, 1e6 + sigma - check, epsilon, np.random.default_rng(1))
    assert np.mean(answers >= 0) == pytest.approx(stats.norm.cdf(1), abs=0.01)
    assert np.mean(answers[answers >= 0] == 0) == pytest.approx(stats.norm.cdf(math.sqrt(0.5)), abs=0.01)


def test_teachers_are_counted_once_for_each_party() -> None:
    scene = a_scene()
    Z, counts = rivals.teacher_votes(scene, 2, 0.0)
    assert Z.shape == (rivals.MOST_QUERIES, 3)
    assert (counts.sum(axis=1) == 6).all()
    more = Scene(scene.world, scene.model, 60, "pure", scene.queries)
    assert np.allclose(rivals.teacher_votes(more, 2, 0.0)[1], 10 * counts), "a simulated party stands for ten"


def test_a_student_without_answers_is_the_public_model() -> None:
    scene = a_scene()
    Z = scene.clipped(scene.queries, 2, 0.0)[:10]
    answers = np.array([[-1] * 10, [0, 1, 2] * 3 + [-1], [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]])
    none, some, all_ = rivals.students(scene, Z, answers, 0.1)
    assert not none.any()
    offset = scene.model.scores(scene.queries[:10])
    assert np.allclose(all_, local_steps(Z[None], answers[2:], offset[None], 0.1)[0])
    fewer = local_steps(Z[None, :9], answers[1:2, :9], offset[None, :9], 0.1 * 10 / 9)[0]
    assert np.allclose(some, fewer, atol=1e-3), "a query without answer has no part in the loss"


# -- abstention-aware federated voting

PIECEWISE = list(itertools.product((0.05, 1.0, 3.0, 10.0), (-1.0, -0.3, 0.0, 0.8, 1.0)))


def density(numbers: np.ndarray, value: float, epsilon: float) -> np.ndarray:
    """The density of the piecewise mechanism (Wang et al. 2019)."""
    reach = (math.exp(epsilon / 2) + 1) / (math.exp(epsilon / 2) - 1)
    left = (reach + 1) / 2 * value - (reach - 1) / 2
    high = (math.exp(epsilon) - math.exp(epsilon / 2)) / (2 * math.exp(epsilon / 2) + 2)
    near = (left <= numbers) & (numbers <= left + reach - 1)
    return np.where(np.abs(numbers) > reach, 0.0, np.where(near, high, high / math.exp(epsilon)))


def piecewise_variance(value: float, epsilon: float) -> float:
    """The variance of the piecewise mechanism (Wang et al. 2019)."""
    power = math.exp(epsilon / 2)
    return value**2 / (power - 1) + (power + 3) / (3 * (power - 1) ** 2)


@pytest.mark.parametrize(("epsilon", "value"), PIECEWISE)
def test_perturbed_values_have_the_density_of_the_piecewise_mechanism(epsilon: float, value: float) -> None:
    """In eight cells of each of the intervals of equal density."""
    draws, reach = 100_000, rivals.piecewise_reach(epsilon)
    left = (reach + 1) / 2 * value - (reach - 1) / 2
    numbers = rivals.piecewise(np.full(draws, value), epsilon, np.random.default_rng(0))
    assert -reach <= numbers.min()
    assert numbers.max() <= reach
    parts = [(-reach, left), (left, left + reach - 1), (left + reach - 1, reach)]
    bounds = np.concatenate([np.linspace(*part, 9)[:-1] for part in parts if part[1] - part[0] > 1e-9] + [[reach]])
    middles, widths = (bounds[:-1] + bounds[1:]) / 2, np.diff(bounds)
    expected = widths * density(middles, value, epsilon)
    assert expected.sum() == pytest.approx(1)
    seen = np.histogram(numbers, bounds)[0]
    assert stats.chisquare(seen, draws * expected / expected.sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("epsilon", "value"), PIECEWISE)
def test_the_mean_of_perturbed_values_is_the_value(epsilon: float, value: float) -> None:
    """Within eight standard deviations, which Bernstein's inequality bounds."""
    numbers = rivals.piecewise(np.full(100_000, value), epsilon, np.random.default_rng(1))
    assert abs(numbers.mean() - value) < 8 * math.sqrt(piecewise_variance(value, epsilon) / len(numbers))


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0, 10.0])
def test_no_perturbed_value_tells_more_than_epsilon(epsilon: float) -> None:
    """The largest log ratio of two densities is epsilon; no cell of 100,000 numbers is seen more often than it allows.

    The counts of a cell are compared within eight standard deviations.
    """
    reach, values = rivals.piecewise_reach(epsilon), np.linspace(-1, 1, 21)
    numbers = np.linspace(-reach, reach, 1003)[1:-1]
    logs = np.log([density(numbers, value, epsilon) for value in values])
    assert (logs.max(axis=0) - logs.min(axis=0)).max() == pytest.approx(epsilon)
    generator, bounds = np.random.default_rng(2), np.linspace(-reach, reach, 9)
    seen = [
        np.histogram(rivals.piecewise(np.full(100_000, value), epsilon, generator), bounds)[0] for value in (-1.0, 1.0)
    ]
    assert sum(map(sum, seen)) == 200_000
    for one, other in (seen, seen[::-1]):
        allowed = math.exp(epsilon) * other
        assert (one - allowed < 8 * np.sqrt(one + math.exp(epsilon) * allowed + 1)).all()


@pytest.mark.parametrize("subsampled", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("epsilon", [0.3, 3.0, 10.0, 250.0])
def test_what_a_party_sends_costs_epsilon(
    epsilon: float, classes: int, subsampled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of a party times the epsilon of each; all are computed from perturbed values only."""
    spent = []

    def zeros(values: np.ndarray, each: float, generator: np.random.Generator) -> np.ndarray:
        spent.append(values[0, 0].size * each)
        return np.zeros(values.shape)

    monkeypatch.setattr(rivals, "piecewise", zeros)
    values = np.random.default_rng(0).uniform(-1, 1, (3, 20, classes))
    predictions = rivals.send(values, 7, epsilon, 2, np.random.default_rng(0), subsampled=subsampled)
    assert spent == [pytest.approx(epsilon)]
    assert predictions.numbers.shape == (2, *predictions.places.shape)
    assert not predictions.numbers.any()


@pytest.mark.parametrize(("count", "epsilon", "expected"), [(20, 0.3, 1), (20, 3, 1), (20, 10, 4), (3, 10, 3)])
def test_as_many_numbers_are_sent_as_have_least_noise(count: int, epsilon: float, expected: int) -> None:
    """Near the number whose mean has the least variance for the value 1, where it is largest (Wang et al. 2019)."""
    assert rivals.numbers_sent(count, epsilon) == expected
    noise = [count / sent * (1 + piecewise_variance(1.0, epsilon / sent)) - 1 for sent in range(1, count + 1)]
    assert noise[expected - 1] < 1.1 * min(noise)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("subsampled", [False, True])
def test_numbers_are_dealt_alike(classes: int, subsampled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All queries and classes are asked about equally often, all parties have their turn, none is asked twice."""
    monkeypatch.setattr(rivals, "piecewise", lambda values, each, generator: values)
    values = np.arange(5 * 4 * classes).reshape(5, 4, classes)
    predictions = rivals.send(values, 60, 5.0, 3, np.random.default_rng(0), subsampled=subsampled)
    rows, asked = (2 if subsampled else 4), (1 if classes == 2 else 3)
    assert predictions.places.shape == (60, rows, 1)
    assert len(set(np.bincount(predictions.places.ravel(), minlength=4 * asked))) == 1
    assert all(len(set(own)) == rows for own in predictions.places[..., 0] // asked)
    class_numbers = predictions.numbers % (4 * classes) % classes - (1 if classes == 2 else 0)
    assert (class_numbers == predictions.places % asked).all()
    assert (predictions.numbers % (4 * classes) // classes == predictions.places // asked).all()
    party = predictions.numbers[..., 0, 0] // (4 * classes)
    assert all((np.bincount(own, minlength=5) == 12).all() for own in party)
    assert (predictions.numbers[..., 0] // (4 * classes) == party[..., None]).all()


def test_votes_beyond_the_threshold_label_a_query() -> None:
    """Five parties, two classes, one draw: votes above .5 for the second class, below -.5 for the first one."""
    numbers = np.array([[0.6, 0.9, 0.5, 0.2], [-0.7, 0.9, 0.4, -0.6], [0.4, -0.9, -0.5, 0.6], [-0.6, 0, 0, -0.8]])
    predictions = SentPredictions(numbers[None, ..., None], np.tile(np.arange(4)[:, None], (4, 1, 1)), (4, 1), 1.0)
    assert rivals.pseudo_labels(predictions, 0.5).tolist() == [[0, 1, -1, 0]]
    assert rivals.pseudo_labels(predictions, 0.0).tolist() == [[-1, 1, 1, -1]]
    wider = predictions._replace(numbers=3 * predictions.numbers, reach=3.0)
    assert rivals.pseudo_labels(wider, 0.5).tolist() == [[0, 1, -1, 0]]


def test_votes_for_and_against_three_classes_label_a_query() -> None:
    """Two parties on one query, each about all classes: leads of 2, 0 and 0, then of 1, -2 and 1."""
    places = np.tile(np.arange(3), (2, 1, 1))
    for numbers, expected in (([[1, 1, -1], [1, -1, 1]], 0), ([[0, -1, 1], [1, -1, 0]], -1)):
        predictions = SentPredictions(np.array(numbers, float)[None, :, None], places, (1, 3), 1.0)
        assert rivals.pseudo_labels(predictions, 0.2).tolist() == [[expected]]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("subsampled", [False, True])
def test_votes_without_noise_are_the_parties_predictions(classes: int, subsampled: bool) -> None:
    """All parties predict alike, and epsilon is so large that its noise does not matter."""
    labels = np.arange(12) % classes
    values = np.tile(2 * (0.1 + 0.7 * np.eye(classes)[labels]) - 1, (4, 1, 1))
    predictions = rivals.send(values, 200, 5000.0, 2, np.random.default_rng(0), subsampled=subsampled)
    for threshold in (0.0, 0.4):
        assert rivals.pseudo_labels(predictions, threshold).tolist() == [labels.tolist()] * 2
    assert (rivals.pseudo_labels(predictions, 0.9) == -1).all()


def test_a_student_is_trained_on_the_labels_that_the_votes_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, setting = a_scene(), Voting(2, 0.0, 10, False, 0.25, 0.3)
    answers = np.array([[0, 1, 2, -1, 0, 1, 2, -1, 0, 1], [2] * 10])
    monkeypatch.setattr(rivals, "pseudo_labels", lambda sent, threshold: answers)
    found, _ = rivals.play_aafv(scene, [(1.0, setting)], {}, 2, np.random.default_rng(0))
    steps = rivals.students(scene, scene.clipped(scene.queries, 2, 0.0)[:10], answers, 0.3)
    assert found.tolist() == [scene.score(2, 0.0, steps).tolist()]


# -- averages


@pytest.mark.parametrize(("rounds", "epsilon"), [(1, 0.3), (3, 3.0), (9, 10.0)])
def test_the_rounds_together_cost_epsilon(rounds: int, epsilon: float) -> None:
    """Vectors of norm 1 of 25 parties, one of which is replaced by its opposite."""
    reach = 2 / 25
    assert rounds * reach / rivals.noise_scale("pure", epsilon, rounds, 25) == pytest.approx(epsilon)
    multiplier = rivals.noise_scale("gaussian", epsilon, rounds, 25) / reach
    assert accounted([(multiplier, rounds)]) == pytest.approx(epsilon, rel=0.002)


def test_sampled_parties_would_have_no_less_noise() -> None:
    """The noise of an average of a share q of the parties, whose releases are amplified by the sampling."""
    for epsilon, q in itertools.product((0.3, 1.0, 3.0, 10.0), (0.1, 0.5, 0.9)):
        amplified = math.log1p(math.expm1(epsilon) / q)
        assert math.log1p(q * math.expm1(amplified)) == pytest.approx(epsilon)
        assert 1 / (amplified * q) >= 1 / epsilon


def test_noise_has_the_scale_of_each_model() -> None:
    scales = [1.0] * 400 + [10.0] * 400
    pure = rivals.draw_noise("pure", scales, (2, 5), np.random.default_rng(0))
    assert pure.shape == (800, 2, 5)
    norms = np.linalg.norm(pure.reshape(800, -1), axis=1)
    assert norms[:400].mean() == pytest.approx(10, rel=0.05)
    assert norms[400:].mean() == pytest.approx(100, rel=0.05)
    gaussian = rivals.draw_noise("gaussian", scales, (2, 5), np.random.default_rng(0))
    assert gaussian[400:].std() == pytest.approx(10, rel=0.05)


def test_no_vector_has_a_norm_above_one() -> None:
    steps = np.random.default_rng(0).normal(size=(7, 3, 2, 4)).astype(np.float32)
    steps[0] *= 1e20
    steps[1] *= 1e-3
    sent = rivals.bounded(steps, np.array([0.5, 2.0, 2.0]), np.array([False, False, True]))
    norms = np.linalg.norm(sent.reshape(7, 3, -1), axis=2)
    assert norms.max() <= 1 + 1e-12
    assert np.allclose(norms[:, 2], 1), "scaled"
    assert np.allclose(sent[1, 0], steps[1, 0] / 0.5), "shorter than the radius"
    assert not rivals.bounded(np.zeros((1, 1, 2, 4), np.float32), np.array([1.0]), np.array([True])).any()


@pytest.mark.parametrize("classes", [2, 3])
def test_local_training_descends_to_logistic_regression(classes: int) -> None:
    """The first step is the library's gradient step, the last one the minimum."""
    scene = a_scene(classes=classes, parties=2, rows=200)
    Z = scene.clipped(scene.world.rows, 2, 0.0).astype(np.float32)
    start = np.zeros((1, classes - 1, 3))
    first = rivals.trained(scene, Z, start, 1, 2.0)[:, 0]
    assert np.allclose(first, local_steps(Z, scene.world.labels, scene.world.offset, math.inf), atol=1e-5)
    plain = Scene(scene.world._replace(offset=np.zeros_like(scene.world.offset)), scene.model, 2, "pure", scene.queries)
    moved = rivals.trained(plain, Z, start, 3000, 1.0)[:, 0]
    for own, rows, labels in zip(moved, Z, scene.world.labels, strict=True):
        model = LogisticRegression(C=1e7, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(rows, labels)
        chances = np.exp(rows @ own.T @ scene.basis)
        chances /= chances.sum(axis=1, keepdims=True)
        assert np.allclose(chances, model.predict_proba(rows), atol=0.02)


def test_rounds_without_noise_are_repeated_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "draw_noise", lambda law, scales, size, generator: np.zeros((len(scales), *size)))
    scene, setting = a_scene(), Averaging(4, 0.5, 3, 0.0, 1.5)
    found, norms = rivals.play_rounds(scene, [(1.0, setting)], {setting: 0.7}, 2, np.random.default_rng(0), steps=2)
    Z, rate = scene.clipped(scene.world.rows, 4, 0.5).astype(np.float32), scene.rate(4, 0.5)
    model = np.zeros((1, 2, 5))
    for number in range(3):
        steps = rivals.trained(scene, Z, model, 2, rate)[:, 0]
        lengths = np.linalg.norm(steps.reshape(len(steps), -1), axis=1)
        if number == 0:
            assert norms[setting] == pytest.approx(np.median(lengths))
        model = model + 1.5 * 0.7 * (steps / lengths[:, None, None]).mean(axis=0)
    assert found.tolist() == [[scene.score(4, 0.5, model)[0]] * 2]


def test_blocks_change_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the noise of one draw the same whatever the block is."""
    fixed = np.random.default_rng(3).normal(size=(2, 3)) * 0.01
    monkeypatch.setattr(rivals, "draw_noise", lambda law, scales, size, generator: np.array([fixed] * len(scales)))
    items = [(1.0, setting) for setting in SMALL["rounds"]]
    whole = rivals.play_rounds(a_scene(), items, {}, 3, np.random.default_rng(0))[0]
    monkeypatch.setattr(rivals, "BLOCK", 1)
    assert np.array_equal(rivals.play_rounds(a_scene(), items, {}, 3, np.random.default_rng(0))[0], whole)


# -- the rehearsal, and the measurement


@pytest.fixture(scope="module")
def iris() -> dict[str, Any]:
    return tables.prepare("confirmation", "iris", 0, trained=False)


def test_a_table_is_a_scene_with_its_own_accuracy(iris: dict[str, Any]) -> None:
    scene = rivals.table_scene(iris, iris["model"], "pure", np.zeros((0, 4)))
    assert scene.world.accuracy(scene.world.start) == pytest.approx(
        accuracy(iris, model_classifier(iris["model"])), abs=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", rivals.RIVALS)
def test_a_rehearsal_does_not_see_private_rows(
    name: str, iris: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other private and test rows change no choice; a rehearsal is given the public model and announced numbers."""
    monkeypatch.setattr(rivals, "SETTINGS", SMALL)
    monkeypatch.setattr(rivals, "RIVALS", {name: rivals.RIVALS[name]})
    other = iris | {"X": iris["X"][::-1], "y": (iris["y"] + 1) % 3, "y_test": (iris["y_test"] + 1) % 3}
    found = [rivals.measure_rivals(each, iris["model"], "pure", (10.0,), 3, 0)[name]["10"] for each in (iris, other)]
    assert found[0]["setting"] == found[1]["setting"]
    assert found[0]["gain"] == found[1]["gain"]
    assert found[0]["released"] != found[1]["released"]


def test_nobody_is_asked_where_noise_is_all_there_is(iris: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The public model is then released, and is the best in hindsight at least."""
    monkeypatch.setattr(rivals, "SETTINGS", SMALL)
    found = rivals.measure_rivals(iris, iris["model"], "gaussian", (0.01,), 3, 0)
    public = round(accuracy(iris, model_classifier(iris["model"])), 4)
    for own in found.values():
        assert not own["0.01"]["asks"]
        assert own["0.01"]["released"] == [pytest.approx(public, abs=1e-4)]
        assert own["0.01"]["hindsight"] >= public - 1e-4


@pytest.mark.slow
def test_parties_with_many_rows_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the public model is a poor one, and the noise is small."""
    monkeypatch.setattr(rivals, "SETTINGS", SMALL)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 3))
    labels = (X[:, 0] + 2 * generator.normal(size=60) > 0).astype(np.int64)
    model = fit_public(X, labels, 2)
    scenes, _ = rivals.simulated_scenes(model, 5000, 200, "pure")
    for name in rivals.RIVALS:
        choices, _ = rivals.rehearse_rival(name, scenes, (20.0,), np.random.default_rng(0))
        assert choices[20.0].asks
        assert choices[20.0].gain > 0.005


def test_the_best_are_found_for_each_epsilon() -> None:
    items = [(epsilon, setting) for epsilon in (1.0, 3.0) for setting in (*SMALL["rounds"], *SMALL["DP-FedAvg"])]
    assert rivals.best_places(items, np.array([1, 4, 3, 2, 8, 5, 6, 7]), 2) == [1, 2, 4, 7]


# -- the command


def a_line(seed: int, law: str) -> dict[str, Any]:
    cell = {"released": [0.7, 0.9], "asks": True, "asked anyway": 0.8, "hindsight": 0.85, "gain": 0.1, "setting": [1]}
    found = {name: {"seconds": 1.0, "1": cell} for name in rivals.RIVALS}
    cells = {"1": {"rehearsed": [0.78], tables.CURATOR: [0.799]}}
    references = {"public": 0.81, "most frequent": 0.5, "pooled": 0.9}
    return {"table": "iris", "seed": seed, "law": law, "cells": cells, "rivals": found} | references


def test_a_page_says_where_a_rival_is_better() -> None:
    page = tables.rivals_page([a_line(0, "pure"), a_line(1, "pure")])
    assert "| iris | 1 | 0.780 | 0.799 | 0.810 |" + " 0.800 | 0.850 |" * 4 + " 0.900 |" in page
    for name in rivals.RIVALS:
        assert f"* {name} is better than rehearsed by more than .005 in 1 of 1 cells" in page
        assert f"* {name} is better than rehearsed, curator by more than .005 in 0 of 1 cells" in page
    assert "iris 1 by 0.020" in page
    assert "more than .005 below public in 100.0%" in page


def test_the_curators_noise_is_that_of_one_law(iris: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The parties' shares are sized for fewer of them, so that all have more noise than the curator adds."""
    planned = []
    plan = tables.plan_rehearsed
    monkeypatch.setattr(tables, "plan_rehearsed", lambda *args, **terms: planned.append(terms) or plan(*args, **terms))
    for curator in (False, True):
        draw, said = tables.rehearsed(iris, 60.0, curator=curator)
        assert said["asks"]
        assert draw().shape == (3, 5)
    assert [terms.get("contributors") for terms in planned] == [2, None]


def test_measured_splits_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, measured = tmp_path / "out.json", []
    out.write_text(json.dumps(a_line(0, "pure")) + "\n")

    def measure(half: str, name: str, seed: int, draws: int, law: str) -> dict[str, Any]:
        measured.append((name, seed, law))
        return a_line(seed, law)

    monkeypatch.setattr(tables, "measure_law", measure)
    chosen = ["--half", "confirmation", "--only", "iris", "--splits", "2", "--rivals", "pure", "gaussian"]
    monkeypatch.setattr(sys, "argv", ["tables", str(out), *chosen])
    tables.main()
    assert measured == [("iris", 0, "gaussian"), ("iris", 1, "pure"), ("iris", 1, "gaussian")]
    tables.main()
    assert len(measured) == 3
