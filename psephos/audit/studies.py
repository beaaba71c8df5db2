"""A small study with the signing keys of all its members, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from psephos.protocol.board.client import BoardClient
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.encrypted_sum.rounds import safe_confirmations
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.study.study import Member, Study


@dataclass(frozen=True)
class Trial:
    """A study with the signing keys of all its members, by role."""

    study: Study
    keys: dict[str, SigningKey] = field(repr=False)

    def board_client(self, name: str, coins: Randomness = SYSTEM) -> BoardClient:
        """Return the board client of the role `name`, which signs its entries and verifies those of others."""
        return BoardClient(self.study.members, name, self.keys[name], SealingKey.generate(coins))


def trial(
    *, parties: int = 5, holders: int = 3, threshold: int = 2, coins: Randomness = SYSTEM, **fields: Any
) -> Trial:
    """Return a study of a tally, whose first `holders` parties hold the key; `fields`: other ones of `Study`."""
    curator, *keys = (SigningKey.generate(coins) for _ in range(parties + 1))
    settings: dict[str, Any] = {
        "title": "A trial",
        "nonce": bytes(16),
        "protocol": "tally",
        "method": "soft",
        "epsilon": 1.0,
        "delta": 0.0,
        "classes": ("a", "b", "c"),
        "features": ("w", "x", "y", "z"),
        "label": "class",
        "public_table": bytes(32),
        "samples": 12,
        "minimum_ballots": 3,
        "key_bits": 256,
        "threshold": threshold,
        "confirmations": safe_confirmations(holders, threshold),
        "trial": True,
        "curator": curator.verification_key,
        "parties": tuple(
            Member(f"Hospital {n}", key.verification_key, n + 1 if n < holders else 0) for n, key in enumerate(keys)
        ),
    }
    study = Study(**settings | fields)
    by_role = {"curator": curator} | {f"party {n}": key for n, key in enumerate(keys)}
    return Trial(study, by_role | {f"holder {n + 1}": keys[n] for n in range(holders)})
