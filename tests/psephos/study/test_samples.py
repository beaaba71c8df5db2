"""Public samples: the same numbers for everybody, cut off towards zero; and whose rows fit them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from psephos.data.preprocessing import own_scaler
from psephos.protocol.board import MemoryBoard
from psephos.protocol.errors import DataError, StudyError
from psephos.specs.terms import StudyTerms
from psephos.study.samples import CONSTANT, PublicSamples
from psephos.study.verify import examine
from tests.psephos.study.cast import Cast

FRAME = pd.DataFrame(np.random.default_rng(3).normal(size=(9, 2)), columns=["x", "y"]).assign(code=list("123412341"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    FRAME.assign(outcome=list("uvuvuvuvu")).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path / "public.csv"


def test_samples_are_truncated_to_multiples_of_2_to_the_minus_20(path: Path) -> None:
    samples = PublicSamples.read(path, "outcome")
    exact = samples.scaler.transform(samples.encoding.apply(pd.read_csv(path, dtype=str)))
    cut = samples.auxiliary.samples
    assert (cut * 2**20 == np.trunc(cut * 2**20)).all()
    assert (np.abs(cut) <= np.abs(exact)).all()
    assert np.abs(cut - exact).max() < 2.0**-20
    assert np.abs(cut - exact).max() > 2.0**-22
    norms = np.linalg.norm(cut, axis=1)
    assert (norms <= 1).all()
    assert norms.min() > 1 - 1e-5, "every row has unit length"
    assert samples.features == (*samples.encoding.features, CONSTANT)
    assert CONSTANT == "(constant)"
    assert cut.shape == (9, len(samples.features))
    assert "scaler" not in repr(samples)


def test_ignored_columns_and_text_columns(path: Path) -> None:
    plain = PublicSamples.read(path, "outcome")
    assert [column.name for column in plain.encoding.columns] == ["x", "y", "code"]
    assert [column.name for column in PublicSamples.read(path, "x", ["y"]).encoding.columns] == ["code", "outcome"]
    text = PublicSamples.read(path, "outcome", (), ["code"])
    assert len(text.features) > len(plain.features)
    for wrong in ({"ignore": ["z"]}, {"text": ["z"]}):
        with pytest.raises(DataError, match="no column 'z'; it has: x, y, code, outcome"):
            PublicSamples.read(path, "outcome", **wrong)
    assert PublicSamples.read(path, "no such label").features != plain.features
    study = Cast("tally").made.study
    for parameters, same in (({"ignore": "code"}, ["code"]), ({"text": "x,code"}, None)):
        meant = PublicSamples.read(path, "outcome", same or (), () if same else ["x", "code"])
        signed = {"public_table": meant.digest, "features": meant.features, "samples": len(FRAME)}
        study = replace(study, label="outcome", parameters=parameters, **signed)
        assert PublicSamples.of(study, path).digest == meant.digest != plain.digest
        with pytest.raises(StudyError):
            PublicSamples.of(replace(study, parameters={}), path)


def test_cautions_about_columns(tmp_path: Path) -> None:
    FRAME.assign(same=1).to_csv(tmp_path / "public.csv", index=False)
    samples = PublicSamples.read(tmp_path / "public.csv", "outcome")
    assert type(samples.cautions) is tuple
    assert any("same" in caution for caution in samples.cautions)


def test_private_rows_and_their_classes(path: Path, tmp_path: Path) -> None:
    samples, study = PublicSamples.read(path, "outcome"), replace(Cast("tally").made.study, label="outcome")
    own = FRAME.assign(outcome=["c", "a", "b"] * 3, more=7)
    own.to_csv(tmp_path / "own.csv", index=False)
    rows, classes = samples.private(study, tmp_path / "own.csv")
    assert classes.dtype == np.int64
    assert classes.tolist() == [2, 0, 1] * 3
    assert rows.shape == samples.auxiliary.samples.shape
    assert np.abs(rows - samples.auxiliary.samples).max() < 2.0**-20
    own.assign(outcome=["c", "a", "x"] * 3).to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(DataError, match=r"own.csv, line 4: the outcome is none of the study's classes \(a, b, c\)"):
        samples.private(study, tmp_path / "own.csv")
    FRAME.to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(DataError, match="no column 'outcome', which contains the study's classes"):
        samples.private(study, tmp_path / "own.csv")


def test_a_gap_in_a_members_file_changes_that_row_alone(path: Path, tmp_path: Path) -> None:
    """pandas then writes 1.0 for every code 1."""
    samples, study = (
        PublicSamples.read(path, "outcome", (), ["code"]),
        replace(Cast("tally").made.study, label="outcome"),
    )
    rows = []
    for last in (4, None):
        FRAME.assign(outcome="a", code=pd.Series([1, 2, 3, 4, 1, 2, 3, 4, last])).to_csv(
            tmp_path / "own.csv", index=False
        )
        rows.append(samples.private(study, tmp_path / "own.csv")[0])
    assert (rows[0] != rows[1]).any(axis=1).tolist() == [False] * 8 + [True]
    FRAME.assign(outcome="a", patient=2**53).to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(DataError, match="line 2"):
        PublicSamples.persons("patient", tmp_path / "own.csv")


def test_each_row_has_a_person(tmp_path: Path) -> None:
    own = FRAME.assign(patient=["z", "a", "z"] * 3)
    own.to_csv(tmp_path / "own.csv", index=False)
    owners = PublicSamples.persons("patient", tmp_path / "own.csv")
    assert owners.dtype == np.int64
    assert owners.tolist() == [1, 0, 1] * 3
    with pytest.raises(DataError, match="no column 'ward'"):
        PublicSamples.persons("ward", tmp_path / "own.csv")
    own.assign(patient=["z", "a", ""] * 3).to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(DataError, match="line 4"):
        PublicSamples.persons("patient", tmp_path / "own.csv")


# -- the digest that a study signs

PUBLIC = pd.DataFrame(
    {
        "age": [50.0, 61.5, 47.25, 70.0, 58.5, 44.0],
        "weight": [70, 81, 77, 64, 90, 59],
        "ward": list("ABABCA"),
        "code": ["10", "20", "10", "30", "20", "10"],
        "outcome": ["well", "ill", "well", "", "ill", "ill"],
        "days": ["3", "", "4.5", "7", "2", "9"],
    }
)

CHANGED: dict[str, Any] = {
    "a column in another unit": lambda t: t.assign(age=t.age * 1024),
    "a shifted column": lambda t: t.assign(age=t.age + 64),
    "names of two columns exchanged": lambda t: t.set_axis(["weight", "age", *t.columns[2:]], axis=1),
    "values of a text exchanged": lambda t: t.replace({"ward": {"A": "B", "B": "A"}}),
    "another value of a text": lambda t: t.replace({"ward": {"C": "D"}}),
    "dates with the same numbers": lambda t: t.assign(
        weight=pd.to_datetime(t.weight, unit="D").dt.strftime("%Y-%m-%d")
    ),
    "two columns in another order": lambda t: t[["weight", "age", *t.columns[2:]]],
    "another name": lambda t: t.rename(columns={"age": "year"}),
    "a row more": lambda t: pd.concat([t, t.iloc[:1]]),
    "two rows in another order": lambda t: t.iloc[[1, 0, 2, 3, 4, 5]],
    "the last bit of a cell": lambda t: t.assign(age=t.age.where(t.index > 0, np.nextafter(50.0, 51))),
    "another label": lambda t: t.replace({"outcome": {"well": "ill"}}),
    "a label more": lambda t: t.replace({"outcome": {"": "ill"}}),
    "no labels": lambda t: t.drop(columns="outcome"),
    "another numeric label": lambda t: t.replace({"days": {"4.5": "4"}}),
    "a numeric label less": lambda t: t.replace({"days": {"4.5": ""}}),
}
"""Public files that differ from PUBLIC in one attribute, by its name; some of them have the same scaled samples."""

WRITTEN: dict[str, Any] = {
    "as a typed table": lambda t, path: t.assign(ward=t.ward.astype("category")).to_parquet(
        path.with_suffix(".parquet")
    ),
    "semicolons and decimal commas": lambda t, path: t.to_csv(path, index=False, sep=";", decimal=","),
    "numbers with a point": lambda t, path: t.astype({"weight": float, "code": float}).to_csv(path, index=False),
    "exponents": lambda t, path: t.assign(age=[f"{age:.17e}" for age in t.age]).to_csv(path, index=False),
    "quotes, a mark and other ends of lines": lambda t, path: t.to_csv(
        path, index=False, quoting=1, lineterminator="\r\n", encoding="utf-8-sig"
    ),
    "labels before the features": lambda t, path: t[["days", "outcome", *t.columns[:4]]].to_csv(path, index=False),
}
"""Other files of the same content."""


def _read(folder: Path, table: pd.DataFrame, label: str, write: Any = pd.DataFrame.to_csv) -> PublicSamples:
    path = folder / "public.csv"
    write(table, path, **({"index": False} if write is pd.DataFrame.to_csv else {}))
    (path,) = folder.glob("public.*")
    ignored = "outcome" if label == "days" else "days"
    samples = PublicSamples.read(path, label, [ignored], predicts_number=label == "days")
    path.unlink()
    return samples


@pytest.mark.parametrize("change", CHANGED)
def test_a_public_file_that_differs_in_one_attribute_is_not_the_studys(change: str, tmp_path: Path) -> None:
    label = "days" if "numeric" in change else "outcome"
    samples, other = (_read(tmp_path, table, label) for table in (PUBLIC, CHANGED[change](PUBLIC)))
    fields = {"features": samples.features, "samples": len(PUBLIC), "public_table": samples.digest}
    study = replace(Cast("tally").made.study, label=label, **fields)
    assert StudyTerms(study, samples)
    assert other.digest != samples.digest
    with pytest.raises(StudyError):
        StudyTerms(study, other)
    with pytest.raises(StudyError):
        examine(study, other, MemoryBoard())


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("label", ["outcome", "days"])
def test_a_public_file_in_another_format_is_the_studys(written: str, label: str, tmp_path: Path) -> None:
    samples, other = (_read(tmp_path, PUBLIC, label, write) for write in (pd.DataFrame.to_csv, WRITTEN[written]))
    assert other.digest == samples.digest
    assert other.auxiliary.digest == samples.auxiliary.digest
    assert other.row_digests == samples.row_digests


def test_two_writings_of_a_number_are_one_value_of_a_text_and_one_label(tmp_path: Path) -> None:
    digests = set()
    for rows in ("1,7,0\n2,8,1\n3.5,7,1\n", "1.0,7.0,0.0\n2e0,8.00,1.0\n3.50,+7,1\n"):
        (tmp_path / "public.csv").write_text("x,code,y\n" + rows)
        digests.add(PublicSamples.read(tmp_path / "public.csv", "y", (), ["code"]).digest)
    assert len(digests) == 1


def test_the_digest_covers_the_encoding_and_the_kind_of_the_label(tmp_path: Path) -> None:
    samples, numeric = (_read(tmp_path, PUBLIC, label) for label in ("outcome", "days"))
    first, *others = samples.encoding.columns
    refilled = msgspec.structs.replace(samples.encoding, columns=(msgspec.structs.replace(first, fill=1.0), *others))
    assert replace(samples, encoding=refilled).digest != samples.digest
    unlabelled = [replace(each, label_cells=(), label_numbers=()).digest for each in (samples, numeric)]
    assert len(set(unlabelled)) == 2


def test_scaled_rows_have_the_same_bits_whatever_order_a_machine_adds_in() -> None:
    """Sums of a scaler are rounded once, and squares are added column by column."""
    X = np.random.default_rng(4).normal(size=(500, 37)) * 1e3 + 1e6
    first = own_scaler(predicts_number=False).fit(X)
    order = np.random.default_rng(5).permutation(len(X))
    second = own_scaler(predicts_number=False).fit(X[order])
    assert (first.mean_ == second.mean_).all()
    assert (first.deviation_ == second.deviation_).all()
    wide = np.asfortranarray(X)
    assert (first.transform(X) == first.transform(wide)).all()
