"""The rehearsed step and announced class shares in `psephos run`, on a table with labelled public rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psephos
from psephos.curator.checks import public_features
from psephos.curator.class_shares import with_class_shares
from psephos.curator.rehearsal import fit_public
from psephos.curator.rehearsed import fit_rehearsed, model_classifier
from psephos.data.tables import read_table
from psephos.parties.statistic import own_vector
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.transcript import Transcript
from psephos.simulation.job import Job
from psephos.simulation.options import JobOptions, TallyOptions

PARTIES, ROWS = 60, 20


def patients(path: Path, *, labelled: bool = True) -> tuple[Path, Path]:
    """Write 60 hospitals' rows of numbers and a category, and a file of 40 public rows; return both paths."""
    generator = np.random.default_rng(0)
    count = PARTIES * ROWS + 40
    X, ward = generator.normal(size=(count, 4)), generator.integers(3, size=count)
    score = X @ np.array([1.0, -1.0, 0.7, 0.0]) + 0.8 * (ward == 1) + 0.7 * generator.logistic(size=count)
    lines = [
        ",".join([*(f"{value:.4f}" for value in row), "abc"[kind], "ill" if sick > 0.5 else "well"])
        for row, kind, sick in zip(X, ward, score, strict=True)
    ]
    head = "one,two,three,four,ward,outcome"
    own = [f"{line},h{number % PARTIES}" for number, line in enumerate(lines[40:])]
    (path / "own.csv").write_text("\n".join([f"{head},hospital", *own]) + "\n", encoding="utf-8")
    public = [head, *lines[:40]]
    if not labelled:
        public = [line.rsplit(",", 1)[0] for line in public]
    (path / "open.csv").write_text("\n".join(public) + "\n", encoding="utf-8")
    return path / "own.csv", path / "open.csv"


def options(path: Path, *, labelled: bool = True, **more: Any) -> JobOptions:
    """Return the options of a run with short keys."""
    own, public = patients(path, labelled=labelled)
    table = {"data": str(own), "label": "outcome", "party": "hospital", "public": str(public)}
    keys = {"key_bits": 512, "test_key": True, "workers": 1, "holders": 3, "threshold": 2}
    return JobOptions(**(table | keys | {"method": "rehearsed", "epsilon": (10.0,), "announced_rows": 1200} | more))


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "chosen"),
    [pytest.param(None, 10.0, "discrete-laplace", marks=pytest.mark.slow), ("gaussian", 10.0, "gaussian")],
)
def test_a_rehearsed_step_is_released_with_its_card(
    tmp_path: Path, mechanism: Any, epsilon: float, chosen: str
) -> None:
    """The rehearsal of these rows chooses Gaussian noise for many coordinates, where it may."""
    out = tmp_path / "out"
    out.mkdir()
    away: dict[str, Any] = {"absent": 0.05, "dropouts": 3, "colluders": 2} if mechanism is None else {"colluders": 1}
    there = PARTIES - away.get("dropouts", 0)
    features = "linear" if mechanism is None else "fourier"
    job = Job(options(tmp_path, mechanism=mechanism, epsilon=(epsilon,), features=features, **away))
    result = job.run()
    job.write(result, out)
    release = result.privacy["rehearsed"]
    assert result.tally_equals_plaintext
    assert (release.unit, release.epsilon, result.reveal) == ("party", epsilon, "statistic")
    assert (release.mechanism, release.norm) == (chosen, "l2" if chosen == "gaussian" else "l1")
    assert release.delta == (pytest.approx(1e-6) if chosen == "gaussian" else stated_delta())
    assert result.ballots == there
    assert release.sensitivity == pytest.approx(2 / there)
    ((_, _, factory, _),) = result.evaluation.contributions
    spec = factory.spec
    assert spec.shares.contributors == there - away["colluders"] - 1
    assert (spec.colluders, spec.release_plan.parties) == (away["colluders"], PARTIES)
    assert spec.release_plan.event.epsilon == epsilon
    rows = [own_vector(spec.release_plan.grid, *factory.data[number]) for number in range(PARTIES)]
    total = np.sum([row for number, row in enumerate(rows) if number not in job.options.absent_parties], axis=0)
    expected = fit_rehearsed(replace(spec.release_plan, mechanism=None), total.tolist(), there)
    clear = next(one.w for one in result.evaluation.scores if (one.method, one.epsilon) == ("rehearsed", None))
    np.testing.assert_allclose(clear, expected)
    assert release.chosen["expected gain"] > 0
    if epsilon == 10.0:
        assert result.accuracy["rehearsed"].private > 0.7
    assert result.accuracy["rehearsed"].nonprivate > 0.7
    assert "of the public rows, whose" not in (out / "card.md").read_text("utf-8")  # they were used to fit the model
    assert psephos.load_model(out / "model.json").predict(read_table(tmp_path / "own.csv")).shape == (1200,)


@pytest.mark.slow
def test_where_no_gain_is_expected_the_public_model_is_written(tmp_path: Path) -> None:
    """No key is made and no message is sent; other private rows give the same files, byte for byte."""
    written = []
    for name in ("first", "second"):
        out, transcript = tmp_path / name, Transcript()
        out.mkdir()
        job = Job(options(out, epsilon=(0.01,)))
        if name == "second":  # all parties' labels are exchanged
            own = out / "own.csv"
            own.write_text(own.read_text("utf-8").translate(str.maketrans("123", "321")), encoding="utf-8")
            job = Job(job.options)
        result = job.run(transcript=transcript)
        job.write(result, out)
        assert not list(transcript.messages)
        assert not result.asked
        assert result.key_bits == 0
        assert result.privacy["public"].epsilon == 0
        written.append([(out / file).read_bytes() for file in ("model.json", "card.md")])
    assert written[0] == written[1]
    assert psephos.load_model(tmp_path / "first" / "model.json").model.parties == 0
    X, y = job.split.dataset.X_train[job.split.auxiliary], job.split.dataset.y_train[job.split.auxiliary]
    scaler = result.evaluation.scaler
    model = fit_public(public_features(scaler.transform(X)), y, 2, scaler.unscaled(job.split.log_odds))
    assert np.allclose(result.weights["public"], model_classifier(model))


SHARES = ("ill=0.8", "well=0.2")


def a_job(path: Path, **more: Any) -> Job:
    usual = {
        "labelled": False,
        "classes": ("ill", "well"),
        "announced_rows": None,
        "seed": 1,
        "simulate_noise": True,
        "anyway": True,
    }
    return Job(options(path, **usual | more))


@pytest.mark.parametrize("method", ["own-data", "vote-directions", "statistic", "avg"])
def test_the_released_classifier_has_the_intercept_of_the_shares(method: str, tmp_path: Path) -> None:
    """The noise of the seed is the same in both runs; nothing that a party sends depends on the statement."""
    plain, stated = (a_job(tmp_path, method=method, class_shares=shares).run() for shares in ((), SHARES))
    X = stated.evaluation.scaler.transform(a_job(tmp_path, method=method).split.X_auxiliary)
    expected = with_class_shares(plain.weights[method], X, [0.8, 0.2])
    assert np.array_equal(stated.weights[method], expected)
    clear, moved = (
        next(one.w for one in run.evaluation.scores if (one.method, one.epsilon) == (method, None))
        for run in (plain, stated)
    )
    assert np.array_equal(moved, with_class_shares(clear, X, [0.8, 0.2]))
    assert stated.weights[method][-1] < plain.weights[method][-1]
    assert plain.evaluation.sums.keys() == stated.evaluation.sums.keys()
    for phase, sums in plain.evaluation.sums.items():
        assert [one.sums for one in sums] == [one.sums for one in stated.evaluation.sums[phase]]
    assert stated.privacy[method].chosen["class shares"] == "0.8 0.2"
    assert stated.privacy[method].epsilon == plain.privacy[method].epsilon
    assert "class shares" not in plain.privacy[method].chosen


@pytest.mark.parametrize(
    "shares",
    [
        ("ill=0.1",),
        ("ill=0.1", "ill=0.9"),
        ("ill=0.5", "well=0.9"),
        ("ill=0.1", "well=most"),
        ("ill", "well"),
    ],
)
def test_shares_of_other_classes_are_refused_before_anything_is_trained(
    shares: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InvalidParameter):
        a_job(tmp_path, method="own-data", class_shares=shares)


def test_shares_are_in_the_order_of_the_classes() -> None:
    """A name may contain an equals sign; no statement is no share."""
    announced = TallyOptions(class_shares=("well=0.25", "a=b=0.5", "ill=0.25"))
    assert announced.shares_of(("a=b", "ill", "well")) == (0.5, 0.25, 0.25)
    assert TallyOptions().shares_of(("ill", "well")) == ()
    with pytest.raises(InvalidParameter):
        announced.shares_of(("ill", "well"))
