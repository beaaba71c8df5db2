"""The rules that choose lambda and radius: functions of public numbers, and what they promise."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.curator.hamm.rules import (
    HAMM_LAMBDA,
    LARGEST_RIDGE,
    NOISE_SHARE,
    average_noise_share,
    averaging_radius,
    choose_method,
    ridge,
    suggest_method,
)
from psephos.curator.hamm.sensitivity import Sensitivity, multiclass_soft, radius
from psephos.protocol.errors import InvalidParameter


@given(st.integers(10, 100_000), st.integers(2, 20), st.floats(0.01, 60), st.integers(1, 5000))
def test_the_rule_limits_the_noise_share_unless_at_its_bounds(
    parties: int, classes: int, epsilon: float, dimension: int
) -> None:
    at_one = multiclass_soft(1.0, parties, classes)
    lam = ridge(at_one, dimension, classes, epsilon)
    assert HAMM_LAMBDA <= lam <= LARGEST_RIDGE
    noise = dimension * at_one.value / lam / epsilon
    allowed = NOISE_SHARE * radius(lam, classes)
    if lam < LARGEST_RIDGE:
        assert noise <= allowed * (1 + 1e-9)
    if HAMM_LAMBDA < lam < LARGEST_RIDGE:
        assert noise == pytest.approx(allowed, rel=1e-9)


def test_without_noise_the_ridge_is_hamms() -> None:
    assert ridge(multiclass_soft(1.0, 10, 3), 100, 3, None) == HAMM_LAMBDA


def test_more_parties_need_less_ridge() -> None:
    chosen = [ridge(multiclass_soft(1.0, parties, 6), 250, 6, 10.0) for parties in (500, 1000, 2000, 4000)]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > chosen[-1]


def test_the_averaging_ball_is_a_tenth_of_the_longest_minimiser() -> None:
    assert averaging_radius(1e-4, 2) == pytest.approx(math.sqrt(0.27846 / 1e-4) / 10, rel=1e-4)


@pytest.mark.parametrize("linear", [["logistic"], ["whitened"], ["whitened", "logistic", "logistic"]])
def test_the_method_follows_from_learners_and_parties(linear: list[str]) -> None:
    """Votes for whatever is not linear; below a hundred parties classifiers, from there on directions of own rows."""
    assert [choose_method(linear, parties) for parties in (2, 99, 100, 5000)] == ["whitened"] * 2 + ["own-data"] * 2
    assert {choose_method([*linear, "tree"], parties, 500) for parties in (2, 5000)} == {"vote-directions"}
    assert [choose_method(linear, 50, labelled) for labelled in (0, 19, 20, 500)] == ["whitened"] * 2 + [
        "rehearsed"
    ] * 2
    with pytest.raises(InvalidParameter, match="learners"):
        choose_method([], 5)


def test_averaging_is_suggested_for_two_classes_while_its_noise_is_short() -> None:
    """12 parties, 25 features: at epsilon 10 and 30 but not at 1; not where public rows have labels."""
    shares = {epsilon: average_noise_share(25, 2, 12, epsilon) for epsilon in (1.0, 10.0, 30.0)}
    assert shares[10.0] == pytest.approx(5 / 12)
    names = [suggest_method("statistic", ["tree"], 12, 0.2, average_share=share) for share in shares.values()]
    assert [None if name is None else name[0] for name in names] == [None, "avg", "avg"]
    assert suggest_method("avg", ["logistic"], 12, 0.2, average_share=shares[30.0]) is None
    for share in (shares[1.0], math.inf):
        suggestion = suggest_method("avg", ["logistic"], 12, 0.2, average_share=share)
        assert suggestion is not None
        assert suggestion[0] == "whitened"
    suggestion = suggest_method("statistic", ["tree"], 12, 0.2, 60, shares[30.0])
    assert suggestion is not None
    assert suggestion[0] == "rehearsed"
    with pytest.raises(InvalidParameter):
        average_noise_share(25, 2, 12, 0.0)


TREE, LINEAR = ("tree",), ("logistic", "whitened")
SUGGESTIONS: list[tuple[Any, str | None]] = [
    (("statistic", TREE, 50, 0.3), None),
    (("statistic", TREE, 50, 0.31), "whitened"),
    (("soft", TREE, 50, 0.3), None),
    (("soft", TREE, 50, 0.31), "statistic"),
    (("vote", LINEAR, 50, 0.3), None),
    (("vote", LINEAR, 50, 0.31), "statistic"),
    (("vote", LINEAR, 50, 0.3, 20), "rehearsed"),
    (("vote", LINEAR, 50, 0.3, 19), None),
    (("rehearsed", LINEAR, 50, 0.3, 500), None),
    (("statistic", LINEAR, 99, 0.0), "whitened"),
    (("statistic", LINEAR, 100, 0.0), "own-data"),
    (("avg", TREE, 99, 0.0), "whitened"),
    (("avg", TREE, 100, 0.0), "own-data"),
    (("avg", TREE, 100, 0.0, 0, 1.0), None),
    (("statistic", LINEAR, 100, 0.0, 0, 1.0), "avg"),
    (("statistic", LINEAR, 100, 0.0, 0, 1.01), "own-data"),
    (("soft", LINEAR, 100, 0.31, 0, 1.0), "statistic"),
    (("pate", LINEAR, 50, 9.0), None),
    (("own-data", LINEAR, 50, 9.0), None),
]


@pytest.mark.parametrize(("terms", "suggested"), SUGGESTIONS)
def test_suggestions_on_both_sides_of_every_limit(terms: Any, suggested: str | None) -> None:
    suggestion = suggest_method(*terms)
    assert (suggestion and suggestion[0]) == suggested
    assert suggestion is None or suggestion[1]


def test_the_noise_share_of_averaging_by_hand() -> None:
    """2 D/(M epsilon), with D the features of one contrast for two classes and of every class for more."""
    assert average_noise_share(25, 3, 12, 10.0) == pytest.approx(2 * 75 / 120)
    assert average_noise_share(1, 1, 1, 2.0) == 1.0
    for wrong in ((0, 2, 12, 1.0), (25, 0, 12, 1.0), (25, 2, 0, 1.0), (25, 2, 12, -1.0)):
        with pytest.raises(InvalidParameter):
            average_noise_share(*wrong)


def test_the_ridge_by_hand() -> None:
    """(D S/(0.3 epsilon R(1)))^2 between its ends: for two classes R(1)^2 is 0.27846."""
    for dimension, value in ((1, 0.01), (5, 0.004)):
        wanted = (dimension * value / (0.3 * 2)) ** 2 / 0.27846454276
        assert ridge(Sensitivity(value), dimension, 2, 2.0) == pytest.approx(wanted, rel=1e-9)
    assert ridge(Sensitivity(1e100), 1, 2, 1e-9) == LARGEST_RIDGE == 0.03
    assert ridge(Sensitivity(1e-100), 1, 2, 64.0) == HAMM_LAMBDA == 1e-4


def test_bad_input() -> None:
    for dimension in (0, -1):
        for epsilon in (1.0, None):
            with pytest.raises(InvalidParameter, match="dimension"):
                ridge(multiclass_soft(1.0, 10, 3), dimension, 3, epsilon)
    with pytest.raises(InvalidParameter, match="lambda"):
        averaging_radius(0.0, 2)
    with pytest.raises(InvalidParameter, match="classes"):
        averaging_radius(1.0, 1)
