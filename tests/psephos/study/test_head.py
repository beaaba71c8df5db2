"""Studies of a mean of heads: what they state, the table of a head, and what comes of the parties' heads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from psephos.audit.rounds import short_key
from psephos.model import Model
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import DataError, DataSetMissingError, InvalidParameter, StudyError
from psephos.protocol.paillier.threshold import deal
from psephos.specs.head import HeadSpec
from psephos.specs.registry import participants_of, spec_of
from psephos.specs.terms import StudyTerms
from psephos.study.builder import NewOptions, make_study
from psephos.study.consent import describe_study
from psephos.study.identity import Identity
from psephos.study.member import sign
from psephos.study.release import follows_from_sum, make_release, read_release

PARTIES = 5
COLUMNS = ("age", "ward=a", "ward=b", "(constant)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(5)
    public = pd.DataFrame({"age": generator.normal(50, 9, 60).round(2), "ward": ["a", "b", "b"] * 20})
    public.to_csv(tmp_path / "public.csv", index=False)
    for name in ("lab", *map(str, range(PARTIES))):
        Identity.create(name, tmp_path / name)
    return tmp_path


def made(folder: Path, classes: tuple[str, ...] = ("ill", "well"), **chosen: Any) -> Any:
    options: dict[str, Any] = {"delta": 1e-6, "parameters": ("radius=40",), "key_bits": 512, "trial": True} | chosen
    files = {"curator": str(folder / "lab/card.toml"), "public": str(folder / "public.csv"), "label": "outcome"}
    cards = [folder / f"{number}/card.toml" for number in range(PARTIES)]
    return make_study(NewOptions(protocol="head", classes=classes, **files, **options), cards)


def head_file(path: Path, classes: tuple[str, ...], weights: Any, columns: tuple[str, ...] = COLUMNS) -> Path:
    pd.DataFrame(weights, columns=list(columns)).assign(outcome=classes).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("classes", [("well", "ill"), ("ill", "fair", "well")])
@pytest.mark.parametrize("source", ["parties", "holders"])
def test_the_model_is_the_mean_of_the_heads_and_follows_from_the_sum(
    folder: Path, classes: tuple[str, ...], source: str
) -> None:
    """Heads that no clip changes, without noise; their rows in any order, and one for the first class left out."""
    study, samples = made(folder, classes, parameters=("radius=40", f"noise_from={source}"))
    assert (study.method, study.public, study.proofs) == ("mean", True, "valid")
    assert "clipped to a ball" in " ".join(describe_study(study).split())
    spec = spec_of(StudyTerms(study, samples))
    assert isinstance(spec, HeadSpec)
    generator, heads, vectors = np.random.default_rng(7), [], []
    for number in range(PARTIES):
        weights = generator.normal(size=(len(classes), 4)) * [0.02, 1, 1, 1] * (np.arange(len(classes)) > 0)[:, None]
        path = head_file(folder / f"{number}.csv", classes[:0:-1], weights[:0:-1])
        member = sign(study, Identity.read(folder / str(number)))
        member.keep(public=str(folder / "public.csv"), voter=str(path))
        assert member.voter.check() == str(path)
        vectors.append(spec.vector(spec.prepare(member.voter)))
        heads.append(weights)
    opened = OpenedSum(tuple(map(sum, zip(*vectors, strict=True))), tuple(range(PARTIES)))
    model = read_release(study, samples, make_release(study, samples, opened))
    assert isinstance(model, Model)
    assert follows_from_sum(study, samples, model, opened)
    found = np.column_stack([np.array(model.coefficients), model.intercepts])
    mean = np.mean(heads, axis=0)
    assert np.abs(found - (mean[1:] if len(classes) == 2 else mean - mean.mean(axis=0))).max() < 1e-4
    assert model.release.sensitivity == pytest.approx(2 * 40 / PARTIES)
    assert spec.cost(PARTIES).unit == "party"


@pytest.mark.parametrize("source", ["parties", "holders"])
def test_the_stated_deviation_is_that_of_the_sum_of_all_shares(folder: Path, source: str) -> None:
    """Of 3,000 numbers, whose deviation is further off than 10 % with a probability below 1e-13."""
    spec: Any = spec_of(StudyTerms(*made(folder, parameters=("radius=40", f"noise_from={source}"))))
    shares = [[spec.shares.share() for _ in range(spec.shares.parties)] for _ in range(750)]
    sums = np.array(shares, dtype=np.float64).sum(axis=1) * 40 / 2**24 / PARTIES
    stated = re.search(r"deviation ([\d.e+]+)", spec.summary(OpenedSum((0,) * 4, tuple(range(PARTIES)))))
    assert stated is not None
    assert np.std(sums) == pytest.approx(float(stated[1]), rel=0.1)


def test_rows_in_place_of_a_head_are_trained_on(folder: Path) -> None:
    study, _ = made(folder)
    member = sign(study, Identity.read(folder / "0"))
    pd.DataFrame({"age": [40, 60] * 9, "ward": "a", "outcome": ["ill", "well"] * 9}).to_csv(
        folder / "own.csv", index=False
    )
    member.keep(public=str(folder / "public.csv"), data=str(folder / "own.csv"))
    assert "18 rows" in member.voter.check()
    rows, _ = member.voter
    assert (rows @ member.voter.parameters > 0).tolist() == [False, True] * 9
    member.keep(learner="tree")
    with pytest.raises(InvalidParameter, match="logistic"):
        member.voter.check()


@pytest.mark.parametrize(
    ("classes", "weights", "columns", "named"),
    [
        (("well",), [[np.nan, 1, 1, 1]], COLUMNS, "age"),
        (("well",), [[1, np.inf, 1, 1]], COLUMNS, "ward=a"),
        (("well",), [[1, 1, -1e308, 1]], COLUMNS, "ward=b"),
        (("well",), [[1, 1, 1]], COLUMNS[:3], "(constant)"),
        (("well",), [[1, 1, 1, 1, 1]], (*COLUMNS, "dose"), "dose"),
        (("dead",), [[1, 1, 1, 1]], COLUMNS, "outcome"),
        (("well", "well"), [[1, 1, 1, 1]] * 2, COLUMNS, "outcome"),
    ],
)
def test_a_table_that_is_no_head_is_refused_by_name(
    folder: Path, classes: Any, weights: Any, columns: Any, named: str
) -> None:
    study, samples = made(folder)
    path = head_file(folder / "head.csv", classes, weights, columns)
    with pytest.raises(DataError) as refused:
        samples.head(study, path)
    assert named in str(refused.value)
    assert str(path) in str(refused.value)


def test_what_stands_in_place_of_a_columns_name_is_not_repeated(folder: Path) -> None:
    study, samples = made(folder)
    (folder / "head.csv").write_text("0.731,age,ward=a,ward=b,(constant)\nwell,1,2,3,4\n")
    with pytest.raises(DataError) as refused:
        samples.head(study, folder / "head.csv")
    assert "0.731" not in str(refused.value)


def test_a_party_that_has_voted_runs_without_its_head(folder: Path) -> None:
    """Its role is made again whenever its agent starts, and a holder's role starts with it."""
    study, _ = made(folder, key_bits=256)
    member = sign(study, Identity.read(folder / "0"))
    member.keep(public=str(folder / "public.csv"), voter=str(head_file(folder / "0.csv", ("well",), [[1] * 4])))
    spec: Any = spec_of(StudyTerms(study, member.samples))
    key = deal(short_key(bits=256), holders=3, threshold=2)[0]
    assert member.voter.check()
    (folder / "0.csv").unlink()
    terms = spec.terms(key, participants_of(study))
    role = spec.party(0, member.identity.key, spec.prepare(member.voter), terms)
    with pytest.raises(DataSetMissingError):  # one that has not voted reads it
        role.start()


@pytest.mark.parametrize("chosen", [{"parameters": ()}, {"delta": 0.0}, {"parameters": ("radius=-1",)}])
def test_a_study_of_heads_states_a_radius_and_a_delta(folder: Path, chosen: dict[str, Any]) -> None:
    with pytest.raises(StudyError):
        made(folder, **chosen)


def test_features_that_no_table_can_name_are_refused_before_anybody_signs(folder: Path) -> None:
    pd.DataFrame({"ward": ["a", "A", "b"] * 20}).to_csv(folder / "public.csv", index=False)
    with pytest.raises(DataError, match="ward=A"):
        made(folder)


def test_features_are_the_columns_unless_others_are_chosen(folder: Path) -> None:
    assert made(folder)[0].features == COLUMNS
    assert len(made(folder, features="products")[0].features) > len(COLUMNS)
