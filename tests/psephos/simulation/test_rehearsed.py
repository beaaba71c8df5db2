"""The rehearsed step in `psephos run`: from a table with labelled public rows to the card, or no question at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psephos
from psephos.curator.checks import public_features
from psephos.curator.rehearsal import fit_public
from psephos.curator.rehearsed import fit_rehearsed, model_classifier
from psephos.data.tables import read_table
from psephos.parties.statistic import own_vector
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.transcript import Transcript
from psephos.simulation.job import Job
from psephos.simulation.options import JobOptions

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
    ("mechanism", "epsilon", "chosen"), [(None, 10.0, "discrete-laplace"), ("gaussian", 1.0, "gaussian")]
)
def test_a_rehearsed_step_is_released_with_its_card(
    tmp_path: Path, mechanism: Any, epsilon: float, chosen: str
) -> None:
    """The rehearsal of these rows chooses Gaussian noise at epsilon 1, where it may."""
    out, steps = tmp_path / "out", []
    out.mkdir()
    away: dict[str, Any] = {"absent": 0.05, "dropouts": 3, "colluders": 2} if mechanism is None else {"colluders": 1}
    there = PARTIES - away.get("dropouts", 0)
    job = Job(options(tmp_path, mechanism=mechanism, epsilon=(epsilon,), **away))
    result = job.run(progress=lambda what, done, total: steps.append((what, done, total)))
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
    rehearsed = [(done, total) for what, done, total in steps if what == "rehearse"]
    assert rehearsed[0][0] == 0
    assert rehearsed[-1] == (rehearsed[0][1], rehearsed[0][1])
    assert "right on" not in (out / "card.md").read_text("utf-8")  # the public rows were used to fit the model
    written = json.loads((out / "result.json").read_text("utf-8"))
    assert written["privacy"]["rehearsed"]["chosen"]["public accuracy"] > 0.5
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
        assert (result.degree, result.ballots, result.min_ballots, result.bytes_per_ballot) == (0, 0, 0, 0)
        assert (result.slots_per_plaintext, result.ciphertexts_per_ballot) == (0, 0)
        assert (result.colluders, result.peak_memory_mb, result.tally_equals_plaintext) == (None, None, True)
        assert result.privacy["rehearsed"].chosen.keys() == {"public accuracy", "expected gain"}
        assert result.privacy["rehearsed"].epsilon == 0
        assert result.composed is not None
        assert (result.composed.releases, result.composed.epsilon) == (0, 0)
        written.append([(out / file).read_bytes() for file in ("model.json", "card.md")])
    assert written[0] == written[1]
    assert psephos.load_model(tmp_path / "first" / "model.json").model.parties == 0
    assert "asked nothing" in result.page().answer
    card = written[0][1].decode()
    assert "no party was asked" in card
    assert "key holders" not in card
    X, y = job.split.dataset.X_train[job.split.auxiliary], job.split.dataset.y_train[job.split.auxiliary]
    model = fit_public(public_features(result.evaluation.scaler.transform(X)), y, 2)
    assert np.allclose(result.weights["rehearsed"], model_classifier(model))


def test_auto_rehearses_where_public_rows_have_labels(tmp_path: Path) -> None:
    methods = {
        (labelled, learners): Job(
            options(tmp_path, labelled=labelled, method="auto", learners=learners, announced_rows=None, **more)
        ).method
        for labelled, learners, more in (
            (True, (), {}),
            (True, ("tree",), {}),
            (False, (), {"classes": ("ill", "well")}),
        )
    }
    assert list(methods.values()) == ["rehearsed", "vote-directions", "whitened"]
    assert Job(options(tmp_path, method="auto")).options.announced_rows == 1200
    assert Job(options(tmp_path, method="auto", noise_from="holders", announced_rows=None)).method == "whitened"
    with pytest.raises(InvalidParameter, match="announced-rows"):
        Job(options(tmp_path, labelled=False, classes=("ill", "well"), method="auto"))


@pytest.mark.parametrize("labelled", [True, False])
def test_the_hint_names_the_rehearsed_step_where_public_rows_have_labels(labelled: bool, tmp_path: Path) -> None:
    """Without labels it names averaging, whose noise is short for 60 parties and so few features."""
    own: dict[str, Any] = {"method": None, "announced_rows": None, "epsilon": (1.0,)}
    job = Job(options(tmp_path, labelled=labelled, classes=("ill", "well"), **own))
    assert job.method == "statistic"
    assert job.advice(job.run()).startswith(f"--method {'rehearsed' if labelled else 'avg'} ")


def test_public_rows_without_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        Job(options(tmp_path, labelled=False)).run()
