"""What everyone agrees on before a round starts. Its digest is what ballots sign and holders open once.

A change of any of it (key, plan, roster, auxiliary set, minimum) is another round with another digest, so nothing
cast for one round can be counted in a second one. No paper behind it; the messages of a round are in
docs/protocols/tally.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from psephos.protocol.errors import InvalidParameter, UnknownPartyError, WrongKeyError
from psephos.protocol.paillier.keys import PublicKey, check_key_size
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.proofs.validity import Layout
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import Roster, VerificationKey
from psephos.protocol.storage.values import storable

__all__ = ["PROOFS", "Proofs", "Round", "RoundKind"]

RoundKind = Literal["votes", "parameters", "statistic", "gradients"]
Proofs = Literal["none", "knowledge", "valid"]
PROOFS: tuple[Proofs, ...] = get_args(Proofs)
"""What a ballot proves: nothing (semi-honest parties only), that its sender knows what is in it, or that it is valid
too."""


@storable
@dataclass(frozen=True)
class Round:
    """One encrypted sum, agreed on.

    Attributes:
        kind: what the vectors mean; part of the digest, so that votes are never counted as anything else.
        threshold_key: the key that the ballots are encrypted under, and who can open it.
        plan: how the vectors are packed; it has room for every party of the roster.
        roster: the parties' verification keys, registered before the round, kept as a `Roster`; a party is its place
            here.
        minimum_ballots: no holder opens a product of fewer; at least 2, since a product of one is that party's vector.
        context: 32 bytes naming the public input the vectors refer to (the auxiliary set, the step, ...).
        nonce: 16 random bytes.
        test_key: whether a key under 2048 bits is accepted.
        proofs: what every ballot must prove.
        group: for `valid` ballots, how many consecutive entries add up to 0 or 1: K - 1 for votes.
        confirmations: how many holders must have confirmed the product on the board before any of them opens it. With
            q of n, no board can have two products opened unless 2q - n holders lie; 0 asks for none.

    Raises InvalidParameter for terms that do not fit together, WeakKeyError for a small key not called a test key.
    """

    kind: RoundKind
    threshold_key: ThresholdKey
    plan: PackingPlan
    roster: Sequence[VerificationKey] = field(repr=False)
    minimum_ballots: int
    context: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    test_key: bool = False
    proofs: Proofs = "none"
    group: int = 1
    confirmations: int = 0

    def __post_init__(self) -> None:
        roster = Roster.of(self.roster)
        object.__setattr__(self, "roster", roster)
        for name, chosen, known in (("kind", self.kind, get_args(RoundKind)), ("proofs", self.proofs, PROOFS)):
            if chosen not in known:
                raise InvalidParameter(f"a round's {name} is one of {', '.join(known)}, not {chosen!r}")
        if not 1 <= self.group < 1 << 24:
            raise InvalidParameter(f"a group has at least one entry and fewer than 2^24, not {self.group}")
        if self.proofs == "valid":
            if self.kind != "votes" or self.key.form != "psephos":
                raise InvalidParameter("only votes are proved valid, and only under a key of form 'psephos'")
            Layout.of(self.key, self.plan, self.group)
        check_key_size(self.key, test_key=self.test_key)
        parties = len(roster)
        if roster.has_duplicates():
            raise InvalidParameter("two parties of the roster have the same verification key")
        if self.threshold_key.holders > parties:
            raise InvalidParameter(
                f"key holders are some of the parties: {self.threshold_key.holders} holders need as many parties, "
                f"and there are {parties}"
            )
        if not 2 <= self.minimum_ballots <= parties:
            raise InvalidParameter(
                f"the minimum number of ballots must lie between 2 and the number of parties ({parties}), "
                f"not {self.minimum_ballots}"
            )
        holders, least = self.threshold_key.holders, self.threshold_key.threshold
        if self.confirmations and not least <= self.confirmations <= holders:
            raise InvalidParameter(
                f"{self.confirmations} of {holders} holders cannot confirm a product: none do, or at least the "
                f"{least} who open it"
            )
        if self.plan.addends < parties:
            raise InvalidParameter(f"the plan has room for {self.plan.addends} ballots and there are {parties} parties")
        try:
            self.plan.check_key(self.key)
        except WrongKeyError as error:
            raise InvalidParameter(str(error)) from None
        if len(self.context) != 32 or len(self.nonce) != 16:
            raise InvalidParameter("a round's context has 32 bytes and its nonce 16")

    @classmethod
    def create(  # wide: all that a round is agreed on
        cls,
        kind: RoundKind,
        threshold_key: ThresholdKey,
        plan: PackingPlan,
        roster: Sequence[VerificationKey],
        *,
        context: bytes,
        minimum_ballots: int | None = None,
        test_key: bool = False,
        proofs: Proofs = "none",
        group: int = 1,
        randomness: Randomness = SYSTEM,
    ) -> Round:
        """A fresh round; by default at least half of the parties must cast a ballot."""
        minimum = max(2, -(-len(roster) // 2)) if minimum_ballots is None else minimum_ballots
        return cls(kind, threshold_key, plan, roster, minimum, context, randomness.draw(16), test_key, proofs, group)

    @property
    def key(self) -> PublicKey:
        """The public key of the round."""
        return self.threshold_key.key

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over all of the above, 32 bytes."""
        state = hashlib.sha256(b"psephos round\0")
        for part in (
            self.kind.encode().ljust(16, b"\0"),
            self.threshold_key.digest,
            self.plan.digest,
            len(self.roster).to_bytes(4, "big"),
            Roster.of(self.roster).raw,
            self.minimum_ballots.to_bytes(4, "big"),
            self.context,
            self.nonce,
            bytes([self.test_key, PROOFS.index(self.proofs)]),
            self.group.to_bytes(4, "big"),
            bytes([self.confirmations]),
        ):
            state.update(part)
        return state.digest()

    def verification_key(self, party: int) -> VerificationKey:
        """The registered key of a party; raises UnknownPartyError."""
        if not 0 <= party < len(self.roster):
            raise UnknownPartyError(f"party {party} is not on the roster of {len(self.roster)}")
        return self.roster[party]
