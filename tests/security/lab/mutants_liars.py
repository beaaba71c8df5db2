"""What stops roles that lie, broken in one line."""

from __future__ import annotations

import psephos.parties.pathak_noise
import psephos.protocol.encrypted_sum.proofs
import psephos.protocol.psgd.state
from psephos.audit.mutants import Mutant
from psephos.curator.psgd.curator import GradientCurator
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.product import BallotProduct, Closed, Observer
from psephos.protocol.pathak.terms import Terms

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
        'if round_.proofs == "knowledge":',
        "if False:",
        "makes a ballot of others, lying parties",
    ),
    Mutant(
        "ballots whose validity nobody looks at",
        "tally-liars",
        _PROOFS,
        "check_proofs",
        'elif round_.proofs == "valid":',
        "elif False:",
        "casts 1000 votes, lying parties",
    ),
    Mutant(
        "partial decryptions whose proof nobody looks at",
        "tally-liars",
        _PROOFS,
        "check_opening",
        'if round_.proofs == "none":',
        "if True:",
        "shapes its answer, t - 1 lying holders",
    ),
    Mutant(
        "late ballots counted",
        "tally-liars",
        Observer,
        "late",
        "raise self.lateness(entry)",
        "return self.observe(state, (entry,))",
        "votes late, lying parties",
    ),
    Mutant(
        "a close by anybody",
        "tally-liars",
        Observer,
        "end",
        'if entry.sender != "curator":',
        "if False:",
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
        Closed,
        "agreeing",
        "if product == digest",
        "",
        "confirms another product, t - 1 lying holders",
    ),
    Mutant(
        "a holder that waits for no confirmations",
        "tally-liars",
        KeyHolder,
        "_check_confirmed",
        "if agreed < self.round.confirmations:",
        "if False:",
        f"shows two boards, {_ALL}",
    ),
    Mutant(
        "an error that does not say who confirmed another product",
        "tally-liars",
        Tally,
        "_on_idle",
        "if holder not in agreed]",
        "if False]",
        "confirms another product, t - 1 lying holders",
    ),
    Mutant(
        "gradients whose proof of knowledge nobody looks at",
        "psgd-liars",
        _PROOFS,
        "check_proofs",
        'if round_.proofs == "knowledge":',
        "if False:",
        "makes a ballot of others, a lying party",
    ),
    Mutant(
        "a step announced by anybody",
        "psgd-liars",
        _WALK,
        "announced",
        'if entry.sender != "curator":',
        "if False:",
        "announces steps, a lying party",
    ),
    Mutant(
        "partial decryptions of a step whose proof nobody looks at",
        "psgd-liars",
        _PROOFS,
        "check_opening",
        'if round_.proofs == "none":',
        "if True:",
        "shapes its answer, t - 1 lying holders",
    ),
    Mutant(
        "one holder's word for a sum",
        "psgd-liars",
        _WALK,
        "published",
        "< terms.threshold_key.threshold:",
        "< 1:",
        "goes on from a lie, " + _PSGD_ALL,
    ),
    Mutant(
        "a holder that contradicts t others and is not named",
        "psgd-liars",
        GradientCurator,
        "move",
        "wrong_holders=wrong",
        "wrong_holders=()",
        "publishes another sum, t - 1 lying holders",
    ),
    Mutant(
        "a sum in another holder's name",
        "psgd-liars",
        _WALK,
        "published",
        'if entry.sender != f"holder {said.holder}":',
        "if False:",
        "publishes in another's name, t - 1 lying holders",
    ),
    Mutant(
        "a point of the curator's choice",
        "psgd-liars",
        _WALK,
        "announced",
        "if announcement.point != self.point:",
        "if False:",
        "chooses its point, lying curator and party",
    ),
    Mutant(
        "shares that are no noise",
        "pathak-liars",
        psephos.parties.pathak_noise,
        "noise_share",
        "shares.share(randomness)",
        "[0] * terms.features",
        "adds nothing, public-bound: a lying party",
    ),
    Mutant(
        "whatever terms the curator proposes",
        "pathak-liars",
        Terms,
        "check_agrees",
        "if own != proposed:",
        "if False:",
        "proposes less noise, public-bound: lying curator",
    ),
)
