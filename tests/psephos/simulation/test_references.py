"""What a release competes with is measured in every run that has the data, and by the definitions of scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score

from psephos.results.evaluation import auroc
from psephos.simulation.job import Job, RegressionRun
from psephos.simulation.options import JobOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_tally

SHORT: dict[str, Any] = {"key_bits": 512, "test_key": True, "workers": 1}
ALL_ROWS, PUBLIC = {"majority", "batch", "trees", "indiv", "ensemble"}, {"public", "public-forest"}


def table(path: Path, *, labelled: bool = True, ill: float = 0.5, rows: int = 600) -> JobOptions:
    """A table of 12 sites with three features, whose first site is public."""
    generator = np.random.default_rng(5)
    X = generator.normal(size=(rows, 3))
    score = X[:, 0] + 0.3 * generator.normal(size=rows)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(site=np.arange(rows) % 12)
    frame["state"] = np.where(score > np.quantile(score, 1 - ill), "ill", "well")
    if not labelled:
        frame.loc[frame.site == 0, "state"] = ""
    frame.to_csv(path, index=False)
    where: dict[str, Any] = {"data": str(path), "label": "state", "party": "site", "public": "0", "method": "statistic"}
    return JobOptions(**where, anyway=True, classes=("ill", "well"), epsilon=(5.0,), **SHORT)


def test_references_of_a_table_with_labelled_public_rows(tmp_path: Path) -> None:
    job = Job(table(tmp_path / "t.csv"))
    result = job.run()
    assert set(result.accuracy) == ALL_ROWS | PUBLIC | {"statistic"}
    split, data = job.split, job.split.dataset
    rows = np.concatenate(split.parties)
    assert split.encoding is not None
    assert split.encoding.map is not None, "references are fitted to the columns of the table, without the map's"
    X, test, public = (
        each[:, : len(split.encoding.inputs)] for each in (data.X_train, split.X_test, split.X_auxiliary)
    )
    trees = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(X[rows], data.y_train[rows])
    forest = RandomForestClassifier(random_state=0).fit(public, split.public_labels)
    assert result.accuracy["trees"].nonprivate == pytest.approx(trees.score(test, split.y_test), abs=0.02)
    assert result.accuracy["public-forest"].nonprivate == forest.score(test, split.y_test)
    assert (result.accuracy["public"].nonprivate or 0) > 0.85
    assert all(result.accuracy[name].private is None for name in ALL_ROWS | PUBLIC)
    assert result.test_shares == pytest.approx(np.bincount(split.y_test) / len(split.y_test))
    assert result.as_json()["notice"]
    assert {name: one for name, one in Job(table(tmp_path / "t.csv")).run().accuracy.items() if name in ALL_ROWS} == {
        name: result.accuracy[name] for name in ALL_ROWS
    }


def test_public_rows_without_labels_are_no_model(tmp_path: Path) -> None:
    assert set(Job(table(tmp_path / "t.csv", labelled=False)).run().accuracy) == ALL_ROWS | {"statistic"}


def test_labels_of_a_published_data_set_are_used_where_the_method_does() -> None:
    few: dict[str, Any] = {"parties": 6, "draws": 1, **SHORT}
    assert set(simulate_tally(TallyOptions(methods=("soft",), **few)).accuracy) == ALL_ROWS | {"soft"}
    assert set(simulate_tally(TallyOptions(unit="record", **few)).accuracy) == ALL_ROWS | PUBLIC | {"newton"}


def test_other_protocols_have_trees_too() -> None:
    psgd = simulate_psgd(PsgdOptions(parties=4, steps=2, key_bits=512, test_key=True))
    pathak = simulate_pathak(PathakOptions(parties=3))
    for result in (psgd, pathak):
        assert {"majority", "trees"} < set(result.accuracy)
        assert not any(text.startswith("A linear classifier") for text in result.page().texts("advice"))


def test_a_regression_has_trees_and_a_forest(tmp_path: Path) -> None:
    options = table(tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv")
    frame.assign(state=frame.a + frame.b**2).to_csv(tmp_path / "t.csv", index=False)
    more: dict[str, Any] = {"task": "regression", "unit": "record", "method": None, "classes": (), "anyway": False}
    run = RegressionRun(JobOptions(**{**vars(options), **more}))
    errors = run.run().errors
    assert errors["trees"].r2 > 0.7 > errors["least squares"].r2
    assert errors["public-forest"].r2 > errors["public"].r2


def test_a_rare_class_is_measured_by_auroc_and_balanced_accuracy(tmp_path: Path) -> None:
    result = Job(table(tmp_path / "t.csv", ill=0.1, rows=1200)).run()
    assert max(result.test_shares) > 0.85
    for name in {*ALL_ROWS, *PUBLIC, "statistic"} - {"indiv"}:
        one = result.accuracy[name]
        assert one.auroc is not None
        assert one.nonprivate_auroc is not None
        assert one.nonprivate_balanced is not None
    assert result.accuracy["majority"].auroc == 0.5
    linear = result.evaluation
    (score,) = [each for each in linear.scores if each.method == "batch"]
    assert score.w is not None
    assert linear.split is not None
    assert score.auroc == pytest.approx(roc_auc_score(linear.split.y_test, linear.test @ score.w))
    assert result.page().tables[0].rows
    assert all(one.auroc is None for one in Job(table(tmp_path / "t.csv")).run().accuracy.values())


def test_auroc_of_several_classes_is_the_mean_over_them() -> None:
    generator = np.random.default_rng(0)
    scores, y = generator.integers(0, 5, size=(300, 3)).astype(float), generator.integers(0, 3, size=300)
    margins = [scores[:, k] - np.delete(scores, k, axis=1).max(axis=1) for k in range(3)]
    assert auroc(scores, y) == pytest.approx(np.mean([roc_auc_score(y == k, margins[k]) for k in range(3)]))
    assert np.isnan(auroc(scores, np.zeros(300, dtype=int)))


def test_what_is_right_stands_beside_the_most_frequent_class_of_the_same_rows(tmp_path: Path) -> None:
    """The test samples' own most frequent class, which may be another than the parties'."""
    result = Job(table(tmp_path / "t.csv")).run()
    assert f"{max(result.test_shares):.1%} are of one class" in result.page().text("answer")
