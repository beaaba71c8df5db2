"""The analysis of the ceremony without a dealer: three holders, two of whom open (docs/protocols/ceremony.md).

The messages about the accepted modulus must reveal nothing. The simulator (docs/security/proofs.md) has n from the
ideal functionality, draws every share uniformly, and uses none of the protocol's code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from scipy.stats import chisquare

from psephos.audit.compare import ViewAnalysis
from psephos.audit.matrix import CEREMONY_MEMBERS, Members
from psephos.audit.model import AnalysisContext, CheckResult, Checks, case_of
from psephos.parties.ceremony import CeremonyHolder
from psephos.protocol.ceremony.exponent import share_bound
from psephos.protocol.ceremony.messages import byte_length, packed_bytes, unpack_residues
from psephos.protocol.ceremony.search import CONFIRMATIONS, FORM_MASKS, choose, flat_primes, form_modulus
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.paillier.keys import odd_primorial
from psephos.protocol.paillier.sharing import STATISTICAL_BITS, lagrange_numerators
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.randomness import Randomness
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind
from psephos.simulation.key_setup import run_ceremony
from psephos.specs.secrets import KEY_SECRETS, names_of

TERMS = CeremonyTerms(128, 3, 2, b"the audit".ljust(32, b"."), test_key=True, degree=3)
SECRETS = names_of(KEY_SECRETS)
PLACES = (0, 1, 2, -1)
"""Places, in the list of primes, of those whose residues are compared."""


@dataclass(frozen=True)
class CeremonyView:
    messages: Mapping[str, Sequence[bytes]]
    exponent_shares: Mapping[tuple[int, int], bytes]
    shares: Sequence[KeyShare]


def _residues(view: CeremonyView, kind: Kind) -> list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    return [unpack_residues(TERMS, body[-packed_bytes(TERMS) :], "") for body in view.messages[kind.title]]


def _integers(data: bytes, bound: mpz) -> list[int]:
    """Decode consecutive integers below `bound`, little-endian."""
    size = byte_length(bound)
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def _row(view: CeremonyView, members: Sequence[int]) -> dict[str, float]:
    """Return the features of a coalition's view: the honest holders' shares, relative to the size of their ranges."""
    honest = [j for j in range(1, TERMS.holders + 1) if j not in members]
    n = view.shares[0].threshold_key.key.modulus
    products, differences = _residues(view, Kind.RESIDUE_PRODUCTS), _residues(view, Kind.RESIDUE_DIFFERENCES)
    opened = [sum(shares) % flat_primes(TERMS) for shares in (products, differences)]
    chosen = choose(TERMS, opened[0], opened[1])
    rests = [_integers(body, mpz(1) << TERMS.rest_bits) for body in view.messages[Kind.MODULUS_SHARES.title]]
    low = n % (1 << TERMS.rest_bits)
    winner = next(k for k in range(len(chosen)) if sum(rest[k] for rest in rests) % (1 << TERMS.rest_bits) == low)
    test_values = view.messages[Kind.TEST_VALUES.title]
    tests = CONFIRMATIONS * byte_length(n)
    modulus = form_modulus(TERMS, n)
    forms = [_integers(body[tests : tests + FORM_MASKS * byte_length(modulus)], modulus) for body in test_values]
    exponents = view.messages[Kind.EXPONENT_COMMITMENTS.title]
    order = n**TERMS.degree
    thetas = [int.from_bytes(body[: byte_length(order)], "little") for body in exponents]
    row = {"n": float(n / (mpz(1) << TERMS.bits)), "theta": float(mpz(sum(thetas) % order) / order)}
    for time in range(FORM_MASKS):
        row[f"form {time}"] = float(mpz(sum(form[time] for form in forms) % modulus) / modulus)
    for j in honest:
        for place in PLACES:
            at, prime = chosen[winner, place], TERMS.primes[place]
            row[f"holder {j}: product modulo {prime}"] = products[j - 1][at] / prime
            row[f"holder {j}: difference modulo {prime}"] = differences[j - 1][at] / prime
        row[f"holder {j}: modulus share"] = float(mpz(rests[j - 1][winner]) / (mpz(1) << TERMS.rest_bits))
        row[f"holder {j}: form share"] = float(mpz(forms[j - 1][0]) / modulus)
        row[f"holder {j}: theta share"] = float(mpz(thetas[j - 1]) / order)
        for i in members:
            row[f"holder {j}: share for {i}"] = float(
                mpz(int.from_bytes(view.exponent_shares[j, i], "little")) / share_bound(TERMS)
            )
    return row


# -- the simulator


def _ideal_modulus(coins: Randomness) -> mpz:
    """Draw the modulus of the functionality: p and q are the offset plus a summand for each set of holders."""

    def prime() -> mpz:
        small, wide = odd_primorial(TERMS.form_bound), int(TERMS.step << TERMS.top_bits) // 12
        while True:
            p = TERMS.offset + 12 * sum(coins.below(wide) for _ in TERMS.subsets)
            if gmpy2.gcd(p * (p >> 1), small) == 1 and gmpy2.is_prime(p):
                return p

    while True:
        p, q = prime(), prime()
        if gmpy2.gcd(p - 1, q - 1) == 2:
            return p * q


class CeremonyAnalysis(ViewAnalysis):
    def run(self, context: AnalysisContext, number: int, inputs: str, members: Members) -> CeremonyView:
        transcript = Transcript(secrets=True)
        terms = replace(TERMS, context=context.coins("terms", number).draw(32))
        shares = run_ceremony(terms, coins=partial(context.coins, "ceremony", number), transcript=transcript)
        messages: dict[str, list[bytes]] = {}
        for message in transcript.messages:
            assert message.data is not None
            sender = int(message.sender.removeprefix("holder "))
            messages.setdefault(message.kind, [b""] * terms.holders)[sender - 1] = message.data[HEADER_BYTES + 5 :]
        exponent_shares = {}
        for i in range(1, terms.holders + 1):
            # From the same coins follow the keys with which this holder opens what others seal for it.
            holder = CeremonyHolder(terms, i, randomness=context.coins("ceremony", number, f"holder {i}"))
            commitments = tuple(messages[Kind.SEED_COMMITMENTS.title])
            material = replace(holder.start().state.state, seed_commitments=commitments)
            for j, secret in zip((j for j in range(1, terms.holders + 1) if j != i), material.secrets, strict=True):
                sealed = messages[Kind.EXPONENT_SHARES.title][j - 1]
                exponent_shares[j, i] = holder._unsealed(material, Kind.EXPONENT_SHARES, j, i, secret, sealed)
        return CeremonyView(messages, exponent_shares, shares)

    def simulate(self, context: AnalysisContext, number: int, members: Members) -> dict[str, float]:
        """Return the same features as of a real view, made from n alone."""
        coins = context.coins("simulated", number)
        row, delta = {"n": float(_ideal_modulus(coins) / (mpz(1) << TERMS.bits))}, math.factorial(TERMS.holders)
        width = share_bound(TERMS) // (TERMS.threshold * TERMS.holders ** (TERMS.threshold - 1))
        assert width % delta**2 == 0 == (width >> STATISTICAL_BITS) % 2
        for name in list(_row(self.real(context)[0], members.holders))[1:]:
            last = name.split()[-1]
            if "modulo" in name:
                row[name] = coins.below(int(last)) / int(last)
            elif "share for" in name:
                share = sum(coins.below(int(width)) * int(last) ** k for k in range(1, TERMS.threshold))
                row[name] = float(mpz(share) / share_bound(TERMS))
            else:
                row[name] = float(mpz(coins.bits(128)) / (mpz(1) << 128))
        return row

    def row(self, context: AnalysisContext, run: Any, members: Members) -> Iterable[tuple[str, float]]:
        return (run if isinstance(run, dict) else _row(run, members.holders)).items()

    # -- checks of its own

    def residues_are_uniform(self, context: AnalysisContext) -> CheckResult:
        """Check that of every pair of residues z is a uniform unit given y, which follows from n."""
        worst, pairs = 1.0, 0
        for place, prime in enumerate(TERMS.primes[:3]):
            counts = np.zeros((prime, prime))
            for view in self.real(context):
                y, z = (
                    sum(_residues(view, kind)) % flat_primes(TERMS)
                    for kind in (Kind.RESIDUE_PRODUCTS, Kind.RESIDUE_DIFFERENCES)
                )
                at = choose(TERMS, y, z)[:, place]
                np.add.at(counts, (y[at], z[at]), 1)
            observed = [row[1:] for row in counts if row.sum() > 5 * prime]
            pairs += int(counts.sum())
            worst = min([worst, *(float(chisquare(row).pvalue) * 3 * prime for row in observed)])
        p_value = min(1.0, worst)
        return CheckResult(p_value <= context.rate, f"z given y, {pairs} pairs modulo 5, 7 and 11: p = {p_value:.2g}")

    def reads_all(self, context: AnalysisContext) -> CheckResult:
        """Compute d from t shares, and p and q from d, which is a multiple of phi(n)."""
        view = self.real(context)[0]
        n, delta = view.shares[0].threshold_key.key.modulus, math.factorial(TERMS.holders)
        numerators = lagrange_numerators(CEREMONY_MEMBERS["t holders"].holders, TERMS.holders)
        d = sum(numerators[j] * view.shares[j - 1].share() for j in numerators) // delta**2
        odd = d >> int(gmpy2.bit_scan1(d))
        for g in range(2, 100):
            x = gmpy2.powmod(g, odd, n)
            if x not in (1, n - 1) and gmpy2.gcd(x - 1, n) not in (1, n):
                return CheckResult(True, "two shares give d, and d the factors of n")
        return CheckResult(False, "d did not give the factors")


def _checks() -> Checks:
    checks, analysis = Checks(), CeremonyAnalysis()
    for name, members in CEREMONY_MEMBERS.items():
        if len(members.holders) >= TERMS.threshold:
            checks.add("opening", name, SECRETS, analysis.reads_all)
        else:
            checks.add("simulation", name, SECRETS, partial(analysis.simulation, members), statistical=True)
    checks.add("residues", "t - 1 holders", SECRETS, analysis.residues_are_uniform, statistical=True)
    return checks


CEREMONY = case_of("ceremony", _checks())
