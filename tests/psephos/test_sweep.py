"""Tests of the sweep over methods, epsilons and draws."""

from __future__ import annotations

from functools import partial

import numpy as np

from psephos.sweep import Sampler, sweep


def test_releases_are_drawn_by_epsilon_then_method_then_number() -> None:
    generator = np.random.default_rng(0)
    epsilons: list[float] = []

    def samplers_at(epsilon: float) -> dict[str, Sampler]:
        epsilons.append(epsilon)
        return dict.fromkeys(("vote", "avg"), partial(generator.normal, size=3))

    releases = list(sweep(samplers_at, (1.0, 0.5), 2))
    assert epsilons == [1.0, 0.5]
    assert [(draw.epsilon, draw.method, draw.number) for draw in releases] == [
        (epsilon, method, number) for epsilon in (1.0, 0.5) for method in ("vote", "avg") for number in (0, 1)
    ]
    expected = np.random.default_rng(0).normal(size=(8, 3))
    np.testing.assert_array_equal([draw.weights for draw in releases], expected)


def test_progress_counts_the_releases_of_each_epsilon() -> None:
    steps: list[tuple[str, int, int]] = []

    def samplers_at(epsilon: float) -> dict[str, Sampler]:
        return dict.fromkeys(("vote", "avg") if epsilon == 1.0 else ("vote",), lambda: np.zeros(3))

    for draw in sweep(samplers_at, (1.0, 0.5), 2, lambda *step: steps.append(step)):
        assert steps[-1][1] < steps[-1][2], f"{draw} was reported before it was measured"
    assert steps == [("release", done, 4) for done in range(5)] + [("release", done, 2) for done in range(3)]
