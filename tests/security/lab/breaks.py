"""Edits under which one of the analysis' checks must change its mind: `tests/security/test_checks_can_fail.py`.

Mutants do that for the leaks one would make by mistake. Here are the kinds of checks that no mutant needs: a check that
hides must find a leak, a check that reveals must fail to read what is no longer there. Views are few and the leaks
gross, so the fixed seed is not what makes a test pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import psephos.curator.psgd.agreement
import psephos.curator.statistic
import psephos.parties.pathak_noise
import psephos.parties.statistic
import psephos.protocol.encrypted_sum.proofs
import psephos.protocol.paillier.sharing
import psephos.protocol.pathak.resharing
from psephos.curator.psgd.curator import GradientCurator
from psephos.parties.holder import KeyHolder
from psephos.parties.party import Party
from psephos.parties.pathak import PathakParty
from psephos.parties.psgd import GradientParty
from psephos.protocol.ceremony.search import Batch
from psephos.protocol.encrypted_sum.product import BallotProduct, Observer, VoteClosed
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.psgd.state import DescentState
from psephos.protocol.wire import Reader
from tests.security.lab.edits import Edit

__all__ = ["BREAKS", "Break"]

# The plaintext decides the randomness: a guessed vote can be encrypted and compared.
CONVERGENT = Edit(
    Encryptor,
    "_encrypt",
    "generator_power($key, $m) * $r.value % $modulus",
    "generator_power($key, $m) * gmpy2.powmod($m + 2, $key.plaintext_modulus, $modulus) % $modulus",
)
NO_NOISE = Edit(
    psephos.parties.statistic,
    "with_share",
    "[$value + $noise for $value, $noise in $pairs]",
    "[$value for $value, $noise in $pairs]",
)
NO_RANDOMNESS = Edit(
    Encryptor,
    "_encrypt",
    "generator_power($key, $m) * $r.value % $modulus",
    "generator_power($key, $m) % $modulus",
)
OPENED_TWICE = Edit(
    KeyHolder,
    "open",
    "self._openings.do_once(self.round.digest, $product, $make)",
    "self._openings.do_once($product, $product, $make)",
)
LOW_DEGREE = Edit(
    psephos.protocol.paillier.sharing, "integer_polynomial", "range($threshold - 1)", "range($threshold - 2)"
)
F0_IS_S = Edit(
    psephos.protocol.paillier.sharing,
    "integer_polynomial",
    "[$delta * $secret]",
    "[$secret]",
)
# Votes for the next class: whoever reads anything does not read the votes that were given.
OTHER_VOTES = Edit(
    Party,
    "votes",
    "self._voter.predict_votes($samples)",
    "(self._voter.predict_votes($samples) + 1) % len(self.classes)",
)
ZEROS = Edit(
    Party,
    "ballot",
    "encrypt_with_proof($round, self.number, $values, $...rest)",
    "encrypt_with_proof($round, self.number, [0] * len($values), $...rest)",
)
NO_KNOWLEDGE = Edit(psephos.protocol.encrypted_sum.proofs, "check_proofs", '$round.proofs == "knowledge"', "False")
NO_VALIDITY = Edit(psephos.protocol.encrypted_sum.proofs, "check_proofs", '$round.proofs == "valid"', "False")
NO_OPENING_PROOFS = Edit(
    psephos.protocol.encrypted_sum.proofs,
    "check_opening",
    '$round.proofs == "none"',
    "True",
)
COUNTED_TWICE = Edit(BallotProduct, "_first_of_each", "$members >> $ballot.party & 1", "False")
COUNTED_LATE = Edit(Observer, "late", "raise self.lateness($entry)", "return self.observe(state, ($entry,))")
NO_MINIMUM = Edit(BallotProduct, "check_minimum", "len(self) < self.round.minimum_ballots", "len(self) < 1")
ANY_NAME = Edit(VoteClosed, "with_confirmation", '$entry.sender != f"holder {$message.holder}"', "False")
UNCONFIRMED = Edit(KeyHolder, "_check_confirmed", "$agreed < self.round.confirmations", "False")
NO_SHARES = Edit(psephos.parties.pathak_noise, "noise_share", "$shares.share($randomness)", "[0] * $shares.dimension")
OTHER_PARAMETERS = Edit(
    PathakParty,
    "_result",
    "Contribution($size, $parameters, $noise)",
    "Contribution($size, tuple(w + 1 for w in $parameters), $noise)",
)
ANY_SESSION = Edit(Reader, "__init__", "$session is not None and session_of($data) != $session", "False")
ANY_REQUEST = Edit(
    KeyHolder,
    "open",
    """
if $unseen := $request.members & ~$seen.members:
    $...refuse
if $left_out := $seen.members & ~$request.members:
    ...
""",
    """
if $unseen := $request.members & ~$seen.members:
    $...refuse
""",
)
_LAST = "asks for the last step"


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
        Edit(
            Party,
            "votes",
            "self._voter.predict_votes($samples)",
            "np.roll(self._voter.predict_votes($samples), len(getattr(self._voter, 'samples', ())) // 100)",
        ),
    ),
    Break(
        "tally",
        "messages replayed, party",
        Edit(Encryptor, "randomizers", "$comb.draw(self.randomness)", "$comb.draw(SYSTEM)"),
    ),
    Break(
        "tally",
        "noise replayed, curator",
        Edit(
            psephos.curator.statistic,
            "release_sum",
            "$plan.mechanism.sample($randomness)",
            "$plan.mechanism.sample(SYSTEM)",
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
        Edit(
            psephos.parties.statistic.StatisticParty,
            "_start",
            "noisy_contribution($grid, $votes, $...rest)",
            "noisy_contribution($grid, np.roll($votes, len(self.party._voter.samples) // 100), $...rest)",
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
        Edit(
            psephos.protocol.pathak.resharing,
            "split_vector",
            """
$last = [$difference & $mask for $entry, $column in zip($vector, ...)]
return [*$drawn, $last]
""",
            "return [[0] * len($vector)] * (len($drawn) - 1) + [[v & $mask for v in $vector], [0] * len($vector)]",
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
        Edit(
            PathakParty,
            "_result",
            "Contribution($size, $parameters, $noise)",
            "Contribution($size, $parameters, tuple(tuple(e + 1 for e in vector) for vector in $noise))",
        ),
    ),
    Break(
        "pathak-repaired",
        "sizes read, curator and a party",
        Edit(PathakParty, "_share_size", "self._size << TIE_BITS", "16 << TIE_BITS"),
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
        Edit(
            GradientParty,
            "vector",
            "[$u + $e + $r for $u, $e, $r in $entries]",
            "[$u * (1 + self.number) for $u, $e, $r in $entries]",
        ),
    ),
    Break("psgd", "freshness, curator", NO_RANDOMNESS),
    Break("psgd", "threshold, party", LOW_DEGREE),
    Break("psgd", "deviating requests, curator and a party, t - 1 holders", OPENED_TWICE),
    Break(
        "psgd",
        "sizes read, curator",
        Edit(
            psephos.curator.psgd.agreement._NoisePlanner,
            "__init__",
            "$loss.lipschitz * $largest * (1 + $rounding)",
            "self.records * (1 + $rounding)",
        ),
    ),
    *(
        Break("tally-liars", f"{strategy}, {coalition}", edit, views=2)
        for coalition, edit, *strategies in (
            ("lying parties", NO_KNOWLEDGE, "copies a ballot", "makes a ballot of others"),
            ("lying parties", NO_VALIDITY, "casts -1 votes", "casts 2 votes", "casts 1000 votes"),
            ("lying parties", COUNTED_TWICE, "votes twice"),
            (
                "lying parties",
                COUNTED_LATE,
                "votes late",
            ),
            ("t - 1 lying holders", NO_OPENING_PROOFS, "answers at random", "shapes its answer"),
            (
                "t - 1 lying holders",
                Edit(
                    VoteClosed,
                    "agreeing",
                    "[$holder for $holder, $product in self.confirmed if $product == $digest]",
                    "[$holder for $holder, $product in self.confirmed]",
                ),
                "confirms another product",
            ),
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
            (
                "lying curator and party",
                Edit(DescentState, "announced", "self.open or $announcement.step != self.steps + 1", "self.open"),
                _LAST,
            ),
            (
                "lying curator and party",
                Edit(
                    DescentState,
                    "announced",
                    "self.open or $announcement.step != self.steps + 1",
                    "$announcement.step != self.steps + 1",
                ),
                "asks twice",
            ),
            ("lying curator and party", ANY_SESSION, "asks under other terms"),
            ("lying curator and party", ANY_REQUEST, "leaves a ballot out"),
            ("lying curator, board, party and t - 1 holders", UNCONFIRMED, "shows two boards"),
        )
        for strategy in strategies
    ),
    # Without proofs, the partial decryptions of the other holders show who sent a wrong one.
    Break(
        "psgd-liars",
        "answers at random, t - 1 lying holders",
        NO_OPENING_PROOFS,
        Edit(GradientCurator, "receive_published_sum", "$opened.sums == $sums", "False"),
        views=2,
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
        Edit(
            Batch,
            "_phi",
            "$n + 1 - $offset if $subset == 0 else mpz(0)",
            "$n + 1 - $offset - $n // 4 * 2 if $subset == 0 else $n // 4",
        ),
        Edit(Batch, "exponent_share", "int($product + $zero)", "int($product)"),
        Edit(psephos.protocol.paillier.sharing, "integer_polynomial", "$randomness.below($width)", "0"),
        views=2,
    ),
    Break(
        "ceremony",
        "opening, t holders",
        Edit(KeyShare, "share", "return self._share", "return self._share + self.threshold_key.key.n"),
        views=2,
    ),
)
