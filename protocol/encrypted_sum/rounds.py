"""A round: what all participants of an encrypted sum agree on before it starts.

Ballots sign the digest of all terms, and a holder opens one product per digest, so a ballot cast in one round cannot
be counted in another. docs/protocols/tally.md describes the messages of a round.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from psephos.protocol.errors import InvalidParameter, UnknownPartyError, WrongKeyError
from psephos.protocol.paillier.keys import PublicKey, check_strength
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.proofs.bounded import BoundedLayout
from psephos.protocol.proofs.validity import Layout
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import Roster, VerificationKey
from psephos.protocol.storage.values import storable

RoundKind = Literal["votes", "parameters", "statistic", "gradients"]
Proofs = Literal["none", "knowledge", "valid"]
PROOFS: tuple[Proofs, ...] = get_args(Proofs)
"""What a ballot proves: nothing (for parties that follow the protocol), that its sender knows the plaintext, or also
that the plaintext is valid: one vote for each sample, or a vector within bounds.
"""


def safe_confirmations(holders: int, threshold: int) -> int:
    """Return how many of n holders must confirm a product so that no board can have two different ones opened.

    Two sets of q holders have at least 2q - n in common, which must be more than the t - 1 holders that may deviate.

    Examples:
        >>> safe_confirmations(holders=5, threshold=3)
        4
    """
    return (holders + threshold - 1) // 2 + 1


@storable
@dataclass(frozen=True)
class Round:
    """The public terms of one encrypted sum.

    Attributes:
        kind: what the vectors mean; part of the digest, so that votes are never counted as anything else.
        plan: how the vectors are packed; it has room for every sender.
        roster: the parties' verification keys, stored as a `Roster`. A party's number is its place here.
        minimum_ballots: no holder opens a product of fewer ballots; at least 2, since a product of one ballot is that
            party's vector.
        context: 32 bytes that identify the public input of the vectors (the auxiliary set, the step, ...).
        nonce: 16 random bytes.
        test_key: whether a key under 2048 bits is accepted.
        group: for `valid` votes, the number of consecutive entries that add up to 0 or 1: K - 1.
        square_bound: for other `valid` ballots, the largest sum of squares of the entries; their range is that of the
            plan, which `bounded_plan` chooses.
        confirmations: how many holders must have confirmed the product on the board before any of them opens it.
        holder_noise: whether every key holder adds a share of noise, without which no product is opened.
        noise_square_bound: for `valid` rounds, the largest sum of squares of a holder's noise.

    Raises:
        InvalidParameter: a term is out of range, or terms do not fit together.
        WeakKeyError: the key has fewer than 2048 bits and `test_key` is not set.
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
    square_bound: int = 0
    holder_noise: bool = False
    noise_square_bound: int = 0

    def __post_init__(self) -> None:
        roster = Roster.of(self.roster)
        object.__setattr__(self, "roster", roster)
        for name, chosen, known in (("kind", self.kind, get_args(RoundKind)), ("proofs", self.proofs, PROOFS)):
            if chosen not in known:
                raise InvalidParameter(f"a round's {name} is one of {', '.join(known)}, not {chosen!r}")
        if not 1 <= self.group < 1 << 24:
            raise InvalidParameter(f"group is {self.group}; it must lie between 1 and 2^24 - 1")
        if self.proofs == "valid":
            if self.key.form != "psephos":
                raise InvalidParameter("proofs='valid' needs a key of form 'psephos'; use proofs='knowledge'")
            self.layout  # noqa: B018 - raises unless a proof fits the plan
        if self.square_bound and (self.proofs != "valid" or self.kind == "votes"):
            raise InvalidParameter("a round has a bound of the sum of squares where its ballots prove it, only")
        self._check_holder_noise()
        check_strength(self.key.bits, self.test_key)
        parties = len(roster)
        if roster.has_duplicates():
            raise InvalidParameter("two parties have the same verification key; every party needs its own")
        if self.threshold_key.holders > parties:
            raise InvalidParameter(f"{self.threshold_key.holders} key holders are more than the {parties} parties")
        if not 2 <= self.minimum_ballots <= parties:
            raise InvalidParameter(f"minimum_ballots must lie between 2 and {parties}, not {self.minimum_ballots}")
        holders, least = self.threshold_key.holders, self.threshold_key.threshold
        if self.confirmations and not least <= self.confirmations <= holders:
            raise InvalidParameter(f"confirmations is {self.confirmations}; it must be 0, or {least} to {holders}")
        if self.plan.addends < self.senders:
            raise InvalidParameter(f"the packing plan has room for {self.plan.addends} of {self.senders} vectors")
        try:
            self.plan.check_key(self.key)
        except WrongKeyError as error:
            raise InvalidParameter(str(error)) from None
        if len(self.context) != 32 or len(self.nonce) != 16:
            raise InvalidParameter("the context of a round must have 32 bytes and its nonce 16")

    def _check_holder_noise(self) -> None:
        """Raise InvalidParameter for terms under which the key holders' noise would protect nobody."""
        if not self.holder_noise:
            if self.noise_square_bound:
                raise InvalidParameter("a round bounds the key holders' noise where they add noise, only")
            return
        holders, threshold = self.threshold_key.holders, self.threshold_key.threshold
        if self.kind != "statistic":
            raise InvalidParameter(f"key holders add noise in rounds of kind 'statistic', not {self.kind!r}")
        if holders < 2:
            raise InvalidParameter("one key holder alone would know all of the noise; 2 or more are needed")
        if self.noise_square_bound and self.proofs != "valid":
            raise InvalidParameter("a round bounds the key holders' noise where they prove it, only")
        if self.confirmations < (least := safe_confirmations(holders, threshold)):
            raise InvalidParameter(f"with noise of the key holders, {least} of {holders} must confirm a product")
        if self.proofs == "valid":
            self.noise_layout  # noqa: B018 - raises unless a proof fits the plan

    @classmethod
    def create(  # wide: the terms of a round
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
        """Create a round with a fresh nonce, and a minimum of half of the parties by default; raises as the class."""
        minimum = max(2, -(-len(roster) // 2)) if minimum_ballots is None else minimum_ballots
        return cls(kind, threshold_key, plan, roster, minimum, context, randomness.draw(16), test_key, proofs, group)

    @property
    def key(self) -> PublicKey:
        return self.threshold_key.key

    @cached_property
    def layout(self) -> Layout | BoundedLayout:
        """What a `valid` ballot proves; raise InvalidParameter where the plan has no such proof."""
        if self.kind == "votes":
            return Layout.of(self.key, self.plan, self.group)
        return BoundedLayout.of(self.key, self.plan, self.square_bound)

    @cached_property
    def noise_layout(self) -> BoundedLayout:
        """What the noise of a key holder is proved to be, in a `valid` round; raise InvalidParameter as `layout`."""
        return BoundedLayout.of(self.key, self.plan, self.noise_square_bound)

    def layout_of(self, place: int) -> Layout | BoundedLayout:
        """What the vector of a sender is proved to be, in a `valid` round (`sender`)."""
        return self.layout if place < len(self.roster) else self.noise_layout

    @property
    def senders(self) -> int:
        """How many vectors can be added: one of each party and, where they add noise, of each key holder."""
        return len(self.roster) + (self.threshold_key.holders if self.holder_noise else 0)

    def holder_place(self, holder: int) -> int:
        return len(self.roster) + holder - 1

    def sender(self, place: int) -> str:
        """Return whose vector has bit `place` in a bit map of the vectors counted: the parties', then the holders'."""
        parties = len(self.roster)
        return f"party {place}" if place < parties else f"holder {place - parties + 1}"

    @cached_property
    def digest(self) -> bytes:
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
            *([self.square_bound.to_bytes(64, "big")] if self.proofs == "valid" and self.kind != "votes" else []),
            *([b"noise of holders" + self.noise_square_bound.to_bytes(64, "big")] if self.holder_noise else []),
        ):
            state.update(part)
        return state.digest()

    @property
    def vector_bytes(self) -> int:
        return self.plan.ciphertexts * self.key.ciphertext_bytes

    def verification_key(self, party: int) -> VerificationKey:
        """Return the registered key of a party; raise UnknownPartyError for a number that is not on the roster."""
        if not 0 <= party < len(self.roster):
            raise UnknownPartyError(f"party {party} is not on the roster of {len(self.roster)}")
        return self.roster[party]
