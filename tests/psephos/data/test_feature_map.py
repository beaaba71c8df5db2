"""Public feature maps: functions of one row and of public rows, the same bits everywhere, refused when malformed."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from psephos import simulate
from psephos.curator.ledger import Release
from psephos.data import datasets, feature_map
from psephos.data.feature_map import CLIP, MOST_NUMBERS, UNIT, FeatureMap, Forest, Tree
from psephos.data.fit_features import FEWEST_COMPARED, FEWEST_FOREST, Features, _exported, fit_features
from psephos.data.own import OwnTable, TableOptions
from psephos.data.tables import Column, Encoding
from psephos.model import Model
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.released import ReleasedClassifier
from psephos.simulation.job import EvaluationOptions, EvaluationRun, Job
from psephos.simulation.options import JobOptions
from tests.verifier import features as verifier
from tests.verifier.board import Refused

KINDS: tuple[Features, ...] = ("auto", "forest", "landmarks", "products", "fourier")


def rows_of(kind: str, count: int, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two noisy rings, or signs of products, and columns of noise: nothing that a linear model can tell."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, 4))
    if kind == "xor":
        return X, (3 * np.sign(X[:, 0] * X[:, 1]) + X[:, 2] + generator.logistic(size=count) > 0).astype(int)
    radius, angle = generator.choice([1.0, 2.0], count), generator.uniform(0, 2 * np.pi, count)
    X[:, :2] = 0.3 * X[:, :2] + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X, (radius > 1.5).astype(int)


@cache
def fitted(kind: Features, width: int = 4) -> FeatureMap:
    """A map of rings; `width` above 10 takes principal components."""
    X, y = rows_of("rings", 120)
    X = np.concatenate([X, np.random.default_rng(1).normal(size=(len(X), width - 4)) * 50], axis=1)
    found = fit_features(kind, X, y, 2).map
    assert found is not None
    return found


# -- the same bits for one row, in every batch, after JSON, and by the second verifier


@pytest.mark.parametrize("width", [4, 12])
@pytest.mark.parametrize("kind", [pytest.param("auto", marks=pytest.mark.slow), *KINDS[1:]])
def test_a_row_has_the_same_bits_in_every_batch_and_after_json(kind: Features, width: int) -> None:
    found = fitted(kind, width)
    X = np.random.default_rng(2).normal(size=(1000, width)) * 3
    X[0], X[1] = 1e100, -1e100
    mapped = found.apply(X)
    assert mapped.shape == (1000, width + len(found.features))
    assert np.isfinite(mapped).all()
    assert np.abs(mapped).max() <= CLIP**2
    read = msgspec.json.decode(found.encoded, type=FeatureMap)
    assert (read, read.digest) == (found, found.digest)
    order = np.random.default_rng(3).permutation(1000)
    assert read.apply(X[order]).tobytes() == mapped[order].tobytes()
    second = verifier.FeatureMap(found.encoded.decode(), width)
    assert second.names == found.features
    assert second.features(X[:40]).tobytes() == mapped[:40].tobytes()
    assert found.apply(X[:0]).shape == (0, mapped.shape[1])


def test_elementary_functions_are_those_of_numpy() -> None:
    x = np.concatenate([np.geomspace(1e-6, 1e6, 1001), [1.0]])
    np.testing.assert_allclose(feature_map._log(x), np.log(x), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(feature_map._exp(-x), np.where(x < 700, np.exp(-x), 0), rtol=1e-13)
    turns = np.linspace(0, 1, 1001)[:-1]
    np.testing.assert_allclose(feature_map._cosine(turns), np.cos(2 * np.pi * turns), atol=1e-14)


@pytest.mark.parametrize("classes", [2, 3])
def test_trees_are_those_of_scikit_learn(classes: int) -> None:
    generator = np.random.default_rng(4)
    rows, width = np.rint(generator.normal(size=(200, 3)) * UNIT).astype(int), 1 if classes == 2 else classes
    y = (np.abs(rows).sum(axis=1) // UNIT) % classes
    model = RandomForestClassifier(20, random_state=0).fit(rows, y)
    # Entries that equal a threshold, or lie beside it, go where scikit-learn sends them.
    limits = np.concatenate([each.tree_.threshold for each in model.estimators_])[:300].reshape(-1, 3)
    probed = np.concatenate([rows, np.floor(limits), np.floor(limits) + 1]).astype(int)
    for each in model.estimators_:
        tree = _exported(each.tree_, model.classes_, classes, width)
        shares = np.rint(each.predict_proba(probed)[:, -width:] * UNIT)
        np.testing.assert_array_equal(tree.leaves(probed, width), shares)


@pytest.mark.slow
def test_no_label_of_a_public_row_reaches_its_own_columns() -> None:
    X, y = rows_of("xor", 60)
    for kind in ("auto", "forest"):
        first = fit_features(kind, X, y, 2)
        for row in range(2):
            second = fit_features(kind, X, np.where(np.arange(60) == row, 1 - y, y), 2)
            width = min(first.rows.shape[1], second.rows.shape[1])
            assert first.map != second.map
            np.testing.assert_array_equal(first.rows[row, :5], second.rows[row, :5])
            if kind == "forest":
                np.testing.assert_array_equal(first.rows[row, :width], second.rows[row, :width])


@pytest.mark.parametrize("gives", ["log-odds", "trees"])
def test_the_columns_of_public_rows_need_no_memory_for_each_tree(gives: Literal["log-odds", "trees"]) -> None:
    trees, width, rows = 50, 100, 200
    tree = Tree((-1,), (), (1,) * width)
    stated = FeatureMap((0.0,), (1.0,), (Forest(gives, width, (tree,) * trees, ("1",) * trees),))
    tracemalloc.start()
    mapped = stated.apply_to_public(np.zeros((rows, 1)), np.arange(rows))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    leaves = 8 * rows * width
    assert peak < 3.5 * mapped.nbytes + 15 * leaves


# -- the choice


def test_without_labels_auto_is_linear_and_says_so() -> None:
    X, y = rows_of("rings", 100)
    y[FEWEST_FOREST - 1 :] = -1
    few = fit_features("auto", X, y, 2)
    assert few.map is None
    assert few.rows is X
    assert "linear" in few.note
    assert "linear" in fit_features("auto", X, np.zeros(100, dtype=int), 2).note
    assert fit_features("auto", X, y.astype(float), 0).map is None
    for kind in ("landmarks", "products", "fourier"):
        assert fit_features(kind, X, y, 2).map is not None
    for labels, classes in ((y, 2), (np.zeros(100, dtype=int), 2), (y.astype(float), 0)):
        with pytest.raises(InvalidParameter):
            fit_features("forest", X, labels, classes)


def test_every_map_is_fitted_to_the_same_bytes_again() -> None:
    for kind in KINDS[1:]:
        assert fitted.__wrapped__(kind).encoded == fitted(kind).encoded


@pytest.mark.parametrize("classes", [2, 3])
def test_a_class_that_is_rare_in_public_rows_stops_no_map(classes: int) -> None:
    X, _ = rows_of("rings", 60)
    y = np.zeros(60, dtype=int)
    y[7] = classes - 1
    assert fit_features("landmarks", X, y, classes).map is not None
    # Two rows of many, of which the rows that maps are compared on have none.
    X, _ = rows_of("rings", 4000)
    y = np.zeros(4000, dtype=int)
    y[[5, 99]] = classes - 1
    assert fit_features("landmarks", X, y, classes).map is not None
    assert fit_features("auto", X, y, classes).map is not None


def test_forests_are_grown_on_some_of_many_public_rows() -> None:
    X, y = rows_of("rings", 6000)
    found = fit_features("forest", X, y, 2)
    assert found.map is not None
    as_other_rows = (found.rows == found.map.apply(X)).all(axis=1)
    assert as_other_rows.sum() == 1000, "no tree was grown on the others, which are mapped as private rows are"


@pytest.mark.slow
def test_auto_takes_a_richer_map_with_a_margin() -> None:
    X, y = rows_of("rings", 300)
    rings = fit_features("auto", X, y, 2)
    assert rings.map is not None
    assert [type(block).__name__ for block in rings.map.blocks] == ["Forest", "Products"]
    noise = fit_features("auto", X, np.random.default_rng(0).integers(2, size=300), 2)
    assert noise.map is not None
    assert len(noise.map.blocks) == 1
    y[FEWEST_COMPARED - 1 :] = -1
    few = fit_features("auto", X, y, 2)
    assert few.map is not None
    assert len(few.map.blocks) == 1


@pytest.mark.parametrize("X", [np.zeros((10, 12)), np.full((10, 1), 1e100), np.full((50, 2), 1e-110).cumsum(axis=0)])
def test_constant_and_extreme_columns_are_mapped_and_read(X: np.ndarray[Any, Any]) -> None:
    for kind in KINDS[2:]:
        found = fit_features(kind, X, np.full(len(X), -1), 2).map
        assert found is not None
        assert msgspec.json.decode(found.encoded, type=FeatureMap) == found
        assert np.isfinite(found.apply(X)).all()


# -- malformed maps

LEAF, PAIR = [[-1], [], [7]], [[0, -1, -1], [5], [1, 2]]


def forest(*trees: Any, **fields: Any) -> dict[str, Any]:
    return {"kind": "forest", "gives": "log-odds", "width": 1, "trees": list(trees)} | fields


def document(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"means": [0.0, 1.0], "deviations": [1.0, 2.0], "blocks": list(blocks)} | fields


MALFORMED: dict[str, Any] = {
    "no blocks": document(),
    "a field more": document(forest(LEAF), code="import os"),
    "a kind that is none": document({"kind": "network"}),
    "other deviations": document(forest(LEAF), deviations=[1.0]),
    "a deviation of 0": document(forest(LEAF), deviations=[0.0, 1.0]),
    "a feature out of range": document(forest([[2, -1, -1], [5], [1, 2]])),
    "a node behind the last leaf": document(forest([[-1, -1], [], [1, 2]])),
    "a tree without its last leaf": document(forest([[0, -1], [5], [1]])),
    "no nodes": document(forest([[], [], []])),
    "a tree of many levels": document(forest([[0, -1] * 33 + [-1], [5] * 33, [1] * 34])),
    "many trees": document(forest(*[LEAF] * 201)),
    "a threshold more": document(forest([[0, -1, -1], [5, 6], [1, 2]])),
    "a value less": document(forest([[0, -1, -1], [5], [1]])),
    "a share above 1": document(forest([[-1], [], [UNIT + 1]])),
    "a threshold beyond the clip": document(forest([[0, -1, -1], [CLIP * UNIT + 1], [1, 2]])),
    "a fraction": document(forest([[0, -1, -1], [0.5], [1, 2]])),
    "an entry more in a tree": document(forest([*PAIR, []])),
    "two blocks of a kind": document(forest(LEAF), forest(PAIR)),
    "a landmark of another width": document({"kind": "landmarks", "points": [[1]], "rate": 1.0}),
    "no bandwidth": document({"kind": "landmarks", "points": [[1, 2]], "rate": 0.0}),
    "a direction of another width": document({"kind": "products", "directions": [[1, 2, 3]]}),
    "a phase less": document({"kind": "fourier", "directions": [[1, 2]], "phases": []}),
    "a phase of a turn": document({"kind": "fourier", "directions": [[1, 2]], "phases": [UNIT**2]}),
    "sums above 2^53": document(
        {"kind": "products", "directions": [[1 << 30] * 300]}, means=[0.0] * 300, deviations=[1.0] * 300
    ),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_map_is_refused(content: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(content, FeatureMap)
    with pytest.raises(Refused):
        verifier.FeatureMap(json.dumps(content), len(content["means"]))
    assert msgspec.convert(document(forest(LEAF, PAIR)), FeatureMap).features == ["(forest 1)"]


def test_a_number_that_is_none_is_no_json() -> None:
    text = json.dumps(document(forest(LEAF), means=[float("nan"), 0.0]))
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text, type=FeatureMap)


def test_a_map_and_the_names_of_its_columns_are_bounded() -> None:
    tree = Tree((0, -1, -1), (5,), (1, 2))
    with pytest.raises(ValueError, match="integers"):
        FeatureMap((0.0,), (1.0,), (Forest("log-odds", 1, (tree,) * (MOST_NUMBERS // 6 + 1)),))
    with pytest.raises(ValueError, match="columns"):
        FeatureMap((0.0,), (1.0,), (Forest("trees", 1, (tree,) * 10_001),))
    one = FeatureMap((0.0,), (1.0,), (Forest("log-odds", 1, (tree,)),))
    with pytest.raises(ValueError, match="encoded columns"):
        Encoding((Column("a", "number"), Column("b", "number")), one)


# -- runs


def table(path: Path, kind: str, rows: int) -> Path:
    """A table of five parties, and 200 public rows."""
    X, y = rows_of(kind, rows + 200, seed=1)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=np.array(["no", "yes"])[y])
    frame["site"] = ["open"] * 200 + [f"site {number % 5}" for number in range(rows)]
    frame.to_csv(path, index=False)
    return path


def options(path: Path, **more: Any) -> JobOptions:
    own = {"data": str(path), "label": "label", "party": "site", "public": "open", "unit": "record"}
    return JobOptions(**own, key_bits=512, test_key=True, simulate_noise=True, epsilon=(3.0,), workers=1, **more)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "features"), [("xor", "forest"), ("rings", "auto")])
def test_a_released_map_is_better_than_public_forest_and_linear(kind: str, features: Features, tmp_path: Path) -> None:
    path, right = table(tmp_path / "t.csv", kind, 4000), {}
    for chosen in (features, "linear"):
        job = Job(options(path, features=chosen, method="newton", anyway=True))
        right[chosen] = job.run().accuracy["newton"].private or 0.0
    assert job.split.inputs is not None
    public = RandomForestClassifier(300, random_state=0).fit(job.split.inputs, job.split.public_labels)
    assert right[features] > public.score(job.split.X_test, job.split.y_test) + 0.005
    assert right[features] > right["linear"] + 0.3


def test_rows_are_held_out_and_counted_by_the_columns_alone(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "rings", 100)
    splits = [OwnTable(options(path, features=kind)).deal(5, 0, by_content=True) for kind in ("linear", "products")]
    for first, second in zip(splits[0].held_out, splits[1].held_out, strict=True):
        np.testing.assert_array_equal(first, second)
    assert splits[0].remarks == splits[1].remarks


def simulated(path: Path, **chosen: Any) -> list[float]:
    """The accuracies of a simulation in which the directions of own rows are added: with noise, and without."""
    own = {"data": str(path), "label": "label", "party": "site", "public": "open", "methods": ("own-data",)}
    machine = {"key_bits": 512, "test_key": True, "simulate_noise": True, "workers": 1, "seed": 2}
    found = simulate(protocol="tally", epsilons=(60.0,), draws=1, **own, **machine, **chosen).table
    rows = found[found["method"] == "own-data"].sort_values("epsilon")
    return [float(value) for value in rows["accuracy"]]


def test_a_simulation_is_linear_unless_features_are_asked_for(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "rings", 1500)
    linear, products = simulated(path, features="linear"), simulated(path, features="products")
    assert simulated(path) == linear
    assert len(products) == 2
    assert min(products) > max(linear) + 0.1
    assert products[1] > 0.85


SCHEMA = "".join(f'[columns.{name}]\nkind = "number"\nminimum = -3\nmaximum = 3\n\n' for name in "abcd")


@pytest.mark.parametrize("features", ["products", "fourier", "landmarks", "auto"])
def test_the_samples_of_a_schema_determine_the_map(features: Features, tmp_path: Path) -> None:
    """Whatever the private rows are."""
    (tmp_path / "s.toml").write_text(f'classes = ["no", "yes"]\n\n{SCHEMA}', encoding="utf-8")
    own: dict[str, Any] = {"label": "label", "party": "site", "schema": str(tmp_path / "s.toml"), "features": features}
    splits = []
    for number, kind in enumerate(("rings", "xor")):
        path = table(tmp_path / f"{number}.csv", kind, 300)
        splits.append(OwnTable(TableOptions(data=str(path), **own)).deal(6, 0, samples=80))
    first, second = splits
    assert first.encoding == second.encoding
    assert first.encoding is not None
    assert (first.encoding.map is None) == (features == "auto")
    assert ("linear" in first.note) == (features == "auto")
    np.testing.assert_array_equal(first.X_auxiliary, second.X_auxiliary)
    np.testing.assert_array_equal(first.X_auxiliary, first.encoding.mapped(first.inputs))
    assert first.X_auxiliary.shape == (80, len(first.encoding.features))


def test_columns_may_be_named_as_features_of_a_map_are(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "rings", 100)
    frame = pd.read_csv(path).rename(columns={"a": "(product 1 1)"})
    frame = frame.assign(**{"p=q": np.where(frame.b > 0, "r", "s"), "p": np.where(frame.c > 0, "q=r", "s")})
    frame.to_csv(path, index=False)
    split = OwnTable(options(path, features="products")).deal(5, 0, by_content=True)
    assert split.encoding is not None
    assert msgspec.convert(msgspec.to_builtins(split.encoding), Encoding).map is not None


def test_a_card_names_public_rows_only_where_there_are_some(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "rings", 100)
    private = pd.read_csv(path).query("site != 'open'")
    private.to_csv(path, index=False)
    ranges = "".join(f'{name} = {{kind = "number", minimum = -3, maximum = 3}}\n' for name in "abcd")
    (tmp_path / "s.toml").write_text(f'classes = ["no", "yes"]\n[columns]\n{ranges}')
    chosen = {"schema": str(tmp_path / "s.toml"), "public": None, "unit": "party", "method": "own-data"}
    job = Job(replace(options(path, features="landmarks", anyway=True), **chosen))
    job.write(job.run(), tmp_path)
    heading = "## Which columns matter"
    told, _, listed = (tmp_path / "card.md").read_text().partition(heading)
    assert "schema" in listed.splitlines()[0]
    assert "public rows" not in told.split("## ")[0] + listed.split("## ")[0]


def test_a_model_with_a_map_is_not_evaluated_on_columns_that_were_not_mapped(tmp_path: Path) -> None:
    data = datasets.load("breast-cancer")
    columns = tuple(Column(f"x{number}", "number") for number in range(data.features - 1))
    one = FeatureMap((0.0,) * len(columns), (1.0,) * len(columns), (Forest("log-odds", 1, (Tree((-1,), (), (1,)),)),))
    model = Model(
        psephos_model=1,
        classes=data.classes,
        encoding=Encoding(columns, one),
        coefficients=((1.0,) * data.features,),
        intercepts=(0.0,),
        method="newton",
        parties=5,
        release=Release("discrete-laplace", 1.0, 0.0, "record"),
    )
    with pytest.raises(DataError):
        EvaluationRun(EvaluationOptions(), ReleasedClassifier(model))


REFUSED: dict[str, Callable[[Path], Any]] = {
    "a map of rows that are private too": lambda path: (
        options(path, features="products")
        .__class__(
            data=str(path), label="label", party="site", public="open", protect_auxiliary=True, features="products"
        )
        .check()
    ),
    "no table": lambda path: JobOptions(features="products").check(),
    "a forest of a schema, which has no labels": lambda path: fit_features("forest", np.eye(50), np.full(50, -1), 2),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED.keys())
def test_a_map_that_no_run_fits_is_refused(call: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter):
        call(tmp_path / "t.csv")
