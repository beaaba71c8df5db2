"""A small study, as a test plays it: who takes part, with everybody's keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from psephos.protocol.board.client import BoardClient
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.study.study import Member, Study, safe_confirmations

__all__ = ["Trial", "trial"]


@dataclass(frozen=True)
class Trial:
    """A study, and the signing key of everybody in it, by role."""

    study: Study
    keys: dict[str, SigningKey] = field(repr=False)

    def board_client(self, name: str, coins: Randomness = SYSTEM) -> BoardClient:
        """Return the client of the role `name` at the board: it signs its entries, and checks those of others."""
        return BoardClient(self.study.members, name, self.keys[name], SealingKey.generate(coins))


def trial(
    *, parties: int = 5, holders: int = 3, threshold: int = 2, coins: Randomness = SYSTEM, **fields: Any
) -> Trial:
    """A study of a tally under a key that protects nothing; `fields` are those of `Study` that differ."""
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
        "auxiliary": bytes(32),
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
    named = {"curator": curator} | {f"party {n}": key for n, key in enumerate(keys)}
    return Trial(study, named | {f"holder {n + 1}": keys[n] for n in range(holders)})
