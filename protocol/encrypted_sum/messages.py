"""The messages of an encrypted sum, each a frozen record with one strict binary encoding.

Their session is the digest of the round, which fixes key, ceremony, plan and roster: a message made for other terms is
one of another round. Decoding knows the one length a well-formed message can have and checks every bound before
anything is computed with it. docs/protocols/tally.md lists the fields.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import ClassVar

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.proofs import opening_proof_bytes, proof_bytes
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import ForgedSignatureError, MessageError, ThresholdError, WrongKeyError, WrongRoundError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts, decode_ciphertexts, encode_ciphertexts
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.signing import SIGNATURE_BYTES, SigningKey
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import DIGEST_BYTES, HEADER_BYTES, Kind, Reader, frame

__all__ = ["Ballot", "Close", "Confirmation", "PartialDecryption", "TallyRequest", "decode_parties", "encode_parties"]

_PARTY_BYTES = 4


@dataclass(frozen=True)
class Ballot:
    """One party's encrypted vector, signed. Public: it goes to the board.

    Attributes:
        round_digest: the round it is cast in.
        party: the sender's place on the roster.
        ciphertexts: the encrypted vector.
        proof: what the round demands to be proved of them; empty where nothing is.
        payload: ciphertexts and proof as they travel.
        signature: Ed25519 over round, party and the payload's hash.
    """

    round_digest: bytes = field(repr=False)
    party: int
    ciphertexts: tuple[mpz, ...] = field(repr=False)
    proof: bytes = field(repr=False)
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    OVERHEAD_BYTES: ClassVar[int] = HEADER_BYTES + _PARTY_BYTES + SIGNATURE_BYTES
    """What a ballot has besides its ciphertexts and its proof."""

    @classmethod
    def sign(
        cls, round_: Round, party: int, vector: EncryptedVector, signing_key: SigningKey, proof: bytes = b""
    ) -> Ballot:
        """The party's ballot; vector and proof as `encrypt_with_proof` made them.

        Raises WrongKeyError or WrongRoundError when the vector is not this round's, ForgedSignatureError when
        the signing key is not the one registered for this party.
        """
        if vector.key != round_.key:
            raise WrongKeyError(f"the vector is encrypted under {vector.key!r}, and this round's is {round_.key!r}")
        if vector.plan != round_.plan:
            raise WrongRoundError("the vector is packed by another plan than this round's")
        if round_.verification_key(party) != signing_key.verification_key:
            raise ForgedSignatureError(f"this signing key is not the one registered for party {party}")
        payload = encode_ciphertexts(round_.key, vector.ciphertexts) + proof
        signature = signing_key.sign(_signed(round_.digest, party, payload))
        return cls(round_.digest, party, vector.ciphertexts, proof, payload, signature)

    def encode(self) -> bytes:
        """The bytes that travel."""
        party = self.party.to_bytes(_PARTY_BYTES, "big")
        return frame(Kind.BALLOT, self.round_digest, party, self.signature, self.payload)

    @classmethod
    def encoded_length(cls, round_: Round) -> int:
        """Bytes of every ballot of a round; of the longest, where validity is proved."""
        return cls.OVERHEAD_BYTES + round_.plan.ciphertexts * round_.key.ciphertext_bytes + proof_bytes(round_)[1]

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> Ballot:
        """A received ballot of this round, signed by its party, its ciphertexts in (0, n^(s+1)).

        That its ciphertexts are units and its proof holds is checked where it is counted, for many ballots at once.

        Raises:
            MessageError: wrong length or kind.
            WrongRoundError, UnknownPartyError, ForgedSignatureError, CiphertextError: as named.
        """
        longest = cls.encoded_length(round_)
        least, most = proof_bytes(round_)
        reader = Reader(data, Kind.BALLOT, round_.digest, length=longest - HEADER_BYTES if least == most else None)
        if not longest - most + least <= len(data) <= longest:
            raise MessageError(f"a ballot of this round has at most {longest} bytes, not {len(data)}")
        party = reader.integer(_PARTY_BYTES)
        registered = round_.verification_key(party)
        signature, payload = reader.take(SIGNATURE_BYTES), reader.rest()
        size = round_.plan.ciphertexts * round_.key.ciphertext_bytes
        ciphertexts = decode_ciphertexts(round_.key, payload[:size], round_.plan.ciphertexts)
        registered.verify(signature, _signed(round_.digest, party, payload))
        return cls(round_.digest, party, ciphertexts, payload[size:], payload, signature)


def _signed(round_digest: bytes, party: int, payload: bytes) -> bytes:
    return b"psephos ballot\0" + round_digest + party.to_bytes(_PARTY_BYTES, "big") + hashlib.sha256(payload).digest()


@dataclass(frozen=True)
class Close:
    """The curator ends the vote: what comes to the board after it is late, for everybody. Public."""

    round_digest: bytes = field(repr=False)

    def encode(self) -> bytes:
        """The bytes that travel."""
        return frame(Kind.CLOSE, self.round_digest)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> Close:
        """Raises MessageError or WrongRoundError."""
        Reader(data, Kind.CLOSE, round_.digest, length=0)
        return cls(round_.digest)


@storable
@dataclass(frozen=True)
class Confirmation:
    """A holder says what it would open, so that no two products of a round are opened. Public.

    Attributes:
        round_digest: the round.
        holder: 1 .. n.
        product_digest: of the ballots before the close.
    """

    round_digest: bytes = field(repr=False)
    holder: int
    product_digest: bytes = field(repr=False)

    def encode(self) -> bytes:
        """The bytes that travel."""
        return frame(Kind.CONFIRMATION, self.round_digest, self.product_digest, bytes([self.holder]))

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> Confirmation:
        """Raises MessageError, WrongRoundError or ThresholdError (no such holder)."""
        reader = Reader(data, Kind.CONFIRMATION, round_.digest, length=DIGEST_BYTES + 1)
        return cls(round_.digest, product_digest=reader.take(DIGEST_BYTES), holder=_holder(reader, round_))


def _holder(reader: Reader, round_: Round) -> int:
    holder = reader.integer(1)
    if not 1 <= holder <= round_.threshold_key.holders:
        raise ThresholdError(f"holders are numbered 1 to {round_.threshold_key.holders}, there is no {holder}")
    return holder


@storable
@dataclass(frozen=True)
class TallyRequest:
    """The curator asks a holder to open a product and says which ballots it counted.

    Attributes:
        round_digest: the round.
        members: the counted parties, a bit map over the roster (bit p is party p).
        product_digest: SHA-256 of the product's ciphertexts as they travel.
    """

    round_digest: bytes = field(repr=False)
    members: int = field(repr=False)
    product_digest: bytes = field(repr=False)

    def encode(self, round_: Round) -> bytes:
        """The bytes that travel."""
        members = encode_parties(self.members, round_)
        return frame(Kind.TALLY_REQUEST, self.round_digest, self.product_digest, members)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> TallyRequest:
        """A received request; raises MessageError or WrongRoundError."""
        size = (len(round_.roster) + 7) // 8
        reader = Reader(data, Kind.TALLY_REQUEST, round_.digest, length=DIGEST_BYTES + size)
        product_digest = reader.take(DIGEST_BYTES)
        return cls(round_.digest, decode_parties(reader.rest(), round_), product_digest)


def encode_parties(parties: int, round_: Round) -> bytes:
    """A bit map over the roster as it travels, most significant byte first."""
    return parties.to_bytes((len(round_.roster) + 7) // 8, "big")


def decode_parties(data: bytes, round_: Round) -> int:
    """The inverse; raises MessageError for a party that is not on the roster."""
    parties = int.from_bytes(data, "big")
    if parties >> len(round_.roster):
        raise MessageError("a party is counted that is not on the roster")
    return parties


@storable
@dataclass(frozen=True)
class PartialDecryption:
    """One holder's answer to a tally request.

    Attributes:
        round_digest: the round.
        holder: 1 .. n.
        product_digest: what was opened.
        values: c^(2 Delta f(j)) of each ciphertext of the product.
        proof: that they are, where the round demands proofs.
    """

    round_digest: bytes = field(repr=False)
    holder: int
    product_digest: bytes = field(repr=False)
    values: tuple[mpz, ...] = field(repr=False)
    proof: bytes = field(default=b"", repr=False)

    def encode(self, round_: Round) -> bytes:
        """The bytes that travel."""
        values = encode_ciphertexts(round_.key, self.values)
        holder = bytes([self.holder])
        return frame(Kind.PARTIAL_DECRYPTION, self.round_digest, self.product_digest, holder, values, self.proof)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> PartialDecryption:
        """A received partial decryption, its values units; that its proof holds is checked by the curator.

        Raises:
            MessageError: wrong length or kind.
            WrongRoundError, ThresholdError (no such holder), CiphertextError (a value that is no unit): as named.
        """
        size = round_.plan.ciphertexts * round_.key.ciphertext_bytes
        length = DIGEST_BYTES + 1 + size + opening_proof_bytes(round_)
        reader = Reader(data, Kind.PARTIAL_DECRYPTION, round_.digest, length=length)
        product_digest, holder = reader.take(DIGEST_BYTES), _holder(reader, round_)
        values = decode_ciphertexts(round_.key, reader.take(size), round_.plan.ciphertexts)
        check_ciphertexts(round_.key, values)
        return cls(round_.digest, holder, product_digest, values, reader.rest())
