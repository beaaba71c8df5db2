"""Public samples: the same numbers for everybody, cut off towards zero; and whose rows fit them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from psephos.protocol.errors import DataError
from psephos.study.samples import CONSTANT, PublicSamples
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
        samples = PublicSamples.of(replace(study, label="outcome", parameters=parameters), path)
        meant = PublicSamples.read(path, "outcome", same or (), () if same else ["x", "code"])
        assert samples.auxiliary.digest == meant.auxiliary.digest
        assert samples.auxiliary.digest != plain.auxiliary.digest
    none = PublicSamples.of(replace(study, label="outcome", parameters={}), path)
    assert none.auxiliary.digest == plain.auxiliary.digest


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
