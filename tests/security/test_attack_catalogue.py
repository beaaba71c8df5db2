"""Every attack of a protocol's catalogue is detected by the error that it names, or is as harmless as it says."""

from __future__ import annotations

from functools import partial

import pytest

from psephos.audit import case_liars, case_pathak_liars, case_psgd_liars
from psephos.audit.attacks import HARMLESS, SUCCEEDS, Attack, AttackResult, attack_case
from psephos.audit.case_tally import VOTES
from psephos.audit.deviations import REQUESTS, try_requests
from psephos.audit.model import Coalition, Context
from psephos.protocol.errors import ProofError, PsephosError, ThresholdError

CATALOGUES = {
    "tally": case_liars.ATTACKS,
    "psgd": case_psgd_liars.ATTACKS,
    "pathak": case_pathak_liars.ATTACKS,
}


@pytest.mark.parametrize(
    ("protocol", "attack"),
    [
        pytest.param(name, attack, id=f"{name}: {attack.name}")
        for name, attacks in CATALOGUES.items()
        for attack in attacks
    ],
)
def test_an_attack_is_detected_as_expected(protocol: str, attack: Attack) -> None:
    result = attack.run(Context(seed=20260, views=2))
    assert attack.met_by(result), result


def test_every_deviating_request_is_refused_as_expected() -> None:
    context = Context(seed=20260, views=2)
    results = try_requests(VOTES.setting(context), partial(VOTES.ballots, context))
    assert [attack.name for attack in REQUESTS if not attack.met_by(results[attack.name])] == []


@pytest.mark.parametrize("attacks", [*CATALOGUES.values(), REQUESTS], ids=[*CATALOGUES, "requests"])
def test_attacks_have_names_of_their_own_and_no_general_error(attacks: tuple[Attack, ...]) -> None:
    assert len({attack.name for attack in attacks}) == len(attacks)
    assert all(attack.roles for attack in attacks)
    assert PsephosError not in {attack.expected for attack in attacks}


def test_an_attack_is_met_by_its_own_result_alone() -> None:
    gained, refused = AttackResult({"votes": "read"}), AttackResult(errors=(ProofError("no"),))
    for expected, met in (
        (ProofError, [False, True, False]),
        (ThresholdError, [False, False, False]),
        (HARMLESS, [False, True, True]),
        (SUCCEEDS, [True, False, False]),
    ):
        attack = Attack("lies", ("party 1",), lambda context: refused, expected)
        assert [attack.met_by(result) for result in (gained, refused, AttackResult())] == met
    both = AttackResult({"votes": "read"}, refused.errors)
    assert not Attack("lies", ("party 1",), lambda context: both, ProofError).met_by(both)


def test_the_case_of_a_catalogue_checks_each_attack_of_each_coalition() -> None:
    runs: list[Context] = []

    def lie(context: Context) -> AttackResult:
        runs.append(context)
        return AttackResult({"votes": "a vote is read"})

    attack = Attack("lies", ("party 1",), lie, SUCCEEDS)
    coalitions = (Coalition("one", ("party 1",)), Coalition("two", ("party 1", "party 2")))
    case = attack_case("made up", ("votes",), [(coalition, [attack]) for coalition in coalitions])
    assert case.coalitions == coalitions
    assert [check.name for check in case.checks] == ["lies, one", "lies, two"]
    context = Context(seed=1)
    assert [check.run(context).leaks for check in case.checks] == [True, True]
    assert runs == [context], "an attack runs once per context"
