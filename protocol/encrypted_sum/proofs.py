"""Proofs of ballots, of the key holders' noise and of partial decryptions, as the round demands them (`Round.proofs`).

A vector's sender is its `place` in the round (`Round.sender`). A proof is bound to its round and its sender, so it
cannot be used again elsewhere (docs/security/proofs.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import InvalidParameter, ProofError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.proofs import codewords, knowledge, opening
from psephos.protocol.proofs.knowledge import KnowledgeProof
from psephos.protocol.proofs.opening import OpeningProof
from psephos.protocol.randomness import SYSTEM, Randomness


def proof_bytes(round_: Round, place: int = 0) -> tuple[int, int]:
    """Return the smallest and the largest length of the proof of a sender's vector, in bytes."""
    if round_.proofs == "none":
        return 0, 0
    if round_.proofs == "knowledge":
        return (KnowledgeProof.encoded_length(round_.key),) * 2
    return 1, round_.layout_of(place).longest_proof


def encrypt_with_proof(
    round_: Round, place: int, values: IntegerVector, encryptor: Encryptor
) -> tuple[EncryptedVector, bytes]:
    """Encrypt a sender's vector and prove what the round demands about it."""
    if round_.proofs == "valid" and encryptor.mode == "full":
        raise InvalidParameter("validity is proved in the randomness modes half and short; choose one of them")
    if round_.proofs == "none":
        return EncryptedVector.encrypt(encryptor, round_.plan, values), b""
    statement, randomness = _statement(round_, place), encryptor.randomness
    ciphertexts, witness = encryptor.encrypt_with_witness(round_.plan.pack(values))
    if round_.proofs == "knowledge":
        known = knowledge.prove(statement, round_.key, ciphertexts, witness, encryptor.mode, randomness=randomness)
        proof = known.encode(round_.key)
    else:
        layout = round_.layout_of(place)
        proof = codewords.prove(statement, layout, values, ciphertexts, witness, randomness=randomness)
    return EncryptedVector(round_.key, round_.plan, ciphertexts), proof


def check_proofs(round_: Round, vectors: Sequence[tuple[int, Sequence[mpz], bytes]]) -> None:
    """Verify the proofs of several vectors, (place, ciphertexts, encoded proof) each; the ciphertexts must be units."""
    if round_.proofs == "knowledge":
        claims = []
        for place, ciphertexts, proof in vectors:
            with _naming_sender(round_, place):
                claims.append((_statement(round_, place), ciphertexts, KnowledgeProof.decode(proof, round_.key)))
        if (wrong := knowledge.first_wrong(round_.key, claims)) is not None:
            with _naming_sender(round_, vectors[wrong][0]):
                raise ProofError("its proof does not hold in this round")
    elif round_.proofs == "valid":
        for place, ciphertexts, proof in vectors:
            with _naming_sender(round_, place):
                codewords.verify(_statement(round_, place), round_.layout_of(place), ciphertexts, proof)


@contextmanager
def _naming_sender(round_: Round, place: int) -> Iterator[None]:
    try:
        yield
    except ProofError as error:
        raise ProofError(f"the encrypted vector of {round_.sender(place)}: {error}") from None


def opening_proof_bytes(round_: Round) -> int:
    return 0 if round_.proofs == "none" else OpeningProof.encoded_length(round_.threshold_key)


def prove_opening(
    round_: Round,
    share: KeyShare,
    ciphertexts: Sequence[mpz],
    values: Sequence[mpz],
    *,
    randomness: Randomness = SYSTEM,
) -> bytes:
    if round_.proofs == "none":
        return b""
    key, statement = round_.threshold_key, _opening_statement(round_, share.holder)
    return opening.prove(statement, key, ciphertexts, values, share.exponent, randomness=randomness).encode(key)


def check_opening(round_: Round, holder: int, ciphertexts: Sequence[mpz], values: Sequence[mpz], proof: bytes) -> None:
    """Raise ProofError unless the proof of a partial decryption holds; ciphertexts and values must be units."""
    if round_.proofs == "none":
        return
    key, statement = round_.threshold_key, _opening_statement(round_, holder)
    opening.verify(statement, key, holder, ciphertexts, values, OpeningProof.decode(proof, key))


def _opening_statement(round_: Round, holder: int) -> bytes:
    return b"psephos partial decryption\0" + round_.digest + bytes([holder])


def _statement(round_: Round, place: int) -> bytes:
    if place < len(round_.roster):
        return b"psephos ballot\0" + round_.digest + place.to_bytes(4, "big")
    return b"psephos noise ballot\0" + round_.digest + bytes([place - len(round_.roster) + 1])
