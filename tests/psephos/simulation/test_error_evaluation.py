"""`psephos evaluate` of a prediction of a number, from the model file to the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.curator.ledger import Release
from psephos.data.tables import Encoding
from psephos.model import Model, ReleasedClassifier, ReleasedRegressor, written_model
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.results import EvaluationResult
from psephos.simulation.evaluation import EvaluationOptions, EvaluationRun
from psephos.simulation.options import JobOptions
from psephos.simulation.regression import RegressionRun

KEYS: dict[str, Any] = {"key_bits": 512, "test_key": True, "workers": 1}
ABOUT: dict[str, Any] = {"label": "days", "party": "hospital", "public": "open", "ignore": ("patient", "outcome")}
ROWS = 1500


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five hospitals with 300 rows each and 80 public ones, whose days of stay are linear in three features."""
    generator, count = np.random.default_rng(0), ROWS + 80
    X = generator.normal(size=(count, 3))
    frame = pd.DataFrame(X.round(4), columns=["a", "b", "c"]).assign(
        hospital=[f"h{number % 5}" for number in range(ROWS)] + ["open"] * 80,
        patient=[f"p{number % 5}-{number // 15}" for number in range(count)],
        days=(X @ [3.0, -2.0, 0.0] + 20 + generator.normal(size=count)).round(3),
        outcome=np.where(X[:, 0] > 0, "yes", "no"),
    )
    path = tmp_path_factory.mktemp("numbers") / "table.csv"
    frame.to_csv(path, index=False)
    return path


def options_of(table: Path, **change: Any) -> EvaluationOptions:
    return EvaluationOptions(**{**KEYS, "data": str(table), "simulate_noise": True, **ABOUT, **change})


def run_of(table: Path, **change: Any) -> RegressionRun:
    chosen = {"task": "regression", "unit": "record", "epsilon": (10.0,), "simulate_noise": True, **change}
    return RegressionRun(JobOptions(**{**KEYS, **ABOUT, "data": str(table), **chosen}))


@pytest.fixture(scope="module")
def regressor(table: Path) -> ReleasedRegressor:
    return ReleasedRegressor(run_of(table).run()[1])


@pytest.fixture(scope="module")
def result(table: Path, regressor: ReleasedRegressor) -> EvaluationResult:
    return EvaluationRun(options_of(table, epsilon=5.0, rows="all"), regressor).run()


@pytest.fixture(scope="module")
def classifier(table: Path, regressor: ReleasedRegressor) -> ReleasedClassifier:
    encoding: Encoding = regressor.model.encoding
    width = len(encoding.features)
    return ReleasedClassifier(
        Model(
            psephos_model=1,
            classes=("no", "yes"),
            encoding=encoding,
            coefficients=((1.0,) * width,),
            intercepts=(0.0,),
            method="statistic",
            parties=5,
            release=Release("discrete Laplace", 1.0, 0.0, "party"),
        )
    )


def exact_errors(table: Path, regressor: ReleasedRegressor, kept: Any, largest: float) -> dict[str, float]:
    """What scikit-learn computes in the clear, on rows of the table, of clipped labels and errors."""
    frame = pd.read_csv(table)[kept]
    low, high = regressor.model.bounds
    y = np.clip(frame["days"], low, high)
    predicted = y + np.clip(regressor.predict(frame) - y, -largest, largest)
    return {
        "r2": r2_score(y, predicted),
        "rmse": root_mean_squared_error(y, predicted),
        "mae": mean_absolute_error(y, predicted),
    }


@pytest.mark.parametrize("largest", [None, 2.0])
def test_the_estimates_are_those_of_scikit_learn(
    table: Path, regressor: ReleasedRegressor, largest: float | None
) -> None:
    """At an epsilon whose noise is small; the errors are within six stated ones."""
    result = EvaluationRun(options_of(table, epsilon=60.0, rows="all", largest_error=largest), regressor).run()
    errors = result.estimate.errors
    assert errors is not None
    low, high = regressor.model.bounds
    assert errors.largest == (largest or 0.75 * (high - low))
    exact = exact_errors(table, regressor, slice(ROWS), errors.largest)
    for name, value in exact.items():
        one = getattr(errors, name)
        assert abs(one.value - value) < 6 * one.error + 1e-4, name
        assert one.error < 0.02 * (1 + value)
    assert result.tally_equals_plaintext
    assert result.estimate.rows is not None
    assert result.estimate.rows.value == pytest.approx(ROWS, abs=5)


def test_rows_are_clipped_to_the_ranges_of_the_model(table: Path, regressor: ReleasedRegressor) -> None:
    frame = pd.read_csv(table)
    far = table.with_name("far.csv")
    frame.assign(a=np.where(np.arange(len(frame)) < 300, 1e6, frame["a"])).to_csv(far, index=False)
    run = EvaluationRun(options_of(far, rows="all"), regressor)
    grid = run.spec.release_plan.predictions
    assert grid is not None
    for number in range(5):
        rows = run.rows_of(number)[0]
        np.testing.assert_allclose(grid.predict(rows), regressor.predict(rows[:, :-1]), rtol=1e-12)
    high = regressor.model.ranges[0][1]
    assert max(run.rows_of(number)[0][:, 0].max() for number in range(5)) == high < 1e6


def test_a_party_is_protected_by_its_mean_absolute_error(table: Path, regressor: ReleasedRegressor) -> None:
    result = EvaluationRun(options_of(table, epsilon=60.0, unit="party", rows="all"), regressor).run()
    errors = result.estimate.errors
    assert errors is not None
    assert errors.rmse is errors.r2 is errors.clipped is result.estimate.rows is None
    exact = [exact_errors(table, regressor, slice(number, ROWS, 5), errors.largest)["mae"] for number in range(5)]
    assert errors.mae.value is not None
    assert errors.mae.error is not None
    assert abs(errors.mae.value - np.mean(exact)) < 6 * errors.mae.error
    assert "on average over the parties" in result.page().answer


def test_labels_of_the_other_kind_are_refused(
    table: Path, regressor: ReleasedRegressor, classifier: ReleasedClassifier
) -> None:
    """Numbers for a classifier, and classes for a prediction of a number."""
    fitting: dict[str, Any] = {"label": "outcome", "ignore": ("patient", "days")}
    EvaluationRun(options_of(table, **fitting), classifier)
    with pytest.raises(DataError):
        EvaluationRun(options_of(table), classifier)
    with pytest.raises(InvalidParameter):
        EvaluationRun(options_of(table, **fitting, largest_error=1.0), classifier)
    words = table.with_name("words.csv")
    frame = pd.read_csv(table)
    frame.assign(days=frame["outcome"]).to_csv(words, index=False)
    with pytest.raises(DataError, match="finite number"):
        EvaluationRun(options_of(words), regressor)


# -- the command


def test_the_command_prints_and_refuses(table: Path, regressor: ReleasedRegressor, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(written_model(regressor.model))
    words = ["evaluate", str(path), "--data", str(table), "--label", "days", "--party", "hospital", "--public", "open"]
    words += ["--ignore", "patient,outcome", "--key-bits", "512", "--test-key", "--workers", "1", "--epsilon", "20"]
    done = CliRunner().invoke(build(), [*words, "--largest-error", "8"])
    assert done.exit_code == 0, done.output
    assert "R² is" in done.output
    refused = CliRunner().invoke(build(), [*words, "--output", str(tmp_path / "calibrated")])
    assert isinstance(refused.exception, InvalidParameter)
    assert not (tmp_path / "calibrated" / "model.json").exists()
