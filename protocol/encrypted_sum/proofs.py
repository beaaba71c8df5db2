"""Proofs of ballots and of partial decryptions, as the round demands them (`Round.proofs`).

A proof is bound to its round and its sender, so it cannot be used again elsewhere (docs/security/proofs.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from gmpy2 import mpz

from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import InvalidParameter, ProofError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.proofs import bounded, knowledge, opening, validity
from psephos.protocol.proofs.bounded import BoundedLayout
from psephos.protocol.proofs.knowledge import KnowledgeProof
from psephos.protocol.proofs.opening import OpeningProof
from psephos.protocol.proofs.validity import Layout
from psephos.protocol.randomness import SYSTEM, Randomness


def proof_bytes(round_: Round) -> tuple[int, int]:
    """Return the smallest and the largest length of a ballot's proof, in bytes."""
    if round_.proofs == "none":
        return 0, 0
    if round_.proofs == "knowledge":
        return (KnowledgeProof.encoded_length(round_.key),) * 2
    return 1, round_.layout.longest_proof


def noise_proof_bytes(round_: Round) -> tuple[int, int]:
    """Return the smallest and the largest length of the proof of a key holder's noise, in bytes."""
    return (1, round_.noise_layout.longest_proof) if round_.proofs == "valid" else proof_bytes(round_)


def encrypt_with_proof(
    round_: Round, party: int, values: IntegerVector, encryptor: Encryptor
) -> tuple[EncryptedVector, bytes]:
    """Encrypt one party's vector and prove what the round demands about it."""
    layout = round_.layout if round_.proofs == "valid" else None
    return _encrypted(round_, _statement(round_, party), layout, values, encryptor)


def encrypt_noise(
    round_: Round, holder: int, noise: IntegerVector, encryptor: Encryptor
) -> tuple[EncryptedVector, bytes]:
    """Encrypt one key holder's noise and prove what the round demands about it; as `encrypt_with_proof`."""
    layout = round_.noise_layout if round_.proofs == "valid" else None
    return _encrypted(round_, _noise_statement(round_, holder), layout, noise, encryptor)


def _encrypted(
    round_: Round,
    statement: bytes,
    layout: Layout | BoundedLayout | None,
    values: IntegerVector,
    encryptor: Encryptor,
) -> tuple[EncryptedVector, bytes]:
    """Encrypt a vector; prove that it fits the layout or, without one, what else the round demands."""
    if layout is not None and encryptor.mode == "full":
        raise InvalidParameter("validity is proved in the randomness modes half and short; choose one of them")
    if round_.proofs == "none":
        return EncryptedVector.encrypt(encryptor, round_.plan, values), b""
    ciphertexts, witness = encryptor.encrypt_with_witness(round_.plan.pack(values))
    randomness = encryptor.randomness
    if layout is None:
        known = knowledge.prove(statement, round_.key, ciphertexts, witness, encryptor.mode, randomness=randomness)
        proof = known.encode(round_.key)
    elif isinstance(layout, BoundedLayout):
        proof = bounded.prove(statement, layout, values, ciphertexts, witness, randomness=randomness)
    else:
        entries = np.asarray(values, dtype=np.int64)
        proof = validity.prove(statement, layout, entries, ciphertexts, witness, randomness=randomness)
    return EncryptedVector(round_.key, round_.plan, ciphertexts), proof


def check_noise_proof(round_: Round, holder: int, ciphertexts: Sequence[mpz], proof: bytes) -> None:
    """Raise ProofError unless the proof of a key holder's noise holds; the ciphertexts must be units."""
    statement = _noise_statement(round_, holder)
    try:
        if round_.proofs == "valid":
            bounded.verify(statement, round_.noise_layout, ciphertexts, proof)
        elif round_.proofs == "knowledge":
            claim = (statement, ciphertexts, KnowledgeProof.decode(proof, round_.key))
            if knowledge.first_wrong(round_.key, [claim]) is not None:
                raise ProofError("its proof does not hold")
    except ProofError as error:
        raise ProofError(f"the noise of holder {holder}: {error}") from None


def check_proofs(round_: Round, ballots: Sequence[tuple[int, Sequence[mpz], bytes]]) -> None:
    """Verify the proofs of several ballots, (party, ciphertexts, encoded proof) each; the ciphertexts must be units."""
    if round_.proofs == "knowledge":
        claims = []
        for party, ciphertexts, proof in ballots:
            with _naming_party(party):
                claims.append((_statement(round_, party), ciphertexts, KnowledgeProof.decode(proof, round_.key)))
        if (wrong := knowledge.first_wrong(round_.key, claims)) is not None:
            raise ProofError(f"the proof of party {ballots[wrong][0]} does not hold for its ballot in this round")
    elif round_.proofs == "valid":
        layout = round_.layout
        for party, ciphertexts, proof in ballots:
            with _naming_party(party):
                statement = _statement(round_, party)
                if isinstance(layout, BoundedLayout):
                    bounded.verify(statement, layout, ciphertexts, proof)
                else:
                    validity.verify(statement, layout, ciphertexts, proof)


@contextmanager
def _naming_party(party: int) -> Iterator[None]:
    try:
        yield
    except ProofError as error:
        raise ProofError(f"the ballot of party {party}: {error}") from None


def opening_proof_bytes(round_: Round) -> int:
    """Return the length of a partial decryption's proof, in bytes."""
    key = round_.threshold_key
    return 0 if round_.proofs == "none" else OpeningProof.encoded_length(key.key, key.exponent_bits)


def prove_opening(
    round_: Round,
    share: KeyShare,
    ciphertexts: Sequence[mpz],
    values: Sequence[mpz],
    *,
    randomness: Randomness = SYSTEM,
) -> bytes:
    """Prove that `values` are the holder's partial decryptions of `ciphertexts`."""
    if round_.proofs == "none":
        return b""
    key = round_.threshold_key
    proof = opening.prove(
        _opening_statement(round_, share.holder),
        opening.VerificationBase(key.key, key.verification_base, key.exponent_bits),
        ciphertexts,
        values,
        share.exponent,
        randomness=randomness,
    )
    return proof.encode(key.key, key.exponent_bits)


def check_opening(round_: Round, holder: int, ciphertexts: Sequence[mpz], values: Sequence[mpz], proof: bytes) -> None:
    """Raise ProofError unless the proof of a partial decryption holds; ciphertexts and values must be units."""
    if round_.proofs == "none":
        return
    key = round_.threshold_key
    opening.verify(
        _opening_statement(round_, holder),
        opening.VerificationBase(key.key, key.verification_base, key.exponent_bits),
        key.verification_values[holder - 1],
        ciphertexts,
        values,
        OpeningProof.decode(proof, key.key, key.exponent_bits),
    )


def _opening_statement(round_: Round, holder: int) -> bytes:
    return b"psephos partial decryption\0" + round_.digest + bytes([holder])


def _statement(round_: Round, party: int) -> bytes:
    return b"psephos ballot\0" + round_.digest + party.to_bytes(4, "big")


def _noise_statement(round_: Round, holder: int) -> bytes:
    return b"psephos noise ballot\0" + round_.digest + bytes([holder])
