"""One encrypted sum: its round, ballots, confirmations and opening, by section 6 of docs/wire.md."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gmpy2 import mpz

from tests.verifier.board import KINDS, Message, Refused, Study, require, sha256, verify_signature
from tests.verifier.paillier import Key, check_knowledge, check_opening, combine, knowledge_sizes
from tests.verifier.validity import check_validity, layout_of, slots_of

PROOFS = ("none", "knowledge", "valid")


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

    @property
    def proofs(self) -> str:
        return self.study.proofs if self.kind == "votes" else "knowledge"

    @cached_property
    def radix(self) -> int:
        return len(self.study.roster) * (self.maximum - self.minimum) + 1

    @cached_property
    def slots(self) -> int:
        return slots_of(self.radix, self.key.degree * (self.key.bits - 1))

    @cached_property
    def count(self) -> int:
        """The number of ciphertexts of a ballot."""
        require(self.slots, "an entry does not fit into a plaintext")
        return -(-self.length // self.slots)

    @cached_property
    def plan(self) -> bytes:
        degree = (self.key.degree,) if self.key.degree > 1 else ()
        fields = (self.length, len(self.study.roster), self.minimum, self.maximum, self.key.bits, *degree)
        text = "(" + ", ".join(map(str, fields)) + ")"
        return sha256(b"psephos packing plan, radix\0", text.encode())

    @cached_property
    def digest(self) -> bytes:
        study = self.study
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
        )

    def unpack(self, plaintexts: list[int], addends: int) -> list[int]:
        entries, width = [], self.maximum - self.minimum
        for place, plaintext in enumerate(plaintexts):
            rest = mpz(plaintext)
            for _ in range(min(self.slots, self.length - place * self.slots)):
                rest, digit = divmod(rest, self.radix)
                require(digit <= addends * width, "a slot holds more than so many entries can sum to")
                entries.append(int(digit) + addends * self.minimum)
            require(rest == 0, "a plaintext holds more than its slots")
        return entries


@dataclass
class Sum:
    """What the board shows of one sum.

    Attributes:
        counted: the ballots' ciphertexts by the number of their party.
        refused: (number of the entry, why) of messages that do not count.
        closed: whether the vote is closed.
        failures: what is wrong.
        lacks: why there is no sum; empty if there is one.
        sums: the opened sum.
    """

    round: Round
    counted: dict[int, tuple[mpz, ...]]
    refused: list[tuple[int, str]]
    failures: list[str]
    closed: bool = False
    lacks: str = ""
    sums: list[int] | None = None


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
    if round_.proofs == "knowledge":
        require(len(proof) == 1 + sum(knowledge_sizes(round_.key)), "the ballot has another length")
        wrong = check_knowledge(round_.key, signed, ciphertexts, proof)
    else:
        layout = layout_of(round_.key, round_.length, round_.radix, round_.slots, round_.count, round_.group)
        require(0 < len(proof) <= layout.longest, "the ballot has another length")
        wrong = check_validity(round_.key, round_.plan, layout, signed, ciphertexts, proof)
    require(not wrong, wrong)
    return party, ciphertexts


def _count(found: Sum, messages: list[Message]) -> None:
    round_ = found.round
    for message in messages:
        try:
            if message.kind == KINDS["ballot"]:
                require(not found.closed, "it is late")
                party, ciphertexts = _ballot(round_, message, found.counted)
                found.counted[party] = ciphertexts
            elif message.kind == KINDS["close"]:
                require(message.sender == "curator" and not found.closed, "only the curator closes, once")
                message.body("close", round_.digest).end()
                require(len(found.counted) >= round_.study.minimum, "there are too few ballots")
                found.closed = True
        except Refused as error:
            found.refused.append((message.number, str(error)))


def _confirm(found: Sum, messages: list[Message], product: bytes) -> None:
    round_, confirmed = found.round, dict[int, bytes]()
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
            found.refused.append((message.number, str(error)))
    others = sorted(holder for holder, digest in confirmed.items() if digest != product)
    if others:
        found.failures.append(f"holders {others} confirmed another product")
    elif len(confirmed) < round_.study.confirmations:
        found.lacks = "too few holders confirmed the product"


def _open(found: Sum, messages: list[Message], columns: tuple[mpz, ...], product: bytes) -> None:
    round_, key = found.round, found.round.key
    holders = {f"holder {number}" for number in range(1, key.holders + 1)}
    parts: dict[int, tuple[mpz, ...]] = {}
    for message in messages:
        if message.kind != KINDS["partial decryption"] or message.sender not in holders:
            continue
        try:
            body = message.body("partial decryption", round_.digest)
            named, holder = body.take(32), body.integer(1)
            values = key.ciphertexts(body.take(round_.count * key.size))
            key.check_units(values)
            require(message.sender == f"holder {holder}" and named == product, "it is of another holder or product")
            statement = b"psephos partial decryption\0" + round_.digest + bytes([holder])
            wrong = check_opening(key, holder, statement, columns, values, body.rest())
            require(not wrong, wrong)
            parts[holder] = values
        except Refused as error:
            found.failures.append(f"{message.sender}: {error}")
        else:
            if not round_.study.sum_is_public and not round_.study.joint:
                found.failures.append(f"{message.sender} opened the exact sum for everybody")
    if len(parts) < key.threshold:
        found.lacks = found.lacks or f"{len(parts)} of {key.threshold} holders open the sum"
    if found.lacks:
        return
    try:
        found.sums = round_.unpack(combine(key, parts), len(found.counted))
    except Refused as error:
        found.failures.append(str(error))


def check_sum(round_: Round, messages: list[Message]) -> Sum:
    """Check the messages of one sum, in the order of the board."""
    found = Sum(round_, {}, [], [])
    _count(found, messages)
    columns = [mpz(1)] * round_.count
    for ciphertexts in found.counted.values():
        columns = [c * d % round_.key.modulus for c, d in zip(columns, ciphertexts, strict=True)]
    product = sha256(round_.key.encode(columns))
    if not found.closed:
        found.lacks = "the vote is open"
        return found
    _confirm(found, messages, product)
    _open(found, messages, tuple(columns), product)
    return found
