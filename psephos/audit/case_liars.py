"""Attacks on the tally: five parties, three holders of whom two open, with proofs and confirmations.

A coalition here deviates from the protocol. It must not gain the vote of an honest party or a sum other than that of
the valid ballots, and the sender of a wrong message must be named. Each attack is tried on the real roles, under a key
of 512 bits. A coalition makes the attacks of each of its members and those that need several of them. Only the attacks
listed here are tried; docs/security/proofs.md and docs/protocols/board.md have the theorems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.audit.adversary import Replacements, ScriptedRole, is_of_kind, tampering
from psephos.audit.attacks import Attack, AttackResult, attack_case
from psephos.audit.deviations import try_requests
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import AuditSetting, FixedVoter, cast_ballot, make_setting, round_of
from psephos.curator.tally import OpenedSum, Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.driver import Driver, MemoryMessageBoard, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Proofs, Round, safe_confirmations
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import (
    DuplicateBallotError,
    LateBallotError,
    ProofError,
    PsephosError,
    ThresholdError,
    UnconfirmedError,
    UnseenBallotError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.sharing import lagrange_numerators
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import BOARD, Entry, Post
from psephos.protocol.signing import SigningKey
from psephos.protocol.wire import Kind
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.specs.secrets import CULPRIT, OTHER_SUM, names_of
from psephos.specs.tally import HONEST_VOTE, TallySpec

PARTIES, SAMPLES, CLASSES, KEY_BITS = 5, 20, 3, 512
LIAR = 4
"""Number of the party that deviates."""

GAINS = (HONEST_VOTE, OTHER_SUM, CULPRIT)
VOTE, SUM, NAME = SECRETS = names_of(GAINS)

# -- rounds


def _setting(context: AnalysisContext) -> AuditSetting:
    return context.cached("liars setting", lambda: make_setting(context.coins("liars"), PARTIES, key_bits=KEY_BITS))


def _auxiliary() -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.arange(SAMPLES, dtype=np.float64)[:, None]


def _spec() -> TallySpec:
    return TallySpec(AuxiliarySet(_auxiliary()), CLASSES)


def _round(context: AnalysisContext, label: str, proofs: Proofs = "knowledge") -> Round:
    """Return a round as a study has it: with proofs, and as many confirmations as are safe."""
    coins, confirmations = context.coins("liars round", label), safe_confirmations(3, 2)
    return round_of(_setting(context), _spec(), coins, proofs=proofs, confirmations=confirmations)


def _ballots(context: AnalysisContext, round_: Round) -> list[Ballot]:
    """Return every party's honest ballot."""
    voters = [FixedVoter((np.arange(SAMPLES) + party) % CLASSES) for party in range(PARTIES)]
    factory, setting = PartyFactory(_spec(), voters), _setting(context)
    coins = partial(context.coins, "liars ballot", round_.digest.hex())
    return [cast_ballot(setting, round_, factory, party, coins(party))[0] for party in range(PARTIES)]


def _sums(parties: Sequence[int]) -> tuple[int, ...]:
    """Return the counts of these parties' votes, computed in the clear."""
    votes = np.stack([(np.arange(SAMPLES) + party) % CLASSES for party in parties])
    return tuple(np.stack([(votes == k).sum(axis=0) for k in range(1, CLASSES)], axis=1).reshape(-1).tolist())


def _run(
    context: AnalysisContext,
    round_: Round,
    ballots: Mapping[str, Sequence[bytes]],
    replacements: Replacements | None = None,
) -> tuple[OpenedSum | None, tuple[PsephosError, ...]]:
    """Post ballots and run the curator and the holders."""
    holders = [KeyHolder(share, round_) for share in _setting(context).ceremony.shares]
    roles = [*(ScriptedRole(name, *posts) for name, posts in ballots.items()), Tally(round_), *holders]
    return _drive(Driver(replace_roles(roles, replacements or {}), strict=False))


def _drive(driver: Driver) -> tuple[OpenedSum | None, tuple[PsephosError, ...]]:
    """Run a driver; the result is as of `_run`."""
    opened: OpenedSum | None = None
    final: list[PsephosError] = []
    try:
        opened = driver.run().get("curator")
    except PsephosError as error:
        final = [error]
    return opened, (*(refusal.error for _name, refusal in driver.refused), *final)


def _judge(
    opened: OpenedSum | None, errors: tuple[PsephosError, ...], valid: Sequence[int], culprit: str, what: str
) -> AttackResult:
    """Return what a coalition gained in a run."""
    gains: dict[str, str] = {}
    if opened is not None and (opened.parties != tuple(valid) or opened.sums != _sums(valid)):
        gains[SUM] = f"{what}: what was opened is not the sum of the ballots of parties {list(valid)}"
        gains[VOTE] = gains[SUM]
    if not any(culprit in str(error) for error in errors):
        gains[NAME] = f"{what}: no error names {culprit}"
    return AttackResult(gains, errors)


def _encoded(ballots: Sequence[Ballot]) -> dict[str, list[bytes]]:
    """Return the messages of each party: its ballot."""
    return {f"party {ballot.party}": [ballot.encode()] for ballot in ballots}


def _signed(context: AnalysisContext, round_: Round, ciphertexts: Sequence[mpz], proof: bytes) -> bytes:
    """Return a ballot that the deviating party signs."""
    vector = EncryptedVector(round_.key, round_.plan, tuple(ciphertexts))
    return Ballot.sign(round_, LIAR, vector, _setting(context).ceremony.signing_keys[LIAR], proof).encode()


# -- parties


def _copy_ballot(context: AnalysisContext) -> AttackResult:
    """Post the ballot of party 0 once more, re-randomised, with its proof, so that its vote would count twice."""
    round_ = _round(context, "copies")
    honest = _ballots(context, round_)
    zeros = Encryptor(round_.key, "full").encrypt([mpz(0)] * round_.plan.ciphertexts)
    modulus = round_.key.ciphertext_modulus
    copy = [c * z % modulus for c, z in zip(honest[0].ciphertexts, zeros, strict=True)]
    lie = {f"party {LIAR}": [_signed(context, round_, copy, honest[0].proof)]}
    opened, errors = _run(context, round_, _encoded(honest[:LIAR]) | lie)
    return _judge(opened, errors, range(LIAR), f"party {LIAR}", "a copied ballot")


def _combine_ballots(context: AnalysisContext) -> AttackResult:
    """Post a vote times the inverses of the ballots of parties 1 to 3, so that the sum would show party 0's votes."""
    round_ = _round(context, "isolates")
    honest = _ballots(context, round_)
    modulus, mine = round_.key.ciphertext_modulus, honest[LIAR]
    columns = []
    for c, *others in zip(mine.ciphertexts, *(ballot.ciphertexts for ballot in honest[1:LIAR]), strict=True):
        for other in others:
            c = c * gmpy2.invert(other, modulus) % modulus
        columns.append(c)
    lie = {f"party {LIAR}": [_signed(context, round_, columns, mine.proof)]}
    opened, errors = _run(context, round_, _encoded(honest[:LIAR]) | lie)
    return _judge(opened, errors, range(LIAR), f"party {LIAR}", "a ballot made of others")


def _cast_votes(context: AnalysisContext, votes: int) -> AttackResult:
    """Add `votes`, which may be negative, to the first slot of a ballot."""
    round_ = _round(context, f"stuffs {votes}", "valid")
    honest = _ballots(context, round_)
    n, mine = round_.key.modulus, honest[LIAR]
    first = mine.ciphertexts[0] * (1 + votes % n * n) % round_.key.ciphertext_modulus
    lie = {f"party {LIAR}": [_signed(context, round_, [first, *mine.ciphertexts[1:]], mine.proof)]}
    opened, errors = _run(context, round_, _encoded(honest[:LIAR]) | lie)
    return _judge(opened, errors, range(LIAR), f"party {LIAR}", f"{votes:+} votes in one slot")


def _vote_twice(context: AnalysisContext) -> AttackResult:
    """Post a second ballot of the same party, with another proof."""
    round_ = _round(context, "twice")
    honest, second = _ballots(context, round_), _ballots(context, round_)[LIAR]
    messages = _encoded(honest)
    messages[f"party {LIAR}"].append(second.encode())
    opened, errors = _run(context, round_, messages)
    return _judge(opened, errors, range(PARTIES), f"party {LIAR}", "a second ballot")


def _vote_late(context: AnalysisContext) -> AttackResult:
    """Post a ballot after the close and before the opening."""
    round_ = _round(context, "late")
    honest = _ballots(context, round_)
    board = MemoryMessageBoard()
    for ballot in honest[:LIAR]:
        board.post(f"party {ballot.party}", Post(BOARD, ballot.encode()))
    board.post("curator", Post(BOARD, Close(round_.digest).encode()))
    board.post(f"party {LIAR}", Post(BOARD, honest[LIAR].encode()))
    holders = [KeyHolder(share, round_) for share in _setting(context).ceremony.shares]
    opened, errors = _drive(Driver([Tally(round_), *holders], board=board, strict=False))
    return _judge(opened, errors, range(LIAR), f"party {LIAR}", "a ballot after the close")


# -- holders


def _send_wrong_share(context: AnalysisContext, how: Literal["random", "shaped"]) -> AttackResult:
    """Send a wrong partial decryption: a random one, or one that with holder 2's opens to two votes more."""
    round_ = _round(context, f"shapes {how}")
    key, n = round_.threshold_key, round_.key.modulus
    factor = mpz(4)
    if how == "shaped":
        lagrange = lagrange_numerators([1, 2], key.holders)[1]
        factor = 1 + 4 * mpz(key.delta) ** 3 * key.theta * gmpy2.invert(lagrange, n) % n * n

    def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
        try:
            part = PartialDecryption.decode(post.data, round_)
        except PsephosError:
            return [post]
        values = (part.values[0] * factor % round_.key.ciphertext_modulus, *part.values[1:])
        return [replace(post, data=replace(part, values=values).encode(round_))]

    replacements = tampering(change, "holder 1")
    opened, errors = _run(context, round_, _encoded(_ballots(context, round_)), replacements)
    return _judge(opened, errors, range(PARTIES), "holder 1", f"a {how} partial decryption")


def _confirm_wrongly(context: AnalysisContext, how: Literal["another product", "another holder"]) -> AttackResult:
    """Confirm a product that nobody observed, or confirm in the name of holder 2."""
    round_ = _round(context, f"confirms {how}")

    def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
        try:
            confirmation = Confirmation.decode(post.data, round_)
        except PsephosError:
            return [post]
        if how == "another holder":
            wrong = replace(confirmation, holder=2)
        else:
            wrong = replace(confirmation, product_digest=bytes(32))
        return [replace(post, data=wrong.encode())]

    replacements = tampering(change, "holder 1")
    opened, errors = _run(context, round_, _encoded(_ballots(context, round_)), replacements)
    message = "holder 1 confirmed a product in the name" if how == "another holder" else "confirmed by holder 1"
    result = _judge(opened, errors, range(PARTIES), message, f"a confirmation of {how}")
    if opened is None:
        return result
    return AttackResult({**result.gains, SUM: f"a confirmation of {how} counted as one of this"}, errors)


# -- the curator, and a board


def _show(holder: KeyHolder, *messages: tuple[str, bytes]) -> tuple[list[Post], list[PsephosError]]:
    """Show a holder messages with their senders; return what it sends and what it refuses."""
    entries = [Entry(number, sender, BOARD, data) for number, (sender, data) in enumerate(messages, 1)]
    step = holder.receive(holder.start().state, entries)
    return list(step.posts), [refusal.error for refusal in step.refused]


def _request(round_: Round, ballots: Sequence[Ballot]) -> bytes:
    product, _ = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots)
    return TallyRequest(round_.digest, product.members, product.digest).encode(round_)


def _opens(posts: Sequence[Post]) -> bool:
    """Return whether a partial decryption is among these messages."""
    return any(is_of_kind(post, Kind.PARTIAL_DECRYPTION) for post in posts)


def _open_own_round(context: AnalysisContext) -> AttackResult:
    """Start a round with a roster of the curator's own keys (sybils), who post the ciphertexts and proof of party 0."""
    round_ = _round(context, "own round")
    victim = _ballots(context, round_)[0]
    sybils = [SigningKey.generate(context.coins("sybil", number)) for number in range(3)]
    roster = tuple(key.verification_key for key in sybils)
    own = replace(round_, roster=roster, minimum_ballots=2, nonce=bytes(16))
    vector = EncryptedVector(own.key, own.plan, victim.ciphertexts)
    zeros = EncryptedVector(own.key, own.plan, (mpz(1),) * own.plan.ciphertexts)
    copies = [
        Ballot.sign(own, 0, vector, sybils[0], victim.proof),
        Ballot.sign(own, 1, zeros, sybils[1], victim.proof),
    ]
    product, rejections = BallotProduct(own).add_all(copy.encode() for copy in copies)
    rejected = tuple(rejection.error for rejection in rejections)
    if len(product) or len(rejections) != 2:
        gains = {VOTE: "party 0's ballot counts in a round of sybils", SUM: "sybils' ballots count", NAME: "no error"}
        return AttackResult(gains, rejected)
    # The holder derives the round from its study, and refuses messages of any other.
    messages = [("party 0", victim.encode()), *(("sybil", copy.encode()) for copy in copies)]
    messages += [("curator", Close(own.digest).encode()), ("curator", _request(own, copies))]
    posts, errors = _show(KeyHolder(_setting(context).ceremony.shares[0], round_), *messages)
    answered = {VOTE: "a holder answers in a round of sybils"} if posts or len(errors) < 4 else {}
    return AttackResult(answered, (*rejected, *errors))


def _open_early(context: AnalysisContext) -> AttackResult:
    """Close below the minimum, request before the confirmations, and request less than was observed."""
    round_ = _round(context, "early")
    honest = _ballots(context, round_)
    messages_of_parties = [(f"party {b.party}", b.encode()) for b in honest]
    close = ("curator", Close(round_.digest).encode())
    attempts = {
        "closed below the minimum": [*messages_of_parties[:1], close],
        "asked without a close": [*messages_of_parties, ("curator", _request(round_, honest))],
        "asked before the confirmations": [*messages_of_parties, close, ("curator", _request(round_, honest))],
        "asked for all but one": [*messages_of_parties, close, ("curator", _request(round_, honest[:-1]))],
        "closed by a party": [*messages_of_parties, ("party 3", close[1])],
    }
    refused: list[PsephosError] = []
    for what, messages in attempts.items():
        posts, errors = _show(KeyHolder(_setting(context).ceremony.shares[0], round_), *messages)
        refused += errors
        if _opens(posts) or not errors:
            return AttackResult({VOTE: f"{what}: a holder answers", SUM: what, NAME: what}, tuple(refused))
    return AttackResult(errors=tuple(refused))


def _show_two_boards(context: AnalysisContext) -> AttackResult:
    """Show holder 1 all ballots and holder 2 all but that of party 0; holder 3 confirms both products."""
    round_ = _round(context, "two boards")
    honest, opened = _ballots(context, round_), 0
    refused: list[PsephosError] = []
    for number, ballots in ((1, honest), (2, honest[1:])):
        product, _ = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots)
        messages = [(f"party {b.party}", b.encode()) for b in ballots]
        messages += [("curator", Close(round_.digest).encode())]
        messages += [(f"holder {j}", Confirmation(round_.digest, j, product.digest).encode()) for j in (number, 3)]
        messages += [("curator", _request(round_, ballots))]
        posts, errors = _show(KeyHolder(_setting(context).ceremony.shares[number - 1], round_), *messages)
        opened += _opens(posts)
        refused += errors
        if not any(isinstance(error, UnconfirmedError) for error in errors):
            evidence = f"holder {number} of two boards opens without enough confirmations"
            return AttackResult(dict.fromkeys(SECRETS, evidence), tuple(refused))
    gains = dict.fromkeys(SECRETS, "holders of two boards open two products") if opened else {}
    return AttackResult(gains, tuple(refused))


def _send_requests(context: AnalysisContext) -> AttackResult:
    """Send every request of `deviations`, each of which would isolate votes, in a round with proofs."""

    def honest(label: str) -> tuple[Round, list[Ballot]]:
        round_ = replace(_round(context, label), confirmations=0)
        return round_, _ballots(context, round_)

    results = try_requests(_setting(context), honest)
    answered = [f"{name}: not refused" for name, result in results.items() if result.gains]
    errors = tuple(error for result in results.values() for error in result.errors)
    return AttackResult(dict.fromkeys(SECRETS, "; ".join(answered)) if answered else {}, errors)


_PARTY, _HOLDER, _CURATOR, _BOARD = (f"party {LIAR}",), ("holder 1",), ("curator",), ("the board", "holder 3")

_attack = partial(Attack, secrets=GAINS)

OF_PARTIES = (
    _attack("copies a ballot", _PARTY, _copy_ballot, ProofError),
    _attack("makes a ballot of others", _PARTY, _combine_ballots, ProofError),
    _attack("casts -1 votes", _PARTY, partial(_cast_votes, votes=-1), ProofError),
    _attack("casts 2 votes", _PARTY, partial(_cast_votes, votes=2), ProofError),
    _attack("casts 1000 votes", _PARTY, partial(_cast_votes, votes=1000), ProofError),
    _attack("votes twice", _PARTY, _vote_twice, DuplicateBallotError),
    _attack("votes late", _PARTY, _vote_late, LateBallotError),
)
OF_HOLDERS = (
    _attack("answers at random", _HOLDER, partial(_send_wrong_share, how="random"), WrongPartialDecryptionError),
    _attack("shapes its answer", _HOLDER, partial(_send_wrong_share, how="shaped"), WrongPartialDecryptionError),
    _attack("confirms another product", _HOLDER, partial(_confirm_wrongly, how="another product"), UnconfirmedError),
    _attack("confirms in another's name", _HOLDER, partial(_confirm_wrongly, how="another holder"), ThresholdError),
)
OF_CURATOR = (
    _attack("opens a round of its own", _CURATOR, _open_own_round, WrongRoundError),
    _attack("opens early or less", _CURATOR, _open_early, UnconfirmedError),
    _attack("asks for what isolates", _CURATOR, _send_requests, UnseenBallotError),
)
OF_BOARD = (_attack("shows two boards", _BOARD, _show_two_boards, UnconfirmedError),)

ATTACKS = (*OF_PARTIES, *OF_HOLDERS, *OF_CURATOR, *OF_BOARD)
"""All attacks on the tally."""

LIARS = attack_case("tally-liars", (OF_PARTIES, OF_HOLDERS, OF_PARTIES + OF_CURATOR, ATTACKS))
