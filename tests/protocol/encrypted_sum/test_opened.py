"""Opening a product: partial decryptions are accepted once per holder, for this product, with a valid proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import PartialDecryption
from psephos.protocol.encrypted_sum.opened import open_product, received_part
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.proofs import prove_opening
from psephos.protocol.errors import (
    CiphertextError,
    ThresholdError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import Entry


def product_of(sample: Any, round_: Any) -> BallotProduct:
    vectors = [sample.vector(sample.values(party)) for party in range(5)]
    total = vectors[0]
    for other in vectors[1:]:
        total = total + other
    assert isinstance(total, EncryptedVector)
    return BallotProduct(round_, 0b11111, total.ciphertexts)


@pytest.mark.parametrize("proofs", ["none", "knowledge"])
def test_a_partial_decryption_is_accepted_once_from_its_holder_for_its_product(sample: Any, proofs: Any) -> None:
    round_ = replace(sample.round, proofs=proofs)
    product = product_of(sample, round_)
    parts = []
    for share in sample.shares:
        values = share.partially_decrypt(product.columns)
        proof = prove_opening(round_, share, product.columns, values)
        parts.append(PartialDecryption(round_.digest, share.holder, product.digest, values, proof))

    def received(part: PartialDecryption, sender: str = "", *others: PartialDecryption) -> PartialDecryption:
        entry = Entry(1, sender or f"holder {part.holder}", "curator", part.encode(round_))
        return received_part(round_, product.columns, product.digest, entry, others)

    first, modulus = parts[0], sample.key.ciphertext_modulus
    assert received(first, "holder 1", *parts[1:]) == first
    squared = replace(first, values=tuple(v * v % modulus for v in first.values))
    for wrong, sender, error in (
        (first, "holder 2", ThresholdError),
        (first, "curator", ThresholdError),
        (replace(first, product_digest=bytes(32)), "", WrongRoundError),
        (replace(first, values=(mpz(0),) * len(first.values)), "", CiphertextError),
    ):
        with pytest.raises(error):
            received(wrong, sender)
    with pytest.raises(ThresholdError):
        received(first, "", parts[1], first)
    if proofs == "none":
        assert received(squared) == squared
    else:
        for lie in (squared, replace(parts[1], holder=1)):
            with pytest.raises(WrongPartialDecryptionError):
                received(lie)
    assert list(open_product(product, parts).sums) == sample.sums(range(5))
    with pytest.raises(ThresholdError):
        open_product(product, [first, first])
