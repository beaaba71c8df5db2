"""The messages that travel, each a frozen record with one strict binary encoding.

Every encoding starts with "PSEPHOS", a version byte and a type byte. Decoding is given the round it belongs to,
knows the one length a well-formed message can have, and checks every bound before anything is computed with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import ForgedSignatureError, MessageError, ThresholdError, WrongKeyError, WrongRoundError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts, decode_ciphertexts, encode_ciphertexts
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.signing import SIGNATURE_BYTES, SigningKey

__all__ = ["Ballot", "PartialDecryption", "TallyRequest"]

_MAGIC = b"PSEPHOS\x01"
_DIGEST = 32


class _Reader:
    """Takes a message apart; its total length was checked before."""

    def __init__(self, data: bytes, type_byte: int, length: int, name: str) -> None:
        if len(data) != length:
            raise MessageError(f"a {name} of this round has {length} bytes, not {len(data)}")
        if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC)] != type_byte:
            raise MessageError(f"these bytes are no {name} of this version")
        self._data, self._at = data, len(_MAGIC) + 1

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def integer(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def rest(self) -> bytes:
        return self._data[self._at :]


def _header(type_byte: int) -> bytes:
    return _MAGIC + bytes([type_byte])


def _check_round(found: bytes, round_: Round) -> None:
    if found != round_.digest:
        raise WrongRoundError(
            f"made for round {found.hex()[:12]}, and this is round {round_.digest.hex()[:12]}: the key, plan, roster, "
            "auxiliary set or nonce differs"
        )


def _check_key(found: bytes, round_: Round) -> None:
    if found != round_.key.identifier:
        raise WrongKeyError(f"made under key {found.hex()[:12]}, and this round's is {round_.key!r}")


@dataclass(frozen=True)
class Ballot:
    """One party's encrypted vector, signed. Public: it goes to the board.

    Attributes:
        round_digest: the round it is cast in.
        party: the sender's place on the roster.
        key_identifier, plan_digest: what it is encrypted under and packed by.
        ciphertexts: the encrypted vector.
        payload: the ciphertexts as they travel.
        signature: Ed25519 over `signed_bytes`.
    """

    round_digest: bytes = field(repr=False)
    party: int
    key_identifier: bytes = field(repr=False)
    plan_digest: bytes = field(repr=False)
    ciphertexts: tuple[mpz, ...] = field(repr=False)
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    TYPE = 1
    _HEADER = len(_MAGIC) + 1 + _DIGEST + 4 + _DIGEST + _DIGEST + SIGNATURE_BYTES

    @classmethod
    def sign(cls, round_: Round, party: int, vector: EncryptedVector, signing_key: SigningKey) -> Ballot:
        """The party's ballot.

        Raises WrongKeyError or WrongRoundError when the vector is not this round's, ForgedSignatureError when
        the signing key is not the one registered for this party.
        """
        if vector.key != round_.key:
            raise WrongKeyError(f"the vector is encrypted under {vector.key!r}, and this round's is {round_.key!r}")
        if vector.plan != round_.plan:
            raise WrongRoundError("the vector is packed by another plan than this round's")
        if round_.verification_key(party) != signing_key.verification_key:
            raise ForgedSignatureError(f"this signing key is not the one registered for party {party}")
        payload = encode_ciphertexts(round_.key, vector.ciphertexts)
        signed = _signed_bytes(round_.digest, party, round_.key.identifier, round_.plan.digest, payload)
        return cls(
            round_.digest,
            party,
            round_.key.identifier,
            round_.plan.digest,
            vector.ciphertexts,
            payload,
            signing_key.sign(signed),
        )

    def check(self, round_: Round) -> None:
        """Raise WrongRoundError, WrongKeyError, UnknownPartyError or ForgedSignatureError unless it may be counted."""
        _check_round(self.round_digest, round_)
        _check_key(self.key_identifier, round_)
        if self.plan_digest != round_.plan.digest:
            raise WrongRoundError("packed by another plan than this round's")
        registered = round_.verification_key(self.party)
        registered.verify(
            self.signature,
            _signed_bytes(self.round_digest, self.party, self.key_identifier, self.plan_digest, self.payload),
        )

    def encode(self) -> bytes:
        """The bytes that travel."""
        return b"".join(
            (
                _header(self.TYPE),
                self.round_digest,
                self.party.to_bytes(4, "big"),
                self.key_identifier,
                self.plan_digest,
                self.signature,
                self.payload,
            )
        )

    @classmethod
    def encoded_length(cls, round_: Round) -> int:
        """Bytes of every ballot of a round."""
        return cls._HEADER + round_.plan.ciphertexts * round_.key.ciphertext_bytes

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> Ballot:
        """A received ballot, well-formed and of this round, its ciphertexts in (0, n^2).

        That it is signed by a registered party and its ciphertexts are units is checked where it is counted.

        Raises:
            MessageError: wrong length or type.
            WrongRoundError, WrongKeyError, UnknownPartyError, CiphertextError: as named.
        """
        reader = _Reader(data, cls.TYPE, cls.encoded_length(round_), "ballot")
        round_digest, party = reader.take(_DIGEST), reader.integer(4)
        _check_round(round_digest, round_)
        key_identifier, plan_digest = reader.take(_DIGEST), reader.take(_DIGEST)
        _check_key(key_identifier, round_)
        if plan_digest != round_.plan.digest:
            raise WrongRoundError("packed by another plan than this round's")
        round_.verification_key(party)
        signature, payload = reader.take(SIGNATURE_BYTES), reader.rest()
        ciphertexts = decode_ciphertexts(round_.key, payload, round_.plan.ciphertexts)
        return cls(round_digest, party, key_identifier, plan_digest, ciphertexts, payload, signature)


def _signed_bytes(round_digest: bytes, party: int, key_identifier: bytes, plan_digest: bytes, payload: bytes) -> bytes:
    body = round_digest + party.to_bytes(4, "big") + key_identifier + plan_digest + hashlib.sha256(payload).digest()
    return b"psephos ballot\0" + body


@dataclass(frozen=True)
class TallyRequest:
    """The curator asks the holders to open a product and says which ballots it counted.

    Attributes:
        round_digest: the round.
        parties: the counted parties, ascending.
        product_digest: SHA-256 of the product's ciphertexts as they travel.
    """

    round_digest: bytes = field(repr=False)
    parties: tuple[int, ...] = field(repr=False)
    product_digest: bytes = field(repr=False)

    TYPE = 2

    def encode(self, round_: Round) -> bytes:
        """The bytes that travel: the parties as a bit map over the roster."""
        return _header(self.TYPE) + self.round_digest + self.product_digest + _bitmap(self.parties, len(round_.roster))

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> TallyRequest:
        """A received request; raises MessageError or WrongRoundError."""
        size = (len(round_.roster) + 7) // 8
        reader = _Reader(data, cls.TYPE, len(_MAGIC) + 1 + 2 * _DIGEST + size, "tally request")
        round_digest, product_digest = reader.take(_DIGEST), reader.take(_DIGEST)
        _check_round(round_digest, round_)
        bitmap = reader.integer(size)
        if bitmap >> len(round_.roster):
            raise MessageError("the request counts a party that is not on the roster")
        parties = tuple(p for p in range(len(round_.roster)) if bitmap >> p & 1)
        return cls(round_digest, parties, product_digest)


def _bitmap(parties: Iterable[int], size: int) -> bytes:
    bitmap = bytearray((size + 7) // 8)
    for party in parties:
        bitmap[-1 - party // 8] |= 1 << party % 8
    return bytes(bitmap)


@dataclass(frozen=True)
class PartialDecryption:
    """One holder's answer to a tally request.

    Attributes:
        round_digest: the round.
        threshold_digest: the key ceremony that the share belongs to.
        holder: 1 .. n.
        product_digest: what was opened.
        values: c^(2 Delta f(j)) of each ciphertext of the product.
    """

    round_digest: bytes = field(repr=False)
    threshold_digest: bytes = field(repr=False)
    holder: int
    product_digest: bytes = field(repr=False)
    values: tuple[mpz, ...] = field(repr=False)

    TYPE = 3
    _HEADER = len(_MAGIC) + 1 + 3 * _DIGEST + 1

    def encode(self, round_: Round) -> bytes:
        """The bytes that travel."""
        return b"".join(
            (
                _header(self.TYPE),
                self.round_digest,
                self.threshold_digest,
                self.product_digest,
                bytes([self.holder]),
                encode_ciphertexts(round_.key, self.values),
            )
        )

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> PartialDecryption:
        """A received partial decryption, its values units modulo n^2.

        Raises:
            MessageError: wrong length or type.
            WrongRoundError, WrongKeyError (a share of another key or ceremony), ThresholdError (no such holder),
            CiphertextError: as named.
        """
        length = cls._HEADER + round_.plan.ciphertexts * round_.key.ciphertext_bytes
        reader = _Reader(data, cls.TYPE, length, "partial decryption")
        round_digest, threshold_digest, product_digest = (reader.take(_DIGEST) for _ in range(3))
        holder = reader.integer(1)
        values = decode_ciphertexts(round_.key, reader.rest(), round_.plan.ciphertexts)
        part = cls(round_digest, threshold_digest, holder, product_digest, values)
        part.check(round_)
        return part

    def check(self, round_: Round) -> None:
        """Refuse it unless it belongs to this round.

        Raises:
            WrongRoundError: made for another round.
            WrongKeyError: made with a share of another key or key ceremony.
            ThresholdError: no such holder.
            MessageError: another number of values than the round's plan has ciphertexts.
            CiphertextError: a value that is no unit modulo n^2.
        """
        _check_round(self.round_digest, round_)
        if self.threshold_digest != round_.threshold_key.digest:
            raise WrongKeyError("a partial decryption with a share of another key or key ceremony")
        if not 1 <= self.holder <= round_.threshold_key.holders:
            raise ThresholdError(f"holders are numbered 1 to {round_.threshold_key.holders}, there is no {self.holder}")
        if len(self.values) != round_.plan.ciphertexts:
            raise MessageError(f"a partial decryption has {round_.plan.ciphertexts} values, not {len(self.values)}")
        check_ciphertexts(round_.key, self.values)
