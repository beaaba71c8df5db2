"""A private regression of a user's own table: what it releases, writes and refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import psephos
from psephos.cli.main import build
from psephos.model import RegressionModel, write_onnx, written_model
from psephos.protocol.errors import DataError, InvalidParameter, ModelError
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.storage.budget import BudgetFile
from psephos.released import ReleasedRegressor, load_model
from psephos.results.base import Result
from psephos.results.scores import RegressionResult
from psephos.simulation.job import RegressionRun
from psephos.simulation.options import JobOptions

SLOPES = np.array([3.0, -2.0, 0.0])


def invoke(*words: str) -> Any:
    return CliRunner().invoke(build(), list(words))


def frame(rows: int = 1500, seed: int = 0) -> pd.DataFrame:
    """Return rows of five hospitals and a public one, whose label is linear in three features with gross errors."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    days = X @ SLOPES + 20 + generator.normal(size=rows)
    days += (generator.random(rows) < 0.05) * 100.0
    owner = np.where(np.arange(rows) < 80, "public", [f"h{number}" for number in generator.integers(5, size=rows)])
    days[:80] = np.minimum(days[:80], 40)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "hospital": owner, "days": days}).round(4)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("regression") / "own.csv"
    frame().to_csv(path, index=False)
    return path


def options_of(table: Path, **chosen: Any) -> JobOptions:
    settings: dict[str, Any] = {
        "data": str(table),
        "label": "days",
        "party": "hospital",
        "public": "public",
        "task": "regression",
        "unit": "record",
        "key_bits": 512,
        "test_key": True,
        "workers": 1,
        "simulate_noise": True,
        "anyway": True,
        "epsilon": (10.0,),
    }
    return JobOptions(**settings | chosen)


@pytest.fixture(scope="module")
def released(table: Path) -> tuple[RegressionRun, RegressionResult, RegressionModel]:
    run = RegressionRun(options_of(table))
    result = run.run()
    return run, result, run.model(result)


Released = tuple[RegressionRun, RegressionResult, RegressionModel]


def test_the_prediction_is_near_the_truth_in_spite_of_gross_errors(released: Released) -> None:
    run, result, model = released
    assert result.exact
    assert np.abs(np.array(model.coefficients) - SLOPES).max() < 0.5
    assert result.errors["newton"].mae < 1.1 * result.errors["huber"].mae
    assert result.bounds == (run.spec.label.low, run.spec.label.high)
    assert min(result.seconds["keygen"] or 0.0, result.seconds["decrypt"] or 0.0) > 0


def check_cost(run: RegressionRun, result: RegressionResult, model: RegressionModel) -> None:
    """The stated cost is that of the specification, with the delta that Gaussian noise was asked for."""
    cost, options = run.spec.cost(result.ballots), run.options
    stated = replace(cost, delta=stated_delta(options.delta), chosen={**cost.chosen, "labelled": 80})
    assert result.privacy == replace(stated, protects=options.protects)
    assert (result.privacy.epsilon, result.privacy.unit) == (options.epsilon[0], options.unit)
    assert model.release == result.privacy


def test_noise_is_drawn_from_the_seed_only_where_that_is_asked_for(table: Path, released: Released) -> None:
    assert released[0].spec.simulation_seed == released[0].options.seed
    run = RegressionRun(options_of(table, simulate_noise=False))
    assert run.spec.simulation_seed is None
    assert run.sum().opened.sums != run.sum().opened.sums


def test_everything_that_is_planned_is_a_function_of_public_rows(table: Path, tmp_path: Path) -> None:
    """Two tables that differ in every private row have the same plan, ranges and terms of the sum."""
    public, other = frame().iloc[:80], frame(900, seed=1).iloc[80:]
    other["days"] *= 1000
    path = tmp_path / "other.csv"
    pd.concat([public, other]).to_csv(path, index=False)
    first, second = (RegressionRun(options_of(at)) for at in (table, path))
    assert first.spec.context == second.spec.context
    assert first.spec.release_plan.mechanism == second.spec.release_plan.mechanism
    assert np.array_equal(first.scaler.ranges_, second.scaler.ranges_)


def test_a_replaced_row_moves_the_sum_by_the_sensitivity_at_most(table: Path, tmp_path: Path) -> None:
    """From the file on: whatever one row says, the vectors of all parties differ by at most the certified bound."""
    before = RegressionRun(options_of(table))
    bound = before.spec.release_plan.l2.value
    sums = [np.array(before.spec.release_plan.grid.contribution(*before.rows_of(number))) for number in range(5)]
    for number, (feature, label) in enumerate([(1e9, -1e9), (-1e9, 1e9), (0.0, 1e300), (5.0, 0.0)]):
        changed = frame()
        changed.loc[200 + number, ["a", "b", "days"]] = feature, -feature, label
        path = tmp_path / f"{number}.csv"
        changed.to_csv(path, index=False)
        after = RegressionRun(options_of(path))
        moved = [
            np.array(after.spec.release_plan.grid.contribution(*after.rows_of(party))) - sums[party]
            for party in range(5)
        ]
        assert np.sqrt(float(sum((each.astype(float) ** 2).sum() for each in moved))) <= bound


def test_errors_are_those_of_scikit_learn(released: Released) -> None:
    """On the held-out rows: of the release, of the public start, and of regressions on all private rows."""
    run, result, model = released
    split, grid, X = run.split, run.spec.release_plan.grid, run.split.X_test
    own = np.concatenate(split.parties)
    rows, labels = split.dataset.X_train[own], split.dataset.y_train[own]
    predictions = {
        "newton": ReleasedRegressor(model).predict(X),
        "public": grid.predict(grid.offset[:, 0], run.prepared(X)),
        "least squares": LinearRegression().fit(rows, labels).predict(X),
        "huber": make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000)).fit(rows, labels).predict(X),
    }
    assert result.errors.keys() == {*predictions, "public-forest", "trees"}
    for name, each in predictions.items():
        errors = result.errors[name]
        exact = r2_score(split.y_test, each), root_mean_squared_error(split.y_test, each)
        assert (errors.r2, errors.rmse) == pytest.approx(exact, rel=1e-6), name
        assert errors.mae == pytest.approx(mean_absolute_error(split.y_test, each), rel=1e-6), name


def test_a_regressor_is_read_back_and_predicts_as_the_model_says(released: Released, tmp_path: Path) -> None:
    run, result, model = released
    (tmp_path / "model.json").write_bytes(written_model(model))
    regressor = psephos.load_model(tmp_path)
    assert isinstance(regressor, ReleasedRegressor)
    assert regressor.model == model
    held_out = run.split.X_test
    w = run.scaler.unfold(np.array([model.coefficients]), np.array([model.intercept - run.spec.label.middle]))
    expected = run.spec.release_plan.grid.predict(w[0], run.prepared(held_out))
    assert np.allclose(regressor.predict(held_out), expected, rtol=1e-9)
    assert regressor.score(held_out, run.split.y_test) == pytest.approx(result.errors["newton"].r2)
    far = np.array([[1e300, -1e300, 0.0], [-1e300, 1e300, 0.0]])
    assert set(regressor.predict(far)) <= {*model.bounds, *regressor.predict(np.clip(far, *run.scaler.ranges_))}


def test_onnx_predicts_the_same(released: Released, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    run, _, model = released
    write_onnx(model, tmp_path / "model.onnx")
    rows = np.vstack([run.split.X_test[:50], np.full((1, 3), 1e9), [[np.nan, 1, 1]]])
    (predictions,) = reference.ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"features": rows})
    assert np.allclose(predictions[:-1, 0], ReleasedRegressor(model).predict(rows[:-1]))
    assert np.isnan(predictions[-1, 0])


@pytest.mark.parametrize(
    "change",
    [
        {"coefficients": [1.0]},
        {"ranges": [[0.0, 1.0]]},
        {"bounds": [2.0, 1.0]},
        {"task": "classification"},
        {"task": "ranking"},
        {"classes": ["a", "b"]},
        {"parties": 0},
    ],
)
def test_damaged_models_are_refused(released: Released, tmp_path: Path, change: dict[str, Any]) -> None:
    document = json.loads(written_model(released[2])) | change
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ModelError):
        load_model(tmp_path)


@pytest.mark.parametrize("label", ["long", "", "1e999"])
def test_private_labels_that_are_no_numbers_are_refused_and_not_quoted(tmp_path: Path, label: str) -> None:
    rows = frame().astype({"days": str})
    rows.loc[500, "days"] = label
    rows.to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(DataError) as refusal:
        RegressionRun(options_of(tmp_path / "own.csv"))
    assert "502" in str(refusal.value)
    assert not label or label not in str(refusal.value)


def test_how_a_label_is_read_depends_on_no_other_row(tmp_path: Path) -> None:
    """A fraction among whole numbers does not change how large whole numbers are rounded."""
    rows = frame().astype({"days": str})
    labels = [str(9007199254740993 + 2 * number) for number in range(80, 1500)]
    parsed = []
    for last in ("7", "7.5"):
        rows["days"] = [*(str(number) for number in range(80)), *labels[:-1], last]
        rows.to_csv(tmp_path / "own.csv", index=False)
        run = RegressionRun(options_of(tmp_path / "own.csv", held_out=0.0))
        parsed.append(run.split.dataset.y_train[:-1])
    assert np.array_equal(*parsed)
    assert parsed[0][80:].tolist() == [float(label) for label in labels[:-1]]


def test_extreme_private_rows_do_not_stop_a_release(tmp_path: Path) -> None:
    """Whatever the private rows are, the release that was paid for is written."""
    rows = frame()
    rows.loc[100:, "a"], rows.loc[100:700, "days"] = 1e99, -1e300
    rows.to_csv(tmp_path / "own.csv", index=False)
    run = RegressionRun(options_of(tmp_path / "own.csv"))
    result = run.run()
    assert np.isfinite(run.model(result).coefficients).all()
    assert Result.from_json(json.loads(json.dumps(result.as_json()))) == result
    assert result.page().text("answer")


def test_a_party_whose_rows_are_all_held_out_takes_part(tmp_path: Path) -> None:
    """Otherwise one private row would decide whether there is a release."""
    rows = frame()
    rows.loc[100, "hospital"] = "one row"
    rows.to_csv(tmp_path / "own.csv", index=False)
    run = RegressionRun(options_of(tmp_path / "own.csv", held_out=0.9))
    assert 0 in run.split.sizes
    result = run.run()
    assert result.exact
    assert result.ballots == 6


def test_persons_are_protected_where_a_column_names_them(tmp_path: Path) -> None:
    rows = frame().assign(patient=np.arange(1500) // 4)
    rows.to_csv(tmp_path / "own.csv", index=False)
    run = RegressionRun(options_of(tmp_path / "own.csv", record="patient"))
    result = run.run()
    assert result.privacy.chosen["persons"] == "patient"
    assert result.exact
    whole = sum(len(run.rows_of(party)[1]) for party in range(5))
    assert len({person for party in range(5) for person in run.rows_of(party)[2]}) < whole / 2


def test_a_party_is_protected_by_default(table: Path, tmp_path: Path) -> None:
    """Model, card and result name the party; whatever it holds, its vector stays within the claimed diameter."""
    run = RegressionRun(options_of(table, unit="party"))
    grid, bound = run.spec.release_plan.grid, run.spec.release_plan.l2.value
    X, y = run.rows_of(0)[:2]
    for rows, labels in ((X[:1], y[:1]), (X, y + 1e9), (X * 1e3, -y), (X[:0], y[:0])):
        assert np.linalg.norm(np.subtract(grid.contribution(rows, labels), grid.contribution(X, y))) <= bound
    result = run.run()
    check_cost(run, result, run.model(result))
    assert result.exact
    assert result.privacy.unit == "party"
    run.write(result, tmp_path, onnx=False)
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert "all that one party holds" in card
    assert "one row" not in card
    default = {"data": str(table), "label": "days", "party": "hospital", "public": "public", "task": "regression"}
    assert (JobOptions(**default).unit, JobOptions(**default).chosen_method) == ("party", "newton")


def test_the_command_writes_a_model_and_its_card(table: Path, tmp_path: Path) -> None:
    words = ["run", "--data", str(table), "--label", "days", "--party", "hospital", "--public", "public", "--task"]
    words += [
        "regression",
        "--unit",
        "record",
        "--key-bits",
        "512",
        "--test-key",
        "--output",
        str(tmp_path / "out"),
        "--anyway",
    ]
    assert invoke(*words).exit_code == 0
    card = (tmp_path / "out" / "card.md").read_text()
    assert card.startswith("---\nlibrary_name: psephos\npipeline_tag: tabular-regression\n---\n\n# ")
    assert "discrete Gaussian in shares" in card
    assert "that is replaced, added or removed" in card
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["kind"] == "regression"
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert result["privacy"]["delta"] == model["release"]["delta"] == stated_delta(JobOptions().delta)
    assert not any(f"{value:.3f}" in card for value in result["errors"]["newton"].values())
    assert invoke("predict", str(tmp_path / "out"), str(table), "--json").exit_code == 0
    assert isinstance(invoke("predict", str(tmp_path / "out"), str(table), "--scores").exception, InvalidParameter)
    words = ["--data", str(table), "--label", "days", "--party", "hospital", "--public", "public", "--key-bits", "512"]
    evaluated = invoke("evaluate", str(tmp_path / "out"), *words, "--test-key", "--workers", "1", "--json", "--anyway")
    assert json.loads(evaluated.stdout)["estimate"]["errors"]["low"] == result["bounds"][0]


def test_without_a_gain_the_prediction_of_the_public_rows_is_written(table: Path, tmp_path: Path) -> None:
    """Whatever the private rows are: the same decision, texts and files, and nothing is charged."""
    rows, written = frame(), []
    for place in range(2):
        rows.to_csv(tmp_path / "own.csv", index=False)
        out, budget = tmp_path / f"out{place}", tmp_path / f"b{place}"
        words = f"run --data {tmp_path / 'own.csv'} --label days --party hospital --public public --task regression"
        words += f" --epsilon 0.3 --test-key --key-bits 512 --output {out} --budget {budget} --held-out 0"
        done = invoke(*words.split())
        assert done.exit_code == 0, done.output
        assert done.stderr.startswith("The parties are asked nothing"), done.stderr
        model = load_model(out)
        assert isinstance(model, ReleasedRegressor)
        assert (model.model.release.epsilon, model.model.parties) == (0, 0)
        with BudgetFile(budget, create=False) as file:
            assert not file.charges()
        written.append((model.model, (out / "card.md").read_text(), done.stderr.replace(str(out), "")))
        private = rows.index[rows.hospital != "public"]
        rows.loc[private, "days"] = rows.loc[private, "days"].to_numpy()[::-1]
    assert written[0] == written[1]


def test_a_gain_is_expected_of_many_rows_whatever_they_are(tmp_path: Path) -> None:
    generator, decisions = np.random.default_rng(0), []
    rows = frame()
    rows[[f"x{number}" for number in range(12)]] = generator.normal(size=(len(rows), 12)).round(4)
    for place in range(2):
        rows.to_csv(tmp_path / "own.csv", index=False)
        run = RegressionRun(options_of(tmp_path / "own.csv", anyway=False, announced_rows=100_000))
        run.decide()
        decisions.append(run.forecast)
        rows.loc[rows.hospital != "public", "days"] = float(place)
    assert decisions[0] is not None
    assert decisions[0].decision == "release"
    assert decisions[0] == decisions[1]
