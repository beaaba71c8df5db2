"""The ceremony without a dealer, played whole: what it ends with, and how it ends when a holder lies or is gone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.parties.ceremony import CEREMONY_KINDS, CeremonyHolder
from psephos.parties.ceremony_states import FIRST, CeremonyFailed, ExponentSharing, ModulusSearch
from psephos.protocol.ceremony.messages import reason, written
from psephos.protocol.ceremony.search import Batch, flat_primes
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.errors import (
    AgreementError,
    CheatingError,
    PartyVanishedError,
    PsephosError,
    ShareRangeError,
    WrongPartialDecryptionError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.sharing import lagrange_numerators
from psephos.protocol.paillier.threshold import KeyShare, combine
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of
from tests.security.lab.edits import edited

POSTED_KINDS = sorted(CEREMONY_KINDS - {Kind.OPENED_SEEDS, Kind.COMPLAINT})
"""What is said in every ceremony."""

CONTEXT = b"what the key is for".ljust(32, b".")
Replacements = dict[str, Callable[[Role], Role]]


def terms(bits: int = 128, holders: int = 3, threshold: int | None = None, degree: int = 1) -> CeremonyTerms:
    return CeremonyTerms(bits, holders, threshold or (holders + 1) // 2, CONTEXT, test_key=True, degree=degree)


def play(agreed: CeremonyTerms, replacements: Replacements | None = None, **driver: Any) -> list[KeyShare]:
    roles = [CeremonyHolder(agreed, j) for j in range(1, agreed.holders + 1)]
    results = Driver(replace_roles(roles, replacements or {}), **driver).run()
    return [results[name] for name in agreed.names]


def exponent(shares: Sequence[KeyShare], chosen: Sequence[int]) -> int:
    """d, from the shares of these holders by Lagrange interpolation."""
    holders = shares[0].threshold_key.holders
    delta = math.factorial(holders)
    numerators = lagrange_numerators(chosen, holders)
    value, rest = divmod(sum(numerators[j] * shares[j - 1].share() for j in chosen), delta * delta)
    assert rest == 0
    return value


def factored(n: int, multiple: int) -> PrivateKey:
    """The factors of n, from a multiple of phi(n) (as in RSA, from the private exponent)."""
    twos = int(gmpy2.bit_scan1(multiple))
    for g in range(2, 200):
        x = gmpy2.powmod(g, multiple >> twos, n)
        for _ in range(twos):
            if x not in (1, n - 1) and x * x % n == 1:
                p = int(gmpy2.gcd(x - 1, n))
                return PrivateKey(p, n // p)
            x = x * x % n
    raise AssertionError("this is no multiple of phi(n)")


@pytest.mark.parametrize(
    ("bits", "holders", "threshold", "degree"),
    [
        *((128, 3, 2, 1), (128, 3, 2, 2), (128, 4, 2, 1), (128, 5, 3, 3)),
        *(pytest.param(*terms, marks=pytest.mark.slow) for terms in ((256, 5, 2, 1), (128, 6, 3, 4))),
    ],
)
def test_it_ends_with_a_key_of_our_form(bits: int, holders: int, threshold: int, degree: int) -> None:
    """Seen by combining the shares, which nobody ever does."""
    shares = play(terms(bits, holders, threshold, degree))
    key = shares[0].threshold_key
    assert {s.threshold_key for s in shares} == {key}
    assert (key.key.bits, key.holders, key.threshold) == (bits, holders, threshold)
    exponents = {exponent(shares, chosen) for chosen in combinations(range(1, holders + 1), threshold)}
    assert len(exponents) == 1
    (d,) = exponents
    private = factored(key.key.n, d)
    p, q = private.factors()
    assert d % ((p - 1) * (q - 1)) == 0
    assert d % key.key.plaintext_modulus == key.theta != 1
    assert PrivateKey(p, q, degree).public_key == key.key  # p = q = 3 mod 4, no small factors, gcd(p - 1, q - 1) = 2
    assert private.public_key.form == "psephos"
    for share, value in zip(shares, key.verification_values, strict=True):
        assert value == gmpy2.powmod(key.verification_base, share.exponent, key.key.ciphertext_modulus)
        assert int(share.exponent).bit_length() <= key.exponent_bits


def test_theta_tells_nobody_the_factors_whatever_the_degree() -> None:
    """d, a multiple of phi(n), is longer than n^s."""
    key = play(terms(degree=3))[0].threshold_key
    with pytest.raises(AssertionError):
        factored(key.key.n, key.theta)
    with edited(Batch, "exponent_share", "$terms.degree * $terms.bits + STATISTICAL_BITS", "$terms.bits"):
        key = play(terms(degree=3))[0].threshold_key
    assert math.prod(factored(key.key.n, key.theta).factors()) == key.key.n


@pytest.fixture(scope="module", params=[1, 2])
def shares(request: pytest.FixtureRequest) -> list[KeyShare]:
    return play(terms(128, 5, 3, request.param))


@pytest.mark.parametrize("mode", ["full", "half", "short"])
def test_every_t_open_and_no_fewer_do(shares: list[KeyShare], mode: Any) -> None:
    key = shares[0].threshold_key
    plaintexts = [0, 1, int(key.key.plaintext_modulus) - 1, 123456789]
    ciphertexts = Encryptor(key.key, mode, expected=8).encrypt([mpz(m) for m in plaintexts])
    parts = {s.holder: s.partially_decrypt(ciphertexts) for s in shares}
    for size in (3, 4, 5):
        for chosen in combinations(parts, size):
            assert combine(key, {j: parts[j] for j in chosen}) == plaintexts
    lowered = replace(key, threshold=2)
    for chosen in combinations(parts, 2):
        with pytest.raises(WrongPartialDecryptionError):
            combine(lowered, {j: parts[j] for j in chosen})


# -- holders who lie


class Liar(CeremonyHolder):
    """Holder 2, honest but for what `twist` makes of its messages of one kind."""

    def __init__(self, honest: CeremonyHolder, kind: Kind, twist: Callable[[Post], Sequence[Post]]) -> None:
        super().__init__(honest.terms, honest.number)
        self.kind, self.twist = kind, twist

    def _twisted(self, step: Step) -> Step:
        posts = [p for post in step.posts for p in (self.twist(post) if self.is_one(post) else (post,))]
        return replace(step, posts=tuple(posts))

    def is_one(self, post: Post) -> bool:
        return Entry(0, self.name, post.receiver, post.data).kind is self.kind

    def start(self) -> Step:
        return self._twisted(super().start())

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        return self._twisted(super().receive(state, entries))


def lie(kind: Kind, twist: Callable[[Post], Sequence[Post]], who: str = "holder 2") -> Replacements:
    return {who: lambda role: Liar(role, kind, twist)}  # type: ignore[arg-type]


def flipped(at: int) -> Callable[[Post], Sequence[Post]]:
    """The last bit of one byte of the body turned; from the end where negative."""

    def twist(post: Post) -> Sequence[Post]:
        data = bytearray(post.data)
        place = at if at < 0 else HEADER_BYTES + 5 + at
        if place < len(data):  # a batch may have no candidate to test
            data[place] ^= 1
        return (replace(post, data=bytes(data)),)

    return twist


@pytest.mark.parametrize("kind", POSTED_KINDS)
def test_who_vanishes_is_named(kind: Kind) -> None:
    """And nobody has a key, unless all that was missing is a check that everybody else made."""
    with pytest.raises(PartyVanishedError):
        play(terms(), lie(kind, lambda post: ()))


def verdicts(
    agreed: CeremonyTerms,
    replacements: Replacements,
    error: type[PsephosError] | tuple[type[PsephosError], ...] = CheatingError,
) -> dict[str, str]:
    """Of a ceremony that fails: the one error that each holder comes to, and nobody has a share or a secret left."""
    roles = [CeremonyHolder(agreed, j) for j in range(1, agreed.holders + 1)]
    reasons = dict[str, tuple[str, str, str]]()

    def watch(phase: str, entry: Entry) -> None:
        if entry.kind is Kind.FAILED_CEREMONY:
            reasons[entry.sender] = (phase, entry.receiver, reason(agreed, entry.data))

    driver = Driver(replace_roles(roles, replacements), strict=False, watch=watch)
    assert driver.run() == {}
    for name, role in driver.roles.items():
        held = driver.states[name]
        assert role.is_over(held.state)  # type: ignore[attr-defined]
        assert (held.arrived, held.early) == ((), ())
    assert len(driver.refused) == agreed.holders
    assert all(isinstance(refusal.error, error) for _, refusal in driver.refused)
    assert len({type(refusal.error) for _, refusal in driver.refused}) == 1, "all refuse for the same reason"
    errors = {name: str(refusal.error) for name, refusal in driver.refused}
    assert {name: driver.states[name].state.why for name in errors} == errors
    assert reasons == {name: ("key", BOARD, why) for name, why in errors.items()}, (
        "and those who hold nothing hear of it"
    )
    return errors


def assert_all_name(who: str, agreed: CeremonyTerms, replacements: Replacements) -> set[str]:
    """Check that every holder names `who`, whether the changed number is wrong or, now and then, outside its range."""
    errors = set(verdicts(agreed, replacements, (CheatingError, ShareRangeError)).values())
    for text in errors:
        assert re.match(rf"{who}(:| [a-z])", text), text
    return errors


SIEVED_SHARE = 16 + 2 * 32
"""Where the proof of form begins in the body of EXPONENT_COMMITMENTS, with t = 2."""


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        (Kind.SEED_COMMITMENTS, 0),
        (Kind.SEED_CONTRIBUTIONS, 0),
        (Kind.SEED_CONTRIBUTIONS, -1),
        (Kind.RESIDUE_PRODUCTS, 0),  # its commitment to a batch's seed
        (Kind.MODULUS_SHARES, 0),
        (Kind.COMMITMENT, 0),
        (Kind.TEST_VALUES, 0),
        (Kind.OPENED_CANDIDATES, 0),
        (Kind.EXPONENT_COMMITMENTS, 0),  # theta
        (Kind.EXPONENT_COMMITMENTS, 16),  # its share of d
        (Kind.EXPONENT_COMMITMENTS, 48),  # a coefficient of its polynomial
        (Kind.EXPONENT_COMMITMENTS, SIEVED_SHARE),  # its share of a multiple of phi(n)
        (Kind.EXPONENT_COMMITMENTS, SIEVED_SHARE + 6),  # a root of the test `sieved`
        (Kind.EXPONENT_COMMITMENTS, -16),  # a root of the test `larger`
        (Kind.EXPONENT_SHARES, 0),
        (Kind.TEST_DECRYPTION, 0),
        (Kind.TEST_DECRYPTION, -1),  # the proof
    ],
)
@pytest.mark.parametrize("holders", [3, 4])
def test_everybody_names_who_changes_a_message(kind: Kind, at: int, holders: int) -> None:
    """A batch may have nothing to test."""
    assert_all_name("holder 2", terms(128, holders, 2), lie(kind, flipped(at)))


@pytest.mark.parametrize(
    "kind", [Kind.RESIDUE_PRODUCTS, Kind.RESIDUE_DIFFERENCES, Kind.EXPONENT_COMMITMENTS, Kind.TEST_DECRYPTION]
)
def test_a_number_outside_its_range_is_refused_by_all(kind: Kind) -> None:
    def ones(post: Post) -> Sequence[Post]:
        return (replace(post, data=post.data[: HEADER_BYTES + 5].ljust(len(post.data), b"\xff")),)

    errors = verdicts(terms(), lie(kind, ones), ShareRangeError)
    assert all(re.match(r"holder 2: a (residue|number) outside its range", text) for text in errors.values())


class Whisperer(CeremonyHolder):
    """Tells holder 3, and nobody else, something wrong; sealed as it should be."""

    def __init__(self, honest: CeremonyHolder, kind: Kind) -> None:
        super().__init__(honest.terms, honest.number)
        self.kind = kind

    def _sealed(self, state: Any, kind: Kind, parts: Any) -> list[bytes]:
        wrong = {3: bytes(parts[3][:-1]) + bytes([parts[3][-1] ^ 1])} if kind is self.kind else {}
        return super()._sealed(state, kind, {**parts, **wrong})


@pytest.mark.parametrize("kind", [Kind.SEED_CONTRIBUTIONS, Kind.EXPONENT_SHARES])
@pytest.mark.parametrize("agreed", [terms(), terms(128, 5)], ids=["3 holders", "5 holders"])
def test_who_lies_to_one_is_named_by_all(kind: Kind, agreed: CeremonyTerms) -> None:
    """A complaint shows everybody what its sender was told."""
    messages = assert_all_name("holder 2", agreed, {"holder 2": lambda role: Whisperer(role, kind)})  # type: ignore[arg-type]
    assert all(text.startswith("holder 2 told holder 3") for text in messages)


class Complainer(CeremonyHolder):
    """Says that it was told something wrong in place of its next message of a kind; it may open something else."""

    def __init__(self, honest: CeremonyHolder, kind: Kind, twist: bytes = b"") -> None:
        super().__init__(honest.terms, honest.number)
        self.kind, self.twist = kind, twist

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        step = super().receive(state, entries)
        for post in step.posts:
            if kind_of(post.data) is self.kind:
                (complaint,) = self._complain(step.state.state).posts
                return replace(
                    step,
                    posts=(
                        replace(complaint, data=complaint.data[: len(complaint.data) - len(self.twist)] + self.twist),
                    ),
                )
        return step


COMPLAINING = [Kind.RESIDUE_PRODUCTS, Kind.RESIDUE_DIFFERENCES, Kind.OPENED_CANDIDATES, Kind.EXPONENT_COMMITMENTS]


@pytest.mark.parametrize("kind", [*COMPLAINING, Kind.EXPONENT_SHARES, Kind.TEST_DECRYPTION])
@pytest.mark.parametrize("twist", [b"", b"no key of mine"], ids=["as it was", "something else"])
def test_who_complains_without_reason_is_named_by_all(kind: Kind, twist: bytes) -> None:
    replacements: Replacements = {"holder 2": lambda role: Complainer(role, kind, twist)}  # type: ignore[arg-type]
    (error,) = assert_all_name("holder 2", terms(), replacements)
    assert ("was told nothing wrong" if not twist else "opens something else") in error


class OpenWhisperer(Whisperer):
    """Also shows what it would have sent everybody, had it been honest."""

    honest: bytes

    def _sealed(self, state: Any, kind: Kind, parts: Any) -> list[bytes]:
        if kind is self.kind:
            self.honest = b"".join(CeremonyHolder._sealed(self, state, kind, parts))
        return super()._sealed(state, kind, parts)


class PatientComplainer(Complainer):
    """Goes on with what an accomplice should have sent it, and complains of what it did send later."""

    def __init__(self, honest: CeremonyHolder, kind: Kind, accomplice: OpenWhisperer) -> None:
        super().__init__(honest, kind)
        self.accomplice = accomplice
        self.agreed = False

    def _seeds(self, material: Any, j: int, secrets: Any, own: Any) -> tuple[dict[int, bytes], set[int]]:
        if self.agreed:  # it judges its own complaint as everybody does
            return super()._seeds(material, j, secrets, own)
        self.agreed, sealed = True, list(material.sealed)
        sealed[self.accomplice.number - 1] = self.accomplice.honest
        return super()._seeds(replace(material, sealed=tuple(sealed)), j, secrets, own)


@pytest.mark.parametrize("kind", [*COMPLAINING, Kind.EXPONENT_SHARES, Kind.TEST_DECRYPTION])
def test_a_late_complaint_names_no_honest_holder(kind: Kind) -> None:
    """Holder 2 told holder 3 a wrong seed, which the honest holders of the same set have used as it should be."""
    agreed = terms(128, 5)
    liar = OpenWhisperer(CeremonyHolder(agreed, 2), Kind.SEED_CONTRIBUTIONS)
    patient = PatientComplainer(CeremonyHolder(agreed, 3), kind, liar)
    (error,) = assert_all_name("holder 2", agreed, {"holder 2": lambda role: liar, "holder 3": lambda role: patient})
    assert error.startswith("holder 2 told holder 3")


def test_strangers_do_not_complain() -> None:
    class Stranger(Role):
        """Complains, and is no holder."""

        name = "party 1"

        def start(self) -> Step:
            return Step(None, (Post(BOARD, written(terms(), Kind.COMPLAINT, 0, FIRST, bytes(32 * 4))),))

        def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
            raise AssertionError

    holders = [CeremonyHolder(terms(), j) for j in (1, 2, 3)]
    driver = Driver([Stranger(), *holders], strict=False)
    assert len(driver.run()) == 3
    assert {str(refusal.error).split(": ")[1] for _, refusal in driver.refused} == {
        "party 1 is not a holder of this ceremony"
    }


@pytest.mark.parametrize("who", ["holder 1", "holder 2", "holder 3"])
@pytest.mark.parametrize("place", [-32, -64])
def test_a_key_that_is_none_is_refused_by_all(who: str, place: int) -> None:
    """Nothing could be sealed to it, and whoever tried would be the one that stops."""

    def zero(post: Post) -> Sequence[Post]:
        data = bytearray(post.data)
        data[place : place + 32 or None] = bytes(32)
        return (replace(post, data=bytes(data)),)

    (error,) = assert_all_name(who, terms(), lie(Kind.SEED_COMMITMENTS, zero, who))
    assert "key" in error


class Suspicious(CeremonyHolder):
    """Opens the winner's batch, though nothing was wrong with it."""

    def _deal(self, state: ModulusSearch) -> Step:
        return self._accuse(ExponentSharing(state))


def test_an_accusation_of_nobody_ends_it_all_the_same() -> None:
    """The seeds are known then, and with them the modulus."""
    agreed = terms()
    replacements: Replacements = {name: lambda role: Suspicious(role.terms, role.number) for name in agreed.names}  # type: ignore[attr-defined]
    errors = set(verdicts(agreed, replacements, AgreementError).values())
    assert len(errors) == 1, "all holders raise the same error"


def test_who_has_complained_waits_for_nobody() -> None:
    """Its complaint ends the ceremony for everybody, itself among them, when it stands on the board."""
    agreed, seen = terms(), dict[str, Any]()

    def watch(phase: str, entry: Entry) -> None:
        seen.setdefault(f"{entry.sender}: {entry.kind.title}", driver.states[entry.sender])

    for kind, state in ((Kind.SEED_CONTRIBUTIONS, ModulusSearch), (Kind.EXPONENT_SHARES, ExponentSharing)):
        seen.clear()
        roles = [CeremonyHolder(agreed, 1), Whisperer(CeremonyHolder(agreed, 2), kind), CeremonyHolder(agreed, 3)]
        driver = Driver(roles, strict=False, watch=watch)
        driver.run()
        complaining = seen["holder 3: complaint"]
        assert isinstance(complaining.state, state)
        assert roles[2].awaits(complaining) is None
        assert "holder 1: complaint" not in seen


class ProductsMoved(Batch):
    """Says y + 1 for every product of residues."""

    def product_share(self, holder: int) -> Any:
        return (super().product_share(holder) + 1) % flat_primes(self._terms)


class DifferencesMoved(Batch):
    """Says z + 1 for every difference: bad residues are used, and good ones are not."""

    def difference_share(self, holder: int, products: Any) -> Any:
        return (super().difference_share(holder, products) + 1) % flat_primes(self._terms)


class ModuliMoved(Batch):
    """Says n + 1 for every modulus."""

    def modulus_share(self, holder: int, numbers: Any) -> Any:
        return (super().modulus_share(holder, numbers) + 1) % (mpz(1) << self._terms.rest_bits)


class ValuesMoved(Batch):
    """Says something else of every test, so that no modulus passes, however good it is."""

    def test_values(self, holder: int, numbers: Any, place: int, n: mpz, chosen: Any) -> list[mpz]:
        return [2 * value % n for value in super().test_values(holder, numbers, place, n, chosen)]


class OtherExponent(Batch):
    """Shares d + 1, and is consistent about it from then on."""

    def exponent_share(self, holder: int, numbers: Any, place: int, n: mpz) -> int:
        return super().exponent_share(holder, numbers, place, n) + 1


def deviating(kind: type[Batch]) -> Callable[[Role], Role]:
    """A holder that computes with another kind of batch, and is honest otherwise."""

    class Deviating(CeremonyHolder):
        def _batch(self, state: ModulusSearch) -> Batch:
            return kind(self.terms, self._batch_seeds(state))

    return lambda role: Deviating(role.terms, role.number)  # type: ignore[attr-defined]


DEVIATED = "sent other messages"


class ModuliAboveBound(Batch):
    """Says shares of the moduli that are right modulo their bound, and above it."""

    def modulus_share(self, holder: int, numbers: Any) -> Any:
        return super().modulus_share(holder, numbers) + (mpz(1) << self._terms.rest_bits)


def test_a_share_of_a_modulus_above_its_bound_is_refused() -> None:
    with pytest.raises(ShareRangeError):
        play(terms(), {"holder 2": deviating(ModuliAboveBound)})


class OneModulusMoved(Batch):
    """Says n + 1 for the first candidate."""

    def modulus_share(self, holder: int, numbers: Any) -> Any:
        shares = super().modulus_share(holder, numbers)
        shares[0] = (shares[0] + 1) % (mpz(1) << self._terms.rest_bits)
        return shares


class WinnerHidden(Batch):
    """Says something else of the candidate that would win, so that the next one does."""

    def test_values(self, holder: int, numbers: Any, place: int, n: mpz, chosen: Any) -> list[mpz]:
        values = super().test_values(holder, numbers, place, n, chosen)
        return [2 * value % n for value in values] if place == 7 else values


class ConfirmationsMoved(Batch):
    """Says something else only of the candidates that are tested again."""

    def test_values(self, holder: int, numbers: Any, place: int, n: mpz, chosen: Any) -> list[mpz]:
        values = super().test_values(holder, numbers, place, n, chosen)
        return [2 * value % n for value in values] if len(values) > 1 else values


def seeded(seed: int, kind: type[Batch] = Batch) -> tuple[Driver, list[Kind]]:
    """Holders with seeded coins, of which the second computes with its own kind of batch; what is said, as it is."""
    agreed, kinds = terms(), list[Kind]()
    holders = [CeremonyHolder(agreed, j, randomness=SimulationRandomness(seed, j)) for j in (1, 2, 3)]
    holders[1]._batch = lambda state: kind(agreed, holders[1]._batch_seeds(state))  # type: ignore[method-assign]
    return Driver(holders, watch=lambda phase, entry: kinds.append(entry.kind)), kinds


@pytest.mark.parametrize(
    ("kind", "seed"),
    [(OneModulusMoved, 6), (WinnerHidden, 211), (DifferencesMoved, 9), (DifferencesMoved, 14), (OtherExponent, 6)],
)
def test_the_rejected_are_looked_at_when_somebody_wins(kind: type[Batch], seed: int) -> None:
    """In a batch with a winner: it is opened, all of it, and nobody gives a share of the exponent on."""
    driver, kinds = seeded(seed, kind)
    with pytest.raises(CheatingError):
        driver.run()
    assert Kind.OPENED_SEEDS in kinds
    assert (Kind.EXPONENT_COMMITMENTS in kinds) == (kind is OtherExponent)
    assert Kind.EXPONENT_SHARES not in kinds


@pytest.mark.parametrize(
    ("kind", "seed"),
    [(ProductsMoved, 1), (DifferencesMoved, 1), (ModuliMoved, 1), (ValuesMoved, 6), (ConfirmationsMoved, 6)],
)
def test_a_batch_without_a_winner_is_opened_at_once(kind: type[Batch], seed: int) -> None:
    """And whatever was said in it is compared with its seeds: residues, moduli, the first values and the second."""
    driver, kinds = seeded(seed, kind)
    with pytest.raises(CheatingError):
        driver.run()
    assert kinds.count(Kind.OPENED_CANDIDATES) == kinds.count(Kind.RESIDUE_PRODUCTS) == 3
    assert kinds.count(Kind.TEST_VALUES) == (6 if kind is ConfirmationsMoved else 3)
    assert Kind.OPENED_SEEDS not in kinds


def test_a_commitment_is_to_units() -> None:
    """Whoever commits to 0 is named for that, before any share is given on; and who publishes a root that is 0."""
    for end, size in ((HEADER_BYTES + 5 + SIEVED_SHARE, 32), (None, 16)):

        def zero(post: Post, end: int | None = end, size: int = size) -> Sequence[Post]:
            data = bytearray(post.data)
            stop = len(data) if end is None else end
            data[stop - size : stop] = bytes(size)
            return (replace(post, data=bytes(data)),)

        (error,) = assert_all_name("holder 2", terms(), lie(Kind.EXPONENT_COMMITMENTS, zero))
        assert "committed" in error


def test_who_opens_something_that_is_no_ciphertext_is_named() -> None:
    """0, say, of which nothing can be proved."""

    def zero(post: Post) -> Sequence[Post]:
        body = HEADER_BYTES + 5
        return (replace(post, data=post.data[:body] + bytes(32) + post.data[body + 32 :]),)

    (error,) = assert_all_name("holder 2", terms(), lie(Kind.TEST_DECRYPTION, zero))
    assert "test ciphertexts" in error


def test_what_came_early_is_forgotten_when_it_fails() -> None:
    agreed, holder = terms(), CeremonyHolder(terms(), 1)
    early = Entry(1, "holder 3", BOARD, written(agreed, Kind.RESIDUE_PRODUCTS, 0, FIRST, bytes(9)))
    waiting = holder.receive(holder.start().state, [early]).state
    assert waiting.early == (early,)
    short = [
        Entry(n, f"holder {n}", BOARD, written(agreed, Kind.SEED_COMMITMENTS, 0, FIRST, bytes(9))) for n in (1, 2, 3)
    ]
    step = holder.receive(waiting, short)
    assert (step.state.early, step.state.arrived) == ((), ())
    assert isinstance(step.state.state, CeremonyFailed)


# -- hostile bytes, and runs that are killed


@pytest.mark.parametrize("kind", POSTED_KINDS)
def test_any_changed_byte_gives_a_named_error_or_a_good_key(kind: Kind) -> None:
    """Seeded."""
    source = Random(int(kind))
    for _ in range(6):

        def twist(post: Post) -> Sequence[Post]:
            data = bytearray(post.data)
            for _ in range(source.choice((1, 1, 8))):
                data[source.randrange(len(data))] = source.randrange(256)
            return (replace(post, data=bytes(data)),)

        try:
            shares = play(terms(), lie(kind, twist))
        except PsephosError:
            continue
        key = shares[0].threshold_key
        assert factored(key.key.n, exponent(shares, (1, 3))).public_key == key.key
