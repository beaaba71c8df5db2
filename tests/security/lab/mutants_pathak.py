"""Pathak 2010, broken in one line; all its variants."""

from __future__ import annotations

import psephos.curator.pathak.curator
import psephos.parties.pathak
import psephos.parties.pathak_noise
import psephos.protocol.paillier.encryption
import psephos.protocol.pathak.comparison
import psephos.protocol.pathak.noise
import psephos.protocol.pathak.resharing
import psephos.protocol.privacy.mechanisms
from tests.security.lab.edits import Mutant, for_protocol

__all__ = ["MUTANTS"]

_HALF = (
    "tuple(c * r.value % $key.ciphertext_modulus for c, r in zip($powers, "
    "Encryptor($key, 'half', randomness=self._randomness, expected=8).randomizers(len($powers))))"
)
_PARTY_0 = "party 0 (draws pi_1, the key and the mask)"
_LAST_MASKS = "[self._randomness.bits(MASK_BITS) - $half for $party in self._parties]"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "shares sized for all parties, those excluded included",
        "pathak-public-bound",
        psephos.parties.pathak_noise,
        "noise_share",
        "$terms.parties - $terms.excluded",
        "$terms.parties",
        "noise law",
    ),
    Mutant(
        "a party that adds no noise of its own",
        "pathak-public-bound",
        psephos.parties.pathak.PathakParty,
        "agree",
        "[$w + $e for $w, $e in zip(self._parameters, ...)]",
        "self._parameters",
        "simulation, consumer (the published shares)",
        views=60,
    ),
    Mutant(
        "noise for the largest size instead of the smallest",
        "pathak-public-bound",
        psephos.parties.pathak.PathakParty,
        "agree",
        "noise_share($terms, $terms.smallest_size, $randomness)",
        "noise_share($terms, 16 * $terms.largest_size, $randomness)",
        "simulation, consumer (the published shares)",
        views=60,
    ),
    Mutant(
        "noise for the average put on the sum",
        "pathak-printed",
        psephos.protocol.pathak.noise,
        "noise_scale",
        "2 * $terms.parties / $rest",
        "2 / $rest",
        "noise law",
    ),
    Mutant(
        "noise sized for all parties, those excluded included",
        "pathak-repaired",
        psephos.parties.pathak_noise,
        "noise_share",
        "$terms.parties - $terms.excluded",
        "$terms.parties",
        "noise law",
    ),
    Mutant(
        "noise factors not re-randomised, as printed",
        "pathak-printed",
        psephos.parties.pathak.PathakParty,
        "_add_noise",
        "self._full($key, tuple($powers))",
        "tuple($powers)",
        f"freshness, {_PARTY_0}",
    ),
    Mutant(
        "the sealed share sent by its owner, as printed",
        "pathak-printed",
        psephos.parties.pathak.PathakParty,
        "_share_size",
        "$agreed.permutation[self.number]",
        "self.number",
        "data sets exchanged, curator",
    ),
    Mutant(
        "no mask in Stage 1",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        _LAST_MASKS,
        "[0 for $party in self._parties]",
        "masked shares, all parties but two",
    ),
    Mutant(
        "a narrow mask in Stage 1",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        _LAST_MASKS,
        "[self._randomness.bits(SHARE_BITS) for $party in self._parties]",
        "masked shares, all parties but two",
    ),
    Mutant(
        "one mask for all shares in Stage 1",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        _LAST_MASKS,
        "[self._randomness.bits(MASK_BITS)] * self.terms.parties",
        "masked shares, all parties but two",
    ),
    Mutant(
        "Charlie does not re-randomise",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        "Encryptor(...).rerandomize($masked)",
        "$masked",
        "freshness, all parties but two",
    ),
    Mutant(
        "pi_2 fixed",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        "random_permutation($parties, self._randomness)",
        "tuple(range($parties))",
        "order of places, all parties but two",
    ),
    Mutant(
        "pi_1 fixed",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "agree",
        "random_permutation($parties, self._randomness)",
        "tuple(range($parties))",
        "data sets exchanged, curator",
    ),
    Mutant(
        "a narrow share of the size",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "_share_size",
        "self._randomness.bits(SHARE_BITS)",
        "self._randomness.bits(TIE_BITS)",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "rung votes not re-randomised",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "vote_rung",
        "self._full($key, tuple($rungs))",
        "tuple($rungs)",
        f"freshness, {_PARTY_0}",
    ),
    Mutant(
        "the Jacobi symbol kept by the noise factors",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "_add_noise",
        "self._full($key, tuple($powers))",
        _HALF,
        f"Jacobi symbols, {_PARTY_0}",
    ),
    Mutant(
        "no mask on the noise",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "mask_noise",
        "[self._randomness.bits(mask_bits($terms)) for $i in $entries]",
        "[0 for $i in $entries]",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "a narrow mask on the noise",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "mask_noise",
        "[self._randomness.bits(mask_bits($terms)) for $i in $entries]",
        "[self._randomness.bits(16) for $i in $entries]",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "one mask for all entries of the noise",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "mask_noise",
        "[self._randomness.bits(mask_bits($terms)) for $i in range($count)]",
        "[self._randomness.bits(mask_bits($terms))] * $count",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "float shares",
        "pathak-repaired",
        psephos.protocol.pathak.resharing,
        "split_vector",
        "$randomness.bits($width)",
        "int($randomness.bits(24) * 2.0 ** ($width - 24))",
        "simulation, all parties but two",
    ),
    Mutant(
        "narrow shares",
        "pathak-repaired",
        psephos.protocol.pathak.resharing,
        "split_vector",
        "$randomness.bits($width)",
        "$randomness.bits($width - 1)",
        "resharing enumerated",
    ),
    Mutant(
        "one encryption of zero for Charlie's whole selection",
        "pathak-repaired",
        psephos.protocol.paillier.encryption.Encryptor,
        "randomizers",
        "[$comb.draw(self.randomness) for $i in range($count)]",
        "[$comb.draw(self.randomness)] * $count",
        f"freshness, {_PARTY_0}",
    ),
    Mutant(
        "the order of the comparison's answers leaked",
        "pathak-repaired",
        psephos.protocol.pathak.comparison,
        "answer",
        "random_permutation($count, $randomness)",
        "tuple(range($count))",
        "comparison enumerated",
    ),
    Mutant(
        "small blinds in the comparison",
        "pathak-repaired",
        psephos.protocol.pathak.comparison,
        "_blinded",
        "$randomness.below($key.u - 1)",
        "$randomness.below(3)",
        "comparison enumerated",
    ),
    Mutant(
        "the comparison's coin fixed",
        "pathak-repaired",
        psephos.protocol.pathak.comparison,
        "answer",
        "$randomness.bits(1)",
        "0",
        "comparison enumerated",
    ),
    Mutant(
        "no fresh h^r in the comparison's answers",
        "pathak-repaired",
        psephos.protocol.pathak.comparison,
        "_blinded",
        "gmpy2.powmod_sec($c, $r, $n) * $h % $n",
        "gmpy2.powmod_sec($c, $r, $n)",
        "comparison's blinds",
    ),
    Mutant(
        "one set of blinds for all comparisons of a batch",
        "pathak-all-pairs",
        psephos.protocol.pathak.comparison,
        "answer",
        "$blinds[$number * $size : $end]",
        "$blinds[:$size]",
        "comparison's blinds",
    ),
    Mutant(
        "one coin for all comparisons of a batch",
        "pathak-all-pairs",
        psephos.protocol.pathak.comparison,
        "answer",
        """
$fresh = $blinds[$number * $size : $end]
$coin = $randomness.bits(1)
""",
        """
$fresh = $blinds[$number * $size : $end]
$coin = $coin if $number else $randomness.bits(1)
""",
        "comparison at width",
    ),
)

MUTANTS += for_protocol(
    MUTANTS,
    "pathak-all-pairs",
    "no mask in Stage 1",
    "a narrow mask in Stage 1",
    "one mask for all shares in Stage 1",
    "Charlie does not re-randomise",
    "pi_1 fixed",
    "a narrow share of the size",
)
MUTANTS += for_protocol(MUTANTS, "pathak-public-bound", "float shares", "narrow shares")
