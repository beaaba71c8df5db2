"""Linear statistics of votes or of own rows, with noise that the parties or the key holders add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from psephos.curator.statistic import (
    SOURCE_OF,
    MechanismName,
    StatisticPlan,
    StatisticRelease,
    fit_statistic,
    for_ballots,
    grid_sensitivity,
    mechanism_with_less_noise,
    plan_statistic,
    release_total,
    with_joint_noise,
)
from psephos.parties.party import RoundParty
from psephos.parties.statistic import StatisticParty
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.specs.base import OWN_SENT, VOTES_SENT, Array, Coins, Owner
from psephos.specs.noisy import NoisySumSpec
from psephos.specs.secrets import CLASSIFIER, VOTE_COUNTS, VOTES
from psephos.specs.terms import PrivacyTerms, PublicTerms


@dataclass(frozen=True)
class StatisticSpec(NoisySumSpec):
    """A statistic of the parties' votes on auxiliary samples, or of their own rows (docs/theory.md)."""

    methods = tuple(SOURCE_OF)
    summand = "a statistic of votes or own rows"
    sends: ClassVar[Mapping[str, str]] = {
        "statistic": VOTES_SENT,
        "vote-directions": "Each party trains a classifier on its own rows, labels the samples with it, and sends the "
        "direction in which the labelled samples differ by class.",
        **OWN_SENT,
    }
    samples_are: ClassVar[Mapping[str, str]] = {
        "statistic": "are voted on",
        "vote-directions": "are labelled by every party's classifier",
    }
    parameters: ClassVar[Mapping[str, Any]] = {
        "coordinates": str,
        **NoisySumSpec.parameters,
        "noise_from": "parties",
    }
    secrets = (*NoisySumSpec.secrets, CLASSIFIER, VOTES, VOTE_COUNTS)

    release_plan: StatisticPlan

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        law = privacy.joint_noise
        if privacy.least_noise and privacy.epsilon is not None:
            terms: dict[str, Any] = {"epsilon": privacy.epsilon, "delta": privacy.delta, "joint": True}
            law = mechanism_with_less_noise(public.samples, public.classes, public.parties, **terms)
        plan = plan_of(public, privacy, law, joint=True)
        return cls.private(plan, privacy, public.auxiliary)

    def stated(self) -> dict[str, Any]:
        return {"coordinates": self.release_plan.transform}

    @property
    def takes_classifier(self) -> bool:
        return self.release_plan.source in ("votes", "vote-directions")

    @property
    def sensitivities(self) -> tuple[float, float]:
        l1, l2 = grid_sensitivity(self.grid)
        return l1.value, l2.value

    def role(self, owner: Owner, data: Any, terms: Round, coins: Coins) -> RoundParty:
        """See `SumSpec.role`; `data` is the party's classifier where the statistic is of votes, else its `Rows`."""
        if not self.takes_classifier:
            return super().role(owner, data, terms, coins)
        assert self.auxiliary is not None
        voter = owner(classes=range(self.grid.classes), voter=data)
        return StatisticParty(voter, terms, self.auxiliary, self.grid, self._party_shares, **coins._asdict())

    def counting(self, ballots: int) -> StatisticPlan:
        """See `NoisySumSpec.counting`; the statistic is that of the mean over the ballots."""
        assert self.shares is not None
        noisy = with_joint_noise(self.release_plan, self.shares.contributors, self.shares.parties)
        return for_ballots(noisy, ballots, holder_noise=self.noise_from == "holders")

    def statistic(self, opened: OpenedSum) -> StatisticRelease:
        return release_total(self.counting(opened.ballots), list(opened.sums))

    def fitted(self, opened: OpenedSum) -> Array:
        return fit_statistic(self.statistic(opened))

    @property
    def choices(self) -> dict[str, Any]:
        return {"rank": self.release_plan.rank}


def plan_of(public: PublicTerms, privacy: PrivacyTerms, mechanism: MechanismName, *, joint: bool) -> StatisticPlan:
    """Return the plan of a statistic, in the agreed coordinates if there are any; raises as `plan_statistic`."""
    return plan_statistic(
        public.samples,
        public.classes,
        public.parties,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        mechanism=mechanism,
        source=SOURCE_OF.get(public.method, "votes"),
        transform=public.agreed.get("coordinates"),
        joint=joint,
    )
