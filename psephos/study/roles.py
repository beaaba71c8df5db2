"""The role of each member of a study, from joining to the result, for every protocol (docs/study.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psephos.parties.ceremony import CeremonyHolder
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.roles import Role
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.study.stages import (
    JoinStage,
    KeyStage,
    PublishStage,
    ResultWatcher,
    StagedRole,
    initial_stages,
)
from psephos.protocol.study.study import CURATOR, Study
from psephos.specs.registry import participants_of, spec_of
from psephos.specs.terms import StudyTerms


def holder_role(terms: StudyTerms, number: int, store: Store) -> StagedRole:
    """Return the role of key holder `number`, which makes the key with the others and opens sums."""
    study, name, spec = terms.study, f"holder {number}", spec_of(terms)

    def protocol_role(joined: object, share: KeyShare, key: ThresholdKey) -> Role:
        agreed = spec.terms(share.threshold_key, participants_of(study))
        return ResultWatcher(study, spec.holder(share, agreed, ledger=OnceLedger(store, name), public=study.public))

    return StagedRole(
        name,
        lambda: JoinStage(name, study),
        lambda joined: CeremonyHolder(study.ceremony(), number),
        lambda joined, share: KeyStage(name, study, share.threshold_key),
        protocol_role,
    )


def party_role(
    terms: StudyTerms,
    number: int,
    signing_key: SigningKey,
    own: Any,
    store: Store,
    charge: Callable[[Study], None] = lambda study: None,
) -> StagedRole:
    """Return the role of party `number`, which has this signing key on the roster.

    Args:
        own: where it votes (`Spec.takes_classifier`) its classifier, with `predict_votes`; otherwise its rows, float64
            (n, d), and their class numbers, (n,).
        store: where it keeps what it must not forget.
        charge: called before it sends anything of its own; raises where it must not.
    """
    study, name, spec = terms.study, f"party {number}", spec_of(terms)

    def protocol_role(joined: object, key: ThresholdKey | None = None) -> Role:
        charge(study)
        agreed, data = spec.terms(key, participants_of(study)), spec.prepare(own)
        return ResultWatcher(study, spec.party(number, signing_key, data, agreed, ledger=OnceLedger(store, name)))

    return StagedRole(name, *initial_stages(name, study), protocol_role)


def reader_role(terms: StudyTerms) -> StagedRole:
    """Return the role of anybody who reads the board of a study and takes no part: it judges every message."""
    study, spec = terms.study, spec_of(terms)

    def protocol_role(joined: object, key: ThresholdKey | None = None) -> Role:
        agreed = spec.terms(key, participants_of(study))
        return ResultWatcher(study, spec.reader(agreed, public=study.sum_is_public))

    return StagedRole("reader", *initial_stages("reader", study), protocol_role)


def curator_role(terms: StudyTerms, release: Callable[[Any], bytes], store: Store) -> StagedRole:
    """Return the curator's role: it counts, has sums opened, and publishes what `release` makes of the result.

    `release` is given what `Spec.release` takes.
    """
    study, spec = terms.study, spec_of(terms)
    return StagedRole(
        CURATOR,
        *initial_stages(CURATOR, study),
        lambda joined, key=None: spec.curator(spec.terms(key, participants_of(study))),
        lambda *before: PublishStage(study, lambda: release(before[-1]), OnceLedger(store, CURATOR)),
    )
