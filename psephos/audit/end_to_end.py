"""Whole commands on neighbouring tables: everything that leaves a party, or is written for the public, compared.

The mechanisms have an audit of their own (`psephos.audit.privacy`), which takes the sensitivity for granted. Here
the commands that ship run on two tables that differ in one party's rows, or in one record, and what comes out is held
against what the plan claims: nobody else's contribution may change by a bit, the party's own by no more than the
sensitivity, and of the public files nothing but what is a function of the noisy result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from psephos.audit.neighbours import NEIGHBOURS, NO_CHANGE, RECORD, Neighbour, PartyTable, is_own_error, made_up
from psephos.audit.pipelines import Pipeline, Seen, by_schema, main_job, simulated_sums
from psephos.audit.record_pipelines import gradients, shared_parameters
from psephos.audit.study_pipelines import studied
from psephos.progress import Progress, counted, silent
from psephos.results.security import ComparedRun, Finding
from psephos.simulation.average import AverageOptions, simulate_average
from psephos.simulation.sums import METHODS
from psephos.simulation.tally import TallyOptions, simulate_tally

STUDIES = (
    ("tally", "soft"),
    ("statistic", "statistic"),
    ("statistic", "own-data"),
    ("average", "avg"),
    ("average", "whitened"),
)
"""Protocols of studies that are played, with what is released."""

COLLUDERS = "t - 1 key holders collude"
"""In the place of a neighbour: one table, and parties that tell each other what they know."""

__all__ = [
    "COLLUDERS",
    "NeighbourComparison",
    "audit_pipelines",
    "battery",
    "compare",
    "compare_colluders",
    "neighbours_of",
    "pipelines",
    "records",
]


@dataclass
class NeighbourComparison:
    """What came of one comparison: what is wrong, and the largest of moved/claimed."""

    findings: list[Finding] = field(default_factory=list)
    ratio: float | None = None

    def note(self, check: str, said: str) -> None:
        """Add a finding: the check that failed, and a sentence with its numbers."""
        self.findings.append(Finding(check, said))

    def bounded(self, check: str, what: str, ratio: float) -> None:
        """Take a ratio of moved/claimed in; one above 1 is a finding."""
        self.ratio = max(ratio, self.ratio or 0.0)
        if ratio > 1:
            self.note(check, f"{what} moved by {ratio:.4g} times what is claimed")


def compare(
    before: Seen, after: Seen, party: str, neighbour: PartyTable, *, changes: bool = True
) -> NeighbourComparison:
    """Hold two runs against what the plan claims.

    Args:
        before, after: of a table and of its neighbour.
        party: whose rows differ.
        neighbour: the table of `after`, as the pipeline was given it.
        changes: False where nobody's rows differ, so that nothing at all may.
    """
    found = NeighbourComparison()
    if before.error is not None or after.error is not None:
        _compare_errors(found, before, after, party, neighbour)
        return found
    if before.roster != after.roster:
        found.note("roster", f"the parties stand in another order: {_named(before.roster, after.roster)}")
    if before.messages != after.messages:
        found.note("messages", f"{len(before.messages)} messages became {len(after.messages)}, or of other lengths")
    for name in _unequal(before.terms, after.terms):
        found.note("terms", f"the public terms of {name} depend on the private rows")
    if changed := _unequal(before.files, after.files):
        found.note("public files", f"{len(changed)} entries depend on the private rows: {', '.join(changed[:4])}")
    if before.vectors == after.vectors and (moved := _unequal(before.whole, after.whole)):
        # The noise is the same, too, so what follows from the noisy sums is.
        found.note("public files", f"the sums are the same, and what is derived from them is not: {', '.join(moved)}")
    _compare_parties(found, before, after, party if changes else None)
    _compare_sums(found, before, after, party)
    return found


def _compare_errors(found: NeighbourComparison, before: Seen, after: Seen, party: str, neighbour: PartyTable) -> None:
    """A refusal of both tables is the same one; of the neighbour alone it is about the party's own rows."""
    if before.error is None and after.error is not None and is_own_error(after.error, neighbour, party):
        return
    if type(before.error) is type(after.error) and str(before.error) == str(after.error):
        return
    said = [f"{type(error).__name__}: {error}" if error else "no error" for error in (before.error, after.error)]
    found.note("refusal", f"one table was refused and its neighbour was not, or otherwise: {said[0]}; {said[1]}")


def _compare_parties(found: NeighbourComparison, before: Seen, after: Seen, party: str | None) -> None:
    """What every party but the changed one computes and encrypts is the same, bit for bit."""
    others = [name for name in before.roster if name != party]
    for what in ("rows", "parameters"):
        moved = [n for n in others if before.local.get(n, {}).get(what) != after.local.get(n, {}).get(what)]
        if moved:
            found.note(f"others' {what}", f"the {what} of {len(moved)} of {len(others)} other parties changed")
    for name in sorted(before.vectors.keys() & after.vectors.keys()):
        moved = [n for n in others if before.vectors[name].get(n) != after.vectors[name].get(n)]
        if moved:
            found.note("others' vectors", f"{name}: the vectors of {len(moved)} of {len(others)} other parties changed")


def _compare_sums(found: NeighbourComparison, before: Seen, after: Seen, party: str) -> None:
    """The party's own vector, the sum and what the curator releases move by no more than is claimed."""
    for name in sorted(before.bounds.keys() & after.bounds.keys()):
        bound, first, second = before.bounds[name], before.vectors[name], after.vectors[name]
        lengths = {len(vector) for vector in (*first.values(), *second.values())}
        if first.keys() != second.keys() or len(lengths) > 1:
            found.note("own vector", f"{name}: other parties, or vectors of another length")
            continue
        # As integers of any size: float64 would round what is above 2^53.
        moved = {who: np.array(first[who], dtype=object) - np.array(second[who], dtype=object) for who in first}
        found.bounded("own vector", f"{name}: the vector of the party", bound.ratio(moved[party]))
        if not bound.votes:
            found.bounded("sum", f"{name}: the sum", bound.ratio(sum(moved.values())))
    for method in sorted(before.released.keys() & after.released.keys()):
        (w, claimed), (other, _) = before.released[method], after.released[method]
        if w.shape == other.shape:
            far = float(np.linalg.norm(w - other))
            found.bounded("release", f"{method}: what the curator adds noise to", far / claimed)


def compare_colluders(seen: Seen) -> NeighbourComparison:
    """Hold the noise that the parties add against its law, with t - 1 key holders who know their own shares."""
    found = NeighbourComparison()
    for name, (left, needed) in seen.shares.items():
        found.ratio = max(needed / left if left else float("inf"), found.ratio or 0.0) if needed else found.ratio
        if left < needed:
            found.note("colluders", f"{name}: t - 1 key holders leave {left:g} unknown, and the law takes {needed:g}")
    return found


def _unequal(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    """Names of what is not the same in both, sorted."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _named(first: Sequence[str], second: Sequence[str]) -> str:
    return f"{', '.join(first[:4])} became {', '.join(second[:4])}"


# -- what is run


def pipelines(**asked: Any) -> tuple[Pipeline, ...]:
    """What is run on any table with public rows, or with a schema: `psephos run` by every method, and simulations.

    `asked`: options about the table, which all commands take (`psephos.data.own.TableOptions`).
    """
    sums = partial(simulated_sums, simulate_average, AverageOptions, **asked)
    return (
        *(_run(f"run --method {method}", method=method, **asked) for method in METHODS),
        _run("run --method statistic --reveal statistic", method="statistic", reveal="statistic", **asked),
        _run("run --method own-data --mechanism gaussian", method="own-data", mechanism="gaussian", **asked),
        _run("run --learners tree,logistic", method="vote", learners=("tree", "logistic"), **asked),
        Pipeline("simulate average", "party", sums),
    )


def records(**asked: Any) -> tuple[Pipeline, ...]:
    """The same for protocols that protect a record; they take two classes."""
    return (
        Pipeline("simulate psgd", "record", partial(gradients, **asked)),
        Pipeline("simulate psgd --variant gaussian", "record", partial(gradients, variant="gaussian", **asked)),
        Pipeline("simulate pathak", "record", partial(shared_parameters, **asked)),
    )


def battery() -> tuple[Pipeline, ...]:
    """What is run on the made-up table: all of these, other ways to read a table, and studies of one sum."""
    tally = partial(simulated_sums, simulate_tally, TallyOptions)
    return (
        *pipelines(),
        _run("run --other-labels drop", method="own-data", other_labels="drop"),
        Pipeline("run, with nothing named as public", "party", main_job, without_public=True, refuses=True),
        Pipeline("run --schema", "party", by_schema, without_public=True),
        Pipeline("simulate tally", "party", tally),
        Pipeline("simulate tally --reveal statistic", "party", partial(tally, reveal="statistic")),
        *(
            Pipeline(f"study of {protocol}, {method}", "party", partial(studied, protocol=protocol, method=method))
            for protocol, method in STUDIES
        ),
        *records(),
    )


def _run(name: str, **asked: Any) -> Pipeline:
    return Pipeline(name, "party", partial(main_job, **asked))


def neighbours_of(pipeline: Pipeline) -> tuple[Neighbour, ...]:
    """The neighbours that a pipeline protects against, and the table that is none."""
    return (*(NEIGHBOURS if pipeline.unit == "party" else (RECORD,)), NO_CHANGE)


def audit_pipelines(
    table: PartyTable | None = None,
    chosen: Sequence[Pipeline] = (),
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> Iterator[ComparedRun]:
    """Run each pipeline on a table and on each of its neighbours, and compare.

    Args:
        table: by default a made-up one.
        chosen: the pipelines; by default all that are made for the made-up table.
        seed: of the neighbours, and of which party changes.
        progress: called before each comparison.

    Raises the error of a pipeline that refuses the table itself.
    """
    table = made_up(seed) if table is None else table
    party = table.parties[seed % len(table.parties)]
    for pipeline in chosen or battery():
        neighbours = neighbours_of(pipeline)
        done = counted(progress, pipeline.name, 1 + len(neighbours))
        with tempfile.TemporaryDirectory() as directory:
            before = pipeline.see(table, Path(directory) / "run")
        done(1)
        if before.error is not None and not pipeline.refuses:
            raise before.error
        if pipeline.refuses and before.error is None:
            said = Finding("refusal", "the table was not refused, though it names nothing that is public")
            yield ComparedRun(pipeline.name, "nothing", [said])
        if before.shares:
            found = compare_colluders(before)
            yield ComparedRun(pipeline.name, COLLUDERS, found.findings, found.ratio)
        for neighbour in neighbours:
            done(1)
            other = neighbour.of(table, party, seed)
            if other is table:  # it has no such rows or columns
                continue
            with tempfile.TemporaryDirectory() as directory:
                after = pipeline.see(other, Path(directory) / "run")
            found = compare(before, after, party, pipeline.given(other), changes=neighbour is not NO_CHANGE)
            yield ComparedRun(pipeline.name, neighbour.name, found.findings, found.ratio)
