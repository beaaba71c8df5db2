"""Before any round: the key ceremony and the registration of the parties' signing keys, in one process.

The dealer lives only inside `hold_ceremony`; when it returns, nobody holds p and q any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey, deal
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import SigningKey, VerificationKey

__all__ = ["Ceremony", "hold_ceremony"]


@dataclass(frozen=True)
class Ceremony:
    """What a simulation holds of everybody: the public key, the holders' shares and the parties' signing keys."""

    threshold_key: ThresholdKey
    roster: tuple[VerificationKey, ...] = field(repr=False)
    shares: tuple[KeyShare, ...] = field(repr=False)
    signing_keys: tuple[SigningKey, ...] = field(repr=False)


def hold_ceremony(
    parties: int,
    *,
    key_bits: int = DEFAULT_KEY_BITS,
    holders: int = 5,
    threshold: int = 3,
    test_key: bool = False,
    randomness: Randomness = SYSTEM,
) -> Ceremony:
    """Make a key, share it among the first `holders` parties, register everybody's signing key, forget the key.

    Raises InvalidParameter unless 1 <= threshold <= holders <= parties, WeakKeyError as `generate_private_key`.
    """
    if parties < 2:
        raise InvalidParameter(f"a round has at least 2 parties, not {parties}: the sum of one is its own vector")
    if holders > parties:
        raise InvalidParameter(
            f"key holders are some of the parties: {holders} holders need as many parties, and there are {parties}"
        )
    if not 1 <= threshold <= holders:
        raise InvalidParameter(f"the threshold must lie between 1 and the {holders} holders, not {threshold}")
    private_key = generate_private_key(key_bits, test_key=test_key, randomness=randomness)
    threshold_key, shares = deal(private_key, holders=holders, threshold=threshold, randomness=randomness)
    signing_keys = tuple(SigningKey.generate(randomness) for _ in range(parties))
    return Ceremony(threshold_key, tuple(key.verification_key for key in signing_keys), tuple(shares), signing_keys)
