"""Runs with a budget file: what each is charged, when, how often, and what is shown. Keys that protect nothing."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.protocol.errors import BudgetExceededError, BudgetFileError, InvalidParameter
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.roles import Role
from psephos.protocol.storage.budget import BudgetFile, BudgetTotal, ChargeRecord, PrivacyLimit
from psephos.released import ReleasedClassifier
from psephos.results.base import Result
from psephos.results.runs import TallyResult
from psephos.simulation.job import EvaluationOptions, EvaluationRun, Job
from psephos.simulation.options import AverageOptions, JobOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_average, simulate_tally
from tests.psephos.simulation.test_job import patients

SHORT: dict[str, Any] = {"key_bits": 512, "test_key": True}
KEYS: dict[str, Any] = {**SHORT, "workers": 1, "holders": 3, "threshold": 2}
EXACT = ("statistic", "soft", "vote", "pate", "avg")
"""Methods whose curator is given an exact sum."""
JOINT = ("own-data", "whitened", "vote-directions", "newton")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return patients(tmp_path_factory.mktemp("budget") / "patients.csv")


def own(table: Path) -> dict[str, Any]:
    return {"data": str(table), "label": "outcome", "party": "hospital", "public": "8", "ignore": ("number",)}


def options_of(table: Path, budget: Path, **change: Any) -> JobOptions:
    chosen = {"method": "own-data", "features": "linear", "anyway": True}
    return JobOptions(**{**KEYS, **own(table), **chosen, "budget": str(budget), **change})


def run(table: Path, budget: Path, **change: Any) -> TallyResult:
    return Job(options_of(table, budget, **change)).run()


def charges(budget: Path) -> list[ChargeRecord]:
    with BudgetFile(budget, create=False) as file:
        return file.charges()


def totals(budget: Path) -> dict[str, BudgetTotal]:
    with BudgetFile(budget, create=False) as file:
        return {str(total.unit): total for total in file.totals()}


class StopError(Exception):
    """Stands for an interruption."""


def stop(honest: Role) -> Role:
    """Replace a role by none: the run ends before it sends anything."""
    raise StopError


# -- what is charged


@pytest.mark.parametrize("method", [*EXACT, *JOINT])
def test_each_method_is_charged_what_its_card_states(method: str, table: Path, tmp_path: Path) -> None:
    unit = "record" if method == "newton" else "party"
    learners = ("tree",) if method in (*EXACT[:4], "vote-directions") else ()
    result = run(table, tmp_path / "b", method=method, unit=unit, learners=learners, epsilon=(3.0,))
    entry, charged = result.privacy[method], charges(tmp_path / "b")
    (release,) = [charge for charge in charged if charge.epsilon is not None]
    assert (release.epsilon, release.delta, release.unit.kind) == (entry.epsilon, entry.delta, unit)
    assert len(charged) == (2 if method in EXACT else 1), "an exact sum is recorded for what it is"
    assert result.budget is not None
    first = result.budget.totals[0]
    assert first.epsilon == (None if method in EXACT else 3.0)
    assert first.private_epsilon == 3.0


def test_a_step_that_asks_nobody_is_not_charged(table: Path, tmp_path: Path) -> None:
    result = run(table, tmp_path / "b", method="rehearsed", epsilon=(0.001,), budget_limit="1e-5")
    assert not result.asked
    assert charges(tmp_path / "b") == []
    assert result.budget is not None
    assert result.budget.totals[0].epsilon == 0


def test_a_rehearsed_step_is_charged(tmp_path: Path) -> None:
    table = patients(tmp_path / "table.csv", sick_at_first=0.9)
    result = run(table, tmp_path / "b", method="rehearsed", epsilon=(20.0,))
    assert [charge.epsilon for charge in charges(tmp_path / "b")] == [20.0] * result.asked


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "gaussian"])
def test_several_releases_are_charged_as_many(mechanism: Any, tmp_path: Path) -> None:
    about: dict[str, Any] = {"reveal": "statistic", "methods": ("own-data", "whitened"), "draws": 3, "parties": 8}
    options = TallyOptions(**KEYS, **about, mechanism=mechanism, epsilon=(0.5, 1.0), budget=str(tmp_path / "b"))
    result = simulate_tally(replace(options, budget_limit="9.1"))
    (total,) = totals(tmp_path / "b").values()
    assert total.releases == 12
    assert len({charge.claim for charge in charges(tmp_path / "b")}) == 12, "each pays for one result"
    assert result.composed is not None
    assert result.composed.epsilon is not None
    if mechanism == "gaussian":
        assert result.composed.epsilon * 0.9 < total.epsilon < 9
    else:
        assert math.isclose(total.epsilon, 3 * 2 * 1.5)


def test_every_protocol_is_charged(table: Path, tmp_path: Path) -> None:
    budget, small = tmp_path / "b", {**SHORT, "budget": str(tmp_path / "b")}
    psgd = simulate_psgd(PsgdOptions(**small, parties=4, steps=2, variant="gaussian"))
    assert charges(budget)[-1].epsilon == psgd.epsilon_transcript
    assert psgd.budget is not None
    pathak = simulate_pathak(PathakOptions(**small, epsilon=2.0))
    assert charges(budget)[-1].epsilon == pathak.epsilon_proved
    assert pathak.budget is not None
    with pytest.raises(StopError):
        simulate_pathak(PathakOptions(**small, parties=3, variant="repaired"), roles={"party 0": stop})
    assert charges(budget)[-1].unit == PrivacyUnit("record", "", "replace"), "its noise depends on the number of rows"
    assert charges(budget)[-2].unit == PrivacyUnit("record")
    simulate_pathak(PathakOptions(**SHORT, **own(table), budget=str(tmp_path / "of table")))
    (charge,) = charges(tmp_path / "of table")
    assert charge.unit == PrivacyUnit("record", "", "replace"), "the number of rows decides which are held out"
    simulate_average(AverageOptions(**small, workers=1, parties=8, methods=("avg",), draws=2))
    assert [charge.epsilon for charge in charges(budget)[-3:]] == [None, 1.0, 1.0]
    assert str(charges(budget)[0].unit) == "record, replaced"
    assert {charge.unit.kind for charge in charges(budget)[-3:]} == {"shard"}


def test_noise_of_the_seed_is_charged_as_not_private(table: Path, tmp_path: Path) -> None:
    run(table, tmp_path / "b", simulate_noise=True)
    (total,) = totals(tmp_path / "b").values()
    assert (total.releases, total.not_private) == (1, 1)


def test_a_release_and_its_evaluation_add_up(table: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"method": "newton", "epsilon": (2.0,), "mechanism": "discrete-laplace"}
    job = Job(options_of(table, tmp_path / "b", unit="record", **more))
    classifier = ReleasedClassifier(job.model(job.run()))
    options = EvaluationOptions(**SHORT, workers=1, **own(table), budget=str(tmp_path / "b"))
    evaluation = EvaluationRun(options, classifier)
    result = evaluation.run()
    assert totals(tmp_path / "b")["record"].epsilon == 3.0
    charge, stated = charges(tmp_path / "b")[-1], result.privacy
    assert (charge.epsilon, charge.delta, charge.unit.kind) == (stated.epsilon, stated.delta, stated.unit)
    assert result.budget is not None
    assert result.budget.totals[0].epsilon == 3.0
    evaluation.sum()
    assert totals(tmp_path / "b")["record"].epsilon == 4.0, "another sum has other noise"


def test_another_dealing_of_the_same_rows_has_other_shards(table: Path, tmp_path: Path) -> None:
    public = tmp_path / "public.csv"
    rows = [line for line in table.read_text().splitlines() if line.startswith(("hospital", "8;"))]
    public.write_text("\n".join(rows) + "\n")
    for seed in (0, 1, 1):
        run(table, tmp_path / "b", party=None, ignore=("number", "hospital"), public=str(public), parties=6, seed=seed)
    assert sorted((total.releases, total.others) for total in totals(tmp_path / "b").values()) == [(1, 2), (2, 1)]


# -- when


def test_a_curator_is_charged_before_it_draws_its_noise(table: Path, tmp_path: Path) -> None:
    charged: list[list[float | None]] = []

    def progress(what: str, done: int, total: int) -> None:
        if what == "release":
            charged.append([charge.epsilon for charge in charges(tmp_path / "b")])

    Job(options_of(table, tmp_path / "b", method="avg")).run(progress=progress)
    assert charged[0] == [None, 1.0]


def test_a_run_that_would_pass_the_limit_is_refused_before_it_trains(table: Path, tmp_path: Path) -> None:
    phases: list[str] = []

    def progress(what: str, done: int, total: int) -> None:
        phases.append(what)

    run(table, tmp_path / "b", epsilon=(2.0,), budget_limit="3")
    changes: list[dict[str, Any]] = [
        {"epsilon": (1.5,)},
        {"method": "statistic", "epsilon": (0.1,)},
        {"epsilon": (0.1,), "simulate_noise": True},
    ]
    for change in changes:
        with pytest.raises(BudgetExceededError):
            Job(options_of(table, tmp_path / "b", **change)).run(progress=progress)
    with pytest.raises(
        BudgetExceededError
    ):  # of discrete Laplace noise, whose epsilon holds at any delta, it is the limit
        Job(options_of(table, tmp_path / "c", mechanism="gaussian", budget_limit="1,1e-9")).run(progress=progress)
    assert phases == []
    assert len(charges(tmp_path / "b")) == 1
    run(table, tmp_path / "b", epsilon=(1.0,), budget_limit="3")
    assert totals(tmp_path / "b")["party (hospital)"].epsilon == 3.0


def test_other_rows_are_refused(table: Path, tmp_path: Path) -> None:
    run(table, tmp_path / "b")
    other = patients(tmp_path / "other.csv", seed=1)
    with pytest.raises(BudgetFileError):
        run(other, tmp_path / "b")
    with pytest.raises(BudgetFileError):
        simulate_average(AverageOptions(**KEYS, parties=8, budget=str(tmp_path / "b")))
    run(table, tmp_path / "b")
    assert len(charges(tmp_path / "b")) == 2
    with pytest.raises(InvalidParameter):
        Job(replace(options_of(table, tmp_path / "b"), budget=None, budget_limit="3"))


# -- how often


def interrupted(options: JobOptions, phase: str) -> None:
    def progress(what: str, done: int, total: int) -> None:
        if what.startswith(phase) and done:
            raise StopError

    with pytest.raises(StopError):
        Job(options).run(progress=progress)


def test_an_interrupted_run_has_been_charged_and_continues_for_nothing(table: Path, tmp_path: Path) -> None:
    options = options_of(table, tmp_path / "b", journal=str(tmp_path / "j"), budget_limit="1")
    interrupted(options, "sum noisy")
    assert len(charges(tmp_path / "b")) == 1
    for _ in range(2):  # the same sum, opened again
        Job(options).run()
        assert len(charges(tmp_path / "b")) == 1
    with pytest.raises(BudgetExceededError):
        Job(replace(options, journal=str(tmp_path / "another"))).run()


def copies_of(options: Any) -> tuple[Any, Any]:
    """Return the options of a run that was interrupted, and of a copy of its journal."""
    copy = Path(options.journal).with_name("copy")
    shutil.copytree(options.journal, copy)
    return options, replace(options, journal=str(copy))


@pytest.mark.parametrize("first", [0, 1])
def test_copies_of_an_unfinished_journal_release_one_sum(first: int, table: Path, tmp_path: Path) -> None:
    """Both have the charge, and each would draw noise of its own."""
    options = options_of(table, tmp_path / "b", journal=str(tmp_path / "j"))
    interrupted(options, "make the key")
    copies = copies_of(options)
    released = [Job(copies[first]).run(), Job(copies[first]).run()]
    sums = [result.evaluation.sums["sum noisy own-data"][0].sums for result in released if result.evaluation]
    assert sums[0] == sums[1], "the finished copy shows its sum as often as it is asked"
    with pytest.raises(BudgetExceededError):
        Job(copies[1 - first]).run()
    assert len(charges(tmp_path / "b")) == 1
    Job(replace(options, journal=None)).run()
    assert totals(tmp_path / "b")["party (hospital)"].epsilon == 2.0


def test_copies_of_a_curators_journal_are_charged_for_each_noise(table: Path, tmp_path: Path) -> None:
    options = options_of(table, tmp_path / "b", journal=str(tmp_path / "j"), method="avg")
    interrupted(options, "sum parameters")
    for copy in copies_of(options):
        Job(copy).run()
    assert [charge.epsilon for charge in charges(tmp_path / "b")] == [None, 1.0, 1.0]


def test_copies_of_a_journal_of_a_descent_release_one_classifier(tmp_path: Path) -> None:
    small: dict[str, Any] = {**SHORT, "budget": str(tmp_path / "b"), "journal": str(tmp_path / "j")}
    options = PsgdOptions(**small, parties=4, steps=2, variant="gaussian")

    def stop(what: str, done: int, total: int) -> None:
        if what == "steps" and done == 1:
            raise StopError

    with pytest.raises(StopError):
        simulate_psgd(options, progress=stop)
    first, second = copies_of(options)
    simulate_psgd(first)
    with pytest.raises(BudgetExceededError):
        simulate_psgd(second)
    assert len(charges(tmp_path / "b")) == 1


# -- what is shown


def command(*words: str) -> str:
    done = CliRunner().invoke(build(), list(words), env={"COLUMNS": "80"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_total_is_on_card_and_terminal_and_in_json_and_report(table: Path, tmp_path: Path) -> None:
    words = ["--label", "outcome", "--party", "hospital", "--public", "8", "--ignore", "number", "--anyway"]
    words += ["--method", "own-data", "--features", "linear"]
    short = ["--test-key", "--key-bits", "512", "--workers", "1", "--data", str(table), *words]
    budget = ["--budget", str(tmp_path / "b"), "--budget-limit", "5"]
    command("run", *short, *budget, "--epsilon", "1.5")
    output = command("run", *short, *budget, "--output", str(tmp_path / "out"), "--report", str(tmp_path / "report"))
    card = (tmp_path / "out" / "card.md").read_text()
    page = (tmp_path / "report" / "report.html").read_text()
    for text in (output, card, page):
        assert "epsilon 2.5" in re.sub(r"\s+", " ", text)
    assert str(tmp_path / "b") not in card
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    assert document["budget"]["totals"][0]["epsilon"] == 2.5
    assert document["budget"]["limit"] == 5
    assert Result.from_json(document).page()
    listed = json.loads(command("budget", str(tmp_path / "b"), "--json"))
    assert listed["totals"][0]["epsilon"] == 2.5
    assert [entry["epsilon"] for entry in listed["entries"]] == [1.5, 1.0]
    assert "epsilon 2.5" in command("budget", str(tmp_path / "b"), "--limit", "7")
    with BudgetFile(tmp_path / "b") as file:
        assert file.limit == PrivacyLimit(7.0)


def test_a_new_table_of_the_same_owner_is_added(table: Path, tmp_path: Path) -> None:
    run(table, tmp_path / "b")
    longer = patients(tmp_path / "longer.csv", rows=45)
    command("budget", str(tmp_path / "b"), "--data", str(longer))
    run(longer, tmp_path / "b")
    assert totals(tmp_path / "b")["party (hospital)"].epsilon == 2.0


def test_a_run_whose_noise_no_journal_keeps_is_charged_again(table: Path, tmp_path: Path) -> None:
    """Where a role is replaced no batch is stored: a continued run draws other noise."""
    options = options_of(table, tmp_path / "b", journal=str(tmp_path / "j"))
    for _ in range(2):
        Job(options).run(roles={"party 0": lambda honest: honest})
    assert totals(tmp_path / "b")["party (hospital)"].epsilon == 2.0
