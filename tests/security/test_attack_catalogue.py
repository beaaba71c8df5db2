"""Every attack of a protocol's catalogue is detected by the error that it names, or is as harmless as it says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from psephos.audit import case_pathak, liars
from psephos.audit.attacks import HARMLESS, SUCCEEDS, Attack, AttackResult, attack_case
from psephos.audit.case_sums import PARAMETERS, SUMS, VOTES
from psephos.audit.model import AnalysisContext
from psephos.audit.run import CASES
from psephos.protocol.errors import InvalidParameter, ProofError, PsephosError, ThresholdError
from psephos.specs.exact import OwnDataSpec
from psephos.specs.registry import SPECS
from psephos.specs.secrets import KEY_SECRETS, Secret, names_of

ATTACKS = {
    "tally": liars.ATTACKS,
    "statistic": SUMS["statistic"].requests,
    "rehearsed": SUMS["rehearsed"].requests,
    "head": SUMS["rehearsed-gaussian"].requests,  # its round is that of a step in a ball
    "record": SUMS["record"].requests,
    "regression": SUMS["record"].requests,  # its round is that of a record step
    "evaluation": SUMS["evaluation"].requests,
    "average": PARAMETERS.requests,
    "psgd": liars.PSGD_ATTACKS,
    "pathak": case_pathak.ATTACKS,
}
"""Every attack on a protocol, by the name of its specification."""


def is_met(attack: Attack, result: AttackResult) -> bool:
    """Return whether the result is the one that an attack expects."""
    if attack.expected in (SUCCEEDS, HARMLESS):
        return bool(result.gains) == (attack.expected == SUCCEEDS)
    return not result.gains and any(isinstance(error, attack.expected) for error in result.errors)  # type: ignore[arg-type]


VOTE = Secret("votes", "each party", "A vote.", by_attack=True)


@pytest.mark.parametrize(
    ("protocol", "attack"),
    [
        pytest.param(name, attack, id=f"{name}: {attack.name}")
        for name, attacks in ATTACKS.items()
        for attack in attacks
    ],
)
def test_an_attack_is_detected_as_expected(protocol: str, attack: Attack) -> None:
    result = attack.run(AnalysisContext(seed=20260, views=2))
    assert is_met(attack, result), result
    assert result.gains.keys() <= set(names_of(attack.secrets))


def test_every_deviating_request_is_refused_as_expected() -> None:
    context = AnalysisContext(seed=20260, views=2)
    attacks = VOTES.requests
    assert [attack.name for attack in attacks if not is_met(attack, attack.run(context))] == []


@pytest.mark.parametrize("name", SPECS)
def test_every_specification_declares_secrets_and_has_attacks_on_them(name: str) -> None:
    secrets, attacks = SPECS[name].secrets, ATTACKS[name]
    names = [secret.name for secret in secrets]
    assert names_of(secrets, by_attack=False)
    assert len(set(names)) == len(names)
    assert all(secret.owner and secret.description.endswith(".") for secret in secrets)
    assert attacks
    for attack in attacks:
        assert attack.secrets
        assert all(secret.by_attack for secret in attack.secrets)
        assert set(attack.secrets) <= set(secrets), attack.name


def test_every_specification_has_a_catalogue() -> None:
    assert set(ATTACKS) == set(SPECS)


def test_every_secret_of_a_case_is_declared_and_every_declared_one_is_tested() -> None:
    declared = {secret.name for spec in {OwnDataSpec, *SPECS.values()} for secret in spec.secrets}
    declared |= set(names_of(KEY_SECRETS))
    assert {secret for case in CASES.values() for secret in case.secrets} == declared


def test_a_gain_that_an_attack_does_not_declare_is_an_error() -> None:
    attack = Attack("lies", lambda context: AttackResult({"the key": "read"}), SUCCEEDS, (VOTE,))
    case = attack_case("psgd-liars", [[attack]] * 4)
    with pytest.raises(InvalidParameter, match="the key"):
        case.checks[0].run(AnalysisContext(seed=1))


@pytest.mark.parametrize("attacks", ATTACKS.values(), ids=ATTACKS)
def test_attacks_have_distinct_names_and_expect_a_specific_error(attacks: Sequence[Attack]) -> None:
    assert len({attack.name for attack in attacks}) == len(attacks)
    assert PsephosError not in {attack.expected for attack in attacks}


def test_an_attack_is_met_by_its_own_result_alone() -> None:
    gained, refused = AttackResult({"votes": "read"}), AttackResult(errors=(ProofError("no"),))
    for expected, met in (
        (ProofError, [False, True, False]),
        (ThresholdError, [False, False, False]),
        (HARMLESS, [False, True, True]),
        (SUCCEEDS, [True, False, False]),
    ):
        attack = Attack("lies", lambda context: refused, expected, (VOTE,))
        assert [is_met(attack, result) for result in (gained, refused, AttackResult())] == met
    both = AttackResult({"votes": "read"}, refused.errors)
    assert not is_met(Attack("lies", lambda context: both, ProofError, (VOTE,)), both)


def test_the_case_of_a_catalogue_checks_each_attack_of_each_coalition() -> None:
    runs: list[AnalysisContext] = []

    def lie(context: AnalysisContext) -> AttackResult:
        runs.append(context)
        return AttackResult({"votes": "a vote is read"})

    attack = Attack("lies", lie, SUCCEEDS, (VOTE,))
    case = attack_case("psgd-liars", [[attack]] * 4)
    assert [check.name for check in case.checks] == [f"lies, {coalition.name}" for coalition in case.coalitions]
    context = AnalysisContext(seed=1)
    assert [check.run(context).leaks for check in case.checks] == [True] * 4
    assert runs == [context], "an attack runs once per context"
