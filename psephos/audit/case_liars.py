"""Attacks on the tally: five parties, three holders of whom two open, proofs and confirmations demanded.

A coalition here does not follow the protocol. It must not gain the vote of an honest party or a sum that is not that of
valid ballots, and whoever sends a wrong message must be named. Each attack is tried on the real roles, under a key of
512 bits. A coalition can make the attacks of its members and those that need all of them. An attack that is not listed
is not tried; docs/security/proofs.md and docs/protocols/board.md have the theorems.
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
from psephos.audit.model import Coalition, Context
from psephos.audit.settings import AuditSetting, FixedVoter, cast_ballot, make_setting, round_of
from psephos.curator.tally import OpenedSum, Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.driver import Driver, MemoryMessageBoard, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Proofs, Round
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
from psephos.protocol.study.study import safe_confirmations
from psephos.protocol.wire import Kind
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.specs.secrets import CULPRIT, OTHER_SUM, names_of
from psephos.specs.tally import HONEST_VOTE, TallySpec

PARTIES, SAMPLES, CLASSES, KEY_BITS = 5, 20, 3, 512
LIAR = 4
"""The party that lies where one is enough."""

GAINS = (HONEST_VOTE, OTHER_SUM, CULPRIT)
VOTE, SUM, NAME = SECRETS = names_of(GAINS)

# -- rounds


def _setting(context: Context) -> AuditSetting:
    return context.cached("liars world", lambda: make_setting(context.coins("liars"), PARTIES, key_bits=KEY_BITS))


def _auxiliary() -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.arange(SAMPLES, dtype=np.float64)[:, None]


def _spec() -> TallySpec:
    return TallySpec(AuxiliarySet(_auxiliary()), CLASSES)


def _round(context: Context, label: str, proofs: Proofs = "knowledge") -> Round:
    """As a study has them: proofs, and as many confirmations as are safe."""
    coins, confirmations = context.coins("liars round", label), safe_confirmations(3, 2)
    return round_of(_setting(context), _spec(), coins, proofs=proofs, confirmations=confirmations)


def _ballots(context: Context, round_: Round) -> list[Ballot]:
    """Every party's honest ballot."""
    voters = [FixedVoter((np.arange(SAMPLES) + party) % CLASSES) for party in range(PARTIES)]
    given, setting = PartyFactory(_spec(), voters), _setting(context)
    coins = partial(context.coins, "liars ballot", round_.digest.hex())
    return [cast_ballot(setting, round_, given, party, coins(party))[0] for party in range(PARTIES)]


def _sums(parties: Sequence[int]) -> tuple[int, ...]:
    """The counts of these parties' votes, in the clear."""
    votes = np.stack([(np.arange(SAMPLES) + party) % CLASSES for party in parties])
    return tuple(np.stack([(votes == k).sum(axis=0) for k in range(1, CLASSES)], axis=1).reshape(-1).tolist())


def _run(
    context: Context, round_: Round, ballots: Mapping[str, Sequence[bytes]], replacements: Replacements | None = None
) -> tuple[OpenedSum | None, tuple[PsephosError, ...]]:
    """Post ballots and run the curator and the holders.

    Returns:
        What is opened, None when nothing is, and the errors: what was refused, and what ended the run.
    """
    holders = [KeyHolder(share, round_) for share in _setting(context).ceremony.shares]
    roles = [*(ScriptedRole(name, *posts) for name, posts in ballots.items()), Tally(round_), *holders]
    return _drive(Driver(replace_roles(roles, replacements or {}), strict=False))


def _drive(driver: Driver) -> tuple[OpenedSum | None, tuple[PsephosError, ...]]:
    opened: OpenedSum | None = None
    ended: list[PsephosError] = []
    try:
        opened = driver.run().get("curator")
    except PsephosError as error:
        ended = [error]
    return opened, (*(refusal.error for _name, refusal in driver.refused), *ended)


def _judge(
    opened: OpenedSum | None, errors: tuple[PsephosError, ...], valid: Sequence[int], culprit: str, what: str
) -> AttackResult:
    """Compare a run in which `culprit` lied with the sum of the ballots of `valid`, the valid ones.

    Args:
        what: the lie, for the evidence.
    """
    gains: dict[str, str] = {}
    if opened is not None and (opened.parties != tuple(valid) or opened.sums != _sums(valid)):
        gains[SUM] = f"{what}: what was opened is not the sum of the ballots of parties {list(valid)}"
        gains[VOTE] = gains[SUM]
    if not any(culprit in str(error) for error in errors):
        gains[NAME] = f"{what}: no error names {culprit}"
    return AttackResult(gains, errors)


def _encoded(ballots: Sequence[Ballot]) -> dict[str, list[bytes]]:
    return {f"party {ballot.party}": [ballot.encode()] for ballot in ballots}


def _signed(context: Context, round_: Round, ciphertexts: Sequence[mpz], proof: bytes) -> bytes:
    """Return a ballot signed by the liar."""
    vector = EncryptedVector(round_.key, round_.plan, tuple(ciphertexts))
    return Ballot.sign(round_, LIAR, vector, _setting(context).ceremony.signing_keys[LIAR], proof).encode()


# -- parties


def _copies(context: Context) -> AttackResult:
    """Party 0's ballot once more, re-randomised, with its proof: its vote would count twice."""
    round_ = _round(context, "copies")
    honest = _ballots(context, round_)
    zeros = Encryptor(round_.key, "full").encrypt([mpz(0)] * round_.plan.ciphertexts)
    modulus = round_.key.ciphertext_modulus
    copy = [c * z % modulus for c, z in zip(honest[0].ciphertexts, zeros, strict=True)]
    lie = {f"party {LIAR}": [_signed(context, round_, copy, honest[0].proof)]}
    opened, errors = _run(context, round_, _encoded(honest[:LIAR]) | lie)
    return _judge(opened, errors, range(LIAR), f"party {LIAR}", "a copied ballot")


def _isolates(context: Context) -> AttackResult:
    """The inverse of parties 1 to 3 times an own vote: the opened sum would be party 0's ballot and that."""
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


def _stuffs(context: Context, votes: int) -> AttackResult:
    """More than one vote, or fewer than none, in the first slot."""
    round_ = _round(context, f"stuffs {votes}", "valid")
    honest = _ballots(context, round_)
    n, mine = round_.key.modulus, honest[LIAR]
    first = mine.ciphertexts[0] * (1 + votes % n * n) % round_.key.ciphertext_modulus
    lie = {f"party {LIAR}": [_signed(context, round_, [first, *mine.ciphertexts[1:]], mine.proof)]}
    opened, errors = _run(context, round_, _encoded(honest[:LIAR]) | lie)
    return _judge(opened, errors, range(LIAR), f"party {LIAR}", f"{votes:+} votes in one slot")


def _twice(context: Context) -> AttackResult:
    """A second ballot by the same party, with another proof of the same."""
    round_ = _round(context, "twice")
    honest, again = _ballots(context, round_), _ballots(context, round_)[LIAR]
    posted = _encoded(honest)
    posted[f"party {LIAR}"].append(again.encode() if again != honest[LIAR] else honest[LIAR].encode())
    opened, errors = _run(context, round_, posted)
    return _judge(opened, errors, range(PARTIES), f"party {LIAR}", "a second ballot")


def _late(context: Context) -> AttackResult:
    """A ballot after the end of the vote, before anybody opens."""
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


def _shapes(context: Context, how: Literal["random", "shaped"]) -> AttackResult:
    """A wrong answer, at random; or shaped so that with holder 2's it opens to two votes more than were cast."""
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


def _confirms(context: Context, how: Literal["another product", "another holder"]) -> AttackResult:
    """It confirms what nobody observed, or in the name of holder 2; all three must confirm the same."""
    round_ = _round(context, f"confirms {how}")

    def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
        try:
            confirmation = Confirmation.decode(post.data, round_)
        except PsephosError:
            return [post]
        if how == "another holder":
            lie = replace(confirmation, holder=2)
        else:
            lie = replace(confirmation, product_digest=bytes(32))
        return [replace(post, data=lie.encode())]

    replacements = tampering(change, "holder 1")
    opened, errors = _run(context, round_, _encoded(_ballots(context, round_)), replacements)
    named = "holder 1 confirmed a product in the name" if how == "another holder" else "confirmed by holder 1"
    result = _judge(opened, errors, range(PARTIES), named, f"a confirmation of {how}")
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
    """Whether a partial decryption is among these messages."""
    return any(is_of_kind(post, Kind.PARTIAL_DECRYPTION) for post in posts)


def _own_round(context: Context) -> AttackResult:
    """A round of the curator's own, whose roster is its sybils, who post party 0's ciphertexts and proof."""
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
    # The holder follows the round of its study, which it derives itself, and refuses messages of another round.
    messages = [("party 0", victim.encode()), *(("sybil", copy.encode()) for copy in copies)]
    messages += [("curator", Close(own.digest).encode()), ("curator", _request(own, copies))]
    posts, errors = _show(KeyHolder(_setting(context).ceremony.shares[0], round_), *messages)
    answered = {VOTE: "a holder answers in a round of sybils"} if posts or len(errors) < 4 else {}
    return AttackResult(answered, (*rejected, *errors))


def _early(context: Context) -> AttackResult:
    """Closed below the minimum; asked before anybody confirmed; asked for less than was observed."""
    round_ = _round(context, "early")
    honest = _ballots(context, round_)
    posted = [(f"party {b.party}", b.encode()) for b in honest]
    close = ("curator", Close(round_.digest).encode())
    tries = {
        "closed below the minimum": [*posted[:1], close],
        "asked without a close": [*posted, ("curator", _request(round_, honest))],
        "asked before the confirmations": [*posted, close, ("curator", _request(round_, honest))],
        "asked for all but one": [*posted, close, ("curator", _request(round_, honest[:-1]))],
        "closed by a party": [*posted, ("party 3", close[1])],
    }
    refused: list[PsephosError] = []
    for what, messages in tries.items():
        posts, errors = _show(KeyHolder(_setting(context).ceremony.shares[0], round_), *messages)
        refused += errors
        if _opens(posts) or not errors:
            return AttackResult({VOTE: f"{what}: a holder answers", SUM: what, NAME: what}, tuple(refused))
    return AttackResult(errors=tuple(refused))


def _two_boards(context: Context) -> AttackResult:
    """The board shows holder 1 all ballots and holder 2 all but party 0's; holder 3 confirms whatever is wanted."""
    round_ = _round(context, "two boards")
    honest, opened = _ballots(context, round_), 0
    refused: list[PsephosError] = []
    for number, shown in ((1, honest), (2, honest[1:])):
        product, _ = BallotProduct(round_).add_all(ballot.encode() for ballot in shown)
        messages = [(f"party {b.party}", b.encode()) for b in shown]
        messages += [("curator", Close(round_.digest).encode())]
        messages += [(f"holder {j}", Confirmation(round_.digest, j, product.digest).encode()) for j in (number, 3)]
        messages += [("curator", _request(round_, shown))]
        posts, errors = _show(KeyHolder(_setting(context).ceremony.shares[number - 1], round_), *messages)
        opened += _opens(posts)
        refused += errors
        if not any(isinstance(error, UnconfirmedError) for error in errors):
            evidence = f"holder {number} of two boards opens without enough confirmations"
            return AttackResult(dict.fromkeys(SECRETS, evidence), tuple(refused))
    gains = dict.fromkeys(SECRETS, "holders of two boards open two products") if opened else {}
    return AttackResult(gains, tuple(refused))


def _requests(context: Context) -> AttackResult:
    """Every request that would isolate votes, as in the semi-honest case, in a round with proofs."""

    def honest(label: str) -> tuple[Round, list[Ballot]]:
        round_ = replace(_round(context, label), confirmations=0)
        return round_, _ballots(context, round_)

    results = try_requests(_setting(context), honest)
    gained = [f"{name}: not refused" for name, result in results.items() if result.gains]
    errors = tuple(error for result in results.values() for error in result.errors)
    return AttackResult(dict.fromkeys(SECRETS, "; ".join(gained)) if gained else {}, errors)


_PARTY, _HOLDER, _CURATOR, _BOARD = (f"party {LIAR}",), ("holder 1",), ("curator",), ("the board", "holder 3")

_attack = partial(Attack, secrets=GAINS)

OF_PARTIES = (
    _attack("copies a ballot", _PARTY, _copies, ProofError),
    _attack("makes a ballot of others", _PARTY, _isolates, ProofError),
    _attack("casts -1 votes", _PARTY, partial(_stuffs, votes=-1), ProofError),
    _attack("casts 2 votes", _PARTY, partial(_stuffs, votes=2), ProofError),
    _attack("casts 1000 votes", _PARTY, partial(_stuffs, votes=1000), ProofError),
    _attack("votes twice", _PARTY, _twice, DuplicateBallotError),
    _attack("votes late", _PARTY, _late, LateBallotError),
)
OF_HOLDERS = (
    _attack("answers at random", _HOLDER, partial(_shapes, how="random"), WrongPartialDecryptionError),
    _attack("shapes its answer", _HOLDER, partial(_shapes, how="shaped"), WrongPartialDecryptionError),
    _attack("confirms another product", _HOLDER, partial(_confirms, how="another product"), UnconfirmedError),
    _attack("confirms in another's name", _HOLDER, partial(_confirms, how="another holder"), ThresholdError),
)
OF_CURATOR = (
    _attack("opens a round of its own", _CURATOR, _own_round, WrongRoundError),
    _attack("opens early or less", _CURATOR, _early, UnconfirmedError),
    _attack("asks for what isolates", _CURATOR, _requests, UnseenBallotError),
)
OF_BOARD = (_attack("shows two boards", _BOARD, _two_boards, UnconfirmedError),)

ATTACKS = (*OF_PARTIES, *OF_HOLDERS, *OF_CURATOR, *OF_BOARD)
"""All attacks on the tally."""

LIARS = attack_case(
    "tally-liars",
    (
        (Coalition("lying parties", ("parties 1 to 4",)), OF_PARTIES),
        (Coalition("t - 1 lying holders", ("holder 3",)), OF_HOLDERS),
        (Coalition("lying curator and parties", ("curator", "parties 1 to 4")), OF_PARTIES + OF_CURATOR),
        (
            Coalition(
                "lying curator, board, parties and t - 1 holders",
                ("curator", "the board", "parties 1 to 4", "holder 3"),
            ),
            ATTACKS,
        ),
    ),
)
