"""Rows in memory as a table of one's own: data frames or arrays, labels, whose each row is, and public rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from psephos.data.own import Frames
from psephos.protocol.errors import DataError
from psephos.protocol.names import plain
from psephos.released import named_table

if TYPE_CHECKING:
    import pandas as pd

_PUBLIC_STREAM = 3  # number of the random stream of a seed that chooses public rows


def frame_of(X: Any) -> pd.DataFrame:
    """Return rows as a data frame whose columns are named by text: x0, x1 and so on where they are not."""
    import pandas as pd

    table = named_table(X)
    frame = pd.DataFrame(np.asarray(X)) if table is None else pd.DataFrame(table).reset_index(drop=True)
    named = all(isinstance(name, str) for name in frame.columns)
    return frame if named else frame.set_axis([f"x{place}" for place in range(frame.shape[1])], axis=1)


def in_memory(
    X: pd.DataFrame, y: Any, groups: Any, public: tuple[pd.DataFrame, Any] | int | None, seed: int
) -> tuple[dict[str, Any], Frames]:
    """Return rows as a table, and the options that name it and its columns; raises DataError for other lengths.

    Args:
        X, y: rows as of `frame_of`, and their labels.
        groups: whose each row is, (n,); None where rows are dealt at random.
        public: public rows and their labels, "" for none; or how many of the rows are taken for public, by the seed; or
            None where a schema is in their place.
    """
    named = {"data": "X, y", "label": _unused("y", X)}
    rows = X.assign(**{named["label"]: _texts(y, X)})
    if groups is not None:
        named["party"] = _unused(str(getattr(groups, "name", None) or "groups"), rows)
        rows[named["party"]] = _texts(groups, X)
    if public is None:
        return named, Frames(rows, None)
    named["public"] = "the public rows"
    if isinstance(public, int):
        order = np.random.default_rng([seed, _PUBLIC_STREAM]).permutation(len(rows))
        return named, Frames(rows.iloc[np.sort(order[public:])], rows.iloc[np.sort(order[:public])])
    return named, Frames(rows, public[0].assign(**{named["label"]: _texts(public[1], public[0])}))


def _texts(values: Any, X: pd.DataFrame) -> list[Any]:
    if np.shape(values) != (len(X),):
        raise DataError(f"labels and groups are one for each row: {np.shape(values)} is not ({len(X)},)")
    return list(np.asarray(values, dtype=object))


def _unused(name: str, table: pd.DataFrame) -> str:
    """Return a name that no column has, in whatever spelling."""
    taken = {plain(str(one)).casefold() for one in table.columns}
    while plain(name).casefold() in taken:
        name += "_"
    return name
