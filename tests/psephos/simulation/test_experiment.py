"""`psephos.simulate` in a script: one call, every protocol, what it gives back; test keys that say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.tree import DecisionTreeClassifier

import psephos
import psephos.results.base
from psephos.data.partition import AbsentRole
from psephos.protocol.errors import DataError, InvalidParameter, ThresholdError
from psephos.protocol.transcript import Transcript
from psephos.simulation.options import TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_tally

X, y = load_breast_cancer(return_X_y=True)
NAMES = np.array(["malignant", "benign"])[y]
TEST: dict[str, Any] = {"key_bits": 512, "test_key": True}
FEW: dict[str, Any] = {**TEST, "holders": 3, "threshold": 2, "workers": 1}


@pytest.fixture(scope="module")
def result() -> psephos.Simulation:
    return psephos.simulate(
        X,
        NAMES,
        parties=30,
        sizes="dirichlet",
        learners=["logistic", DecisionTreeClassifier(max_depth=3)],
        absent=0.2,
        epsilons=[1, 10],
        methods=["statistic", "soft"],
        draws=3,
        **FEW,
    )


def test_the_table_has_a_row_for_each_release(result: psephos.Simulation) -> None:
    table = result.table
    private = table.dropna(subset="epsilon")
    assert len(private) == 2 * 2 * 3
    assert private.groupby(["method", "epsilon"])["draw"].apply(list).tolist() == [[0, 1, 2]] * 4
    bare = table[table["epsilon"].isna()]
    assert bare["method"].tolist() == ["majority", "batch", "trees", "indiv", "ensemble", "soft", "statistic"]
    assert bare["draw"].isna().all()
    assert list(table.columns[-2:]) == ["recall of benign", "recall of malignant"]
    np.testing.assert_allclose(table[table.columns[-2:]].mean(axis=1), table["balanced_accuracy"])
    (outcome,) = result.results
    mean = private.query("method == 'soft' and epsilon == 10")["accuracy"].mean()
    assert outcome.by_epsilon["10"]["soft"].private == pytest.approx(mean)
    assert outcome.exact


def test_absent_parties_are_in_no_sum(result: psephos.Simulation) -> None:
    assert result.counts is not None
    assert set(result.counts.sum(axis=1)) == {24}
    assert [opened.ballots for (opened,) in result.sums.values()] == [24]
    assert sum(message.kind == "ballot" for message in result.transcript.messages) == 24


def test_models_predict_the_labels_of_rows_as_they_are(result: psephos.Simulation) -> None:
    assert result.models.keys() == {("batch", None)} | {(m, e) for m in ("soft", "statistic") for e in (None, 1, 10)}
    split = result.evaluation.split
    assert split is not None
    for (method, epsilon), models in result.models.items():
        rows = result.table[result.table["method"] == method]
        rows = rows[rows["epsilon"].isna() if epsilon is None else rows["epsilon"] == epsilon]
        scores = [model.score(split.X_test, NAMES[split.test]) for model in models]
        assert scores == pytest.approx(rows["accuracy"].tolist())


def test_the_same_seed_repeats_split_and_training(result: psephos.Simulation) -> None:
    again = psephos.simulate(
        pd.DataFrame(X), NAMES, parties=30, sizes="dirichlet", absent=0.2, methods=["soft"], draws=1,
        learners=["logistic", DecisionTreeClassifier(max_depth=3)], **FEW,
    )  # fmt: skip
    assert np.array_equal(again.counts, result.counts)  # type: ignore[arg-type]
    other = psephos.simulate(X, NAMES, parties=30, absent=0.2, methods=["soft"], draws=1, seed=1, **FEW)
    assert not np.array_equal(other.counts, result.counts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("protocol", "options", "methods"),
    [
        ("average", FEW, {"avg", "own-data", "whitened"}),
        ("pathak", TEST, {"pathak"}),
        ("psgd", {**TEST, "steps": 3, "absent": 0.25}, {"psgd"}),
        (
            "statistic",
            {**FEW, "absent": 0.25},
            {"statistic", "vote-directions", "own-data", "whitened"},
        ),
        ("record", FEW, {"newton"}),
        ("rehearsed", FEW, {"rehearsed"}),
    ],
)
def test_every_protocol_by_the_same_call(protocol: Any, options: dict[str, Any], methods: set[str]) -> None:
    result = psephos.simulate(X, y, parties=8, protocol=protocol, epsilons=[1.0, 5.0], draws=2, **options)
    private = result.table.dropna(subset="epsilon")
    assert set(private["method"]) == methods
    assert set(private.groupby(["method", "epsilon"]).size()) == {2}
    assert {"majority", "balanced_accuracy"} <= {*result.table["method"], *result.table.columns}
    assert all(outcome.exact for outcome in result.results)
    assert result.sums
    assert {(method, 5.0) for method in methods} <= result.models.keys()
    assert result.models[methods.pop(), 5.0][0].predict(X[:3]).shape == (3,)


def test_groups_are_parties_with_rows_of_their_own() -> None:
    """Their rows may have text; a tenth of all is public, with its labels, and 30 % of each party's are held out."""
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(e=np.where(X[:, 4] > 0.1, "rough", "smooth"))
    whose = pd.Series(np.arange(len(y)) % 7, name="hospital")
    result = psephos.simulate(frame, NAMES, groups=whose, methods=["statistic"], draws=1, **FEW)
    split = result.evaluation.split
    assert split is not None
    assert (len(split.auxiliary), split.labelled, len(split.parties)) == (57, 57, 7)
    owned = [len(own) + len(held) for own, held in zip(split.parties, split.held_out, strict=True)]
    assert sum(owned) == len(y) - 57
    assert len(split.test) == pytest.approx(0.3 * sum(owned), abs=7)
    assert str(result.results[0].privacy["statistic"].protects) == "party (hospital)"
    assert {"public", "ensemble"} <= set(result.table["method"])


def test_features_are_of_rows_that_are_dealt_as_well() -> None:
    """Where too few public rows have labels for a map, a warning is printed."""
    for auxiliary, mapped in ((60, True), (30, False)):
        result = psephos.simulate(X, y, parties=6, features="auto", auxiliary=auxiliary, methods=["soft"], **FEW)
        split = result.evaluation.split
        assert split is not None
        assert split.encoding is not None
        assert (len(split.parties), split.encoding.map is not None) == (6, mapped)
        assert ("WARNING" in str(result)) is not mapped


def test_labels_are_skewed_among_parties_of_the_same_sizes() -> None:
    sizes, spread = [20, 30, 50, 60], []
    for skew in ("", "dirichlet(0.1)"):
        result = psephos.simulate(X, y, parties=4, sizes=sizes, skew=skew, methods=["soft"], draws=1, **FEW)
        split = result.evaluation.split
        assert split is not None
        assert split.sizes.tolist() == sizes
        spread.append(np.std([split.party(number)[1].mean() for number in range(4)]))
        rows = np.sort(np.concatenate(split.parties))
    assert len(np.unique(rows)) == sum(sizes)
    assert spread[1] > 2 * spread[0]


def test_regressions_and_evaluations_are_simulated_too() -> None:
    numbers, labels = load_diabetes(return_X_y=True)
    more = {**FEW, "parties": 6, "epsilons": [1, 5], "draws": 2}
    regression = psephos.simulate(numbers, labels, protocol="regression", announced_rows=250, **more)
    noisy = regression.table.dropna(subset="epsilon")
    assert noisy.groupby(["method", "epsilon"])["draw"].apply(list).to_dict() == {("newton", e): [0, 1] for e in (1, 5)}
    assert (regression.table["method"] == "least squares").sum() == 1
    assert regression.measure == "r2"
    model = psephos.PrivateFederatedClassifier(public=0.2, epsilon=0.1, parties=10, options=FEW).fit(X[:300], y[:300])
    more |= {"draws": 1, "simulate_noise": True, "model": model.release_}
    evaluation = psephos.simulate(X[300:], y[300:], protocol="evaluation", **more)
    assert evaluation.table["epsilon"].tolist() == [1, 5]
    for outcome in evaluation.results:
        assert abs(outcome.accuracy.value - model.score(X[300:], y[300:])) < 4 * outcome.accuracy.error


def test_splits_have_error_bars_and_levels_beside_the_axes() -> None:
    whose = np.arange(len(y)) % 12
    result = psephos.simulate(X, y, groups=whose, methods=["statistic", "soft"], epsilons=[10, 1], splits=2, **FEW)
    assert result.table.groupby("split")["method"].size().nunique() == 1
    means = result.table.query("method == 'soft' and epsilon == 1").groupby("split")["accuracy"].mean()
    assert result.summary().loc[("soft", 1.0)].tolist() == pytest.approx([means.mean(), means.std()])
    assert f"{means.mean():.3f}" in str(result)
    figure = result.plot()
    (axes,), (legend,) = figure.axes, figure.legends
    assert axes.get_legend() is None
    assert len(axes.containers) == 2, "both methods have error bars"
    assert len(legend.get_texts()) == 5, "two methods, pooled rows, the parties' vote, and public rows"


def written_tables(folder: Path) -> dict[str, Any]:
    """Write a table and public rows, and return the options that name them."""
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(outcome=NAMES)
    frame.iloc[60:].to_csv(folder / "own.csv", index=False)
    frame.iloc[:60].to_csv(folder / "open.csv", index=False)
    return {"data": folder / "own.csv", "label": "outcome", "public": str(folder / "open.csv")}


def test_transcript_and_replaced_roles_are_passed_to_the_run() -> None:
    result = psephos.simulate(
        X, y, parties=4, methods=["own-data"], draws=1, transcript=Transcript(secrets=True), **FEW
    )
    assert result.transcript.view("curator").received
    with pytest.raises(ThresholdError):
        psephos.simulate(
            X, y, parties=4, methods=["own-data"], roles={"holder 1": AbsentRole, "holder 2": AbsentRole}, **FEW
        )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"protocol": "voodoo"}, InvalidParameter),
        ({"wings": 2}, InvalidParameter),
        ({"protocol": "pathak", "methods": ["soft"]}, InvalidParameter),
        ({"protocol": "psgd", "simulate_noise": True, "draws": 2}, InvalidParameter),
        ({"learners": [object()]}, InvalidParameter),
        ({"journal": "kept"}, InvalidParameter),
        ({"X": X[:, 0]}, DataError),
        ({"X": np.full((4, 2), "a"), "y": [0, 1, 0, 1]}, DataError),
        ({"X": np.full((4, 2), np.nan), "y": [0, 1, 0, 1]}, DataError),
        ({"y": np.zeros(len(X))}, DataError),
        ({"X": np.ma.masked_array(X, mask=X > 20)}, DataError),
        ({"y": np.ma.masked_array(y, mask=X[:, 0] > 20)}, DataError),
        ({"y": np.where(X[:, 0] > 20, np.nan, y)}, DataError),
        ({"y": pd.Series(y, dtype="Int64").mask(X[:, 0] > 20)}, DataError),
        ({"y": [None, *NAMES[1:]]}, DataError),
        ({"y": [1, *NAMES[1:]]}, DataError),
        ({"y": np.array([(1, 2), *NAMES[1:]], dtype=object)}, DataError),
        ({"draws": "many"}, InvalidParameter),
        ({"skew": "dirichlet(0)"}, InvalidParameter),
        ({"skew": 0.5}, InvalidParameter),
        ({"groups": y}, InvalidParameter),
        ({"parties": None, "groups": y[:9]}, DataError),
        ({"protocol": "evaluation"}, InvalidParameter),
        ({"epsilons": "1"}, InvalidParameter),
        ({"protocol": "pathak", "epsilons": [1.0, np.nan]}, InvalidParameter),
    ],
)
def test_invalid_arguments_are_refused_by_name(change: dict[str, Any], error: type[Exception]) -> None:
    """Before anything is computed."""

    def progress(what: str, done: int, total: int) -> None:
        pytest.fail(f"{what} has begun")

    with pytest.raises(error):
        psephos.simulate(**{"X": X, "y": y, "parties": 4, "progress": progress, **TEST, **change})


def test_a_simulation_refuses_arguments_that_it_does_not_take() -> None:
    """Otherwise an attack whose `roles` is misspelt would run the honest protocol, and seem harmless."""
    misspelt: dict[str, Any] = {"role": {"holder 1": None}}
    for simulate, options in (
        (simulate_tally, TallyOptions(parties=4, **TEST)),
        (simulate_psgd, PsgdOptions(parties=4, **TEST)),
        (simulate_pathak, PathakOptions(parties=4, **TEST)),
    ):
        with pytest.raises(TypeError, match="role"):
            simulate(options, **misspelt)


@pytest.mark.parametrize("protocol", ["tally", "psgd"])
def test_numbers_of_numpy_and_paths_are_options_as_those_of_python(protocol: Any, tmp_path: Any) -> None:
    own: dict[str, Any] = {**written_tables(tmp_path), "budget": tmp_path / "budget"}
    spelled = psephos.simulate(
        protocol=protocol,
        **own,
        simulate_noise=np.False_,
        parties=np.int64(4),
        seed=np.uint8(3),
        epsilons=np.array([0.5], dtype=np.float32),
        absent=np.float64(0.25 if protocol == "tally" else 0),  # rows are dealt, and a descent protects rows
        draws=np.int32(1),
        key_bits=1024,
        test_key=True,
        **({"methods": "own-data"} if protocol == "tally" else {"steps": 1}),
    )
    (result,) = spelled.results
    assert (result.parties, result.epsilon, result.options["seed"]) == (4, 0.5, 3)
    assert psephos.results.base.Result.from_json(result.as_json()) == result
