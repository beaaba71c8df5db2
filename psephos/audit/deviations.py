"""Requests of a curator that deviates from an encrypted sum, tried on the real roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from psephos.audit.attacks import AttackResult
from psephos.audit.model import CheckResult
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

Honest = Callable[[str], tuple[Round, list[Ballot]]]
"""(label) -> a fresh round and every party's ballot in it."""


@dataclass(frozen=True)
class DeviatingRequest:
    """A request, or a message that prepares one, which would isolate the vectors of some parties."""

    name: str
    send: Callable[[AuditSetting, Round, list[Ballot]], bool]
    expected: type[PsephosError]

    def run(self, setting: AuditSetting, honest: Honest) -> AttackResult:
        """Try the request on a new role in a new round, and return the result."""
        round_, ballots = honest(f"deviation {self.name}")
        try:
            answered = self.send(setting, round_, ballots)
        except PsephosError as error:
            return AttackResult(errors=(error,))
        return AttackResult({OTHER_SUM.name: "not refused"} if answered else {})


def deviations(setting: AuditSetting, honest: Honest) -> CheckResult:
    results = {request.name: request.run(setting, honest) for request in REQUESTS}
    for name, result in results.items():
        if result.gains:
            return CheckResult(True, f"{name}: not refused")
    refused = {type(error).__name__ for result in results.values() for error in result.errors}
    return CheckResult(False, f"{len(results)} deviating requests, all refused ({', '.join(sorted(refused))})")


def request_for(round_: Round, ballots: Sequence[Ballot]) -> TallyRequest:
    """Return a request to open the product of these ballots, whatever the minimum of the round is."""
    product, rejections = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots)
    for rejection in rejections:
        raise rejection.error
    return TallyRequest(round_.digest, product.members, product.digest)


def _accepts(
    setting: AuditSetting,
    round_: Round,
    ballots: Sequence[Ballot],
    request: TallyRequest | None = None,
    ledger: OnceLedger | None = None,
) -> bool:
    """Return whether holder 1 takes these ballots and answers the request; raises the error of a refusal."""
    holder = KeyHolder(setting.ceremony.shares[0], round_, openings=ledger)
    entries = [Entry(0, "curator", BOARD, ballot.encode()) for ballot in ballots]
    if request is not None:
        entries.append(Entry(0, "curator", holder.name, request.encode(round_)))
    step = holder.start()
    for entry in entries:
        step = holder.receive(step.state, [entry])
        for refusal in step.refused:
            raise refusal.error
    return request is None or bool(step.posts)


def _few(round_: Round, ballots: Sequence[Ballot]) -> Sequence[Ballot]:
    return ballots[: round_.minimum_ballots - 1]


def _one_for_all(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Request the opening of one party's ballot as the product of all parties' ballots."""
    everyone = sum(1 << b.party for b in ballots)
    return _accepts(setting, round_, ballots, replace(request_for(round_, ballots[:1]), members=everyone))


def _too_few_counted(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    seen, _ = BallotProduct(round_).add_all(ballot.encode() for ballot in _few(round_, ballots))
    curator = Tally(round_, seen=seen)
    return curator.on_idle(curator.start().state) is not None


def _again(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Restart a holder that has opened the product, and request another one with a second ballot of the last party."""
    openings, last = OnceLedger(), ballots[-1]
    _accepts(setting, round_, ballots, request_for(round_, ballots), openings)
    ciphertexts = tuple(c * (1 + round_.key.modulus) % round_.key.ciphertext_modulus for c in last.ciphertexts)
    vector = EncryptedVector(round_.key, round_.plan, ciphertexts)
    signing_key = setting.ceremony.signing_keys[last.party]
    second = [*ballots[:-1], Ballot.sign(round_, last.party, vector, signing_key, last.proof)]
    return _accepts(setting, round_, second, request_for(round_, second), openings)


def _changed_payload(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Multiply the inverse of one ballot into another, without changing the other's signature."""
    key = round_.key
    inverse = tuple(pow(c, -1, key.ciphertext_modulus) for c in ballots[0].ciphertexts)
    payload = encode_ciphertexts(key, add_ciphertexts(key, ballots[1].ciphertexts, inverse))
    proof = ballots[1].payload[len(payload) :]
    return _accepts(setting, round_, [replace(ballots[1], payload=payload + proof)])


def _replayed(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    second = replace(round_, nonce=bytes(16))
    return _accepts(setting, second, [replace(ballots[0], round_digest=second.digest)])


REQUESTS = (
    DeviatingRequest("open one ballot", lambda s, r, b: _accepts(s, r, b, request_for(r, b[:1])), UnseenBallotError),
    DeviatingRequest(
        "open all but one ballot", lambda s, r, b: _accepts(s, r, b, request_for(r, b[:-1])), UnseenBallotError
    ),
    DeviatingRequest("open another product than the ballots'", _one_for_all, UnseenBallotError),
    DeviatingRequest(
        "open a product with a ballot the holder has not seen",
        lambda s, r, b: _accepts(s, r, b[:-1], request_for(r, b)),
        UnseenBallotError,
    ),
    DeviatingRequest(
        "open fewer ballots than the minimum",
        lambda s, r, b: _accepts(s, r, _few(r, b), request_for(r, _few(r, b))),
        TooFewBallotsError,
    ),
    DeviatingRequest("close a tally of fewer ballots than the minimum", _too_few_counted, TooFewBallotsError),
    DeviatingRequest("open another product of a round that is opened", _again, AlreadyOpenedError),
    DeviatingRequest(
        "open for another round",
        lambda s, r, b: _accepts(s, r, b, replace(request_for(r, b), round_digest=bytes(32))),
        WrongRoundError,
    ),
    DeviatingRequest(
        "count a ballot signed by nobody on the roster",
        lambda s, r, b: _accepts(s, r, [replace(b[1], signature=SigningKey.generate().sign(b"anything"))]),
        ForgedSignatureError,
    ),
    DeviatingRequest("count a ballot changed after signing", _changed_payload, ForgedSignatureError),
    DeviatingRequest("count a party twice", lambda s, r, b: _accepts(s, r, [*b, b[0]]), DuplicateBallotError),
    DeviatingRequest("count a ballot of another round", _replayed, ForgedSignatureError),
)
"""Every deviating request that is tried."""
