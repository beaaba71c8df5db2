"""Attacks on the tally and on gradient descent, with proofs and as many confirmations as are safe.

A coalition must not gain an honest party's vector, or a sum other than that of the valid ballots, and the sender of a
wrong message must be named. Only the attacks listed here are tried; docs/security/proofs.md has the theorems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.audit.adversary import Replacements, Tampering, is_of_kind
from psephos.audit.attacks import HARMLESS, Attack, AttackResult, attack_case
from psephos.audit.case_psgd import FEATURES, OPTIONS, ORIGIN, RECORDS, STEPS, DescentAnalysis, psgd_setting
from psephos.audit.case_sums import Votes
from psephos.audit.deviations import request_for
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import round_of
from psephos.audit.simulators import ideal_sum
from psephos.curator.psgd.agreement import agree
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.proofs import encrypt_with_proof
from psephos.protocol.encrypted_sum.rounds import Proofs, Round, safe_confirmations
from psephos.protocol.errors import (
    DuplicateBallotError,
    LateBallotError,
    ProofError,
    PsephosError,
    ThresholdError,
    UnconfirmedError,
    UnexpectedMessageError,
    UnseenBallotError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.sharing import lagrange_numerators
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.psgd.state import PublishedSum
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.transcript import SentMessage, Transcript
from psephos.protocol.wire import Kind, session_of
from psephos.specs.exact import HONEST_VOTE
from psephos.specs.psgd import HONEST_GRADIENT, PsgdSpec
from psephos.specs.secrets import CULPRIT, OTHER_SUM, Secret

LIE = (5,) * FEATURES
"""The wrong sum of a step that a holder publishes, in units of the lattice."""


class Game:
    """A round whose last party, first holder, or curator deviates; `vector`: the secret that a party's vector is."""

    def __init__(self, analysis: Any, vector: Secret) -> None:
        self.analysis, self.vector = analysis, vector
        self.parties, self.liar = analysis.parties, f"party {analysis.parties - 1}"
        self.setting, self.spec = analysis.setting, analysis.spec

    def terms(self, context: AnalysisContext, label: str, proofs: Proofs = "knowledge") -> Any:
        """Return fresh terms as a study has them; `label` names their coins."""
        coins, confirmations = context.coins("liars round", label), safe_confirmations(3, 2)
        conditions: dict[str, Any] = {"proofs": proofs, "confirmations": confirmations}
        return round_of(self.setting(context), self.spec(context), coins, **conditions)

    def round(self, terms: Any, announced: Sequence[bytes]) -> Round:
        """Return the round of the step that was announced last."""
        round_: Round = terms
        return round_

    def wrong(
        self, context: AnalysisContext, terms: Any, driver: Driver, sent: Sequence[SentMessage], valid: Sequence[int]
    ) -> dict[str, str]:
        """Return the secrets gained in a run, each with what shows it; `valid`: parties with valid ballots."""
        exact = self.analysis.exact(context)
        sums = ideal_sum(*(exact[party] for party in valid))
        opened = driver.results().get("curator")
        if opened is None or (opened.parties, opened.sums) == (tuple(valid), tuple(sums)):
            return {}
        evidence = f"what was opened is not the sum of the ballots of parties {list(valid)}"
        return {OTHER_SUM.name: evidence, self.vector.name: evidence}

    def before_ballots(self, terms: Any) -> list[tuple[str, bytes]]:
        return []

    def roles(self, context: AnalysisContext, terms: Any) -> list[Role]:
        """Return all honest roles; the curator last, so that a role that deviates sends first."""
        spec, ceremony = self.spec(context), self.setting(context).ceremony
        data = self.analysis.data(context, "honest")
        keys = enumerate(zip(ceremony.signing_keys, data, strict=True))
        parties: list[Role] = [spec.party(number, key, own, terms) for number, (key, own) in keys]
        return [*parties, *(spec.holder(share, terms) for share in ceremony.shares), spec.curator(terms)]

    def play(
        self,
        context: AnalysisContext,
        terms: Any,
        replacements: Replacements,
        *,
        culprit: str,
        expected: Any,
        valid: Sequence[int],
    ) -> AttackResult:
        """Return what a coalition gains in a run; it gains where no expected error names its culprit."""
        transcript, refused = Transcript(secrets=True), list[tuple[str, PsephosError]]()
        driver = Driver(replace_roles(self.roles(context, terms), replacements), transcript=transcript, strict=False)
        try:
            driver.run()
        except PsephosError as error:
            refused.append(("", error))
        refused += [(refusal.entry.sender, refusal.error) for _, refusal in driver.refused]
        gains = self.wrong(context, terms, driver, transcript.messages, valid)
        result = driver.results().get("curator")
        opened = getattr(result, "opened", result)
        named = opened is not None and culprit in (f"holder {number}" for number in opened.wrong_holders)
        kind = PsephosError if expected == HARMLESS else expected
        said = [(sender, str(error)) for sender, error in refused if isinstance(error, kind)]
        if not named and not any(culprit == sender or culprit in message for sender, message in said):
            gains[CULPRIT.name] = f"no error names {culprit}"
        return AttackResult(gains, tuple(error for _, error in refused))

    def signed(self, context: AnalysisContext, round_: Round, ciphertexts: Iterable[mpz], proof: bytes) -> bytes:
        number, vector = self.parties - 1, EncryptedVector(round_.key, round_.plan, tuple(ciphertexts))
        return Ballot.sign(round_, number, vector, self.setting(context).ceremony.signing_keys[number], proof).encode()


def _entries(messages: Iterable[tuple[str, bytes]]) -> list[Entry]:
    return [Entry(number, sender, BOARD, data) for number, (sender, data) in enumerate(messages, 1)]


class DescentGame(Game):
    """A descent, with the keys and data of `case_psgd`. One party may be absent."""

    def terms(self, context: AnalysisContext, label: str, proofs: Proofs = "knowledge") -> SeriesTerms:
        agreement = self.analysis.spec(context).agreement
        agreement = replace(agreement, series=replace(agreement.series, nonce=context.coins(label).draw(16)))
        terms = replace(OPTIONS, proofs=proofs).terms(agreement, psgd_setting(context).ceremony)
        return replace(terms, confirmations=safe_confirmations(3, 2))

    def round(self, terms: SeriesTerms, announced: Sequence[bytes]) -> Round:
        return terms.round(Announcement.decode(announced[-1], terms))

    def before_ballots(self, terms: SeriesTerms) -> list[tuple[str, bytes]]:
        return [("curator", Announcement.create(terms, 1, ORIGIN).encode())]

    def wrong(
        self, context: AnalysisContext, terms: Any, driver: Driver, sent: Sequence[SentMessage], valid: Sequence[int]
    ) -> dict[str, str]:
        gains: dict[str, str] = {}
        points, rounds = self._followed(context, terms, sent, set(valid))
        honest = range(self.parties - 1)
        states = [driver.results()[f"party {number}"].progress for number in honest]
        if any(state.steps >= len(points) or state.point != points[state.steps] for state in states):
            evidence = "a point does not follow from the sums of the valid ballots"
            gains = {OTHER_SUM.name: evidence, self.vector.name: evidence}
        for number in honest:
            own = [m.data or b"" for m in sent if (m.sender, m.kind) == (f"party {number}", "ballot")]
            answered = [session_of(data) for data in dict.fromkeys(own)]
            if not rounds.issuperset(answered) or len(answered) > len(points):
                gains[self.vector.name] = f"party {number} answers what is not its next step"
        return gains

    def _followed(
        self, context: AnalysisContext, terms: SeriesTerms, sent: Sequence[SentMessage], valid: set[int]
    ) -> tuple[list[tuple[float, ...]], set[bytes]]:
        """Return the points that follow from the valid ballots, and the rounds that the curator may have announced."""
        key = self.setting(context).private_key
        points, rounds, vectors, round_ = [ORIGIN], set(), dict[int, list[int]](), None
        for message in sent:
            data = message.data or b""
            try:
                if message.kind == "announcement" and message.sender == "curator":
                    announcement = Announcement.decode(data, terms)
                    if (announcement.step, announcement.point) == (len(points), points[-1]) and round_ is None:
                        round_ = terms.round(announcement)
                        rounds.add(round_.digest)
                elif message.kind == "ballot" and round_ is not None:
                    ballot = Ballot.decode(data, round_)
                    if ballot.party in valid:
                        plain = [key.raw_decrypt(c) for c in ballot.ciphertexts]
                        vectors.setdefault(ballot.party, round_.plan.unpack(plain, 1))
            except PsephosError:
                continue
            if len(vectors) == len(valid):
                sums = np.sum(list(vectors.values()), axis=0) * terms.series.pitch
                points.append(tuple(terms.descent.step(np.array(points[-1]), sums, len(points) - 1).tolist()))
                vectors, round_ = {}, None
        return points, rounds


class _Descent(DescentAnalysis):
    def spec(self, context: AnalysisContext) -> PsgdSpec:
        options = replace(OPTIONS, dropouts=1)
        return options.spec(agree(options, [RECORDS] * self.parties, FEATURES))


TALLY = Game(Votes("liars", key_bits=512, mechanism=None, classes=3, samples=20), HONEST_VOTE)
DESCENT = DescentGame(_Descent(), HONEST_GRADIENT)
Run = Callable[[AnalysisContext, Any], AttackResult]
"""(context, the expected error) -> the result of an attack."""
Lie = Callable[[AnalysisContext, Any, Any, bytes], Iterable[bytes]]
"""(context, terms, the round, a message of the honest role) -> the messages that are sent in its place."""


# -- attacks by messages that are changed


def _lies(
    game: Game,
    what: str,
    changes: Mapping[str, Mapping[Kind, Lie]],
    proofs: Proofs = "knowledge",
    valid: int | None = None,
) -> Run:
    """Return the attack in which some roles change their messages of some kinds; the first one is the culprit.

    `valid`: so many parties, by default all, have valid ballots in a sum that may be opened.
    """

    def run(context: AnalysisContext, expected: Any) -> AttackResult:
        terms = game.terms(context, what, proofs)

        def tamper(lies: Mapping[Kind, Lie], honest: Role) -> Role:
            announced: list[bytes] = []

            def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
                if is_of_kind(post, Kind.ANNOUNCEMENT):
                    announced.append(post.data)
                lie = next((lie for kind, lie in lies.items() if is_of_kind(post, kind)), None)
                if lie is None:
                    return [post]
                heard = announced or [entry.data for entry in seen if entry.is_a(Kind.ANNOUNCEMENT)]
                return [replace(post, data=data) for data in lie(context, terms, game.round(terms, heard), post.data)]

            return Tampering(honest, change)

        replacements = {name: partial(tamper, lies) for name, lies in changes.items()}
        counted, culprit = range(game.parties if valid is None else valid), next(iter(changes))
        return game.play(context, terms, replacements, culprit=culprit, expected=expected, valid=counted)

    return run


def _add_votes(votes: int) -> Lie:
    """Add `votes`, which may be negative, to the first slot of a ballot."""

    def lie(context: AnalysisContext, terms: Any, round_: Round, data: bytes) -> list[bytes]:
        n, ballot = round_.key.modulus, Ballot.decode(data, round_)
        first = ballot.ciphertexts[0] * (1 + votes % n * n) % round_.key.ciphertext_modulus
        return [TALLY.signed(context, round_, [first, *ballot.ciphertexts[1:]], ballot.proof)]

    return lie


def _twice(game: Game) -> Lie:
    """Send a second ballot, with a proof of its own."""

    def lie(context: AnalysisContext, terms: Any, round_: Round, data: bytes) -> list[bytes]:
        ones, encryptor = [1] * round_.plan.length, Encryptor(round_.key, expected=8)
        second, proof = encrypt_with_proof(round_, game.parties - 1, ones, encryptor)
        return [data, game.signed(context, round_, second.ciphertexts, proof)]

    return lie


def _close(context: AnalysisContext, terms: Any, round_: Round, data: bytes) -> list[bytes]:
    return [data, Close(round_.digest).encode()]


def _wrong_share(shaped: bool) -> Lie:
    """Send a wrong partial decryption: a random one, or one that with holder 2's opens to another sum."""

    def lie(context: AnalysisContext, terms: Any, round_: Round, data: bytes) -> list[bytes]:
        key, n, factor = round_.threshold_key, round_.key.modulus, mpz(4)
        if shaped:
            lagrange = lagrange_numerators([1, 2], key.holders)[1]
            factor = 1 + 4 * mpz(key.delta) ** 3 * key.theta * gmpy2.invert(lagrange, n) % n * n
        part = PartialDecryption.decode(data, round_)
        values = (part.values[0] * factor % round_.key.ciphertext_modulus, *part.values[1:])
        return [replace(part, values=values).encode(round_)]

    return lie


def _confirm(**changes: Any) -> Lie:
    return lambda context, terms, round_, data: [replace(Confirmation.decode(data, round_), **changes).encode()]


def _publish(context: AnalysisContext, terms: SeriesTerms, round_: Round, data: bytes) -> list[bytes]:
    return [replace(PublishedSum.decode(data, terms), sums=LIE).encode(terms)]


def _publish_for_another(context: AnalysisContext, terms: SeriesTerms, round_: Round, data: bytes) -> list[bytes]:
    """Publish another sum in the name of holder 2 as well, so that there are two."""
    lie = replace(PublishedSum.decode(data, terms), sums=LIE)
    return [message.encode(terms) for message in (lie, replace(lie, holder=2))]


def _announce(**changes: Any) -> Lie:
    return lambda context, terms, round_, data: [replace(Announcement.decode(data, terms), **changes).encode()]


def _announce_twice(context: AnalysisContext, terms: SeriesTerms, round_: Round, data: bytes) -> list[bytes]:
    return [data, *_announce(nonce=bytes(16))(context, terms, round_, data)]


def _announce_other_terms(context: AnalysisContext, terms: SeriesTerms, round_: Round, data: bytes) -> Iterable[bytes]:
    other = replace(terms, roster=terms.roster[::-1])
    return _announce(terms_digest=other.digest)(context, terms, round_, data)


def _continue_from_lie(context: AnalysisContext, terms: SeriesTerms, round_: Round, data: bytes) -> Iterable[bytes]:
    """Announce a second step that continues the descent from a wrong sum that holder 1 publishes."""
    if Announcement.decode(data, terms).step == 1:
        return [data]
    point = terms.descent.step(np.array(ORIGIN), np.array(LIE) * terms.series.pitch, 0)
    return _announce(step=2, point=tuple(point.tolist()))(context, terms, round_, data)


def _leave_out(context: AnalysisContext, terms: Any, round_: Round, data: bytes) -> list[bytes]:
    """Request the opening of a product without the ballot of party 0."""
    request = TallyRequest.decode(data, round_)
    return [replace(request, members=request.members & ~1).encode(round_)]


# -- attacks by messages that no honest role sends


MakeRole = Callable[[AnalysisContext, Any, Role], Role]
"""(context, terms, the honest role) -> a role in its place."""


def _replaced(game: Game, what: str, make: MakeRole, absent: bool = True) -> Run:
    """Return the attack of another role in the place of a party, whose ballot is `absent` from the valid ones."""

    def run(context: AnalysisContext, expected: Any) -> AttackResult:
        terms = game.terms(context, what)
        counted, replacements = range(game.parties - absent), {game.liar: partial(make, context, terms)}
        return game.play(context, terms, replacements, culprit=game.liar, expected=expected, valid=counted)

    return run


def _forge(game: Game, how: str) -> Run:
    """Post the ballot of party 0 once more, re-randomised, or the inverse of another, which takes it off the sum."""

    class Forger(Tampering):
        also_reads = frozenset({Kind.BALLOT})

        def __init__(self, context: AnalysisContext, terms: Any, honest: Role) -> None:
            super().__init__(honest, lambda post, seen: ())
            self._context, self._terms = context, terms

        def idle(self, seen: Sequence[Entry]) -> Iterable[Post]:
            announced, encoded = ([e.data for e in seen if e.is_a(kind)] for kind in (Kind.ANNOUNCEMENT, Kind.BALLOT))
            if not encoded:
                return []
            round_ = game.round(self._terms, announced)
            first, second, *_ = sorted((Ballot.decode(data, round_) for data in encoded), key=lambda b: b.party)
            modulus, columns = round_.key.ciphertext_modulus, first.ciphertexts
            if how == "inverse":
                columns = tuple(gmpy2.invert(c, modulus) for c in second.ciphertexts)
            zeros = Encryptor(round_.key, "full").encrypt([mpz(0)] * len(columns))
            made = map(lambda c, z: c * z % modulus, columns, zeros)
            return [Post(BOARD, game.signed(self._context, round_, made, first.proof))]

    return _replaced(game, f"a ballot that is the {how} of another", Forger)


class Late(Tampering):
    also_reads = frozenset({Kind.CLOSE})

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        return []

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        step = super().receive(state, entries)
        closed = any(entry.is_a(Kind.CLOSE) for entry in entries)
        return replace(step, posts=(*step.posts, *self.honest.start().posts)) if closed else step


class Announces(Tampering):
    """A party that announces the first step before the curator does, in another round."""

    def start(self) -> Step:
        announcement = Announcement.create(self.honest.terms, 1, ORIGIN)  # type: ignore[attr-defined]
        return replace(super().start(), posts=(Post(BOARD, announcement.encode()),))


# -- a board that differs between holders


def _show_two_boards(game: Game, context: AnalysisContext, expected: Any) -> AttackResult:
    """Show holder 1 all ballots and holder 2 all but that of party 0; holder 3 confirms both products."""
    terms = game.terms(context, "two boards")
    before = game.before_ballots(terms)
    round_, ballots = game.round(terms, [data for _, data in before]), []
    for role in game.roles(context, terms)[: game.parties]:
        step = role.start()
        posts = step.posts or role.receive(step.state, _entries(before)).posts
        ballots.append(Ballot.decode(posts[0].data, round_))
    opened, errors = False, list[PsephosError]()
    for holder, visible in ((1, ballots), (2, ballots[1:])):
        request = request_for(round_, visible)
        messages = [*before, *((f"party {ballot.party}", ballot.encode()) for ballot in visible)]
        messages.append(("curator", Close(round_.digest).encode()))
        for j in (holder, 3):
            messages.append((f"holder {j}", Confirmation(round_.digest, j, request.product_digest).encode()))
        role = game.spec(context).holder(game.setting(context).ceremony.shares[holder - 1], terms)
        step = role.receive(role.start().state, _entries([*messages, ("curator", request.encode(round_))]))
        opened |= any(is_of_kind(post, Kind.PARTIAL_DECRYPTION) for post in step.posts)
        errors += [refusal.error for refusal in step.refused]
    gained = (game.vector.name, OTHER_SUM.name, CULPRIT.name) if opened else ()
    return AttackResult(dict.fromkeys(gained, "holders of two boards open sums of one round"), tuple(errors))


# -- the attacks


def _attack(
    game: Game,
    name: str,
    who: str,
    how: Run | Mapping[Kind, Lie],
    expected: type[PsephosError] | Literal["harmless"],
    **terms: Any,
) -> Attack:
    """Return an attack: a function, or how `who` changes its messages of some kinds; `terms`: as in `_lies`."""
    run = how if callable(how) else _lies(game, name, {who: how}, **terms)
    return Attack(name, lambda context: run(context, expected), expected, (game.vector, OTHER_SUM, CULPRIT))


_tally, _descent = partial(_attack, TALLY), partial(_attack, DESCENT)
_PARTY, _STEP, _OPENED = TALLY.liar, Kind.ANNOUNCEMENT, Kind.PARTIAL_DECRYPTION
_RANDOM, _SHAPED = {_OPENED: _wrong_share(False)}, {_OPENED: _wrong_share(True)}
_LATE = _replaced(TALLY, "a late ballot", lambda context, terms, honest: Late(honest))
_INVALID: dict[str, Any] = {"proofs": "valid", "valid": 4}
_OTHER_PRODUCT = {Kind.CONFIRMATION: _confirm(product_digest=bytes(32))}

OF_VOTERS = (
    _tally("copies a ballot", _PARTY, _forge(TALLY, "copy"), ProofError),
    _tally("makes a ballot of others", _PARTY, _forge(TALLY, "inverse"), ProofError),
    _tally("casts -1 votes", _PARTY, {Kind.BALLOT: _add_votes(-1)}, ProofError, **_INVALID),
    _tally("casts 2 votes", _PARTY, {Kind.BALLOT: _add_votes(2)}, ProofError, **_INVALID),
    _tally("casts 1000 votes", _PARTY, {Kind.BALLOT: _add_votes(1000)}, ProofError, **_INVALID),
    _tally("votes twice", _PARTY, {Kind.BALLOT: _twice(TALLY)}, DuplicateBallotError),
    _tally("closes the vote", _PARTY, {Kind.BALLOT: _close}, UnexpectedMessageError),
    _tally("votes late", _PARTY, _LATE, LateBallotError),
)
OF_HOLDERS = (
    _tally("answers at random", "holder 1", _RANDOM, WrongPartialDecryptionError),
    _tally("shapes its answer", "holder 1", _SHAPED, WrongPartialDecryptionError),
    _tally("confirms another product", "holder 1", _OTHER_PRODUCT, UnconfirmedError, valid=0),
    _tally("confirms in another's name", "holder 1", {Kind.CONFIRMATION: _confirm(holder=2)}, ThresholdError, valid=0),
)
OF_CURATOR = (_tally("leaves a ballot out", "curator", {Kind.TALLY_REQUEST: _leave_out}, UnseenBallotError),)
OF_BOARD = (_tally("shows two boards", "the board", partial(_show_two_boards, TALLY), UnconfirmedError),)

ATTACKS = (*OF_VOTERS, *OF_HOLDERS, *OF_CURATOR, *OF_BOARD)
"""All attacks on the tally."""

_GIVER = DESCENT.liar
_OWN_STEP = _replaced(DESCENT, "its own step", lambda context, terms, honest: Announces(honest), absent=False)
_FROM_LIE: dict[str, dict[Kind, Lie]] = {
    "curator": {_STEP: _continue_from_lie},
    "holder 1": {Kind.PUBLISHED_SUM: _publish},
}

OF_GIVERS = (
    _descent("copies a ballot", _GIVER, _forge(DESCENT, "copy"), ProofError),
    _descent("makes a ballot of others", _GIVER, _forge(DESCENT, "inverse"), ProofError),
    _descent("answers twice", _GIVER, {Kind.BALLOT: _twice(DESCENT)}, DuplicateBallotError),
    _descent("announces steps", _GIVER, _OWN_STEP, UnexpectedMessageError),
)
OF_STEP_HOLDERS = (
    _descent("answers at random", "holder 1", _RANDOM, WrongPartialDecryptionError),
    _descent("shapes its answer", "holder 1", _SHAPED, WrongPartialDecryptionError),
    _descent("publishes another sum", "holder 1", {Kind.PUBLISHED_SUM: _publish}, HARMLESS),
    _descent("publishes in another's name", "holder 1", {Kind.PUBLISHED_SUM: _publish_for_another}, ThresholdError),
)
OF_STEP_CURATOR = (
    _descent("chooses its point", "curator", {_STEP: _announce(point=(9.0,) * FEATURES)}, UnexpectedMessageError),
    _descent("asks for the last step", "curator", {_STEP: _announce(step=STEPS)}, UnexpectedMessageError),
    _descent("asks twice", "curator", {_STEP: _announce_twice}, UnexpectedMessageError),
    _descent("asks under other terms", "curator", {_STEP: _announce_other_terms}, WrongRoundError),
    _descent("leaves a ballot out", "curator", {Kind.TALLY_REQUEST: _leave_out}, UnseenBallotError),
)
OF_ALL = (
    _descent("goes on from a lie", "curator", _lies(DESCENT, "goes on from a lie", _FROM_LIE), UnexpectedMessageError),
    _descent("shows two boards", "the board", partial(_show_two_boards, DESCENT), UnconfirmedError),
)

PSGD_ATTACKS = (*OF_GIVERS, *OF_STEP_HOLDERS, *OF_STEP_CURATOR, *OF_ALL)
"""All attacks on the descent."""

LIARS = attack_case("tally-liars", (OF_VOTERS, OF_HOLDERS, OF_VOTERS + OF_CURATOR, ATTACKS))
PSGD_LIARS = attack_case("psgd-liars", (OF_GIVERS, OF_STEP_HOLDERS, OF_GIVERS + OF_STEP_CURATOR, PSGD_ATTACKS))
