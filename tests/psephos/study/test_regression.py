"""Studies that predict a number: what the signed terms state, who computes it again, and what comes of it."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from psephos.curator.record import plan_records
from psephos.data.tables import read_table
from psephos.model import RegressionModel
from psephos.protocol.board import MemoryBoard
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import DataError, InvalidParameter, StudyError
from psephos.protocol.grids.record import ENTRY_BITS
from psephos.protocol.study.study import Study
from psephos.released import ReleasedRegressor, load_model
from psephos.specs.registry import check_study, differs_from_plan, protected_by, spec_of
from psephos.specs.rows import RegressionSpec
from psephos.specs.terms import StudyTerms, encode_coordinates
from psephos.study.builder import NewOptions, make_study
from psephos.study.card import card
from psephos.study.consent import contribution, describe_study
from psephos.study.identity import Identity
from psephos.study.member import sign
from psephos.study.release import follows_from_sum, make_release, read_release
from psephos.study.samples import PublicSamples
from psephos.study.verify import examine

NAMES = ("north", "east", "south", "west")
SLOPES = np.array([3.0, -0.5])
FAR = 1_000_000.0
"""Where the labels lie: so far from 0 that single precision would round them."""


def frame(seed: int, rows: int, shift: float = 0.0) -> pd.DataFrame:
    """Return rows whose label is linear in two features of different units, with gross errors."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 2))
    days = FAR + shift + X @ SLOPES + 0.5 * generator.normal(size=rows)
    days += (generator.random(rows) < 0.04) * 500.0 * (seed > 0)
    ward = np.where(generator.random(rows) < 0.5, "a", "b")
    return pd.DataFrame({"age": X[:, 0] * 20 + 50, "dose": X[:, 1] * 1e-3, "ward": ward, "days": days})


class Files:
    """Members' identities and files, and a public file of which most rows have a label."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identities = {name: Identity.create(f"The {name}", folder / name) for name in ("curator", *NAMES)}
        public = frame(0, 90).astype({"days": str})
        public.loc[85:, "days"] = ""
        public.to_csv(folder / "public.csv", index=False)
        for number, name in enumerate(NAMES):
            frame(1 + number, 300, shift=0.3).to_csv(folder / f"{name}.csv", index=False)

    def made(self, **change: Any) -> tuple[Study, PublicSamples]:
        chosen: dict[str, Any] = {
            "curator": str(self.folder / "curator" / "card.toml"),
            "public": str(self.folder / "public.csv"),
            "label": "days",
            "protocol": "regression",
            "epsilon": 3.0,
            "delta": 1e-6,
            "key_bits": 256,
            "trial": True,
        }
        return make_study(NewOptions(**{**chosen, **change}), [self.folder / name / "card.toml" for name in NAMES])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("regression"))


def spec_in(study: Study, samples: PublicSamples) -> RegressionSpec:
    spec = spec_of(StudyTerms(study, samples))
    assert isinstance(spec, RegressionSpec)
    return spec


def opened(files: Files, study: Study, samples: PublicSamples) -> OpenedSum:
    """Return the exact sum of all parties' vectors, as each computes its own from its file."""
    spec = spec_in(study, samples)
    vectors = [
        spec.release_plan.grid.contribution(*samples.private(study, files.folder / f"{name}.csv")) for name in NAMES
    ]
    return OpenedSum(tuple(map(sum, zip(*vectors, strict=True))), tuple(range(len(NAMES))))


UNITS = pytest.mark.parametrize("unit", ["record", "party"])


# -- the plan


@UNITS
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_signed_terms_state_what_the_public_rows_give(files: Files, unit: str, delta: float) -> None:
    study, samples = files.made(delta=delta, parameters=(f"unit={unit}", "dropouts=1"))
    spec, public = spec_in(study, samples), frame(0, 90)
    labels = public["days"][:85]
    assert (study.classes, study.method, study.public, study.minimum_ballots) == ((), "newton", True, 3)
    assert (protected_by(study).kind, spec.release_plan.unit, spec.cost(4).unit) == (unit, unit, unit)
    assert (spec.label.low, spec.label.high) == pytest.approx((labels.min(), labels.max()), abs=1e-9)
    assert (study.parameters["labelled"], spec.release_plan.labelled, spec.release_plan.samples) == (85, 85, 90)
    width = public["age"].max() - public["age"].min()
    assert samples.ranges[:, 0] == pytest.approx([public["age"].min() - width / 2, public["age"].max() + width / 2])
    assert differs_from_plan(StudyTerms(study, samples)) == []
    assert Study.parse(study.text()) == study
    cost = spec.cost(4)
    assert cost.epsilon == 3.0
    if unit == "party":
        ball = spec.release_plan.grid.ball
        assert ball is not None
        assert cost.sensitivity == pytest.approx(2 * ball.radius / 2**ENTRY_BITS, rel=1e-6)


def moved(study: Study, name: str) -> Any:
    """Return a parameter's value that differs as little as must be noticed."""
    value = study.parameters[name]
    if name in ("coordinates", "offset"):
        matrix = np.frombuffer(base64.b64decode(str(value)), "<f4").copy()
        matrix[np.abs(matrix).argmax()] *= 1.01
        return encode_coordinates(matrix)
    if isinstance(value, int):
        return value + 1
    assert isinstance(value, float)
    return float(np.nextafter(value, np.inf)) if name in ("low", "high") else value * 1.01


@UNITS
@pytest.mark.parametrize(
    "name", ["low", "high", "threshold", "coordinates", "offset", "constant", "labelled", "radius"]
)
def test_a_plan_that_is_not_that_of_the_public_rows_is_refused(files: Files, unit: str, name: str) -> None:
    """By every member before it posts anything, and by whoever verifies. Of bounds, the last bit."""
    study, samples = files.made(parameters=(f"unit={unit}",))
    if name == "radius" and unit == "record":
        return
    changed = replace(study, parameters={**study.parameters, name: moved(study, name)})
    assert differs_from_plan(StudyTerms(changed, samples)) == [name]
    member = sign(changed, files.identities["north"])
    member.keep(public=str(files.folder / "public.csv"))
    with pytest.raises(StudyError):
        member.agent("party 0", MemoryBoard())
    checks = {check.what: check for check in examine(changed, samples, MemoryBoard()).checks}
    assert [check.verdict for what, check in checks.items() if what.startswith("the plan")] == ["fails"]


@UNITS
def test_the_plan_depends_on_no_private_row(files: Files, unit: str, tmp_path: Path) -> None:
    """A study is written, and its plan computed again, from the cards and the public file alone."""
    study, samples = files.made(parameters=(f"unit={unit}",))
    for name in NAMES:
        assert not (tmp_path / f"{name}.csv").exists()
    (tmp_path / "public.csv").write_bytes((files.folder / "public.csv").read_bytes())
    alone = PublicSamples.of(study, tmp_path / "public.csv")
    assert differs_from_plan(StudyTerms(study, alone)) == []
    assert spec_in(study, alone).context == spec_in(study, samples).context


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"classes": ("a", "b")}, InvalidParameter),
        ({"label": ""}, InvalidParameter),
        ({"protocol": "record", "classes": ()}, (InvalidParameter, StudyError, DataError)),
        ({"parameters": ("unit=ward",)}, StudyError),
        ({"parameters": ("unit=party", "record=patient")}, StudyError),
        ({"parameters": ("record=ward",)}, InvalidParameter),
        ({"parameters": ("radius=0.1",)}, StudyError),
        ({"parameters": ("low=2000000",)}, StudyError),
        ({"parameters": ("colluders=-1",)}, StudyError),
        ({"label": "ward"}, DataError),
    ],
)
def test_terms_that_cannot_be_are_refused(files: Files, change: dict[str, Any], error: Any) -> None:
    with pytest.raises(error):
        files.made(**change)


def test_only_a_regression_has_no_classes(files: Files) -> None:
    study, _ = files.made()
    for change in ({"classes": ("a", "b")}, {"label": ""}, {"protocol": "record"}):
        with pytest.raises(StudyError):
            check_study(replace(study, **change))


def test_too_few_public_labels_are_refused(files: Files, tmp_path: Path) -> None:
    rows = pd.read_csv(files.folder / "public.csv")
    rows.loc[5:, "days"] = np.nan
    rows.to_csv(tmp_path / "few.csv", index=False)
    rows.drop(columns="days").to_csv(tmp_path / "none.csv", index=False)
    for name in ("few.csv", "none.csv"):
        with pytest.raises(DataError):
            files.made(public=str(tmp_path / name))


# -- a party's own rows


def test_labels_outside_the_bounds_are_taken_as_they_are_and_bounded(files: Files, tmp_path: Path) -> None:
    """Nothing is assumed of a member's labels: the vector of any is within the bound, and that of one row too."""
    study, samples = files.made()
    spec, rows = spec_in(study, samples), frame(1, 40)
    for label in (0.0, -1e300, 1e300, FAR + 1e9):
        rows.assign(days=label).to_csv(tmp_path / "own.csv", index=False)
        X, y = samples.private(study, tmp_path / "own.csv")
        vectors = spec.release_plan.grid.row_vectors(X, y).astype(float)
        assert np.linalg.norm(vectors, axis=1).max() <= np.sqrt(2) * 2**ENTRY_BITS
        assert np.linalg.norm(vectors[:1] - vectors, axis=1).max() <= spec.release_plan.l2.value
        assert abs(vectors[:, : spec.release_plan.grid.coordinates]).max() > 0


def test_features_outside_the_ranges_count_as_the_nearer_end(files: Files, tmp_path: Path) -> None:
    study, samples = files.made()
    low, high = samples.scaler.ranges_[:, 0]
    rows = [frame(1, 1).assign(age=age) for age in (1e99, high, -1e99, low)]
    pd.concat(rows).to_csv(tmp_path / "own.csv", index=False)
    X, _ = samples.private(study, tmp_path / "own.csv")
    assert np.allclose(X[[0, 2]], X[[1, 3]])


@pytest.mark.parametrize("label", ["long", "", "1e999"])
def test_labels_that_are_no_numbers_are_refused_and_not_quoted(files: Files, tmp_path: Path, label: str) -> None:
    study, samples = files.made()
    rows = frame(1, 30).astype({"days": str})
    rows.loc[20, "days"] = label
    rows.to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(DataError) as refusal:
        samples.private(study, tmp_path / "own.csv")
    assert "line 22" in str(refusal.value)
    assert not label or label not in str(refusal.value)
    rows.drop(columns="days").to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(DataError):
        samples.private(study, tmp_path / "own.csv")


def test_persons_are_protected_where_a_column_names_them(files: Files, tmp_path: Path) -> None:
    study, samples = files.made(parameters=("record=patient",))
    assert protected_by(study).of == "patient"
    frame(1, 40).assign(patient=np.arange(40) // 4).to_csv(tmp_path / "own.csv", index=False)
    member = sign(study, files.identities["north"])
    member.keep(public=str(files.folder / "public.csv"), data=str(tmp_path / "own.csv"))
    assert member.voter.check().startswith("40 rows")
    data = tuple(member.voter)
    assert len(data) == 3
    assert (
        len(spec_in(study, samples).release_plan.grid.contribution(*data))
        == spec_in(study, samples).release_plan.dimension
    )
    assert "one person, as the column patient" in " ".join(describe_study(study).split())


# -- the release


@UNITS
def test_the_release_predicts_what_the_sum_says(files: Files, unit: str, tmp_path: Path) -> None:
    study, samples = files.made(parameters=(f"unit={unit}",))
    spec, result = spec_in(study, samples), opened(files, study, samples)
    content = make_release(study, samples, result)
    model = read_release(study, samples, content)
    assert isinstance(model, RegressionModel)
    assert follows_from_sum(study, samples, model, result)
    assert model.bounds == (spec.label.low, spec.label.high)
    assert model.ranges == tuple(map(tuple, samples.scaler.ranges_.T.tolist()))
    (tmp_path / "model.json").write_bytes(content)
    regressor, test = load_model(tmp_path), frame(9, 200, 0.3)
    test.to_csv(tmp_path / "test.csv", index=False)
    assert isinstance(regressor, ReleasedRegressor)
    predictions = regressor.predict(read_table(tmp_path / "test.csv"))
    rows, _ = samples.private(study, tmp_path / "test.csv")
    assert np.allclose(predictions, spec.release_plan.grid.predict(spec.fitted(result), rows), atol=1e-4)
    if unit == "record":  # without noise, the gross errors and the distance from 0 do little
        assert np.abs(model.coefficients[0] * 20 - SLOPES[0]) < 0.2
        typical = np.median(np.abs(predictions - test["days"]))
        assert typical < 0.6


def test_what_members_sign_and_read_names_the_unit(files: Files) -> None:
    """Consent text and card of each unit: neither says what the other protects."""
    texts = {}
    for unit in ("record", "party"):
        study, samples = files.made(parameters=(f"unit={unit}",))
        model = read_release(study, samples, make_release(study, samples, opened(files, study, samples)))
        texts[unit] = " ".join(describe_study(study).split()), card(study, model)
        assert "classifier" not in texts[unit][0] + texts[unit][1]
        assert f"prediction of the number {study.label}" in texts[unit][1]
    assert "one row of one party that is replaced, added or removed" in texts["record"][0]
    assert "all that one party holds" in texts["party"][0]
    assert "one row of one party" in texts["record"][1]
    assert "all that one party holds" in texts["party"][1]
    assert contribution(files.made()[0]) != contribution(files.made(parameters=("unit=party",))[0])


# -- a whole study


def test_last_bits_of_another_machine_do_not_change_a_plan() -> None:
    """With two features, or with a feature and its complement, both entries of every direction have one size."""
    generator = np.random.default_rng(3)
    for complement in (False, True):
        for _ in range(7):
            features = generator.normal(size=(50, 2))
            if complement:
                features[:, 1] = 1 - features[:, 0]
            labels, constant = features[:, 0] + generator.normal(size=50), np.ones(50)
            rounding = 1 + generator.choice([-1, 0, 1], size=features.shape) * 2.0**-52
            first, second = (
                plan_records(np.column_stack([X, constant]), labels, 1, 9, rows=9000, epsilon=1.0).grid
                for X in (features, features * rounding)
            )
            for name in ("transform", "offset"):
                one, other = getattr(first, name), getattr(second, name)
                assert np.abs(one - other).max() <= 1e-4 * np.abs(other).max(), name
