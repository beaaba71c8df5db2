"""Edits under which one of the analysis' checks must change its mind: `tests/security/test_checks_can_fail.py`.

Mutants do that for the leaks one would make by mistake. Here are the kinds of checks that no mutant needs: a check that
hides must find a leak, a check that reveals must fail to read what is no longer there. Views are few and the leaks
gross, so the fixed seed is not what makes a test pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psephos.curator.hamm.statistic
import psephos.curator.psgd.agreement
import psephos.parties.pathak_noise
import psephos.parties.statistic
import psephos.protocol.encrypted_sum.proofs
import psephos.protocol.paillier.sharing
import psephos.protocol.pathak.resharing
from psephos.parties.holder import KeyHolder
from psephos.parties.party import Party
from psephos.parties.pathak import PathakParty
from psephos.parties.psgd import GradientParty
from psephos.protocol.ceremony.search import Batch
from psephos.protocol.encrypted_sum.product import BallotProduct, Closed, Observer
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.psgd.state import DescentState
from psephos.protocol.wire import Reader

__all__ = ["BREAKS", "Break"]

# The plaintext decides the randomness: a guessed vote can be encrypted and compared.
CONVERGENT = (
    Encryptor,
    "_encrypt",
    "generator_power(key, m) * r.value % modulus for m, r",
    "generator_power(key, m) * gmpy2.powmod(m + 2, key.plaintext_modulus, modulus) % modulus for m, r",
)
NO_NOISE = (psephos.parties.statistic, "with_share", "[value + noise for", "[value for")
NO_RANDOMNESS = (
    Encryptor,
    "_encrypt",
    "generator_power(key, m) * r.value % modulus",
    "generator_power(key, m) % modulus",
)
OPENED_TWICE = (KeyHolder, "open", "openings.first(self.round.digest,", "openings.first(request.product_digest,")
LOW_DEGREE = (psephos.protocol.paillier.sharing, "integer_polynomial", "range(threshold - 1)", "range(threshold - 2)")
F0_IS_S = (
    psephos.protocol.paillier.sharing,
    "integer_polynomial",
    "return [delta * secret]",
    "return [secret]",
)
# Votes for the next class: whoever reads anything does not read the votes that were given.
OTHER_VOTES = (
    Party,
    "votes",
    "self._voter.predict_votes(auxiliary.samples)",
    "(self._voter.predict_votes(auxiliary.samples) + 1) % len(self.classes)",
)
ZEROS = (Party, "ballot", "self.number, values, encryptor", "self.number, [0] * len(values), encryptor")
NO_KNOWLEDGE = (psephos.protocol.encrypted_sum.proofs, "check_proofs", 'if round_.proofs == "knowledge":', "if False:")
NO_VALIDITY = (psephos.protocol.encrypted_sum.proofs, "check_proofs", 'elif round_.proofs == "valid":', "elif False:")
NO_OPENING_PROOFS = (
    psephos.protocol.encrypted_sum.proofs,
    "check_opening",
    'if round_.proofs == "none":',
    "if True:",
)
COUNTED_TWICE = (BallotProduct, "_first_of_each", "if members >> ballot.party & 1:", "if False:")
COUNTED_LATE = (Observer, "late", "raise self.lateness(entry)", "return self.observe(state, (entry,))")
NO_MINIMUM = (BallotProduct, "check_minimum", "len(self) < self.round.minimum_ballots", "len(self) < 1")
ANY_NAME = (Closed, "with_confirmation", 'if entry.sender != f"holder {said.holder}":', "if False:")
UNCONFIRMED = (KeyHolder, "_check_confirmed", "if agreed < self.round.confirmations:", "if False:")
NO_SHARES = (psephos.parties.pathak_noise, "noise_share", "shares.share(randomness)", "[0] * terms.features")
OTHER_PARAMETERS = (PathakParty, "_result", "self._parameters, state", "tuple(w + 1 for w in self._parameters), state")
ANY_SESSION = (Reader, "__init__", "session is not None and session_of(data) != session", "False")
ANY_REQUEST = (KeyHolder, "open", "left_out := seen.members & ~request.members", "left_out := 0")
_LAST = "asks for the last step"


Edit = tuple[Any, str, str, str]


@dataclass(frozen=True, init=False)
class Break:
    """Edits, and the check that must answer differently while they last."""

    protocol: str
    check: str
    edits: tuple[Edit, ...]
    views: int

    def __init__(self, protocol: str, check: str, *edits: Edit, views: int = 24) -> None:
        for name, value in (("protocol", protocol), ("check", check), ("edits", edits), ("views", views)):
            object.__setattr__(self, name, value)


BREAKS = (
    Break("tally", "simulation, curator", CONVERGENT),
    Break("tally", "votes swapped, curator", CONVERGENT),
    Break(
        "tally",
        "other data, same votes, curator",
        (
            Party,
            "votes",
            "self._voter.predict_votes(auxiliary.samples)",
            "np.roll(self._voter.predict_votes(auxiliary.samples), len(getattr(self._voter, 'samples', ())) // 100)",
        ),
    ),
    Break(
        "tally",
        "messages replayed, party",
        (Encryptor, "randomizers", "comb.draw(self.randomness)", "comb.draw(SYSTEM)"),
    ),
    Break(
        "tally",
        "noise replayed, curator",
        (
            psephos.curator.hamm.statistic,
            "release_sum",
            "plan.mechanism.sample(randomness)",
            "plan.mechanism.sample(SYSTEM)",
        ),
    ),
    Break("tally", "parameters simulated, curator", CONVERGENT),
    Break("tally", "sum read, curator", ZEROS),
    Break("tally", "last party's parameters, curator and all parties but one", ZEROS),
    Break("tally", "opening parameters, t holders", ZEROS),
    Break("tally", "opening parameters, dealer", ZEROS),
    Break("tally", "output, curator", OTHER_VOTES),
    Break("tally", "alpha read, curator", OTHER_VOTES),
    Break("tally", "last party, curator and all parties but one", OTHER_VOTES),
    Break("tally", "opening, t holders", OTHER_VOTES),
    Break("tally", "opening, dealer", OTHER_VOTES),
    Break(
        "statistic",
        "same votes, curator",
        (
            psephos.parties.statistic.StatisticParty,
            "_start",
            "noisy_contribution(self._grid, votes,",
            "noisy_contribution(self._grid, np.roll(votes, len(self.party._voter.samples) // 100),",
        ),
    ),
    Break("statistic", "votes swapped, outsider (the board)", CONVERGENT, NO_NOISE),
    Break("statistic", "freshness, curator", NO_RANDOMNESS),
    Break("statistic", "threshold, curator and t - 1 holders", LOW_DEGREE),
    Break("statistic", "deviating requests, curator and t - 1 holders", OPENED_TWICE),
    Break("statistic", "dealt shares, curator and t - 1 holders", F0_IS_S, views=60),
    Break("statistic", "opening, t holders", ZEROS),
    Break("statistic", "opening, dealer", ZEROS),
    Break("own-data-exact", "opening, dealer", ZEROS),
    Break("own-data-exact", "exact sum, curator", ZEROS),
    Break(
        "pathak-printed",
        "simulation but for the total, party 2 (the smallest)",
        # Party 2 is handed every vector whole, and everybody else zeros.
        (
            psephos.protocol.pathak.resharing,
            "split_vector",
            "[*drawn, last]",
            "[[0] * len(vector)] * (parts - 2) + [[v & mask for v in vector], [0] * len(vector)]",
        ),
        views=36,
    ),
    Break(
        "pathak-repaired",
        "insider, party 2 (the smallest)",
        NO_SHARES,
    ),
    Break(
        "pathak-printed",
        "insider, party 2 (the smallest)",
        (PathakParty, "_result", "state.noise)", "tuple(tuple(e + 1 for e in n) for n in state.noise))"),
    ),
    Break(
        "pathak-repaired",
        "sizes read, curator and a party",
        (PathakParty, "_share_size", "self._size << TIE_BITS", "16 << TIE_BITS"),
    ),
    Break(
        "pathak-repaired",
        "noise read, curator and party 0",
        OTHER_PARAMETERS,
    ),
    # Weighted by the party's number, and without noise: the sum tells whose gradient was whose.
    Break(
        "psgd",
        "data swapped, curator",
        (GradientParty, "vector", "[u + e + r for", "[u * (1 + self.number) for"),
    ),
    Break("psgd", "freshness, curator", NO_RANDOMNESS),
    Break("psgd", "threshold, party", LOW_DEGREE),
    Break("psgd", "deviating requests, curator and a party, t - 1 holders", OPENED_TWICE),
    Break(
        "psgd",
        "sizes read, curator",
        (psephos.curator.psgd.agreement._Asked, "__init__", "loss.lipschitz * largest * (1", "self.records * (1"),
    ),
    *(
        Break("tally-liars", f"{strategy}, {coalition}", edit, views=2)
        for coalition, edit, *strategies in (
            ("lying parties", NO_KNOWLEDGE, "copies a ballot", "makes a ballot of others"),
            ("lying parties", NO_VALIDITY, "casts -1 votes", "casts 2 votes", "casts 1000 votes"),
            ("lying parties", COUNTED_TWICE, "votes twice"),
            (
                "lying parties",
                (Observer, "late", "raise self.lateness(entry)", "return self.observe(state, (entry,))"),
                "votes late",
            ),
            ("t - 1 lying holders", NO_OPENING_PROOFS, "answers at random", "shapes its answer"),
            ("t - 1 lying holders", (Closed, "agreeing", "if product == digest", ""), "confirms another product"),
            ("t - 1 lying holders", ANY_NAME, "confirms in another's name"),
            ("lying curator and parties", NO_KNOWLEDGE, "opens a round of its own"),
            ("lying curator and parties", NO_MINIMUM, "opens early or less", "asks for what isolates"),
            ("lying curator, board, parties and t - 1 holders", UNCONFIRMED, "shows two boards"),
        )
        for strategy in strategies
    ),
    *(
        Break("psgd-liars", f"{strategy}, {coalition}", edit, views=2)
        for coalition, edit, *strategies in (
            ("a lying party", NO_KNOWLEDGE, "copies a ballot"),
            ("a lying party", COUNTED_TWICE, "answers twice"),
            ("t - 1 lying holders", NO_OPENING_PROOFS, "answers at random"),
            (
                "lying curator and party",
                (DescentState, "announced", "announcement.step != self.steps + 1", "False"),
                _LAST,
            ),
            ("lying curator and party", (DescentState, "announced", "if self.open or", "if"), "asks twice"),
            ("lying curator and party", ANY_SESSION, "asks under other terms"),
            ("lying curator and party", ANY_REQUEST, "leaves a ballot out"),
            ("lying curator, board, party and t - 1 holders", UNCONFIRMED, "shows two boards"),
        )
        for strategy in strategies
    ),
    Break("pathak-liars", "adds what it likes, public-bound: a lying party", NO_SHARES, views=2),
    Break("pathak-liars", "publishes a wrong share, public-bound: lying curator", NO_SHARES, views=2),
    Break("pathak-liars", "adds nothing and something, public-bound: lying curator and a party", NO_SHARES, views=2),
    *(
        Break("pathak-liars", check, OTHER_PARAMETERS, views=2)
        for check in (
            "votes for no rung, repaired: a lying party",
            "selects nobody, repaired: lying curator",
            "noise of nobody, printed: a lying party",
            "selects nobody as printed, printed: lying curator",
        )
    ),
    # Shares of d that are all positive, so that constants in place of polynomials can be sent.
    Break(
        "ceremony",
        "threshold, t - 1 holders",
        (Batch, "_phi", "if s == 0 else mpz(0))", "- n // 4 * 2 if s == 0 else n // 4)"),
        (Batch, "exponent_share", "place, n)) + zero)", "place, n)))"),
        (psephos.protocol.paillier.sharing, "integer_polynomial", "randomness.below(width)", "0"),
        views=2,
    ),
    Break(
        "ceremony",
        "opening, t holders",
        (KeyShare, "share", "return self._share", "return self._share + self.threshold_key.key.n"),
        views=2,
    ),
)
