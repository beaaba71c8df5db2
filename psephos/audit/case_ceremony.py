"""The ceremony without a dealer: three holders, two of which open, a test key (docs/protocols/ceremony.md).

A view of a ceremony is long, and nearly all of it is rejected candidates, which are opened. What must tell nothing is
the winner's: its residues, its modulus, its form, its exponent. The simulator (docs/security/proofs.md) has n from the
ideal functionality, and takes every share that an honest holder says from the uniform numbers of its range; it is
written out here without the protocol's code, so that a protocol that is broken is not compared with itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import gmpy2
import numpy as np
from gmpy2 import mpz
from scipy.stats import chisquare

from psephos.audit.compare import compare_samples
from psephos.audit.model import Case, CheckResult, Checks, Coalition, Context
from psephos.parties.ceremony import CeremonyHolder
from psephos.parties.ceremony_states import Searching
from psephos.protocol.ceremony.exponent import share_bound
from psephos.protocol.ceremony.messages import byte_length, packed_bytes, unpack_residues
from psephos.protocol.ceremony.search import CONFIRMATIONS, FORM_MASKS, Batch, choose, flat_primes, form_modulus
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import AgreementError, EngineError, ThresholdError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import odd_primorial
from psephos.protocol.paillier.sharing import STATISTICAL_BITS, lagrange_numerators
from psephos.protocol.paillier.threshold import KeyShare, combine
from psephos.protocol.randomness import Randomness
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind
from psephos.simulation.key_setup import run_ceremony
from psephos.specs.secrets import KEY_SECRETS, names_of

TERMS = CeremonyTerms(128, 3, 2, b"the audit".ljust(32, b"."), test_key=True, degree=3)
SECRETS = names_of(KEY_SECRETS)
PLACES = (0, 1, 2, -1)
"""Of the primes whose residues are looked at."""

BATCHES = 60
"""In which a holder that rejects everything must have been named: ten times the number until the first good one."""

COALITIONS: dict[str, tuple[int, ...]] = {
    "outsider (the board)": (),
    "t - 1 holders": (2,),
    "t holders": (2, 3),
}


@dataclass(frozen=True)
class CeremonyView:
    """One ceremony: everybody's messages of the winner's batch and after, by kind, and the shares it ended with."""

    said: Mapping[str, Sequence[bytes]]
    given: Mapping[tuple[int, int], bytes]
    shares: Sequence[KeyShare]


def _views(context: Context) -> list[CeremonyView]:
    return context.once("ceremonies", lambda: [_play(context, i) for i in range(context.views)])


def _play(context: Context, number: int) -> CeremonyView:
    transcript = Transcript(secrets=True)
    terms = replace(TERMS, context=context.coins("terms", number).draw(32))
    shares = run_ceremony(terms, coins=partial(context.coins, "ceremony", number), transcript=transcript)
    said: dict[str, list[bytes]] = {}
    for message in transcript.messages:
        assert message.data is not None
        sender = int(message.sender.removeprefix("holder "))
        said.setdefault(message.kind, [b""] * terms.holders)[sender - 1] = message.data[HEADER_BYTES + 5 :]
    given = {}
    for i in range(1, terms.holders + 1):
        # The same coins again: the keys that this holder had for the others.
        holder = CeremonyHolder(terms, i, randomness=context.coins("ceremony", number, f"holder {i}"))
        material = replace(
            holder.start().state.state.material, seed_commitments=tuple(said[Kind.SEED_COMMITMENTS.title])
        )
        for j, secret in zip((j for j in range(1, terms.holders + 1) if j != i), material.secrets, strict=True):
            sealed = said[Kind.EXPONENT_SHARES.title][j - 1]
            given[j, i] = holder._unsealed(material, Kind.EXPONENT_SHARES, j, i, secret, sealed)
    return CeremonyView(said, given, shares)


def _residues(view: CeremonyView, kind: Kind) -> list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Every holder's."""
    return [unpack_residues(TERMS, body[-packed_bytes(TERMS) :], "") for body in view.said[kind.title]]


def _integers(data: bytes, bound: mpz) -> list[int]:
    size = byte_length(bound)
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def _row(view: CeremonyView, members: Sequence[int]) -> dict[str, float]:
    """What the coalition has of the honest holders, as places in their ranges."""
    honest = [j for j in range(1, TERMS.holders + 1) if j not in members]
    n = view.shares[0].threshold_key.key.modulus
    products, differences = _residues(view, Kind.RESIDUE_PRODUCTS), _residues(view, Kind.RESIDUE_DIFFERENCES)
    opened = [sum(shares) % flat_primes(TERMS) for shares in (products, differences)]
    chosen = choose(TERMS, opened[0], opened[1])
    rests = [_integers(body, mpz(1) << TERMS.rest_bits) for body in view.said[Kind.MODULUS_SHARES.title]]
    low = n % (1 << TERMS.rest_bits)
    winner = next(k for k in range(len(chosen)) if sum(rest[k] for rest in rests) % (1 << TERMS.rest_bits) == low)
    again = view.said[Kind.TEST_VALUES.title]
    tests = CONFIRMATIONS * byte_length(n)
    modulus = form_modulus(TERMS, n)
    forms = [_integers(body[tests : tests + FORM_MASKS * byte_length(modulus)], modulus) for body in again]
    exponents = view.said[Kind.EXPONENT_COMMITMENTS.title]
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
                mpz(int.from_bytes(view.given[j, i], "little")) / share_bound(TERMS)
            )
    return row


# -- the simulator


def _ideal_modulus(coins: Randomness) -> mpz:
    """A modulus of the functionality: p and q are F and a piece for each set, and make a key of the form."""

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


def _simulated_row(coins: Randomness, members: Sequence[int]) -> dict[str, float]:
    """The same numbers, from n alone."""

    def place() -> float:
        return float(mpz(coins.bits(128)) / (mpz(1) << 128))

    honest = [j for j in range(1, TERMS.holders + 1) if j not in members]
    row = {"n": float(_ideal_modulus(coins) / (mpz(1) << TERMS.bits)), "theta": place()}
    row |= {f"form {time}": place() for time in range(FORM_MASKS)}
    delta = math.factorial(TERMS.holders)
    for j in honest:
        for prime in (TERMS.primes[p] for p in PLACES):
            row[f"holder {j}: product modulo {prime}"] = coins.below(prime) / prime
            row[f"holder {j}: difference modulo {prime}"] = coins.below(prime) / prime
        row |= {f"holder {j}: {what} share": place() for what in ("modulus", "form", "theta")}
        for i in members:
            width = share_bound(TERMS) // (TERMS.threshold * TERMS.holders ** (TERMS.threshold - 1))
            assert width % delta**2 == 0 == (width >> STATISTICAL_BITS) % 2
            share = sum(coins.below(int(width)) * i**k for k in range(1, TERMS.threshold))
            row[f"holder {j}: share for {i}"] = float(mpz(share) / share_bound(TERMS))
    return row


# -- the checks


def _simulation(members: Sequence[int], context: Context) -> CheckResult:
    real = [_row(view, members) for view in _views(context)]
    simulated = [_simulated_row(context.coins("simulated", i), members) for i in range(len(real))]
    return compare_samples(context, (real, simulated), "real against simulated")


def _residues_tell_nothing(context: Context) -> CheckResult:
    """Of every pair that is used: given y, which n tells, z must be a random unit."""
    worst, seen = 1.0, 0
    for place, prime in enumerate(TERMS.primes[:3]):
        counts = np.zeros((prime, prime))
        for view in _views(context):
            y, z = (
                sum(_residues(view, kind)) % flat_primes(TERMS)
                for kind in (Kind.RESIDUE_PRODUCTS, Kind.RESIDUE_DIFFERENCES)
            )
            at = choose(TERMS, y, z)[:, place]
            np.add.at(counts, (y[at], z[at]), 1)
        tested = [row[1:] for row in counts if row.sum() > 5 * prime]
        seen += int(counts.sum())
        worst = min([worst, *(float(chisquare(row).pvalue) * 3 * prime for row in tested)])
    p_value = min(1.0, worst)
    return CheckResult(
        p_value <= context.rate, f"z given y, {seen} pairs modulo 5, 7 and 11: p = {p_value:.2g}", p_value
    )


def _threshold(context: Context) -> CheckResult:
    """t - 1 shares, tried as if the threshold were one less."""
    for view in _views(context):
        key = view.shares[0].threshold_key
        ciphertexts = Encryptor(key.key, expected=1).encrypt([mpz(42)])
        for share in view.shares:
            try:
                parts = {share.holder: share.partially_decrypt(ciphertexts)}
                if combine(replace(key, threshold=TERMS.threshold - 1), parts) == [42]:
                    return CheckResult(True, "one share opens a ciphertext")
            except ThresholdError:
                continue
    return CheckResult(
        False, f"no {TERMS.threshold - 1} of {TERMS.holders} shares opened in {context.views} ceremonies"
    )


def _reads_all(context: Context) -> CheckResult:
    """t shares give d, and a multiple of phi(n) gives p and q."""
    view = _views(context)[0]
    n, delta = view.shares[0].threshold_key.key.modulus, math.factorial(TERMS.holders)
    numerators = lagrange_numerators(COALITIONS["t holders"], TERMS.holders)
    d = sum(numerators[j] * view.shares[j - 1].share() for j in numerators) // delta**2
    odd = d >> int(gmpy2.bit_scan1(d))
    for g in range(2, 100):
        x = gmpy2.powmod(g, odd, n)
        if x not in (1, n - 1) and gmpy2.gcd(x - 1, n) not in (1, n):
            return CheckResult(True, "two shares give d, and d the factors of n")
    return CheckResult(False, "d did not give the factors")


class _Refuser(Batch):
    """Says something else of every test, so that no modulus passes, however good it is."""

    def test_values(self, *arguments: object) -> list[mpz]:
        return [value + 1 for value in super().test_values(*arguments)]  # type: ignore[arg-type]


class _Refusing(CeremonyHolder):
    """The holder that computes so."""

    def _batch(self, state: Searching) -> Batch:
        return _Refuser(self.terms, self._batch_seeds(state))


def _liars_are_named(context: Context) -> CheckResult:
    """Who rejects good candidates could have the key that it likes best; opened candidates show it."""

    def progress(what: str, tried: int, expected: int) -> None:
        if tried > BATCHES * TERMS.batch:
            raise EngineError("enough batches")

    coins = partial(context.coins, "refusing")
    liar = {"holder 2": lambda honest: _Refusing(TERMS, 2, randomness=coins("a liar"))}
    try:
        run_ceremony(TERMS, roles=liar, coins=coins, progress=progress)
    except AgreementError as error:
        named = str(error).startswith("holder 2 ")
        return CheckResult(not named, f"who rejects good candidates is {'' if named else 'not '}named")
    except EngineError:
        pass
    return CheckResult(True, f"good candidates were rejected and not missed, in {BATCHES} batches")


def _checks() -> Checks:
    checks, holders = Checks(), "t - 1 holders"
    for name, members in COALITIONS.items():
        if len(members) >= TERMS.threshold:
            checks.add("opening", name, SECRETS, _reads_all)
        else:
            checks.add("simulation", name, SECRETS, partial(_simulation, members), statistical=True)
    checks.add("residues", holders, SECRETS, _residues_tell_nothing, statistical=True)
    checks.add("threshold", holders, SECRETS, _threshold)
    checks.add("rejected candidates opened", holders, SECRETS, _liars_are_named)
    return checks


_OPENS = "t holders are the key"
CEREMONY = Case(
    "ceremony",
    SECRETS,
    tuple(
        Coalition(name, tuple(f"holder {j}" for j in m), dict.fromkeys(SECRETS, _OPENS) if len(m) > 1 else {})
        for name, m in COALITIONS.items()
    ),
    tuple(_checks()),
)
