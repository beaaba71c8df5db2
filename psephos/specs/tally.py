"""Votes counted under encryption (Hamm 2016): the curator learns alpha, and adds the noise to what it fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.release import erm_bound
from psephos.curator.hamm.rules import RidgeRule
from psephos.curator.hamm.sensitivity import Labels
from psephos.curator.ledger import Release
from psephos.curator.losses import Loss, loss_named
from psephos.curator.methods import Method, ReleaseRequest, erm_method, pate_method, statistic_method
from psephos.parties.party import Voter, VotingParty
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.specs.base import VOTES_SENT, Array, Coins, Owner, SumSpec, VectorFormat
from psephos.specs.secrets import CLASSIFIER, CULPRIT, DATA, NOISE, OTHER_SUM, SIZES, VOTE_COUNTS, VOTES, Secret
from psephos.specs.terms import PrivacyTerms, PublicTerms

LABELS: dict[str, Labels] = {"vote": "majority", "soft": "soft"}
"""The labels of the methods that fit a weighted ERM: Hamm's Algorithms 1 and 2."""

HONEST_VOTE = Secret(
    "an honest party's vote",
    "each party",
    "A vote of a party that follows the protocol, on any auxiliary sample.",
    by_attack=True,
)


@dataclass(frozen=True)
class TallySpec(SumSpec):
    """Counts of votes on public auxiliary samples of K classes.

    `method`: what `release` makes of the counts, for `request`, where one method is agreed on.
    """

    methods = ("statistic", "soft", "vote")
    parameters: ClassVar[Mapping[str, Any]] = {"lam": 0.0}
    summand = "votes"
    sends: ClassVar[Mapping[str, str]] = dict.fromkeys(methods, VOTES_SENT)
    samples_are: ClassVar[Mapping[str, str]] = dict.fromkeys(methods, "are voted on")
    joint = False
    opens = "counts"
    secrets = (DATA, CLASSIFIER, VOTES, NOISE, SIZES, VOTE_COUNTS, HONEST_VOTE, OTHER_SUM, CULPRIT)
    kind = "votes"

    auxiliary: AuxiliarySet
    classes: int
    method: str = ""
    request: ReleaseRequest | None = None

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        request, method = privacy.request, public.method
        if request.lam is not None and not 0 < request.lam < 1e6:
            raise InvalidParameter(f"lam is a positive number, not {request.lam}")
        if method in LABELS and request.lam is None:
            request = replace(request, lam=_ridge(public, request))
        return cls(public.auxiliary, public.classes, method, request)

    def stated(self) -> dict[str, Any]:
        return {} if self.request is None or self.request.lam is None else {"lam": self.request.lam}

    @property
    def takes_classifier(self) -> bool:
        return True

    @property
    def layout(self) -> VoteLayout:
        return VoteLayout(len(self.auxiliary.samples), self.classes)

    @property
    def entries(self) -> VectorFormat:
        return VectorFormat(len(self.auxiliary.samples) * (self.classes - 1), 0, 1)

    @cached_property
    def context(self) -> bytes:
        return self.auxiliary.context(range(self.classes))

    @property
    def sensitivities(self) -> tuple[float, float]:
        """See `SumSpec.sensitivities`; each vote may change, from one counted class to another."""
        changes = float(len(self.auxiliary.samples) * min(2, self.classes - 1))
        return changes, changes**0.5

    @property
    def group(self) -> int:
        return self.classes - 1

    def role(self, owner: Owner, data: Voter, terms: Round, coins: Coins) -> VotingParty:
        voter = owner(classes=range(self.classes), voter=data)
        return VotingParty(voter, terms, self.auxiliary, encryptor=coins.encryptor)

    def counts(self, opened: OpenedSum) -> NDArray[np.int64]:
        """Return the votes per auxiliary sample and class, int64 (N, K), every row summing to the ballots."""
        return self.layout.decode(opened.sums, opened.ballots)

    def method_of(
        self,
        name: str,
        counts: NDArray[np.int64],
        request: ReleaseRequest,
        *,
        loss: Loss | None = None,
        fit: Any = None,
        seed: int = 0,
    ) -> Method:
        """Return a method of release on these counts, as `counts` returns them.

        `name`: vote, soft (Hamm's Algorithms 1 and 2), statistic or pate. `loss`: of vote, soft; logistic by default.
        `fit`: an `erm_fit` of the same counts and loss. `seed`: of pate's queries, which are public.
        """
        auxiliary = self.auxiliary.samples
        if name in LABELS:
            loss = loss_named("logistic", self.classes) if loss is None else loss
            return erm_method(LABELS[name], counts, auxiliary, loss, request, fit)
        if name == "statistic":
            return statistic_method(counts, auxiliary, request)
        return pate_method(counts, auxiliary, request, seed)

    def _agreed_method(self, counts: NDArray[np.int64]) -> Method:
        assert self.request is not None, "a tally without an agreed method releases nothing by itself"
        return self.method_of(self.method, counts, self.request)

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost is computed for votes that are all for class 0, since it is the same for any."""
        counts = self.layout.decode((0,) * self.entries.length, ballots)
        return self._agreed_method(counts).ledger_entry

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        method = self._agreed_method(self.counts(result))
        return method.draw(randomness), method.ledger_entry


def _ridge(public: PublicTerms, request: ReleaseRequest) -> float:
    X, classes = public.samples, public.classes
    loss = loss_named("logistic", classes)
    bound = erm_bound(LABELS[public.method], loss, parties=public.parties, classes=classes, features=X)
    return RidgeRule.of(X, classes, loss).choose(bound, request.epsilon, request.output_noise, request.delta)
