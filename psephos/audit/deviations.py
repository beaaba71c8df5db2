"""Requests of a curator that deviates from an encrypted sum, tried on the real roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from psephos.audit.attacks import Attack, AttackResult
from psephos.audit.model import AnalysisContext, CheckResult
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


def request_attacks(
    setting: Callable[[AnalysisContext], AuditSetting],
    ballots: Callable[[AnalysisContext, str], tuple[Round, list[Ballot]]],
) -> tuple[Attack, ...]:
    """Return every request of `REQUESTS` as an attack on one kind of encrypted sum."""

    def run(request: DeviatingRequest, context: AnalysisContext) -> AttackResult:
        return request.run(setting(context), partial(ballots, context))

    return tuple(
        Attack(request.name, ("curator",), partial(run, request), request.expected, (OTHER_SUM,))
        for request in REQUESTS
    )


def try_requests(setting: AuditSetting, honest: Honest) -> dict[str, AttackResult]:
    """Try every request of `REQUESTS`, and return the results by the requests' names."""
    return {request.name: request.run(setting, honest) for request in REQUESTS}


def deviations(setting: AuditSetting, honest: Honest) -> CheckResult:
    """Check that every request but the agreed one is refused."""
    results = try_requests(setting, honest)
    for name, result in results.items():
        if result.gains:
            return CheckResult(True, f"{name}: not refused")
    refused = {type(error).__name__ for result in results.values() for error in result.errors}
    return CheckResult(False, f"{len(results)} deviating requests, all refused ({', '.join(sorted(refused))})")


class _Holder:
    """Holder 1, to which messages are given directly; the error of a refused message is raised."""

    def __init__(
        self, setting: AuditSetting, round_: Round, ballots: Sequence[Ballot] = (), openings: OnceLedger | None = None
    ) -> None:
        self._role = KeyHolder(setting.ceremony.shares[0], round_, openings=openings)
        self._state = self._role.start().state
        self.show(*ballots)

    def _send(self, receiver: str, *messages: bytes) -> bool:
        step = self._role.receive(self._state, [Entry(0, "curator", receiver, data) for data in messages])
        for refusal in step.refused:
            raise refusal.error
        self._state = step.state
        return bool(step.posts)

    def show(self, *ballots: Ballot) -> None:
        """Give ballots on the board to the holder."""
        self._send(BOARD, *(ballot.encode() for ballot in ballots))

    def ask(self, request: TallyRequest) -> bool:
        """Give a request of the curator to the holder, and return whether it answers."""
        return self._send(self._role.name, request.encode(self._role.round))


def _request(round_: Round, ballots: Sequence[Ballot]) -> TallyRequest:
    """Return a request to open the product of these ballots, whatever the minimum of the round is."""
    product, rejections = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots)
    for rejection in rejections:
        raise rejection.error
    return TallyRequest(round_.digest, product.members, product.digest)


def _single(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(setting, round_, ballots).ask(_request(round_, ballots[:1]))


def _left_out(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(setting, round_, ballots).ask(_request(round_, ballots[:-1]))


def _other_product(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Request the opening of one party's ballot as the product of all parties' ballots."""
    everyone = sum(1 << b.party for b in ballots)
    return _Holder(setting, round_, ballots).ask(replace(_request(round_, ballots[:1]), members=everyone))


def _unseen(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(setting, round_, ballots[:-1]).ask(_request(round_, ballots))


def _too_few(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    few = ballots[: round_.minimum_ballots - 1]
    return _Holder(setting, round_, few).ask(_request(round_, few))


def _too_few_counted(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    few, _ = BallotProduct(round_).add_all(b.encode() for b in ballots[: round_.minimum_ballots - 1])
    curator = Tally(round_, seen=few)
    return curator.on_idle(curator.start().state) is not None


def _again(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Restart a holder that has opened the product, and request another one with a second ballot of the last party."""
    openings, last = OnceLedger(), ballots[-1]
    _Holder(setting, round_, ballots, openings).ask(_request(round_, ballots))
    ciphertexts = tuple(c * (1 + round_.key.modulus) % round_.key.ciphertext_modulus for c in last.ciphertexts)
    vector = EncryptedVector(round_.key, round_.plan, ciphertexts)
    signing_key = setting.ceremony.signing_keys[last.party]
    second = [*ballots[:-1], Ballot.sign(round_, last.party, vector, signing_key, last.proof)]
    return _Holder(setting, round_, second, openings).ask(_request(round_, second))


def _other_round(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(setting, round_, ballots).ask(replace(_request(round_, ballots), round_digest=bytes(32)))


def _signed_by_another(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Replace the signature of a ballot by one with a key that is not on the roster."""
    forger = SigningKey.generate()
    _Holder(setting, round_, [replace(ballots[1], signature=forger.sign(b"anything"))])
    return True


def _changed_payload(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Multiply the inverse of one ballot into another, without changing the other's signature."""
    key = round_.key
    inverse = tuple(pow(c, -1, key.ciphertext_modulus) for c in ballots[0].ciphertexts)
    payload = encode_ciphertexts(key, add_ciphertexts(key, ballots[1].ciphertexts, inverse))
    proof = ballots[1].payload[len(payload) :]
    _Holder(setting, round_, [replace(ballots[1], payload=payload + proof)])
    return True


def _same_party_twice(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Show one party's ballot again; counted often enough, it could be read off the total."""
    _Holder(setting, round_, ballots).show(ballots[0])
    return True


def _replayed(setting: AuditSetting, round_: Round, ballots: list[Ballot]) -> bool:
    """Show a ballot of this round in a second round, whose nonce differs."""
    second = replace(round_, nonce=bytes(16))
    _Holder(setting, second, [replace(ballots[0], round_digest=second.digest)])
    return True


REQUESTS = (
    DeviatingRequest("open one ballot", _single, UnseenBallotError),
    DeviatingRequest("open all but one ballot", _left_out, UnseenBallotError),
    DeviatingRequest("open another product than the ballots'", _other_product, UnseenBallotError),
    DeviatingRequest("open a product with a ballot the holder has not seen", _unseen, UnseenBallotError),
    DeviatingRequest("open fewer ballots than the minimum", _too_few, TooFewBallotsError),
    DeviatingRequest("close a tally of fewer ballots than the minimum", _too_few_counted, TooFewBallotsError),
    DeviatingRequest("open another product of a round that is opened", _again, AlreadyOpenedError),
    DeviatingRequest("open for another round", _other_round, WrongRoundError),
    DeviatingRequest("count a ballot signed by nobody on the roster", _signed_by_another, ForgedSignatureError),
    DeviatingRequest("count a ballot changed after signing", _changed_payload, ForgedSignatureError),
    DeviatingRequest("count a party twice", _same_party_twice, DuplicateBallotError),
    DeviatingRequest("count a ballot of another round", _replayed, ForgedSignatureError),
)
"""Every deviating request that is tried."""
