"""Writes and reads released models: JSON files, whose fields are checked when they are read.

All of a file is public, and reading it runs no code. It is not signed: trust it as far as you trust its sender.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from psephos.curator.ledger import NeighbourCost, Release, costs_together
from psephos.data.onnx_map import TREES_OPSET, MapGraph
from psephos.data.tables import Encoding
from psephos.files import write_atomically
from psephos.protocol.errors import InvalidParameter, ModelError
from psephos.protocol.foreign import has_controls, read_bytes

MODEL_FILE = "model.json"
"""Name of the model file in the directory that `psephos run --output` writes."""
MOST_BYTES = 1 << 28
"""The largest model file that is read, in bytes."""

Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Row = Annotated[tuple[Finite, ...], Meta(min_length=1)]
Earlier = Annotated[tuple[Release, ...], Meta(max_length=1000)]  # the time of their joint cost grows as the square


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of a model file: a classifier that is linear in the features of the encoding.

    It is linear in the table's encoded columns where the encoding has no map.

    Attributes:
        psephos_model: the format.
        classes, encoding, method: public; the encoding has d features.
        coefficients, intercepts: (1, d) and (1,) for two classes, where a positive score means the second.
        parties: number of parties that contributed; 0 for a model of public rows alone.
        release: the mechanism and its privacy cost; of the latest release if there were several.
        warnings: texts to show with every prediction.
        calibration: slope and intercept of the Platt scaling that the coefficients contain, with which the sigmoid of
            the score is a probability. None is not written to the file.
        earlier, together: earlier releases, the latest first, and the joint cost of all (`costs_together`).
    """

    psephos_model: Literal[1]
    classes: Annotated[tuple[str, ...], Meta(min_length=2)]
    encoding: Encoding
    coefficients: Annotated[tuple[Row, ...], Meta(min_length=1)]
    intercepts: Row
    method: str
    parties: Annotated[int, Meta(ge=0)]
    release: Release
    warnings: tuple[str, ...] = ()
    calibration: tuple[Finite, Finite] | None = None
    earlier: Earlier = ()
    together: tuple[NeighbourCost, ...] = ()

    def __post_init__(self) -> None:
        _check_costs(self)
        width, rows = len(self.encoding.features), 1 if len(self.classes) == 2 else len(self.classes)
        if len(self.coefficients) != rows or len(self.intercepts) != rows:
            raise ValueError(f"{len(self.classes)} classes take {rows} rows of coefficients and as many intercepts")
        if any(len(row) != width for row in self.coefficients):
            raise ValueError(f"a row of coefficients has {width} entries, one for each feature of the encoding")
        names = [column.name for column in self.encoding.columns]
        if len(set(names)) < len(names) or len(set(self.classes)) < len(self.classes):
            raise ValueError("two columns, or two classes, have the same name")
        if self.calibration is not None and rows > 1:
            raise ValueError("a calibrated model has two classes")


class RegressionModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of a model file that predicts a number; other fields as in `Model`.

    `ranges` are the smallest and largest value of each of the d features, and `bounds` of the prediction: values
    outside count as the nearer end. `coefficients` is (d,), `intercept` the prediction of a row of zeros.
    """

    psephos_model: Literal[1]
    task: Literal["regression"]
    label: str
    encoding: Encoding
    ranges: Annotated[tuple[tuple[Finite, Finite], ...], Meta(min_length=1)]
    coefficients: Row
    intercept: Finite
    bounds: tuple[Finite, Finite]
    method: str
    parties: Annotated[int, Meta(ge=0)]
    release: Release
    warnings: tuple[str, ...] = ()
    earlier: Earlier = ()
    together: tuple[NeighbourCost, ...] = ()

    def __post_init__(self) -> None:
        _check_costs(self)
        width, names = len(self.encoding.features), [column.name for column in self.encoding.columns]
        if len(self.coefficients) != width or len(self.ranges) != width:
            raise ValueError("there is one coefficient and one range for each feature of the encoding")
        if any(low > high for low, high in (*self.ranges, self.bounds)):
            raise ValueError("a range begins above its end")
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name")


def _check_costs(model: Model | RegressionModel) -> None:
    """Raise ValueError unless a model's noise fits its parties, and `together` is the joint cost of its releases."""
    if (model.parties == 0) != (model.release.mechanism == "none"):
        raise ValueError("a model has noise exactly where parties were asked")
    if model.together != (costs_together((model.release, *model.earlier)) if model.earlier else ()):
        raise ValueError("what the releases cost together does not follow from what each of them costs")


class _Task(Struct):
    """The field of a model file that says what it predicts."""

    task: str = "classification"


def read_model(path: str | os.PathLike[str]) -> Model | RegressionModel:
    """Read a model from a file, or from the directory that `psephos run --output` wrote; raises ModelError."""
    file = Path(path).expanduser()
    file = file / MODEL_FILE if file.is_dir() else file
    try:
        content = read_bytes(file, MOST_BYTES)
        if msgspec.json.decode(content, type=_Task).task != "classification":
            return msgspec.json.decode(content, type=RegressionModel)
        model = msgspec.json.decode(content, type=Model)
        if any(map(has_controls, model.classes)):
            raise ModelError(f"{file} is not used: a class is named by characters that control a terminal")
        return model
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{file} is not a complete model of this version of psephos: {error}") from None


def written_model(model: Model | RegressionModel) -> bytes:
    """Encode a model as the bytes of a model file: one JSON object with a field on each line."""
    fields = msgspec.to_builtins(model)
    if isinstance(model, Model) and model.calibration is None:
        del fields["calibration"]  # files without it remain readable by earlier versions
    if not model.earlier:
        del fields["earlier"], fields["together"]
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()
    )
    return f"{{\n{lines}\n}}\n".encode()


def write_onnx(model: Model | RegressionModel, path: Path) -> None:
    """Write the model as ONNX, in double precision; the encoding of tables is not included, a map of columns is.

    The input is `features`, double (n, d), encoded columns. The outputs of a classifier are `label`, string (n,), and
    `scores`, double (n, K); of a regression `prediction`, double (n, 1). A row with a number that is not finite has the
    label "" or the prediction NaN. Raises InvalidParameter without the package onnx, and OSError.
    """
    try:
        from onnx import checker, helper, numpy_helper, parser
    except ImportError:
        raise InvalidParameter("writing ONNX needs the package onnx; in a clone: pip install -e '.[onnx]'") from None
    text, constants = _regression_graph(model) if isinstance(model, RegressionModel) else _classifier_graph(model)
    graph, opsets = parser.parse_graph(text), [helper.make_opsetid("", 13)]
    constants |= {"zero": np.array(0.0), "columns": np.array([1])}
    if model.encoding.map is not None:
        mapping, linear = MapGraph(model.encoding.map), list(graph.node)
        constants |= mapping.constants
        del graph.node[:]
        graph.node.extend([*mapping.nodes, *linear])
        opsets.append(helper.make_opsetid("ai.onnx.ml", TREES_OPSET))
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    onnx_model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="psephos")
    helper.set_model_props(onnx_model, {"features": json.dumps(model.encoding.inputs), "method": model.method})
    checker.check_model(onnx_model)
    write_atomically(path, onnx_model.SerializeToString())


_NAN = """
    zeros = Mul(features, zero)
    nan = ReduceSum<keepdims=1>(zeros, columns)
"""
"""Computes `nan` (n, 1): NaN for each row with a number that is not finite, 0 for others."""


def _classifier_graph(model: Model) -> tuple[str, dict[str, NDArray[Any]]]:
    """Return the ONNX graph of a classifier as text, and its constants."""
    weights, intercepts, width = np.array(model.coefficients), np.array(model.intercepts), len(model.encoding.inputs)
    if len(model.classes) == 2:  # the first class scores 0
        weights, intercepts = np.vstack([np.zeros_like(weights), weights]), np.array([0.0, *intercepts])
    classes, rows = len(model.classes), "features" if model.encoding.map is None else "mapped"
    nodes = f"""
        products = MatMul({rows}, weights)
        scores = Add(products, intercepts)
        largest = ArgMax<axis=1, keepdims=0>(scores)
        row = Squeeze(nan, columns)
        unknown = IsNaN(row)
        place = Where(unknown, none, largest)
        label = Gather(classes, place)
    """
    graph = f"psephos (double[n, {width}] features) => (string[n] label, double[n, {classes}] scores) {{{_NAN}{nodes}}}"
    return graph, {
        "weights": np.ascontiguousarray(weights.T),
        "intercepts": intercepts,
        "classes": np.array([*model.classes, ""], dtype=object),
        "none": np.array(classes, dtype=np.int64),
    }


def _regression_graph(model: RegressionModel) -> tuple[str, dict[str, NDArray[Any]]]:
    """Return the graph of a prediction: features clipped to their ranges, and the prediction to its bounds."""
    low, high = np.array(model.ranges).T
    rows, width = "features" if model.encoding.map is None else "mapped", len(model.encoding.inputs)
    nodes = f"""
        raised = Max({rows}, low)
        clipped = Min(raised, high)
        products = MatMul(clipped, coefficients)
        linear = Add(products, intercept)
        within = Clip(linear, smallest, largest)
        prediction = Add(within, nan)
    """
    graph = f"psephos (double[n, {width}] features) => (double[n, 1] prediction) {{{_NAN}{nodes}}}"
    return graph, {
        "low": low,
        "high": high,
        "coefficients": np.array(model.coefficients)[:, None],
        "intercept": np.array([model.intercept]),
        "smallest": np.array(model.bounds[0]),
        "largest": np.array(model.bounds[1]),
    }
