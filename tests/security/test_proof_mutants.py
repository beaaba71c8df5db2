"""Each line of a proof that a forger wants gone: with it the forgery is refused, without it accepted."""

from __future__ import annotations

import pytest

from tests.security.lab.edits import edited
from tests.security.lab.mutants_proofs import PROOF_MUTANTS, ProofMutant


@pytest.mark.parametrize("mutant", PROOF_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_forgery_is_stopped_by_one_line(mutant: ProofMutant) -> None:
    assert not mutant.forgery()
    with edited(*mutant.edit):
        assert mutant.forgery()
