"""A private classifier from your own CSV file: a column with the class, a column with the party, the rest features.

    python docs/examples/own_csv.py patients.csv --label outcome --party hospital --public 11

The rows of the party named by --public are the auxiliary samples: their features are taken to be public. They also
settle, in public, how a column becomes numbers. Where they hold numbers only, the column is a number, and a gap becomes
their median. Any other column is one 0/1 feature for each value they hold; a gap, and a value they do not hold, is 0 in
all of them. --ignore leaves columns out, such as the patient's number.
"""

# Needs: patients.csv
# Tested with: patients.csv --label outcome --party hospital --public 11 --epsilon 10 --test-key

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from psephos import hold_ceremony
from psephos.curator import SoftLabelClassifier, Tally
from psephos.data.preprocessing import PublicScaler
from psephos.parties import KeyHolder, Party, VotingParty
from psephos.protocol import Driver, VoteLayout, vote_round
from psephos.protocol.errors import DataError, PsephosError
from psephos.protocol.roles import Role

Row = dict[str, str]


def number(text: str) -> float | None:
    """The finite number that a cell holds, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class Encoder:
    """Rows to numbers, in a way that depends on public rows only: another way would tell about private ones."""

    def __init__(self, public: Sequence[Row], columns: Sequence[str]) -> None:
        self.medians: dict[str, float] = {}
        self.values: dict[str, list[str]] = {}
        for column in columns:
            cells = [row[column] for row in public if row[column]]
            if not cells:
                raise DataError(
                    f"no public row has a value in the column {column!r}: leave it out with --ignore {column}"
                )
            numbers = [number(cell) for cell in cells]
            if None in numbers:
                self.values[column] = sorted(set(cells))
            else:
                self.medians[column] = float(np.median(np.array(numbers, dtype=float)))
        self.names = [*self.medians, *(f"{column}={value}" for column, known in self.values.items() for value in known)]

    def __call__(self, rows: Sequence[Row]) -> NDArray[np.float64]:
        return np.array([self._row(row) for row in rows])

    def _row(self, row: Row) -> list[float]:
        encoded = []
        for column, median in self.medians.items():
            value = number(row[column]) if row[column] else median
            if value is None:  # which one it is stays with the party
                raise DataError(
                    f"the column {column!r} holds numbers in the public rows, and something else in a private one"
                )
            encoded.append(value)
        for column, known in self.values.items():
            encoded += [float(row[column] == value) for value in known]
        return encoded


def read(options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """The rows, and the columns that are features; DataError for a file that is no such table."""
    with open(options.file, newline="", encoding="utf-8-sig") as file:
        table = csv.DictReader(file)
        try:
            read_rows = list(table)
        except (UnicodeDecodeError, csv.Error):
            raise DataError(f"{options.file} is no CSV file in UTF-8") from None
        columns = list(table.fieldnames or [])
    for column in (options.label, options.party, *options.ignore):
        if column not in columns:
            raise DataError(f"{options.file} has no column {column!r}; it has: {', '.join(columns) or 'nothing'}")
    if any(None in row or None in row.values() for row in read_rows):
        raise DataError(f"a row of {options.file} has more or fewer cells than the {len(columns)} columns")
    rows = [{column: cell.strip() for column, cell in row.items()} for row in read_rows]
    features = [column for column in columns if column not in (options.label, options.party, *options.ignore)]
    if not features:
        raise DataError("no column is left to learn from")
    if not all(row[options.label] and row[options.party] for row in rows):
        raise DataError(f"a row has no {options.label} or no {options.party}: give it one, or take it out")
    return rows, features


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("file")
    asked.add_argument("--label", required=True, help="the column with the class")
    asked.add_argument("--party", required=True, help="the column that says whose row it is")
    asked.add_argument("--public", required=True, help="the party whose rows are the public auxiliary samples")
    asked.add_argument("--ignore", nargs="+", default=[], metavar="COLUMN", help="columns that are no features")
    asked.add_argument("--learner", default="logistic", help="logistic (default), tree, knn, forest, naive-bayes, svm")
    asked.add_argument("--epsilon", type=float, default=1.0, help="of each party (default 1)")
    asked.add_argument("--test-key", action="store_true", help="a short key: fast, protects nothing")
    options = asked.parse_args()

    rows, columns = read(options)
    owners = list(dict.fromkeys(row[options.party] for row in rows))
    if options.public not in owners:
        shown = ", ".join(owners[:10]) + (", ..." if len(owners) > 10 else "")
        raise DataError(f"no row has {options.public!r} in the column {options.party!r}; it holds: {shown}")
    names = [name for name in owners if name != options.public]
    if len(names) < 2:
        raise DataError(f"besides {options.public!r} there must be at least 2 parties, not {len(names)}")
    # Agreed on in public; taken from the file here, which in earnest would tell which classes occur.
    classes = sorted({row[options.label] for row in rows})
    if len(classes) < 2:
        raise DataError(f"the column {options.label!r} holds one class only")

    def rows_of(name: str) -> list[Row]:
        return [row for row in rows if row[options.party] == name]

    public = rows_of(options.public)
    encode = Encoder(public, columns)
    scaler = PublicScaler(columns="standardise", scaling="unit-rows", intercept=1.0).fit(encode(public))
    Z = scaler.transform(encode(public))

    bits = {"key_bits": 1024, "test_key": True} if options.test_key else {}
    holders = min(5, len(names))
    threshold = holders // 2 + 1
    ceremony = hold_ceremony(len(names), holders=holders, threshold=threshold, **bits)
    round_ = vote_round(ceremony.threshold_key, ceremony.roster, Z, classes, test_key=options.test_key)
    roles: list[Role] = [Tally(round_), *(KeyHolder(share, round_) for share in ceremony.shares)]
    for place, name in enumerate(names):
        mine = rows_of(name)
        party = Party(place, ceremony.signing_keys[place], classes=classes)
        party.train(scaler.transform(encode(mine)), np.array([row[options.label] for row in mine]), options.learner)
        roles.append(VotingParty(party, round_, Z))
    opened = Driver(roles).run()["curator"]
    counts = VoteLayout(len(Z), len(classes)).decode(opened.sums, opened.ballots)

    model = SoftLabelClassifier(epsilon=options.epsilon, lam=0.05, classes=classes).fit(Z, counts)
    print(f"{opened.ballots} parties, {len(Z)} public rows, {len(encode.names)} features, classes {', '.join(classes)}")
    print(f"released at epsilon = {options.epsilon:g} per party; sensitivity {model.sensitivity_.value:.3g}")
    # One row of weights for two classes (positive: the second), otherwise a row for each class.
    for label, weights in zip(classes if len(model.coef_) > 1 else classes[1:], model.coef_, strict=True):
        shown = zip([*encode.names, "constant"], weights, strict=True)
        print(f"{label}:  " + "  ".join(f"{feature} {weight:+.2f}" for feature, weight in shown))
    # A look that costs no privacy, if the labels of the public rows are public, too.
    truth = np.array([row[options.label] for row in public])
    bare = SoftLabelClassifier(epsilon=None, lam=0.05, classes=classes).fit(Z, counts)
    right, clear = np.mean(model.predict(Z) == truth), np.mean(bare.predict(Z) == truth)
    print(f"right on {right:.0%} of the public rows; without noise, which nobody may publish, {clear:.0%}")


if __name__ == "__main__":
    try:
        main()
    except (PsephosError, OSError) as error:
        sys.exit(f"own_csv.py: {error}")
