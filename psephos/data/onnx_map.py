"""Public feature maps as nodes of an ONNX graph, in double precision; trees compare integers, which float32 holds."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.data.feature_map import (
    CLIP,
    LARGEST_LOG_ODDS,
    SMOOTHING,
    UNIT,
    Block,
    FeatureMap,
    Forest,
    Fourier,
    Landmarks,
    Products,
)

TREES_OPSET = 1
"""The version of the domain ai.onnx.ml that `TreeEnsembleRegressor` is taken from."""


class MapGraph:
    """The nodes and constants of a map from the tensor `features`, double (n, d), to `mapped`, double (n, d + e).

    `rows`, double (n, d), are the integers of `FeatureMap.integers`.
    """

    def __init__(self, feature_map: FeatureMap) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._count = 0
        columns = self._node("Sub", "features", self._constant(feature_map.means))
        columns = self._clipped(self._node("Div", columns, self._constant(feature_map.deviations)), CLIP)
        rows = self._node("Round", self._node("Mul", columns, self._constant(UNIT)))
        blocks = [self._block(block, rows) for block in feature_map.blocks]
        standardised = self._node("Div", rows, self._constant(UNIT))
        self._node("Concat", standardised, *blocks, output="mapped", axis=1)

    def _constant(self, value: Any, kind: Any = np.float64) -> str:
        name = f"constant {len(self.constants)}"
        self.constants[name] = np.array(value, dtype=kind)
        return name

    def _node(self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"step {len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def _clipped(self, tensor: str, limit: float) -> str:
        return self._node("Clip", tensor, self._constant(-limit), self._constant(limit))

    def _product(self, rows: str, directions: Any) -> str:
        return self._node("MatMul", rows, self._constant(np.transpose(directions)))

    def _block(self, block: Block, rows: str) -> str:
        match block:
            case Forest():
                return self._forest(block, rows)
            case Landmarks():
                points = np.array(block.points)
                own = self._node("ReduceSum", self._node("Mul", rows, rows), self._constant([1], np.int64), keepdims=1)
                inner = self._node("Mul", self._product(rows, points), self._constant(-2))
                distances = self._node("Add", self._node("Add", own, self._constant((points**2).sum(axis=1))), inner)
                return self._node("Exp", self._node("Mul", distances, self._constant(-block.rate / UNIT**2)))
            case Products():
                components = self._node("Div", self._product(rows, block.directions), self._constant(UNIT**2))
                components = self._clipped(components, CLIP)
                places = (self._constant(side, np.int64) for side in np.transpose(block.pairs))
                return self._node("Mul", *(self._node("Gather", components, place, axis=1) for place in places))
            case Fourier():
                turns = self._node("Add", self._product(rows, block.directions), self._constant(block.phases))
                turns = self._node("Div", turns, self._constant(UNIT**2))
                within = self._node("Sub", turns, self._node("Floor", turns))
                return self._node("Cos", self._node("Mul", within, self._constant(2 * np.pi)))

    def _forest(self, forest: Forest, rows: str) -> str:
        """Add the trees: float32 holds the integers that they compare and, below 2^24, the sums of their values."""
        attributes: Any
        attributes, targets = _tree_attributes(forest)
        rows = self._node("Cast", rows, to=1)
        values = self._node(
            "TreeEnsembleRegressor",
            rows,
            domain="ai.onnx.ml",
            n_targets=targets,
            aggregate_function="SUM",
            **attributes,
        )
        values = self._node("Cast", values, to=11)
        if forest.gives == "trees":
            return self._node("Div", values, self._constant(UNIT))
        total = len(forest.trees) * UNIT
        share = self._node("Mul", values, self._constant(SMOOTHING / total))
        above = self._node("Add", share, self._constant(1))
        below = self._node("Sub", self._constant(SMOOTHING + 1), share)
        return self._clipped(self._node("Log", self._node("Div", above, below)), LARGEST_LOG_ODDS)


def _tree_attributes(forest: Forest) -> tuple[dict[str, list[Any]], int]:
    """Return the attributes of a `TreeEnsembleRegressor` and the number of its targets."""
    found: dict[str, list[Any]] = defaultdict(list)
    for number, tree in enumerate(forest.trees):
        columns, thresholds, right, values = tree.arrays(forest.width)
        nodes = np.arange(len(columns))
        leaf = right == nodes
        leaves = np.repeat(nodes[leaf], forest.width)
        first = number * forest.width if forest.gives == "trees" else 0
        for name, column in {
            "nodes_treeids": np.full(len(nodes), number),
            "nodes_nodeids": nodes,
            "nodes_featureids": columns,
            "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ"),
            "nodes_values": thresholds.astype(np.float64),
            "nodes_truenodeids": np.where(leaf, 0, nodes + 1),
            "nodes_falsenodeids": np.where(leaf, 0, right),
            "target_treeids": np.full(len(leaves), number),
            "target_nodeids": leaves,
            "target_ids": first + np.arange(len(leaves)) % forest.width,
            "target_weights": values[leaf].astype(np.float64).ravel(),
        }.items():
            found[name] += column.tolist()
    return found, forest.width * (len(forest.trees) if forest.gives == "trees" else 1)
