"""Users' own tables: which party holds which rows, which rows are public, and which are held out as test rows.

A party's contribution depends on its own rows and on public values only: its place on its name, its held-out rows on
its own rows, the seed and its name or place, the encoding and the classes on public rows or a schema.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from psephos.data.datasets import Dataset
from psephos.data.fit_features import FEATURES_HELP, Features, fit_features
from psephos.data.schema import DRAWN_SAMPLES, Schema, read_schema
from psephos.data.splits import Split, deal_rows
from psephos.data.tables import (
    FEW_CLASSES,
    MANY_VALUES,
    Encoding,
    canonical,
    cells_of,
    check_classes,
    check_distinct,
    check_names,
    described_columns,
    first_row,
    is_number,
    numbers_of,
    places_of,
    read_table,
)
from psephos.options import Options, option
from psephos.protocol.errors import DataError, InvalidParameter

if TYPE_CHECKING:
    import pandas as pd


FEWEST_PUBLIC = 10
"""Smallest number of public rows that can determine an encoding and serve as auxiliary samples."""

FEWEST_COPIES = 5
"""Smallest number of public rows with an equal private one that is remarked on."""

_SHOWN = 8  # values of a column that an error names, at most
_HELD_OUT_STREAM = 2  # number of the random stream of a run's seed that chooses held-out rows


_option = partial(option, group="Your own data")


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """Options for reading a user's own table; each field is an option of the command line."""

    data: str | None = _option(None, "Your own table: a CSV or Parquet file.")
    label: str | None = _option(None, "The column with the class, or with the number to predict.", name=True)
    party: str | None = _option(
        None, "The column that says whose row it is.", shown="rows are dealt to --parties at random", name=True
    )
    public: str | None = _option(
        None,
        "Rows that are public, for the auxiliary samples and the encoding: a value of the --party column, or another "
        "file.",
    )
    schema: str | None = _option(
        None,
        "A TOML file with the columns, their ranges and values, and the classes, in place of public rows; or a Table "
        "Schema (*.json).",
    )
    classes: tuple[str, ...] = _option(
        (), "Names of the classes.", shown="of the schema, or of the public rows", name=True
    )
    other_labels: str = _option(
        "refuse",
        "What becomes of a private row whose label is no class: refuse (an error), drop (it is left out, as is a row "
        "without a label), or the class that it counts as.",
        name=True,
    )
    ignore: tuple[str, ...] = _option((), "Columns to leave out, such as row numbers and identifiers.", name=True)
    text: tuple[str, ...] = _option((), "Columns of numbers that stand for words, such as codes.", name=True)
    held_out: Annotated[float, Meta(ge=0, le=0.9)] = _option(
        0.2, "Share of each party's rows that it does not train on, to measure on; 0 for none."
    )
    features: Features = _option("linear", FEATURES_HELP)

    @property
    def person_column(self) -> str | None:
        """The column that names the person of a row, if persons are protected; None otherwise."""
        return None

    @property
    def names_classes(self) -> bool:
        """Whether --classes can name the classes."""
        return True

    @property
    def predicts_number(self) -> bool:
        """Whether the label is a number to predict instead of a class."""
        return vars(self).get("task") == "regression"

    def check_table(self) -> None:
        """Raise InvalidParameter if the options about the table are invalid or contradict each other."""
        if self.data is None:
            defaults = {one.name: one.default for one in fields(self)}
            for one in fields(TableOptions):
                if getattr(self, one.name) != defaults[one.name]:
                    name = one.name.replace("_", "-")
                    raise InvalidParameter(f"--{name} is about your own table: name it with --data FILE")
            if self.predicts_number:
                raise InvalidParameter("a number is predicted in your own table: name it with --data FILE")
            return
        if self.label is None:
            raise InvalidParameter("--data needs --label COLUMN, the column with the class")
        if not (self.public or self.schema):
            raise InvalidParameter(
                "--data needs something public to settle the encoding and the auxiliary samples by: name public rows "
                "with --public (a party, or a file), or describe the columns with --schema FILE"
            )
        if self.schema is not None and self.text:
            raise InvalidParameter("--text is for columns that public rows settle; the schema says which are text")


class Frames(NamedTuple):
    """A table in memory in place of files: its rows, and public ones, None where a schema is in their place."""

    rows: pd.DataFrame
    public: pd.DataFrame | None


class OwnTable:
    """The rows of a table with their labels and owners.

    Attributes:
        name: name of the file.
        owners: names of the parties, sorted, without the public one; () without --party.
        classes: names of the K classes; () for a numeric label. Public.
    """

    def __init__(self, options: TableOptions, frames: Frames | None = None) -> None:
        """Read the file or frames, and check everything that does not depend on the distribution of the rows."""
        import pandas as pd

        options.check_table()
        if options.data is None or options.label is None:
            raise InvalidParameter("no table was named: --data FILE --label COLUMN")
        path = Path(options.data).expanduser()
        self.name, self._options = path.name, options
        self._schema: Schema | None = None
        if options.schema is not None:
            others = (*_special_columns(options), *options.ignore)
            self._schema = read_schema(Path(options.schema).expanduser(), options.label, others)
        table = read_table(path) if frames is None else cells_of(frames.rows)
        self._frames, self._digest = frames, b""
        if frames is not None:
            self._digest = hashlib.sha256(json.dumps(table.to_dict("list")).encode()).digest()
        features = _feature_columns(table, path, options)
        if self._schema is not None:
            self._schema.check_columns(features)
        self._labels = table[options.label]
        self._persons = None if options.person_column is None else table[options.person_column]
        public, extra = self._public(table, path)
        self._features = table[features]
        if extra is not None:
            self._features = pd.concat([self._features, extra[features]])
            self._labels = pd.concat([self._labels, extra[options.label]])
        self._is_public, private = public, ~public[: len(table)]
        self._owners = None if options.party is None else table[options.party]
        for names in (self._persons, self._owners):
            if names is not None:
                check_names(path, names[private])
        if public.all():
            raise DataError("every row is public: there is nobody left to protect")
        self.classes = () if options.predicts_number else self._class_names()
        self._y: NDArray[Any] = self._numbers() if options.predicts_number else self._class_numbers()
        self._has_label = np.isfinite(self._y) if options.predicts_number else self._y >= 0
        if self._owners is not None:
            check_distinct(f"{path}: the names in the column {options.party!r},", sorted(self._owners.unique()))
        # Sorted by name, so that a party's place does not depend on the position of its rows in the file.
        self.owners: tuple[str, ...] = () if self._owners is None else tuple(sorted(self._owners[private].unique()))
        default = getattr(type(options), "parties", None)
        if self.owners and vars(options).get("parties") not in (default, len(self.owners)):
            raise InvalidParameter(f"--party names {len(self.owners)} parties: leave --parties out", option="parties")

    def _public(self, table: pd.DataFrame, path: Path) -> tuple[NDArray[np.bool_], pd.DataFrame | None]:
        """Return which rows of the table are public, bool (rows,), and the public rows of another file, if any."""
        options, public = self._options, np.zeros(len(table), bool)
        if options.public is None:
            return public, None
        other = Path(options.public).expanduser()
        given = None if self._frames is None else self._frames.public
        owned = np.zeros(len(table), bool)
        if options.party is not None and given is None:
            owned = np.asarray(table[options.party] == canonical(options.public))
        is_party = bool(owned.any())
        if is_party and other.is_file():
            raise InvalidParameter(f"--public {options.public} is a party and a file: ./{options.public} is the file")
        if is_party:
            return owned, None
        if given is None and not other.is_file():
            column = "" if options.party is None else f" and no value of the column {options.party!r}"
            names = [] if options.party is None else sorted(table[options.party].unique())
            closest = get_close_matches(options.public, names, _SHOWN, cutoff=0.0)
            there = f", which has {', '.join(closest)}{', ...' * (len(names) > _SHOWN)}" if names else ""
            raise DataError(f"--public {options.public} is no file{column}{there}")
        if given is None and path.samefile(other):
            raise DataError(f"{path} and {other} are one file, which cannot be private and public")
        extra = read_table(other) if given is None else cells_of(given)
        required = [name for name in table.columns if name not in (*_special_columns(options), *options.ignore)]
        if missing := [name for name in required if name not in extra.columns]:
            raise DataError(f"{other} has no column {', '.join(map(repr, missing))}, which {path} has")
        if options.label not in extra.columns:
            extra = extra.assign(**{str(options.label): ""})
        return np.concatenate([public, np.ones(len(extra), bool)]), extra

    def _class_names(self) -> tuple[str, ...]:
        """Return the names of the classes, from --classes, the schema or the labels of the public rows."""
        options = self._options
        from_schema = () if self._schema is None else self._schema.classes
        if options.classes and from_schema and options.classes != from_schema:
            raise InvalidParameter("--classes and the schema name different classes: leave one of them out")
        if names := options.classes or from_schema:
            check_classes(names)
            return tuple(names)
        labels = self._labels[self._is_public]
        counts = labels[labels != ""].value_counts()
        if len(counts) < 2:
            raise DataError(
                f"the public rows have {len(counts)} classes in the column {options.label!r}: name all classes with "
                "--classes A,B or in the schema"
            )
        fractions = all(map(is_number, counts.index)) and any(float(cell) % 1 for cell in counts.index)
        many = len(counts) > MANY_VALUES or (len(counts) > FEW_CLASSES and fractions)
        if many and 2 * int((counts < 3).sum()) > len(counts):
            raise DataError(
                f"the column {options.label!r} holds {len(counts)} different values, most of them once or twice, as a "
                "continuous quantity does: predict it with psephos run --task regression --unit record, write classes "
                "(such as low and high), or name another column with --label"
            )
        names = tuple(sorted(str(name) for name in counts.index))
        check_classes(names)
        return names

    def _class_numbers(self) -> NDArray[np.int64]:
        """Return the class index of each row, int64 (n,); -1 for rows without a class, which are not trained on."""
        options, private = self._options, ~self._is_public
        self._check_filled_in()
        places = places_of(self.classes)
        y = np.array([places.get(label, -1) for label in self._labels], np.int64)
        unknown = private & (y < 0)
        if not unknown.any() or options.other_labels == "drop":
            return y
        if options.other_labels == "refuse":
            name_them = "name every class with --classes, " if options.names_classes else ""
            raise DataError(
                f"the {options.label!r} in {first_row(self._labels[unknown])} ({_rows_like_it(unknown)}) is none of "
                f"the classes {', '.join(self.classes)}: correct it, {name_them}or decide with --other-labels drop or "
                "--other-labels CLASS"
            )
        if (other := canonical(options.other_labels)) not in places:
            raise InvalidParameter(
                f"--other-labels is refuse, drop or one of the classes {', '.join(self.classes)}, not "
                f"{options.other_labels!r}"
            )
        y[unknown] = places[other]
        return y

    def _numbers(self) -> NDArray[np.float64]:
        """Return the numeric label of each row, float64 (n,); NaN for public rows without one."""
        self._check_filled_in()
        y = numbers_of(self._labels)
        if (wrong := (self._labels != "").to_numpy() & ~np.isfinite(y)).any():
            raise DataError(
                f"the {self._options.label!r} in {first_row(self._labels[wrong])} ({_rows_like_it(wrong)}) is no "
                "finite number: correct it, or leave --task regression out"
            )
        return y

    def _check_filled_in(self) -> None:
        """Raise DataError for a private row without a label, unless such rows are left out."""
        missing = (self._labels == "").to_numpy() & ~self._is_public
        if missing.any() and self._options.other_labels != "drop":
            raise DataError(
                f"no {self._options.label!r} in {first_row(self._labels[missing])} ({_rows_like_it(missing)}): fill "
                "them in, take them out, or leave them out with --other-labels drop"
            )

    def _remarks(self, rows_of: Sequence[NDArray[np.intp]], encoding: Encoding, X: NDArray[np.float64]) -> list[str]:
        """Return remarks about the private rows, which are secret; X are the encoded rows, (n, d)."""
        places = np.concatenate(rows_of)
        private = self._features.iloc[places]
        remarks = [
            f"{count} private cells of the column {name!r} hold a value that is not in the encoding: 0 in all its "
            "features"
            for name, count in encoding.unknown(private).items()
        ]
        if dropped := int((~self._is_public & ~self._has_label).sum()):
            remarks.append(f"{dropped} private rows without a valid label were left out (--other-labels drop)")
        if single := [number for number, rows in enumerate(rows_of) if len(rows) == 1]:
            who = f"the party {self.owners[single[0]]!r}" if self.owners else f"party {single[0]}"
            more = f" and {len(single) - 1} more hold" if len(single) > 1 else " holds"
            remarks.append(f"{who}{more} a single row: all that it can say is that row's label")
        if self._schema is not None:
            remarks += self._out_of_range(X[places], encoding)
        return remarks + self._copies(places, X)

    def _copies(self, private: NDArray[np.intp], X: NDArray[np.float64]) -> list[str]:
        """Return a remark if public rows seem to be private ones. Secret."""
        # Rows of few different values are alike by chance: what counts is a row that is alone of its kind among the
        # public rows, and has one equal among the private ones.
        public = np.flatnonzero(self._is_public)
        labelled = bool(self._has_label[public].any())
        kinds = [
            Counter(X[row].tobytes() + (self._y[row].tobytes() if labelled else b"") for row in rows)
            for rows in (public, private)
        ]
        alone = [kind for kind, count in kinds[0].items() if count == 1]
        copied = sum(kinds[1][kind] == 1 for kind in alone)
        if copied < FEWEST_COPIES or 2 * copied <= len(alone):
            return []
        return [
            f"at least {copied} of {len(public)} public rows seem to be private rows as well, and epsilon does not "
            "cover what is public of them: take them out of one of the two"
        ]

    def _out_of_range(self, rows: NDArray[np.float64], encoding: Encoding) -> list[str]:
        """Return remarks on the private cells outside the ranges of the schema. Secret."""
        assert self._schema is not None
        remarks = []
        for name, (low, high) in self._schema.ranges.items():
            cells = rows[:, encoding.features.index(name)]
            if count := int(((cells < low) | (cells > high)).sum()):
                remarks.append(f"{count} private cells of the column {name!r} lie outside the range of the schema")
        return remarks

    def _rows_of_owners(self, rows: NDArray[np.intp], *, may_be_none: bool = False) -> list[NDArray[np.intp]]:
        """Return the row numbers of each owner, in the order of `owners`."""
        assert self._owners is not None
        place = {name: number for number, name in enumerate(self.owners)}
        owner = np.array([place[name] for name in self._owners.to_numpy()[rows]], dtype=np.intp)
        sizes = np.bincount(owner, minlength=len(place))
        if not (may_be_none or sizes.all()):
            name = self.owners[int(sizes.argmin())]
            raise DataError(f"the party {name!r} has no row left to train on")
        return np.split(rows[np.argsort(owner, kind="stable")], np.cumsum(sizes))[:-1]

    def _held_out(
        self, rows_of: Sequence[NDArray[np.int64]], X: NDArray[np.float64], seed: int, *, by_content: bool
    ) -> list[NDArray[np.int64]]:
        """Return the rows of each party that are held out; `X` are the encoded rows, other arguments as in `deal`."""
        share = self._options.held_out
        if not by_content:
            generators = (np.random.default_rng([seed, _HELD_OUT_STREAM, number]) for number in range(len(rows_of)))
            return [held_out_rows(rows, share, own) for rows, own in zip(rows_of, generators, strict=True)]
        private = np.concatenate(rows_of)
        if self._persons is not None:
            keys = [name.encode() for name in self._persons.to_numpy()[private]]
        else:
            # Rows without owners are numbered in the whole table: to which party one is dealt depends on other rows.
            names = [self.owners[number] if self.owners else "" for number, rows in enumerate(rows_of) for _ in rows]
            keys = row_keys(X[private], self._y[private], names)
        held_out = np.zeros(len(X), dtype=np.bool_)
        held_out[private] = coins(keys, share, seed)
        return [rows[held_out[rows]] for rows in rows_of]

    def deal(
        self,
        parties: int,
        seed: int,
        *,
        sizes: str | Sequence[int] = "equal",
        concentration: float = 0.5,
        samples: int | None = None,
        by_content: bool = False,
        agreed: Encoding | None = None,
    ) -> Split:
        """Assign the rows to the parties, and encode them as the public rows or the schema determine, or as `agreed`.

        Without owners, rows are dealt at random (`psephos.data.splits.deal_rows`). `seed` is that of dealing, of
        held-out rows, and of the samples from a schema, whose number is `samples`. With `by_content` each row is held
        out by a coin of its own (`row_keys`, `coins`), as privacy of a record needs; an owner may then be left without
        a row, since one record must not decide whether it takes part.
        """
        options, generator = self._options, np.random.default_rng(seed)
        private, auxiliary = np.flatnonzero(~self._is_public & self._has_label), np.flatnonzero(self._is_public)
        if len(private) < parties and not by_content:
            raise DataError(f"{len(private)} private rows are too few for {parties} parties, each of which needs one")
        if self._owners is not None:
            rows_of = self._rows_of_owners(private, may_be_none=by_content)
        else:
            shuffled = generator.permutation(private)
            rows_of = deal_rows(shuffled, self._y[shuffled], parties, sizes, concentration, generator)
        encoding, cautions = self._encoding(auxiliary) if agreed is None else (agreed, [])
        X, y = encoding.encode(self._features), self._y
        schema_samples = self._schema_samples(samples, seed)
        if schema_samples is not None:
            assert self._schema is not None
            if encoding.columns != self._schema.encoding.columns:
                raise DataError("the schema does not encode rows as agreed: name public rows with --public")
            auxiliary = np.arange(len(X), len(X) + len(schema_samples))
            unlabelled = np.full(len(schema_samples), np.nan if options.predicts_number else -1)
            X, y = np.concatenate([X, schema_samples]), np.concatenate([y, unlabelled])
        held_out = self._held_out(rows_of, X, seed, by_content=by_content)
        encoding, mapped, note = (
            (encoding, encoding.mapped(X), "") if agreed else self._mapped(encoding, X, y, auxiliary)
        )
        names = tuple(encoding.features)
        return Split(
            Dataset(self.name, mapped, y, None, None, self.classes, f"the file {self.name}", names),
            seed,
            auxiliary,
            tuple(np.setdiff1d(rows, out) for rows, out in zip(rows_of, held_out, strict=True)),
            np.sort(np.concatenate(held_out)),
            held_out=tuple(held_out),
            encoding=encoding,
            inputs=X[auxiliary],
            note=note,
            cautions=tuple(cautions),
            remarks=tuple(self._remarks(rows_of, encoding, X)),
            persons=None if self._persons is None else np.unique(self._persons, return_inverse=True)[1],
            schema="" if self._schema is None else "encoding" if schema_samples is None else "samples",
            digest=self._digest,
        )

    def _encoding(self, auxiliary: NDArray[np.intp]) -> tuple[Encoding, list[str]]:
        """Return the encoding that the schema or the public rows determine, and the warnings about it."""
        if self._schema is not None:
            return self._schema.encoding, []
        _check_public(len(auxiliary))
        return Encoding.learn(self._features.iloc[auxiliary], self._options.text)

    def _mapped(
        self, encoding: Encoding, X: NDArray[np.float64], y: NDArray[Any], auxiliary: NDArray[np.intp]
    ) -> tuple[Encoding, NDArray[np.float64], str]:
        """Return the encoding with a map fitted to the public rows alone, all rows mapped, and what was chosen."""
        features, private = self._options.features, getattr(self._options, "private_auxiliary", False)
        fitted = fit_features("linear" if private else features, X[auxiliary], y[auxiliary], len(self.classes))
        if fitted.map is None:
            return encoding, X, fitted.note
        encoding = replace(encoding, map=fitted.map)
        mapped = encoding.mapped(X)
        mapped[auxiliary] = fitted.rows
        return encoding, mapped, fitted.note

    def _schema_samples(self, samples: int | None, seed: int) -> NDArray[np.float64] | None:
        """Draw encoded auxiliary samples from the schema, (N, d); return None if there are public rows."""
        if self._schema is None or self._options.public is not None:
            if samples is not None:
                raise InvalidParameter("--auxiliary is for a schema: named public rows are all auxiliary samples")
            return None
        count = DRAWN_SAMPLES if samples is None else samples
        _check_public(count)
        return self._schema.samples(count, seed)


def held_out_rows(rows: NDArray[np.intp], share: float, generator: np.random.Generator) -> NDArray[np.intp]:
    """Choose the rows of one party that it does not train on, sorted, by its own generator.

    share * n is rounded up or down at random, so that parties of few rows hold out as large a share of all rows as
    others; the last row of a party is never held out.
    """
    count = int(np.floor(share * len(rows) + generator.random()))
    return np.sort(generator.permutation(rows)[: min(count, len(rows) - 1)])


def row_keys(X: NDArray[np.float64], y: NDArray[Any], owners: Sequence[str]) -> list[bytes]:
    """Return what tells each encoded row apart: its owner, its values, and its number among the equal rows of this
    owner.

    Equal rows have different keys. As they are interchangeable, a row that is added, removed or replaced changes no
    other row's key.
    """
    values = np.column_stack([X, y]).astype("<f8") + 0.0  # -0.0 becomes 0.0
    equal: Counter[tuple[str, bytes]] = Counter()
    keys = []
    for owner, row in zip(owners, values, strict=True):
        content = row.tobytes()
        keys.append(repr((owner, equal[owner, content])).encode() + content)
        equal[owner, content] += 1
    return keys


def coins(keys: Sequence[bytes], share: float, seed: int) -> NDArray[np.bool_]:
    """Choose what is held out, each by its own key and the seed alone, bool (n,): equal keys go together.

    Whether one is held out depends neither on the others nor on their number or order. If one record is private, the
    sum of a neighbouring table differs in that record's part alone. All rows of a party may be held out.
    """
    limit = int(share * 2**64)
    digests = (hashlib.sha256(f"{seed}\0".encode() + key).digest() for key in keys)
    return np.array([int.from_bytes(digest[:8], "big") < limit for digest in digests], dtype=np.bool_)


def _feature_columns(table: pd.DataFrame, path: Path, options: TableOptions) -> list[str]:
    """Return the names of the columns that are features."""
    special = _special_columns(options)
    for name in (*special, *options.ignore, *options.text):
        if name not in table.columns:
            raise DataError(f"{path} has no column {name!r}; {described_columns(table)}")
    for name in special:
        if name in options.ignore or special.count(name) > 1:
            raise InvalidParameter(f"the column {name!r} cannot be two things at once")
    features = [str(name) for name in table.columns if name not in (*special, *options.ignore)]
    if not features:
        raise DataError(f"no column of {path} is left to learn from")
    return features


def _special_columns(options: TableOptions) -> list[str]:
    """Return the names of the columns that are no features: the class, the owner and the person of a row."""
    return [name for name in (options.label, options.party, options.person_column) if name is not None]


def _rows_like_it(wrong: Any) -> str:
    """Return how many rows are wrong in one way, for an error that names the first."""
    return "the only such row" if wrong.sum() == 1 else f"{wrong.sum()} rows in all"


def _check_public(count: int) -> None:
    if count < FEWEST_PUBLIC:
        raise DataError(f"{count} public rows are too few to learn on: at least {FEWEST_PUBLIC} are needed")
