"""Before any round: the holders' key and the registration of the parties' signing keys, in one process.

A simulation plays every role, so it may have its key from a dealer, who lives only inside `setup_keys`. Or the
holders make it among themselves, as they do where they are machines of their own: minutes in place of seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

from psephos.parties.ceremony import CeremonyHolder
from psephos.progress import Progress, silent
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey, deal
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import Entry, Role
from psephos.protocol.signing import Roster, SigningKey
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind

__all__ = ["KeySetup", "Keys", "SigningKeys", "register", "run_ceremony", "setup_keys"]

Keys = Literal["dealer", "ceremony"]
"""Where the key comes from."""

_SEED_BYTES = 32
"""Of a signing key (RFC 8032, section 5.1.5)."""


@dataclass(frozen=True)
class SigningKeys(Sequence[SigningKey]):
    """The parties' signing keys, made from their seeds of 32 bytes when they are asked for."""

    seeds: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.seeds) // _SEED_BYTES

    def seed(self, number: int) -> bytes:
        """Of one party."""
        return self.seeds[number * _SEED_BYTES : (number + 1) * _SEED_BYTES]

    @overload
    def __getitem__(self, at: int) -> SigningKey: ...
    @overload
    def __getitem__(self, at: slice) -> SigningKeys: ...
    def __getitem__(self, at: int | slice) -> SigningKey | SigningKeys:
        if isinstance(at, slice):
            return SigningKeys(b"".join(map(self.seed, range(len(self))[at])))
        return SigningKey(self.seed(range(len(self))[at]))

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("signing keys are not pickled")


@dataclass(frozen=True)
class KeySetup:
    """What a simulation holds of everybody: the public key, the holders' shares and the parties' signing keys."""

    threshold_key: ThresholdKey
    roster: Roster = field(repr=False)
    shares: tuple[KeyShare, ...] = field(repr=False)
    signing_keys: SigningKeys = field(repr=False)


def setup_keys(  # wide: who takes part, what is made, and who watches
    parties: int,
    *,
    key_bits: int = DEFAULT_KEY_BITS,
    degree: int = 1,
    holders: int = 5,
    threshold: int = 3,
    keys: Keys = "dealer",
    test_key: bool = False,
    transcript: Transcript | None = None,
    progress: Progress = silent,
    randomness: Randomness = SYSTEM,
) -> KeySetup:
    """Make a key, shared among the first `holders` parties, and register everybody's signing key.

    Args:
        parties: M, at least 2.
        key_bits: length of the modulus.
        degree: s, 1 to 4; `psephos.protocol.paillier.packing.best_degree` says which suits a vector.
        holders, threshold: n and t, 1 <= t <= n <= M; with keys = "ceremony" as in `CeremonyTerms`.
        keys: "dealer" makes the key, shares it and forgets it; "ceremony" plays the holders who make it themselves.
        test_key: allows a key that protects nothing.
        transcript: notes every message of a ceremony; a dealer sends none.
        progress: called during a ceremony.
        randomness: of everybody.

    Raises InvalidParameter for anything outside these ranges, WeakKeyError for a short key.
    """
    if parties < 2:
        raise InvalidParameter(f"a round has at least 2 parties, not {parties}: the sum of one is its own vector")
    if holders > parties:
        raise InvalidParameter(
            f"key holders are some of the parties: {holders} holders need as many parties, and there are {parties}"
        )
    if not 1 <= threshold <= holders:
        raise InvalidParameter(f"the threshold must lie between 1 and the {holders} holders, not {threshold}")
    if keys == "ceremony":
        terms = CeremonyTerms(key_bits, holders, threshold, randomness.draw(32), test_key, degree)
        shares = run_ceremony(terms, coins=lambda name: randomness, transcript=transcript, progress=progress)
        threshold_key = shares[0].threshold_key
    else:
        private_key = generate_private_key(key_bits, degree=degree, test_key=test_key, randomness=randomness)
        threshold_key, shares = deal(private_key, holders=holders, threshold=threshold, randomness=randomness)
    roster, signing_keys = register(parties, randomness)
    return KeySetup(threshold_key, roster, tuple(shares), signing_keys)


def register(parties: int, randomness: Randomness = SYSTEM) -> tuple[Roster, SigningKeys]:
    """Fresh signing keys, and their roster."""
    seeds, keys = bytearray(), bytearray()
    for _ in range(parties):
        key = SigningKey.generate(randomness)
        seeds += key.seed()
        keys += key.verification_key.raw
    return Roster(bytes(keys)), SigningKeys(bytes(seeds))


def run_ceremony(
    terms: CeremonyTerms,
    *,
    roles: Mapping[str, Callable[[Role], Role]] | None = None,
    coins: Callable[[str], Randomness] = lambda name: SYSTEM,
    transcript: Transcript | None = None,
    progress: Progress = silent,
) -> list[KeyShare]:
    """All holders of one ceremony, from their first message to their shares.

    Args:
        terms: what they agreed on.
        roles: "holder 1", ... -> who plays it instead of the honest holder that it is given.
        coins: of each holder, by its name.
        transcript: notes every message.
        progress: called after every batch of candidates with how many were tried, of how many that are expected.

    Raises CheatingError, which names a holder that lied; PartyVanishedError, which names one that is gone.
    """
    holders = [CeremonyHolder(terms, j, randomness=coins(name)) for j, name in enumerate(terms.names, 1)]
    tried = 0

    def watch(phase: str, entry: Entry) -> None:
        nonlocal tried
        if entry.kind is Kind.MODULUS_SHARES and entry.sender == terms.names[0]:
            tried += terms.batch
            progress("key candidates", tried, max(tried, round(1 / terms.success)))

    results = Driver(replace_roles(holders, roles or {}), transcript=transcript, watch=watch).run()
    return [results[name] for name in terms.names]
