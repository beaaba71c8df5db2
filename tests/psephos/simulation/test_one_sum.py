"""A run of a single sum: whatever its options say arrives in the keys, the terms and the conditions of the sum."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from psephos.budget import RunBudget
from psephos.protocol.errors import BudgetExceededError
from psephos.protocol.privacy.accounting import PrivacyEvent
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.storage.budget import BudgetFile, PrivacyLimit
from psephos.simulation import one_sum
from psephos.simulation.encrypted_sum import simulate_sum
from psephos.simulation.key_setup import setup_run_keys
from psephos.simulation.one_sum import take_sum
from psephos.specs.average import VectorSpec
from psephos.specs.base import VectorFormat
from tests.security.lab.edits import replaced

SPEC = VectorSpec(VectorFormat(2, 0, 9), bytes(32))
ROWS = [[number, 9 - number] for number in range(5)]


def options(**change: Any) -> Any:
    usual = {"parties": 5, "key_bits": 256, "test_key": True, "keys": "dealer", "key_holders": 3}
    return SimpleNamespace(**usual | {"opening_threshold": 2, "workers": 1, "dropouts": 0, "away": []} | change)


def test_every_call_is_charged_before_keys_are_made(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit.parse("2.5"))
        budget = RunBudget(file.path, bytes(32), PrivacyUnit("record"), "", bytes(16))
        charge = budget, PrivacyEvent("sum of rows", 1.0, 0.0)
        for number in (1, 2):
            take_sum(options(), SPEC, ROWS, "add", charge=charge)
            assert [(one.name, one.epsilon) for one in file.charges()] == [("sum of rows", 1.0)] * number
        refused: Any = lambda *terms: pytest.fail("a key was made")  # noqa: E731
        with (
            replaced([one_sum], "setup_run_keys", setup_run_keys, refused),
            pytest.raises(BudgetExceededError),
        ):
            take_sum(options(), SPEC, ROWS, "add", charge=charge)
        assert len(file.charges()) == 2


def test_a_sum_that_fails_before_the_first_vector_costs_nothing(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        budget = RunBudget(file.path, bytes(32), PrivacyUnit("record"), "", bytes(16))
        charge = budget, PrivacyEvent("sum of rows", 1.0, 0.0)

        def stop(*terms: Any) -> Any:
            raise KeyboardInterrupt

        with replaced([one_sum], "setup_run_keys", setup_run_keys, stop), pytest.raises(KeyboardInterrupt):
            take_sum(options(), SPEC, ROWS, "add", charge=charge)
        assert file.charges() == []
        with replaced([one_sum], "simulate_sum", simulate_sum, stop), pytest.raises(KeyboardInterrupt):
            take_sum(options(), SPEC, ROWS, "add", charge=charge)
        assert len(file.charges()) == 1, "whoever saw the first vector may have seen all"
