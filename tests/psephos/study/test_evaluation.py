"""Studies that evaluate a model: what they state, what comes of them, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, r2_score

from psephos.curator.evaluation import calibrated
from psephos.curator.ledger import Release, costs_together
from psephos.data.tables import read_table
from psephos.model import Model, RegressionModel, written_model
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.grids.evaluation import ROW
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.signing import SigningKey
from psephos.released import ReleasedClassifier, ReleasedRegressor
from psephos.specs.registry import protected_by, spec_of
from psephos.specs.rows import EvaluationSpec, encode_releases
from psephos.specs.terms import StudyTerms
from psephos.study.builder import NewOptions, make_study
from psephos.study.card import card
from psephos.study.consent import describe_study
from psephos.study.identity import IdentityCard
from psephos.study.receipt import receipt_of
from psephos.study.release import follows_from_sum, make_release, read_release
from psephos.study.samples import PublicSamples
from psephos.study.verify import BoardEvidence

NAMES = ("north", "east", "south", "west")


class Files:
    """Members' cards, a public file with labels, and a model of its columns."""

    def __init__(self, folder: Path) -> None:
        self.folder, generator = folder, np.random.default_rng(3)
        X = generator.normal(size=(120, 2)) * [2.0, 5.0] + [10.0, 1.0]
        frame = pd.DataFrame(X.round(3), columns=["age", "dose"])
        outcome = np.where(generator.random(120) < 0.5, "ill", "well")
        frame.assign(outcome=outcome).to_csv(folder / "public.csv", index=False)
        self.samples = PublicSamples.read(folder / "public.csv", "outcome")
        for name in ("curator", *NAMES):
            key = SigningKey.generate()
            (folder / f"{name}.toml").write_text(IdentityCard(f"The {name}", key.verification_key).text(key))
        self.model = Model(
            psephos_model=1,
            classes=("ill", "well"),
            encoding=self.samples.encoding,
            coefficients=((0.7, -0.3),),
            intercepts=(-6.5,),
            method="statistic",
            parties=4,
            release=Release("discrete Laplace", 1.0, 0.0, "party"),
        )
        (folder / "model.json").write_bytes(written_model(self.model))

    def made(self, **change: Any) -> Any:
        chosen = {
            "curator": str(self.folder / "curator.toml"),
            "public": str(self.folder / "public.csv"),
            "label": "outcome",
            "classes": ("ill", "well"),
            "protocol": "evaluation",
            "model": str(self.folder / "model.json"),
            "key_bits": 512,
            "trial": True,
        }
        return make_study(NewOptions(**{**chosen, **change}), [self.folder / f"{name}.toml" for name in NAMES])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("evaluation"))


def spec_in(files: Files, **change: Any) -> tuple[Any, PublicSamples, EvaluationSpec]:
    study, samples = files.made(**change)
    spec = spec_of(StudyTerms(study, samples))
    assert isinstance(spec, EvaluationSpec)
    return study, samples, spec


def opened(spec: EvaluationSpec, samples: PublicSamples, rows: int = 20_000) -> OpenedSum:
    """The sum of rows whose class follows the score, without noise."""
    generator = np.random.default_rng(4)
    X = samples.scaler.transform(generator.normal(size=(rows, 2)) * [2.0, 5.0] + [10.0, 1.0])
    score = spec.release_plan.scores.scores(X)[:, 0]
    y = (generator.random(rows) < 1 / (1 + np.exp(-2.0 * score - 0.5))).astype(int)
    return OpenedSum(tuple(spec.release_plan.grid.contribution(X, y)), (0, 1, 2, 3))


def test_the_scores_of_a_study_are_those_of_the_model(files: Files) -> None:
    _, samples, spec = spec_in(files)
    frame = pd.read_csv(files.folder / "public.csv")
    scores = ReleasedClassifier(files.model).decision_function(frame)
    X = samples.scaler.transform(samples.encoding.apply(read_table(files.folder / "public.csv")))
    np.testing.assert_allclose(spec.release_plan.scores.scores(X)[:, 0], scores, atol=1e-5)
    w = samples.scaler.unfold(np.array(files.model.coefficients), np.array(files.model.intercepts))
    coefficients, intercepts = samples.scaler.fold(w)
    np.testing.assert_allclose(coefficients, files.model.coefficients)
    np.testing.assert_allclose(intercepts, files.model.intercepts)


def test_a_study_releases_the_calibrated_classifier_and_says_how_good_it_is(files: Files) -> None:
    study, samples, spec = spec_in(files, epsilon=5.0)
    result = opened(spec, samples)
    content = make_release(study, samples, result)
    model = read_release(study, samples, content)
    assert follows_from_sum(study, samples, model, result)
    fit = spec.estimate(result).calibration
    assert fit is not None
    assert fit.slope == pytest.approx(2.0, abs=0.3)
    assert fit.intercept == pytest.approx(0.5, abs=0.2)
    frame = pd.read_csv(files.folder / "public.csv")
    before, after = (ReleasedClassifier(one).decision_function(frame) for one in (files.model, model))
    np.testing.assert_allclose(after, fit.slope * before + fit.intercept, atol=1e-3)
    assert "accuracy" in spec.summary(result)
    assert spec.summary(result).endswith("were calibrated")
    few = OpenedSum((0,) * spec.release_plan.dimension, (0, 1, 2, 3))
    assert "hides" in spec.summary(few)
    np.testing.assert_array_equal(spec.release(few)[0], spec.release_plan.scores.weights[:, 0])
    assert calibrated(spec.release_plan.scores.weights, fit).shape == (3, 1)


def test_terms_are_named_and_noise_is_sized_for_the_coalition(files: Files) -> None:
    study, _, spec = spec_in(files, parameters=("dropouts=1", "record=patient"))
    assert (study.method, study.public, study.minimum_ballots) == ("platt", True, 3)
    assert (spec.release_plan.inflation, spec.release_plan.mechanism.scale_units) == (4.0, 2 * ROW)
    assert protected_by(study) == PrivacyUnit("person", "patient")
    text = " ".join(describe_study(study).split())
    assert "one person, as the column patient names them" in text
    assert "counts them by score and class" in text
    assert study.parameters["classifier"] not in text
    party, _, by_party = spec_in(files, parameters=("unit=party",))
    assert protected_by(party).kind == by_party.release_plan.unit == "party"
    assert "all that one party holds" in " ".join(describe_study(party).split())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"model": ""}, InvalidParameter),
        ({"protocol": "statistic"}, InvalidParameter),
        ({"classes": ("well", "ill")}, InvalidParameter),
        ({"ignore": ("dose",)}, InvalidParameter),
        ({"delta": 1e-6}, StudyError),
        ({"parameters": ("bins=1",)}, StudyError),
        ({"parameters": ("unit=ward",)}, StudyError),
        ({"parameters": ("unit=party", "record=patient")}, StudyError),
        ({"parameters": ("record=dose",)}, InvalidParameter),
        ({"parameters": ("colluders=-1",)}, (InvalidParameter, StudyError)),
    ],
)
def test_terms_that_cannot_be_are_refused(files: Files, change: dict[str, Any], error: Any) -> None:
    with pytest.raises(error):
        files.made(**change)


def test_a_classifier_of_other_features_is_refused(files: Files) -> None:
    study, samples = files.made()
    for text in ("", "AAAA", "AACAPwAAgD8="):
        with pytest.raises(StudyError):
            spec_of(StudyTerms(replace(study, parameters={"classifier": text}), samples))


# -- what the model has cost before


def with_releases(files: Files, *releases: Release, **change: Any) -> Any:
    """A study that evaluates the model of `files` as if it had been released so, the latest first."""
    path, earlier = files.folder / "released.json", releases[1:]
    together = costs_together(releases) if earlier else ()
    costs: Any = {"release": releases[0], "earlier": earlier, "together": together}
    path.write_bytes(written_model(msgspec.structs.replace(files.model, **costs)))
    return spec_in(files, model=str(path), **change)


def of(epsilon: float, kind: Any = "record", *unit: Any, delta: float = 1e-6) -> Release:
    protects = PrivacyUnit(kind, *unit)
    return Release("discrete Gaussian in shares", epsilon, delta, "record", chosen={"rank": 3}, protects=protects)


PARTY = replace(of(1.0, "party", delta=2.0**-64), unit="party")
SAME = of(2.0)


@pytest.mark.parametrize(
    ("releases", "parameters", "together"),
    [
        ((SAME,), (), [("record", 2, 2.5)]),
        ((PARTY,), ("unit=party",), [("party", 2, 1.5)]),
        ((SAME, of(4.0)), (), [("record", 3, 6.5)]),
        ((PARTY,), (), [("record", 2, 1.5), ("party", 1, 1.0)]),
        ((of(1.0, "shard"),), (), [("record", 1, 0.5), ("shard", 1, 1.0)]),
        (
            (of(1.0, "shard"), of(2.0, "shard"), PARTY),
            (),
            [("record", 2, 1.5), *[("shard", 1, 1.0), ("shard", 1, 2.0)], ("party", 1, 1.0)],
        ),
        ((of(1.0, "unknown"), SAME), (), [("record", 2, 2.5), ("unknown", 1, 1.0)]),
        ((SAME,), ("unit=party",), [("party", 1, 0.5), ("record", 2, 2.5)]),
        ((of(2.0, "person", "ward"),), ("record=patient",), [("person (patient)", 1, 0.5), ("person (ward)", 1, 2.0)]),
        (
            (of(2.0, "person", "patient"), PARTY),
            ("record=patient",),
            [("person (patient)", 3, 3.5), ("party", 1, 1.0)],
        ),
        ((replace(SAME, epsilon=None, delta=None, said="none"),), (), [("record", 2, None)]),
        ((Release("none", 0.0, 0.0, "party"),), (), [("record", 1, 0.5)]),
    ],
)
def test_the_costs_of_all_releases_that_protect_a_unit_are_added(
    files: Files, releases: tuple[Release, ...], parameters: tuple[str, ...], together: list[Any]
) -> None:
    if releases[0].mechanism == "none":
        public = msgspec.structs.replace(files.model, release=releases[0], parties=0)
        (files.folder / "public.json").write_bytes(written_model(public))
        study, samples, spec = spec_in(files, model=str(files.folder / "public.json"), epsilon=0.5)
    else:
        study, samples, spec = with_releases(files, *releases, epsilon=0.5, parameters=parameters)
    content = make_release(study, samples, OpenedSum((0,) * spec.release_plan.dimension, (0, 1, 2, 3)))
    model = read_release(study, samples, content)
    assert model.earlier == releases
    assert (model.release.epsilon, model.release.unit) == (0.5, spec.release_plan.unit)
    assert [(str(cost.unit), cost.releases, cost.epsilon) for cost in model.together] == together
    fields = json.loads(content)
    assert [cost["epsilon"] for cost in fields["together"]] == [cost[-1] for cost in together]
    assert [one["epsilon"] for one in fields["earlier"]] == [one.epsilon for one in releases]
    text, agreed = card(study, model), " ".join(describe_study(study).split())
    in_receipt = receipt_of(study, BoardEvidence()).release.model_cost
    for cost in model.together:
        assert str(cost) in text
    for cost in costs_together(releases):
        assert str(cost) in agreed
        assert str(cost) in in_receipt
    assert ("may reveal more" in text) == (len(together) > 1)
    assert study.parameters["released"] not in agreed


def test_what_a_model_has_cost_is_stated_in_one_way(files: Files) -> None:
    study, samples, _ = with_releases(files, SAME)
    text = str(study.parameters["released"])
    assert text == encode_releases((SAME,))
    for other in (text + " ", "[]", "{}", "[[", text.replace("2.0", "-2.0"), text[:-1] + ",1]"):
        changed = replace(study, parameters={**study.parameters, "released": other})
        with pytest.raises(StudyError, match="released"):
            spec_of(StudyTerms(changed, samples))
    with pytest.raises(InvalidParameter, match="released"):
        files.made(parameters=(f"released={text}",))


@pytest.mark.parametrize("words", ["record\n\nThis costs nothing.", "record\x1b[2J"])
@pytest.mark.parametrize("where", ["unit", "mechanism", "persons"])
def test_what_a_model_has_cost_cannot_change_what_members_read(files: Files, where: str, words: str) -> None:
    """JSON writes a control character with letters, so that the parameter itself looks harmless."""
    study, samples, _ = with_releases(files, SAME)
    lie = replace(SAME, chosen={"persons": words}) if where == "persons" else replace(SAME, **{where: words})
    changed = replace(study, parameters={**study.parameters, "released": encode_releases((lie,))})
    with pytest.raises(StudyError, match="control characters"):
        spec_of(StudyTerms(changed, samples))
    with pytest.raises(StudyError, match="control characters"):
        describe_study(changed)


def test_a_study_that_does_not_state_what_the_model_cost_says_so(files: Files) -> None:
    study, samples, spec = spec_in(files)
    parameters = {name: value for name, value in study.parameters.items() if name != "released"}
    silent = replace(study, parameters=parameters)
    content = make_release(silent, samples, OpenedSum((0,) * spec.release_plan.dimension, (0, 1, 2, 3)))
    model = read_release(silent, samples, content)
    assert (model.earlier, model.together) == ((), ())
    assert not {"earlier", "together"} & json.loads(content).keys()
    assert "which the study does not state" in card(silent, model)


# -- predictions of a number


class NumberFiles(Files):
    """As `Files`, of a numeric label and a prediction of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        frame, generator = pd.read_csv(folder / "public.csv"), np.random.default_rng(8)
        days = 0.5 * frame["age"] - 0.2 * frame["dose"] + generator.normal(size=len(frame))
        frame.drop(columns="outcome").assign(days=days.round(3)).to_csv(folder / "public.csv", index=False)
        self.samples = PublicSamples.read(folder / "public.csv", "days", predicts_number=True)
        self.prediction = RegressionModel(
            psephos_model=1,
            task="regression",
            label="days",
            encoding=self.samples.encoding,
            ranges=tuple(map(tuple, self.samples.ranges.T.tolist())),
            coefficients=(0.5, -0.2),
            intercept=0.1,
            bounds=(float(days.min()), float(days.max())),
            method="newton",
            parties=4,
            release=Release("discrete Laplace", 1.0, 0.0, "party"),
        )
        (folder / "model.json").write_bytes(written_model(self.prediction))

    def made(self, **change: Any) -> Any:
        return super().made(**{"label": "days", "classes": (), **change})


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> NumberFiles:
    return NumberFiles(tmp_path_factory.mktemp("numbers"))


def opened_errors(spec: EvaluationSpec, samples: PublicSamples, rows: int = 20_000) -> tuple[OpenedSum, Any, Any]:
    """The sum of rows without noise, their features and their labels."""
    generator = np.random.default_rng(4)
    X = generator.normal(size=(rows, 2)) * [2.0, 5.0] + [10.0, 1.0]
    y = X @ [0.5, -0.2] + generator.normal(size=rows)
    scaled = samples.scaler.transform(X)
    return OpenedSum(tuple(spec.release_plan.grid.contribution(scaled, y)), (0, 1, 2, 3)), X, y


def test_a_study_of_a_prediction_says_how_good_it_is_and_releases_it_unchanged(numbers: NumberFiles) -> None:
    study, samples, spec = spec_in(numbers, epsilon=5.0)
    assert (study.method, study.classes, study.predicts_number) == ("unchanged", (), True)
    low, high = numbers.prediction.bounds
    assert (study.parameters["low"], study.parameters["high"]) == (low, high)
    assert study.parameters["largest_error"] == 0.75 * (high - low)
    result, X, y = opened_errors(spec, samples)
    errors = spec.estimate(result).errors
    assert errors is not None
    assert errors.r2 is not None
    predicted = ReleasedRegressor(numbers.prediction).predict(X)
    assert errors.r2.value == pytest.approx(r2_score(np.clip(y, low, high), predicted), abs=1e-3)
    assert errors.mae.value == pytest.approx(mean_absolute_error(np.clip(y, low, high), predicted), rel=1e-3)
    model = read_release(study, samples, make_release(study, samples, result))
    assert isinstance(model, RegressionModel)
    assert follows_from_sum(study, samples, model, result)
    np.testing.assert_allclose(model.coefficients, numbers.prediction.coefficients, rtol=1e-5)
    assert model.intercept == pytest.approx(numbers.prediction.intercept, rel=1e-4)
    assert (model.bounds, model.ranges) == (numbers.prediction.bounds, numbers.prediction.ranges)
    assert model.release.chosen["largest_error"] == 0.75 * (high - low)
    assert {"R^2", "RMSE", "MAE"} <= set(spec.summary(result).replace(":", "").split())
    assert "hides how good the prediction" in spec.summary(OpenedSum((0,) * 6, (0, 1, 2, 3)))
    other = OpenedSum((2 << 40, *result.sums[1:]), result.parties)
    assert follows_from_sum(study, samples, model, other)  # no number of the sum changes the prediction


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"classes": ("ill", "well")}, InvalidParameter),
        ({"label": "dose"}, InvalidParameter),
        ({"ignore": ("dose",)}, InvalidParameter),
        ({"method": "platt"}, StudyError),
        ({"parameters": ("bins=5",)}, StudyError),
        ({"parameters": ("largest_error=0",)}, StudyError),
        ({"parameters": ("largest_error=1000",)}, StudyError),
        ({"parameters": ("low=0",)}, InvalidParameter),  # the intercept is relative to the middle of the bounds
        ({"parameters": ("high=20",)}, InvalidParameter),
        ({"parameters": ("classifier=AAAA",)}, InvalidParameter),
        ({"parameters": ("released=[]",)}, InvalidParameter),  # what the model has cost is in its file
    ],
)
def test_terms_of_a_prediction_that_cannot_be_are_refused(
    numbers: NumberFiles, change: dict[str, Any], error: Any
) -> None:
    with pytest.raises(error):
        numbers.made(**change)


@pytest.mark.parametrize("unit", [1e-46, 1e40])
def test_a_prediction_whose_weights_no_study_can_state_is_refused(numbers: NumberFiles, unit: float) -> None:
    path, model = numbers.folder / "unit.json", numbers.prediction
    low, high = model.bounds
    scaled = {"coefficients": (0.5 * unit, -0.2 * unit), "intercept": 0.1 * unit, "bounds": (low * unit, high * unit)}
    path.write_bytes(written_model(msgspec.structs.replace(model, **scaled)))
    with pytest.raises(InvalidParameter, match="float32"):
        numbers.made(model=str(path))
