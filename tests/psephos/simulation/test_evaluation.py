"""`psephos evaluate` from the model file to the calibrated model, on tables and data sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from typer.testing import CliRunner

from psephos.budget import unit_of_run
from psephos.cli.main import build
from psephos.curator.ledger import costs_together
from psephos.data.tables import Encoding
from psephos.model import written_model
from psephos.protocol.errors import DataError, InvalidParameter, UselessReleaseError
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.storage.budget import BudgetFile
from psephos.released import ReleasedClassifier, ReleasedRegressor, load_model
from psephos.results.scores import EvaluationResult
from psephos.simulation.job import EvaluationOptions, EvaluationRun, Job, RegressionRun, calibrated_model
from psephos.simulation.options import JobOptions

KEYS: dict[str, Any] = {"key_bits": 512, "test_key": True, "workers": 1}
ROWS = 900


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six hospitals with 150 rows each and 80 public rows; several rows of each patient; linear days."""
    generator, count = np.random.default_rng(0), ROWS + 80
    X = generator.normal(size=(count, 3))
    chance = 1 / (1 + np.exp(-(2 * X[:, 0] - X[:, 1])))
    owner = np.array([f"h{number % 6}" for number in range(ROWS)] + ["open"] * 80)
    frame = pd.DataFrame(X.round(4), columns=["a", "b", "c"]).assign(
        hospital=owner,
        patient=[f"p{number % 6}-{number // 18}" for number in range(count)],
        outcome=np.where(generator.random(count) < chance, "yes", "no"),
        days=(X @ [3.0, -2.0, 0.0] + 20 + generator.normal(size=count)).round(3),
    )
    path = tmp_path_factory.mktemp("evaluation") / "table.csv"
    frame.to_csv(path, index=False)
    return path


def about(table: Path, label: str = "outcome", other: str = "days") -> dict[str, Any]:
    return {
        "data": str(table), "label": label, "party": "hospital", "public": "open", "ignore": ("patient", other)
    }  # fmt: skip


def options_of(table: Path, **change: Any) -> EvaluationOptions:
    return EvaluationOptions(**{**KEYS, **about(table), **change})


@pytest.fixture(scope="module")
def classifier(table: Path) -> ReleasedClassifier:
    job = Job(JobOptions(**KEYS, **about(table), unit="record", epsilon=(5.0,), simulate_noise=True, anyway=True))
    return ReleasedClassifier(job.model(job.run()))


@pytest.fixture(scope="module")
def result(table: Path, classifier: ReleasedClassifier) -> EvaluationResult:
    return EvaluationRun(options_of(table, epsilon=20.0), classifier).run()


def test_the_opened_sum_gives_the_accuracy_of_the_held_out_rows(
    table: Path, classifier: ReleasedClassifier, result: EvaluationResult
) -> None:
    run = EvaluationRun(options_of(table, epsilon=20.0, bins=7), classifier)
    assert run.spec.grid.bins == 7
    rows = [run.rows_of(number) for number in range(6)]
    X, y = np.concatenate([one[0] for one in rows]), np.concatenate([one[1] for one in rows])
    assert result.tally_equals_plaintext
    assert 0.1 * ROWS < len(y) < 0.3 * ROWS
    exact = np.equal(classifier.scores(X[:, :-1]) > 0, y).mean()
    assert result.accuracy.value is not None
    assert result.accuracy.error is not None
    assert abs(result.accuracy.value - exact) < 6 * result.accuracy.error
    assert result.ballots == 6
    assert run.spec.simulation_seed is None
    assert run.run().estimate != result.estimate, "every sum has noise of its own"


def check_cost(run: EvaluationRun, result: EvaluationResult) -> None:
    """The stated cost is that of the specification; its only delta is numerical, since the noise is pure."""
    protects = unit_of_run(run.options, run.options.unit)
    assert result.privacy == replace(run.spec.cost(result.ballots), delta=stated_delta(), protects=protects)
    assert (result.privacy.epsilon, result.privacy.unit) == (run.options.epsilon, run.options.unit)


def test_the_rows_are_those_that_the_run_held_out(table: Path, classifier: ReleasedClassifier) -> None:
    split = Job(JobOptions(**KEYS, **about(table), unit="record")).split
    run = EvaluationRun(options_of(table), classifier)
    for number, held_out in enumerate(split.held_out):
        X, y = run.rows_of(number)
        assert np.array_equal(
            np.column_stack([X[:, :-1], y]), np.column_stack([split.dataset.X_train, split.dataset.y_train])[held_out]
        )
    assert sum(len(run.rows_of(number)[1]) for number in range(6)) == len(split.test)
    every = EvaluationRun(options_of(table, rows="all"), classifier)
    assert sum(len(every.rows_of(number)[1]) for number in range(6)) == ROWS


def test_the_result_is_a_function_of_the_noisy_sum(table: Path, classifier: ReleasedClassifier) -> None:
    """With the same noise, a table with one row more changes the estimates and nothing else; times are not of rows."""
    frame = pd.read_csv(table)
    longer = table.with_name("longer.csv")
    pd.concat([frame, frame[frame.hospital == "h2"].assign(a=0.1234).head(1)]).to_csv(longer, index=False)
    chosen = {"simulate_noise": True, "rows": "all"}
    first, second = (EvaluationRun(options_of(at, **chosen), classifier).run() for at in (table, longer))
    assert set(first.phases) == {"keygen", "decrypt"}
    assert all(phase.seconds > 0 for phase in first.phases.values())
    assert first.estimate != second.estimate
    settled = {"phases": {}, "options": first.options, "dataset": "", "estimate": first.estimate}
    assert replace(first, **settled) == replace(second, **settled)


def msgspec_replace(model: Any, **change: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(model, **change)


def test_a_calibrated_model_gives_probabilities(
    table: Path, classifier: ReleasedClassifier, result: EvaluationResult, tmp_path: Path
) -> None:
    assert result.estimate.calibration is not None
    assert not hasattr(classifier, "predict_proba")
    path = tmp_path / "model.json"
    path.write_bytes(written_model(calibrated_model(classifier.model, result)))
    calibrated = load_model(path)
    frame = pd.read_csv(table)
    probability = calibrated.predict_proba(frame)
    assert probability.shape == (len(frame), 2)
    assert probability.sum(axis=1) == pytest.approx(1.0)
    fit = result.estimate.calibration
    np.testing.assert_allclose(
        calibrated.decision_function(frame), fit.slope * classifier.decision_function(frame) + fit.intercept
    )
    model = calibrated.model
    assert (model.release.epsilon, [one.epsilon for one in model.earlier]) == (20.0, [5.0])
    (together,) = model.together
    assert result.together is not None
    assert (together.epsilon, together.delta) == (result.together.epsilon, result.together.delta)
    assert (together.epsilon, together.unit, together.releases) == (25.0, result.privacy.protects, 2)
    assert b"calibration" not in written_model(classifier.model)
    with pytest.raises(InvalidParameter):
        calibrated_model(classifier.model, replace(result, estimate=replace(result.estimate, calibration=None)))


def test_persons_are_protected_and_named(table: Path, classifier: ReleasedClassifier) -> None:
    run = EvaluationRun(options_of(table, ignore=("days",), record="patient", rows="all", epsilon=10.0), classifier)
    result = run.run()
    check_cost(run, result)
    assert result.privacy.chosen["persons"] == "patient"
    assert result.together is None  # the release protects rows, not persons
    assert "each person" in result.page().text("answer")
    assert result.estimate.rows is not None
    assert result.estimate.rows.value == pytest.approx(ROWS / 3, rel=0.2)


def test_absent_parties_are_allowed_for_or_refused(table: Path, classifier: ReleasedClassifier) -> None:
    result = EvaluationRun(options_of(table, absent=0.17, dropouts=1), classifier).run()
    assert result.ballots == 5
    with pytest.raises(InvalidParameter):
        EvaluationRun(options_of(table, absent=0.17), classifier)


# -- what was asked for arrives


def test_a_data_set_is_that_of_the_model(tmp_path: Path) -> None:
    """As many features and the same classes, and each row is evaluated by one party, by the seed."""
    job = Job(JobOptions(**KEYS, dataset="synthetic", parties=5, epsilon=(20.0,)))
    model, options = job.model(job.run()), EvaluationOptions(**KEYS, dataset="synthetic", parties=5, seed=6)
    run = EvaluationRun(options, ReleasedClassifier(model))
    rows = [run.rows_of(number) for number in range(5)]
    order = np.random.default_rng([6, 3]).permutation(len(run.split.y_test))
    for (X, y), own in zip(rows, np.array_split(order, 5), strict=True):
        np.testing.assert_array_equal(X[:, :-1], run.split.X_test[np.sort(own)])
        np.testing.assert_array_equal(y, run.split.y_test[np.sort(own)])
        assert (X[:, -1] == 1).all()
    other = msgspec_replace(model, classes=("no", "yes"))
    with pytest.raises(DataError):
        EvaluationRun(options, ReleasedClassifier(other))
    few = Encoding(model.encoding.columns[:-1])
    fewer = msgspec_replace(model, encoding=few, coefficients=(model.coefficients[0][:-1],))
    with pytest.raises(DataError):
        EvaluationRun(options, ReleasedClassifier(fewer))


def test_the_first_release_decides_which_rows_the_model_has_seen(table: Path, classifier: ReleasedClassifier) -> None:
    """A calibrated model was released first and evaluated later, perhaps under another unit."""
    model = classifier.model
    person, party = model.release, replace(model.release, unit="party")
    for release, earlier, warned in ((person, (party,), True), (party, (person,), False), (party, (), True)):
        together = costs_together((release, *earlier)) if earlier else ()
        changed = ReleasedClassifier(msgspec_replace(model, release=release, earlier=earlier, together=together))
        assert any("--unit party" in text for text in EvaluationRun(options_of(table), changed).cautions) is warned
        assert not EvaluationRun(options_of(table, rows="all"), changed).cautions


def test_the_classes_of_the_model_may_be_named(table: Path, classifier: ReleasedClassifier) -> None:
    assert EvaluationRun(options_of(table, classes=("no", "yes")), classifier).options.classes == ("no", "yes")
    with pytest.raises(InvalidParameter, match="leave --classes out"):
        EvaluationRun(options_of(table, classes=("yes", "no")), classifier)
    other = table.with_name("other.csv")
    other.write_text(table.read_text().replace("yes", "perhaps", 1))
    with pytest.raises(DataError) as refused:
        EvaluationRun(options_of(other), classifier)
    assert "--classes" not in str(refused.value), "the command has no such option"


# -- predictions of a number


def numbers_of(table: Path, **change: Any) -> EvaluationOptions:
    return options_of(table, **about(table, "days", "outcome"), simulate_noise=True, **change)


@pytest.fixture(scope="module")
def regressor(table: Path) -> ReleasedRegressor:
    more: dict[str, Any] = {"task": "regression", "unit": "record", "epsilon": (10.0,), "simulate_noise": True}
    run = RegressionRun(JobOptions(**KEYS, **about(table, "days", "outcome"), **more))
    return ReleasedRegressor(run.model(run.run()))


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
    result = EvaluationRun(numbers_of(table, epsilon=60.0, rows="all", largest_error=largest), regressor).run()
    errors = result.estimate.errors
    assert errors is not None
    low, high = regressor.model.bounds
    assert errors.largest == (largest or 0.75 * (high - low))
    exact = exact_errors(table, regressor, slice(ROWS), errors.largest)
    for name, value in exact.items():
        one = getattr(errors, name)
        assert abs(one.value - value) < 6 * one.error + 1e-4, name
        assert one.error < 0.05 * (1 + value)
    assert result.tally_equals_plaintext
    assert result.estimate.rows is not None
    assert result.estimate.rows.value == pytest.approx(ROWS, abs=5)


def test_rows_are_clipped_to_the_ranges_of_the_model(table: Path, regressor: ReleasedRegressor) -> None:
    frame = pd.read_csv(table)
    far = table.with_name("far.csv")
    frame.assign(a=np.where(np.arange(len(frame)) < 300, 1e6, frame["a"])).to_csv(far, index=False)
    run = EvaluationRun(numbers_of(far, rows="all"), regressor)
    grid = run.spec.release_plan.predictions
    assert grid is not None
    for number in range(6):
        rows = run.rows_of(number)[0]
        np.testing.assert_allclose(grid.predict(rows), regressor.predict(rows[:, :-1]), rtol=1e-12)
    high = regressor.model.ranges[0][1]
    assert max(run.rows_of(number)[0][:, 0].max() for number in range(6)) == high < 1e6


def test_a_party_is_protected_by_its_mean_absolute_error(table: Path, regressor: ReleasedRegressor) -> None:
    result = EvaluationRun(numbers_of(table, epsilon=60.0, unit="party", rows="all"), regressor).run()
    errors = result.estimate.errors
    assert errors is not None
    assert errors.rmse is errors.r2 is errors.clipped is result.estimate.rows is None
    exact = [exact_errors(table, regressor, slice(number, ROWS, 6), errors.largest)["mae"] for number in range(6)]
    assert errors.mae.value is not None
    assert errors.mae.error is not None
    assert abs(errors.mae.value - np.mean(exact)) < 6 * errors.mae.error
    assert "on average over the parties" in result.page().text("answer")


def test_labels_of_the_other_kind_are_refused(
    table: Path, regressor: ReleasedRegressor, classifier: ReleasedClassifier
) -> None:
    """Numbers for a classifier, and classes for a prediction of a number."""
    with pytest.raises(DataError):
        EvaluationRun(numbers_of(table), classifier)
    with pytest.raises(InvalidParameter):
        EvaluationRun(options_of(table, largest_error=1.0), classifier)
    words = table.with_name("words.csv")
    frame = pd.read_csv(table)
    frame.assign(days=frame["outcome"]).to_csv(words, index=False)
    with pytest.raises(DataError):
        EvaluationRun(numbers_of(words), regressor)


# -- the command


def invoke(*words: str) -> Any:
    return CliRunner().invoke(build(), list(words))


def words_of(table: Path, model: Path) -> list[str]:
    about = ["--data", str(table), "--label", "outcome", "--party", "hospital", "--public", "open"]
    return [
        "evaluate",
        str(model),
        *about,
        "--ignore",
        "patient,days",
        "--key-bits",
        "512",
        "--test-key",
        "--workers",
        "1",
    ]


def test_the_command_prints_writes_and_refuses(table: Path, classifier: ReleasedClassifier, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_bytes(written_model(classifier.model))
    words = words_of(table, model)
    done = invoke(*words, "--epsilon", "20", "--output", str(tmp_path / "calibrated"))
    assert done.exit_code == 0, done.output
    assert "Right on" in done.output
    assert "Platt scaling" in done.output
    assert load_model(tmp_path / "calibrated").model.calibration is not None
    again = invoke(*words, "--output", str(tmp_path / "calibrated"))
    assert isinstance(again.exception, InvalidParameter)
    few = invoke(*words, "--epsilon", "0.05", "--anyway", "--output", str(tmp_path / "none"))
    assert "no Platt scaling was fitted" in few.output
    assert not (tmp_path / "none" / "model.json").exists()


def test_the_command_prints_the_errors_of_a_prediction(
    table: Path, regressor: ReleasedRegressor, tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(written_model(regressor.model))
    words = (
        f"evaluate {path} --data {table} --label days --party hospital --public open --ignore patient,outcome".split()
    )
    words += ["--key-bits", "512", "--test-key", "--workers", "1", "--epsilon", "20"]
    done = CliRunner().invoke(build(), [*words, "--largest-error", "8"])
    assert done.exit_code == 0, done.output
    assert "R² is" in done.output
    refused = CliRunner().invoke(build(), [*words, "--output", str(tmp_path / "calibrated")])
    assert isinstance(refused.exception, InvalidParameter)
    assert not (tmp_path / "calibrated" / "model.json").exists()


def test_what_the_command_says_of_private_rows_is_marked_and_in_no_result(
    table: Path, classifier: ReleasedClassifier, tmp_path: Path
) -> None:
    """They are exact counts of private rows; everything else that it prints is released."""
    model, other = tmp_path / "model.json", tmp_path / "table.csv"
    model.write_bytes(written_model(classifier.model))
    frame = pd.read_csv(table)
    frame.loc[frame.index[::7], "outcome"] = "unknown"
    frame.loc[frame["hospital"] == "open", "outcome"] = pd.read_csv(table)["outcome"]
    frame.to_csv(other, index=False)
    words = [*words_of(other, model), "--other-labels", "drop"]
    remarks = EvaluationRun(options_of(other, other_labels="drop"), classifier).split.remarks
    assert remarks
    for more in ((), ("--json",), ("--verbose",)):
        done = invoke(*words, *more)
        assert not any(remark in done.stdout for remark in remarks)
        said = [line for line in done.stderr.splitlines() if any(remark in line for remark in remarks)]
        assert len(said) == len(remarks)
        assert all("private, not for publication" in line for line in said)


def test_nothing_is_added_to_the_cost_of_a_shard(table: Path, tmp_path: Path) -> None:
    """Of rows dealt at random a row more changes many shards; model file and budget file say so alike."""
    public = tmp_path / "open.csv"
    pd.read_csv(table).query("hospital == 'open'").to_csv(public, index=False)
    dealt: dict[str, Any] = {
        "party": None,
        "public": str(public),
        "parties": 6,
        "ignore": ("patient", "hospital", "days"),
    }
    dealt |= {"data": str(table), "label": "outcome", "budget": str(tmp_path / "b"), **KEYS}
    job = Job(JobOptions(**dealt, method="own-data", anyway=True))
    model = job.model(job.run())
    assert model.release.protects == PrivacyUnit("shard")
    for unit in ("record", "party"):
        result = EvaluationRun(EvaluationOptions(**dealt, unit=unit, anyway=True), ReleasedClassifier(model)).run()
        assert result.together is None
        assert "do not add up" in result.page().cost
        if unit == "record":
            assert result.budget is not None
            assert (result.budget.totals[0].epsilon, result.budget.totals[0].others) == (1.0, 1)
    old = ReleasedClassifier(msgspec_replace(model, release=replace(model.release, protects=PrivacyUnit())))
    fields = json.loads(written_model(model))
    del fields["release"]["protects"]
    (tmp_path / "old.json").write_text(json.dumps(fields), encoding="utf-8")
    assert load_model(tmp_path / "old.json").model == old.model, "files of older versions are read"


def test_an_evaluation_that_the_noise_would_hide_is_not_charged(
    table: Path, classifier: ReleasedClassifier, tmp_path: Path
) -> None:
    model, budget = tmp_path / "model.json", tmp_path / "budget"
    model.write_bytes(written_model(classifier.model))
    words = (*words_of(table, model), "--unit", "party", "--epsilon", "0.5", "--budget", str(budget))
    stopped = invoke(*words)
    assert isinstance(stopped.exception, UselessReleaseError)
    assert {"--unit record", "--epsilon 3"} <= set(stopped.exception.suggestions)
    with BudgetFile(budget, create=False) as file:
        assert not file.charges()
    assert invoke(*words, "--anyway").exit_code == 0
