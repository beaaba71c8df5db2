"""The matrix of who learned what.

The seed is fixed, so that a verdict that changes is a change of the code and not of the coins. The command draws fresh
coins, at the false-alarm rate it states.
"""

from __future__ import annotations

import json

import pytest

from psephos.audit.matrix import HIDDEN, LEAK, REVEALED, Coalition
from psephos.audit.model import Case, Check, CheckResult, judge
from psephos.audit.run import CASES, NOT_EXAMINED, PROTOCOLS, RATE, as_expected, run_audit
from psephos.protocol.errors import InvalidParameter
from psephos.results.base import AuditedCell
from psephos.results.security import AuditedCoalition, AuditedProtocol, AuditResult

SEED = 20260
VIEWS = 40
"""Power: who is right in 92 % of cases is noticed with probability 0.99 (`detectable_accuracy`)."""
OTHER = {"pathak-public-bound": 60, "pathak-printed": 24, "pathak-all-pairs": 24}
"""More where a fault needs them; those of 90 and 110 (`faults.toml`) are for `psephos audit`. Fewer where the leaks are
the paper's own, which each view shows."""
FEW_VIEWS = 8
"""Every check runs, and only coarse leaks are seen. Attacks are in test_attack_catalogue.py."""


@pytest.mark.parametrize(
    ("name", "views"),
    [
        ("statistic", FEW_VIEWS),
        *(pytest.param(name, OTHER.get(name, VIEWS), marks=pytest.mark.statistical) for name in PROTOCOLS),
    ],
)
def test_verdicts_are_the_expected_ones(name: str, views: int) -> None:
    outcome = run_audit(name, seed=SEED, views=views)
    (protocol,) = outcome.protocols
    wrong = [
        (coalition.name, secret, cell)
        for coalition in protocol.coalitions
        for secret, cell in coalition.cells.items()
        if cell.verdict != cell.expected
    ]
    assert not wrong
    assert outcome.as_expected
    # Every coalition has a word on every secret, with evidence.
    case = CASES[name]
    assert [c.name for c in protocol.coalitions] == [c.name for c in case.coalitions]
    for coalition in protocol.coalitions:
        assert set(coalition.cells) == set(case.secrets)
        assert all(cell.evidence for cell in coalition.cells.values())
    assert outcome.not_examined == NOT_EXAMINED
    assert AuditResult.from_json(json.loads(json.dumps(outcome.as_json()))) == outcome


@pytest.mark.slow
def test_audits_with_several_processes_agree() -> None:
    seen: list[tuple[int, int]] = []
    names = ["own-data", "whitened", "pathak-liars"]
    few = run_audit(names, seed=SEED, views=4, jobs=2, progress=lambda what, done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert [protocol.name for protocol in few.protocols] == names
    alone = run_audit("whitened", seed=SEED, views=4)
    assert alone.protocols[0] in few.protocols


def test_false_alarms_of_a_run_stay_below_two_percent() -> None:
    statistical = sum(check.statistical for case in CASES.values() for check in case.checks)
    assert statistical * RATE <= 0.02


def test_only_the_papers_protocols_are_expected_to_leak() -> None:
    leaking = {
        (case.name, coalition.name, secret)
        for case in CASES.values()
        for coalition in case.coalitions
        for secret in case.secrets
        if coalition.expected(secret) == LEAK
    }
    smallest = "party 2 (the smallest)"
    liars = {
        ("pathak-liars", f"{variant}: {who}", "the sum without noise")
        for variant in ("printed", "repaired")
        for who in ("a lying party", "lying curator")
    }
    assert leaking == {("pathak-printed", smallest, "noise")} | liars


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="tally"):
        run_audit("telepathy")


# -- the judge


def _case(granted: dict[str, str], leaks: dict[str, bool]) -> tuple[Case, dict[str, CheckResult]]:
    checks = tuple(Check(name, "c", ("s",), lambda context: CheckResult(False, "")) for name in leaks)
    case = Case("p", ("s",), (Coalition("c", (), granted),), checks)
    return case, {name: CheckResult(leak, f"{name} looked") for name, leak in leaks.items()}


@pytest.mark.parametrize(
    ("granted", "leaks", "verdict"),
    [
        ({}, {"a": False, "b": False}, HIDDEN),
        ({}, {"a": False, "b": True}, LEAK),
        ({"s": "meant"}, {"a": True}, REVEALED),
        # Granted, yet nobody could show it: the table promises what is not so.
        ({"s": "meant"}, {"a": False}, HIDDEN),
    ],
)
def test_verdicts(granted: dict[str, str], leaks: dict[str, bool], verdict: str) -> None:
    case, results = _case(granted, leaks)
    cell = judge(case, results).coalitions[0].cells["s"]
    assert cell.verdict == verdict
    assert "looked" in cell.evidence


def test_a_cell_without_a_check_is_an_error_not_hidden() -> None:
    case, results = _case({}, {})
    with pytest.raises(KeyError, match="no check"):
        judge(case, results)


def test_exit_status_follows_verdicts() -> None:
    def one(verdict: str, wanted: str) -> AuditedProtocol:
        return AuditedProtocol("p", [AuditedCoalition("c", [], {"s": AuditedCell(verdict, wanted, "")})])

    assert as_expected([one(HIDDEN, HIDDEN), one(LEAK, LEAK)])
    assert not as_expected([one(HIDDEN, HIDDEN), one(LEAK, HIDDEN)])
    assert not as_expected([one(HIDDEN, LEAK)])
