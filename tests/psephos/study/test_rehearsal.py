"""Studies of a rehearsed step: the plan in the signed terms, and everybody who computes it again."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.curator.checks import public_features
from psephos.curator.rehearsal import fit_public
from psephos.curator.rehearsed import model_classifier
from psephos.protocol.board import MemoryBoard
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import DataError, NoGainError, StudyError
from psephos.protocol.study.study import Study
from psephos.specs.registry import differs_from_plan, plan_study, spec_of
from psephos.specs.rows import RehearsedSpec
from psephos.specs.terms import StudyTerms
from psephos.study.builder import NewOptions, make_study
from psephos.study.consent import describe_study
from psephos.study.identity import Identity
from psephos.study.release import follows_from_sum, make_release, read_release
from psephos.study.samples import PublicSamples
from psephos.study.verify import examine

PARTIES = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cards of twelve parties and a curator, and 60 public rows of numbers and a category."""
    path, draw = tmp_path_factory.mktemp("rehearsed"), np.random.default_rng(0)
    for number in range(PARTIES):
        Identity.create(f"house {number}", path / f"party {number}")
    Identity.create("lab", path / "curator")
    X, ward = draw.normal(size=(60, 3)), draw.integers(3, size=60)
    score = X @ np.array([1.2, -1.0, 0.5]) + (ward == 1) + 0.6 * draw.logistic(size=60)
    lines = [
        ",".join([*(f"{value:.4f}" for value in row), "abc"[kind], "ill" if sick > 0.4 else "well"])
        for row, kind, sick in zip(X, ward, score, strict=True)
    ]
    (path / "public.csv").write_text("\n".join(["one,two,three,ward,outcome", *lines]) + "\n", encoding="utf-8")
    return path


@cache
def made(folder: Path, public: str = "public.csv", **chosen: Any) -> tuple[Study, PublicSamples]:
    """Make a study in which a step is worth asking for."""
    terms: dict[str, Any] = {"protocol": "rehearsed", "epsilon": 30.0, "parameters": ("rows=1200",)}
    options = NewOptions(
        curator=str(folder / "curator" / "card.toml"),
        public=str(folder / public),
        label="outcome",
        classes=("ill", "well"),
        **(terms | chosen),
    )
    return make_study(options, [folder / f"party {number}" / "card.toml" for number in range(PARTIES)])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_study_states_the_plan_and_everybody_computes_it_again(folder: Path, delta: float) -> None:
    study, samples = made(folder, delta=delta, parameters=("rows=1200", "dropouts=1"))
    spec = spec_of(StudyTerms(study, samples))
    assert isinstance(spec, RehearsedSpec)
    assert (study.method, study.public, study.minimum_ballots) == ("rehearsed", True, PARTIES - 1)
    assert (study.parameters["labelled"], study.parameters["rows"]) == (60, 1200)
    assert spec.release_plan.sensitivity.value == pytest.approx(2 / PARTIES)
    assert spec.cost(PARTIES).epsilon == 30.0
    assert differs_from_plan(StudyTerms(study, samples)) == []
    assert "public model" in describe_study(study)
    opened = OpenedSum((10**6,) * spec.release_plan.dimension, tuple(range(PARTIES)))
    content = make_release(study, samples, opened)
    model = read_release(study, samples, content)
    assert follows_from_sum(
        study, samples, model, OpenedSum((10**6,) * spec.release_plan.dimension, tuple(range(PARTIES)))
    )
    assert model.release.epsilon == 30.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", 99.0),
        ("labelled", 59),
        pytest.param("rows", 12_000, marks=pytest.mark.soak),
        pytest.param("radius", 0.123, marks=pytest.mark.soak),
    ],
)
def test_another_plan_is_detected(folder: Path, name: str, value: Any) -> None:
    study, samples = made(folder)
    changed = replace(study, parameters={**study.parameters, name: value})
    assert verdict_on_plan(study, samples) == "holds"
    assert verdict_on_plan(changed, samples) == "fails"


def test_a_plan_where_this_version_plans_no_step_is_detected(folder: Path) -> None:
    study, samples = made(folder)
    assert verdict_on_plan(replace(study, epsilon=0.01), samples) == "fails"


def verdict_on_plan(study: Study, samples: PublicSamples) -> str:
    checks = examine(study, samples, MemoryBoard()).checks
    (verdict,) = [check.verdict for check in checks if check.what.startswith("the plan")]
    return verdict


def test_linear_algebra_that_rounds_otherwise_chooses_the_same_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on another processor."""
    study, samples = made(folder)
    eigh, draw, calls = np.linalg.eigh, np.random.default_rng(1), []

    def other(matrix: Any) -> Any:
        values, vectors = eigh(matrix)
        calls.append(len(matrix))
        return values * (1 - 2.0**-50), vectors * (1 + 2.0**-50 * draw.standard_normal(vectors.shape))

    monkeypatch.setattr(np.linalg, "eigh", other)
    monkeypatch.setattr("psephos.curator.remembered.REMEMBERED", {})
    assert differs_from_plan(StudyTerms(study, samples)) == []
    assert calls


def test_other_labels_of_the_same_rows_are_detected(folder: Path) -> None:
    """By the study's digest; and, where an author signed other labels than the plan is of, by whoever verifies."""
    study, _ = made(folder)
    rows = (folder / "public.csv").read_text("utf-8").splitlines()
    rows[1:6] = [row.replace("ill", "?").replace("well", "ill").replace("?", "well") for row in rows[1:6]]
    (folder / "swapped.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    samples = PublicSamples.read(folder / "swapped.csv", study.label)
    with pytest.raises(StudyError):
        StudyTerms(study, samples)
    changed = replace(study, public_table=samples.digest)
    assert "offset" in differs_from_plan(StudyTerms(changed, PublicSamples.of(changed, folder / "swapped.csv")))


def test_a_gain_beside_losses_asks_nobody(folder: Path) -> None:
    """What a step loses in some simulated worlds counts, not its mean gain alone; a larger gain in others does not."""
    terms = StudyTerms(*made(folder))
    spec = plan_study(terms, anew=True)
    assert isinstance(spec, RehearsedSpec)
    rehearsal = spec.rehearsal
    assert rehearsal is not None
    gains = np.full(32, 0.02)
    assert replace(rehearsal, gains=gains).asks
    assert replace(rehearsal, gains=np.where(np.arange(32) < 16, 0.2, gains)).asks
    assert not replace(rehearsal, gains=np.where(np.arange(32) < 8, -0.05, gains)).asks


def test_no_study_is_written_where_no_step_is_worth_its_epsilon(folder: Path) -> None:
    with pytest.raises(NoGainError):
        made(folder, epsilon=0.01)
    rows = [line.rpartition(",")[0] for line in (folder / "public.csv").read_text("utf-8").splitlines()]
    (folder / "unlabelled.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    with pytest.raises(DataError):
        made(folder, "unlabelled.csv")


@pytest.mark.parametrize(
    "changed",
    [
        {"scale": 0.0},
        {"scale": -1.0},
        {"norm": "l2"},
        {"norm": "l3"},
        {"limit": 0.0},
        {"ridge": -1.0},
        {"colluders": -1},
    ],
)
def test_a_plan_that_cannot_be_is_refused(folder: Path, changed: dict[str, Any]) -> None:
    """Noise without a delta is for steps of L1 norm 1."""
    study, samples = made(folder)
    with pytest.raises(StudyError):
        spec_of(StudyTerms(replace(study, parameters={**study.parameters, **changed}), samples))


def test_a_sum_of_zeros_releases_the_public_model(folder: Path) -> None:
    study, samples = made(folder)
    spec = spec_of(StudyTerms(study, samples))
    assert isinstance(spec, RehearsedSpec)
    zeros = OpenedSum((0,) * spec.release_plan.dimension, tuple(range(PARTIES)))
    assert np.allclose(spec.release(zeros)[0], spec.release_plan.grid.offset[:, 0])
    model = fit_public(public_features(samples.auxiliary.samples), samples.labels(study.classes), 2, samples.log_odds)
    assert np.allclose(spec.release(zeros)[0], model_classifier(model), atol=1e-5)
