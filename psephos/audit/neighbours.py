"""Neighbouring tables: the same file with other rows of one party.

Other rows are the same, in the same order; but pandas may write their cells otherwise (`PartyTable.write`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from psephos.data.tables import canonical, is_number, read_table
from psephos.protocol.errors import DataError, PsephosError

if TYPE_CHECKING:
    import pandas as pd

Generator = np.random.Generator
FOREIGN = "no such class"
NEW_VALUE = "nowhere else"
EXTREME = "9e99"
"""Close to the largest number that a table may hold, 1e100."""


@dataclass(frozen=True)
class PartyTable:
    """A table with a column that names the owner of each row."""

    cells: pd.DataFrame = field(repr=False)
    label: str
    party: str
    public: str = ""

    @classmethod
    def read(cls, path: Path, label: str, party: str, public: str = "") -> PartyTable:
        """Read a CSV or Parquet file. Other arguments: as the attributes."""
        cells = read_table(path)
        if missing := [name for name in (label, party) if name not in cells.columns]:
            raise DataError(f"{path} has no column {missing[0]!r}; it has: {', '.join(cells.columns)}")
        return cls(cells.reset_index(drop=True), label, party, canonical(public))

    @property
    def private(self) -> PartyTable:
        return replace(self.with_cells(self.cells[self.cells[self.party] != self.public]), public="")

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of the parties, sorted, without that of the public rows."""
        return tuple(sorted(set(self.cells[self.party]) - {self.public}))

    @property
    def features(self) -> list[str]:
        return [name for name in self.cells.columns if name not in (self.label, self.party)]

    @property
    def classes(self) -> list[str]:
        """Labels of the public rows, sorted, or of all rows where none are public."""
        labels = self.cells[self.label]
        chosen = labels[self.cells[self.party] == self.public] if self.public else labels
        classes = sorted(set(chosen) - {""})
        if len(classes) < 2:
            raise DataError(f"neighbours need two classes or more in the column {self.label!r}")
        return classes

    def places(self, party: str) -> list[int]:
        """Return the places of the rows of a party, counted from 0."""
        return np.flatnonzero(self.cells[self.party] == party).tolist()

    def lines(self, party: str) -> set[int]:
        return {place + 2 for place in self.places(party)}

    def numeric(self, column: str) -> bool:
        """Return whether a column holds only numbers and empty cells."""
        return all(is_number(cell) for cell in self.cells[column] if cell)

    @property
    def typed(self) -> pd.DataFrame:
        """The table with numbers and dates as pandas holds them: one gap makes all whole numbers of a column floats."""
        import pandas as pd

        table = self.cells.copy()
        for name in table.columns:
            for typed in (pd.to_numeric, partial(pd.to_datetime, format="ISO8601")):
                with suppress(ValueError):
                    table[name] = typed(self.cells[name])
                    break
        return table

    def write(self, path: Path) -> Path:
        """Write a CSV file as pandas writes the typed table; returns its path."""
        self.typed.to_csv(path, index=False)
        return path

    def with_cells(self, cells: pd.DataFrame) -> PartyTable:
        """Return a table with the same columns and owners and other rows."""
        return replace(self, cells=cells.reset_index(drop=True))

    def with_values(self, places: Any, columns: Any, values: Any) -> PartyTable:
        """Return the table with other values in the cells at these places and columns; itself where there are none."""
        if len(columns) == 0:
            return self
        cells = self.cells.copy()
        cells.loc[places, columns] = values
        return self.with_cells(cells)


def synthetic_table(seed: int = 0, *, parties: int = 6, rows: int = 9, public: int = 30) -> PartyTable:
    """Return a synthetic table with columns of numbers with gaps, numbers, dates, text and codes, and two classes."""
    import pandas as pd

    generator, codes = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    lines = []
    sizes = [2 * rows + 7, rows + 2, rows + 1, *[rows] * parties][:parties]
    names = [("open", public), *((f"site {number}", size) for number, size in enumerate(sizes))]
    for name, count in names:
        for place in range(count):
            ill = generator.random() < 0.5
            pressure = f"{generator.normal(150 if ill else 120, 12):.1f}" if generator.random() < 0.9 else ""
            seen = f"2024-{1 + generator.integers(12):02}-{1 + generator.integers(28):02}"
            ward = ("north", "south", "east")[generator.integers(2) if ill else 2]
            label = ("ill", "well")[place % 2] if name == "open" else "ill" if ill else "well"
            code = str(codes.integers(1, 4))
            lines.append((name, pressure, f"{generator.normal():.3f}", seen, ward, code, label))
    cells = pd.DataFrame(lines, columns=["site", "pressure", "score", "seen", "ward", "code", "outcome"], dtype=str)
    order = generator.permutation(len(cells))
    return PartyTable(cells.iloc[order].reset_index(drop=True), "outcome", "site", "open")


SCHEMA = """classes = ["ill", "well"]
[columns]
pressure = {kind = "number", minimum = 90, maximum = 200}
score = {kind = "number", minimum = -3, maximum = 3}
seen = {kind = "date", minimum = 2024-01-01, maximum = 2024-12-31}
ward = {kind = "text", values = ["north", "south", "east"]}
code = {kind = "number", minimum = 1, maximum = 3}
"""
"""The schema of `synthetic_table`."""


# -- changes of one party's rows

Change = Callable[[PartyTable, str, Generator], PartyTable]


def _exchanged(table: PartyTable, removed: Iterable[int], rows: pd.DataFrame | None = None, at: int = 0) -> PartyTable:
    """Return the table without the rows at some places, and with others before the place `at` of what remains."""
    import pandas as pd

    kept = table.cells.drop(index=list(removed))
    return table.with_cells(kept if rows is None else pd.concat([kept.iloc[:at], rows, kept.iloc[at:]]))


def _copies(table: PartyTable, party: str, generator: Generator, count: int = 1) -> pd.DataFrame:
    """Return copies of any rows, as rows of the party with random classes."""
    rows: pd.DataFrame = table.cells.iloc[generator.integers(len(table.cells), size=count)].copy()
    rows[table.party], rows[table.label] = party, generator.choice(table.classes, size=count)
    return rows


def _somewhere(table: PartyTable, generator: Generator, removed: int = 0) -> int:
    return int(generator.integers(len(table.cells) - removed + 1))


def add_rows(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    """Duplicate one to three of the party's rows."""
    own = table.cells.iloc[generator.choice(table.places(party), size=generator.integers(1, 4))]
    return _exchanged(table, [], own, _somewhere(table, generator))


def remove_rows(table: PartyTable, party: str, generator: Generator, *, count: int = 0) -> PartyTable:
    """Remove `count` of the party's rows, or 1 to all but one of them; at least one remains."""
    places = table.places(party)
    if len(places) < 2:
        return table
    return _exchanged(table, generator.choice(places, size=count or generator.integers(1, len(places)), replace=False))


def replace_rows(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    """Replace all the party's rows by a random number of copies of any rows."""
    own = table.places(party)
    rows = _copies(table, party, generator, int(generator.integers(1, 2 * len(own) + 1)))
    return _exchanged(table, own, rows, _somewhere(table, generator, len(own)))


def replace_record(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    """Replace one of the party's rows, in its place, by a copy of any row."""
    place = generator.choice(table.places(party))
    return _exchanged(table, [place], _copies(table, party, generator), place)


def add_record(table: PartyTable, party: str, generator: Generator, *, column: str = "") -> PartyTable:
    """Add a copy of any row, maybe with a very large number; twelve rows of a new person if `column` names persons."""
    rows = _copies(table, party, generator)
    numbers = [name for name in table.features if table.numeric(name)]
    if column:
        rows = rows.loc[rows.index.repeat(12)]
        rows[column] = NEW_VALUE
    elif numbers and generator.random() < 0.5:
        rows[generator.choice(numbers)] = EXTREME
    return _exchanged(table, [], rows, _somewhere(table, generator))


def remove_person(table: PartyTable, party: str, generator: Generator, *, column: str, fewest: int = 2) -> PartyTable:
    """Remove all rows of one of the party's persons, where there are `fewest` or more; `column` names persons."""
    own = table.cells.iloc[table.places(party)][column]
    if own.nunique() < fewest:
        return table
    return _exchanged(table, own.index[own == generator.choice(sorted(own.unique()))])


def replace_person(table: PartyTable, party: str, generator: Generator, *, column: str) -> PartyTable:
    """Replace all rows of one of the party's persons by those of another person."""
    other = remove_person(table, party, generator, column=column, fewest=1)
    return add_record(other, party, generator, column=column)


def permute_rows(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    places, order = table.places(party), np.arange(len(table.cells))
    order[places] = generator.permutation(places)
    return table.with_cells(table.cells.iloc[order])


def interleave_rows(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    """Interleave the parties' rows in another way; no party's rows change, nor their order."""
    owners = table.cells[table.party].to_numpy()
    turns = generator.permutation(owners)
    order = np.empty(len(owners), dtype=np.intp)
    for owner in np.unique(owners):
        order[turns == owner] = np.flatnonzero(owners == owner)
    return table.with_cells(table.cells.iloc[order])


def relabel_rows(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    """Give all the party's rows one class, which one of them does not have; random ones of a label that is a number."""
    places = table.places(party)
    if table.numeric(table.label):
        return table.with_values(places, table.label, generator.choice(table.classes, size=len(places)))
    first = table.cells.loc[places[0], table.label]
    return table.with_values(places, table.label, generator.choice([name for name in table.classes if name != first]))


def add_foreign_label(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    """Give some of the party's rows a label that is none of the classes."""
    places = table.places(party)
    return table.with_values(places[: generator.integers(1, len(places) + 1)], table.label, FOREIGN)


def add_category(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    """Put a value that no other row has into a cell of the party, in a column of text (or dates, which refuse it)."""
    texts = [name for name in table.features if not table.numeric(name)]
    return table.with_values(generator.choice(table.places(party)), generator.choice(texts) if texts else [], NEW_VALUE)


def empty_values(table: PartyTable, party: str, generator: Generator) -> PartyTable:
    """Empty the features of one row, and give its dates a time: pandas then writes these columns otherwise."""
    place, types = generator.choice(table.places(party)), table.typed[table.features].dtypes
    dates = [name for name in table.features if types[name].kind == "M"]
    return table.with_values(place, table.features, "").with_values(place, dates, "2024-02-29 18:30:00.5")


def insert_extreme(table: PartyTable, party: str, generator: Generator, *, label: bool = False) -> PartyTable:
    """Put a very large number into all columns of numbers, in one of the party's rows; or into its label."""
    numbers = [table.label] if label else [name for name in table.features if table.numeric(name)]
    return table.with_values(generator.choice(table.places(party)), numbers, EXTREME)


@dataclass(frozen=True)
class Neighbour:
    """A change of one party's rows."""

    name: str
    change: Change
    reorders: bool = False

    def of(self, table: PartyTable, party: str, seed: int) -> PartyTable:
        """Return the neighbour of a table; `seed`: of the random choices. Raises DataError for a party without rows."""
        if not table.places(party):
            raise DataError(f"the party {party!r} has no row in the table")
        return self.change(table, party, np.random.default_rng([seed, len(self.name)]))


NEIGHBOURS: tuple[Neighbour, ...] = (
    Neighbour("rows added", add_rows),
    Neighbour("rows removed", remove_rows),
    Neighbour("rows relabelled", relabel_rows),
    Neighbour("a label that is no class", add_foreign_label),
    Neighbour("a new category", add_category),
    Neighbour("empty values", empty_values),
    Neighbour("an extreme number", insert_extreme),
    Neighbour("rows permuted", permute_rows),
    Neighbour("all rows replaced", replace_rows),
)
"""The changes for protocols that protect a party."""

RECORD = Neighbour("one record replaced", replace_record)
"""The change for protocols that protect a record."""

RECORDS: tuple[Neighbour, ...] = (
    RECORD,
    Neighbour("one record added", add_record),
    Neighbour("one record removed", partial(remove_rows, count=1)),
    Neighbour("empty values", empty_values),
    Neighbour("a new category", add_category),
    Neighbour("an extreme number", insert_extreme),
    Neighbour("records permuted", permute_rows, reorders=True),
)
"""The changes for protocols that protect a record and keep the number of rows private."""

EXTREME_LABEL = Neighbour("an extreme label", partial(insert_extreme, label=True))
"""The change of one record for protocols that predict a number."""

NO_CHANGE = Neighbour("rows interleaved differently", interleave_rows)
"""A change of no party's rows, after which all results must be equal."""


def of_persons(column: str) -> tuple[Neighbour, ...]:
    changes: dict[str, Callable[..., PartyTable]] = {
        "replaced": replace_person,
        "added": add_record,
        "removed": remove_person,
    }
    return tuple(Neighbour(f"one person {how}", partial(change, column=column)) for how, change in changes.items())


def is_own_error(error: PsephosError, table: PartyTable, party: str) -> bool:
    """Return whether an error is about the rows of this party alone: it names their lines, the party, or its file."""
    message = str(error)
    if not isinstance(error, DataError):
        return False
    lines = {int(number) for number in re.findall(r"\bline (\d+)", message)}
    return f"{party}.csv" in message or (lines <= table.lines(party) if lines else repr(party) in message)
