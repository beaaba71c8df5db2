"""What stops roles that lie, broken in one line."""

from __future__ import annotations

import psephos.parties.pathak_noise
import psephos.protocol.encrypted_sum.proofs
import psephos.protocol.psgd.state
from psephos.curator.psgd.curator import GradientCurator
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.product import BallotProduct, Observer, VoteClosed
from psephos.protocol.pathak.terms import PathakTerms
from tests.security.lab.edits import Mutant

__all__ = ["MUTANTS"]

_ALL = "lying curator, board, parties and t - 1 holders"
_PROOFS = psephos.protocol.encrypted_sum.proofs
_WALK = psephos.protocol.psgd.state.DescentState
_PSGD_ALL = "lying curator, board, party and t - 1 holders"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "ballots whose proof of knowledge nobody looks at",
        "tally-liars",
        _PROOFS,
        "check_proofs",
        '$round.proofs == "knowledge"',
        "False",
        "makes a ballot of others, lying parties",
    ),
    Mutant(
        "ballots whose validity nobody looks at",
        "tally-liars",
        _PROOFS,
        "check_proofs",
        '$round.proofs == "valid"',
        "False",
        "casts 1000 votes, lying parties",
    ),
    Mutant(
        "partial decryptions whose proof nobody looks at",
        "tally-liars",
        _PROOFS,
        "check_opening",
        '$round.proofs == "none"',
        "True",
        "shapes its answer, t - 1 lying holders",
    ),
    Mutant(
        "late ballots counted",
        "tally-liars",
        Observer,
        "late",
        "raise self.lateness($entry)",
        "return self.observe(state, ($entry,))",
        "votes late, lying parties",
    ),
    Mutant(
        "a close by anybody",
        "tally-liars",
        Observer,
        "end",
        '$entry.sender != "curator"',
        "False",
        "opens early or less, lying curator and parties",
    ),
    Mutant(
        "a close below the minimum",
        "tally-liars",
        BallotProduct,
        "check_minimum",
        "len(self) < self.round.minimum_ballots",
        "len(self) < 1",
        "opens early or less, lying curator and parties",
    ),
    Mutant(
        "confirmations of anything count",
        "tally-liars",
        VoteClosed,
        "agreeing",
        "[$holder for $holder, $product in self.confirmed if $product == $digest]",
        "[$holder for $holder, $product in self.confirmed]",
        "confirms another product, t - 1 lying holders",
    ),
    Mutant(
        "a holder that waits for no confirmations",
        "tally-liars",
        KeyHolder,
        "_check_confirmed",
        "$agreed < self.round.confirmations",
        "False",
        f"shows two boards, {_ALL}",
    ),
    Mutant(
        "an error that does not say who confirmed another product",
        "tally-liars",
        Tally,
        "_unconfirmed",
        "[$name for $holder, $product in $state.confirmed if $holder not in $agreed]",
        "[]",
        "confirms another product, t - 1 lying holders",
    ),
    Mutant(
        "gradients whose proof of knowledge nobody looks at",
        "psgd-liars",
        _PROOFS,
        "check_proofs",
        '$round.proofs == "knowledge"',
        "False",
        "makes a ballot of others, a lying party",
    ),
    Mutant(
        "a step announced by anybody",
        "psgd-liars",
        _WALK,
        "announced",
        '$entry.sender != "curator"',
        "False",
        "announces steps, a lying party",
    ),
    Mutant(
        "partial decryptions of a step whose proof nobody looks at",
        "psgd-liars",
        _PROOFS,
        "check_opening",
        '$round.proofs == "none"',
        "True",
        "shapes its answer, t - 1 lying holders",
    ),
    Mutant(
        "one holder's word for a sum",
        "psgd-liars",
        _WALK,
        "published",
        "$equal < $terms.threshold_key.threshold",
        "$equal < 1",
        "goes on from a lie, " + _PSGD_ALL,
    ),
    Mutant(
        "a holder that contradicts t others and is not named",
        "psgd-liars",
        GradientCurator,
        "receive_published_sum",
        "replace($...rest, wrong_holders=$wrong)",
        "replace($...rest, wrong_holders=())",
        "publishes another sum, t - 1 lying holders",
    ),
    Mutant(
        "a sum in another holder's name",
        "psgd-liars",
        _WALK,
        "published",
        '$entry.sender != f"holder {$message.holder}"',
        "False",
        "publishes in another's name, t - 1 lying holders",
    ),
    Mutant(
        "a point of the curator's choice",
        "psgd-liars",
        _WALK,
        "announced",
        "$announcement.point != self.point",
        "False",
        "chooses its point, lying curator and party",
    ),
    Mutant(
        "shares that are no noise",
        "pathak-liars",
        psephos.parties.pathak_noise,
        "noise_share",
        "$shares.share($randomness)",
        "[0] * $shares.dimension",
        "adds nothing, public-bound: a lying party",
    ),
    Mutant(
        "whatever terms the curator proposes",
        "pathak-liars",
        PathakTerms,
        "check_agrees",
        "$own != $proposed",
        "False",
        "proposes less noise, public-bound: lying curator",
    ),
)
