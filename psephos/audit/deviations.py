"""Requests of a curator that deviates from an encrypted sum, tried on the real roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from psephos.audit.attacks import Attack, AttackResult
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import AuditSetting
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.messages import Ballot, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    AlreadyOpenedError,
    DuplicateBallotError,
    ForgedSignatureError,
    PsephosError,
    TooFewBallotsError,
    UnseenBallotError,
    WrongRoundError,
)
from psephos.protocol.paillier.ciphertexts import add_ciphertexts, encode_ciphertexts
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import BOARD, Entry
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.specs.secrets import OTHER_SUM

Request = tuple[Round, Sequence[Ballot], TallyRequest | None]
"""The round of holder 1, the ballots that it is shown, and what it is asked to open, if anything."""


def request_for(round_: Round, ballots: Sequence[Ballot]) -> TallyRequest:
    """Return a request to open the product of these ballots, whatever the minimum of the round is."""
    product, rejections = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots)
    for rejection in rejections:
        raise rejection.error
    return TallyRequest(round_.digest, product.members, product.digest)


def _accepts(setting: AuditSetting, request: Request, ledger: OnceLedger | None = None) -> bool:
    """Return whether holder 1 takes these ballots and answers the request; raises the error of a refusal."""
    round_, ballots, asked = request
    holder = KeyHolder(setting.ceremony.shares[0], round_, openings=ledger)
    entries = [Entry(0, "curator", BOARD, ballot.encode()) for ballot in ballots]
    if asked is not None:
        entries.append(Entry(0, "curator", holder.name, asked.encode(round_)))
    step = holder.start()
    for entry in entries:
        step = holder.receive(step.state, [entry])
        for refusal in step.refused:
            raise refusal.error
    return asked is None or bool(step.posts)


def _too_few_counted(setting: AuditSetting, round_: Round, ballots: Sequence[Ballot]) -> bool:
    seen, _ = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots[: round_.minimum_ballots - 1])
    curator = Tally(round_, seen=seen)
    return curator.on_idle(curator.start().state) is not None


def _again(setting: AuditSetting, round_: Round, ballots: Sequence[Ballot]) -> bool:
    """Restart a holder that has opened the product, and request another one with a second ballot of the last party."""
    openings, last = OnceLedger(), ballots[-1]
    _accepts(setting, (round_, ballots, request_for(round_, ballots)), openings)
    ciphertexts = tuple(c * (1 + round_.key.modulus) % round_.key.ciphertext_modulus for c in last.ciphertexts)
    vector = EncryptedVector(round_.key, round_.plan, ciphertexts)
    signing_key = setting.ceremony.signing_keys[last.party]
    second = [*ballots[:-1], Ballot.sign(round_, last.party, vector, signing_key, last.proof)]
    return _accepts(setting, (round_, second, request_for(round_, second)), openings)


def _one_for_all(round_: Round, ballots: Sequence[Ballot]) -> Request:
    everyone = sum(1 << b.party for b in ballots)
    return round_, ballots, replace(request_for(round_, ballots[:1]), members=everyone)


def _changed_payload(round_: Round, ballots: Sequence[Ballot]) -> Request:
    """Multiply the inverse of one ballot into another, without changing the other's signature."""
    key = round_.key
    inverse = tuple(pow(c, -1, key.ciphertext_modulus) for c in ballots[0].ciphertexts)
    payload = encode_ciphertexts(key, add_ciphertexts(key, ballots[1].ciphertexts, inverse))
    proof = ballots[1].payload[len(payload) :]
    return round_, [replace(ballots[1], payload=payload + proof)], None


def _replayed(round_: Round, ballots: Sequence[Ballot]) -> Request:
    second = replace(round_, nonce=bytes(16))
    return second, [replace(ballots[0], round_digest=second.digest)], None


def _few(round_: Round, ballots: Sequence[Ballot]) -> Request:
    few = ballots[: round_.minimum_ballots - 1]
    return round_, few, request_for(round_, few)


REQUESTS: dict[str, tuple[Callable[[Round, Sequence[Ballot]], Request], type[PsephosError]]] = {
    "open one ballot": (lambda r, b: (r, b, request_for(r, b[:1])), UnseenBallotError),
    "open all but one ballot": (lambda r, b: (r, b, request_for(r, b[:-1])), UnseenBallotError),
    "open another product than the ballots'": (_one_for_all, UnseenBallotError),
    "open a product with a ballot the holder has not seen": (
        lambda r, b: (r, b[:-1], request_for(r, b)),
        UnseenBallotError,
    ),
    "open fewer ballots than the minimum": (_few, TooFewBallotsError),
    "open for another round": (
        lambda r, b: (r, b, replace(request_for(r, b), round_digest=bytes(32))),
        WrongRoundError,
    ),
    "count a ballot signed by nobody on the roster": (
        lambda r, b: (r, [replace(b[1], signature=SigningKey.generate().sign(b"anything"))], None),
        ForgedSignatureError,
    ),
    "count a ballot changed after signing": (_changed_payload, ForgedSignatureError),
    "count a party twice": (lambda r, b: (r, [*b, b[0]], None), DuplicateBallotError),
    "count a ballot of another round": (_replayed, ForgedSignatureError),
}
"""Requests, or messages that prepare one, which would isolate the vectors of some parties, and the error of each."""


def request_attacks(
    setting: Callable[[AnalysisContext], AuditSetting],
    honest: Callable[[AnalysisContext, str], tuple[Round, list[Ballot]]],
) -> tuple[Attack, ...]:
    """Return every deviating request as an attack on new roles of one kind of encrypted sum.

    `honest`: (context, label) -> a fresh round and every party's ballot in it.
    """

    def send(make: Any, setting: AuditSetting, round_: Round, ballots: Sequence[Ballot]) -> bool:
        return _accepts(setting, make(round_, ballots))

    def run(name: str, send: Any, context: AnalysisContext) -> AttackResult:
        try:
            answered = send(setting(context), *honest(context, f"deviation {name}"))
        except PsephosError as error:
            return AttackResult(errors=(error,))
        return AttackResult({OTHER_SUM.name: "not refused"} if answered else {})

    every = {name: (partial(send, make), expected) for name, (make, expected) in REQUESTS.items()} | {
        "close a tally of fewer ballots than the minimum": (_too_few_counted, TooFewBallotsError),
        "open another product of a round that is opened": (_again, AlreadyOpenedError),
    }
    return tuple(
        Attack(name, partial(run, name, send), expected, (OTHER_SUM,)) for name, (send, expected) in every.items()
    )
