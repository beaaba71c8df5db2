"""Studies that evaluate a classifier: what they state, what comes of them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from psephos.curator.evaluation import calibrated
from psephos.curator.ledger import Release
from psephos.data.tables import read_table
from psephos.model import Model, ReleasedClassifier, written_model
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.score_grid import ROW
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.signing import SigningKey
from psephos.specs.evaluation import EvaluationSpec
from psephos.specs.registry import person_column, spec_of, unit_of
from psephos.specs.study import StudyTerms
from psephos.study.builder import NewOptions, make_study
from psephos.study.consent import describe_study
from psephos.study.identity import IdentityCard
from psephos.study.release import follows_from_sum, make_release, read_release
from psephos.study.samples import PublicSamples

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
    spec = spec_of(StudyTerms(study, samples.auxiliary))
    assert isinstance(spec, EvaluationSpec)
    return study, samples, spec


def opened(spec: EvaluationSpec, samples: PublicSamples, rows: int = 20_000) -> OpenedSum:
    """The sum of rows whose class follows the score, without noise."""
    generator = np.random.default_rng(4)
    X = samples.scaler.transform(generator.normal(size=(rows, 2)) * [2.0, 5.0] + [10.0, 1.0])
    score = spec.plan.scores.scores(X)[:, 0]
    y = (generator.random(rows) < 1 / (1 + np.exp(-2.0 * score - 0.5))).astype(int)
    return OpenedSum(tuple(spec.plan.grid.contribution(X, y)), (0, 1, 2, 3))


def test_the_scores_of_a_study_are_those_of_the_model(files: Files) -> None:
    _, samples, spec = spec_in(files)
    frame = pd.read_csv(files.folder / "public.csv")
    scores = ReleasedClassifier(files.model).decision_function(frame)
    X = samples.scaler.transform(samples.encoding.apply(read_table(files.folder / "public.csv")))
    np.testing.assert_allclose(spec.plan.scores.scores(X)[:, 0], scores, atol=1e-5)
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
    few = OpenedSum((0,) * spec.plan.dimension, (0, 1, 2, 3))
    assert "hides" in spec.summary(few)
    np.testing.assert_array_equal(spec.release(few)[0], spec.plan.scores.weights[:, 0])
    assert calibrated(spec.plan.scores.weights, fit).shape == (3, 1)


def test_terms_are_named_and_noise_is_sized_for_the_coalition(files: Files) -> None:
    study, _, spec = spec_in(files, parameters=("neighbours=add-remove", "dropouts=1", "record=patient"))
    assert (study.method, study.public, study.minimum_ballots) == ("platt", True, 3)
    assert (spec.plan.inflation, spec.plan.mechanism.scale_units) == (4.0, ROW)
    assert (person_column(study), unit_of(study)) == ("patient", "record")
    text = " ".join(describe_study(study).split())
    assert "one person, as the column patient names them" in text
    assert "counts them by score and class" in text
    assert study.parameters["classifier"] not in text
    party, _, by_party = spec_in(files, parameters=("unit=party",))
    assert unit_of(party) == by_party.plan.unit == "party"
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
            spec_of(StudyTerms(replace(study, parameters={"classifier": text}), samples.auxiliary))
