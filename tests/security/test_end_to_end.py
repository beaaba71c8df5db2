"""Whole commands on neighbouring tables: the audit finds nothing, and convicts every planted fault (issue 28)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import psephos.audit.end_to_end as end_to_end
from psephos.audit.end_to_end import (
    PUBLIC,
    Bound,
    Measured,
    Pipeline,
    RunRecord,
    audit_pipelines,
    compare,
    compare_colluders,
    default_pipelines,
    judged,
    pipelines,
)
from psephos.audit.neighbours import NEIGHBOURS, NO_CHANGE, PartyTable, is_own_error, synthetic_table
from psephos.cli.main import build
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.results.security import ComparedRun, Finding, PrivacyAuditResult
from tests.security.lab.coupled import COUPLED, Coupled

ANEW = {"run --method rehearsed --mechanism gaussian", "study rehearsed", "run --method auto", "run --schema, stopped"}
"""Pipelines that take seconds to plan, each time anew: what others show with all neighbours, these do with three."""
FEW = ("a new category", "all rows replaced", NO_CHANGE.name)


def of_few(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, neighbours=[one for one in pipeline.neighbours if one.name in FEW])


PIPELINES = {one.name: of_few(one) if one.name in ANEW else one for one in default_pipelines()}
OF_ANY_TABLE = {one.name for one in pipelines(synthetic_table())}
"""What the command audits on the same table as a user's, below."""
BY_NAME = {one.name: one for pipeline in PIPELINES.values() for one in pipeline.neighbours}


QUICK = {"run --method own-data", "evaluate", "simulate psgd", "simulate pathak"}
"""The pipelines that `make test` audits."""
AUDITED = [
    pytest.param(name, marks=[pytest.mark.soak] * (name not in QUICK))
    for name in PIPELINES
    if name in QUICK or name not in OF_ANY_TABLE
]


@pytest.mark.parametrize("name", AUDITED)
def test_no_command_exceeds_its_claimed_epsilon(name: str) -> None:
    check_runs(PIPELINES[name], list(audit_pipelines(chosen=[PIPELINES[name]])))


def check_runs(pipeline: Pipeline, runs: Sequence[ComparedRun]) -> None:
    assert [one for one in runs if one.findings] == []
    ratios = {one.neighbour: one.ratio for one in runs if one.neighbour != end_to_end.COLLUDERS}
    assert ratios.keys() == {one.name for one in pipeline.neighbours}
    if not pipeline.refuses:
        assert ratios[NO_CHANGE.name] == 0
        assert max(ratio or 0.0 for ratio in ratios.values()) > 0.1, "an audit in which nothing moves sees nothing"


def coupled() -> list[Any]:
    """Return the planted faults: one of each kind is slow, the others take `-m mutants`."""
    return [
        pytest.param(fault, id=fault.name, marks=[pytest.mark.slow, *[pytest.mark.mutants] * (place > 0)])
        for kind in COUPLED.values()
        for place, fault in enumerate(kind)
    ]


@pytest.mark.parametrize("fault", coupled())
def test_a_coupled_command_is_detected(fault: Coupled) -> None:
    """By the neighbour that moves it; that the sound command passes is tested above."""
    noticing = [BY_NAME[fault.neighbour]] if fault.neighbour != end_to_end.COLLUDERS else []
    pipeline = replace(PIPELINES[fault.pipeline], neighbours=noticing)
    with fault.planted():
        runs = list(audit_pipelines(chosen=[pipeline]))
    assert fault.check in {check.check for one in runs if one.neighbour == fault.neighbour for check in one.findings}


def test_a_table_is_written_as_pandas_writes_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("weight;seen;site;ill\n;2024-01-02;a;no\n2;2024-01-03T18:00;b;yes\n")
    table = PartyTable.read(tmp_path / "t.csv", "ill", "site")
    assert table.numeric("weight")
    written = table.write(tmp_path / "copy.csv").read_text().splitlines()[1:]
    assert written == [",2024-01-02 00:00:00,a,no", "2.0,2024-01-03 18:00:00,b,yes"]


@pytest.mark.mutants
def test_a_global_hold_out_exceeds_its_epsilon() -> None:
    """The number that matters: how far the sum moves, against what the noise is sized for."""
    fault = next(iter(COUPLED.values()))[0]
    with fault.planted():
        pipeline = replace(PIPELINES[fault.pipeline], neighbours=[BY_NAME[fault.neighbour]])
        runs = list(audit_pipelines(synthetic_table(1, parties=40), [pipeline]))
    assert max(one.ratio for one in runs if one.ratio is not None) > 1.2
    assert any(finding.check == "sum" for one in runs for finding in one.findings)


# -- any table


@st.composite
def tables(draw: st.DrawFn) -> PartyTable:
    """Small tables: parties of one row and of several, columns of each kind, gaps, two or three classes."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parties, classes = draw(st.integers(5, 7)), draw(st.integers(2, 3))
    gaps, skewed = draw(st.sampled_from((0.0, 0.2))), draw(st.booleans())
    sizes = {f"site {number}": draw(st.integers(1, 9)) for number in range(parties)}
    kinds = draw(st.lists(st.sampled_from(("number", "date", "text")), min_size=1, max_size=3))
    lines = []
    for owner, count in {"open": 25, **sizes}.items():
        for place in range(count):
            label = place % classes if owner == "open" else 0 if skewed else int(generator.integers(classes))
            cells = [_cell(kind, label, generator) for kind in kinds]
            if owner != "open":
                cells = ["" if generator.random() < gaps else cell for cell in cells]
            lines.append((owner, *cells, f"class {label}"))
    names = ["site", *(f"{kind} {place}" for place, kind in enumerate(kinds)), "outcome"]
    cells_ = pd.DataFrame(lines, columns=names, dtype=str)
    order = generator.permutation(len(cells_))
    return PartyTable(cells_.iloc[order].reset_index(drop=True), "outcome", "site", "open")


def _cell(kind: str, label: int, generator: np.random.Generator) -> str:
    if kind == "number":
        return f"{generator.normal(label, 1):.3f}"
    if kind == "date":
        return f"2024-{1 + generator.integers(12):02}-{1 + generator.integers(28):02}"
    return str(generator.choice(["north", "south", "east"]))


SEARCHED = [
    PIPELINES[name]
    for name in (
        "run --method own-data",
        "run --method whitened",
        "run --method statistic --reveal statistic",
        "run --method avg",
        "run --method vote --learners tree,logistic",
        "run --method own-data --other-labels drop",
    )
]


def findings(measured: Iterable[Measured]) -> list[Finding]:
    return judged("", "", measured).findings


@pytest.mark.soak
@settings(max_examples=30)
@given(
    table=tables(),
    pipeline=st.sampled_from(SEARCHED),
    neighbour=st.sampled_from([one.name for one in (*NEIGHBOURS, NO_CHANGE)]),
    seed=st.integers(0, 99),
)
def test_no_searched_table_exceeds_the_claim(table: PartyTable, pipeline: Pipeline, neighbour: str, seed: int) -> None:
    """Compare the runs of one pipeline on a table and on one of its neighbours."""
    party, change = table.parties[seed % len(table.parties)], BY_NAME[neighbour]
    other = change.of(table, party, seed)
    before, after = pipeline.record(table), pipeline.record(other)
    assert before.error is None, before.error
    measured = compare(before, after, party, other, changes=change is not NO_CHANGE)
    assert [f"{one.check}: {one.said}" for one in findings(measured)] == []


# -- the parts


@pytest.mark.parametrize("name", BY_NAME)
def test_a_neighbour_changes_one_party_only(name: str) -> None:
    table = synthetic_table(3)
    for seed in range(5):
        other = BY_NAME[name].of(table, "site 2", seed)
        assert other.parties == table.parties
        for party in {*table.parties, "open"} - {"site 2"}:
            assert other.cells.iloc[other.places(party)].to_csv(index=False) == table.cells.iloc[
                table.places(party)
            ].to_csv(index=False)
        own = other.cells.iloc[other.places("site 2")].to_csv(index=False)
        same = own == table.cells.iloc[table.places("site 2")].to_csv(index=False)
        assert same == (name == NO_CHANGE.name)
    if name != "a new category":  # of a column by chance
        assert synthetic_table(3).cells.equals(table.cells), "the table itself is left as it is"


def test_neighbours_of_an_unknown_party_are_refused() -> None:
    with pytest.raises(DataError):
        BY_NAME["rows added"].of(synthetic_table(), "nobody", 0)


def test_an_error_must_be_about_the_party_itself() -> None:
    table = synthetic_table()
    own, other = min(table.lines("site 1")), min(table.lines("site 2"))
    assert is_own_error(DataError(f"a bad cell (line {own})"), table, "site 1")
    assert not is_own_error(DataError(f"a bad cell (line {other})"), table, "site 1")
    assert is_own_error(DataError("the party 'site 1' has no row"), table, "site 1")
    assert not is_own_error(DataError("too few rows"), table, "site 1")
    assert not is_own_error(InvalidParameter(f"line {own}"), table, "site 1")


PUBLIC_VALUES = {"roster": {"order": ("a", "b")}, "messages": {"of": 1}, "terms": {"sum": 1}, "public files": {"x": 1}}


def seen(**changed: Any) -> RunRecord:
    """What two parties showed."""
    parts: dict[str, Any] = {
        "public": PUBLIC_VALUES,
        "own": {"rows": {"a": "1", "b": "1"}, "parameters": {"a": "2", "b": "2"}},
        "vectors": {"sum": {"a": (1, 2), "b": (3, 4)}},
        "bounds": {"sum": Bound(l1=4.0, l2=3.0)},
        "released": {"avg": (np.array([1.0, 0.0]), 0.5)},
        "derived": {"model.json": "1"},
        "shares": {"sum": (2, 2)},
    }
    return RunRecord(**parts | changed)


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        *((check, {"public": PUBLIC_VALUES | {check: {"order": 2}}}) for check in PUBLIC),
        ("public files", {"public": PUBLIC_VALUES | {"public files": {}}}),
        ("public files", {"derived": {"model.json": "2"}}),
        ("others' rows", {"own": {"rows": {"a": "1", "b": "3"}, "parameters": {"a": "2", "b": "2"}}}),
        ("others' parameters", {"own": {"rows": {"a": "1", "b": "1"}, "parameters": {"a": "2"}}}),
        ("others' vectors", {"vectors": {"sum": {"a": (1, 2), "b": (3, 5)}}}),
        ("own vector", {"vectors": {"sum": {"a": (1, 6), "b": (3, 4)}}}),
        ("own vector", {"vectors": {"sum": {"a": (1,), "b": (3,)}}}),
        ("sum", {"vectors": {"sum": {"a": (3, 2), "b": (6, 4)}}}),
        ("release", {"released": {"avg": (np.array([1.0, 0.6]), 0.5)}}),
        ("refusal", {"error": DataError("too few rows")}),
    ],
)
def test_each_check_can_fail(check: str, changed: dict[str, Any]) -> None:
    table = synthetic_table()
    assert findings(compare(seen(), seen(), "a", table)) == []
    found = findings(compare(seen(), seen(**changed), "a", table))
    assert check in {one.check for one in found}
    assert all(one.said for one in found)


def test_files_that_follow_from_the_sum_may_differ() -> None:
    moved = seen(vectors={"sum": {"a": (1, 3), "b": (3, 4)}}, derived={"model.json": "2"})
    assert findings(compare(seen(), moved, "a", synthetic_table())) == []


def test_too_little_remaining_noise_is_detected() -> None:
    assert findings(compare_colluders(seen())) == []
    assert [one.check for one in findings(compare_colluders(seen(shares={"sum": (-1, 3)})))] == ["colluders"]
    comparison = judged("", "", compare_colluders(seen(shares={"sum": (2, 3)})))
    assert [one.check for one in comparison.findings] == ["colluders"]
    assert comparison.ratio == 1.5


# -- the command


@pytest.mark.soak
def test_the_command_audits_a_users_table(tmp_path: Path) -> None:
    path = synthetic_table().write(tmp_path / "table.csv")
    arguments = ["audit", "--privacy", "--data", str(path), "--label", "outcome", "--party", "site", "--public", "open"]
    done = CliRunner().invoke(build(), [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    outcome = PrivacyAuditResult.from_json(json.loads(done.stdout))
    assert outcome.mechanisms == []
    assert {one.pipeline for one in outcome.runs} == OF_ANY_TABLE
    for name in OF_ANY_TABLE:
        check_runs(PIPELINES[name], [one for one in outcome.runs if one.pipeline == name])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--privacy", "--label", "outcome"],
        ["--privacy", "--data", "FILE", "--label", "outcome", "--party", "site"],
        ["--privacy", "--data", "FILE", "--label", "outcome", "--public", "FILE"],
        ["--data", "FILE", "--label", "outcome", "--party", "site", "--public", "open"],
    ],
)
def test_the_command_refuses_what_it_cannot_audit(arguments: list[str], tmp_path: Path) -> None:
    path = synthetic_table().write(tmp_path / "table.csv")
    words = ["audit", *(str(path) if word == "FILE" else word for word in arguments)]
    assert isinstance(CliRunner().invoke(build(), words).exception, (InvalidParameter, SystemExit))


def test_a_finding_fails_the_audit() -> None:
    runs = [ComparedRun("run", "rows added", [Finding("sum", "it moved")], 1.5), ComparedRun("run", "none", [], None)]
    outcome = PrivacyAuditResult(mechanisms=[], runs=runs, phases={})
    assert not outcome.as_expected
    assert PrivacyAuditResult(mechanisms=[], runs=runs[1:], phases={}).as_expected
    text = str(outcome.page())
    assert "it moved" in text
    assert PrivacyAuditResult.from_json(json.loads(json.dumps(outcome.as_json()))).runs[0].ratio == 1.5
