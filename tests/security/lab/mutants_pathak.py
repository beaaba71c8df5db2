"""Pathak 2010, broken in one line; all its variants."""

from __future__ import annotations

import psephos.curator.pathak.curator
import psephos.parties.pathak
import psephos.parties.pathak_noise
import psephos.protocol.paillier.encryption
import psephos.protocol.pathak.comparison
import psephos.protocol.pathak.messages
import psephos.protocol.pathak.resharing
import psephos.protocol.privacy.mechanisms
from tests.security.lab.editing import Mutant, again

__all__ = ["MUTANTS"]

_HALF = (
    "tuple(c * r % self._curator_key.modulus_squared for c, r in zip(powers, "
    "Encryptor(self._curator_key, 'half', randomness=self._randomness, expected=8).randomizers(len(powers))))"
)
_PARTY_1 = "party 1 (draws pi_1, the key and the mask)"
_LAST_MASKS = "masks = [self._randomness.bits(MASK_BITS) - (1 << (MASK_BITS - 1)) for _ in self._parties]"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "noise for the average put on the sum",
        "pathak-printed",
        psephos.protocol.pathak.messages.Terms,
        "scale",
        "2 * self.parties / (",
        "2 / (",
        "noise law",
    ),
    Mutant(
        "a spherical vector of mean norm b and not d b, finding 1",
        "pathak-spherical",
        psephos.protocol.privacy.mechanisms.SphericalLaplace,
        "sample",
        "self.scale / self.pitch",
        "self.scale / self.pitch / self.dimension",
        "noise law",
    ),
    Mutant(
        "noise sized for all parties, those excluded included",
        "pathak-repaired",
        psephos.parties.pathak_noise,
        "rung_shares",
        "contributors = terms.parties - terms.excluded",
        "contributors = terms.parties",
        "noise law",
    ),
    Mutant(
        "noise factors not re-randomised, as printed",
        "pathak-printed",
        psephos.parties.pathak.PathakParty,
        "add_noise",
        "self._full(self._curator_key, tuple(powers))",
        "tuple(powers)",
        f"freshness, {_PARTY_1}",
    ),
    Mutant(
        "the sealed share sent by its owner, as printed",
        "pathak-printed",
        psephos.parties.pathak.PathakParty,
        "forward_share",
        "forwarded.send(self._session, self.number, CURATOR)",
        "forwarded.send(self._session, sender, CURATOR)",
        "data sets exchanged, curator",
    ),
    Mutant(
        "no mask in Stage 1",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        _LAST_MASKS,
        "masks = [0 for _ in self._parties]",
        "masked shares, all parties but two",
    ),
    Mutant(
        "a narrow mask in Stage 1",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        _LAST_MASKS,
        "masks = [self._randomness.bits(SHARE_BITS) for _ in self._parties]",
        "masked shares, all parties but two",
    ),
    Mutant(
        "one mask for all shares in Stage 1",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        _LAST_MASKS,
        "masks = [self._randomness.bits(MASK_BITS)] * self.terms.parties",
        "masked shares, all parties but two",
    ),
    Mutant(
        "Charlie does not re-randomise",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        'fresh = Encryptor(group_key, "full", randomness=self._randomness).rerandomize(masked)',
        "fresh = masked",
        "freshness, all parties but two",
    ),
    Mutant(
        "pi_2 fixed",
        "pathak-repaired",
        psephos.curator.pathak.curator.PathakCurator,
        "blind_and_permute",
        "random_permutation(self.terms.parties, self._randomness)",
        "tuple(range(self.terms.parties))",
        "order of places, all parties but two",
    ),
    Mutant(
        "pi_1 fixed",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "accept_proposal",
        "random_permutation(self.terms.parties, self._randomness)",
        "tuple(range(self.terms.parties))",
        "data sets exchanged, curator",
    ),
    Mutant(
        "a narrow share of the size",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "share_size",
        "share = self._randomness.bits(SHARE_BITS)",
        "share = self._randomness.bits(TIE_BITS)",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "rung votes not re-randomised",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "vote_rung",
        "self._full(self._curator_key, tuple(rungs))",
        "tuple(rungs)",
        f"freshness, {_PARTY_1}",
    ),
    Mutant(
        "the Jacobi symbol kept by the noise factors",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "add_noise",
        "self._full(self._curator_key, tuple(powers))",
        _HALF,
        f"Jacobi symbols, {_PARTY_1}",
    ),
    Mutant(
        "no mask on the noise",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "mask_noise",
        "mask = [self._randomness.bits(self.terms.mask_bits) for",
        "mask = [0 for",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "a narrow mask on the noise",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "mask_noise",
        "mask = [self._randomness.bits(self.terms.mask_bits) for",
        "mask = [self._randomness.bits(16) for",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "one mask for all entries of the noise",
        "pathak-repaired",
        psephos.parties.pathak.PathakParty,
        "mask_noise",
        "mask = [self._randomness.bits(self.terms.mask_bits) for _ in range(self.terms.features)]",
        "mask = [self._randomness.bits(self.terms.mask_bits)] * self.terms.features",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "float shares",
        "pathak-repaired",
        psephos.protocol.pathak.resharing,
        "split_vector",
        "randomness.bits(modulus_bits) for _ in vector",
        "int(randomness.bits(24) * 2.0 ** (modulus_bits - 24)) for _ in vector",
        "simulation, all parties but two",
    ),
    Mutant(
        "narrow shares",
        "pathak-repaired",
        psephos.protocol.pathak.resharing,
        "split_vector",
        "randomness.bits(modulus_bits) for _ in vector",
        "randomness.bits(modulus_bits - 1) for _ in vector",
        "resharing enumerated",
    ),
    Mutant(
        "one encryption of zero for Charlie's whole selection",
        "pathak-repaired",
        psephos.protocol.paillier.encryption.Encryptor,
        "randomizers",
        "[comb.draw(self._randomness) for _ in range(count)]",
        "[comb.draw(self._randomness)] * count",
        f"freshness, {_PARTY_1}",
    ),
    Mutant(
        "the order of the comparison's answers leaked",
        "pathak-repaired",
        psephos.protocol.pathak.comparison,
        "answer",
        "random_permutation(len(blinded), randomness)",
        "tuple(range(len(blinded)))",
        "comparison enumerated",
    ),
    Mutant(
        "small blinds in the comparison",
        "pathak-repaired",
        psephos.protocol.pathak.comparison,
        "_blinded",
        "randomness.below(key.u - 1)",
        "randomness.below(3)",
        "comparison enumerated",
    ),
    Mutant(
        "the comparison's coin fixed",
        "pathak-repaired",
        psephos.protocol.pathak.comparison,
        "answer",
        "delta = randomness.bits(1)",
        "delta = 0",
        "comparison enumerated",
    ),
    Mutant(
        "no fresh h^r in the comparison's answers",
        "pathak-repaired",
        psephos.protocol.pathak.comparison,
        "_blinded",
        "gmpy2.powmod(c, r, n) * h % n",
        "gmpy2.powmod(c, r, n)",
        "comparison's blinds",
    ),
    Mutant(
        "one set of blinds for all comparisons of a batch",
        "pathak-all-pairs",
        psephos.protocol.pathak.comparison,
        "answer",
        "blinds[number * (bits + 1) : (number + 1) * (bits + 1)]",
        "blinds[: bits + 1]",
        "comparison's blinds",
    ),
    Mutant(
        "one coin for all comparisons of a batch",
        "pathak-all-pairs",
        psephos.protocol.pathak.comparison,
        "answer",
        "delta = randomness.bits(1)",
        "delta = delta if number else randomness.bits(1)",
        "comparison at width",
    ),
)

MUTANTS += again(
    MUTANTS,
    "pathak-all-pairs",
    "no mask in Stage 1",
    "a narrow mask in Stage 1",
    "one mask for all shares in Stage 1",
    "Charlie does not re-randomise",
    "pi_1 fixed",
    "a narrow share of the size",
)
MUTANTS += again(MUTANTS, "pathak-spherical", "no mask on the noise", "a narrow mask on the noise")
