"""The tally, broken in one line."""

from __future__ import annotations

import psephos.parties.party
import psephos.protocol.encrypted_sum.messages
import psephos.protocol.encrypted_sum.product
import psephos.protocol.paillier.comb
import psephos.protocol.paillier.encryption
import psephos.protocol.paillier.sharing
from psephos.parties.holder import KeyHolder
from tests.security.lab.edits import SEEDED, Mutant

__all__ = ["MUTANTS"]

_FRESH = "freshness, curator"
_DEVIATING = "deviating requests, curator and t - 1 holders"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "ballots without randomness",
        "tally",
        psephos.protocol.paillier.encryption.Encryptor,
        "_encrypt",
        "generator_power($key, $m) * $r.value % $modulus",
        "generator_power($key, $m) % $modulus",
        _FRESH,
    ),
    Mutant(
        "one encryption of zero for all ciphertexts of a ballot",
        "tally",
        psephos.protocol.paillier.encryption.Encryptor,
        "randomizers",
        "[$comb.draw(self.randomness) for $i in range($count)]",
        "[$comb.draw(self.randomness)] * $count",
        _FRESH,
    ),
    Mutant(
        "one encryption of zero for all ciphertexts of a ballot, from degree 2 on",
        "tally",
        psephos.protocol.paillier.encryption.Encryptor,
        "randomizers",
        "[$comb.draw(self.randomness) for $i in range($count)]",
        "([$comb.draw(self.randomness) for $i in range(1 if self.key.degree > 1 else $count)] * $count)[:$count]",
        "fresh parameters, curator",
    ),
    Mutant(
        "an exponent of eight bits",
        "tally",
        psephos.protocol.paillier.comb.FixedBaseComb,
        "draw",
        "$randomness.draw($size)",
        "bytes($size - 1) + $randomness.draw(1)",
        _FRESH,
    ),
    Mutant(
        "the same coins in every round",
        "tally",
        psephos.protocol.paillier.comb.FixedBaseComb,
        "draw",
        "$randomness.draw($size)",
        f"{SEEDED}.draw($size)",
        _FRESH,
    ),
    Mutant(
        "f(0) = s",
        "tally",
        psephos.protocol.paillier.sharing,
        "integer_polynomial",
        "[$delta * $secret]",
        "[$secret]",
        "dealt shares, curator and t - 1 holders",
    ),
    Mutant(
        "small coefficients",
        "tally",
        psephos.protocol.paillier.sharing,
        "integer_polynomial",
        "$delta * $delta * $bound << STATISTICAL_BITS",
        "$bound",
        "dealt shares, curator and t - 1 holders",
    ),
    Mutant(
        "coefficients of the size that degree 1 asks for",
        "tally",
        psephos.protocol.paillier.sharing,
        "integer_polynomial",
        "$delta * $delta * $bound << STATISTICAL_BITS",
        "min($delta * $delta * $bound << STATISTICAL_BITS, $delta * $delta << 128 + STATISTICAL_BITS)",
        "dealt shares, curator and t - 1 holders",
    ),
    Mutant(
        "threshold off by one",
        "tally",
        psephos.protocol.paillier.sharing,
        "integer_polynomial",
        "range($threshold - 1)",
        "range($threshold - 2)",
        "threshold, curator and t - 1 holders",
    ),
    Mutant(
        "a second product of a round opened",
        "tally",
        KeyHolder,
        "open",
        "self._openings.do_once(self.round.digest, $product, $make)",
        "self._openings.do_once($product, $product, $make)",
        _DEVIATING,
    ),
    Mutant(
        "the minimum of ballots ignored",
        "tally",
        psephos.protocol.encrypted_sum.product.BallotProduct,
        "check_minimum",
        "len(self) < self.round.minimum_ballots",
        "len(self) < 1",
        _DEVIATING,
    ),
    Mutant(
        "a product opened whose ballots were not observed",
        "tally",
        KeyHolder,
        "open",
        "$request.product_digest != $seen.digest",
        "False",
        _DEVIATING,
    ),
    Mutant(
        "ballots unsigned",
        "tally",
        psephos.protocol.encrypted_sum.messages.Ballot,
        "decode",
        "$registered.verify(...)",
        "None",
        _DEVIATING,
    ),
    Mutant(
        "a party counted twice",
        "tally",
        psephos.protocol.encrypted_sum.product.BallotProduct,
        "_first_of_each",
        "([], [], self.members)",
        "([], [], 0)",
        _DEVIATING,
    ),
    Mutant(
        "the round left out of the signature",
        "tally",
        psephos.protocol.encrypted_sum.messages,
        "_signed",
        "$label + $round_digest + $party.to_bytes($...size)",
        "$label + $party.to_bytes($...size)",
        _DEVIATING,
    ),
    Mutant(
        "two ballots on one auxiliary set",
        "tally",
        psephos.parties.party.Party,
        "ballot",
        "self._once.do_once($claim, $round.digest, $sign)",
        "$sign()",
        "second ballot, curator and t - 1 holders",
    ),
)
