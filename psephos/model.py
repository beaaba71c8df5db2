"""The released classifier as a file, and back: plain JSON, checked field by field when it is read.

What is released is linear in the encoded features, and everything else in the file is public too: how a row becomes
numbers, and what the release cost. So a model can be read by a person and by any other program, and reading one runs
nothing. A file from somebody else is still only as good as its sender: nothing in it is signed.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array

from psephos.data.tables import Encoding, cells_of
from psephos.protocol.errors import DataError, InvalidParameter, ModelError
from psephos.results import Release

__all__ = ["MODEL_FILE", "Model", "ReleasedClassifier", "load_model", "write_atomically", "write_onnx", "written_model"]

MODEL_FILE = "model.json"
"""In the directory that `psephos run --output` writes."""
MOST_BYTES = 1 << 28
"""Of a model file; a larger one is not read."""

Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Row = Annotated[tuple[Finite, ...], Meta(min_length=1)]


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file holds.

    Attributes:
        psephos_model: the version of this format.
        classes: their names, K of them.
        encoding: how a row of a table becomes d numbers.
        coefficients, intercepts: (1, d) and (1,) for two classes, of which a positive score is the second; (K, d) and
            (K,) for more.
        method, parties: how it was learned, and from how many.
        release: what it cost each of them.
        warnings: what must be said wherever a prediction of it is shown, such as that its keys were test keys.
    """

    psephos_model: Literal[1]
    classes: Annotated[tuple[str, ...], Meta(min_length=2)]
    encoding: Encoding
    coefficients: Annotated[tuple[Row, ...], Meta(min_length=1)]
    intercepts: Row
    method: str
    parties: Annotated[int, Meta(ge=1)]
    release: Release
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        width, rows = len(self.encoding.features), 1 if len(self.classes) == 2 else len(self.classes)
        if len(self.coefficients) != rows or len(self.intercepts) != rows:
            raise ValueError(f"{len(self.classes)} classes take {rows} rows of coefficients and as many intercepts")
        if any(len(row) != width for row in self.coefficients):
            raise ValueError(f"a row of coefficients has {width} entries, one for each feature of the encoding")
        names = [column.name for column in self.encoding.columns]
        if len(set(names)) < len(names) or len(set(self.classes)) < len(self.classes):
            raise ValueError("two columns, or two classes, have the same name")


class ReleasedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A released classifier, ready to predict: a scikit-learn estimator that is not fitted again.

    Rows are a DataFrame with the columns of the table that it was learned from (other columns are ignored), or numbers,
    float64 (n, d), the encoded features in the order of `feature_names_in_`. Attributes as in scikit-learn: classes_
    (K,), coef_ (1, d) or (K, d), intercept_, n_features_in_, feature_names_in_. Scores are no probabilities: the noise
    is in their scale, too.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the classes."""
        return np.array(self.model.classes)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the encoded features, (1, d) or (K, d)."""
        return np.array(self.model.coefficients)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts, (1,) or (K,)."""
        return np.array(self.model.intercepts)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the encoded features."""
        return np.array(self.model.encoding.features, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """d, the number of encoded features."""
        return len(self.model.encoding.features)

    def fit(self, X: Any, y: Any = None) -> ReleasedClassifier:
        """Refused: raises InvalidParameter."""
        raise InvalidParameter("a released classifier is not fitted again: to learn from other data is another release")

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The scores: (n,) for two classes (positive: `classes_[1]`), (n, K) for more.

        Raises DataError for rows that are not of the encoding's columns or width, and for NaN or infinite numbers.
        """
        scores: NDArray[np.float64] = self.encode(X) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the largest score, (n,), the first of equals; raises as `decision_function`."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])

    def encode(self, X: Any) -> NDArray[np.float64]:
        """The encoded features of rows, float64 (n, d), as `model.onnx` takes them; raises as `decision_function`."""
        if hasattr(X, "columns"):
            return self.model.encoding.apply(cells_of(X))
        try:
            rows: NDArray[np.float64] = check_array(X, dtype=np.float64, ensure_min_samples=0)
        except ValueError as error:
            raise DataError(str(error)) from None
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"rows have {rows.shape[1]} numbers, and the classifier takes {self.n_features_in_} features"
            )
        return rows


def load_model(path: str | os.PathLike[str]) -> ReleasedClassifier:
    """The classifier in a model file, or in the directory that `psephos run --output` wrote.

    Raises ModelError for a file that is missing, too large, or no whole model of this version: the message says where.
    """
    file = Path(path).expanduser()
    file = file / MODEL_FILE if file.is_dir() else file
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ModelError(f"{file} is larger than any model: {MOST_BYTES >> 20} MiB are read at most")
        return ReleasedClassifier(msgspec.json.decode(file.read_bytes(), type=Model))
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{file} is no whole model of this version of psephos: {error}") from None


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write the whole file, with these permissions, or none; raises OSError."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(file.name, mode)
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the user's name of it, not ours


def written_model(model: Model) -> bytes:
    """The bytes of a model file: one object, a field a line."""
    fields = msgspec.to_builtins(model)
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()
    )
    return f"{{\n{lines}\n}}\n".encode()


def write_onnx(model: Model, path: Path) -> None:
    """The classifier as ONNX, of `features`, double (n, d), encoded: `label`, strings (n,), `scores`, double (n, K).

    In double precision throughout, so that it decides what the estimator does. The encoding of a table is not in it.
    Raises InvalidParameter where the package onnx is not installed.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise InvalidParameter("ONNX takes the package onnx: pip install 'psephos[onnx]'") from None
    weights, intercepts = np.array(model.coefficients), np.array(model.intercepts)
    if len(model.classes) == 2:  # the first class scores 0
        weights, intercepts = np.vstack([np.zeros_like(weights), weights]), np.array([0.0, *intercepts])
    classes, width = len(model.classes), weights.shape[1]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["features", "weights"], ["products"]),
            helper.make_node("Add", ["products", "intercepts"], ["scores"]),
            helper.make_node("ArgMax", ["scores"], ["place"], axis=1, keepdims=0),
            helper.make_node("Gather", ["classes", "place"], ["label"]),
        ],
        "psephos",
        [helper.make_tensor_value_info("features", TensorProto.DOUBLE, ["n", width])],
        [
            helper.make_tensor_value_info("label", TensorProto.STRING, ["n"]),
            helper.make_tensor_value_info("scores", TensorProto.DOUBLE, ["n", classes]),
        ],
        [
            numpy_helper.from_array(np.ascontiguousarray(weights.T), "weights"),
            numpy_helper.from_array(intercepts, "intercepts"),
            numpy_helper.from_array(np.array(model.classes, dtype=object), "classes"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="psephos")
    helper.set_model_props(made, {"features": json.dumps(model.encoding.features), "method": model.method})
    checker.check_model(made)
    write_atomically(path, made.SerializeToString())
