"""What a result says of its releases beside what they compete with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from psephos.results.advice import HELP, advice
from psephos.results.base import Accuracy, rare_class
from tests.psephos.results.test_results import TALLY

EVEN, RARE = [0.4, 0.6], [0.1, 0.9]
CONSTANT = Accuracy(0.6, balanced=0.5, nonprivate_balanced=0.5, nonprivate_auroc=0.5, auroc=0.5)


def said(
    nonprivate: float, private: float, *, hidden: bool = False, test: int = 1000, linear: float = 0.7, **others: float
) -> list[str]:
    """What is said of a release "soft", beside other methods without noise."""
    accuracy = {"majority": CONSTANT, "batch": Accuracy(linear), "soft": Accuracy(nonprivate, private)}
    accuracy |= {name: Accuracy(value) for name, value in others.items()}
    return advice(accuracy, ["soft"], ["batch"], ["soft"] if hidden else [], EVEN, test)


def test_more_parties_would_help_where_the_release_without_noise_is_better() -> None:
    (text,) = said(0.7, 0.55)
    assert HELP in text
    assert "60.0%" in text
    for without_noise in (0.55, 0.6):
        (text,) = said(without_noise, 0.55)
        assert HELP not in text
    assert said(0.7, 0.65) == []
    assert said(0.7, 0.7, linear=0.9) == []


def test_public_rows_alone_compete() -> None:
    (text,) = said(0.7, 0.65, public=0.68)
    assert HELP in text
    assert "68.0%" in text
    (text,) = said(0.7, 0.65, **{"public-forest": 0.8})
    assert HELP not in text
    assert "80.0%" in text


def test_a_good_draw_of_a_hidden_release_is_not_called_bad() -> None:
    (text,) = said(0.7, 0.65, hidden=True)
    assert HELP not in text
    assert "another draw" in text


@pytest.mark.parametrize("rival", ["trees", "ensemble"])
def test_a_linear_classifier_that_cannot_represent_the_rows(rival: str) -> None:
    (text,) = said(0.7, 0.65, **{rival: 0.9})
    assert text.startswith("A classifier that is linear in the features")
    assert "0.700" in text
    assert "0.900" in text
    assert said(0.7, 0.65, **{rival: 0.74}) == []
    assert said(0.7, 0.65, test=40, **{rival: 0.84}) == []  # within two standard errors
    assert said(0.7, 0.65, linear=0.88, **{rival: 0.9}) == []  # a linear classifier does, and the method does not


def test_without_a_linear_reference_nothing_is_said_of_linear_classifiers() -> None:
    accuracy = {"majority": CONSTANT, "batch": Accuracy(0.7), "soft": Accuracy(0.7, 0.65), "trees": Accuracy(0.95)}
    assert advice(accuracy, ["soft"], [], [], EVEN, 1000) == []
    shown = replace(TALLY, accuracy=accuracy, test_shares=EVEN, test=1000, lam=1e-4)
    assert len(shown.page().texts("advice")) == 1
    assert not replace(shown, lam=0.5).page().texts("advice")


def test_a_rare_class_is_judged_by_balanced_accuracy_and_auroc() -> None:
    accuracy = {
        "majority": replace(CONSTANT, nonprivate=0.9),
        "batch": Accuracy(0.9, nonprivate_balanced=0.7, nonprivate_auroc=0.9),
        "soft": Accuracy(0.9, 0.9, balanced=0.5, nonprivate_balanced=0.6, auroc=0.5, nonprivate_auroc=0.8),
    }
    (text,) = advice(accuracy, ["soft"], ["batch"], [], RARE, 1000)
    assert HELP in text
    assert "balanced accuracy and AUROC" in text
    ranks = accuracy | {"soft": replace(accuracy["soft"], auroc=0.75)}
    assert advice(ranks, ["soft"], ["batch"], [], RARE, 1000) == []
    hopeless = accuracy | {"soft": replace(accuracy["soft"], nonprivate_balanced=0.5, nonprivate_auroc=0.5)}
    (text,) = advice(hopeless, ["soft"], ["batch"], [], RARE, 1000)
    assert HELP not in text
    bent = ranks | {"trees": Accuracy(0.9, nonprivate_balanced=0.5, nonprivate_auroc=0.99)}
    (text,) = advice(bent, ["soft"], ["batch"], [], RARE, 1000)
    assert "AUROC" in text


@pytest.mark.parametrize(
    ("shares", "rare"),
    [
        ([0.19, 0.81], True),
        ([0.2, 0.8], False),
        ([0.1] * 10, False),
        ([0.04, *[0.96 / 9] * 9], True),
        ([0.0, 1.0], False),
    ],
)
def test_which_class_is_rare(shares: list[float], rare: bool) -> None:
    assert rare_class(shares) is rare


def test_a_run_without_test_samples_says_nothing() -> None:
    assert advice({"soft": Accuracy()}, ["soft"], ["batch"], [], [], 0) == []
