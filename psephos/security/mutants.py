"""Protocols broken in one line, each of which the analysis must catch.

A mutant is an edit of the real source: one expression of one function is replaced, the function is compiled again in
its own module and put in the place of the original, wherever that was imported. So each is one line from the real
protocol by construction, none needs a switch in the protocol's code, and one whose line has changed says so and must
be looked at.

`UNCAUGHT` lists leaks that this analysis cannot catch, and why.
"""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import psephos.curator.pathak.curator
import psephos.curator.psgd.curator
import psephos.parties.noise
import psephos.parties.old_party
import psephos.parties.pathak
import psephos.parties.pathak_noise
import psephos.parties.psgd
import psephos.parties.statistic
import psephos.protocol.encrypted_sum.messages
import psephos.protocol.encrypted_sum.product
import psephos.protocol.paillier.comb
import psephos.protocol.paillier.encryption
import psephos.protocol.paillier.sharing
import psephos.protocol.pathak.comparison
import psephos.protocol.pathak.messages
import psephos.protocol.pathak.resharing
import psephos.protocol.privacy.mechanisms
from psephos.parties.old_holder import KeyHolder
from psephos.protocol.errors import InvalidParameter
from psephos.security.model import Case, Context, Result

__all__ = ["MUTANTS", "UNCAUGHT", "Mutant", "caught_by", "edited"]

_OURS = ("protocol", "parties", "curator", "psephos")
_FUTURE = __future__.annotations.compiler_flag
_SEEDED = "__import__('psephos.protocol.randomness', fromlist=['x']).SimulationRandomness(0)"
_HALF = (
    "tuple(c * r % self._curator_key.modulus_squared for c, r in zip(powers, "
    "Encryptor(self._curator_key, 'half', randomness=self._randomness, expected=8).randomizers(len(powers))))"
)


@contextmanager
def edited(owner: Any, name: str, old: str, new: str) -> Iterator[None]:
    """`owner.name` with `old` replaced by `new` in its source, everywhere it is in use, while the block runs.

    Raises InvalidParameter unless `old` is there exactly once: the protocol has changed, and so must the mutant.
    """
    original = inspect.getattr_static(owner, name)
    function = original.func if isinstance(original, cached_property) else original
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise InvalidParameter(f"the line to break in {name} has changed: {old!r} occurs {source.count(old)} times")
    if isinstance(original, cached_property):
        source = source.replace("@cached_property\n", "")
    scope: dict[str, Any] = {}
    code = compile(source.replace(old, new), f"<mutant of {name}>", "exec", flags=_FUTURE)
    exec(code, function.__globals__, scope)  # noqa: S102 - our own source, edited above
    broken: Any = scope[name]
    if isinstance(original, cached_property):
        broken = cached_property(broken)
        broken.__set_name__(owner, name)
    places = [owner] if isinstance(owner, type) else _holding(name, original)
    for place in places:
        setattr(place, name, broken)
    try:
        yield
    finally:
        for place in places:
            setattr(place, name, original)


def _holding(name: str, value: Any) -> list[Any]:
    """Our modules that know a function by its name."""
    modules = [m for key, m in sorted(sys.modules.items()) if key.split(".")[0] in _OURS]
    return [m for m in modules if m.__dict__.get(name) is value]


@dataclass(frozen=True)
class Mutant:
    """One broken protocol.

    Attributes:
        name: what is broken, in the field's words.
        protocol: whose analysis must catch it.
        owner, function, old, new: the edit.
        check: the one that must see it.
        views: per side of a two-sample test; enough that the leak is seen at any seed.
    """

    name: str
    protocol: str
    owner: Any
    function: str
    old: str
    new: str
    check: str
    views: int = 60

    @property
    def change(self) -> str:
        """The edit in words."""
        return f"{self.owner.__name__}.{self.function}: `{self.old}` becomes `{self.new}`"


def caught_by(mutant: Mutant, case: Case, context: Context) -> tuple[str | None, Result]:
    """The check, if it notices, and what it found."""
    own = Context(seed=context.seed + 1, views=mutant.views, rate=context.rate)
    with edited(mutant.owner, mutant.function, mutant.old, mutant.new):
        result = case.check(mutant.check).run(own)
    return (mutant.check if result.leaks else None), result


_TALLY_FRESH = "freshness, curator"
_DEVIATING = "deviating requests, curator and t - 1 holders"
_PARTY_1 = "party 1 (draws pi_1, the key and the mask)"
_LAST_MASKS = "masks = [self._randomness.bits(MASK_BITS) - (1 << (MASK_BITS - 1)) for _ in self._parties]"

_OWN: tuple[Mutant, ...] = (
    # -- the tally
    Mutant(
        "ballots without randomness",
        "tally",
        psephos.protocol.paillier.encryption.Encryptor,
        "encrypt",
        "(1 + m * n) * r % modulus",
        "(1 + m * n) % modulus",
        _TALLY_FRESH,
    ),
    Mutant(
        "one encryption of zero for all ciphertexts of a ballot",
        "tally",
        psephos.protocol.paillier.encryption.Encryptor,
        "randomizers",
        "[comb.random_power(self._randomness) for _ in range(count)]",
        "[comb.random_power(self._randomness)] * count",
        _TALLY_FRESH,
    ),
    Mutant(
        "an exponent of eight bits",
        "tally",
        psephos.protocol.paillier.comb.FixedBaseComb,
        "random_power",
        "randomness.draw(2 * width)",
        "bytes(2 * width - 1) + randomness.draw(1)",
        _TALLY_FRESH,
    ),
    Mutant(
        "the same coins in every round",
        "tally",
        psephos.protocol.paillier.comb.FixedBaseComb,
        "random_power",
        "randomness.draw(2 * width)",
        f"{_SEEDED}.draw(2 * width)",
        _TALLY_FRESH,
    ),
    Mutant(
        "f(0) = s",
        "tally",
        psephos.protocol.paillier.sharing,
        "deal_integer",
        "coefficients = [delta * secret]",
        "coefficients = [secret]",
        "dealt shares, curator and t - 1 holders",
    ),
    Mutant(
        "small coefficients",
        "tally",
        psephos.protocol.paillier.sharing,
        "deal_integer",
        "(delta * delta * bound) << STATISTICAL_BITS",
        "bound",
        "dealt shares, curator and t - 1 holders",
    ),
    Mutant(
        "threshold off by one",
        "tally",
        psephos.protocol.paillier.sharing,
        "deal_integer",
        "range(threshold - 1)",
        "range(threshold - 2)",
        "threshold, curator and t - 1 holders",
    ),
    Mutant(
        "a round opened twice",
        "tally",
        KeyHolder,
        "partially_decrypt",
        "if not self._openings.claim(self.round.digest):",
        "if False:",
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
        "partially_decrypt",
        "if request.product_digest != self._seen.digest:",
        "if False:",
        _DEVIATING,
    ),
    Mutant(
        "ballots unsigned",
        "tally",
        psephos.protocol.encrypted_sum.messages.Ballot,
        "decode",
        "registered.verify(",
        "(lambda *ignored: None)(",
        _DEVIATING,
    ),
    Mutant(
        "a party counted twice",
        "tally",
        psephos.protocol.encrypted_sum.product.BallotProduct,
        "add_all",
        "if party in accepted or self.members >> party & 1:",
        "if party in accepted:",
        _DEVIATING,
    ),
    Mutant(
        "the round left out of the signature",
        "tally",
        psephos.protocol.encrypted_sum.messages,
        "_signed",
        "+ round_digest + party",
        "+ party",
        _DEVIATING,
    ),
    Mutant(
        "two ballots on one auxiliary set",
        "tally",
        psephos.parties.old_party.Party,
        "cast",
        "if not self._once.claim(",
        "if not bytes(",
        "second ballot, curator and t - 1 holders",
    ),
    # -- the statistic
    Mutant(
        "no noise",
        "statistic",
        psephos.parties.statistic,
        "noisy_contribution",
        "[value + noise for",
        "[value for",
        "simulation, curator",
        views=110,
    ),
    Mutant(
        "noise that everybody knows",
        "statistic",
        psephos.parties.statistic,
        "noisy_contribution",
        "shares.share(randomness)",
        f"shares.share({_SEEDED})",
        "shares differ",
    ),
    Mutant(
        "noise sized for all parties, colluders included",
        "statistic",
        psephos.parties.noise.PolyaShares,
        "_jumps",
        "self.contributors",
        "self.parties",
        "noise law",
    ),
    Mutant(
        "noise of one sign",
        "statistic",
        psephos.parties.noise.PolyaShares,
        "share",
        "jump if entry % 2 else -jump",
        "jump",
        "noise law",
    ),
    Mutant(
        "shares clipped short",
        "statistic",
        psephos.parties.noise.PolyaShares,
        "share",
        "bound = self.bound",
        "bound = 20",
        "noise law",
    ),
    Mutant(
        "one's own share counted on",
        "statistic",
        psephos.parties.noise,
        "contributors",
        "left = parties - colluders - dropouts - 1",
        "left = parties - colluders - dropouts",
        "noise law",
    ),
    Mutant(
        "noise sized for all parties, colluders included",
        "statistic-gaussian",
        psephos.parties.noise.SkellamShares,
        "share",
        "(2 * self.contributors)",
        "(2 * self.parties)",
        "noise law",
    ),
    Mutant(
        "noise of one sign",
        "statistic-gaussian",
        psephos.parties.noise.SkellamShares,
        "share",
        "poisson(mean, randomness) - poisson(mean, randomness)",
        "poisson(mean, randomness)",
        "noise law",
    ),
    Mutant(
        "shares clipped short",
        "statistic-gaussian",
        psephos.parties.noise.SkellamShares,
        "share",
        "bound = self.bound",
        "bound = 20",
        "noise law",
    ),
    # -- Pathak, printed and repaired
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
        "[comb.random_power(self._randomness) for _ in range(count)]",
        "[comb.random_power(self._randomness)] * count",
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
    # -- PSGD
    Mutant(
        "no rho",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "vector",
        "[u + e + r for",
        "[u + e for",
        "simulation, curator",
        views=90,
    ),
    Mutant("no eta", "psgd", psephos.parties.psgd.GradientParty, "vector", "[u + e + r for", "[u + r for", "noise law"),
    Mutant(
        "rho that everybody knows",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "vector",
        "step_share(self.series, step, self._randomness)",
        f"step_share(self.series, step, {_SEEDED})",
        "simulation, curator",
    ),
    Mutant(
        "a step answered again with fresh noise",
        "psgd",
        psephos.parties.psgd.GradientParty,
        "answer",
        "if announcement.step <= self._step:",
        "if announcement.step < self._step:",
        "steps answered once",
    ),
    Mutant(
        "two products opened in one step",
        "psgd",
        psephos.parties.psgd._SameProduct,
        "claim",
        "self._record.first(digest, product) == product",
        "bool(self._record.first(digest, product))",
        "steps answered once",
    ),
    Mutant(
        "eta sized for all parties, colluders included",
        "psgd",
        psephos.curator.psgd.curator,
        "agree",
        "sigma / math.sqrt(honest)",
        "sigma / math.sqrt(parties)",
        "noise law",
    ),
    Mutant(
        "noise sized for all parties, the colluder included",
        "psgd-gaussian",
        psephos.curator.psgd.curator,
        "agree",
        "l1, l2, steps) / honest",
        "l1, l2, steps) / parties",
        "noise law",
    ),
    Mutant(
        "noise for one step in each of many",
        "psgd-gaussian",
        psephos.curator.psgd.curator,
        "agree",
        "l1, l2, steps) / honest",
        "l1, l2, 1) / honest",
        "noise law",
    ),
)

_AGAIN: dict[tuple[str, str], tuple[str, ...]] = {
    ("statistic", "statistic-gaussian"): ("no noise", "noise that everybody knows", "one's own share counted on"),
    ("pathak-repaired", "pathak-all-pairs"): (
        "no mask in Stage 1",
        "a narrow mask in Stage 1",
        "one mask for all shares in Stage 1",
        "Charlie does not re-randomise",
        "pi_1 fixed",
        "a narrow share of the size",
    ),
    ("pathak-repaired", "pathak-spherical"): ("no mask on the noise", "a narrow mask on the noise"),
    ("psgd", "psgd-gaussian"): (
        "no rho",
        "rho that everybody knows",
        "a step answered again with fresh noise",
        "two products opened in one step",
    ),
}
"""Which of one case's mutants touch what another case does differently: the comparisons, the law of the noise."""

MUTANTS: tuple[Mutant, ...] = (
    *_OWN,
    *(
        replace(mutant, protocol=other)
        for (protocol_, other), names in _AGAIN.items()
        for mutant in _OWN
        if mutant.protocol == protocol_ and mutant.name in names
    ),
)
"""Every broken protocol, one expression away from the real one."""

UNCAUGHT: dict[str, str] = {
    "`short` exponents where `half` was agreed": (
        "no test distinguishes an exponent of 256 bits from one of 1536 under the assumptions; the mode is part of "
        "what a party chooses for itself and costs nobody else anything"
    ),
    "an operating system that hands out predictable bytes": (
        "a pseudo-random stream under an unknown seed passes every test; the analysis checks that coins are used once "
        "and freshly, not that they are random"
    ),
    "a mask narrower by some bits": (
        "a mask 40 bits wider than what it hides instead of 80 gives an advantage of 2^-40; sampling sees one above "
        "about 0.25 at 60 views and 0.1 at 400. `masked shares` sees masks that are 40 bits too short. The widths "
        "are constants that the protocol's own tests hold (`STATISTICAL_BITS`)"
    ),
    "the holder's check of the ballots it was asked for, alone": (
        "not a leak: leaving out `asked - seen` or `seen - asked` in KeyHolder.partially_decrypt changes nothing that "
        "can be opened, since the product's digest is compared as well"
    ),
    "pi_2 fixed, where all pairs are compared": (
        "not a leak: every party is asked once and no message to a party depends on an order, so pi_2 protects nothing "
        "there; in a tournament the second turn does, and the mutant is caught"
    ),
    "a dealer who keeps p and q": "whether he forgot them cannot be seen in any view",
    "timing, memory accesses and traffic": (
        "views hold messages and coins, not when they came (docs/security/unprotected.md)"
    ),
}
"""Breaks that no check of this analysis can see, with the reason: documented leaks."""
