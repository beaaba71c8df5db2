"""Attacks on gradient descent: three parties, three holders of which two open, as in `case_psgd`.

As `case_liars`, for a whole descent with proofs and as many confirmations as are safe. No coalition may gain an answer
of an honest party that its next step does not ask for, or a point that does not follow from the sums of valid ballots,
and whoever lies must be named. Keys of 320 bits protect nothing.
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
from psephos.audit.model import Coalition, Context
from psephos.curator.psgd.agreement import agree
from psephos.curator.psgd.curator import GradientCurator
from psephos.parties.psgd import GradientParty, SeriesHolder
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.proofs import encrypt_with_proof
from psephos.protocol.encrypted_sum.rounds import Round
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
from psephos.protocol.study.study import safe_confirmations
from psephos.protocol.transcript import SentMessage, Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind
from psephos.specs.psgd import HONEST_GRADIENT
from psephos.specs.secrets import CULPRIT, OTHER_SUM, names_of

LIAR = PARTIES - 1
"""The party that lies."""
HONEST = range(LIAR)

GAINS = (HONEST_GRADIENT, OTHER_SUM, CULPRIT)
GRADIENT, SUM, NAME = SECRETS = names_of(GAINS)
ORIGIN = (0.0,) * FEATURES
LIE = (5,) * FEATURES
"""What a holder says that a step's ballots add up to."""


# -- a descent in which somebody lies


@dataclass(frozen=True)
class _Descent:
    """One run.

    Attributes:
        messages: all that was sent.
        results: of every role.
        refused: (sender, error) of what was refused; what ended the run has no sender.
    """

    terms: SeriesTerms
    messages: Sequence[SentMessage]
    results: Mapping[str, Any]
    refused: Sequence[tuple[str, PsephosError]]


def _terms(context: Context, label: str) -> SeriesTerms:
    agreement = agree(replace(OPTIONS, dropouts=1), [RECORDS] * PARTIES, FEATURES)
    agreement = replace(agreement, series=replace(agreement.series, nonce=context.coins(label).draw(16)))
    terms = replace(OPTIONS, proofs="knowledge").terms(agreement, psgd_setting(context).ceremony)
    return replace(terms, confirmations=safe_confirmations(3, 2))


def _descend(context: Context, label: str, replacements: Callable[[SeriesTerms], Replacements]) -> _Descent:
    terms, ceremony = _terms(context, label), psgd_setting(context).ceremony
    roles: list[Role] = []
    for number, (local, key) in enumerate(zip(private_data(context), ceremony.signing_keys, strict=True)):
        roles.append(GradientParty(number, key, local, terms))
    roles += [SeriesHolder(share, terms) for share in ceremony.shares]
    roles.append(GradientCurator(terms, randomness=context.coins(label, "curator")))  # whoever lies sends first
    transcript = Transcript(secrets=True)
    driver = Driver(replace_roles(roles, replacements(terms)), transcript=transcript, strict=False)
    ended: list[tuple[str, PsephosError]] = []
    try:
        driver.run()
    except PsephosError as error:
        ended.append(("", error))
    refused = [(refusal.entry.sender, refusal.error) for _name, refusal in driver.refused]
    return _Descent(terms, transcript.messages, driver.results(), [*refused, *ended])


def _valid_descent(
    context: Context, descent: _Descent, valid: Iterable[int]
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


def _judge(context: Context, descent: _Descent, culprit: str, what: str, valid: Iterable[int] = HONEST) -> AttackResult:
    """Compare a descent in which `culprit` lied with the one that follows from the ballots of `valid`.

    Args:
        what: the lie, for the evidence.
    """
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
    named = opened is not None and culprit in (f"holder {number}" for number in opened.wrong_holders)
    if not named and not any(culprit == sender or culprit in str(error) for sender, error in descent.refused):
        gains[NAME] = f"{what}: no error names {culprit}"
    return AttackResult(gains, tuple(error for _sender, error in descent.refused))


# -- parties


class _Forger(Tampering):
    """ScriptedRole no ballot of its own, and in the first step one that it makes of the others' ballots."""

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


def _signed(context: Context, round_: Round, ciphertexts: Iterable[mpz], proof: bytes) -> bytes:
    """Return a ballot signed by the liar."""
    vector = EncryptedVector(round_.key, round_.plan, tuple(ciphertexts))
    return Ballot.sign(round_, LIAR, vector, psgd_setting(context).ceremony.signing_keys[LIAR], proof).encode()


def _forges(context: Context, how: Literal["copy", "inverse"]) -> AttackResult:
    """Party 0's ballot once more, re-randomised; or the inverse of party 1's, which leaves party 0's alone."""

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


def _changes(
    context: Context,
    culprit: str,
    what: str,
    change: TermsChange,
    valid: Iterable[int] = range(PARTIES),
    **others: TermsChange,
) -> AttackResult:
    """Run a descent in which the messages of the culprit and of `others` are changed."""

    def replacements(terms: SeriesTerms) -> Replacements:
        every = {culprit: change} | {name.replace("_", " "): one for name, one in others.items()}
        return {name: partial(Tampering, change=partial(one, terms)) for name, one in every.items()}

    return _judge(context, _descend(context, what, replacements), culprit, what, valid)


def _round_seen(terms: SeriesTerms, seen: Sequence[Entry]) -> Round:
    """Return the round of the step that was announced last."""
    asked = [entry.data for entry in seen if entry.is_a(Kind.ANNOUNCEMENT)][-1]
    return terms.round(Announcement.decode(asked, terms))


def _twice(context: Context) -> AttackResult:
    """Two ballots to every step, each with its proof."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        round_ = _round_seen(terms, seen)
        again, proof = encrypt_with_proof(round_, LIAR, [1] * FEATURES, Encryptor(round_.key, expected=8))
        return [post, replace(post, data=_signed(context, round_, again.ciphertexts, proof))]

    return _changes(context, f"party {LIAR}", "a second ballot", change)


def _announces(context: Context) -> AttackResult:
    """The first step, in a round of its own, before the curator does."""

    class Announces(Tampering):
        def start(self) -> Step:
            step, terms = super().start(), _terms(context, "announces")
            return replace(step, posts=(Post(BOARD, Announcement.create(terms, 1, ORIGIN).encode()),))

    announcing = {f"party {LIAR}": Announces}
    told = "a step announced by a party"
    return _judge(
        context, _descend(context, "announces", lambda terms: announcing), f"party {LIAR}", told, range(PARTIES)
    )


# -- holders


def _shapes(context: Context, how: Literal["random", "shaped"]) -> AttackResult:
    """A wrong partial decryption: at random, or so that with holder 2's the first sum is another."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if not is_of_kind(post, Kind.PARTIAL_DECRYPTION):
            return [post]
        round_ = _round_seen(terms, seen)
        key, n, part = terms.threshold_key, round_.key.modulus, PartialDecryption.decode(post.data, round_)
        lagrange = lagrange_numerators([1, 2], key.holders)[1]
        shape = 1 + 4 * mpz(key.delta) ** 3 * key.theta * gmpy2.invert(lagrange, n) % n * n
        first = part.values[0] * (shape if how == "shaped" else 4) % round_.key.ciphertext_modulus
        return [replace(post, data=replace(part, values=(first, *part.values[1:])).encode(round_))]

    return _changes(context, "holder 1", f"a {how} partial decryption", change)


def _lies_about_the_sum(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
    if not is_of_kind(post, Kind.PUBLISHED_SUM):
        return [post]
    return [replace(post, data=replace(PublishedSum.decode(post.data, terms), sums=LIE).encode(terms))]


def _publishes(context: Context, how: Literal["another sum", "in another's name"]) -> AttackResult:
    """Another sum than it has opened; or that in the name of holder 2 as well, which makes two of them."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        changed = _lies_about_the_sum(terms, post, seen)
        if how == "another sum" or not is_of_kind(post, Kind.PUBLISHED_SUM):
            return changed
        said = PublishedSum.decode(changed[0].data, terms)
        return [*changed, replace(post, data=replace(said, holder=2).encode(terms))]

    return _changes(context, "holder 1", f"publishes {how}", change)


# -- the curator, with a holder, and a board


def _asks(context: Context, how: Literal["a chosen point", "the last step", "twice", "other terms"]) -> AttackResult:
    """The parties for what is not the next step."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if not is_of_kind(post, Kind.ANNOUNCEMENT):
            return [post]
        asked = Announcement.decode(post.data, terms)
        if how == "a chosen point":
            asked = replace(asked, point=(9.0,) * FEATURES)
        elif how == "the last step":
            asked = replace(asked, step=STEPS)
        elif how == "twice":
            return [post, replace(post, data=replace(asked, nonce=bytes(16)).encode())]
        else:
            other = replace(terms, roster=terms.roster[::-1])
            asked = replace(asked, terms_digest=other.digest)
        return [replace(post, data=asked.encode())]

    return _changes(context, "curator", f"asks for {how}", change)


def _follows_a_lie(context: Context) -> AttackResult:
    """Holder 1 publishes another sum, and the curator goes on from there."""

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if not is_of_kind(post, Kind.ANNOUNCEMENT) or (asked := Announcement.decode(post.data, terms)).step == 1:
            return [post]
        lie = terms.descent.step(np.array(ORIGIN), np.array(LIE) * terms.series.pitch, 0)
        return [replace(post, data=replace(asked, step=2, point=tuple(lie.tolist())).encode())]

    return _changes(context, "curator", "goes on from one holder's lie", change, holder_1=_lies_about_the_sum)


def _leaves_out(context: Context) -> AttackResult:
    """Has a sum opened without party 0's ballot."""
    rounds: list[Round] = []

    def change(terms: SeriesTerms, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if is_of_kind(post, Kind.ANNOUNCEMENT):
            rounds.append(terms.round(Announcement.decode(post.data, terms)))
        if not is_of_kind(post, Kind.TALLY_REQUEST):
            return [post]
        request = TallyRequest.decode(post.data, rounds[-1])
        return [replace(post, data=replace(request, members=request.members & ~1).encode(rounds[-1]))]

    return _changes(context, "curator", "leaves a ballot out", change)


def _two_boards(context: Context) -> AttackResult:
    """The board shows holder 1 all ballots and holder 2 all but party 0's; holder 3 confirms whatever is wanted."""
    terms, ceremony = _terms(context, "two boards"), psgd_setting(context).ceremony
    asked = Announcement.create(terms, 1, ORIGIN)
    round_, announced = terms.round(asked), Entry(1, "curator", BOARD, asked.encode())
    ballots = []
    for number, (local, key) in enumerate(zip(private_data(context), ceremony.signing_keys, strict=True)):
        party = GradientParty(number, key, local, terms)
        ballots.append(party.receive(party.start().state, [announced]).posts[0].data)
    opened, refused = 0, list[PsephosError]()
    for number, shown in ((1, ballots), (2, ballots[1:])):
        product, _ = BallotProduct(round_).add_all(shown)
        messages = [("party", data) for data in shown] + [("curator", Close(round_.digest).encode())]
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
    _attack("copies a ballot", _PARTY, partial(_forges, how="copy"), ProofError),
    _attack("makes a ballot of others", _PARTY, partial(_forges, how="inverse"), ProofError),
    _attack("answers twice", _PARTY, _twice, DuplicateBallotError),
    _attack("announces steps", _PARTY, _announces, UnexpectedMessageError),
)
OF_HOLDERS = (
    _attack("answers at random", _HOLDER, partial(_shapes, how="random"), WrongPartialDecryptionError),
    _attack("shapes its answer", _HOLDER, partial(_shapes, how="shaped"), WrongPartialDecryptionError),
    _attack("publishes another sum", _HOLDER, partial(_publishes, how="another sum"), HARMLESS),
    _attack("publishes in another's name", _HOLDER, partial(_publishes, how="in another's name"), ThresholdError),
)
OF_CURATOR = (
    _attack("chooses its point", _CURATOR, partial(_asks, how="a chosen point"), WrongPointError),
    _attack("asks for the last step", _CURATOR, partial(_asks, how="the last step"), UnexpectedMessageError),
    _attack("asks twice", _CURATOR, partial(_asks, how="twice"), UnexpectedMessageError),
    _attack("asks under other terms", _CURATOR, partial(_asks, how="other terms"), WrongRoundError),
    _attack("leaves a ballot out", _CURATOR, _leaves_out, UnseenBallotError),
)
OF_ALL = (
    _attack("goes on from a lie", ("curator", "holder 1"), _follows_a_lie, WrongPointError),
    _attack("shows two boards", ("the board", "holder 3"), _two_boards, UnconfirmedError),
)

ATTACKS = (*OF_PARTIES, *OF_HOLDERS, *OF_CURATOR, *OF_ALL)
"""All attacks on the descent."""

PSGD_LIARS = attack_case(
    "psgd-liars",
    (
        (Coalition("a lying party", _PARTY), OF_PARTIES),
        (Coalition("t - 1 lying holders", _HOLDER), OF_HOLDERS),
        (Coalition("lying curator and party", _CURATOR + _PARTY), OF_PARTIES + OF_CURATOR),
        (
            Coalition("lying curator, board, party and t - 1 holders", (*_CURATOR, "the board", *_PARTY, *_HOLDER)),
            ATTACKS,
        ),
    ),
)
