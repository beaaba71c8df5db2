"""One encrypted sum: its round, ballots, confirmations and opening, by section 6 of docs/wire.md."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from gmpy2 import mpz

from tests.verifier import bounded
from tests.verifier.board import KINDS, Message, Refused, Study, require, sha256, verify_signature
from tests.verifier.hashproof import Packing, Shape, check_vector, valid_shape
from tests.verifier.paillier import Key, check_knowledge, check_opening, combine

PROOFS = ("none", "knowledge", "valid")
Vectors = dict[int, tuple[mpz, ...]]
"""Ciphertexts, by the number of a party or of a holder."""


@dataclass(frozen=True)
class Noise:
    """What is agreed on of the noise that the key holders add."""

    bound: int
    squares: int


@dataclass(frozen=True)
class Round:
    """The terms of one sum."""

    study: Study
    key: Key
    kind: str
    length: int
    minimum: int
    maximum: int
    context: bytes
    nonce: bytes
    group: int = 1
    squares: int | None = None
    noise: Noise | None = None

    @property
    def bounded(self) -> bool:
        """Whether each vector proves its bounds."""
        return bool(self.study.proofs == "valid" and self.kind != "votes")

    @property
    def square_bound(self) -> int:
        return self.length * max(-self.minimum, self.maximum) ** 2 if self.squares is None else self.squares

    @cached_property
    def packing(self) -> Packing:
        least, most, addends = self.minimum, self.maximum, len(self.study.roster)
        if self.noise:
            least, most = min(least, -self.noise.bound), max(most, self.noise.bound)
            addends += self.key.holders
        packing = Packing(self.key, self.length, addends, least, most)
        return bounded.widened(packing) if self.bounded else packing

    @property
    def size(self) -> int:
        """The length of the ciphertexts of a vector."""
        return self.packing.count * self.key.size

    @cached_property
    def plan(self) -> bytes:
        packing, key = self.packing, self.key
        fields = self.length, packing.addends, packing.minimum, packing.maximum, key.bits
        return sha256(b"psephos packing plan, radix\0", repr(fields + (key.degree,) * (key.degree > 1)).encode())

    @cached_property
    def digest(self) -> bytes:
        study = self.study
        bounds = [self.square_bound.to_bytes(64, "big")] if self.bounded else []
        if self.noise:
            bounds.append(b"noise of holders" + (self.noise.squares if self.bounded else 0).to_bytes(64, "big"))
        return sha256(
            b"psephos round\0",
            self.kind.encode().ljust(16, b"\0"),
            self.key.digest,
            self.plan,
            len(study.roster).to_bytes(4, "big"),
            *study.roster,
            study.minimum.to_bytes(4, "big"),
            self.context,
            self.nonce,
            bytes([study.trial, PROOFS.index(study.proofs)]),
            self.group.to_bytes(4, "big"),
            bytes([study.confirmations]),
            *bounds,
        )

    def shape(self, noise: Noise | None) -> Shape:
        """Of the proofs of ballots, or of the noise of holders."""
        if self.kind == "votes":
            return valid_shape(self.packing, self.group)
        return bounded.layout_of(self.packing, noise.squares if noise else self.square_bound)

    def vector(self, payload: bytes, statement: bytes, noise: Noise | None = None) -> tuple[mpz, ...]:
        """The ciphertexts of a ballot, or of a holder's noise, whose proof holds."""
        require(len(payload) >= self.size, "there are too few ciphertexts")
        ciphertexts, proof = self.key.units(payload[: self.size]), payload[self.size :]
        if self.study.proofs == "knowledge":
            wrong = check_knowledge(self.key, statement, ciphertexts, proof)
        else:
            wrong = check_vector(self.shape(noise), self.plan, statement, ciphertexts, proof)
        require(not wrong, wrong)
        return ciphertexts

    def unpack(self, plaintexts: list[int], addends: int) -> list[int]:
        entries, packing = list[int](), self.packing
        width = packing.maximum - packing.minimum
        for place, plaintext in enumerate(plaintexts):
            rest = mpz(plaintext)
            for _ in range(min(packing.slots, self.length - place * packing.slots)):
                rest, digit = divmod(rest, packing.radix)
                require(digit <= addends * width, "a slot holds more than so many entries can sum to")
                entries.append(int(digit) + addends * packing.minimum)
            require(rest == 0, "a plaintext holds more than its slots")
        return entries


@dataclass
class Sum:
    """What the board shows of one sum."""

    round: Round
    counted: Vectors = field(default_factory=dict)
    noise: Vectors = field(default_factory=dict)
    refused: list[tuple[int, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    misconduct: set[str] = field(default_factory=set)
    closed: bool = False
    lacks: str = ""
    columns: tuple[mpz, ...] = ()
    product: bytes = b""
    sums: list[int] | None = None


def _read_ballot(result: Sum, message: Message) -> None:
    round_ = result.round
    body = message.body("ballot", round_.digest)
    party, signature, payload = body.integer(4), body.take(64), body.rest()
    require(party < len(round_.study.roster), "there is no such party")
    require(party not in result.counted, "its party has a ballot already")
    statement = b"psephos ballot\0" + round_.digest + party.to_bytes(4, "big")
    verify_signature(round_.study.roster[party], signature, statement + sha256(payload))
    result.counted[party] = round_.vector(payload, statement)


def _read_noise(result: Sum, message: Message) -> None:
    round_ = result.round
    require(round_.noise, "the key holders add no noise")
    body = message.body("noise ballot", round_.digest)
    holder = body.holder(message)
    require(holder not in result.noise, "the holder has added noise before")
    statement = b"psephos noise ballot\0" + round_.digest + bytes([holder])
    result.noise[holder] = round_.vector(body.rest(), statement, round_.noise)


def _count(result: Sum, messages: list[Message]) -> None:
    """Read ballots and noise up to the close."""
    round_ = result.round
    for message in messages:
        try:
            if message.kind == KINDS["ballot"]:
                require(not result.closed, "it is late")
                _read_ballot(result, message)
            elif message.kind == KINDS["noise ballot"]:
                require(not result.closed, "it is late")
                _read_noise(result, message)
            elif message.kind == KINDS["close"]:
                require(message.sender == "curator" and not result.closed, "only the curator closes, once")
                message.body("close", round_.digest).end()
                require(len(result.counted) >= round_.study.minimum, "there are too few ballots")
                expected = round_.key.holders if round_.noise else 0
                require(len(result.noise) == expected, "the noise of a key holder is missing")
                result.closed = True
        except Refused as error:
            result.refused.append((message.number, str(error)))


def _confirm(result: Sum, messages: list[Message]) -> None:
    round_, confirmed = result.round, dict[int, bytes]()
    for message in messages:
        if message.kind != KINDS["confirmation"]:
            continue
        try:
            body = message.body("confirmation", round_.digest)
            named, holder = body.take(32), body.holder(message)
            body.end()
            require(holder not in confirmed, "the holder has confirmed before")
            confirmed[holder] = named
        except Refused as error:
            result.refused.append((message.number, str(error)))
    if sum(named == result.product for named in confirmed.values()) < round_.study.confirmations:
        result.lacks = "too few holders confirmed the product"


def _lie(result: Sum, messages: list[Message]) -> None:
    """Find the holders that name another product, in a message that counts or does not; t of them are too many."""
    round_, others = result.round, set[str]()
    for message in messages:
        kind = "confirmation" if message.kind == KINDS["confirmation"] else "partial decryption"
        try:
            body = message.body(kind, round_.digest)
            named, _holder = body.take(32), body.holder(message)
            if kind == "confirmation":
                body.end()
            else:
                round_.key.units(body.take(round_.size))
            others |= {message.sender} if named != result.product else set()
        except Refused:
            continue
    if len(others) >= round_.key.threshold:
        result.failures.append(f"{sorted(others)} confirmed or opened another product")
    else:
        result.misconduct |= others


def _part(result: Sum, message: Message) -> tuple[int, tuple[mpz, ...], str]:
    """Return the holder and the values of a partial decryption of the product, and why it is wrong."""
    key, body = result.round.key, message.body("partial decryption", result.round.digest)
    named, holder = body.take(32), body.integer(1)
    require(1 <= holder <= key.holders and named == result.product, "it is of another holder or product")
    values = key.units(body.take(result.round.size))
    statement = b"psephos partial decryption\0" + result.round.digest + bytes([holder])
    return holder, values, check_opening(key, holder, statement, result.columns, values, body.rest())


def _opened_in_clear(round_: Round, readable: list[Message]) -> list[Message]:
    """The partial decryptions in what everybody can read, without what follows them."""
    length = 41 + 33 + round_.size + round_.key.opening_bytes
    parts = (replace(message, data=message.data[:length]) for message in readable)
    return [part for part in parts if part.kind == KINDS["partial decryption"] and len(part.data) == length]


def exposed(result: Sum, readable: list[Message]) -> set[str]:
    """Return the holders whose partial decryptions everybody can read."""
    found = set[str]()
    for message in _opened_in_clear(result.round, readable):
        try:
            holder, _, wrong = _part(result, message)
            found |= {f"holder {holder}"} if not wrong else set()
        except Refused:
            continue
    return found


def _open(result: Sum, messages: list[Message]) -> None:
    key, parts = result.round.key, Vectors()
    for message in messages:
        if message.kind != KINDS["partial decryption"]:
            continue
        try:
            holder, values, wrong = _part(result, message)
            require(message.sender == f"holder {holder}" and holder not in parts, "it is another's, or a second one")
        except Refused as error:
            result.refused.append((message.number, str(error)))
            continue
        if wrong:
            result.misconduct.add(message.sender)
        else:
            parts[holder] = values
    if len(parts) < key.threshold:
        result.lacks = result.lacks or f"{len(parts)} of {key.threshold} holders open the sum"
    if result.lacks:
        return
    try:
        result.sums = result.round.unpack(combine(key, parts), len(result.counted) + len(result.noise))
    except Refused as error:
        result.failures.append(str(error))


def check_sum(round_: Round, messages: list[Message], readable: list[Message]) -> Sum:
    """Check the messages of one sum, in the order of the board, and what else everybody can read."""
    result, in_clear = Sum(round_), _opened_in_clear(round_, readable)
    _count(result, messages)
    columns = [mpz(1)] * round_.packing.count
    for ciphertexts in (*result.counted.values(), *result.noise.values()):
        columns = [c * d % round_.key.modulus for c, d in zip(columns, ciphertexts, strict=True)]
    result.columns, result.product = tuple(columns), sha256(*round_.key.encoded(columns))
    if not result.closed:
        result.lacks = "the vote is open"
        _lie(result, in_clear)
        return result
    _confirm(result, messages)
    _lie(result, [*messages, *in_clear])
    _open(result, messages)
    return result
