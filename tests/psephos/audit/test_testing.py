"""What others test with is tested: adversaries, views, advantages, audits of one's own, mutants of one's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from scipy.stats import binom

from psephos.audit import (
    AnalysisContext,
    Case,
    Check,
    CheckResult,
    Coalition,
    SampleRound,
    ScriptedRole,
    Tampering,
    advantage,
    hold_round,
    run_audit,
    views,
)
from psephos.audit.fixtures import MakeSample
from psephos.curator.tally import Tally
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.errors import InvalidParameter, TooFewBallotsError
from psephos.protocol.randomness import Randomness, SimulationRandomness
from psephos.protocol.roles import BOARD, Entry, Post, Role
from psephos.protocol.storage.store import Store
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind


def roles_of(sample: SampleRound) -> list[Role]:
    """Honest ones, who remember nothing of an earlier run."""
    ballots = [sample.ballot(number).encode() for number in range(5)]
    senders = (ScriptedRole(f"party {number}", data) for number, data in enumerate(ballots))
    return [*senders, Tally(sample.round), *sample.holders()]


# -- adversaries


def test_a_tampering_without_overrides_is_the_honest_role(sample: SampleRound) -> None:
    honest, posing = Transcript(), Transcript()
    opened = Driver(roles_of(sample), transcript=honest).run()["curator"]
    everybody = dict.fromkeys((role.name for role in roles_of(sample)), Tampering)
    same = Driver(replace_roles(roles_of(sample), everybody), transcript=posing).run()["curator"]
    assert same.sums == opened.sums == tuple(sample.sums(range(5)))
    assert [m.kind for m in posing.messages] == [m.kind for m in honest.messages]


class ZeroShares(Tampering):
    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        return []


class Twice(Tampering):
    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        return [post, post]


class Deaf(Tampering):
    """Never shows the honest role a ballot of party 4."""

    def deliver(self, entry: Entry) -> Iterable[Entry]:
        return [] if entry.sender == "party 4" else [entry]


def test_a_tampering_changes_its_own_messages(sample: SampleRound) -> None:
    four = Driver(replace_roles(roles_of(sample), {"party 2": ZeroShares})).run()["curator"]
    assert four.sums == tuple(sample.sums([0, 1, 3, 4]))
    transcript = Transcript()
    again = Driver(replace_roles(roles_of(sample), {"party 2": Twice}), transcript=transcript, strict=False)
    assert again.run()["curator"].sums == tuple(sample.sums(range(5)))
    assert [message.sender for message in transcript.messages].count("party 2") == 2
    deaf = replace_roles(roles_of(sample), {"curator": Deaf} | {f"holder {j}": Deaf for j in (1, 2, 3)})
    assert Driver(deaf).run()["curator"].sums == tuple(sample.sums(range(4)))
    with pytest.raises(TooFewBallotsError):
        Driver(replace_roles(roles_of(sample), {f"party {number}": ZeroShares for number in range(4)})).run()


class Listener(Tampering):
    """A party that reads the board, which honest ones do not, and says once what it heard."""

    also_reads = frozenset({Kind.BALLOT})

    def idle(self, seen: Sequence[Entry]) -> Iterable[Post]:
        return [Post("nobody", bytes([len(seen)]))]


def test_a_tampering_may_read_and_send_on_idle(sample: SampleRound) -> None:
    """What it reads besides is not shown to the honest role, which would not know what to do with it."""
    transcript = Transcript(secrets=True)
    Driver(replace_roles(roles_of(sample), {"party 0": Listener}), transcript=transcript).run()
    payloads = [message.data for message in transcript.messages if message.receiver == "nobody"]
    assert payloads == [bytes([5])]


def test_the_state_of_a_tampering_is_stored(sample: SampleRound, tmp_path) -> None:  # type: ignore[no-untyped-def]
    store = Store(tmp_path / "run.sqlite", {})
    liars = {"curator": Tampering, "holder 1": Tampering}
    opened = Driver(replace_roles(roles_of(sample), liars), store=store).run()
    again = Driver(replace_roles(roles_of(sample), liars), store=store).run()
    assert opened["curator"].sums == again["curator"].sums == tuple(sample.sums(range(5)))


# -- views


def test_views_need_participating_roles(sample: SampleRound) -> None:
    transcript = Transcript(secrets=True)
    Driver(roles_of(sample), transcript=transcript).run()
    seen = views(transcript, "curator", "holder 3")
    assert {message.receiver for message in seen["holder 3"].received} == {BOARD}
    assert {"board", "curator"} == {message.receiver for message in seen["curator"].received}
    for stranger in ("holder 9", "Curator", "board", ""):
        with pytest.raises(InvalidParameter, match="holder 1"):
            views(transcript, "curator", stranger)
    with pytest.raises(InvalidParameter):
        views(Transcript(), "curator")


# -- advantage


def test_the_interval_is_clopper_pearson() -> None:
    """Each end is where as many right guesses, or more, or fewer, have probability (1 - confidence)/2."""
    answers = iter([1] * 37 + [0] * 13)
    estimate = advantage(lambda world, coins: world, lambda view: view if next(answers) else 1 - view, trials=50)
    assert (estimate.right, estimate.trials, estimate.value) == (37, 50, pytest.approx(2 * 37 / 50 - 1))
    low, high = (estimate.low + 1) / 2, (estimate.high + 1) / 2
    assert binom.sf(36, 50, low) == pytest.approx(0.005)
    assert binom.cdf(37, 50, high) == pytest.approx(0.005)


def test_advantage_of_a_perfect_and_a_blind_distinguisher() -> None:
    sure = advantage(lambda world, coins: world, lambda view: view, trials=30)
    assert (sure.value, sure.high) == (1.0, 1.0)
    assert sure.low == pytest.approx(2 * 0.005 ** (1 / 30) - 1)
    assert advantage(lambda world, coins: world, lambda view: 1 - view, trials=30).value == -1.0
    # The interval excludes 0 for one seed in 10^11.
    options = {"trials": 1600, "seed": 3, "confidence": 1 - 1e-11}
    blind = advantage(lambda world, coins: coins.below(2), lambda view: view, **options)
    assert blind.low < 0 < blind.high
    assert blind.high - blind.low < 0.36
    assert advantage(lambda world, coins: coins.below(2), lambda view: view, **options) == blind


def test_settings_are_fair_and_trials_have_independent_randomness() -> None:
    worlds: list[int] = []
    values: set[int] = set()

    def play(world: int, coins: Randomness) -> int:
        worlds.append(world)
        values.add(coins.bits(64))
        return world

    advantage(play, lambda view: view, trials=2000, seed=5)
    assert 850 < sum(worlds) < 1150  # 6.7 standard deviations
    assert len(values) == 2000


@pytest.mark.parametrize(("how", "words"), [({"trials": 0}, "one trial"), ({"confidence": 1.0}, "confidence")])
def test_invalid_arguments_of_advantage_are_refused(how: dict[str, float], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        advantage(lambda world, coins: world, lambda view: view, **how)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="0 or 1"):
        advantage(lambda world, coins: world, lambda view: 2)


# -- a case of one's own


def parity(context: AnalysisContext) -> CheckResult:
    """A protocol that tells whether the secret is odd, by `parity_leaks`."""
    values = [parity_leaks(int(value)) for value in np.random.default_rng(context.seed).integers(0, 9, 30)]
    return CheckResult(any(values), f"{sum(values)} of {len(values)} told")


KNOWN = False


def parity_leaks(secret: int) -> bool:
    return KNOWN and secret % 2 == 1


CURATOR = Coalition("curator", ("curator",))
CASE = Case("mine", ("parity",), (CURATOR,), (Check("told", "curator", ("parity",), parity),))


def test_a_user_defined_case_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_audit(CASE, seed=1)
    assert result.as_expected
    assert result.protocols[0].name == "mine"
    assert result.protocols[0].coalitions[0].cells["parity"].evidence == "told: 0 of 30 told"
    monkeypatch.setattr(sys.modules[__name__], "KNOWN", True)
    assert not run_audit(CASE, seed=1).as_expected
    blank = Case("blank", ("parity", "size"), CASE.coalitions, CASE.checks)
    with pytest.raises(KeyError):
        run_audit(blank, seed=1)


# -- rounds


def test_fixture_rounds_have_the_requested_parameters(make_sample: MakeSample, coins: SimulationRandomness) -> None:
    sample = make_sample(7, 5, 3, length=20, minimum_ballots=4, randomness=coins)
    assert (len(sample.round.roster), len(sample.shares), sample.round.threshold_key.threshold) == (7, 5, 3)
    with pytest.raises(TooFewBallotsError):
        sample.count([sample.ballot(party) for party in range(3)])
    wide = hold_round(2, 2, 2, length=3, span=(-5, 5), proofs="knowledge")
    assert wide.round.proofs == "knowledge"
    plain = hold_round(2, 2, 2, length=3, span=(-5, 5))
    assert plain.count([plain.ballot(0, [-5, 0, 5]), plain.ballot(1, [-5, 1, 5])]).sums == (-10, 1, 10)
    assert Ballot.decode(plain.ballot(0, [0, 0, 0]).encode(), plain.round).party == 0
