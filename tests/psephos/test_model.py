"""A model file says what was released, comes back as it was, and is hostile input when it does."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted
from typer.testing import CliRunner

import psephos
from psephos.cli.main import build
from psephos.curator.ledger import Release, costs_together
from psephos.data.fit_features import Features, fit_features
from psephos.data.tables import Column, Encoding
from psephos.model import MODEL_FILE, Model, write_onnx, written_model
from psephos.protocol.errors import DataError, InvalidParameter, ModelError, PsephosError
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.released import load_model

ENCODING = Encoding(
    (Column("age", "number", fill=40.0), Column("city", "text", values=("Lima", "Oslo")), Column("seen", "date"))
)
RELEASE = Release("spherical-laplace", 1.0, 0.0, "a party", 0.1, "l2", "sqrt(2) rho/M", chosen={"rank": 3})


def model(classes: tuple[str, ...] = ("ill", "well"), seed: int = 0) -> Model:
    generator = np.random.default_rng(seed)
    rows = 1 if len(classes) == 2 else len(classes)
    return Model(
        psephos_model=1,
        classes=classes,
        encoding=ENCODING,
        coefficients=tuple(tuple(row) for row in generator.normal(size=(rows, 4)).tolist()),
        intercepts=tuple(generator.normal(size=rows).tolist()),
        method="statistic",
        parties=25,
        release=RELEASE,
    )


KINDS: tuple[Features, ...] = ("auto", "forest", "landmarks", "products", "fourier")


def mapped(released: Model, kind: Features) -> Model:
    """The model with a feature map of this kind, fitted to random rows."""
    generator, classes = np.random.default_rng(3), len(released.classes)
    X, y = generator.normal(size=(60, 4)) * [20, 1, 1, 9], generator.integers(classes, size=60)
    encoding = msgspec.structs.replace(ENCODING, map=fit_features(kind, X, y, classes).map)
    coefficients = generator.normal(size=(len(released.coefficients), len(encoding.features)))
    return msgspec.structs.replace(released, encoding=encoding, coefficients=tuple(map(tuple, coefficients.tolist())))


MANY = (replace(RELEASE, protects=PrivacyUnit("record")),) * 1001
MODELS = [model(), model(("a", "b", "ä")), model(tuple("abcdefg"))]
MAPPED = [mapped(model(classes), kind) for classes in (("ill", "well"), ("a", "b", "ä")) for kind in KINDS]
TABLE = pd.DataFrame({"more": [1, 2, 3], "seen": ["1970-01-02", "", "1970-01-11"], "city": ["Oslo", "Rome", None],
                      "age": [41.5, np.nan, -3]})  # fmt: skip
ROWS = np.array([[41.5, 0, 1, 1], [40, 0, 0, 0], [-3, 0, 0, 10]])


@pytest.mark.parametrize("released", [*MODELS, *MAPPED])
def test_a_model_is_read_back_bit_for_bit(released: Model, tmp_path: Path) -> None:
    (tmp_path / MODEL_FILE).write_bytes(written_model(released))
    for path in (tmp_path, tmp_path / MODEL_FILE, str(tmp_path)):
        assert psephos.load_model(path).model == released
    classifier = load_model(tmp_path)
    features = released.encoding.mapped(ROWS)
    scores = features @ np.array(released.coefficients).T + released.intercepts
    assert (classifier.decision_function(ROWS) == (scores[:, 0] if scores.shape[1] == 1 else scores)).all()
    places = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
    assert classifier.predict(ROWS).tolist() == [released.classes[place] for place in places]
    assert (classifier.predict(TABLE) == classifier.predict(ROWS)).all()


def test_a_released_classifier_is_a_fitted_estimator() -> None:
    classifier = clone(psephos.ReleasedClassifier(MODELS[0]))
    assert is_classifier(classifier)
    check_is_fitted(classifier)
    assert classifier.feature_names_in_.tolist() == ["age", "city=Lima", "city=Oslo", "seen"]
    assert classifier.score(ROWS, classifier.predict(ROWS)) == 1.0
    with pytest.raises(InvalidParameter, match="another release"):
        classifier.fit(ROWS, ["ill", "well", "ill"])


@pytest.mark.parametrize(("names", "labels"), [(("1", "2"), [1, 2.0]), (("0", "1"), [False, True]), (("a", "b"), "ab")])
def test_labels_are_scored_as_the_user_has_them(names: tuple[str, str], labels: Any) -> None:
    classifier = psephos.ReleasedClassifier(msgspec.structs.replace(MODELS[0], classes=names))
    given = [labels[names.index(name)] for name in classifier.predict(ROWS)]
    for y in (given, np.array(given), pd.Series(given)):
        assert classifier.score(ROWS, y) == 1.0
    wrong = [None, *given[1:]]
    assert classifier.score(ROWS, wrong) == pytest.approx(2 / 3)
    assert classifier.score(ROWS, wrong, sample_weight=[2, 1, 1]) == 0.5


TABLES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "columns": lambda table: table.to_dict("list"),
    "rows": lambda table: table.to_dict("records"),
    "named index": lambda table: table.set_index(["city", "seen"]),
    "pyarrow": lambda table: pytest.importorskip("pyarrow").Table.from_pandas(table),
    "polars": lambda table: pytest.importorskip("polars").from_pandas(table),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_may_be_of_any_kind(kind: str) -> None:
    encoded = psephos.ReleasedClassifier(MODELS[1]).encode(TABLES[kind](TABLE))
    np.testing.assert_array_equal(encoded, ROWS)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[:, :3], "3 numbers, but the model takes 4"),
        (np.full((1, 4), np.nan), "NaN"),
        (ROWS[0], "2D"),
        (TABLE[["age", "city"]], "no column 'seen'"),
        (pd.concat([TABLE, TABLE[["age"]]], axis=1), "two columns"),
        ({"age": [1, 2], "city": ["Oslo"], "seen": [""]}, "no table"),
        (TABLE.assign(age="old"), "'age' holds something other than a finite number"),
        (TABLE.assign(city=[[1], [2], [3]]), "'city' holds something other than numbers, text and dates"),
    ],
)
def test_invalid_rows_are_refused(rows: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        psephos.ReleasedClassifier(MODELS[0]).predict(rows)


def changed(**fields: Any) -> bytes:
    return json.dumps(json.loads(written_model(MODELS[0])) | fields).encode()


COLUMN = {"name": "x", "kind": "number"}
HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "truncated": written_model(MODELS[0])[:-40],
    "pickle": b"\x80\x04K\x01.",
    "not an object": b"[1]",
    "deep": b"[" * 100_000,
    "latin": b'{"psephos_model": 1, "classes": ["\xe4", "b"]}',
    "another version": changed(psephos_model=2),
    "no version": json.dumps({k: v for k, v in json.loads(written_model(MODELS[0])).items() if k[0] != "p"}).encode(),
    "a field more": changed(code="import os"),
    "one class": changed(classes=["ill"]),
    "equal classes": changed(classes=["ill", "ill"]),
    "a class of escapes": changed(classes=["ill", "\x1b[2J"]),
    "a class written backwards": changed(classes=["ill", "\u202ewell"]),
    "three classes": changed(classes=["a", "b", "c"]),
    "narrow": changed(coefficients=[[1.0, 2.0]]),
    "ragged": changed(classes=["a", "b", "c"], coefficients=[[1.0] * 4, [1.0], [1.0] * 4], intercepts=[1.0] * 3),
    "text for a number": changed(intercepts=["1"]),
    "infinite": changed(intercepts=[0]).replace(b"[0]", b"[1e999]"),
    "huge": changed(intercepts=[1e301]),
    "not a number": changed(intercepts=[0]).replace(b"[0]", b"[NaN]"),
    "no parties": changed(parties=0),
    "an unknown kind": changed(encoding={"columns": [{"name": "x", "kind": "code"}]}),
    "equal columns": changed(encoding={"columns": [{"name": "x", "kind": "number"}] * 4}),
    "no columns": changed(encoding={"columns": []}, coefficients=[[]]),
    "many releases": written_model(
        msgspec.structs.replace(MODELS[0], release=MANY[0], earlier=MANY, together=costs_together(MANY + MANY[:1]))
    ),
    "a map of other columns": changed(
        encoding=json.loads(written_model(MAPPED[0]))["encoding"] | {"columns": [COLUMN]}
    ),
    "a map without coefficients": changed(encoding=json.loads(written_model(MAPPED[0]))["encoding"]),
    "epsilon 0": changed(release=json.loads(written_model(MODELS[0]))["release"] | {"epsilon": 0}),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_invalid_model_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(ModelError):
        load_model(tmp_path / "m.json")


@given(st.data())
def test_a_damaged_file_is_refused_or_a_model(data: st.DataObject) -> None:
    whole = bytearray(written_model(MODELS[1]))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.NamedTemporaryFile() as file:
        file.write(whole)
        file.flush()
        try:
            classifier = load_model(file.name)
        except ModelError:
            return
        assert np.isfinite(classifier.decision_function(np.zeros((1, classifier.n_features_in_)))).all()


def test_a_model_without_a_map_has_no_field_for_it() -> None:
    assert json.loads(written_model(MODELS[0]))["encoding"].keys() == {"columns"}


@pytest.mark.parametrize("released", [*MODELS, *MAPPED])
def test_onnx_and_estimator_agree(released: Model, tmp_path: Path) -> None:
    """In onnxruntime, of the table's own columns encoded, and of any numbers."""
    onnxruntime = pytest.importorskip("onnxruntime")
    write_onnx(released, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    classifier = psephos.ReleasedClassifier(released)
    encoded = classifier.encode(TABLE)
    np.testing.assert_array_equal(encoded, ROWS)
    rows = np.vstack([encoded, np.random.default_rng(1).normal(size=(500, 4)), np.zeros((1, 4))])
    labels, scores = session.run(["label", "scores"], {"features": rows})
    assert labels.tolist() == classifier.predict(rows).tolist()
    assert labels[: len(TABLE)].tolist() == classifier.predict(TABLE).tolist()
    np.testing.assert_allclose(scores[:, -1], classifier.decision_function(rows).reshape(len(rows), -1)[:, -1])
    for wrong in (np.nan, np.inf):
        ((*labels, last),) = session.run(["label"], {"features": np.vstack([rows, [1, 2, wrong, 3]])})
        assert (labels, last) == (classifier.predict(rows).tolist(), "")
    (argument,) = session.get_inputs()
    assert (argument.name, argument.type, argument.shape) == ("features", "tensor(double)", ["n", 4])
    assert json.loads(session.get_modelmeta().custom_metadata_map["features"]) == ENCODING.inputs


# -- psephos predict


def invoke(*words: str) -> Any:
    return CliRunner().invoke(build(), list(words))


def test_each_row_has_a_prediction(tmp_path: Path) -> None:
    """A row of gaps too, and in a table of one column."""
    one = Encoding((Column("a\u0302ge", "number", fill=40.0),))
    released = msgspec.structs.replace(MODELS[0], encoding=one, coefficients=((-1.0,),), intercepts=(41.0,))
    (tmp_path / MODEL_FILE).write_bytes(written_model(released))
    for content in ('\u00e2ge\n30\n""\n50\n', "\u00e2ge;city\n30;\n;\n50;Oslo\n", "city,a\u0302ge\nx,30\n,\n,50\n"):
        (tmp_path / "t.csv").write_text(content)
        done = invoke("predict", str(tmp_path), str(tmp_path / "t.csv"), "--json")
        assert json.loads(done.stdout)["predicted"] == ["well", "well", "ill"]


def test_predict_reads_and_writes_a_table(tmp_path: Path) -> None:
    (tmp_path / MODEL_FILE).write_bytes(
        written_model(msgspec.structs.replace(MODELS[1], warnings=("The key was short.",)))
    )
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    TABLE.to_parquet(tmp_path / "t.parquet")
    expected = load_model(tmp_path).predict(ROWS).tolist()
    for name in ("t.csv", "t.parquet"):
        done = invoke("predict", str(tmp_path), str(tmp_path / name), "--output", str(tmp_path / "out.csv"))
        assert done.exit_code == 0
        assert not done.stdout
        assert "WARNING: The key was short.\n" in done.stderr
        written = pd.read_csv(tmp_path / "out.csv")
        assert written["predicted"].tolist() == expected
        assert written["more"].tolist() == [1, 2, 3]
    assert invoke("predict", str(tmp_path), str(tmp_path / "t.csv")).stdout == (tmp_path / "out.csv").read_text()
    TABLE.assign(more=["1,50", "NA", "007"]).to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    invoke("predict", str(tmp_path), str(tmp_path / "t.csv"), "--output", str(tmp_path / "same.csv"))
    *own, predicted = zip(*(line.split(";") for line in (tmp_path / "same.csv").read_text().splitlines()), strict=True)
    given = zip(*(line.split(";") for line in (tmp_path / "t.csv").read_text().splitlines()), strict=True)
    assert (own, predicted) == (list(given), ("predicted", *expected)), "its own cells, as it has them"
    document = json.loads(invoke("predict", str(tmp_path), str(tmp_path / "t.csv"), "--json").stdout)
    unwritable = invoke(
        "predict", str(tmp_path), str(tmp_path / "t.csv"), "--output", str(tmp_path / "none" / "out.csv")
    )
    assert isinstance(unwritable.exception, PsephosError)
    assert (document["predicted"], document["warnings"][0]) == (expected, "The key was short.")
    assert ["'city'" in warning for warning in document["warnings"][1:]] == [True]


CALIBRATED = msgspec.structs.replace(MODELS[0], calibration=(1.0, 0.0))


@pytest.mark.parametrize(("released", "what"), [(one, "score") for one in MODELS] + [(CALIBRATED, "probability")])
def test_predict_writes_what_each_class_scores(released: Model, what: str, tmp_path: Path) -> None:
    (tmp_path / MODEL_FILE).write_bytes(written_model(released))
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    words = ("predict", str(tmp_path), str(tmp_path / "t.csv"), "--scores")
    written = pd.read_csv(io.StringIO(invoke(*words).stdout))
    names = [f"{what} of {name}" for name in released.classes]
    assert list(written.columns) == [*TABLE.columns, "predicted", *names]
    scores = written[names].to_numpy()
    assert [released.classes[place] for place in scores.argmax(axis=1)] == written["predicted"].tolist()
    classifier = load_model(tmp_path)
    expected = classifier.class_scores(ROWS) if what == "score" else classifier.predict_proba(ROWS)
    np.testing.assert_allclose(scores, expected)
    document = json.loads(invoke(*words, "--json").stdout)
    np.testing.assert_allclose(document[names[-1]], written[names[-1]], rtol=1e-14)
    written.to_csv(tmp_path / "t.csv", index=False)
    assert isinstance(invoke(*words).exception, DataError), "columns of an earlier prediction"


@pytest.mark.parametrize(
    ("change", "words", "error"),
    [
        (lambda table: table.drop(columns="city"), "no column 'city'; it has: more, seen, age", DataError),
        (
            lambda table: table.assign(seen="today"),
            "'seen' holds something other than a date.*line 2, and 2",
            DataError,
        ),
        (lambda table: table.assign(predicted=1), "'predicted'", DataError),
    ],
)
def test_predict_refuses_invalid_tables(
    change: Callable[[pd.DataFrame], pd.DataFrame], words: str, error: type[Exception], tmp_path: Path
) -> None:
    (tmp_path / MODEL_FILE).write_bytes(written_model(MODELS[0]))
    change(TABLE).to_csv(tmp_path / "t.csv", index=False)
    done = invoke("predict", str(tmp_path), str(tmp_path / "t.csv"))
    assert isinstance(done.exception, error)
    with pytest.raises(error, match=words):
        raise done.exception
