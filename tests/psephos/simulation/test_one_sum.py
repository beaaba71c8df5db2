"""A run of a single sum: whatever its options say arrives in the keys, the terms and the conditions of the sum."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from psephos.budget import RunBudget
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import BudgetExceededError
from psephos.protocol.privacy.accounting import PrivacyEvent
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.roles import Role
from psephos.protocol.storage.budget import BudgetFile, PrivacyLimit
from psephos.protocol.transcript import Transcript
from psephos.simulation import one_sum
from psephos.simulation.encrypted_sum import EncryptedSum, RunConfig, simulate_sum
from psephos.simulation.engines import FEWEST_BATCHES, LocalEngine
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


@pytest.mark.parametrize(
    ("change", "least", "sums"),
    [({}, 5, (10, 35)), ({"dropouts": 2, "away": [4, 1], "workers": 3, "key_holders": 4}, 3, (5, 22))],
    ids=str,
)
def test_the_sum_is_taken_as_the_options_say(change: dict[str, Any], least: int, sums: tuple[int, ...]) -> None:
    seen = list[tuple[Round, RunConfig]]()

    def spy(round_: Round, keys: Any, factory: Any, config: RunConfig) -> EncryptedSum:
        seen.append((round_, config))
        return simulate_sum(round_, keys, factory, config)

    transcript, steps, chosen = Transcript(), list[tuple[str, int, int]](), options(**change)
    with replaced([one_sum], "simulate_sum", simulate_sum, spy):
        done = take_sum(chosen, SPEC, ROWS, "add", transcript=transcript, progress=lambda *far: steps.append(far))
    ((round_, config),) = seen
    key, present = round_.threshold_key, sorted(set(range(5)) - set(chosen.away))
    assert (key.key.bits, key.key.degree) == (256, SPEC.best_degree(256, 5))
    assert (key.holders, key.threshold, len(round_.roster)) == (chosen.key_holders, 2, 5)
    assert (round_.minimum_ballots, round_.test_key, round_.proofs) == (least, True, "none")
    assert config.engine == LocalEngine(chosen.workers, FEWEST_BATCHES)
    assert (config.transcript, config.roles, config.present) == (transcript, {}, present)
    assert (done.opened.sums, done.opened.parties, done.equals_plaintext) == (sums, tuple(present), True)
    assert (steps[0], steps[-1]) == (("add", 0, len(present)), ("add", len(present), len(present)))
    assert list(done.seconds) == ["keygen", "encrypt", "aggregate", "decrypt"]
    assert all(seconds > 0 for seconds in done.seconds.values())


def test_roles_are_replaced() -> None:
    seen = list[str]()

    def keep(role: Role) -> Role:
        seen.append(role.name)
        return role

    take_sum(options(), SPEC, ROWS, "add", roles={"holder 2": keep, "party 0": keep})
    assert sorted(seen) == ["holder 2", "party 0"]


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
