"""What the commands publish has fresh noise of its law and scale, and costs what is said."""

from __future__ import annotations

import pytest

from tests.security.lab import published
from tests.security.lab.published import MECHANISMS


@pytest.mark.parametrize(
    ("mechanism", "draws"),
    [
        ("spherical-laplace", 60),
        *(pytest.param(mechanism, 120, marks=pytest.mark.statistical) for mechanism in MECHANISMS),
    ],
)
def test_releases_of_a_curator_have_their_law(mechanism: str, draws: int) -> None:
    published.law_of_alpha(mechanism, draws=draws)


@pytest.mark.parametrize("method", ["soft", "vote", "statistic"])
def test_releases_of_a_study_have_their_law(method: str) -> None:
    published.law_of_study(method)


@pytest.mark.parametrize(
    ("mechanism", "draws"),
    [("gaussian", 60), *(pytest.param(mechanism, 300, marks=pytest.mark.statistical) for mechanism in MECHANISMS[::2])],
)
def test_answers_of_pate_have_their_law(mechanism: str, draws: int) -> None:
    published.law_of_pate(mechanism, draws=draws)


@pytest.mark.parametrize(
    ("mechanism", "method"),
    [
        pytest.param("discrete-laplace", "statistic", marks=pytest.mark.statistical),
        ("gaussian", "own-data"),
        pytest.param("gaussian", "whitened", marks=pytest.mark.statistical),
    ],
)
def test_joint_sums_have_their_law(mechanism: str, method: str) -> None:
    published.joint_law(mechanism, method)


@pytest.mark.parametrize(
    ("variant", "colluders", "dropouts", "runs"),
    [
        ("paper", 1, 1, 2),
        *(
            pytest.param(*each, 6, marks=pytest.mark.statistical)
            for each in (("paper", 1, 1), ("footnote-4", 0, 0), ("halving", 0, 0), ("gaussian", 1, 1))
        ),
    ],
)
def test_steps_of_psgd_have_their_law(variant: str, colluders: int, dropouts: int, runs: int) -> None:
    published.law_of_steps(variant, runs, colluders=colluders, dropouts=dropouts)


@pytest.mark.parametrize(
    "variant",
    ["public-bound", *(pytest.param(each, marks=pytest.mark.statistical) for each in ("printed", "repaired"))],
)
def test_sums_of_pathak_have_their_law(variant: str) -> None:
    published.law_of_pathak(variant)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_costs_cover_all_published_values(mechanism: str) -> None:
    published.costs_add_up(mechanism)
