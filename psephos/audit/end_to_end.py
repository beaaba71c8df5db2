"""Run whole commands on neighbouring tables, and compare everything that leaves a party or is written for the public.

The contributions of other parties must not change at all, that of the changed party by no more than the sensitivity,
and of the public files only what is a function of the noisy result.
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
from psephos.specs.registry import SPECS

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
    for check, values in before.public.items():
        if changed := _unequal(values, after.public[check]):
            add(check, f"{len(changed)} entries depend on the private rows: {', '.join(changed[:4])}")
    if before.vectors == after.vectors and (moved := _unequal(before.derived, after.derived)):
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
    computed = [(what, one, after.own[what]) for what, one in before.own.items()]
    sums = [("vectors", before.vectors[name], after.vectors[name]) for name in before.vectors.keys() & after.vectors]
    compared: list[tuple[str, Mapping[str, object], Mapping[str, object]]] = [*computed, *sums]
    for what, first, second in compared:
        if moved := [name for name in _unequal(first, second) if name != party]:
            comparison.add_finding(f"others' {what}", f"the {what} of {len(moved)} other parties changed")


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


# -- the pipelines

_COMMANDS: dict[str, tuple[Callable[..., RunRecord], str]] = {
    "run": (run_job, "party"),
    "simulate tally": (partial(run_sums, simulate_tally, TallyOptions), "party"),
    "simulate average": (partial(run_sums, simulate_average, AverageOptions), "party"),
    "simulate psgd": (run_psgd, "record"),
    "simulate pathak": (run_pathak, "record"),
    "evaluate": (run_evaluation, "record"),
    **{f"study {name}": (partial(run_study, protocol=name), SPECS[name].unit) for name in SPECS},
}
"""How each command is run, and what its epsilon protects unless it is told."""

STATING_SIZES = ("simulate psgd", "simulate pathak")
"""The commands that state the numbers of rows."""


def command(words: str, **options: Any) -> Pipeline:
    """Return the pipeline of a command as it is typed, with the values of its options; `options`: further ones."""
    name, *given = words.split(" --")
    named: dict[str, Any] = {option.replace("-", "_"): value for option, value in map(str.split, given)}
    run, unit = _COMMANDS[name]
    unit, label = named.get("unit", unit), named.pop("label", "")
    for listed in {"learners", "text", "ignore"} & named.keys():
        named[listed] = tuple(named[listed].split(","))
    if name.startswith("study") and (unit == "record" or label):
        options["delta"] = 1e-6
    whose, private_sizes = named.get("record", ""), unit == "record" and name not in STATING_SIZES
    run = partial(run, **{**named, **options})
    return Pipeline(words, unit, run, private_sizes=private_sizes, persons=whose, label=label)


OF_ANY_TABLE = (
    *(f"run --method {method}" for method in METHODS),
    "run --method statistic --reveal statistic",
    "run --method own-data --mechanism gaussian",
    "run --method vote-directions --mechanism gaussian",
    "run --method vote --learners tree,logistic",
    "simulate average",
    "evaluate",
    "evaluate --rows all",
    "evaluate --unit party",
)
OF_TWO_CLASSES = (
    "run --unit record",
    "run --unit record --mechanism discrete-laplace",
    "simulate psgd",
    "simulate psgd --variant gaussian",
    "simulate pathak",
)
OF_THE_SYNTHETIC_TABLE = (
    "simulate tally",
    "simulate tally --reveal statistic",
    "run --method own-data --other-labels drop",
    "run --unit record --text code",
    "run --unit record --record ward",
    "run --unit record --record ward --mechanism discrete-laplace",
    "simulate tally --unit record --record ward",
    "evaluate --rows all --record ward",
    "run --task regression --label score",
    "run --task regression --unit record --label score",
    "evaluate --task regression --label score",
    "evaluate --task regression --rows all --label score",
    "evaluate --task regression --rows all --record ward --label score",
    "evaluate --task regression --unit party --label score",
    "study tally --method soft",
    "study statistic --method statistic",
    "study statistic --method own-data",
    "study statistic --method vote-directions",
    "study statistic --method whitened --dropouts 1",
    "study average --method avg",
    "study average --method whitened",
    "study average --method own-data --dropouts 1",
    "study average --method avg --dropouts 1",
    "study record --method newton",
    "study record --method newton --dropouts 1",
    "study record --method newton --rows 60 --record ward --ignore ward",
    "study regression --label score",
    "study regression --unit party --dropouts 1 --label score",
    "study regression --rows 60 --record ward --ignore ward --label score",
)


def pipelines(table: PartyTable, **options: Any) -> tuple[Pipeline, ...]:
    """Return the pipelines for any table with public rows or a schema; some need two classes."""
    words = (*OF_ANY_TABLE, *(OF_TWO_CLASSES if len(table.classes) == 2 else ()))
    return tuple(command(each, **({"held_out": 0.7} if each == "evaluate" else {}) | options) for each in words)


def default_pipelines() -> tuple[Pipeline, ...]:
    """Return the pipelines for the synthetic table: all of these, other options for tables, and studies of one sum."""
    return (
        *pipelines(synthetic_table()),
        *map(command, OF_THE_SYNTHETIC_TABLE),
        command("run --method rehearsed", epsilon=(60.0,)),
        command("run --method rehearsed --mechanism gaussian", epsilon=(30.0,)),
        command("study rehearsed", epsilon=60.0),
        Pipeline("run, with nothing named as public", "party", run_job, without_public=True, refuses=True),
        Pipeline("run --schema", "party", run_by_schema, without_public=True),
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
