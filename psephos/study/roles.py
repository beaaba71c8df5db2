"""Who plays what in a study: each member's role from joining to the result, for every protocol.

The study and the public samples say all that is common; a member brings its own data and its own store. The same roles
run in one process in tests, in a process each on one machine, and on machines of their own. No paper behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psephos.parties.ceremony import CeremonyHolder
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.roles import Role
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.study.stages import JoinStage, KeyStage, PublishStage, ResultWatcher, StagedRole, initial_stages
from psephos.protocol.study.study import CURATOR, Study
from psephos.study.protocols import Public, spec_of

__all__ = ["Public", "curator_role", "holder_role", "party_role"]


def holder_role(public: Public, number: int, store: Store) -> StagedRole:
    """Holder `number`: it makes the key with the others, and opens sums."""
    study, name, play = public.study, f"holder {number}", spec_of(public)

    def holds(joined: object, share: KeyShare, key: ThresholdKey) -> Role:
        return ResultWatcher(study, play.holder(share, OnceLedger(store, name)))

    return StagedRole(
        name,
        lambda: JoinStage(name, study.must_join),
        lambda joined: CeremonyHolder(study.ceremony(), number),
        lambda joined, share: KeyStage(name, study, share.threshold_key),
        holds,
    )


def party_role(
    public: Public,
    number: int,
    signing_key: SigningKey,
    own: Any,
    store: Store,
    charge: Callable[[Study], None] = lambda study: None,
) -> StagedRole:
    """Party `number`.

    Args:
        own: where it votes (`Spec.votes`) its classifier, with `predict_votes`; otherwise its rows, float64 (n, d), and
            their class numbers, (n,).
        charge: called before it sends anything of its own; raises where it must not.
    """
    study, name, play = public.study, f"party {number}", spec_of(public)

    def plays(joined: object, key: ThresholdKey | None = None) -> Role:
        charge(study)
        return ResultWatcher(study, play.party(number, signing_key, own, OnceLedger(store, name), key))

    return StagedRole(name, *initial_stages(name, study), plays)


def curator_role(public: Public, release: Callable[[Any], bytes], store: Store) -> StagedRole:
    """The curator: counts, has sums opened, releases by `release` what it comes to, and publishes that.

    What `release` is given: an `OpenedSum`; of "psgd" its `GradientCuratorState`; of "pathak" the sum of the shares.
    `Spec.release` takes each.
    """
    study, play = public.study, spec_of(public)
    return StagedRole(
        CURATOR,
        *initial_stages(CURATOR, study),
        lambda joined, key=None: play.curator(key),
        lambda *before: PublishStage(study, lambda: release(before[-1]), OnceLedger(store, CURATOR)),
    )
