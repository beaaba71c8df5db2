"""Who plays what in a study: each member's role from joining to the result, for every protocol.

The study and the public samples say all that is common; a member brings its own data and its own store. The same roles
run in one process in tests, in a process each on one machine, and on machines of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.tally import OpenedSum, Tally
from psephos.parties.ceremony import CeremonyHolder
from psephos.parties.holder import KeyHolder
from psephos.parties.party import Party, VotingParty
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import StudyError
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.roles import Role
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.study.stages import Joining, Keyed, Publishing, Staged, UntilResult
from psephos.protocol.study.study import CURATOR, Study

__all__ = ["Public", "curator_role", "holder_role", "party_role", "round_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Public:
    """A study and the auxiliary samples that it names, as every member has them.

    Raises StudyError when these are not the samples that the study was signed about.
    """

    study: Study
    auxiliary: AuxiliarySet = field(repr=False)

    def __post_init__(self) -> None:
        if self.auxiliary.digest != self.study.auxiliary:
            raise StudyError(
                "these are not the auxiliary samples of the study: another file, other columns, or another version of "
                "Psephos encoded them"
            )
        rows, columns = self.auxiliary.samples.shape
        if (rows, columns) != (self.study.samples, len(self.study.features)):
            raise StudyError(f"the study has {self.study.samples} samples of {len(self.study.features)} features")


def round_of(public: Public, key: ThresholdKey) -> Round:
    """The one round of a tally: everybody derives it from the study and the key."""
    study = public.study
    labels = range(len(study.classes))
    return Round(
        "votes",
        key,
        VoteLayout(study.samples, len(study.classes)).plan(key.key, len(study.roster)),
        study.roster,
        study.minimum_ballots,
        public.auxiliary.context(labels),
        study.nonce_for(key),
        study.trial,
        study.proofs,
        len(study.classes) - 1,
        study.confirmations,
    )


def _needed(study: Study) -> tuple[str, ...]:
    """Who must have joined before anything else: whoever is sent a secret, or waited for."""
    return (CURATOR, *study.holders)


def holder_role(public: Public, number: int, store: Store) -> Staged:
    """Holder `number`: it makes the key with the others, and opens the sum."""
    study, name = public.study, f"holder {number}"

    def holds(joined: object, share: KeyShare, key: ThresholdKey) -> Role:
        ledger = OnceLedger(store, name)
        return UntilResult(study, KeyHolder(share, round_of(public, key), openings=ledger, public=study.public))

    return Staged(
        name,
        lambda: Joining(name, _needed(study)),
        lambda joined: CeremonyHolder(study.ceremony(), number),
        lambda joined, share: Keyed(name, study, share.threshold_key),
        holds,
    )


def party_role(
    public: Public,
    number: int,
    signing_key: SigningKey,
    voter: Any,
    store: Store,
    charge: Callable[[Study], None] = lambda study: None,
) -> Staged:
    """Party `number` with its own classifier; `charge` is called before it votes, and raises where it must not."""
    study, name = public.study, f"party {number}"
    party = Party(number, signing_key, classes=range(len(study.classes)), voter=voter, once=OnceLedger(store, name))

    def votes(joined: object, key: ThresholdKey) -> Role:
        charge(study)
        return UntilResult(study, VotingParty(party, round_of(public, key), public.auxiliary))

    return Staged(name, lambda: Joining(name, _needed(study)), lambda joined: Keyed(name, study), votes)


def curator_role(public: Public, release: Callable[[OpenedSum], bytes], store: Store) -> Staged:
    """The curator: counts, has the sum opened, releases by `release`, and publishes."""
    study = public.study
    return Staged(
        CURATOR,
        lambda: Joining(CURATOR, _needed(study)),
        lambda joined: Keyed(CURATOR, study),
        lambda joined, key: Tally(round_of(public, key)),
        lambda joined, key, opened: Publishing(study, lambda: release(opened), OnceLedger(store, CURATOR)),
    )
