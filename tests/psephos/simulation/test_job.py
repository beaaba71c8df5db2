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
from psephos.cli.main import build
from psephos.data.tables import read_table
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.transcript import Transcript
from psephos.results.base import Accuracy
from psephos.results.card import model_card
from psephos.simulation.job import Job
from psephos.simulation.options import JobOptions

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
    return JobOptions(**(SHORT | own | {"epsilon": (10.0,), "method": "whitened", "anyway": True} | more))


def test_one_command_makes_a_model_and_a_card_from_csv(tmp_path: Path) -> None:
    """A process of its own, with a key that protects."""
    path, out = patients(tmp_path / "patients.csv"), tmp_path / "out"
    words = "--label outcome --party hospital --public 8 --ignore number --epsilon 60 --method whitened --anyway"
    command = [sys.executable, "-m", "psephos", "run", "--data", str(path), *words.split(), "--key-bits", "2048"]
    done = subprocess.run([*command, "--output", str(out)], capture_output=True, text=True, check=True)
    begun = "One whitened classifier, private for each of 8 parties at epsilon 60, delta 5.42e-20: right on "
    assert begun in " ".join(done.stdout.split())
    written, then = done.stdout.rstrip().splitlines()[-2:]
    assert written == f"Written: {out}/model.json, {out}/card.md, {out}/result.json"
    assert f"psephos predict {out} FILE.csv" in then
    assert "test key" not in done.stdout + done.stderr
    for words in ("8 parties, 40 public rows", "pressure: number", "seen: date", "3 values: east, north, south"):
        assert words in done.stderr
    table = read_table(path)
    model = psephos.load_model(out)
    assert model.model.warnings == ()
    assert model.feature_names_in_.tolist() == ["pressure", "seen", "ward=east", "ward=north", "ward=south"]
    # The classes are 30 apart with a deviation of 8, and wards tell them too; pure noise gives 0.5. At epsilon 10 none
    # of 1,500 draws came below 0.96: noise that does has an exponential tail, so at 60 its probability is below 1e-18.
    assert (model.predict(table) == table["outcome"]).mean() > 0.8
    result = json.loads((out / "result.json").read_text())
    assert result["tally_equals_plaintext"]
    assert result["key_bits"] == 2048
    assert result["accuracy"]["whitened"]["private"] > 0.8
    assert result["privacy"]["whitened"]["epsilon"] == 60
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
    outcome = job.run(transcript=transcript)
    reveal, cast = SUMMED[method]
    assert outcome.reveal == reveal
    assert {message.phase for message in transcript.messages if message.phase.endswith(": cast")} == {cast}
    assert sum(message.phase == cast for message in transcript.messages) == 8
    assert list(outcome.privacy) == [method]
    assert outcome.composed is not None
    assert outcome.composed.releases == 1
    assert {name for name, score in outcome.accuracy.items() if score.private is not None} == {method}


def test_the_model_predicts_raw_rows_as_measured_on_scaled_rows(tmp_path: Path) -> None:
    path = patients(tmp_path / "t.csv")
    job = Job(options(path, method="statistic"))
    result = job.run()
    job.write(result, tmp_path)
    predicted = psephos.load_model(tmp_path).predict(read_table(path).iloc[job.split.test])
    right = np.mean(predicted == np.array(["ill", "well"])[job.split.y_test])
    assert right == pytest.approx(result.accuracy["statistic"].private)
    assert f"right on {right:.1%} of {len(predicted)} held-out rows" in result.page().text("answer")
    # The weights that the run returns are those of the model, before the public scaling is undone.
    coefficients, intercepts = result.evaluation.scaler.fold(np.atleast_2d(result.weights["statistic"]))
    model = job.model(result)
    np.testing.assert_array_equal(model.coefficients, coefficients)
    np.testing.assert_array_equal(model.intercepts, intercepts)


def test_a_published_data_set_is_voted_on_and_forecast_by_nobody() -> None:
    assert JobOptions().chosen_method == "statistic"
    assert not JobOptions().joint
    with pytest.raises(InvalidParameter, match="auto"):
        JobOptions(method="auto").check()


# -- the card


def without_signal(card: str) -> str:
    """The card without what is computed from the noisy release."""
    return "\n".join(line for line in card.splitlines() if not line.startswith(("| signal", "**The noise hides")))


def test_the_card_and_the_model_do_not_depend_on_private_accuracies(tmp_path: Path) -> None:
    """Two results that differ only in what was measured on private rows have the same public files."""
    job = Job(options(patients(tmp_path / "t.csv"), epsilon=(0.1,)))
    result = job.run()
    worst = {name: Accuracy(nonprivate=0.0, private=0.0, recall=[0.0]) for name in result.accuracy}
    evaluation = replace(result.evaluation, scores=[replace(score, accuracy=0.0) for score in result.evaluation.scores])
    other = replace(result, accuracy=worst | {"majority": Accuracy(nonprivate=1.0)}, evaluation=evaluation)
    written = []
    for number, one in enumerate((result, other)):
        directory = tmp_path / str(number)
        directory.mkdir()
        job.write(one, directory)
        written.append([(directory / name).read_bytes() for name in ("model.json", "card.md", "result.json")])
    assert written[0][:2] == written[1][:2]
    assert written[0][2] != written[1][2]


def test_the_card_says_nothing_about_private_rows(tmp_path: Path) -> None:
    """Parties with other rows, the same card: all that differs is in the model, which is private."""
    public = patients(tmp_path / "public.csv", hospitals=1, seed=7)
    public.write_text(read_table(public).drop(columns="outcome").to_csv(index=False, sep=";"))
    cards = []
    for seed, sick in ((1, 0.5), (2, 0.9)):
        path = patients(tmp_path / "t.csv", seed=seed, sick_at_first=sick)
        path.write_text(path.read_text() + "0;9;;;attic;well\n" * seed)  # a ward that no public row has
        job = Job(options(path, public=str(public), classes=("ill", "well")))
        outcome = job.run()
        assert f"{seed} private cells of the column 'ward'" in " ".join(outcome.page().texts("warning"))
        job.write(outcome, tmp_path)
        cards.append(without_signal((tmp_path / "card.md").read_text()))
        (tmp_path / "model.json").unlink()
    assert cards[0] == cards[1]
    for words in ("512-bit key is a test key", "| privacy | epsilon 10", "| unit |"):
        assert words in cards[0]
    simulated = replace(outcome, options=outcome.options | {"simulate_noise": True})
    card = model_card(job.model(outcome), simulated, job.split, 0.5)
    assert "seeded: whoever has the seed" in card
    assert "right on 50.0% of the public rows" in card


# -- the command


def invoke(*words: str) -> Any:
    return CliRunner().invoke(build(), list(words))


KEYS = ("--key-bits", "512", "--test-key", "--workers", "1")


def test_a_release_does_not_overwrite_another(tmp_path: Path) -> None:
    words = ("run", "--dataset", "synthetic", "--parties", "5", *KEYS, "--output", str(tmp_path), "--json")
    first = invoke(*words)
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["privacy"].keys() == {"statistic"}
    assert "A 512-bit key is a test key: it protects nothing." in first.stderr
    assert "Written: " in first.stderr
    assert psephos.load_model(tmp_path).model.warnings[0] == "A 512-bit key is a test key: it protects nothing."
    before = (tmp_path / "model.json").read_bytes()
    with pytest.raises(InvalidParameter, match="once more"):
        raise invoke(*words).exception
    assert (tmp_path / "model.json").read_bytes() == before


# -- privacy of a record


def record_options(path: Path, **more: Any) -> JobOptions:
    return options(path, **({"method": None, "unit": "record"} | more))


def test_a_record_level_classifier_names_its_unit_everywhere(tmp_path: Path) -> None:
    """From a table with labelled public rows to the card, the result and the model file."""
    path, out = patients(tmp_path / "patients.csv", rows=60), tmp_path / "out"
    out.mkdir()
    job = Job(record_options(path))
    assert (job.method, job.options.reveal) == ("newton", "statistic")
    result = job.run()
    job.write(result, out)
    release = result.privacy["newton"]
    assert (release.unit, release.epsilon, result.reveal, result.protocol) == ("record", 10.0, "statistic", "record")
    assert release.chosen["labelled"] == 60
    assert result.tally_equals_plaintext
    assert result.accuracy["newton"].private > 0.75
    card = (out / "card.md").read_text("utf-8")
    assert card.startswith("---\nlibrary_name: psephos\npipeline_tag: tabular-classification\n---\n\n# ")
    assert "| unit | one row of one party that is replaced, added or removed" in card
    assert "of the public rows, whose" not in card  # the public rows were used to fit the score
    written = json.loads((out / "result.json").read_text("utf-8"))
    assert written["privacy"]["newton"]["unit"] == "record"
    assert written["options"]["unit"] == "record"
    model = psephos.load_model(out / "model.json")
    assert model.predict(read_table(path)).shape == (540,)


def test_persons_are_protected_with_all_their_rows(tmp_path: Path) -> None:
    """The column is no feature, a party's persons are averaged, and the card says who is protected."""
    path = patients(tmp_path / "patients.csv", rows=60)
    table = pd.read_csv(path, sep=";", dtype=str, keep_default_na=False)
    table["patient"] = [f"p{number // 20}" for number in range(len(table))]
    table.to_csv(path, sep=";", index=False)
    job = Job(record_options(path, record="patient"))
    assert "patient" not in "".join(job.split.dataset.feature_names)
    held = {job.split.persons[row] for row in job.split.test}  # type: ignore[index]
    assert held.isdisjoint({job.split.persons[row] for rows in job.split.parties for row in rows})  # type: ignore[index]
    result = job.run()
    assert result.privacy["newton"].chosen["persons"] == "patient"
    card = model_card(job.model(result), result, job.split, None)
    assert "one person, as the column patient names them" in card
    with pytest.raises(DataError, match="nobody"):
        Job(record_options(path, record="nobody"))
    with pytest.raises(InvalidParameter, match="--party"):
        record_options(path, record="patient", party=None).check()
    table.loc[3, "patient"] = ""
    table.to_csv(path, sep=";", index=False)
    with pytest.raises(DataError, match="line 5"):
        Job(record_options(path, record="patient"))


def test_a_record_does_not_decide_whether_its_party_takes_part(tmp_path: Path) -> None:
    """The only row of a party whose label is a class gets one that is not, with --other-labels drop."""
    path = patients(tmp_path / "patients.csv")
    table = pd.read_csv(path, sep=";", dtype=str, keep_default_na=False)
    own = table.index[table["hospital"] == "3"]
    table.loc[own, "outcome"] = "unknown"
    for label in ("ill", "unknown"):
        table.loc[own[0], "outcome"] = label
        table.to_csv(path, sep=";", index=False)
        assert Job(record_options(path, other_labels="drop", held_out=0.0)).run().ballots == 8


def test_a_party_may_have_no_row_left(tmp_path: Path) -> None:
    """Whether it takes part does not depend on its rows: it sends its share of the noise."""
    path = patients(tmp_path / "patients.csv", rows=20)
    table = pd.read_csv(path, sep=";", dtype=str, keep_default_na=False)
    few = table.groupby("hospital").cumcount() < 2
    table[few | (table["hospital"] == "8")].to_csv(path, sep=";", index=False)
    job = Job(record_options(path, held_out=0.6))
    sizes = [len(rows) for rows in job.split.parties]
    assert 0 in sizes
    assert job.run().ballots == len(sizes)
    public = tmp_path / "open.csv"
    table[table["hospital"] == "8"].to_csv(public, sep=";", index=False)
    table[:3].to_csv(path, sep=";", index=False)
    for held_out in (0.2, 0.9):  # no error tells that rows are fewer than parties, or that none is left
        dealt = record_options(path, party=None, public=str(public), ignore=("hospital", "number"), held_out=held_out)
        assert Job(replace(dealt, parties=8)).run().ballots == 8
