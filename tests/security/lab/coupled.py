"""Planted faults: commands in which one party's rows reach what others send, or what is written for the public."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

import psephos.data.tables
import psephos.specs.noisy
from psephos.audit.end_to_end import COLLUDERS
from psephos.audit.neighbours import NO_CHANGE
from psephos.data.own import OwnTable
from psephos.data.splits import Split
from psephos.parties.training import train_parties
from psephos.protocol.grids.error_evaluation import ERROR_WEIGHTS, ErrorGrid, ErrorSums
from psephos.protocol.grids.evaluation import ScoreGrid
from psephos.protocol.grids.record import RecordGrid
from psephos.simulation.job import Job
from psephos.simulation.sums import Trained
from tests.security.lab.edits import replaced

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Coupled:
    """One fault, and the check of a pipeline on a neighbour that must notice it."""

    name: str
    pipeline: str
    neighbour: str
    check: str
    place: Any
    function: str
    broken: Wrapper

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The fault is in place while the block runs."""
        original = getattr(self.place, self.function)
        with replaced([self.place], self.function, original, self.broken(original)):
            yield


# -- 1: what one party trains on follows from everybody's rows


def _undivided(original: Callable[..., Split], table: OwnTable, *given: Any, **how: Any) -> Split:
    """The deal without any row held out."""
    whole = copy.copy(table)
    whole._options = replace(table._options, held_out=0.0)
    return original(whole, *given, **how)


def _by_place(original: Callable[..., Split]) -> Callable[..., Split]:
    """Rows are held out by their number and place, as where a party is protected."""

    def deal(self: OwnTable, parties: int, seed: int, **how: Any) -> Split:
        return original(self, parties, seed, **how | {"by_content": False})

    return deal


def _scaled_by_own_rows(original: Callable[..., Any]) -> Callable[..., Any]:
    """Rows are divided by the largest entry among the party's own rows."""

    def row_vectors(self: RecordGrid, X: Any, y: Any, *more: Any) -> Any:
        rows = np.array(X)
        rows[:, :-1] /= np.abs(rows[:, :-1] / rows[:, -1:]).max(axis=0, initial=1e-9)
        return original(self, rows, y, *more)

    return row_vectors


def _each_row(original: Callable[..., Any]) -> Callable[..., Any]:
    """The sum over rows, whoever the persons are."""

    def contribution(self: RecordGrid | ScoreGrid | ErrorGrid, X: Any, y: Any, persons: Any = None) -> Any:
        return original(self, X, y)

    return contribution


def _unbounded(original: Callable[..., Any]) -> Callable[..., Any]:
    """The distance of a label from the middle counts whatever it is."""

    def row_vectors(self: ErrorGrid, X: Any, y: Any) -> Any:
        vectors, place = original(self, X, y), ErrorSums._fields.index("deviation")
        distance = 2 * (np.asarray(y) - self.label.middle) / (self.label.high - self.label.low)
        vectors[:, place] = np.clip(distance * ERROR_WEIGHTS.deviation, -self.maximum, self.maximum)
        return vectors

    return row_vectors


def _global_hold_out(original: Callable[..., Split]) -> Callable[..., Split]:
    """One permutation of all rows, and a quota of each class over everybody's labels."""

    def deal(self: OwnTable, parties: int, seed: int, **how: Any) -> Split:
        split = _undivided(original, self, parties, seed, **how)
        y, generator = split.dataset.y_train, np.random.default_rng(seed)
        rows = generator.permutation(np.concatenate(split.parties))
        quotas = np.bincount(y[rows]) * self._options.held_out
        out = np.concatenate([rows[y[rows] == label][: round(quota)] for label, quota in enumerate(quotas)])
        remaining = tuple(held[~np.isin(held, out)] if not np.isin(held, out).all() else held for held in split.parties)
        return replace(split, parties=remaining, test=np.sort(out))

    return deal


def _global_order(original: Callable[..., Split]) -> Callable[..., Split]:
    """Everybody's rows stand in the order of one permutation of all of them."""

    def deal(self: OwnTable, parties: int, seed: int, **how: Any) -> Split:
        split = original(self, parties, seed, **how)
        place = np.random.default_rng(seed).permutation(len(split.dataset.y_train))
        return replace(split, parties=tuple(rows[np.argsort(place[rows])] for rows in split.parties))

    return deal


def _one_stream(original: Callable[..., Split]) -> Callable[..., Split]:
    """Held-out rows are drawn party by party, from one stream of the seed."""

    def deal(self: OwnTable, parties: int, seed: int, **how: Any) -> Split:
        split = _undivided(original, self, parties, seed, **how)
        generator, remaining, out = np.random.default_rng(seed), [], []
        for rows in split.parties:
            count = min(round(self._options.held_out * len(rows)), len(rows) - 1)
            chosen = generator.permutation(rows)[:count]
            remaining.append(np.setdiff1d(rows, chosen))
            out.append(chosen)
        return replace(split, parties=tuple(remaining), test=np.sort(np.concatenate(out)))

    return deal


def _order_of_appearance(original: Callable[..., None]) -> Callable[..., None]:
    """Parties are numbered as their first rows stand in the file."""

    def made(self: OwnTable, options: Any, frames: Any = None) -> None:
        original(self, options, frames)
        assert self._owners is not None
        known = set(self.owners)
        self.owners = tuple(name for name in dict.fromkeys(self._owners) if name in known)

    return made


def _blocks(original: Any) -> Any:
    """Parties are trained in blocks whose size follows the largest party, to a tolerance by the place in a block."""

    def parameters(self: Any) -> Any:
        every, options = original.func(self), self._options
        step = max(1, 80 // max(len(y) for _, y in self._rows))
        for number, (X, y) in enumerate(self._rows):
            tolerance = 1e-4 / (1 + number % step)
            ((every[number]),) = train_parties(
                X, y, [len(y)], classes=self._classes, lam=options.local_lam, tolerance=tolerance
            )
        return every

    return property(parameters)


def _seeds_of_all(original: Callable[..., Any]) -> Callable[..., Any]:
    """Local training is seeded by the number of all rows."""

    def init(self: Any, options: Any, rows: Any, *given: Any) -> None:
        seed = options.seed + sum(len(y) for _, y in rows)
        original(self, replace(options, seed=seed), rows, *given)

    return init


# -- 2 and 3: public values that are read off private rows


def _learned_on_all(original: Callable[..., Any]) -> Callable[..., Any]:
    """Medians and categories are those of every row."""

    def encoding(self: OwnTable, auxiliary: Any) -> Any:
        return original(self, np.arange(len(self._features)))

    return encoding


def _fitted_to_all(original: Callable[..., Any]) -> Callable[..., Any]:
    """The feature map is fitted to every row."""

    def mapped(self: OwnTable, encoding: Any, X: Any, y: Any, auxiliary: Any) -> Any:
        return original(self, encoding, X, y, np.arange(len(X)))

    return mapped


def _as_written(original: Callable[..., str]) -> Callable[..., str]:
    """A cell is what its file says, which the gaps and times of its column determine."""
    return lambda cell, **how: cell.strip()


def _classes_of_all(original: Callable[..., Any]) -> Callable[..., Any]:
    """The classes are the labels of every row."""

    def names(self: OwnTable) -> tuple[str, ...]:
        return tuple(sorted(set(self._labels) - {""}))

    return names


def _rescaled(original: Callable[..., Any]) -> Callable[..., Any]:
    """The released intercept is multiplied by the number of private rows, after the noise."""

    def model(self: Job, result: Any) -> Any:
        model = original(self, result)
        (intercept,) = model.intercepts
        return msgspec.structs.replace(model, intercepts=(intercept * sum(map(len, self.split.parties)),))

    return model


# -- 4: noise that counts on the shares of colluding parties


def _no_colluders(original: Callable[..., Any]) -> Callable[..., Any]:
    """Shares are sized as if nobody colluded."""

    def shares(plan: Any, *, colluders: int = 0, dropouts: int = 0) -> Any:
        return original(plan, colluders=0, dropouts=dropouts)

    return shares


OWN, RECORD = "run --method own-data", "run --unit record"
RECORDS, SCORES, ERRORS = ((grid, "contribution", _each_row) for grid in (RecordGrid, ScoreGrid, ErrorGrid))
WARD, ADDED, REPLACED = f"{RECORD} --record ward", "one person added", "one person replaced"
NUMBER, SHARES = "evaluate --task regression", (psephos.specs.noisy, "shares_of", _no_colluders)

COUPLED: dict[str, Sequence[Coupled]] = {
    "rows that follow from everybody's": (
        Coupled("one hold-out of all rows", OWN, "rows added", "others' rows", OwnTable, "deal", _global_hold_out),
        Coupled("of all labels", OWN, "rows relabelled", "others' vectors", OwnTable, "deal", _global_hold_out),
        Coupled("one order of all rows", OWN, "rows removed", "others' rows", OwnTable, "deal", _global_order),
        Coupled("one stream of held-out rows", OWN, "rows removed", "others' rows", OwnTable, "deal", _one_stream),
        Coupled("order of the file", OWN, NO_CHANGE.name, "roster", OwnTable, "__init__", _order_of_appearance),
        Coupled("held out by their place", RECORD, "records permuted", "order", OwnTable, "deal", _by_place),
        Coupled("own scale", RECORD, "an extreme number", "own vector", RecordGrid, "row_vectors", _scaled_by_own_rows),
        Coupled("rows of a person", WARD, REPLACED, "own vector", *RECORDS),
        Coupled("evaluated rows of a person", "evaluate --rows all --record ward", ADDED, "own vector", *SCORES),
        Coupled(
            "evaluated numbers of a person",
            f"{NUMBER} --rows all --record ward --label score",
            ADDED,
            "own vector",
            *ERRORS,
        ),
        Coupled(
            "unbounded label",
            f"{NUMBER} --rows all --label score",
            "an extreme label",
            "own vector",
            ErrorGrid,
            "row_vectors",
            _unbounded,
        ),
        Coupled(
            "in a study",
            "study record --method newton --rows 60 --record ward --ignore ward",
            REPLACED,
            "own vector",
            *RECORDS,
        ),
        Coupled("without a delta", f"{WARD} --mechanism discrete-laplace", ADDED, "own vector", *RECORDS),
        Coupled("blocks", "run --method avg", "rows removed", "others' parameters", Trained, "parameters", _blocks),
        Coupled(
            "local seeds",
            "run --method vote --learners tree,logistic",
            "rows added",
            "others' vectors",
            Trained,
            "__init__",
            _seeds_of_all,
        ),
    ),
    "public values that follow from private rows": (
        Coupled("medians", OWN, "a new category", "public files", OwnTable, "_encoding", _learned_on_all),
        Coupled(
            "codes as written",
            f"{RECORD} --text code",
            "empty values",
            "public files",
            psephos.data.tables,
            "canonical",
            _as_written,
        ),
        Coupled(
            "a map",
            "run --method own-data --features forest",
            "rows added",
            "public files",
            OwnTable,
            "_mapped",
            _fitted_to_all,
        ),
        Coupled("number of rows", "run --method vote", "rows added", "public files", Job, "model", _rescaled),
        Coupled("classes", OWN, "a label that is no class", "public files", OwnTable, "_class_names", _classes_of_all),
    ),
    "noise that counts on colluders": (
        Coupled("no colluders", OWN, COLLUDERS, "colluders", *SHARES),
        Coupled("no colluders in a study", "study statistic --method own-data", COLLUDERS, "colluders", *SHARES),
    ),
}
"""The faults, by kind."""
