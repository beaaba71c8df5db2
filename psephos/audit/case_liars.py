"""The tally against roles that lie: five parties, three holders of whom two open, proofs and confirmations demanded.

A coalition here does what it likes, not what the protocol says. What it must not get is the vote of an honest party, a
sum that is not that of valid ballots, or away with it: whoever sent what should not be is named. Each strategy is tried
on the real roles, under a key of 512 bits; those of a coalition are its members' and those of all together. What
nobody thought of is not tried (docs/security/zero-knowledge.md and docs/security/board.md have the theorems).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.audit.adversary import Replacements, ScriptedRole, tampering
from psephos.audit.deviations import deviations
from psephos.audit.model import Case, Check, Coalition, Context, Result
from psephos.audit.settings import FixedVoter, Setting, cast, make_setting, round_of
from psephos.curator.tally import OpenedSum, Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.driver import Driver, MemoryMessageBoard, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Proofs, Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import PsephosError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.sharing import lagrange_numerators
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import BOARD, Entry, Post
from psephos.protocol.signing import SigningKey
from psephos.protocol.study.study import safe_confirmations
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.specs.tally import TallySpec

PARTIES, SAMPLES, CLASSES, KEY_BITS = 5, 20, 3, 512
LIAR = 4
"""The party that lies where one is enough."""

VOTE, SUM, NAME = "an honest party's vote", "a sum of other ballots", "who lied"
SECRETS = (VOTE, SUM, NAME)

Got = dict[str, str]
"""What a strategy achieved, of `SECRETS`, with the evidence; nothing, for a protocol that holds."""
Strategy = Callable[[Context], Got]


# -- the roles


def _setting(context: Context) -> Setting:
    return context.once("liars world", lambda: make_setting(context.coins("liars"), PARTIES, key_bits=KEY_BITS))


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
    return [cast(setting, round_, given, party, coins(party))[0] for party in range(PARTIES)]


def _sums(parties: Sequence[int]) -> tuple[int, ...]:
    """The counts of these parties' votes, in the clear."""
    votes = np.stack([(np.arange(SAMPLES) + party) % CLASSES for party in parties])
    return tuple(np.stack([(votes == k).sum(axis=0) for k in range(1, CLASSES)], axis=1).reshape(-1).tolist())


def _played(
    context: Context, round_: Round, ballots: Mapping[str, Sequence[bytes]], replacements: Replacements | None = None
) -> tuple[OpenedSum | None, list[PsephosError]]:
    """What is opened when these ballots are posted, and all that was refused; None when nothing is."""
    holders = [KeyHolder(share, round_) for share in _setting(context).ceremony.shares]
    roles = [*(ScriptedRole(name, *posts) for name, posts in ballots.items()), Tally(round_), *holders]
    return _ran(Driver(replace_roles(roles, replacements or {}), strict=False))


def _ran(driver: Driver) -> tuple[OpenedSum | None, list[PsephosError]]:
    failed: list[PsephosError] = []
    try:
        opened: OpenedSum | None = driver.run().get("curator")
    except PsephosError as error:
        opened, failed = None, [error]
    return opened, [*(refusal.error for _name, refusal in driver.refused), *failed]


def _judged(
    opened: OpenedSum | None, errors: Sequence[PsephosError], valid: Sequence[int], culprit: str, told: str
) -> Got:
    """Against a run in which `culprit` lied and the ballots of `valid` are the valid ones."""
    got: Got = {}
    if opened is not None and (opened.parties != tuple(valid) or opened.sums != _sums(valid)):
        got[SUM] = f"{told}: what was opened is not the sum of the ballots of parties {list(valid)}"
        got[VOTE] = got[SUM]
    if not any(culprit in str(error) for error in errors):
        got[NAME] = f"{told}: nobody says that {culprit} did it"
    return got


def _encoded(ballots: Sequence[Ballot]) -> dict[str, list[bytes]]:
    return {f"party {ballot.party}": [ballot.encode()] for ballot in ballots}


def _signed(context: Context, round_: Round, ciphertexts: Sequence[mpz], proof: bytes) -> bytes:
    """By the liar."""
    vector = EncryptedVector(round_.key, round_.plan, tuple(ciphertexts))
    return Ballot.sign(round_, LIAR, vector, _setting(context).ceremony.signing_keys[LIAR], proof).encode()


# -- parties


def _copies(context: Context) -> Got:
    """Party 0's ballot once more, re-randomised, with its proof: its vote would count twice."""
    round_ = _round(context, "copies")
    honest = _ballots(context, round_)
    zeros = Encryptor(round_.key, "full").encrypt([mpz(0)] * round_.plan.ciphertexts)
    modulus = round_.key.ciphertext_modulus
    copy = [c * z % modulus for c, z in zip(honest[0].ciphertexts, zeros, strict=True)]
    lie = {f"party {LIAR}": [_signed(context, round_, copy, honest[0].proof)]}
    opened, errors = _played(context, round_, _encoded(honest[:LIAR]) | lie)
    return _judged(opened, errors, range(LIAR), f"party {LIAR}", "a copied ballot")


def _isolates(context: Context) -> Got:
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
    opened, errors = _played(context, round_, _encoded(honest[:LIAR]) | lie)
    return _judged(opened, errors, range(LIAR), f"party {LIAR}", "a ballot made of others")


def _stuffs(context: Context, votes: int) -> Got:
    """More than one vote, or fewer than none, in the first slot."""
    round_ = _round(context, f"stuffs {votes}", "valid")
    honest = _ballots(context, round_)
    n, mine = round_.key.modulus, honest[LIAR]
    first = mine.ciphertexts[0] * (1 + votes % n * n) % round_.key.ciphertext_modulus
    lie = {f"party {LIAR}": [_signed(context, round_, [first, *mine.ciphertexts[1:]], mine.proof)]}
    opened, errors = _played(context, round_, _encoded(honest[:LIAR]) | lie)
    return _judged(opened, errors, range(LIAR), f"party {LIAR}", f"{votes:+} votes in one slot")


def _twice(context: Context) -> Got:
    """A second ballot by the same party, with another proof of the same."""
    round_ = _round(context, "twice")
    honest, again = _ballots(context, round_), _ballots(context, round_)[LIAR]
    cast_ = _encoded(honest)
    cast_[f"party {LIAR}"].append(again.encode() if again != honest[LIAR] else honest[LIAR].encode())
    opened, errors = _played(context, round_, cast_)
    return _judged(opened, errors, range(PARTIES), f"party {LIAR}", "a second ballot")


def _late(context: Context) -> Got:
    """A ballot after the end of the vote, before anybody opens."""
    round_ = _round(context, "late")
    honest = _ballots(context, round_)
    board = MemoryMessageBoard()
    for ballot in honest[:LIAR]:
        board.post(f"party {ballot.party}", Post(BOARD, ballot.encode()))
    board.post("curator", Post(BOARD, Close(round_.digest).encode()))
    board.post(f"party {LIAR}", Post(BOARD, honest[LIAR].encode()))
    holders = [KeyHolder(share, round_) for share in _setting(context).ceremony.shares]
    opened, errors = _ran(Driver([Tally(round_), *holders], board=board, strict=False))
    return _judged(opened, errors, range(LIAR), f"party {LIAR}", "a ballot after the close")


# -- holders


def _shapes(context: Context, how: Literal["random", "shaped"]) -> Got:
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
    opened, errors = _played(context, round_, _encoded(_ballots(context, round_)), replacements)
    return _judged(opened, errors, range(PARTIES), "holder 1", f"a {how} partial decryption")


def _confirms(context: Context, how: Literal["another product", "another holder"]) -> Got:
    """It confirms what nobody observed, or in the name of holder 2; all three must confirm the same."""
    round_ = _round(context, f"confirms {how}")

    def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
        try:
            said = Confirmation.decode(post.data, round_)
        except PsephosError:
            return [post]
        other = replace(said, holder=2) if how == "another holder" else replace(said, product_digest=bytes(32))
        return [replace(post, data=other.encode())]

    replacements = tampering(change, "holder 1")
    opened, errors = _played(context, round_, _encoded(_ballots(context, round_)), replacements)
    named = "holder 1 confirmed a product in the name" if how == "another holder" else "confirmed by holder 1"
    got = _judged(opened, errors, range(PARTIES), named, f"a confirmation of {how}")
    return got if opened is None else {**got, SUM: f"a confirmation of {how} was taken for one of this"}


# -- the curator, and a board


def _told(holder: KeyHolder, *said: tuple[str, bytes]) -> tuple[list[Post], list[PsephosError]]:
    """What a holder that is told these things, from these senders, says, and what it refuses."""
    entries = [Entry(number, sender, BOARD, data) for number, (sender, data) in enumerate(said, 1)]
    step = holder.receive(holder.start().state, entries)
    return list(step.posts), [refusal.error for refusal in step.refused]


def _request(round_: Round, ballots: Sequence[Ballot]) -> bytes:
    product, _ = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots)
    return TallyRequest(round_.digest, product.members, product.digest).encode(round_)


def _own_round(context: Context) -> Got:
    """A round of the curator's own, whose roster is its sybils, who post party 0's ciphertexts and proof."""
    round_ = _round(context, "own round")
    victim = _ballots(context, round_)[0]
    sybils = [SigningKey.generate(context.coins("sybil", number)) for number in range(3)]
    theirs = replace(round_, roster=tuple(key.verification_key for key in sybils), minimum_ballots=2, nonce=bytes(16))
    vector = EncryptedVector(theirs.key, theirs.plan, victim.ciphertexts)
    zeros = EncryptedVector(theirs.key, theirs.plan, (mpz(1),) * theirs.plan.ciphertexts)
    copies = [
        Ballot.sign(theirs, 0, vector, sybils[0], victim.proof),
        Ballot.sign(theirs, 1, zeros, sybils[1], victim.proof),
    ]
    product, rejections = BallotProduct(theirs).add_all(copy.encode() for copy in copies)
    if len(product) or len(rejections) != 2:
        return {VOTE: "party 0's ballot counts in a round of sybils", SUM: "sybils' ballots count", NAME: "nobody does"}
    # The holder watches the round of its study, which it derives itself: another round's messages are no messages.
    shown = [("party 0", victim.encode()), *(("sybil", copy.encode()) for copy in copies)]
    shown += [("curator", Close(theirs.digest).encode()), ("curator", _request(theirs, copies))]
    posts, errors = _told(KeyHolder(_setting(context).ceremony.shares[0], round_), *shown)
    return {VOTE: "a holder answers in a round of sybils"} if posts or len(errors) < 4 else {}


def _early(context: Context) -> Got:
    """Closed below the minimum; asked before anybody confirmed; asked for less than was observed."""
    round_ = _round(context, "early")
    honest = _ballots(context, round_)
    holder = partial(KeyHolder, _setting(context).ceremony.shares[0], round_)
    cast_ = [(f"party {b.party}", b.encode()) for b in honest]
    close = ("curator", Close(round_.digest).encode())
    for told, said in (
        ("closed below the minimum", [*cast_[:1], close]),
        ("asked without a close", [*cast_, ("curator", _request(round_, honest))]),
        ("asked before the confirmations", [*cast_, close, ("curator", _request(round_, honest))]),
        ("asked for all but one", [*cast_, close, ("curator", _request(round_, honest[:-1]))]),
        ("closed by a party", [*cast_, ("party 3", close[1])]),
    ):
        posts, errors = _told(holder(), *said)
        if any(Entry(0, "", "", post.data).kind.name == "PARTIAL_DECRYPTION" for post in posts) or not errors:
            if told == "asked before the confirmations" and errors:
                continue
            return {VOTE: f"{told}: a holder answers", SUM: told, NAME: told}
    return {}


def _two_boards(context: Context) -> Got:
    """The board shows holder 1 all ballots and holder 2 all but party 0's; holder 3 confirms whatever is wanted."""
    round_ = _round(context, "two boards")
    honest, opened = _ballots(context, round_), 0
    for number, shown in ((1, honest), (2, honest[1:])):
        product, _ = BallotProduct(round_).add_all(ballot.encode() for ballot in shown)
        said = [(f"party {b.party}", b.encode()) for b in shown]
        said += [("curator", Close(round_.digest).encode())]
        said += [(f"holder {j}", Confirmation(round_.digest, j, product.digest).encode()) for j in (number, 3)]
        said += [("curator", _request(round_, shown))]
        posts, errors = _told(KeyHolder(_setting(context).ceremony.shares[number - 1], round_), *said)
        opened += any(Entry(0, "", "", post.data).kind.name == "PARTIAL_DECRYPTION" for post in posts)
        if not any("confirmed" in str(error) for error in errors):
            return dict.fromkeys(SECRETS, f"holder {number} of two boards opens without enough confirmations")
    return dict.fromkeys(SECRETS, "holders of two boards open two products") if opened else {}


def _deviates(context: Context) -> Got:
    """Every request that would isolate votes, as in the semi-honest case, in a round with proofs."""

    def honest(label: str) -> tuple[Round, list[Ballot]]:
        round_ = replace(_round(context, label), confirmations=0)
        return round_, _ballots(context, round_)

    found = deviations(_setting(context), honest)
    return dict.fromkeys(SECRETS, found.evidence) if found.leaks else {}


PARTY: dict[str, Strategy] = {
    "copies a ballot": _copies,
    "makes a ballot of others": _isolates,
    "casts -1 votes": partial(_stuffs, votes=-1),
    "casts 2 votes": partial(_stuffs, votes=2),
    "casts 1000 votes": partial(_stuffs, votes=1000),
    "votes twice": _twice,
    "votes late": _late,
}
HOLDER: dict[str, Strategy] = {
    "answers at random": partial(_shapes, how="random"),
    "shapes its answer": partial(_shapes, how="shaped"),
    "confirms another product": partial(_confirms, how="another product"),
    "confirms in another's name": partial(_confirms, how="another holder"),
}
CURATOR: dict[str, Strategy] = {
    "opens a round of its own": _own_round,
    "opens early or less": _early,
    "asks for what isolates": _deviates,
}
BOARD_: dict[str, Strategy] = {"shows two boards": _two_boards}

COALITIONS: dict[str, tuple[tuple[str, ...], dict[str, Strategy]]] = {
    "lying parties": (("parties 1 to 4",), PARTY),
    "t - 1 lying holders": (("holder 3",), HOLDER),
    "lying curator and parties": (("curator", "parties 1 to 4"), PARTY | CURATOR),
    "lying curator, board, parties and t - 1 holders": (
        ("curator", "the board", "parties 1 to 4", "holder 3"),
        PARTY | HOLDER | CURATOR | BOARD_,
    ),
}


def liars_case(
    name: str,
    secrets: tuple[str, ...],
    coalitions: Mapping[str, tuple[tuple[str, ...], Mapping[str, Strategy]]],
    known_leaks: Mapping[str, dict[str, str]] = MappingProxyType({}),
) -> Case:
    """The case of coalitions, each its members and the strategies that are tried for it, with what is known to leak."""

    def tried(strategy: str, run: Strategy, context: Context) -> Result:
        got = context.once((name, strategy), lambda: run(context))
        told = "; ".join(dict.fromkeys(got.values()))
        return Result(bool(got), told or "tried, and got nothing of it")

    checks = (
        Check(f"{strategy}, {coalition}", coalition, secrets, partial(tried, strategy, run))
        for coalition, (_members, strategies) in coalitions.items()
        for strategy, run in strategies.items()
    )
    listed = (Coalition(c, who, known_leaks=dict(known_leaks.get(c, {}))) for c, (who, _) in coalitions.items())
    return Case(name, secrets, tuple(listed), tuple(checks))


LIARS = liars_case("tally-liars", SECRETS, COALITIONS)
