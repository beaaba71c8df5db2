"""The keys of a simulation, made in one process by a dealer, or by the holders together as in a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

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

Keys = Literal["dealer", "ceremony"]
"""Who makes the Paillier key: a dealer, or the holders in the key ceremony."""


_SEED_BYTES = 32
"""Size of the seed of a signing key (RFC 8032, section 5.1.5)."""


@dataclass(frozen=True)
class SigningKeys(Sequence[SigningKey]):
    """The parties' signing keys, each made from its 32-byte seed when it is read. They cannot be pickled."""

    seeds: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.seeds) // _SEED_BYTES

    def seed(self, number: int) -> bytes:
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
    """All keys of a simulation: public ones, and the holders' shares and the parties' signing keys. Secret."""

    threshold_key: ThresholdKey
    roster: Roster = field(repr=False)
    shares: tuple[KeyShare, ...] = field(repr=False)
    signing_keys: SigningKeys = field(repr=False)


def check_holders(parties: int, holders: int, threshold: int) -> None:
    """Raise InvalidParameter unless some of the parties hold the key, and some of these open a sum."""
    if holders > parties:
        raise InvalidParameter(f"key holders are some of the parties, and {holders} of {parties} is too many")
    if not 1 <= threshold <= holders:
        raise InvalidParameter(f"the threshold must lie between 1 and the {holders} holders, not {threshold}")


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
    """Make a Paillier key, shared among the first `holders` parties, and the signing keys of all parties.

    Args:
        parties: M, at least 2.
        key_bits: length of the modulus in bits.
        degree: the exponent s of the Damgard-Jurik plaintext space n^s, 1 to 4.
        holders, threshold: n key holders, n <= M, of whom t open a sum; with keys = "ceremony" as in `CeremonyTerms`.
        keys: "dealer": one process makes and shares the key; "ceremony": simulate the holders' key generation.
        test_key: allow a key too short to protect anything.
        transcript: records the messages of a ceremony; a dealer sends none.
        progress: called during a ceremony.
        randomness: source of all randomness.

    Raises:
        InvalidParameter: an argument is outside its range.
        WeakKeyError: the key is too short and `test_key` is not set.
    """
    if parties < 2:
        raise InvalidParameter(f"a round has at least 2 parties, not {parties}: the sum of one is its own vector")
    check_holders(parties, holders, threshold)
    if keys == "ceremony":
        terms = CeremonyTerms(key_bits, holders, threshold, randomness.draw(32), test_key, degree)
        shares = run_ceremony(terms, coins=lambda name: randomness, transcript=transcript, progress=progress)
        threshold_key = shares[0].threshold_key
    else:
        private_key = generate_private_key(key_bits, degree=degree, test_key=test_key, randomness=randomness)
        threshold_key, shares = deal(private_key, holders=holders, threshold=threshold, randomness=randomness)
    roster, signing_keys = register(parties, randomness)
    return KeySetup(threshold_key, roster, tuple(shares), signing_keys)


def setup_run_keys(options: Any, degree: int, transcript: Transcript | None, progress: Progress) -> KeySetup:
    return setup_keys(
        options.parties,
        key_bits=options.key_bits,
        degree=degree,
        holders=options.key_holders,
        threshold=options.opening_threshold,
        keys=options.keys,
        test_key=options.test_key,
        transcript=transcript,
        progress=progress,
    )


def register(parties: int, randomness: Randomness = SYSTEM) -> tuple[Roster, SigningKeys]:
    """Generate the signing keys of `parties` parties, and the roster of their verification keys."""
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
    """Simulate the key ceremony of all holders, and return their key shares in order."""
    holders = [CeremonyHolder(terms, j, randomness=coins(name)) for j, name in enumerate(terms.names, 1)]
    candidates = 0

    def watch(phase: str, entry: Entry) -> None:
        nonlocal candidates
        if entry.kind is Kind.MODULUS_SHARES and entry.sender == terms.names[0]:
            candidates += terms.batch
            progress("key candidates", candidates, max(candidates, round(1 / terms.success)))

    results = Driver(replace_roles(holders, roles or {}), transcript=transcript, watch=watch).run()
    return [results[name] for name in terms.names]
