"""One encrypted sum: its round, ballots, confirmations and opening, by section 6 of docs/wire.md."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from gmpy2 import mpz

from tests.verifier import bounded
from tests.verifier.board import KINDS, Message, Refused, Study, require, sha256, verify_signature
from tests.verifier.bounded import Packing
from tests.verifier.hashproof import check_vector
from tests.verifier.paillier import Key, check_knowledge, check_opening, combine, knowledge_sizes
from tests.verifier.validity import layout_of

PROOFS = ("none", "knowledge", "valid")


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
    def proofs(self) -> str:
        return str(self.study.proofs)

    @property
    def bounded(self) -> bool:
        """Whether each vector proves its bounds."""
        return self.proofs == "valid" and self.kind != "votes"

    @property
    def square_bound(self) -> int:
        return self.length * max(-self.minimum, self.maximum) ** 2 if self.squares is None else self.squares

    @property
    def senders(self) -> int:
        """How many vectors may be added."""
        return len(self.study.roster) + (self.key.holders if self.noise else 0)

    @cached_property
    def packing(self) -> Packing:
        least, most = self.minimum, self.maximum
        if self.noise:
            least, most = min(least, -self.noise.bound), max(most, self.noise.bound)
        packing = Packing(self.key, self.length, self.senders, least, most)
        return bounded.widened(packing) if self.bounded else packing

    @property
    def radix(self) -> int:
        return self.packing.radix

    @property
    def slots(self) -> int:
        return self.packing.slots

    @property
    def count(self) -> int:
        """The number of ciphertexts of a ballot."""
        return self.packing.count

    @cached_property
    def plan(self) -> bytes:
        degree = (self.key.degree,) if self.key.degree > 1 else ()
        packing = self.packing
        fields = (self.length, packing.addends, packing.minimum, packing.maximum, self.key.bits, *degree)
        text = "(" + ", ".join(map(str, fields)) + ")"
        return sha256(b"psephos packing plan, radix\0", text.encode())

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
            bytes([study.trial, PROOFS.index(self.proofs)]),
            self.group.to_bytes(4, "big"),
            bytes([study.confirmations]),
            *bounds,
        )

    def check_proof(self, statement: bytes, ciphertexts: tuple[mpz, ...], proof: bytes, *, noise: bool = False) -> None:
        """Check what a ballot, or the noise of a holder, proves."""
        if self.proofs == "knowledge":
            require(len(proof) == 1 + sum(knowledge_sizes(self.key)), "the proof has another length")
            wrong = check_knowledge(self.key, statement, ciphertexts, proof)
        elif self.kind == "votes":
            shape = layout_of(self.key, self.length, self.radix, self.slots, self.count, self.group)
            require(0 < len(proof) <= shape.longest, "the proof has another length")
            wrong = check_vector(shape, self.plan, statement, ciphertexts, proof)
        else:
            most = self.noise.squares if noise and self.noise else self.square_bound
            layout = bounded.layout_of(self.packing, most)
            require(0 < len(proof) <= layout.longest, "the proof has another length")
            wrong = check_vector(layout, self.plan, statement, ciphertexts, proof)
        require(not wrong, wrong)

    def unpack(self, plaintexts: list[int], addends: int) -> list[int]:
        entries, least = [], self.packing.minimum
        width = self.packing.maximum - least
        for place, plaintext in enumerate(plaintexts):
            rest = mpz(plaintext)
            for _ in range(min(self.slots, self.length - place * self.slots)):
                rest, digit = divmod(rest, self.radix)
                require(digit <= addends * width, "a slot holds more than so many entries can sum to")
                entries.append(int(digit) + addends * least)
            require(rest == 0, "a plaintext holds more than its slots")
        return entries


@dataclass
class Sum:
    """What the board shows of one sum."""

    round: Round
    counted: dict[int, tuple[mpz, ...]]
    refused: list[tuple[int, str]]
    failures: list[str]
    closed: bool = False
    lacks: str = ""
    sums: list[int] | None = None
    noise: dict[int, tuple[mpz, ...]] = field(default_factory=dict)
    misconduct: set[str] = field(default_factory=set)
    columns: tuple[mpz, ...] = ()
    product: bytes = b""


def _ballot(round_: Round, message: Message, counted: dict[int, tuple[mpz, ...]]) -> tuple[int, tuple[mpz, ...]]:
    body = message.body("ballot", round_.digest)
    party, signature, payload = body.integer(4), body.take(64), body.rest()
    require(party < len(round_.study.roster), "there is no such party")
    size = round_.count * round_.key.size
    require(len(payload) >= size, "the ballot is too short")
    ciphertexts, proof = round_.key.ciphertexts(payload[:size]), payload[size:]
    signed = b"psephos ballot\0" + round_.digest + party.to_bytes(4, "big")
    verify_signature(round_.study.roster[party], signature, signed + sha256(payload))
    require(party not in counted, "its party has a ballot already")
    round_.key.check_units(ciphertexts)
    round_.check_proof(signed, ciphertexts, proof)
    return party, ciphertexts


def _noise_ballot(round_: Round, message: Message, added: dict[int, tuple[mpz, ...]]) -> tuple[int, tuple[mpz, ...]]:
    require(round_.noise, "the key holders add no noise")
    body = message.body("noise ballot", round_.digest)
    holder, payload = body.integer(1), body.rest()
    require(1 <= holder <= round_.key.holders, "there is no such holder")
    require(message.sender == f"holder {holder}", "it is another holder's")
    require(holder not in added, "the holder has added noise before")
    size = round_.count * round_.key.size
    require(len(payload) >= size, "the noise is too short")
    ciphertexts = round_.key.ciphertexts(payload[:size])
    round_.key.check_units(ciphertexts)
    statement = b"psephos noise ballot\0" + round_.digest + bytes([holder])
    round_.check_proof(statement, ciphertexts, payload[size:], noise=True)
    return holder, ciphertexts


def _count(result: Sum, messages: list[Message]) -> None:
    round_ = result.round
    for message in messages:
        try:
            if message.kind == KINDS["ballot"]:
                require(not result.closed, "it is late")
                party, ciphertexts = _ballot(round_, message, result.counted)
                result.counted[party] = ciphertexts
            elif message.kind == KINDS["noise ballot"]:
                require(not result.closed, "it is late")
                holder, ciphertexts = _noise_ballot(round_, message, result.noise)
                result.noise[holder] = ciphertexts
            elif message.kind == KINDS["close"]:
                require(message.sender == "curator" and not result.closed, "only the curator closes, once")
                message.body("close", round_.digest).end()
                require(len(result.counted) >= round_.study.minimum, "there are too few ballots")
                expected = round_.key.holders if round_.noise else 0
                require(len(result.noise) == expected, "the noise of a key holder is missing")
                result.closed = True
        except Refused as error:
            result.refused.append((message.number, str(error)))


def _confirm(result: Sum, messages: list[Message], product: bytes) -> None:
    round_, confirmed = result.round, dict[int, bytes]()
    for message in messages:
        if message.kind != KINDS["confirmation"]:
            continue
        try:
            body = message.body("confirmation", round_.digest)
            digest, holder = body.take(32), body.integer(1)
            body.end()
            require(1 <= holder <= round_.key.holders, "there is no such holder")
            require(message.sender == f"holder {holder}", "it is another holder's")
            require(holder not in confirmed, "the holder has confirmed before")
            confirmed[holder] = digest
        except Refused as error:
            result.refused.append((message.number, str(error)))
    if sum(digest == product for digest in confirmed.values()) < round_.study.confirmations:
        result.lacks = "too few holders confirmed the product"


def _lie(result: Sum, messages: list[Message], product: bytes) -> None:
    """Find the holders that name another product, in a message that counts or does not; t of them are too many."""
    round_, others = result.round, set[str]()
    for message in messages:
        kind = "confirmation" if message.kind == KINDS["confirmation"] else "partial decryption"
        try:
            body = message.body(kind, round_.digest)
            named, holder = body.take(32), body.integer(1)
            require(message.sender == f"holder {holder}", "it is another holder's")
            if kind == "confirmation":
                body.end()
            else:
                round_.key.check_units(round_.key.ciphertexts(body.take(round_.count * round_.key.size)))
            others |= {message.sender} if named != product else set()
        except Refused:
            continue
    if len(others) >= round_.key.threshold:
        result.failures.append(f"{sorted(others)} confirmed or opened another product")
    else:
        result.misconduct |= others


def _part(
    round_: Round, message: Message, columns: tuple[mpz, ...], product: bytes
) -> tuple[int, tuple[mpz, ...], str]:
    """Return the holder and the values of a partial decryption of a product, and why it is wrong."""
    key, body = round_.key, message.body("partial decryption", round_.digest)
    named, holder = body.take(32), body.integer(1)
    require(1 <= holder <= key.holders and named == product, "it is of another holder or product")
    values = key.ciphertexts(body.take(round_.count * key.size))
    key.check_units(values)
    statement = b"psephos partial decryption\0" + round_.digest + bytes([holder])
    return holder, values, check_opening(key, holder, statement, columns, values, body.rest())


def _opened_in_clear(round_: Round, readable: list[Message]) -> list[Message]:
    """The partial decryptions in what everybody can read, without what follows them."""
    key = round_.key
    length = 41 + 33 + round_.count * key.size + 2 * key.size + (key.exponent_bits + 128 + 80 + 8) // 8
    parts = (replace(message, data=message.data[:length]) for message in readable)
    return [part for part in parts if part.kind == KINDS["partial decryption"] and len(part.data) == length]


def exposed(result: Sum, readable: list[Message]) -> set[str]:
    """Return the holders whose partial decryptions everybody can read."""
    found = set[str]()
    for message in _opened_in_clear(result.round, readable):
        try:
            holder, _, wrong = _part(result.round, message, result.columns, result.product)
            found |= {f"holder {holder}"} if not wrong else set()
        except Refused:
            continue
    return found


def _open(result: Sum, messages: list[Message], columns: tuple[mpz, ...], product: bytes) -> None:
    round_, key = result.round, result.round.key
    parts: dict[int, tuple[mpz, ...]] = {}
    for message in messages:
        if message.kind != KINDS["partial decryption"]:
            continue
        try:
            holder, values, wrong = _part(round_, message, columns, product)
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
        result.sums = round_.unpack(combine(key, parts), len(result.counted) + len(result.noise))
    except Refused as error:
        result.failures.append(str(error))


def check_sum(round_: Round, messages: list[Message], readable: list[Message] | None = None) -> Sum:
    """Check the messages of one sum, in the order of the board, and what else everybody can read."""
    in_clear = _opened_in_clear(round_, readable or [])
    result = Sum(round_, {}, [], [])
    _count(result, messages)
    columns = [mpz(1)] * round_.count
    for ciphertexts in (*result.counted.values(), *result.noise.values()):
        columns = [c * d % round_.key.modulus for c, d in zip(columns, ciphertexts, strict=True)]
    product = sha256(round_.key.encode(columns))
    result.columns, result.product = tuple(columns), product
    if not result.closed:
        result.lacks = "the vote is open"
        _lie(result, in_clear, product)
        return result
    _confirm(result, messages, product)
    _lie(result, [*messages, *in_clear], product)
    _open(result, messages, tuple(columns), product)
    return result
