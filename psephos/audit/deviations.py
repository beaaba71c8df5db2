"""What a curator that deviates may ask for and must not get, tried on the real roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from psephos.audit.model import Result
from psephos.audit.settings import Setting
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.messages import Ballot, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import PsephosError
from psephos.protocol.paillier.ciphertexts import add_ciphertexts, encode_ciphertexts
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import BOARD, Entry
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger


def deviations(setting: Setting, honest: Callable[[str], tuple[Round, list[Ballot]]]) -> Result:
    """Everything but the agreed opening is refused: each request that would isolate votes, tried on the real roles.

    `honest(label)` makes a fresh round and every party's ballot in it.
    """
    refused: list[str] = []
    for name, attempt in _ATTEMPTS.items():
        round_, ballots = honest(f"deviation {name}")
        try:
            got = attempt(setting, round_, ballots)
        except PsephosError as error:
            refused.append(type(error).__name__)
            continue
        if got:
            return Result(True, f"{name}: not refused")
        refused.append("ignored")
    return Result(False, f"{len(refused)} deviating requests, all refused ({', '.join(sorted(set(refused)))})")


class _Holder:
    """Holder 1, shown these ballots and talked to directly; raises what it refuses."""

    def __init__(
        self, setting: Setting, round_: Round, ballots: Sequence[Ballot] = (), openings: OnceLedger | None = None
    ) -> None:
        self._role = KeyHolder(setting.ceremony.shares[0], round_, openings=openings)
        self._state = self._role.start().state
        self.show(*ballots)

    def _say(self, receiver: str, *messages: bytes) -> bool:
        step = self._role.receive(self._state, [Entry(0, "curator", receiver, data) for data in messages])
        for refusal in step.refused:
            raise refusal.error
        self._state = step.state
        return bool(step.posts)

    def show(self, *ballots: Ballot) -> None:
        self._say(BOARD, *(ballot.encode() for ballot in ballots))

    def ask(self, request: TallyRequest) -> bool:
        return self._say(self._role.name, request.encode(self._role.round))


def _request(round_: Round, ballots: Sequence[Ballot]) -> TallyRequest:
    """A deviating curator's, which ignores the minimum."""
    product, rejections = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots)
    for rejection in rejections:
        raise rejection.error
    return TallyRequest(round_.digest, product.members, product.digest)


def _single(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(setting, round_, ballots).ask(_request(round_, ballots[:1]))


def _left_out(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(setting, round_, ballots).ask(_request(round_, ballots[:-1]))


def _other_product(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    """All parties named, but the product is one party's ballot."""
    everyone = sum(1 << b.party for b in ballots)
    return _Holder(setting, round_, ballots).ask(replace(_request(round_, ballots[:1]), members=everyone))


def _unseen(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(setting, round_, ballots[:-1]).ask(_request(round_, ballots))


def _too_few(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    few = ballots[: round_.minimum_ballots - 1]
    return _Holder(setting, round_, few).ask(_request(round_, few))


def _too_few_counted(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    few, _ = BallotProduct(round_).add_all(b.encode() for b in ballots[: round_.minimum_ballots - 1])
    curator = Tally(round_, seen=few)
    return curator.on_idle(curator.start().state) is not None


def _again(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    """A holder that has opened all ballots is restarted, shown another ballot of a party that lies, and asked again."""
    openings, last = OnceLedger(), ballots[-1]
    _Holder(setting, round_, ballots, openings).ask(_request(round_, ballots))
    ciphertexts = tuple(c * (1 + round_.key.modulus) % round_.key.ciphertext_modulus for c in last.ciphertexts)
    vector = EncryptedVector(round_.key, round_.plan, ciphertexts)
    second = [*ballots[:-1], Ballot.sign(round_, last.party, vector, setting.ceremony.signing_keys[last.party])]
    return _Holder(setting, round_, second, openings).ask(_request(round_, second))


def _other_round(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(setting, round_, ballots).ask(replace(_request(round_, ballots), round_digest=bytes(32)))


def _signed_by_another(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    """The curator replaces a ballot by one of its own, signed with a key of its own."""
    forger = SigningKey.generate()
    _Holder(setting, round_, [replace(ballots[1], signature=forger.sign(b"anything"))])
    return True


def _changed_payload(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    """The curator multiplies the inverse of one ballot into another, whose signature it keeps."""
    key = round_.key
    inverse = tuple(pow(c, -1, key.ciphertext_modulus) for c in ballots[0].ciphertexts)
    payload = encode_ciphertexts(key, add_ciphertexts(key, ballots[1].ciphertexts, inverse))
    _Holder(setting, round_, [replace(ballots[1], payload=payload)])
    return True


def _same_party_twice(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    """One party's ballot weighs as much as the others' together and is read off the total."""
    _Holder(setting, round_, ballots).show(ballots[0])
    return True


def _replayed(setting: Setting, round_: Round, ballots: list[Ballot]) -> bool:
    """A ballot of this round in a second one over the same auxiliary set, with one other party less."""
    second = replace(round_, nonce=bytes(16))
    _Holder(setting, second, [replace(ballots[0], round_digest=second.digest)])
    return True


_ATTEMPTS: dict[str, Callable[[Setting, Round, list[Ballot]], bool]] = {
    "open one ballot": _single,
    "open all but one ballot": _left_out,
    "open another product than the ballots'": _other_product,
    "open a product with a ballot the holder has not seen": _unseen,
    "open fewer ballots than the minimum": _too_few,
    "close a tally of fewer ballots than the minimum": _too_few_counted,
    "open another product of a round that is opened": _again,
    "open for another round": _other_round,
    "count a ballot signed by nobody on the roster": _signed_by_another,
    "count a ballot changed after signing": _changed_payload,
    "count a party twice": _same_party_twice,
    "count a ballot of another round": _replayed,
}
