"""Tables of people's own: every cell is read as it is meant or refused by name, and public rows alone settle how."""

from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.data.tables import LARGEST, Encoding, canonical, cells_of, read_cells, read_table
from psephos.protocol.errors import DataError, DataSetMissingError


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def public(**columns: list[str]) -> pd.DataFrame:
    return cells_of(pd.DataFrame(columns, dtype=str))


# -- cells

EQUAL = (
    ("7", "7.0", "7.00", "+7", "007", "7e0", " 7 ", "70E-1"),
    ("0", "-0", "0.00", "-0.0", "1e-400", "False", "FALSE", "false"),
    ("1", "1.0", "True", "TRUE", "true"),
    ("0.1", ".1", "0.10", "1e-1", "0.1000000000000000055"),
    ("1.2345678901234567e+19", "12345678901234567890", "12345678901234567890.0", "1.2345678901234567E19"),
    ("9007199254740992", "9007199254740993", "9007199254740993.0"),
    ("", "NA", "n/a", "NaN", "nan", "null", "?", "NaT", "<NA>", "  "),
    (
        "2024-12-31",
        "2024-12-31 00:00",
        "2024-12-31T00:00:00.000Z",
        "2024-12-31 01:00:00+01:00",
        "2024-12-30T23:00-0100",
    ),
    ("2024-12-31 18:00:00", "2024-12-31T18:00", "2024-12-31 18:00:00.000000"),
    ("2024-12-31 18:00:00.5", "2024-12-31T18:00:00.500"),
    ("1849-12-31 23:40:28", "1850-01-01 00:00:00+00:19:32", "1850-01-01T00:00+001932"),
    ("2012-03-04", "2012/03/04", "2012/3/4", "2012.03.04", "2012/03/04 00:00"),
    ("-5", "\u22125", "-5.0", "\u22125e0"),
    ("Z\u00fcrich", "Zu\u0308rich", "Z\u00fcrich\u200b", "\ufeffZ\u00fcrich\u00a0"),
    ("St Gallen", "St  Gallen", "St\u00a0Gallen", "St\u2009 Gallen"),
    ("10 days", "10 days 00:00:00", "10 days 00:00:00.000000"),
    ("-1 days", "-1 days +00:00:00"),
    ("5 days 02:00:00.5", "5 days 02:00:00.500000"),
    ("Nat",),
    ("inf",),
    ("1e999",),
    ("1,5",),
    ("2024-13-01",),
    ("0001-01-01 00:00+01:00",),
)
"""Cells of equal values; the first is their text."""


@pytest.mark.parametrize("cells", EQUAL, ids=lambda cells: cells[0])
def test_equal_values_have_one_text(cells: tuple[str, ...]) -> None:
    assert [canonical(cell) for cell in cells] == [cells[0]] * len(cells)


@given(st.one_of(st.text(max_size=12), st.floats().map(repr), st.integers().map(str), st.datetimes().map(str)))
def test_the_text_of_a_cell_is_its_own(cell: str) -> None:
    assert canonical(canonical(cell)) == canonical(cell)


# -- reading

PLAIN = "age,city\n41,Lima\n,Oslo\n"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\n\n"),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.replace("Lima", '" Lima "'),
        gzip.compress(PLAIN.encode()),
    ],
    ids=["plain", "bom", "windows", "blank-lines", "semicolons", "tabs", "bars", "quotes", "gz"],
)
def test_equal_tables_in_different_csv_dialects(tmp_path: Path, content: str | bytes) -> None:
    table = read_table(written(tmp_path / ("t.csv" if isinstance(content, str) else "t.csv.gz"), content))
    assert table.columns.tolist() == ["age", "city"]
    assert table.to_numpy().tolist() == [["41", "Lima"], ["", "Oslo"]]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ('h;"pressure, systolic, mmHg";"a, b, c, d"\n1;2;3\n', "h|pressure, systolic, mmHg|a, b, c, d"),
        ('h,"a;b;c;d;""e""",g\n1,2,3\n', 'h|a;b;c;d;"e"|g'),
        ('"two\nlines; of; it",h\n1,2\n', "two lines; of; it|h"),
        ('h,size 5",g\n1,2,3\n', 'h|size 5"|g'),
        ("sep=;\nh;a,b,c\n1;2\n", "h|a,b,c"),
        ('"sep=,"\r\nh,a;b;c\r\n1,2\r\n', "h|a;b;c"),
        ("Dru\u0308ck\u200b,a\u00a0b\n1,2\n", "Dr\u00fcck|a b"),
        ("h\n1\n", "h"),
    ],
)
def test_names_of_columns_and_their_separator(tmp_path: Path, content: str, names: str) -> None:
    table = read_table(written(tmp_path / "t.csv", content))
    assert table.columns.tolist() == names.split("|")
    assert table.to_numpy().tolist() == [["1", "2", "3"][: len(table.columns)]]


@pytest.mark.parametrize("suffix", [".csv", ".csv.GZ", ".PARQUET"])
def test_a_row_of_gaps_is_a_row(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    if suffix == ".PARQUET":
        pd.DataFrame({"a": ["1", None, "3"], "b": ["x", None, ""]}).to_parquet(path)
    else:
        content = b"a,b\n1,x\n,\n\n3,\n"
        path.write_bytes(gzip.compress(content) if suffix == ".csv.GZ" else content)
    assert read_table(path).to_numpy().tolist() == [["1", "x"], ["", ""], ["3", ""]]
    one = read_table(written(tmp_path / "one.csv", 'a\n1\n""\n3\n\n'))
    assert one["a"].tolist() == ["1", "", "3"]


def test_rows_have_numbers_and_named_indices_are_columns(tmp_path: Path) -> None:
    """The index of a file is data, perhaps private."""
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["secret", "north"], name="hospital"))
    frame.to_parquet(tmp_path / "t.parquet")
    for table in (read_table(tmp_path / "t.parquet"), cells_of(frame)):
        assert table.to_dict("list") == {"hospital": ["secret", "north"], "x": ["1", "2"]}
        assert cells_of(table).equals(table)
        with pytest.raises(DataError, match="row 2") as refused:
            Encoding.learn(table)[0].apply(table.assign(x=["1", "old"]))
        assert "north" not in str(refused.value)
    frame.rename_axis(None).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns.tolist() == ["x"]


def test_parquet_and_csv_files_agree(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "age": [41.5, np.nan],
            "count": [1, 2**53],
            "city": ["Lima", None],
            "ill": [True, False],
            "seen": pd.to_datetime(["2024-02-29 00:00", "2024-12-31 18:00"]),
            "day": [date(2024, 2, 29), None],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.to_numpy().tolist() == [
        ["41.5", "1", "Lima", "1", "2024-02-29", "2024-02-29"],
        ["", str(2**53), "", "0", "2024-12-31 18:00:00", ""],
    ]
    encoding, _ = Encoding.learn(table)
    assert [column.kind for column in encoding.columns] == ["number", "number", "text", "number", "date", "date"]
    for cell in ([1, 2], b"bytes"):
        pd.DataFrame({"a": [cell], "b": [1]}).to_parquet(tmp_path / "other.parquet")
        with pytest.raises(DataError, match="'a' holds something other"):
            read_table(tmp_path / "other.parquet")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n\n",
        "a,b\n",
        "a\n1\n\n2\n",
        "a,A\n1,2\n",
        "a,b,a\n1,2,3\n",
        ",b\n1,2\n",
        "a,b\n1,2\n1,2,3\n",
        "a,b\n1,2\n\n3\n",
        'a,b\n1,"2\n',
        "a,b\nä,2\n".encode("latin-1"),
        "a,b\n1,2\n".encode("utf-16"),
        b"PK\x03\x04\x00\x00",
    ],
)
def test_invalid_tables_are_refused(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(DataError):
        read_table(written(tmp_path / "t.csv", content))


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataSetMissingError, match="there is no file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(DataSetMissingError, match="is a directory"):
        read_table(tmp_path)
    with pytest.raises(DataError, match="Parquet"):
        read_table(written(tmp_path / "t.parquet", PLAIN))
    with pytest.raises(DataError, match="decompression failed"):
        read_table(written(tmp_path / "t.csv.gz", PLAIN))


# -- decimal commas

COMMAS = """weight;size;code;ill
1,5;1,5;1,5;0,0
-2,25;A;07;0,1
3;B;2,50;0,1
"""


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_decimal_comma_is_read_in_numbers_and_codes(tmp_path: Path, separator: str) -> None:
    table = read_table(written(tmp_path / "t.csv", COMMAS.replace(";", separator)))
    encoding, _ = Encoding.learn(table, text=["code"])
    assert [column.values for column in encoding.columns] == [(), ("1.5", "A", "B"), ("1.5", "2.5", "7"), ()]
    assert encoding.apply(table)[:, [0, -1]].tolist() == [[1.5, 0.0], [-2.25, 0.1], [3.0, 0.1]]
    assert encoding.apply(table)[:, 1:-1].sum(axis=1).tolist() == [2.0] * 3
    assert not encoding.unknown(table)
    assert read_cells(tmp_path / "t.csv")["ill"].tolist() == ["0,0", "0,1", "0,1"]


@pytest.mark.parametrize("own", ["size;x\n1,5;1\n1,50;2\n", "size,x\n1.5,1\n1.50,2\n"])
def test_a_text_column_stays_text_for_every_party(tmp_path: Path, own: str) -> None:
    """A party whose cells all look like numbers, with whatever comma, has the public rows' values."""
    encoding, _ = Encoding.learn(read_table(written(tmp_path / "public.csv", COMMAS))[["size"]])
    assert encoding.apply(read_table(written(tmp_path / "own.csv", own))).tolist() == [[1.0, 0.0, 0.0]] * 2


# -- encoding


def test_encoding_of_each_kind_of_column() -> None:
    rows = public(
        age=["20", "", "-4e1", "nan"],
        city=["Oslo", "Rome", "?", "Oslo"],
        seen=["1970-01-02", "1970-01-03 12:00", "", "1970-01-05T00:00:00Z"],
        code=["7", "X7", "7.0", ""],
        number=["1", "2", "3", "4"],
    )
    encoding, cautions = Encoding.learn(rows, text=["code"])
    assert encoding.features == ["age", "city=Oslo", "city=Rome", "seen", "code=7", "code=X7", "number"]
    assert not cautions
    private = public(
        number=["9", "."], city=["Rome", "Lima"], age=["NA", "7"], seen=["", "1969-12-31"], code=["8", "7"]
    )
    with pytest.raises(DataError, match="'number' holds something other than a finite number"):
        encoding.apply(private)
    private.loc[2, "number"] = ".5"
    assert encoding.apply(private).tolist() == [
        [-10.0, 0.0, 1.0, 2.5, 0.0, 0.0, 9.0],
        [7.0, 0.0, 0.0, -1.0, 1.0, 0.0, 0.5],
    ]
    assert encoding.unknown(private) == {"city": 1, "code": 1}
    summary = dict(encoding.summary)
    assert "a gap is read as -10" in summary["age"]
    assert "2 values: Oslo, Rome" in summary["city"]
    assert "days since 1970-01-01" in summary["seen"]


@pytest.mark.parametrize(
    "cells",
    [
        ["", "NaN"],
        ["1", "inf"],
        ["1", "-Infinity"],
        ["1e999", "2"],
        ["1,5", "2"],
        ["1,234", "2,5"],
        ["1 162", "7"],
        ["1\u202f162", "1\u00a0001,5"],
        ["1'162", "1\u2019162.5"],
        ["118%", "7.5 %", "7"],
        ["1,5", "1 162"],
        ["1", "2", "old"],
        ["03/04/2024", "05/04/2024"],
        ["2024-13-01", "2024-01-01"],
    ],
)
def test_invalid_cells_are_refused(cells: list[str]) -> None:
    with pytest.raises(DataError):
        Encoding.learn(public(x=cells))


def test_suspicious_columns_are_reported() -> None:
    many = [f"town {place % 21}" for place in range(63)]
    names = [f"person {place}" for place in range(63)]
    numbers = [str(1000 + 7 * place) for place in range(63)]
    floats = [str(place / 7) for place in range(63)]
    same = {"same": ["1"] * 63, "alike": ["a"] * 63}
    encoding, cautions = Encoding.learn(public(many=many, names=names, numbers=numbers, floats=floats, **same))
    assert len(encoding.features) == 21 + 63 + 4
    assert [caution.split("'")[1] for caution in cautions] == ["many", "names", "same", "alike"]
    assert "21 different texts" in cautions[0]
    assert not Encoding.learn(public(few=[f"town {place % 20}" for place in range(60)]))[1]


@pytest.mark.parametrize(
    ("name", "cells", "warned"),
    [
        ("patient_id", ["7", "12", "90"], True),
        ("PatientID", ["a7", "a12", "a90"], True),
        ("id", ["10482", "93847", "55012"], True),
        ("case-no", ["7", "12", "90"], True),
        ("patient_id", ["7", "7", "90"], False),
        ("Weight_in_lbs", [str(1613 + 137 * place) for place in range(40)], False),
        ("weight", ["70", "81", "93"], False),
        ("humid", ["7", "12", "90"], False),
        ("row", [str(place) for place in range(1, 40)], True),
        ("measured", [str(place / 7) for place in range(40)], False),
    ],
)
def test_columns_that_identify_rows_are_named(name: str, cells: list[str], warned: bool) -> None:
    warnings = Encoding.learn(public(**{name: cells}))[1]
    assert bool(warnings) == warned
    assert all(f"--ignore {name}" in warning for warning in warnings)


def test_a_private_cell_is_not_repeated() -> None:
    encoding, _ = Encoding.learn(public(age=["1", "2"]))
    with pytest.raises(DataError, match="row 2") as refused:
        encoding.apply(public(age=["3", "seventy"]))
    assert "seventy" not in str(refused.value)
    with pytest.raises(DataError, match="no column 'age'; it has 'years' only"):
        encoding.apply(public(years=["3"]))


@given(st.lists(st.one_of(st.floats(-LARGEST, LARGEST), st.integers(-(2**60), 2**60), st.none()), min_size=1))
def test_numbers_are_encoded_exactly(values: list[float | None]) -> None:
    cells = cells_of(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    if all(value is None for value in values):
        return
    encoding, _ = Encoding.learn(cells)
    there = [float(value) for value in values if value is not None]
    filled = [float(np.median(there)) if value is None else float(value) for value in values]
    assert encoding.apply(cells)[:, 0].tolist() == filled


@given(st.lists(st.text(max_size=20), min_size=1, max_size=30))
def test_any_text_is_encoded_or_refused_by_name(cells: list[str]) -> None:
    table = cells_of(pd.DataFrame({"x": pd.Series(cells, dtype=object)}))
    try:
        encoding, _ = Encoding.learn(table)
    except DataError:
        return
    assert np.isfinite(encoding.apply(table)).all()
    assert set(encoding.unknown(table)) <= {"x"}
