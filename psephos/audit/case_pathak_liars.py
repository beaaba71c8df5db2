"""Attacks on Pathak's protocol: whether a role that deviates can remove the noise from the published sum.

The protocol has no proofs: a party may submit any vector, and the sum is then that of the others' parameters, their
noise and a vector that the coalition knows. The others' noise must remain in it. It does when the noise is sized for a
public number of rows (`public-bound`). In the paper's protocol, printed or repaired, a party and Charlie determine
whose noise is used, and each of them can obtain the sum without noise. This is the expected result here, and the reason
why neither variant is the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gmpy2 import mpz

from psephos.audit.attacks import HARMLESS, SUCCEEDS, Attack, AttackResult, attack_case
from psephos.audit.model import AnalysisContext
from psephos.audit.pathak_runs import (
    MakeObserved,
    ObservedRole,
    ObservedRoles,
    PathakKind,
    ZeroContributionParty,
    add_to_share,
    keys_of,
    records_of,
    run_observed,
    terms_of,
)
from psephos.parties.pathak import PathakParty
from psephos.protocol.errors import AgreementError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.pathak.messages import Ciphertexts, Proposal
from psephos.protocol.pathak.noise import noise_addends, noise_bound
from psephos.protocol.pathak.terms import CURATOR, party_name
from psephos.protocol.roles import Entry, Post, Role
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of
from psephos.specs.pathak import BARE_SUM

LIAR = 1
"""Number of the party that deviates: neither the leader nor the one with the smallest data set."""

BARE = BARE_SUM.name
SHIFT = (1000, -1000)
"""What a role that deviates adds to the sum, in units of the grid."""


@dataclass(frozen=True)
class _Lies:
    """The deviation of a coalition."""

    replacements: Mapping[str, MakeObserved]
    own: Callable[[Sequence[int]], Sequence[int]] = tuple


def _bare_sum(
    kind: PathakKind, name: str, lies: Callable[[AnalysisContext], _Lies], context: AnalysisContext
) -> AttackResult:
    """Compare the sum of the honest parameters with the published sum less what the coalition knows of it."""
    attack, adversaries = f"{kind}, {name}", lies(context)
    run = run_observed(context, kind, records_of(context, "honest"), attack, adversaries.replacements)
    terms, lying_party = run.terms, party_name(LIAR) in adversaries.replacements
    offset = 0 if kind == "public-bound" else -noise_addends(terms) * noise_bound(terms)
    honest = [c.parameters for number, c in run.contributions.items() if not (lying_party and number == LIAR)]
    part = run.contributions[LIAR]
    noise = part.noise[0] if kind == "public-bound" else (0,) * terms.features
    honest_part = [w + e for w, e in zip(part.parameters, noise, strict=True)]
    own = adversaries.own(honest_part if lying_party else [0] * terms.features)
    rest = [total - sum(column) - known - offset for total, known, *column in zip(run.total, own, *honest, strict=True)]
    if any(rest):
        return AttackResult()
    return AttackResult({BARE: f"{attack}: what is published is the honest parties' parameters, without noise"})


def _shifted(own: Sequence[int]) -> list[int]:
    return [value + shift for value, shift in zip(own, SHIFT, strict=True)]


class _Shifts(ObservedRole):
    """A role that adds `SHIFT` to a share: a party to its reshare for Charlie, Charlie to his published share."""

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        kind, charlie = kind_of(post.data), self.name == CURATOR
        if kind is (Kind.PUBLISHED_SHARE if charlie else Kind.RESHARE) and (charlie or post.receiver == CURATOR):
            return [add_to_share(post, self.honest.terms, SHIFT)]  # type: ignore[attr-defined]
        return [post]


def _sends(kind: Kind, make: Callable[[int], tuple[mpz, ...]], context: AnalysisContext) -> MakeObserved:
    """Return a role that replaces the ciphertexts in its messages of one kind by others under Charlie's key."""
    key = keys_of(context).curator.public_key

    class OtherCiphertexts(ObservedRole):
        def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
            if kind_of(post.data) is not kind:
                return [post]
            count = (len(post.data) - HEADER_BYTES) // key.ciphertext_bytes
            session = post.data[HEADER_BYTES - 32 : HEADER_BYTES]
            return [replace(post, data=Ciphertexts(kind, key, make(count)).encode(session))]

    return OtherCiphertexts


def _zeros(kind: Kind, context: AnalysisContext) -> MakeObserved:
    """Return a role that sends encryptions of zero in its messages of one kind."""
    full = Encryptor(keys_of(context).curator.public_key, "full")
    return _sends(kind, lambda count: full.encrypt([mpz(0)] * count), context)


def _smallest(make: MakeObserved, honest: Role, setting: ObservedRoles) -> ObservedRole:
    """Make a party that claims the smallest size that the terms allow."""
    liar = PathakParty.__new__(PathakParty)
    assert isinstance(honest, PathakParty)
    liar.__dict__.update(honest.__dict__, _size=honest.terms.smallest_size)
    return make(liar, setting)


def _propose_less_noise(context: AnalysisContext) -> AttackResult:
    """Propose terms with an epsilon of 64 to a party, in Charlie's name."""
    terms = terms_of(context, "public-bound", "proposes")
    proposal = replace(terms, epsilon=64.0)
    party = PathakParty(LIAR, *records_of(context, "honest")[LIAR], terms)
    entry = Entry(1, CURATOR, party.name, Proposal(proposal, None).encode(proposal.digest))
    step = party.receive(party.start().state, [entry])
    gains = {BARE: "a party takes part with less noise than agreed on"} if step.posts else {}
    return AttackResult(gains, tuple(refusal.error for refusal in step.refused))


def _party(make: Callable[[AnalysisContext], MakeObserved], own: Any = tuple) -> Callable[[AnalysisContext], _Lies]:
    return lambda context: _Lies({party_name(LIAR): make(context)}, own)


def _charlie(make: Callable[[AnalysisContext], MakeObserved], own: Any = tuple) -> Callable[[AnalysisContext], _Lies]:
    return lambda context: _Lies({CURATOR: make(context)}, own)


def _nobody(context: AnalysisContext) -> MakeObserved:
    return partial(_smallest, _zeros(Kind.NOISE_FACTOR, context))


def _no_rung(context: AnalysisContext) -> MakeObserved:
    return partial(_smallest, _zeros(Kind.RUNG_VOTE, context))


_NOTHING = _party(lambda context: ZeroContributionParty, lambda own: [0] * len(own))
_ANYTHING = _party(lambda context: _Shifts, _shifted)
_WRONG_SHARE = _charlie(lambda context: _Shifts, _shifted)


def _both(context: AnalysisContext) -> _Lies:
    """Return the deviation in which party `LIAR` submits zeros and Charlie adds `SHIFT`."""
    replacements = {**_NOTHING(context).replacements, **_WRONG_SHARE(context).replacements}
    return _Lies(replacements, lambda own: SHIFT)


_PARTY, _CURATOR = (party_name(LIAR),), (CURATOR,)


def _attack(kind: PathakKind, name: str, roles: tuple[str, ...], lies: Callable[[AnalysisContext], _Lies]) -> Attack:
    """Return an attack on one variant, harmless in `public-bound` and successful in the paper's variants."""
    expected = HARMLESS if kind == "public-bound" else SUCCEEDS
    return Attack(name, partial(_bare_sum, kind, name, lies), expected, (BARE_SUM,))


OF_PARTY = (
    _attack("public-bound", "adds nothing", _PARTY, _NOTHING),
    _attack("public-bound", "adds what it likes", _PARTY, _ANYTHING),
)
OF_CURATOR = (
    _attack("public-bound", "publishes a wrong share", _CURATOR, _WRONG_SHARE),
    Attack("proposes less noise", _propose_less_noise, AgreementError, (BARE_SUM,)),
)
OF_BOTH = (_attack("public-bound", "adds nothing and something", _CURATOR + _PARTY, _both),)
NO_RUNG = (_attack("repaired", "votes for no rung", _PARTY, _party(_no_rung)),)
NO_SELECTION = (_attack("repaired", "selects nobody", _CURATOR, _charlie(partial(_zeros, Kind.SELECTION))),)
NO_NOISE_AS_PRINTED = (_attack("printed", "noise of nobody", _PARTY, _party(_nobody)),)
NO_SELECTION_AS_PRINTED = (
    _attack("printed", "selects nobody as printed", _CURATOR, _charlie(partial(_zeros, Kind.SELECTION))),
)

ATTACKS = (
    *OF_PARTY,
    *OF_CURATOR,
    *OF_BOTH,
    *NO_RUNG,
    *NO_SELECTION,
    *NO_NOISE_AS_PRINTED,
    *NO_SELECTION_AS_PRINTED,
)
"""All attacks on the averages of Pathak."""

PATHAK_LIARS = attack_case(
    "pathak-liars",
    (OF_PARTY, OF_CURATOR, OF_BOTH, NO_RUNG, NO_SELECTION, NO_NOISE_AS_PRINTED, NO_SELECTION_AS_PRINTED),
)
