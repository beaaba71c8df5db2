"""The main job: one release, what it needs and nothing else, kept as files that say only what is public."""

from __future__ import annotations

import json
import random
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import psephos
from psephos.card import model_card
from psephos.cli.main import build
from psephos.data.tables import read_table
from psephos.job import Job, JobOptions
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.transcript import Transcript

SHORT: dict[str, Any] = {"key_bits": 512, "test_key": True, "workers": 1, "holders": 3, "threshold": 2}
WARDS = ("north", "south", "east")


def patients(path: Path, *, hospitals: int = 9, rows: int = 40, seed: int = 0, sick_at_first: float = 0.5) -> Path:
    """A column of each kind, with gaps; the class is nearly readable off two of them. The last hospital is public."""
    generator = random.Random(seed)
    lines = ["hospital;number;pressure;seen;ward;outcome"]
    for number in range(hospitals * rows):
        sick = generator.random() < (sick_at_first if number % hospitals == 0 else 0.5)
        pressure = f"{generator.gauss(150 if sick else 120, 8):.1f}".replace(".", ",") if number % 11 else ""
        ward = WARDS[generator.randrange(2) if sick else 2]
        seen = f"2024-{1 + number % 12:02}-{1 + number % 28:02}"
        lines.append(f"{number % hospitals};{number};{pressure};{seen};{ward};{'ill' if sick else 'well'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def options(path: Path, **more: Any) -> JobOptions:
    own = {"data": str(path), "label": "outcome", "party": "hospital", "public": "8", "ignore": ("number",)}
    return JobOptions(**(SHORT | own | {"epsilon": (10.0,)} | more))


def test_a_csv_file_becomes_a_model_and_a_card_by_one_command(tmp_path: Path) -> None:
    """A process of its own, with a key that protects."""
    path, out = patients(tmp_path / "patients.csv"), tmp_path / "out"
    asked = ["--label", "outcome", "--party", "hospital", "--public", "8", "--ignore", "number", "--epsilon", "10"]
    command = [sys.executable, "-m", "psephos", "run", "--data", str(path), *asked, "--key-bits", "2048"]
    done = subprocess.run([*command, "--output", str(out)], capture_output=True, text=True, check=True)
    answer, written, then = done.stdout.rstrip().splitlines()[-3:]
    assert answer.startswith("One whitened classifier, private for each of 8 parties at epsilon 10: right on ")
    assert written == f"Written: {out}/model.json, {out}/card.md, {out}/result.json"
    assert f"psephos predict {out} FILE.csv" in then
    assert "test key" not in done.stdout + done.stderr
    for said in ("8 parties, 40 public rows", "pressure: number", "seen: date", "3 values: east, north, south"):
        assert said in done.stderr
    table = read_table(path)
    model = psephos.load_model(out)
    assert model.model.warnings == ()
    assert model.feature_names_in_.tolist() == ["pressure", "seen", "ward=east", "ward=north", "ward=south"]
    # The classes are 30 apart with a deviation of 8, and wards tell them too; pure noise gives 0.5.
    assert (model.predict(table) == table["outcome"]).mean() > 0.8
    result = json.loads((out / "result.json").read_text())
    assert result["tally_equals_plaintext"]
    assert result["key_bits"] == 2048
    assert result["accuracy"]["whitened"]["private"] > 0.8
    assert result["privacy"]["whitened"]["epsilon"] == 10
    assert stat.S_IMODE((out / "result.json").stat().st_mode) == 0o600


# -- one release, and what it needs

SUMMED = {
    "own-data": ("statistic", "statistic: cast"),
    "whitened": ("statistic", "statistic: cast"),
    "statistic": ("alpha", "votes: cast"),
    "soft": ("alpha", "votes: cast"),
    "vote": ("alpha", "votes: cast"),
    "pate": ("alpha", "votes: cast"),
    "avg": ("alpha", "parameters: cast"),
}


@pytest.mark.parametrize("method", SUMMED)
def test_each_method_opens_what_it_needs_and_is_released_once(method: str, tmp_path: Path) -> None:
    transcript = Transcript()
    job = Job(options(patients(tmp_path / "t.csv"), method=method))
    outcome = job.run(job.options, transcript=transcript)
    reveal, cast = SUMMED[method]
    assert outcome.reveal == reveal
    assert {message.phase for message in transcript.messages if message.phase.endswith(": cast")} == {cast}
    assert sum(message.phase == cast for message in transcript.messages) == 8
    assert list(outcome.privacy) == [method]
    assert outcome.composed is not None
    assert outcome.composed.releases == 1
    assert {name for name, found in outcome.accuracy.items() if found.private is not None} == {method}


def test_the_model_decides_on_rows_as_they_come_what_was_measured_on_scaled_ones(tmp_path: Path) -> None:
    job = Job(options(patients(tmp_path / "t.csv"), method="statistic"))
    outcome = job.run(job.options)
    job.write(tmp_path)
    said = psephos.load_model(tmp_path).predict(job.dealt.X_test)
    right = np.mean(said == np.array(["ill", "well"])[job.dealt.y_test])
    assert right == pytest.approx(outcome.accuracy["statistic"].private)
    assert f"right on {right:.1%} of {len(said)} held-out rows" in job.answer


def test_a_published_data_set_too(tmp_path: Path) -> None:
    job = Job(JobOptions(**SHORT, dataset="digits", parties=6, learners=("tree", "knn"), epsilon=(20.0,)))
    assert job.said == []
    outcome = job.run(job.options)
    assert job.method == "statistic"
    job.write(tmp_path)
    model = psephos.load_model(tmp_path)
    assert model.coef_.shape == (10, 64)
    assert model.feature_names_in_[1] == "pixel_0_1"
    assert np.mean(model.predict(job.dealt.X_test).astype(int) == job.dealt.y_test) == pytest.approx(
        outcome.accuracy["statistic"].private
    )
    frame = pd.DataFrame(job.dealt.X_test[:5], columns=model.feature_names_in_)
    assert (model.predict(frame) == model.predict(job.dealt.X_test[:5])).all()


def test_auto_takes_the_quieter_noise_where_a_delta_is_accepted(tmp_path: Path) -> None:
    """Two classes are few entries, where a pure epsilon needs less noise; what was named by its name stays."""
    for method, mechanism in (("auto", "discrete-laplace"), ("own-data", "gaussian")):
        job = Job(options(patients(tmp_path / "t.csv"), method=method, mechanism="gaussian", epsilon=(0.5,)))
        assert job.run(job.options).privacy[job.method].mechanism == mechanism


def test_the_statistic_of_votes_can_be_private_before_the_curator_sees_it(tmp_path: Path) -> None:
    job = Job(options(patients(tmp_path / "t.csv"), method="statistic", reveal="statistic"))
    assert job.run(job.options).alpha is None
    with pytest.raises(InvalidParameter, match="soft needs the counts"):
        Job(options(tmp_path / "t.csv", method="soft", reveal="statistic"))
    with pytest.raises(InvalidParameter, match="method is one of auto"):
        Job(options(tmp_path / "t.csv", method="best"))


def test_fewer_parties_than_holders_hold_the_key_all_together(tmp_path: Path) -> None:
    path = patients(tmp_path / "t.csv", hospitals=4)
    chosen = Job(replace(options(path, public="3"), holders=5, threshold=3)).options
    assert (chosen.parties, chosen.holders, chosen.threshold) == (3, 3, 2)


def test_nothing_held_out_is_nothing_measured(tmp_path: Path) -> None:
    job = Job(options(patients(tmp_path / "t.csv"), held_out=0.0))
    outcome = job.run(job.options)
    assert outcome.test == 0
    assert outcome.accuracy["whitened"].private is None
    assert job.answer.endswith("at epsilon 10.")
    assert job.dealt.sizes.tolist() == [40] * 8
    json.dumps(outcome.as_json(), allow_nan=False)


# -- the card


def test_the_card_says_nothing_about_private_rows(tmp_path: Path) -> None:
    """Parties with other rows, the same card: all that differs is in the model, which is private."""
    public = patients(tmp_path / "public.csv", hospitals=1, seed=7)
    public.write_text(read_table(public).drop(columns="outcome").to_csv(index=False))
    cards = []
    for seed, sick in ((1, 0.5), (2, 0.9)):
        path = patients(tmp_path / "t.csv", seed=seed, sick_at_first=sick)
        path.write_text(path.read_text() + "0;9;;;attic;well\n" * seed)  # a ward that no public row has
        job = Job(options(path, public=str(public)))
        outcome = job.run(job.options)
        assert f"{seed} private cells of the column 'ward'" in " ".join(outcome.page().warnings)
        assert job.model is not None
        job.write(tmp_path)
        cards.append((tmp_path / "card.md").read_text())
        (tmp_path / "model.json").unlink()
    assert cards[0] == cards[1]
    for said in ("512-bit key is a test key", "| epsilon | 10", "| unit | party", "discrete-laplace", "| ward | text"):
        assert said in cards[0]
    for said in ("2/M", "dealer of the key", "no proofs", "the median of the public rows"):
        assert said in cards[0]
    card = model_card(job.model, replace(outcome, noise_source="simulation"), job.dealt, 0.5)
    assert "from a SEED" in card
    assert "right on 50.0% of the public rows" in card


# -- the command


def invoke(*words: str) -> Any:
    return CliRunner().invoke(build(words), list(words))


KEYS = ("--key-bits", "512", "--test-key", "--workers", "1")


def test_a_release_is_not_written_over_another(tmp_path: Path) -> None:
    words = ("run", "--dataset", "synthetic", "--parties", "5", *KEYS, "--output", str(tmp_path), "--json")
    first = invoke(*words)
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["privacy"].keys() == {"whitened"}
    assert "A 512-bit key is a test key: it protects nothing." in first.stderr
    assert "Written: " in first.stderr
    assert psephos.load_model(tmp_path).model.warnings == ("A 512-bit key is a test key: it protects nothing.",)
    before = (tmp_path / "model.json").read_bytes()
    with pytest.raises(InvalidParameter, match="cost the parties epsilon once more"):
        raise invoke(*words).exception
    assert (tmp_path / "model.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", "1,2"), "one release is drawn"),
        (("--onnx",), "name one"),
        (("--method", "best"), "is not one of 'auto'"),
        (("--label", "y"), "--label is about your own table"),
        (("--data", "absent.csv"), "--data needs --label"),
    ],
)
def test_what_cannot_be_run_is_said(words: tuple[str, ...], said: str) -> None:
    done = invoke("run", *KEYS, *words)
    assert done.exit_code
    assert said in done.output + str(done.exception)


def test_without_a_directory_nothing_is_kept_and_that_is_said() -> None:
    done = invoke("run", "--dataset", "synthetic", "--parties", "5", *KEYS)
    assert done.stdout.rstrip().endswith("It was not kept: --output DIR writes it.")
    assert done.stdout.startswith("WARNING: A 512-bit key is a test key")


def test_a_report_that_fails_loses_nothing(tmp_path: Path) -> None:
    """The report's directory takes a probe and then no figures: a file lies where they would go."""
    report = tmp_path / "report"
    report.mkdir()
    (report / "figures").write_text("in the way")
    words = ("run", "--dataset", "synthetic", "--parties", "5", *KEYS, "--output", str(tmp_path / "kept"))
    done = invoke(*words, "--report", str(report))
    assert done.exception is not None
    assert "Written: " in done.stdout
    assert psephos.load_model(tmp_path / "kept").classes_.tolist() == ["class 0", "class 1"]
