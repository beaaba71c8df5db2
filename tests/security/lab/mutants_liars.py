"""What stops roles that lie, broken in one line."""

from __future__ import annotations

import psephos.protocol.encrypted_sum.proofs
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.product import BallotProduct, Closed, Observer
from psephos.testing.mutants import Mutant

__all__ = ["MUTANTS"]

_ALL = "lying curator, board, parties and t - 1 holders"
_PROOFS = psephos.protocol.encrypted_sum.proofs

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
        "hush",
        "if holder not in agreed]",
        "if False]",
        "confirms another product, t - 1 lying holders",
    ),
)
