"""The attacks that are tried on a protocol, and the case that an audit makes of them.

An attack replaces roles and states the expected result: the class of error with which an honest role refuses it, that
nothing needs to be refused (`HARMLESS`), or that a broken variant does not withstand it (`SUCCEEDS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from psephos.audit.matrix import EXPECTED
from psephos.audit.model import AnalysisContext, Case, CheckResult, Checks, case_of
from psephos.protocol.errors import InvalidParameter, PsephosError
from psephos.specs.secrets import Secret, names_of

Expected = type[PsephosError] | Literal["harmless", "succeeds"]
HARMLESS: Literal["harmless"] = "harmless"
"""Nothing needs to be refused: the attack gains nothing."""
SUCCEEDS: Literal["succeeds"] = "succeeds"
"""The variant of the protocol is known to be broken by the attack."""


@dataclass(frozen=True)
class AttackResult:
    gains: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[PsephosError, ...] = ()


@dataclass(frozen=True)
class Attack:
    """One deviation from a protocol."""

    name: str
    run: Callable[[AnalysisContext], AttackResult] = field(repr=False)
    expected: Expected
    secrets: tuple[Secret, ...]


def attack_case(name: str, attacks: Sequence[Sequence[Attack]]) -> Case:
    """Return the case in which each coalition of `EXPECTED[name]` makes the attacks of its place."""

    def check(attack: Attack, context: AnalysisContext) -> CheckResult:
        result: AttackResult = context.cached((name, attack.name), lambda: attack.run(context))
        undeclared = result.gains.keys() - names_of(attack.secrets)
        if undeclared:
            raise InvalidParameter(f"the attack {attack.name!r} gained {', '.join(sorted(undeclared))}: declare it")
        evidence = "; ".join(dict.fromkeys(result.gains.values()))
        detected = ", ".join(sorted({type(error).__name__ for error in result.errors}))
        return CheckResult(bool(result.gains), evidence or f"gained nothing{detected and f': {detected}'}")

    checks = Checks()
    for coalition, made in zip(EXPECTED[name].coalitions, attacks, strict=True):
        for attack in made:
            checks.add(attack.name, coalition.name, names_of(attack.secrets), partial(check, attack))
    return case_of(name, checks)
