"""A table of one's own, dealt to parties: whose row it is, what is public, what is left out to measure on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psephos.data.datasets import Dataset
from psephos.data.splits import AUXILIARY_SHARE, Split, deal_rows
from psephos.data.tables import MANY_VALUES, Encoding, is_gap, read_table
from psephos.options import option
from psephos.protocol.errors import DataError, InvalidParameter

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FEWEST_ROWS", "OwnTable", "TableOptions"]

FEWEST_ROWS = 3
"""Of a class: one of fewer rows is more likely a typing error."""

FEWEST_PUBLIC = 10
"""Public rows that an encoding can be settled by, and a classifier be learned on."""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table of one's own is read; a field is an option of its command."""

    data: str | None = option(None, "Your own table: a CSV or Parquet file.", group="Your own data")
    label: str | None = option(None, "The column with the class.", group="Your own data")
    party: str | None = option(
        None,
        "The column that says whose row it is.",
        group="Your own data",
        shown="rows are dealt to --parties at random",
    )
    public: str | None = option(
        None,
        "Public rows, for the auxiliary samples and the encoding: a value of the --party column, or another file.",
        group="Your own data",
        shown="a tenth of the rows, at random",
    )
    ignore: tuple[str, ...] = option((), "Columns that are no features, such as a number.", group="Your own data")
    text: tuple[str, ...] = option((), "Columns of numbers that stand for words, such as codes.", group="Your own data")
    held_out: float = option(
        0.2, "Share of the private rows that nobody trains on, to measure on; 0 for none.", group="Your own data"
    )

    def check_table(self) -> None:
        """Raise InvalidParameter where the options about the table do not fit together."""
        alone = [name for name in ("label", "party", "public", "ignore", "text") if getattr(self, name)]
        if self.data is None and alone:
            raise InvalidParameter(f"--{alone[0]} is about your own table: name it with --data FILE")
        if self.data is not None and self.label is None:
            raise InvalidParameter("--data needs --label COLUMN, the column with the class")
        if not 0 <= self.held_out < 1:
            raise InvalidParameter(f"--held-out is a share from 0 to below 1, not {self.held_out}")


class OwnTable:
    """The rows of a table with their labels and owners, read once.

    Attributes:
        name: of the file.
        owners: names of the parties in the order of their rows, without the public one; () without --party.
    """

    def __init__(self, options: TableOptions) -> None:
        """Read the file and find what cannot be used. Raises as `read_table`, InvalidParameter, DataError."""
        options.check_table()
        if options.data is None or options.label is None:
            raise InvalidParameter("no table was named: --data FILE --label COLUMN")
        path = Path(options.data).expanduser()
        self.name, self._options = path.name, options
        table = read_table(path)
        special = [name for name in (options.label, options.party) if name is not None]
        for name in (*special, *options.ignore, *options.text):
            if name not in table.columns:
                raise DataError(f"{path} has no column {name!r}; it has: {', '.join(table.columns)}")
        for name in special:
            if name in options.ignore or special.count(name) > 1:
                raise InvalidParameter(f"the column {name!r} cannot be two things at once")
        features = [name for name in table.columns if name not in (*special, *options.ignore)]
        if not features:
            raise DataError(f"no column of {path} is left to learn from")
        self._labels = table[options.label]
        public, extra = self._public(table, path)
        self._features = table[features] if extra is None else _stacked(table[features], extra)
        if extra is not None:
            self._labels = _stacked(self._labels.to_frame(), extra)[options.label]
        self._is_public = public
        self._check_labels()
        owners = None if options.party is None else table[options.party]
        if owners is not None and (empty := owners[~public[: len(table)]] == "").any():
            raise DataError(f"no {options.party!r} in line {empty.idxmax()}: say whose row it is, or take it out")
        self._owners = owners
        self.owners: tuple[str, ...] = () if owners is None else tuple(owners[~public[: len(table)]].unique())

    def _public(self, table: pd.DataFrame, path: Path) -> tuple[NDArray[np.bool_], pd.DataFrame | None]:
        """Which rows are public, and the rows of another file, which are, as well."""
        options, public = self._options, np.zeros(len(table), bool)
        if options.public is None:
            return public, None
        other = Path(options.public).expanduser()
        named = options.party is not None and bool((table[options.party] == options.public).any())
        if named and other.is_file():
            raise InvalidParameter(f"--public {options.public} is a party and a file: ./{options.public} is the file")
        if named:
            return np.asarray(table[options.party] == options.public), None
        if not other.is_file():
            column = "" if options.party is None else f" and no value of the column {options.party!r}"
            raise DataError(f"--public {options.public} is no file{column}")
        if path.resolve() == other.resolve():
            raise DataError(f"{path} cannot be private and public")
        extra = read_table(other)
        wanted = [name for name in table.columns if name not in (options.label, options.party, *options.ignore)]
        if missing := [name for name in wanted if name not in extra.columns]:
            raise DataError(f"{other} has no column {', '.join(map(repr, missing))}, which {path} has")
        if options.label not in extra.columns:
            extra = extra.assign(**{str(options.label): ""})
        return np.concatenate([public, np.ones(len(extra), bool)]), extra

    def _check_labels(self) -> None:
        """Every private row has a label, and every class enough rows."""
        label = self._options.label
        private = self._labels[~self._is_public]
        if not len(private):
            raise DataError("every row is public: there is nobody left to protect")
        if (gap := is_gap(private)).any():
            raise DataError(
                f"no {label!r} in line {gap.idxmax()} ({gap.sum()} rows in all): fill them in, or take them out"
            )
        counts = private.value_counts()
        if len(counts) < 2:
            raise DataError(f"the column {label!r} holds one class only, {counts.index[0]!r}")
        rare = [str(name) for name in counts.index[counts < FEWEST_ROWS]]
        if len(counts) > MANY_VALUES and len(rare) > len(counts) / 2:
            raise DataError(
                f"the column {label!r} holds {len(counts)} different values, most of them once or twice: "
                "is it a measurement? A class has many rows"
            )
        if rare:
            line = private.index[private == rare[0]][0]
            raise DataError(
                f"the class {rare[0]!r} has fewer than {FEWEST_ROWS} rows (the first in line {line}): a "
                f"typing error? The classes: {', '.join(map(str, counts.index[:10]))}"
            )
        self.classes = tuple(sorted(str(name) for name in counts.index))

    def _remarks(self, held: Sequence[NDArray[np.intp]], encoding: Encoding) -> list[str]:
        """What only who holds the private rows may know."""
        found = [
            f"{count} private cells of the column {name!r} hold a value that no public row has: 0 in all its features"
            for name, count in encoding.unknown(self._features.iloc[np.concatenate(held)]).items()
        ]
        if single := [number for number, rows in enumerate(held) if len(rows) == 1]:
            who = f"the party {self.owners[single[0]]!r}" if self.owners else f"party {single[0]}"
            more = f" and {len(single) - 1} more hold" if len(single) > 1 else " holds"
            found.append(f"{who}{more} a single row: all that it can say is that row's class")
        if len({name.lower() for name in self.classes}) < len(self.classes):
            found.append(f"two classes differ by capital letters only: {', '.join(self.classes)}")
        return found

    def _held(self, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Those of the rows that each owner holds, in their order."""
        assert self._owners is not None
        place = {name: number for number, name in enumerate(self.owners)}
        owner = np.array([place[name] for name in self._owners.to_numpy()[rows]])
        by_owner = rows[np.argsort(owner, kind="stable")]
        return np.split(by_owner, np.cumsum(np.bincount(owner, minlength=len(place))))[:-1]

    def deal(
        self, parties: int, seed: int, *, sizes: str | Sequence[int] = "equal", concentration: float = 0.5
    ) -> Split:
        """Who holds what. Public rows are encoded with the others, in the way that they alone settle.

        Args:
            parties: M, as many as `owners`; without those the rows are dealt to them at random.
            sizes, concentration: of that, as in `psephos.data.splits.deal_rows`.
            seed: of the dealing, of public rows that nobody named, and of the rows that are held out.

        Raises DataError for too few rows, and as `Encoding` does.
        """
        generator, options = np.random.default_rng(seed), self._options
        cautions = []
        private = generator.permutation(np.flatnonzero(~self._is_public))
        auxiliary = np.flatnonzero(self._is_public)
        if options.public is None:
            loose = private if self._owners is None else _loose(self._held(private), generator)
            auxiliary = loose[: max(FEWEST_PUBLIC, round(AUXILIARY_SHARE * len(private)))]
            private = private[~np.isin(private, auxiliary)]
            cautions.append(
                f"{len(auxiliary)} rows, chosen at random, are taken to be public: name those that are with --public"
            )
        if len(auxiliary) < FEWEST_PUBLIC:
            raise DataError(
                f"{len(auxiliary)} public rows are too few to learn on: at least {FEWEST_PUBLIC}, named by "
                "--public, or taken from parties that have several rows"
            )
        if self._owners is not None:
            held = self._held(private)
        else:
            known = np.unique(self._labels.to_numpy()[private], return_inverse=True)[1]
            held = deal_rows(private, known, parties, sizes, concentration, generator)
        if min(map(len, held)) == 0:
            raise DataError(f"{len(private)} private rows are too few for {len(held)} parties, each of which needs one")
        encoding, said = Encoding.learn(self._features.iloc[auxiliary], options.text)
        numbers = {name: k for k, name in enumerate(self.classes)}
        y = np.array([numbers.get(label, -1) for label in self._labels], np.int64)
        test = _hold_out(held, y, options.held_out, generator)
        kept = np.ones(len(y), bool)
        kept[test] = False
        train = [rows[kept[rows]] for rows in held]
        data = Dataset(
            self.name,
            encoding.apply(self._features),
            y,
            None,
            None,
            self.classes,
            f"the file {self.name}",
            tuple(encoding.features),
        )
        return Split(
            data,
            seed,
            auxiliary,
            tuple(train),
            test,
            encoding=encoding,
            cautions=(*cautions, *said),
            remarks=tuple(self._remarks(held, encoding)),
        )


def _loose(held: Sequence[NDArray[np.intp]], generator: np.random.Generator) -> NDArray[np.intp]:
    """All rows but one of each party's, in random order."""
    return generator.permutation(np.concatenate([rows[1:] for rows in held]))


def _hold_out(
    held: Sequence[NDArray[np.intp]], y: NDArray[np.int64], share: float, generator: np.random.Generator
) -> NDArray[np.intp]:
    """That share of each class, but never a party's last row."""
    loose = _loose(held, generator)
    total = np.bincount(y[np.concatenate(held)])
    chosen = [loose[y[loose] == label][: round(share * count)] for label, count in enumerate(total)]
    return np.sort(np.concatenate(chosen))


def _stacked(first: Any, second: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    both: pd.DataFrame = pd.concat([first, second[list(first.columns)]])
    return both
