"""Both verifiers on the same changed proofs of bounds: they accept the same, and nothing that was changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.audit.rounds import short_key
from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.proofs import bounded, codewords
from psephos.protocol.proofs.field import PRIME
from tests.verifier import bounded as second
from tests.verifier import hashproof, paillier

HERE, ELSEWHERE = b"round 1, party 3", b"round 1, party 4"
ADDENDS = 3
BALLOTS = ((2, 60, 1 << 31), (3, 105, 1 << 62), (4, 1, 1 << 90), (7, 30, 1 << 108))
"""Parts of an entry, entries, and the largest of them."""


@dataclass(frozen=True)
class Ballot:
    """An honest ballot, and the layouts of both verifiers."""

    layout: bounded.BoundedLayout
    other: second.Layout
    ciphertexts: tuple[mpz, ...]
    proof: bytes

    def verdicts(self, statement: bytes, ciphertexts: tuple[mpz, ...], proof: bytes) -> tuple[bool, bool]:
        """Return whether each verifier accepts."""
        try:
            codewords.verify(statement, self.layout, ciphertexts, proof)
            first = True
        except ProofError:
            first = False
        return first, not hashproof.check_vector(self.other, self.layout.plan.digest, statement, ciphertexts, proof)


@cache
def ballot(parts: int, length: int, largest: int) -> Ballot:
    key = short_key(1, 256).public_key
    plan = bounded.bounded_plan(key, length=length, addends=ADDENDS, minimum=-largest, maximum=largest)
    entries = [(-1) ** place * (largest >> place % 7) for place in range(length)]
    layout = bounded.BoundedLayout.of(key, plan, sum(entry**2 for entry in entries))
    theirs = paillier.Key(mpz(key.n), 1, 3, 2, bytes(16), mpz(1), mpz(4), (mpz(9),) * 3)
    packing = second.widened(hashproof.Packing(theirs, length, ADDENDS, -largest, largest))
    other = second.layout_of(packing, layout.square_bound)
    assert len(layout.norm.split.places) == len(other.norm.places) == parts
    ciphertexts, witness = Encryptor(key, expected=64).encrypt_with_witness(plan.pack(entries))
    return Ballot(layout, other, tuple(ciphertexts), codewords.prove(HERE, layout, entries, ciphertexts, witness))


def _changed(own: Ballot, data: st.DataObject) -> bytes:
    """Return other bytes than the proof."""
    proof, layout = bytearray(own.proof), own.layout
    begin = 64 + layout.key.ciphertext_bytes
    z, _w, polynomials = layout.proof_parts
    words = begin + sum(layout.proof_parts[:2])
    how = data.draw(st.sampled_from(["bit", "z", "word", "swap", "column", "cut", "longer"]))
    if how == "bit":
        proof[data.draw(st.integers(0, len(proof) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "z":
        moved = int.from_bytes(proof[begin : begin + z], "little") + data.draw(
            st.sampled_from([1, int(layout.key.plaintext_modulus)])
        )
        proof[begin : begin + z] = (moved % (1 << 8 * z)).to_bytes(z, "little")
    elif how == "word":  # with a second encoding of the same element, where there is one
        at = words + 8 * data.draw(st.integers(0, polynomials // 8 - 1))
        word = int.from_bytes(proof[at : at + 8], "little")
        proof[at : at + 8] = (word + PRIME if word + PRIME < 1 << 64 else PRIME).to_bytes(8, "little")
    elif how in ("swap", "column"):
        size = 32 if how == "swap" else 32 + 8 * (layout.sizes.first_rows + 6)
        first, other = (words + polynomials + size * data.draw(st.integers(*range_)) for range_ in ((0, 70), (71, 151)))
        proof[other : other + size] = proof[first : first + size]
    elif how == "cut":
        return bytes(proof[: data.draw(st.integers(0, len(proof) - 1))])
    else:
        proof += bytes(data.draw(st.integers(1, 40)))
    return bytes(proof)


def _compare(data: st.DataObject) -> None:
    own = ballot(*data.draw(st.sampled_from(BALLOTS)))
    statement, ciphertexts, proof = HERE, own.ciphertexts, own.proof
    what = data.draw(st.sampled_from(["nothing", "statement", "ciphertext", *["proof"] * 5]))
    modulus = own.layout.key.ciphertext_modulus
    if what == "statement":
        statement = ELSEWHERE
    elif what == "ciphertext":
        ciphertexts = (
            data.draw(st.sampled_from([modulus - ciphertexts[0], ciphertexts[0] * 4 % modulus])),
            *ciphertexts[1:],
        )
    elif what == "proof":
        proof = _changed(own, data)
    same = (statement, ciphertexts, proof) == (HERE, own.ciphertexts, own.proof)
    assert own.verdicts(statement, ciphertexts, proof) == (same, same)


@settings(max_examples=40)
@given(st.data())
def test_both_verifiers_accept_the_same(data: st.DataObject) -> None:
    _compare(data)


@pytest.mark.soak
@settings(max_examples=1500)
@given(st.data())
def test_both_verifiers_accept_the_same_in_a_long_search(data: st.DataObject) -> None:
    _compare(data)
