"""`psephos.PrivateFederatedClassifier`: the release of `psephos run`, its decision and its costs, to scikit-learn."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

from psephos import PrivateFederatedClassifier, ReleasedClassifier, ReleaseWarning
from psephos.budget import open_budget
from psephos.protocol.errors import BudgetFileError, DataError, InvalidParameter, UselessReleaseError
from psephos.simulation.job import Job
from psephos.simulation.options import JobOptions

KEYS: dict[str, Any] = {"key_bits": 512, "test_key": True, "workers": 1, "holders": 3, "threshold": 2}
SEEDED = {**KEYS, "simulate_noise": True, "anyway": True}
pytestmark = pytest.mark.filterwarnings("ignore::psephos.ReleaseWarning")


def patients(rows: int = 240, seed: int = 0) -> tuple[pd.DataFrame, pd.Series[str], pd.Series[int]]:
    """Columns of each kind, with gaps; classes; whose each row is: clinic k of 6 has about k + 1 parts of the rows."""
    generator = np.random.default_rng(seed)
    ill = generator.random(rows) < 0.5
    table = pd.DataFrame(
        {
            "age": np.where(generator.random(rows) < 0.1, np.nan, generator.normal(np.where(ill, 60, 45), 12).round(1)),
            "ward": np.where(ill, "north", generator.choice(["south", "east"], rows)),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 90, rows), "D"),
        }
    )
    clinic = generator.choice(6, rows, p=np.arange(1, 7) / 21)
    return table, pd.Series(np.where(ill, "ill", "well"), name="state"), pd.Series(clinic, name="clinic")


X, y, clinics = patients()
public = (X[:80], y[:80])
own = {"X": X[80:], "y": y[80:], "groups": clinics[80:]}


def fitted(method: str = "own-data", epsilon: float = 5.0, **more: Any) -> PrivateFederatedClassifier:
    options = {**SEEDED, **more.pop("options", {})}
    rows = {name: more.pop(name) for name in ("X", "y", "groups", "public") if name in more}
    made: dict[str, Any] = {"features": "linear", **more}
    return PrivateFederatedClassifier(method=method, epsilon=epsilon, options=options, **made).fit(
        **{**own, "public": public, **rows}
    )


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("statistic", {}),
        ("avg", {}),
        ("own-data", {}),
        ("own-data", {"noise_from": "holders"}),
        ("newton", {"unit": "record"}),
        ("newton", {"unit": "record", "absent": 0.2, "dropouts": 1}),
        pytest.param("rehearsed", {"epsilon": 60.0}, marks=pytest.mark.slow),
        ("own-data", {"absent": 0.2, "dropouts": 1}),
    ],
)
def test_the_release_is_that_of_the_command(method: str, more: dict[str, Any], tmp_path: Path) -> None:
    """The same votes, sums and noise of the seed, the same cost, in the clear as well as under encryption."""
    X[80:].assign(y=y[80:], clinic=clinics[80:]).to_csv(tmp_path / "own.csv", index=False)
    # A step is taken only from public labels that are doubtful enough.
    given = y[:80].where(np.arange(80) % 4 > 0, "ill") if method == "rehearsed" else y[:80]
    X[:80].assign(y=given).to_csv(tmp_path / "open.csv", index=False)
    named = {"data": tmp_path / "own.csv", "public": tmp_path / "open.csv", "label": "y", "party": "clinic"}
    more = {"unit": "party", "epsilon": 5.0, **more}
    job = Job(JobOptions(**named, **SEEDED, method=method, held_out=0.0, **more))
    expected = job.model(job.run())
    own_options = {name: more.pop(name) for name in ("unit", "epsilon")} | {"features": "auto"}
    for encrypted in (False, True):
        model = fitted(method, **own_options, public=(X[:80], given), encrypted=encrypted, options=more)
        assert model.release_.model == expected
        assert expected.encoding.map is not None
        assert (model.cost_.epsilon, model.cost_.unit) == (own_options["epsilon"], expected.release.protects)
        assert model.score(own["X"], own["y"]) == model.release_.score(own["X"], own["y"])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"options": {"dropouts": 9}}, 'options["dropouts"]'),
        ({"method": "newton"}, "unit record"),
        ({"method": "own-data", "estimator": "tree"}, "estimator"),
        ({"estimator": "bush"}, "estimator"),
        ({"features": "forest", "public": (X[:20], y[:20])}, "features"),
    ],
)
def test_errors_name_what_a_caller_from_python_can_change(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(named)) as refused:
        fitted(**{"method": "statistic", **wrong})
    assert "--" not in str(refused.value)


def test_without_a_seed_noise_is_drawn_anew() -> None:
    first, second = (fitted(encrypted=False, options={"simulate_noise": False}) for _ in range(2))
    assert first.release_.model.coefficients != second.release_.model.coefficients


class Recorder(DecisionTreeClassifier):
    """Records how many rows it is trained on."""

    sizes: list[int]

    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        type(self).sizes.append(len(X))
        return super().fit(X, y)


def test_each_group_is_a_party_that_trains_on_its_own_rows() -> None:
    Recorder.sizes = []
    model = fitted("statistic", estimator=Recorder(max_depth=3), encrypted=False)
    names = sorted(own["groups"].unique())
    assert Recorder.sizes[-6:] == [int((own["groups"] == name).sum()) for name in names]
    assert (model.release_.model.parties, str(model.cost_.unit)) == (6, "party (clinic)")
    dealt = fitted("own-data", parties=8, groups=None)
    assert (dealt.release_.model.parties, dealt.cost_.unit.kind) == (8, "shard")


@pytest.mark.parametrize(("labelled", "epsilon"), [(True, 0.1), (False, 0.02)])
def test_private_rows_do_not_change_the_decision(labelled: bool, epsilon: float) -> None:
    decided = []
    for rows in (X[80:], patients(seed=1)[0][80:]):
        y_private = y[80:].iloc[:: 1 if rows is X else -1].to_numpy()
        labels = (X[:80], y[:80] if labelled else None)
        model = PrivateFederatedClassifier(epsilon=epsilon, classes=["ill", "well"], options=KEYS)
        try:
            model.fit(rows, y_private, groups=clinics[80:], public=labels)
            decided.append((model.forecast_.reason, model.release_.model.coefficients, model.cost_))
        except UselessReleaseError as error:
            decided.append((error.reason, error.suggestions))
    assert decided[0] == decided[1]


def test_the_public_model_costs_nothing_and_warns_of_nothing(tmp_path: Path) -> None:
    budget = tmp_path / "budget"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateFederatedClassifier(epsilon=0.1, options=KEYS, budget=str(budget)).fit(**own, public=public)
    assert (model.cost_.epsilon, model.cost_.delta, model.cost_.releases) == (0.0, 0.0, 0)
    with open_budget(str(budget)) as file:
        assert not file.charges()


def test_auto_warns_that_it_stays_linear_before_it_decides() -> None:
    model = PrivateFederatedClassifier(classes=["ill", "well"], options=SEEDED)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        with pytest.raises(ReleaseWarning):
            model.fit(**own, public=(X[:80], None))
    assert not hasattr(model, "forecast_")


def test_a_stop_raises_and_charges_nothing(tmp_path: Path) -> None:
    model = PrivateFederatedClassifier(
        epsilon=0.02, classes=["ill", "well"], options=KEYS, budget=str(tmp_path / "budget")
    )
    with pytest.raises(UselessReleaseError):
        model.fit(**own, public=(X[:80], None))
    assert not hasattr(model, "release_")
    with open_budget(str(tmp_path / "budget")) as file:
        assert not file.charges()


def test_a_budget_file_is_charged_for_each_fit_of_its_rows(tmp_path: Path) -> None:
    more = {"budget": str(tmp_path / "budget"), "encrypted": False, "options": {"simulate_noise": False}}
    for count in (1, 2):
        fitted(**more)
        with open_budget(str(tmp_path / "budget")) as file:
            assert len(file.charges()) == count
    with pytest.raises(BudgetFileError):  # a fold is another table
        fitted(**more, X=X[81:], y=y[81:], groups=clinics[81:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ReleaseWarning):
            fitted(**more)
    with open_budget(str(tmp_path / "budget")) as file:  # the warning comes before anything is charged
        assert len(file.charges()) == 2


# -- rows and labels


@pytest.mark.parametrize(
    ("labels", "public_labels", "classes"),
    [
        ([0, 1], [0.0, np.nan, 1.0], None),
        ([0, 1], [0, -1, 1], None),
        ([-1, 1], [-1, None, 1], [-1, 1]),
        ([False, True], [False, None, True], None),
        (["10", "9"], ["9", None, "10"], None),
        ([1.0, 2.0], None, [1.0, 2.0]),
    ],
)
def test_labels_keep_their_type(labels: list[Any], public_labels: list[Any] | None, classes: Any) -> None:
    private = np.array(labels)[(y[80:] == "well").to_numpy().astype(int)]
    given = None if public_labels is None else np.array(public_labels * 26 + [None, None], dtype=object)
    model = fitted(y=private, public=(X[:80], given), classes=classes, encrypted=False)
    assert model.classes_.tolist() == sorted(labels)
    assert set(model.predict(X).tolist()) <= set(labels)
    assert model.predict(X).dtype == private.dtype
    assert model.decision_function(X).shape == (len(X),)


def test_rows_are_frames_and_arrays() -> None:
    model = fitted(encrypted=False)
    assert (model.feature_names_in_.tolist(), model.n_features_in_) == (list(X.columns), 3)
    np.testing.assert_array_equal(model.predict(X), model.predict(X.to_dict("list")))
    numbers = np.random.default_rng(0).normal(size=(len(X), 2)) + np.where(y == "ill", 2, 0)[:, None]
    model = fitted(X=numbers[80:], public=(numbers[:80], y[:80]), encrypted=False)
    assert not hasattr(model, "feature_names_in_")
    named = pd.DataFrame(numbers, columns=["x0", "x1"])
    np.testing.assert_array_equal(model.predict(numbers), model.release_.predict(named))
    for wrong in (np.where(numbers > 2, np.nan, numbers), numbers[:, :1]):
        with pytest.raises(ValueError, match=r"NaN|features"):
            model.predict(wrong)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"public": None}, DataError),
        ({"public": (X[:80], None)}, DataError),
        ({"public": (X[:80], y[:70])}, DataError),
        ({"public": X[:80]}, InvalidParameter),
        ({"public": 1.5}, InvalidParameter),
        ({"groups": clinics[:3]}, ValueError),
        ({"y": y[80:].replace("ill", "sick")}, DataError),
        ({"options": {"epsilon": 2.0}}, InvalidParameter),
        ({"options": {"data": "other.csv"}}, InvalidParameter),
        ({"options": {"wings": 2}}, InvalidParameter),
        ({"method": "soft", "options": {"colluders": 1}}, InvalidParameter),
    ],
)
def test_what_cannot_be_fitted_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        fitted(**change)


def test_probabilities_exist_where_the_model_is_calibrated() -> None:
    model = fitted(encrypted=False)
    assert not hasattr(model, "predict_proba")
    calibrated = msgspec.structs.replace(model.release_.model, calibration=(1.0, 0.0))
    model.release_ = ReleasedClassifier(calibrated)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1] > 0.5, model.predict(X) == "well")


# -- scikit-learn

FITS_FEW_ROWS = "fits fewer rows than the public ones that settle how columns are read: 10"
DOES_NOT_APPLY = {
    "check_estimators_nan_inf": FITS_FEW_ROWS,
    "check_classifier_data_not_an_array": FITS_FEW_ROWS,
    "check_fit2d_1feature": FITS_FEW_ROWS,
    "check_pipeline_consistency": "is skipped for what draws noise",
    "check_array_api_input": "is skipped without the variable SCIPY_ARRAY_API",
}
CHECKED = PrivateFederatedClassifier(
    method="whitened", epsilon=60, features="linear", public=0.7, parties=3, encrypted=False, options=SEEDED
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{number}-{check.func.__name__}")
        for number, (_, check) in enumerate(estimator_checks_generator(CHECKED))
        if check.func.__name__ not in DOES_NOT_APPLY
    ],
)
def test_checks_of_scikit_learn(check: Any) -> None:
    check(clone(CHECKED))


def test_cross_validation_search_and_pipelines() -> None:
    model = PrivateFederatedClassifier(
        "tree",
        method="statistic",
        epsilon=30.0,
        features="linear",
        public=public,
        encrypted=False,
        options={**SEEDED, "holders": 2},
    )
    folds = {"cv": GroupKFold(2), "groups": own["groups"], "params": {"groups": own["groups"]}}
    with pytest.warns(ReleaseWarning) as warned:
        scores = cross_validate(model, own["X"], own["y"], scoring=["accuracy", "roc_auc"], **folds)
    assert len(warned) >= 2
    assert scores["test_accuracy"].min() > 0.7
    pipeline = make_pipeline(FunctionTransformer(lambda table: table[["ward", "age"]]), clone(model))
    pipeline.set_params(privatefederatedclassifier__public=(X[["ward", "age"]][:80], y[:80]))
    pipeline.fit(own["X"], own["y"], privatefederatedclassifier__groups=own["groups"])
    assert pipeline.score(own["X"], own["y"]) > 0.7
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline("passthrough", clone(model).set_fit_request(groups=True))
        routed.fit(**own)
        assert routed[-1].release_.model.parties == 6
        search = GridSearchCV(clone(routed[-1]), {"epsilon": [1.0, 30.0]}, cv=GroupKFold(2)).fit(**own)
        assert search.best_estimator_.release_.model.parties == 6


def test_an_estimator_is_stored_without_private_rows() -> None:
    rows = own["X"].assign(ward=own["X"]["ward"].replace("east", "a private ward"))
    model = fitted(encrypted=False, X=rows)
    stored = pickle.dumps(model)
    assert b"a private ward" not in stored
    np.testing.assert_array_equal(pickle.loads(stored).predict(X), model.predict(X))  # noqa: S301
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@pytest.mark.parametrize("labels", [y, y.map({"ill": "well", "well": "zero"})], ids=["same classes", "other classes"])
def test_a_fit_that_fails_leaves_no_earlier_release(labels: Any) -> None:
    model = fitted(encrypted=False)
    with pytest.raises(DataError):  # too few public rows
        model.fit(own["X"], labels[80:], public=(X[:5], labels[:5]))
    assert not {"release_", "cost_", "forecast_"} & set(vars(model))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_paid_release_is_kept_where_its_warnings_are_errors() -> None:
    model = PrivateFederatedClassifier(method="own-data", epsilon=5.0, encrypted=False, options=SEEDED)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        warnings.filterwarnings("ignore", "this fit is a release", ReleaseWarning)
        with pytest.raises(ReleaseWarning):
            model.fit(**own, public=public)
    assert model.cost_.epsilon == 5.0
    assert model.predict(X).shape == (len(X),)
