"""The messages of an encrypted sum, each a frozen record with one strict binary encoding.

The session of a message is the digest of its round. Decoding checks the length and every bound before anything is
computed with the content. docs/protocols/tally.md lists the fields.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.proofs import opening_proof_bytes, proof_bytes
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import ForgedSignatureError, MessageError, ThresholdError, WrongKeyError, WrongRoundError
from psephos.protocol.paillier.ciphertexts import decode_ciphertexts, encode_ciphertexts, received_ciphertexts
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.signing import SIGNATURE_BYTES, SigningKey
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import DIGEST_BYTES, HEADER_BYTES, Kind, Reader, frame

_PARTY_BYTES = 4


@dataclass(frozen=True)
class Ballot:
    """One party's signed, encrypted vector. Public: it is posted on the board.

    `proof` is empty if the round demands none, `payload` the encoding of ciphertexts and proof; the signature is that
    of the round, the party and the SHA-256 of the payload.
    """

    round_digest: bytes = field(repr=False)
    party: int
    ciphertexts: tuple[mpz, ...] = field(repr=False)
    proof: bytes = field(repr=False)
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @classmethod
    def sign(
        cls, round_: Round, party: int, vector: EncryptedVector, signing_key: SigningKey, proof: bytes = b""
    ) -> Ballot:
        """Sign a party's encrypted vector and proof, as `encrypt_with_proof` returned them.

        Raises:
            WrongKeyError, WrongRoundError: the vector is encrypted under another key or packed by another plan.
            ForgedSignatureError: the signing key is not the one registered for this party.
        """
        if vector.key != round_.key:
            raise WrongKeyError(f"the vector is encrypted under {vector.key!r}, not under the round's {round_.key!r}")
        if vector.plan != round_.plan:
            raise WrongRoundError("the vector is packed by a plan other than that of this round")
        if round_.verification_key(party) != signing_key.verification_key:
            raise ForgedSignatureError(f"this signing key is not the one registered for party {party}")
        payload = encode_ciphertexts(round_.key, vector.ciphertexts) + proof
        signature = signing_key.sign(_signed(round_.digest, party, payload))
        return cls(round_.digest, party, vector.ciphertexts, proof, payload, signature)

    def encode(self) -> bytes:
        party = self.party.to_bytes(_PARTY_BYTES, "big")
        return frame(Kind.BALLOT, self.round_digest, party, self.signature, self.payload)

    @classmethod
    def encoded_length(cls, round_: Round) -> int:
        return HEADER_BYTES + _PARTY_BYTES + SIGNATURE_BYTES + round_.vector_bytes + proof_bytes(round_)[1]

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> Ballot:
        """Decode a received ballot and verify its signature.

        Whether the ciphertexts, all in (0, n^(s+1)), are units and the proof holds is checked by
        `BallotProduct.add_all`, for many ballots at once.

        Raises:
            MessageError, WrongRoundError: wrong length or kind, or made for another round.
            UnknownPartyError, ForgedSignatureError: not signed by a party of the roster.
            CiphertextError: a ciphertext is out of range.
        """
        longest = cls.encoded_length(round_)
        least, most = proof_bytes(round_)
        reader = Reader(data, Kind.BALLOT, round_.digest)
        if not longest - most + least <= len(data) <= longest:
            raise MessageError(f"a ballot has {longest - most + least} to {longest} bytes here, not {len(data)}")
        party = reader.integer(_PARTY_BYTES)
        registered = round_.verification_key(party)
        signature, payload = reader.take(SIGNATURE_BYTES), reader.rest()
        size = round_.vector_bytes
        ciphertexts = decode_ciphertexts(round_.key, payload[:size], round_.plan.ciphertexts)
        registered.verify(signature, _signed(round_.digest, party, payload))
        return cls(round_.digest, party, ciphertexts, payload[size:], payload, signature)


def _signed(round_digest: bytes, party: int, payload: bytes) -> bytes:
    return b"psephos ballot\0" + round_digest + party.to_bytes(_PARTY_BYTES, "big") + hashlib.sha256(payload).digest()


@dataclass(frozen=True)
class NoiseBallot:
    """One key holder's encrypted share of the noise, in a round with `holder_noise`. Public."""

    round_digest: bytes = field(repr=False)
    holder: int
    ciphertexts: tuple[mpz, ...] = field(repr=False)
    proof: bytes = field(repr=False)

    def encode(self, round_: Round) -> bytes:
        ciphertexts = encode_ciphertexts(round_.key, self.ciphertexts)
        return frame(Kind.NOISE_BALLOT, self.round_digest, bytes([self.holder]), ciphertexts, self.proof)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> NoiseBallot:
        """Decode received noise; its proof is checked by `BallotProduct.add_noise`."""
        if not round_.holder_noise:
            raise MessageError("the key holders of this round add no noise")
        size, (least, most) = round_.vector_bytes, proof_bytes(round_, round_.holder_place(1))
        reader = Reader(data, Kind.NOISE_BALLOT, round_.digest)
        if not least <= len(data) - HEADER_BYTES - 1 - size <= most:
            raise MessageError(f"the noise of a holder of this round has at most {1 + size + most} bytes in its body")
        holder = _holder(reader, round_)
        ciphertexts = received_ciphertexts(round_.key, reader.take(size), round_.plan.ciphertexts)
        return cls(round_.digest, holder, ciphertexts, reader.rest())


@dataclass(frozen=True)
class Close:
    """The curator's message that ends the vote: ballots that are posted after it are late. Public."""

    round_digest: bytes = field(repr=False)

    def encode(self) -> bytes:
        return frame(Kind.CLOSE, self.round_digest)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> Close:
        Reader(data, Kind.CLOSE, round_.digest, length=0)
        return cls(round_.digest)


@storable
@dataclass(frozen=True)
class Confirmation:
    """A holder's statement of which product it would open, so that no two products of a round are opened. Public."""

    round_digest: bytes = field(repr=False)
    holder: int
    product_digest: bytes = field(repr=False)

    def encode(self) -> bytes:
        return frame(Kind.CONFIRMATION, self.round_digest, self.product_digest, bytes([self.holder]))

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> Confirmation:
        reader = Reader(data, Kind.CONFIRMATION, round_.digest, length=DIGEST_BYTES + 1)
        return cls(round_.digest, product_digest=reader.take(DIGEST_BYTES), holder=_holder(reader, round_))


def _holder(reader: Reader, round_: Round) -> int:
    holder = reader.integer(1)
    if not 1 <= holder <= round_.threshold_key.holders:
        raise ThresholdError(f"the message names holder {holder} of {round_.threshold_key.holders}")
    return holder


@storable
@dataclass(frozen=True)
class TallyRequest:
    """The curator's request that a holder opens the product of the vectors of `members`, a bit map (`Round.sender`)."""

    round_digest: bytes = field(repr=False)
    members: int = field(repr=False)
    product_digest: bytes = field(repr=False)

    def encode(self, round_: Round) -> bytes:
        members = encode_members(self.members, round_)
        return frame(Kind.TALLY_REQUEST, self.round_digest, self.product_digest, members)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> TallyRequest:
        size = (round_.senders + 7) // 8
        reader = Reader(data, Kind.TALLY_REQUEST, round_.digest, length=DIGEST_BYTES + size)
        product_digest = reader.take(DIGEST_BYTES)
        return cls(round_.digest, decode_members(reader.rest(), round_), product_digest)


def encode_members(members: int, round_: Round) -> bytes:
    return members.to_bytes((round_.senders + 7) // 8, "big")


def decode_members(data: bytes, round_: Round) -> int:
    """Decode a bit map of the vectors counted; raise MessageError for a sender that the round does not have."""
    members = int.from_bytes(data, "big")
    if members >> round_.senders:
        raise MessageError("the message counts a party that is not on the roster, or a holder that adds no noise")
    return members


@storable
@dataclass(frozen=True)
class PartialDecryption:
    """One holder's answer to a tally request: c^(2 Delta f(j)) of each ciphertext c of the product, and a proof."""

    round_digest: bytes = field(repr=False)
    holder: int
    product_digest: bytes = field(repr=False)
    values: tuple[mpz, ...] = field(repr=False)
    proof: bytes = field(default=b"", repr=False)

    def encode(self, round_: Round) -> bytes:
        values = encode_ciphertexts(round_.key, self.values)
        holder = bytes([self.holder])
        return frame(Kind.PARTIAL_DECRYPTION, self.round_digest, self.product_digest, holder, values, self.proof)

    @staticmethod
    def encoded_bytes(round_: Round) -> int:
        return HEADER_BYTES + DIGEST_BYTES + 1 + round_.vector_bytes + opening_proof_bytes(round_)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> PartialDecryption:
        """Decode a received partial decryption; its proof is checked by `received_part`."""
        length = cls.encoded_bytes(round_) - HEADER_BYTES
        reader = Reader(data, Kind.PARTIAL_DECRYPTION, round_.digest, length=length)
        product_digest, holder = reader.take(DIGEST_BYTES), _holder(reader, round_)
        values = received_ciphertexts(round_.key, reader.take(round_.vector_bytes), round_.plan.ciphertexts)
        return cls(round_.digest, holder, product_digest, values, reader.rest())
