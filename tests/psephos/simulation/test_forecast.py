"""The decision before anything is encrypted or charged: what it depends on, and what each outcome does."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from psephos.cli.main import build
from psephos.progress import silent
from psephos.protocol.errors import InvalidParameter, UselessReleaseError
from psephos.protocol.storage.budget import BudgetFile
from psephos.protocol.transcript import Transcript
from psephos.simulation import forecast as module
from psephos.simulation.forecast import SCREENED, WORLDS, Forecast, Outlook, PlainSums, PublicRows, best_of, forecast
from psephos.simulation.job import Job
from psephos.simulation.options import COUNTED, JobOptions
from psephos.simulation.sums import populate
from psephos.simulation.tally import methods_of
from psephos.specs.terms import PublicTerms

KEYS: dict[str, Any] = {"key_bits": 512, "test_key": True, "workers": 1, "holders": 3, "threshold": 2}
HEAD = "age,dose,site"


def table(path: Path, *, labelled: bool = True, swapped: bool = False, clinics: int = 8) -> dict[str, Any]:
    """Write private and public rows; where they are `swapped`, every private row is another one."""
    path.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    lines = []
    for number in range(60 + 20 * clinics):
        ill = generator.random() < 0.5
        if swapped and number >= 60:
            ill = number % 3 == 0
        age, dose = generator.normal(60 if ill else 45, 12), generator.normal(1 if ill else 2, 1)
        lines.append((f"{age:.1f},{dose:.2f},{'north' if number % 2 else 'south'}", "ill" if ill else "well"))
    public = [f"{row},{label}" if labelled else row for row, label in lines[:60]]
    (path / "open.csv").write_text("\n".join([HEAD + ",outcome" * labelled, *public]) + "\n", encoding="utf-8")
    own = [f"{row},{label},{number % clinics}" for number, (row, label) in enumerate(lines[60:])]
    (path / "own.csv").write_text("\n".join([f"{HEAD},outcome,clinic", *own]) + "\n", encoding="utf-8")
    named = {"data": str(path / "own.csv"), "public": str(path / "open.csv")}
    return KEYS | named | {"label": "outcome", "party": "clinic", "classes": ("ill", "well")}


def words(options: dict[str, Any]) -> list[str]:
    given = {name.replace("_", "-"): value for name, value in options.items() if name not in ("test_key", "classes")}
    flat = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    return ["run", *flat, "--classes", "ill,well", "--test-key"]


def invoked(options: dict[str, Any], *more: str) -> Result:
    return CliRunner().invoke(build(), [*words(options), *more])


def charged(path: Path) -> int:
    with BudgetFile(path, create=False) as file:
        return len(file.charges())


SCHEMA = """classes = ["ill", "well"]
[columns]
age = {kind = "number", minimum = 0, maximum = 100}
dose = {kind = "number", minimum = -5, maximum = 5}
site = {kind = "text", values = ["north", "south"]}
"""


@pytest.mark.parametrize(
    ("labelled", "more"),
    [
        (True, {}),
        (True, {"unit": "record", "epsilon": (3.0,)}),
        (False, {"epsilon": (0.02,)}),
        (True, {"party": None, "parties": 8}),
        (False, {"public": None, "classes": (), "schema": "schema.toml", "epsilon": (3.0,)}),
    ],
)
def test_other_private_rows_change_neither_the_decision_nor_its_text(
    labelled: bool, more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every private row is another one: only what is public reaches the forecast. The text tells the exit status."""
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    decided = []
    for swapped in (False, True):
        own = table(tmp_path / str(swapped), labelled=labelled, swapped=swapped)
        if "party" in more:  # the rows are dealt at random
            own["ignore"] = ("clinic",)
        job = Job(JobOptions(**own | more))
        try:
            job.decide()
            assert job.forecast is not None
            decided.append((job.forecast.decision, job.method, job.forecast.reason, job.options.methods))
        except UselessReleaseError as error:
            decided.append(str(error))
    assert decided[0] == decided[1]


def test_a_run_that_stops_has_charged_nothing_and_says_what_would_work(tmp_path: Path) -> None:
    own, out = table(tmp_path, labelled=False), tmp_path / "out"
    ledger = tmp_path / "b.sqlite"
    chosen = own | {"method": "own-data", "epsilon": 0.1, "budget": ledger, "output": out}
    code, text = subprocess_of(chosen)
    assert code == 3
    missing = [
        word for word in ("rows each (gain", "--epsilon", "-rows=", "labels on 20 ", "--anyway") if word not in text
    ]
    assert not missing, text
    assert not ledger.exists() or charged(ledger) == 0
    assert not any(out.iterdir())
    for chosen_by, labelled in (("own-data", False), ("auto", True)):
        terms: dict[str, Any] = {"method": chosen_by, "epsilon": (0.1,), "anyway": True}
        assert Job(JobOptions(**table(tmp_path / chosen_by, labelled=labelled), **terms)).run().asked
    with pytest.raises(UselessReleaseError) as stopped:  # however large the tried values are
        Job(JobOptions(**own, class_shares=("ill=0.99", "well=0.01"))).decide()
    assert not [each for each in stopped.value.suggestions if "gain" in each]  # nobody gains .01 on .99


@pytest.mark.parametrize(("shares", "releases"), [((), False), (("a=0.5", "b=0.5"), True), (("a=0.1", "b=0.9"), False)])
def test_what_would_lose_a_frequent_class_is_taken_only_where_no_class_is(shares: Any, releases: bool) -> None:
    """Its noise would hide that one class is frequent, which it may be where nobody says otherwise."""
    public = PublicRows(np.random.default_rng(1).normal(size=(100, 20)), np.full(100, -1), ("a", "b"))
    own: dict[str, Any] = {"data": "own.csv", "label": "y", "public": "open.csv", "classes": public.classes}
    options = JobOptions(**own, parties=30, method="own-data", epsilon=(4.0,), class_shares=shares)
    with nullcontext() if releases else pytest.raises(UselessReleaseError):
        assert forecast(options.candidates(), public).decision == "release"


def test_a_method_that_was_played_in_the_first_worlds_only_stands_behind_those_that_were_played_in_all() -> None:
    """One of the first worlds has a frequent class, and their mean is not that of all."""
    public = PublicRows(np.random.default_rng(0).normal(size=(40, 2)), np.full(40, -1), ("a", "b"))
    own: dict[str, Any] = {"data": "own.csv", "label": "y", "public": "open.csv", "classes": public.classes}
    decided = forecast(JobOptions(**own, parties=10, holders=3, anyway=True).candidates(), public)
    played = [len(each.gains) for each in decided.outlooks]
    assert {*played} == {SCREENED, WORLDS}
    assert played == sorted(played, reverse=True)
    assert decided.chosen is decided.outlooks[0]
    own["classes"] = three = ("a", "b", "c")
    chosen = JobOptions(**own, parties=10, holders=3, epsilon=(0.01,), anyway=True)
    hopeless = forecast(chosen.candidates(), replace(public, classes=three))
    assert [len(each.gains) for each in hopeless.outlooks[:2]] == [WORLDS, SCREENED]


def subprocess_of(options: dict[str, Any]) -> tuple[int, str]:
    """Run the command in a process of its own, which sees the exit status; return it and standard error."""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-m", "psephos", *words(options)], capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("more", [{}, {"method": "own-data"}, {"unit": "record"}])
def test_without_a_gain_the_public_model_is_written_whatever_the_method(more: dict[str, Any], tmp_path: Path) -> None:
    """Nothing is sent or charged, and the files do not depend on the private rows."""
    written = []
    for swapped in (False, True):
        place, transcript = tmp_path / str(swapped), Transcript()
        own = table(place, swapped=swapped)
        ledger = place / "b.sqlite"
        job = Job(JobOptions(**own, **more, epsilon=(0.05,), budget=str(ledger), budget_limit="0.05"))
        result = job.run(transcript=transcript)
        job.write(result, place)
        assert not list(transcript.messages)
        assert not result.asked
        assert result.page().text("answer").startswith("The model of the public rows, at epsilon 0")
        assert charged(ledger) == 0
        written.append([(place / name).read_bytes() for name in ("model.json", "card.md")])
    assert written[0] == written[1]
    assert json.loads(written[0][0])["release"]["epsilon"] == 0


@pytest.mark.parametrize("useful", [True, False])
def test_a_public_model_that_is_no_better_than_the_most_frequent_class_is_doubted(useful: bool, tmp_path: Path) -> None:
    own = table(tmp_path)
    if not useful:
        head, *rows = (tmp_path / "open.csv").read_text().splitlines()
        rows = [f"{row.rpartition(',')[0]},{'ill' if number % 3 else 'well'}" for number, row in enumerate(rows)]
        (tmp_path / "open.csv").write_text("\n".join([head, *rows]))
    job = Job(JobOptions(**own, method="own-data", epsilon=(0.05,), features="linear"))
    job.decide()
    assert job.forecast is not None
    assert bool(job.forecast.doubt) is not useful


def outlook(method: str, accuracy: float, gain: float) -> Outlook:
    return Outlook(JobOptions(method=method), accuracy, np.full(WORLDS, gain), least=0.05)  # type: ignore[arg-type]


def test_counted_votes_are_taken_where_they_are_nearly_as_good_and_gain_themselves() -> None:
    best = outlook("own-data", 0.9, 0.1)
    for accuracy, gain, chosen in ((0.881, 0.081, "statistic"), (0.879, 0.079, "own-data"), (0.889, 0.0, "own-data")):
        taken = best_of([best, outlook("statistic", accuracy, gain)])
        assert taken is not None
        assert taken.method == chosen
    assert best_of([outlook("own-data", 0.9, 0.0)]) is None
    assert best_of([replace(best, gains=best.gains[:SCREENED])]) is None
    assert best_of([replace(best, least=0.2)]) is None


def test_auto_leaves_out_methods_that_do_not_read_an_option(tmp_path: Path) -> None:
    own = table(tmp_path)

    def methods(**more: Any) -> set[str]:
        return {each.chosen_method for each in JobOptions(**own, **more).candidates()}

    assert len(methods()) == 9
    assert methods(reveal="alpha") == {*COUNTED, "avg"}
    assert methods(learners=("tree",)) == {*COUNTED, "vote-directions"}
    assert "rehearsed" not in methods(class_shares=("ill=0.5", "well=0.5"))
    assert methods(unit="record") == {"newton"}
    assert methods(method="pate") == {"pate"}
    with pytest.raises(InvalidParameter, match="colluders"):
        methods(reveal="alpha", colluders=2)
    with pytest.raises(InvalidParameter, match="anyway"):
        JobOptions(anyway=True).check()


def test_a_method_is_forecast_alone_as_beside_others(tmp_path: Path) -> None:
    own = table(tmp_path)
    split = Job(JobOptions(**own, method="avg")).split
    public = PublicRows(split.X_auxiliary, split.public_labels, split.dataset.classes)
    alone, beside = (
        forecast([replace(JobOptions(**own, method=name).candidates()[0], parties=8) for name in names], public)
        for names in (("avg",), ("own-data", "statistic", "avg"))
    )
    (among,) = (each for each in beside.outlooks if each.method == "avg")
    assert np.array_equal(alone.chosen.gains[:SCREENED], among.gains[:SCREENED])


@pytest.mark.parametrize(
    "more",
    [
        {"method": "statistic"},
        {"method": "statistic", "reveal": "statistic"},
        {"method": "vote-directions"},
        {"method": "avg"},
        {"method": "own-data"},
        {"method": "newton", "unit": "record"},
    ],
)
def test_a_forecast_sums_what_the_parties_would_send(more: dict[str, Any], tmp_path: Path) -> None:
    """On the real parties, without noise, it has the sum that the encrypted run opens."""
    method = more["method"]
    job = Job(JobOptions(**table(tmp_path), **more, anyway=True, simulate_noise=True))
    result = job.run()
    ((_, _, factory, _),) = result.evaluation.contributions
    ((opened,),) = result.evaluation.sums.values()
    population = populate(job.options, job.split, silent)
    terms = PublicTerms(
        auxiliary=module.AuxiliarySet(population.auxiliary), classes=2, parties=8, labels=job.split.public_labels
    )
    counts: dict[Any, Any] = {}
    plain: Any = PlainSums(job.options, population, terms, np.random.default_rng(0), counts, 8)
    methods_of(job.options)(plain)(job.options.epsilon[0])[method].draw(job.options.noise_coins)
    (exact,) = (counts or plain.exact).values()
    spread = np.sqrt(factory.spec.release_plan.noise_variance) if factory.spec.joint else 0.0
    assert np.abs(np.array(opened.sums, dtype=float) - exact.astype(float)).max() <= 40 * spread


def test_the_reason_names_the_second_best() -> None:
    one, other = outlook("own-data", 0.9, 0.1), outlook("avg", 0.85, 0.05)
    reason = Forecast("release", one, (one, other), rows=7, labelled=True).reason
    assert all(word in reason for word in ("own-data", "90.0%", "80.0%", "7 rows", "avg +5.0%"))
