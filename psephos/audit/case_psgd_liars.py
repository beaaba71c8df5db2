"""Attacks on gradient descent: three parties, three holders of whom two open, as in `case_psgd`.

As in `case_liars`, for a whole descent with proofs and as many confirmations as are safe. No coalition may gain an
answer of an honest party to anything but its next step, or a point that does not follow from the sums of the valid
ballots, and the role that deviates must be named. Keys of 320 bits protect nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.audit.adversary import Replacements, Tampering, is_of_kind
from psephos.audit.attacks import HARMLESS, Attack, AttackResult, attack_case
from psephos.audit.case_psgd import FEATURES, OPTIONS, PARTIES, RECORDS, STEPS, private_data, psgd_setting
from psephos.audit.model import AnalysisContext
from psephos.curator.psgd.agreement import agree
from psephos.curator.psgd.curator import GradientCurator
from psephos.parties.psgd import GradientParty, SeriesHolder
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.proofs import encrypt_with_proof
from psephos.protocol.encrypted_sum.rounds import Round, safe_confirmations
from psephos.protocol.errors import (
    DuplicateBallotError,
    ProofError,
    PsephosError,
    ThresholdError,
    UnconfirmedError,
    UnexpectedMessageError,
    UnseenBallotError,
    WrongPartialDecryptionError,
    WrongPointError,
    WrongRoundError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.sharing import lagrange_numerators
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.psgd.state import PublishedSum
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.transcript import SentMessage, Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind
from psephos.specs.psgd import HONEST_GRADIENT
from psephos.specs.secrets import CULPRIT, OTHER_SUM, names_of

LIAR = PARTIES - 1
"""Number of the party that deviates."""
HONEST = range(LIAR)

GAINS = (HONEST_GRADIENT, OTHER_SUM, CULPRIT)
GRADIENT, SUM, NAME = SECRETS = names_of(GAINS)
ORIGIN = (0.0,) * FEATURES
LIE = (5,) * FEATURES
"""The wrong sum that a holder publishes, in units of the lattice."""


# -- a descent with roles that deviate


@dataclass(frozen=True)
class _Descent:
    """One run of a descent."""

    terms: SeriesTerms
    messages: Sequence[SentMessage]
    results: Mapping[str, Any]
    refused: Sequence[tuple[str, PsephosError]]


def _terms(context: AnalysisContext, label: str) -> SeriesTerms:
    agreement = agree(replace(OPTIONS, dropouts=1), [RECORDS] * PARTIES, FEATURES)
    agreement = replace(agreement, series=replace(agreement.series, nonce=context.coins(label).draw(16)))
    terms = replace(OPTIONS, proofs="knowledge").terms(agreement, psgd_setting(context).ceremony)
    return replace(terms, confirmations=safe_confirmations(3, 2))


def _descend(context: AnalysisContext, label: str, replacements: Callable[[SeriesTerms], Replacements]) -> _Descent:
    """Run a descent in which some roles are replaced; `label` names its coins."""
    terms, ceremony = _terms(context, label), psgd_setting(context).ceremony
    roles: list[Role] = []
    for number, (local, key) in enumerate(zip(private_data(context), ceremony.signing_keys, strict=True)):
        roles.append(GradientParty(number, key, local, terms))
    roles += [SeriesHolder(share, terms) for share in ceremony.shares]
    roles.append(
        GradientCurator(terms, randomness=context.coins(label, "curator"))
    )  # last, so that a role that deviates sends first
    transcript = Transcript(secrets=True)
    driver = Driver(replace_roles(roles, replacements(terms)), transcript=transcript, strict=False)
    final: list[tuple[str, PsephosError]] = []
    try:
        driver.run()
    except PsephosError as error:
        final.append(("", error))
    refused = [(refusal.entry.sender, refusal.error) for _name, refusal in driver.refused]
    return _Descent(terms, transcript.messages, driver.results(), [*refused, *final])


def _valid_descent(
    context: AnalysisContext, descent: _Descent, valid: Iterable[int]
) -> tuple[list[tuple[float, ...]], set[bytes]]:
    """Return the points that follow from the valid ballots, and the rounds that the curator may have announced."""
    terms, key = descent.terms, psgd_setting(context).private_key
    points, rounds, vectors, round_ = [ORIGIN], set(), dict[int, list[int]](), None
    for message in descent.messages:
        data = message.data or b""
        try:
            if message.kind == "announcement" and message.sender == "curator":
                announcement = Announcement.decode(data, terms)
                if (announcement.step, announcement.point) == (len(points), points[-1]) and round_ is None:
                    round_ = terms.round(announcement)
                    rounds.add(round_.digest)
            elif message.kind == "ballot" and round_ is not None:
                ballot = Ballot.decode(data, round_)
                if ballot.party in valid and ballot.party not in vectors:
                    plain = [key.raw_decrypt(c) for c in ballot.ciphertexts]
                    vectors[ballot.party] = round_.plan.unpack(plain, 1)
        except PsephosError:
            continue
        if len(vectors) == len(set(valid)):
            sums = np.sum(list(vectors.values()), axis=0) * terms.series.pitch
            points.append(tuple(terms.descent.step(np.array(points[-1]), sums, len(points) - 1).tolist()))
            vectors, round_ = {}, None
    return points, rounds


def _judge(
    context: AnalysisContext, descent: _Descent, culprit: str, what: str, valid: Iterable[int] = HONEST
) -> AttackResult:
    """Return what a coalition gained in a descent."""
    gains: dict[str, str] = {}
    points, rounds = _valid_descent(context, descent, valid)
    states = [descent.results[f"party {number}"].progress for number in HONEST]
    if any(state.steps >= len(points) or state.point != points[state.steps] for state in states):
        gains[SUM] = gains[GRADIENT] = f"{what}: a point does not follow from the sums of the valid ballots"
    for number in HONEST:
        sent = [m.data or b"" for m in descent.messages if (m.sender, m.kind) == (f"party {number}", "ballot")]
        answered = [data[HEADER_BYTES - 32 : HEADER_BYTES] for data in dict.fromkeys(sent)]
        if not rounds.issuperset(answered) or len(answered) > len(points):
            gains[GRADIENT] = f"{what}: party {number} answers what is not its next step"
    opened = getattr(descent.results.get("curator"), "opened", None)
    is_named = opened is not None and culprit in (f"holder {number}" for number in opened.wrong_holders)
    if not is_named and not any(culprit == sender or culprit in str(error) for sender, error in descent.refused):
        gains[NAME] = f"{what}: no error names {culprit}"
    return AttackResult(gains, tuple(error for _sender, error in descent.refused))


# -- parties


class _Forger(Tampering):
    """A party that sends no ballot of its own, but in the first step one that it makes of the others' ballots."""

    also_reads = frozenset({Kind.BALLOT})

    def __init__(self, honest: Role, terms: SeriesTerms, forge: Callable[[Round, list[Ballot]], bytes]) -> None:
        super().__init__(honest, lambda post, seen: ())
        self._terms, self._forge = terms, forge

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        step = super().receive(state, entries)
        before, ballots = ([e.data for e in s.seen if e.is_a(Kind.BALLOT)] for s in (state, step.state))
        if not len(before) < LIAR <= len(ballots):
            return step
        round_ = _round_seen(self._terms, step.state.seen)
        forged = self._forge(round_, [Ballot.decode(data, round_) for data in ballots])
        return replace(step, posts=(*step.posts, Post(BOARD, forged)))


def _signed(context: AnalysisContext, round_: Round, ciphertexts: Iterable[mpz], proof: bytes) -> bytes:
    """Return a ballot that the deviating party signs."""
    vector = EncryptedVector(round_.key, round_.plan, tuple(ciphertexts))
    return Ballot.sign(round_, LIAR, vector, psgd_setting(context).ceremony.signing_keys[LIAR], proof).encode()


def _forge_ballot(context: AnalysisContext, how: Literal["copy", "inverse"]) -> AttackResult:
    """Post the ballot of party 0 once more, re-randomised, or the inverse of party 1's, so that party 0's remains."""

    def forge(round_: Round, ballots: list[Ballot]) -> bytes:
        first, second = sorted(ballots, key=lambda ballot: ballot.party)
        modulus = round_.key.ciphertext_modulus
        zeros = Encryptor(round_.key, "full").encrypt([mpz(0)] * round_.plan.ciphertexts)
        others = first.ciphertexts if how == "copy" else [gmpy2.invert(c, modulus) for c in second.ciphertexts]
        return _signed(context, round_, (c * z % modulus for c, z in zip(others, zeros, strict=True)), first.proof)

    descent = _descend(
        context, f"forges {how}", lambda terms: {f"party {LIAR}": lambda honest: _Forger(honest, terms, forge)}
    )
    return _judge(context, descent, f"party {LIAR}", f"a ballot that is the {how} of another")


TermsChange = Callable[[SeriesTerms, Post, Sequence[Entry]], list[Post]]
"""(terms, a message of the honest role, what it has received) -> the messages that are sent in its place."""


def _run_with_changes(
    context: AnalysisContext,
    culprit: str,
    what: str,
    change: TermsChange,
    valid: Iterable[int] = range(PARTIES),
    **others: TermsChange,
) -> AttackResult:
    """Run a descent in which the messages of the culprit and of `others` are changed."""

    def replacements(terms: SeriesTerms) -> Replacements:
        changes = {culprit: change} | {name.replace("_", " "): one for name, one in others.items()}
        return {name: partial(Tampering, change=partial(one, terms)) for name, one in changes.items()}

    return _judge(context, _descend(context, what, replacements), culprit, what, valid)


def _round_seen(terms: SeriesTerms, seen: Sequence[Entry]) -> Round:
    """Return the round of the step that was announced last."""
    latest = [entry.data for entry in seen if entry.is_a(Kind.ANNOUNCEMENT)][-1]
    return terms.round(Announcement.decode(latest, terms))


def _answer_twice(context: AnalysisContext) -> AttackResult:
    """Send two ballots in every step, each with its proof."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        round_ = _round_seen(terms, seen)
        second, proof = encrypt_with_proof(round_, LIAR, [1] * FEATURES, Encryptor(round_.key, expected=8))
        return [post, replace(post, data=_signed(context, round_, second.ciphertexts, proof))]

    return _run_with_changes(context, f"party {LIAR}", "a second ballot", change)


def _announce_step(context: AnalysisContext) -> AttackResult:
    """Announce the first step before the curator does, in another round."""

    class Announces(Tampering):
        def start(self) -> Step:
            step, terms = super().start(), _terms(context, "announces")
            return replace(step, posts=(Post(BOARD, Announcement.create(terms, 1, ORIGIN).encode()),))

    announcing = {f"party {LIAR}": Announces}
    descent = _descend(context, "announces", lambda terms: announcing)
    return _judge(context, descent, f"party {LIAR}", "a step announced by a party", range(PARTIES))


# -- holders


def _send_wrong_share(context: AnalysisContext, how: Literal["random", "shaped"]) -> AttackResult:
    """Send a wrong partial decryption: a random one, or one that with holder 2's opens to another sum."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if not is_of_kind(post, Kind.PARTIAL_DECRYPTION):
            return [post]
        round_ = _round_seen(terms, seen)
        key, n, part = terms.threshold_key, round_.key.modulus, PartialDecryption.decode(post.data, round_)
        lagrange = lagrange_numerators([1, 2], key.holders)[1]
        shape = 1 + 4 * mpz(key.delta) ** 3 * key.theta * gmpy2.invert(lagrange, n) % n * n
        first = part.values[0] * (shape if how == "shaped" else 4) % round_.key.ciphertext_modulus
        return [replace(post, data=replace(part, values=(first, *part.values[1:])).encode(round_))]

    return _run_with_changes(context, "holder 1", f"a {how} partial decryption", change)


def _publish_other_sum(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
    """Change a published sum to `LIE`."""
    if not is_of_kind(post, Kind.PUBLISHED_SUM):
        return [post]
    return [replace(post, data=replace(PublishedSum.decode(post.data, terms), sums=LIE).encode(terms))]


def _publish_wrongly(context: AnalysisContext, how: Literal["another sum", "in another's name"]) -> AttackResult:
    """Publish another sum than was opened, or publish it in the name of holder 2 as well, so that there are two."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        changed = _publish_other_sum(terms, post, seen)
        if how == "another sum" or not is_of_kind(post, Kind.PUBLISHED_SUM):
            return changed
        message = PublishedSum.decode(changed[0].data, terms)
        return [*changed, replace(post, data=replace(message, holder=2).encode(terms))]

    return _run_with_changes(context, "holder 1", f"publishes {how}", change)


# -- the curator, with a holder, and a board


def _announce_wrongly(
    context: AnalysisContext, how: Literal["a chosen point", "the last step", "twice", "other terms"]
) -> AttackResult:
    """Announce something other than the next step."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if not is_of_kind(post, Kind.ANNOUNCEMENT):
            return [post]
        announcement = Announcement.decode(post.data, terms)
        if how == "a chosen point":
            announcement = replace(announcement, point=(9.0,) * FEATURES)
        elif how == "the last step":
            announcement = replace(announcement, step=STEPS)
        elif how == "twice":
            return [post, replace(post, data=replace(announcement, nonce=bytes(16)).encode())]
        else:
            other = replace(terms, roster=terms.roster[::-1])
            announcement = replace(announcement, terms_digest=other.digest)
        return [replace(post, data=announcement.encode())]

    return _run_with_changes(context, "curator", f"asks for {how}", change)


def _continue_from_lie(context: AnalysisContext) -> AttackResult:
    """Announce a second step that continues the descent from a wrong sum that holder 1 publishes."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if not is_of_kind(post, Kind.ANNOUNCEMENT) or (message := Announcement.decode(post.data, terms)).step == 1:
            return [post]
        point = terms.descent.step(np.array(ORIGIN), np.array(LIE) * terms.series.pitch, 0)
        return [replace(post, data=replace(message, step=2, point=tuple(point.tolist())).encode())]

    return _run_with_changes(context, "curator", "goes on from one holder's lie", change, holder_1=_publish_other_sum)


def _leave_ballot_out(context: AnalysisContext) -> AttackResult:
    """Request the opening of a product without the ballot of party 0."""
    rounds: list[Round] = []

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if is_of_kind(post, Kind.ANNOUNCEMENT):
            rounds.append(terms.round(Announcement.decode(post.data, terms)))
        if not is_of_kind(post, Kind.TALLY_REQUEST):
            return [post]
        request = TallyRequest.decode(post.data, rounds[-1])
        return [replace(post, data=replace(request, members=request.members & ~1).encode(rounds[-1]))]

    return _run_with_changes(context, "curator", "leaves a ballot out", change)


def _show_two_boards(context: AnalysisContext) -> AttackResult:
    """Show holder 1 all ballots and holder 2 all but that of party 0; holder 3 confirms both products."""
    terms, ceremony = _terms(context, "two boards"), psgd_setting(context).ceremony
    announcement = Announcement.create(terms, 1, ORIGIN)
    round_, announced = terms.round(announcement), Entry(1, "curator", BOARD, announcement.encode())
    ballots = []
    for number, (local, key) in enumerate(zip(private_data(context), ceremony.signing_keys, strict=True)):
        party = GradientParty(number, key, local, terms)
        ballots.append(party.receive(party.start().state, [announced]).posts[0].data)
    opened, refused = 0, list[PsephosError]()
    for number, visible in ((1, ballots), (2, ballots[1:])):
        product, _ = BallotProduct(round_).add_all(visible)
        messages = [("party", data) for data in visible] + [("curator", Close(round_.digest).encode())]
        messages += [(f"holder {j}", Confirmation(round_.digest, j, product.digest).encode()) for j in (number, 3)]
        messages += [("curator", TallyRequest(round_.digest, product.members, product.digest).encode(round_))]
        holder = SeriesHolder(ceremony.shares[number - 1], terms)
        entries = [announced, *(Entry(2 + n, sender, BOARD, data) for n, (sender, data) in enumerate(messages))]
        step = holder.receive(holder.start().state, entries)
        opened += any(is_of_kind(post, Kind.PARTIAL_DECRYPTION) for post in step.posts)
        refused += [refusal.error for refusal in step.refused]
    gains = dict.fromkeys(SECRETS, "holders of two boards open sums of one step") if opened else {}
    return AttackResult(gains, tuple(refused))


_PARTY, _HOLDER, _CURATOR = (f"party {LIAR}",), ("holder 1",), ("curator",)

_attack = partial(Attack, secrets=GAINS)

OF_PARTIES = (
    _attack("copies a ballot", _PARTY, partial(_forge_ballot, how="copy"), ProofError),
    _attack("makes a ballot of others", _PARTY, partial(_forge_ballot, how="inverse"), ProofError),
    _attack("answers twice", _PARTY, _answer_twice, DuplicateBallotError),
    _attack("announces steps", _PARTY, _announce_step, UnexpectedMessageError),
)
OF_HOLDERS = (
    _attack("answers at random", _HOLDER, partial(_send_wrong_share, how="random"), WrongPartialDecryptionError),
    _attack("shapes its answer", _HOLDER, partial(_send_wrong_share, how="shaped"), WrongPartialDecryptionError),
    _attack("publishes another sum", _HOLDER, partial(_publish_wrongly, how="another sum"), HARMLESS),
    _attack("publishes in another's name", _HOLDER, partial(_publish_wrongly, how="in another's name"), ThresholdError),
)
OF_CURATOR = (
    _attack("chooses its point", _CURATOR, partial(_announce_wrongly, how="a chosen point"), WrongPointError),
    _attack(
        "asks for the last step", _CURATOR, partial(_announce_wrongly, how="the last step"), UnexpectedMessageError
    ),
    _attack("asks twice", _CURATOR, partial(_announce_wrongly, how="twice"), UnexpectedMessageError),
    _attack("asks under other terms", _CURATOR, partial(_announce_wrongly, how="other terms"), WrongRoundError),
    _attack("leaves a ballot out", _CURATOR, _leave_ballot_out, UnseenBallotError),
)
OF_ALL = (
    _attack("goes on from a lie", ("curator", "holder 1"), _continue_from_lie, WrongPointError),
    _attack("shows two boards", ("the board", "holder 3"), _show_two_boards, UnconfirmedError),
)

ATTACKS = (*OF_PARTIES, *OF_HOLDERS, *OF_CURATOR, *OF_ALL)
"""All attacks on the descent."""

PSGD_LIARS = attack_case("psgd-liars", (OF_PARTIES, OF_HOLDERS, OF_PARTIES + OF_CURATOR, ATTACKS))
