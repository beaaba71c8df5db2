"""Run whole commands on neighbouring tables, and compare everything that leaves a party or is written for the public.

`psephos.audit.privacy` audits the mechanisms and takes the sensitivity as given. Here the commands run on two tables
that differ in the rows of one party, or in one record, and the runs are compared with the claims of the plan: the
contributions of other parties must not change at all, that of the party by no more than the sensitivity, and of the
public files only what is a function of the noisy result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from psephos.audit.neighbours import (
    EXTREME_LABEL,
    NEIGHBOURS,
    NO_CHANGE,
    RECORD,
    RECORDS,
    Neighbour,
    PartyTable,
    is_own_error,
    of_persons,
    synthetic_table,
)
from psephos.audit.pipelines import (
    Pipeline,
    RunRecord,
    run_by_schema,
    run_evaluation,
    run_job,
    run_pathak,
    run_psgd,
    run_study,
    run_sums,
)
from psephos.progress import Progress, counted, silent
from psephos.results.security import ComparedRun, Finding
from psephos.simulation.options import METHODS, AverageOptions, TallyOptions
from psephos.simulation.tally import simulate_average, simulate_tally

COLLUDERS = "t - 1 key holders collude"
"""Stands for a neighbour where one run is compared with the claims about colluding parties."""


@dataclass
class NeighbourComparison:
    findings: list[Finding] = field(default_factory=list)
    ratio: float | None = None

    def add_finding(self, check: str, evidence: str) -> None:
        self.findings.append(Finding(check, evidence))

    def check_bound(self, check: str, what: str, ratio: float) -> None:
        """Record a ratio of change to claimed bound; one above 1 is a finding."""
        self.ratio = max(ratio, self.ratio or 0.0)
        if ratio > 1:
            self.add_finding(check, f"{what} moved by {ratio:.4g} times what is claimed")


def compare(
    before: RunRecord, after: RunRecord, party: str, neighbour: PartyTable, *, changes: bool = True
) -> NeighbourComparison:
    """Compare two runs with the claims of the plan."""
    comparison = NeighbourComparison()
    add = comparison.add_finding
    if before.error is not None or after.error is not None:
        _compare_errors(comparison, before, after, party, neighbour)
        return comparison
    if before.roster != after.roster:
        add("roster", f"the parties stand in another order: {_shortened(before.roster, after.roster)}")
    if before.messages != after.messages:
        add("messages", f"{len(before.messages)} messages became {len(after.messages)}, or of other lengths")
    for name in _unequal(before.terms, after.terms):
        add("terms", f"the public terms of {name} depend on the private rows")
    if changed := _unequal(before.files, after.files):
        add("public files", f"{len(changed)} entries depend on the private rows: {', '.join(changed[:4])}")
    if before.vectors == after.vectors and (moved := _unequal(before.whole, after.whole)):
        # The noise is the same as well, so everything that follows from the noisy sums must be.
        add("public files", f"the sums are the same, and what is derived from them is not: {', '.join(moved)}")
    _compare_parties(comparison, before, after, party if changes else None)
    _compare_sums(comparison, before, after, party)
    return comparison


def _compare_errors(
    comparison: NeighbourComparison, before: RunRecord, after: RunRecord, party: str, neighbour: PartyTable
) -> None:
    """Check that both tables are refused with the same error, or the neighbour for a reason in the party's own rows."""
    if before.error is None and after.error is not None and is_own_error(after.error, neighbour, party):
        return
    if type(before.error) is type(after.error) and str(before.error) == str(after.error):
        return
    errors = [f"{type(error).__name__}: {error}" if error else "no error" for error in (before.error, after.error)]
    evidence = f"one table was refused and its neighbour was not, or otherwise: {errors[0]}; {errors[1]}"
    comparison.add_finding("refusal", evidence)


def _compare_parties(comparison: NeighbourComparison, before: RunRecord, after: RunRecord, party: str | None) -> None:
    """Check that what every other party computes and encrypts is equal bit for bit."""
    others = [name for name in before.roster if name != party]
    for what in ("rows", "parameters"):
        moved = [n for n in others if before.local.get(n, {}).get(what) != after.local.get(n, {}).get(what)]
        if moved:
            comparison.add_finding(
                f"others' {what}", f"the {what} of {len(moved)} of {len(others)} other parties changed"
            )
    for name in sorted(before.vectors.keys() & after.vectors.keys()):
        moved = [n for n in others if before.vectors[name].get(n) != after.vectors[name].get(n)]
        if moved:
            comparison.add_finding(
                "others' vectors", f"{name}: the vectors of {len(moved)} of {len(others)} other parties changed"
            )


def _compare_sums(comparison: NeighbourComparison, before: RunRecord, after: RunRecord, party: str) -> None:
    """Check that the party's vector, the sum and the release change by no more than is claimed."""
    for name in sorted(before.bounds.keys() & after.bounds.keys()):
        bound, first, second = before.bounds[name], before.vectors[name], after.vectors[name]
        lengths = {len(vector) for vector in (*first.values(), *second.values())}
        if first.keys() != second.keys() or len(lengths) > 1:
            comparison.add_finding("own vector", f"{name}: other parties, or vectors of another length")
            continue
        # As integers of any size: float64 would round what is above 2^53.
        moved = {who: np.array(first[who], dtype=object) - np.array(second[who], dtype=object) for who in first}
        comparison.check_bound("own vector", f"{name}: the vector of the party", bound.ratio(moved[party]))
        comparison.check_bound("sum", f"{name}: the sum", bound.ratio(sum(moved.values())))
    for method in sorted(before.released.keys() & after.released.keys()):
        (w, claimed), (other, _) = before.released[method], after.released[method]
        if w.shape == other.shape:
            distance = float(np.linalg.norm(w - other))
            comparison.check_bound("release", f"{method}: what the curator adds noise to", distance / claimed)


def compare_colluders(record: RunRecord) -> NeighbourComparison:
    """Check that enough noise remains unknown to t - 1 key holders, who know their own shares of it."""
    comparison = NeighbourComparison()
    for name, (unknown, needed) in record.shares.items():
        if needed:
            ratio = needed / unknown if unknown else float("inf")
            comparison.ratio = max(ratio, comparison.ratio or 0.0)
        if unknown < needed:
            evidence = f"{name}: t - 1 key holders leave {unknown:g} unknown, and the law takes {needed:g}"
            comparison.add_finding("colluders", evidence)
    return comparison


def _unequal(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _shortened(first: Sequence[str], second: Sequence[str]) -> str:
    return f"{', '.join(first[:4])} became {', '.join(second[:4])}"


# -- the pipelines

_COMMANDS: dict[str, Callable[..., RunRecord]] = {
    "run": run_job,
    "simulate tally": partial(run_sums, simulate_tally, TallyOptions),
    "simulate average": partial(run_sums, simulate_average, AverageOptions),
    "simulate psgd": run_psgd,
    "simulate pathak": run_pathak,
    "evaluate": run_evaluation,
}


def command(words: str, unit: str = "", label: str = "", **options: Any) -> Pipeline:
    """Return the pipeline of a command as it is typed, with the values of its options."""
    name, *given = words.split(" --")
    named: dict[str, Any] = {option.replace("-", "_"): value for option, value in map(str.split, given)}
    unit = named.get("unit", unit or "party")
    for listed in {"learners", "text"} & named.keys():
        named[listed] = tuple(named[listed].split(","))
    run = partial(_COMMANDS[name], **{**named, **options})
    private = unit == "record" and name not in ("simulate psgd", "simulate pathak")  # these state the numbers of rows
    return Pipeline(words, unit, run, private_sizes=private, persons=named.get("record", ""), label=label)


def study(protocol: str, method: str = "", unit: str = "party", label: str = "", **options: Any) -> Pipeline:
    """Return the pipeline of a study; `options`: of `run_study`, and the other arguments as in `command`."""
    parameters = options.get("parameters", ())
    title = ", ".join(filter(None, (f"study of {protocol}", method, *(p for p in parameters if p[:5] != "rows="))))
    options |= {"method": method} if method else {}
    persons = next((p.removeprefix("record=") for p in parameters if p.startswith("record=")), "")
    if unit == "record" or label:
        options["delta"] = 1e-6
    run = partial(run_study, protocol=protocol, **options)
    return Pipeline(title, unit, run, private_sizes=unit == "record", persons=persons, label=label)


_ABSENT: dict[str, Any] = {"parameters": ("dropouts=1",), "absent": 1}
_PERSONS: dict[str, Any] = {"ignore": ("ward",), "parameters": ("rows=60", "record=ward")}


def pipelines(**options: Any) -> tuple[Pipeline, ...]:
    """Return the pipelines for any table with public rows or a schema: `psephos run` by every method, and averages."""
    words = (
        *(f"run --method {method}" for method in METHODS),
        "run --method statistic --reveal statistic",
        "run --method own-data --mechanism gaussian",
        "run --method vote-directions --mechanism gaussian",
    )
    return (
        *(command(each, **options) for each in words),
        command("run --learners tree,logistic", **{"method": "vote", **options}),
        command("simulate average", **options),
    )


def record_pipelines(**options: Any) -> tuple[Pipeline, ...]:
    """Return the pipelines of the protocols that protect a record, which need two classes."""
    return (
        command("run --unit record", **options),
        command("run --unit record --mechanism discrete-laplace", **options),
        command("simulate psgd", "record", **options),
        command("simulate psgd --variant gaussian", "record", **options),
        command("simulate pathak", "record", **options),
    )


def evaluation_pipelines(**options: Any) -> tuple[Pipeline, ...]:
    """Return the pipelines of private evaluation: of held-out rows, of all rows, and where a party is protected."""
    return (
        command("evaluate", "record", **{"held_out": 0.7, **options}),
        command("evaluate --rows all", "record", **options),
        command("evaluate --unit party", **options),
    )


def person_pipelines(column: str) -> tuple[Pipeline, ...]:
    """Return the pipelines of the commands that protect a person with all rows at a party, whom a column names."""
    return (
        command(f"run --unit record --record {column}"),
        command(f"run --unit record --record {column} --mechanism discrete-laplace"),
        command(f"simulate tally --unit record --record {column}"),
        command(f"evaluate --record {column}", "record", rows="all"),
    )


def regression_pipelines(label: str) -> tuple[Pipeline, ...]:
    """Return the pipelines that predict the number in the column `label`, and that evaluate a prediction."""
    by_party: dict[str, Any] = {"parameters": ("unit=party", "dropouts=1"), "absent": 1}
    evaluate = "evaluate --task regression"
    return (
        command("run --task regression", label=label),
        command("run --task regression --unit record", label=label),
        study("regression", unit="record", label=label),
        study("regression", label=label, **by_party),
        study("regression", unit="record", label=label, **_PERSONS),
        command(evaluate, "record", label, held_out=0.95),
        command(f"{evaluate} --rows all", "record", label),
        command(f"{evaluate} --record ward", "record", label, rows="all"),
        command(f"{evaluate} --unit party", label=label),
    )


def default_pipelines() -> tuple[Pipeline, ...]:
    """Return the pipelines for the synthetic table: all of these, other options for tables, and studies of one sum."""
    nothing_public = Pipeline("run, with nothing named as public", "party", run_job, without_public=True, refuses=True)
    return (
        *pipelines(),
        command("run --method rehearsed", epsilon=(60.0,)),
        command("run --method rehearsed --mechanism gaussian", epsilon=(30.0,)),
        command("run --other-labels drop", method="own-data"),
        nothing_public,
        Pipeline("run --schema", "party", run_by_schema, without_public=True),
        command("simulate tally"),
        command("simulate tally --reveal statistic"),
        study("tally", "soft"),
        study("statistic", "statistic"),
        study("statistic", "own-data"),
        study("statistic", "vote-directions"),
        study("average", "avg"),
        study("average", "whitened"),
        study("statistic", "whitened", **_ABSENT),
        study("average", "own-data", **_ABSENT),
        study("average", "avg", **_ABSENT),
        study("record", "newton", "record", **_PERSONS),
        study("record", "newton", "record"),
        study("record", "newton", "record", **_ABSENT),
        study("rehearsed", epsilon=60.0),
        *record_pipelines(),
        command("run --unit record --text code"),
        *regression_pipelines("score"),
        *evaluation_pipelines(),
        *person_pipelines("ward"),
    )


def neighbours_of(pipeline: Pipeline) -> tuple[Neighbour, ...]:
    """Return the neighbours that a pipeline must protect, and `NO_CHANGE`."""
    if pipeline.unit == "party":
        changes = NEIGHBOURS
    elif pipeline.persons:
        changes = (*of_persons(pipeline.persons), *(neighbour for neighbour in RECORDS if neighbour.reorders))
    else:
        changes = RECORDS if pipeline.private_sizes else (RECORD,)
    numeric = (EXTREME_LABEL,) if pipeline.label and not pipeline.persons else ()
    return (*changes, *numeric, NO_CHANGE)


def audit_pipelines(
    table: PartyTable | None = None,
    chosen: Sequence[Pipeline] = (),
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> Iterator[ComparedRun]:
    """Run each pipeline on a table and on each of its neighbours, and compare."""
    table = synthetic_table(seed) if table is None else table
    party = table.parties[seed % len(table.parties)]
    for pipeline in chosen or default_pipelines():
        neighbours = neighbours_of(pipeline)
        step = counted(progress, pipeline.name, 1 + len(neighbours))
        with tempfile.TemporaryDirectory() as directory:
            before = pipeline.record(table, Path(directory) / "run")
        step(1)
        if before.error is not None and not pipeline.refuses:
            raise before.error
        if pipeline.refuses and before.error is None:
            finding = Finding("refusal", "the table was not refused, though it names nothing that is public")
            yield ComparedRun(pipeline.name, "nothing", [finding])
        if before.shares:
            comparison = compare_colluders(before)
            yield ComparedRun(pipeline.name, COLLUDERS, comparison.findings, comparison.ratio)
        for neighbour in neighbours:
            step(1)
            labelled = pipeline.labelled(table)
            other = neighbour.of(labelled, party, seed)
            if other is labelled:  # the change does not apply to this table
                continue
            with tempfile.TemporaryDirectory() as directory:
                after = pipeline.record(other, Path(directory) / "run")
            comparison = compare(before, after, party, pipeline.select(other), changes=neighbour is not NO_CHANGE)
            if neighbour.reorders and comparison.ratio:
                comparison.add_finding("order", "the sum over the party's rows depends on their order")
            yield ComparedRun(pipeline.name, neighbour.name, comparison.findings, comparison.ratio)
