"""Tests of `psephos reproduce pathak-adult` on synthetic rows of the form of Adult's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import psephos.experiments.pathak as experiment
from psephos.data.datasets import Dataset
from psephos.experiments.pathak import AdultOptions, reproduce_pathak_adult
from psephos.protocol.errors import InvalidParameter
from psephos.results.base import Result

OPTIONS = AdultOptions(deals=2, draws=10, epsilons=(0.1, 1.0, 1e6))


@pytest.fixture(scope="module")
def small() -> dict[str, Any]:
    generator = np.random.default_rng(0)

    def draw(n: int) -> tuple[Any, Any]:
        X = np.zeros((n, 20))
        for row in X:
            row[generator.choice(20, generator.integers(11, 15), replace=False)] = 1
        score = 2 * X[:, 0] + X[:, 1] - X[:, 2] + generator.normal(size=n)
        return X, (score > 2).astype(np.int64)

    (X, y), (X_test, y_test) = draw(700), draw(300)
    data = Dataset("adult", X, y, X_test, y_test, ("<=50K", ">50K"), "made up")
    splits = {"even (20 %)": (140,) * 5, "15 %": (105, 140, 140, 140, 175), "10 %": (70, 140, 140, 140, 210)}
    return {"data": data, "splits": splits}


def test_outcome_has_every_series_and_is_repeatable(small: dict[str, Any]) -> None:
    steps: list[Any] = []
    result = reproduce_pathak_adult(OPTIONS, **small, progress=lambda *step: steps.append(step))
    written = json.loads(json.dumps(result.as_json()))
    assert Result.from_json(written).as_json() == written
    assert len(steps) == 12
    facts = {label: value for label, value, _ in result.facts}
    assert facts["Ones in a row"] == "11 to 14"
    assert facts["Real epsilon of the printed noise at epsilon = 1"] == pytest.approx(20**0.5 / 10)
    assert len(result.panels) == 3
    for panel in result.panels:
        assert [curve.algorithm for curve in panel.curves] == ["pooled + noise", "even (20 %)", "15 %", "10 %"]
        assert all(curve.x == [0.1, 1.0, 1e6] for curve in panel.curves)
        pooled = panel.curves[0]
        assert pooled.mean[-1] == pytest.approx(float(panel.note.split()[-1]), abs=0.01)  # as without noise
        assert pooled.std is not None
        assert pooled.std[-1] < 0.01
    distances, excess = (table.rows for table in result.tables[1:])
    assert (len(distances), len(excess)) == (3 * 4, 3 * 4 * 3)  # settings, splits, statements
    assert all(verdict == ("holds" if largest <= bound else "FAILS") for *_, bound, largest, verdict in distances)
    assert replace(reproduce_pathak_adult(OPTIONS, **small), phases={}) == replace(result, phases={})


def test_training_on_raw_rows_minimises_objective_2(small: dict[str, Any]) -> None:
    """Training scales raw rows by c and lambda by 1/c^2; the gradient of the original problem is zero at the result."""
    raw = experiment.SETTINGS[0]
    X, y = small["data"].X_train, small["data"].y_train
    run = experiment._Run(raw, X, y, X, y, OPTIONS, small["splits"], lambda *step: None)
    w = run._train(np.arange(700), (700,))[0]
    signs = 2.0 * y - 1
    gradient = -(X.T @ (signs / (1 + np.exp(signs * (X @ w))))) / 700 + 2 * raw.lam * w
    assert np.linalg.norm(gradient) < 1e-8


@pytest.mark.parametrize("wrong", [{"deals": 0}, {"draws": 0}, {"epsilons": ()}, {"epsilons": (-1.0,)}], ids=str)
def test_invalid_options_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        reproduce_pathak_adult(replace(OPTIONS, **wrong))
