"""What a study is charged in a budget file, and what identities had spent before they had budget files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from psephos.protocol.errors import BudgetFileError
from psephos.protocol.privacy.accounting import PrivacyEvent, stated_delta
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.signing import VerificationKey
from psephos.protocol.storage.budget import Charge, PrivacyLimit
from psephos.protocol.study.study import Study
from psephos.specs.registry import multiplier_of, protected_by, spec_class

LEDGER_DELTA = 1e-5
"""The delta at which a limit of an identity holds."""

_OPENED = {
    "counts": "the curator is given the exact counts of votes (alpha)",
    "sum": "the curator is given the exact sum of what the parties send",
}
"""What no epsilon covers where the curator adds the noise, by `Spec.opens`."""


def charges_of(study: Study, key: VerificationKey, rows: Sequence[bytes] = ()) -> list[Charge]:
    """Return what a study costs the party with this key; `rows`: what a tally votes on
    (`PublicSamples.row_digests`).
    """
    claim, name, unit = study.digest + key.raw, f"study {study.title}", protected_by(study)
    charges = [Charge(claim, name, unit, _event(study.title, study.epsilon, study.delta, multiplier_of(study)))]
    if (opened := spec_class(study.protocol).opens) in _OPENED:
        counted, unknown = opened == "counts", _unknown_rows(key)
        parts = frozenset(_part(key, row) for row in (rows if counted else [_average(study.method.encode())]))
        reason, excluded = _OPENED[opened], frozenset([unknown] if counted else [])
        charges.append(Charge(claim + b"opened", name, unit, None, reason, parts or frozenset([unknown]), excluded))
    return charges


def is_claim_of_study(claim: str) -> bool:
    """Return whether a claim (in hexadecimal) is of `charges_of`, and not of a run, which has 16 bytes."""
    return len(claim) >= 2 * 64


def read_ledger(
    key: VerificationKey, values: Mapping[str, Mapping[bytes, bytes]]
) -> tuple[PrivacyLimit | None, list[Charge]]:
    """Return the limit of an identity and what its studies cost, from the store in which versions before 0.3 had both.

    `values`: what is in the store, by space and name. Raises BudgetFileError where it is the store of something else.
    """
    try:
        if json.loads(values["store"][b"identity"]) != {"budget of": key.raw.hex()}:
            raise BudgetFileError("the budget of another identity is in the place of this one's")
        limit = values.get("budget", {}).get(b"epsilon")
        charges = [
            Charge(study + key.raw, f"study {cost[0]}", PrivacyUnit(), _event(*cost))
            for study, cost in ((name, json.loads(content)) for name, content in values.get("spent", {}).items())
        ]
        sums = {name: _parts(key, content) for name, content in values.get("exact", {}).items()}
        # Version 0.2 had the digest of the samples, behind the method of an average: which rows they were is not known.
        for claim, study in values.get("voted", {}).items():
            part = _part(key, _average(claim[:-32])) if len(claim) > 32 else _unknown_rows(key)
            sums[study] = sums.get(study, frozenset()) | {part}
        reason = "the curator was given an exact sum"
        for study, parts in sums.items():
            name = next((one.name for one in charges if one.claim[:32] == study), "an earlier study")
            charges.append(Charge(study + key.raw + b"opened", name, PrivacyUnit(), None, reason, parts))
        return None if limit is None else PrivacyLimit(float(json.loads(limit)), LEDGER_DELTA, exact_sums=True), charges
    except (LookupError, TypeError, ValueError):
        raise BudgetFileError("the budget of this identity is damaged, or of a version before 0.2") from None


def _event(title: str, epsilon: float, delta: float, multiplier: float | None = None) -> PrivacyEvent:
    return PrivacyEvent(title, epsilon, stated_delta(delta), multiplier, SAMPLER_DISTANCE)


def _average(method: bytes) -> bytes:
    return hashlib.sha256(b"psephos average\0" + method).digest()


def _parts(key: VerificationKey, digests: bytes) -> frozenset[bytes]:
    return frozenset(_part(key, digests[place : place + 32]) for place in range(0, len(digests), 32))


def _part(key: VerificationKey, digest: bytes) -> bytes:
    """Return the digest of what this party gives: another party with the same rows may give the same."""
    return hashlib.sha256(b"psephos part\0" + key.raw + digest).digest()


def _unknown_rows(key: VerificationKey) -> bytes:
    return _part(key, b"rows that version 0.2 did not record")
