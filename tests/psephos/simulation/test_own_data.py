"""The own-data statistic end to end, with joint noise and with the curator's; test keys that say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from psephos.parties.statistic import OwnDataParty
from psephos.protocol.errors import AlreadyCastError
from psephos.simulation.options import AverageOptions, TallyOptions
from psephos.simulation.tally import simulate_average, simulate_tally

JOINT = TallyOptions(
    parties=40, key_bits=512, test_key=True, holders=3, threshold=2, workers=1, epsilon=(5.0,), reveal="statistic"
)
CURATOR = AverageOptions(
    parties=40, key_bits=512, test_key=True, holders=3, threshold=2, workers=1, methods=("own-data",), draws=1
)


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "gaussian"])
@pytest.mark.parametrize("method", ["statistic", "own-data", "vote-directions"])
def test_sums_with_ballots_that_are_proved_to_be_bounded(method: str, mechanism: str) -> None:
    options = replace(JOINT, parties=6, methods=(method,), mechanism=mechanism, colluders=1, proofs="valid")
    outcome = simulate_tally(replace(options, key_bits=1024)).as_json()
    assert outcome["tally_equals_plaintext"] is True


def test_own_data_is_given_to_one_exact_sum() -> None:
    """Asked again in the same round it answers the identical ballot; in another round it refuses."""
    seen: list[OwnDataParty] = []

    def keep(role):  # type: ignore[no-untyped-def]
        seen.append(role)
        return role

    options = replace(CURATOR, parties=3, holders=3)
    simulate_average(options, roles={"party 0": keep})
    simulate_average(options, roles={"party 0": keep})
    one, two = seen
    again = OwnDataParty(one.party, one.round, two._rows, two._grid, None)._start()
    assert again.posts == one._start().posts
    other = replace(one.round, nonce=two.round.nonce)
    with pytest.raises(AlreadyCastError):
        OwnDataParty(one.party, other, one._rows, one._grid, None)._start()


def test_a_journal_keeps_the_salt(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A run on private auxiliary samples goes on from its journal: the round is about the same commitment."""
    options = replace(JOINT, reveal="alpha", parties=5, protect_auxiliary=True, journal=str(tmp_path / "journal"))
    assert simulate_tally(options).as_json()["continued_from"] == 0
    assert simulate_tally(options).as_json()["continued_from"] > 0


def test_salted_commitments_hide_private_auxiliary_samples() -> None:
    """Two runs on the same samples name different rounds: a guess of the samples cannot be compared with the board."""
    options = replace(JOINT, reveal="alpha", parties=5, protect_auxiliary=True)
    rounds = []

    def seen(role):  # type: ignore[no-untyped-def]
        rounds.append(role.round)
        return role

    for _ in range(2):
        simulate_tally(options, roles={"party 0": seen})
    votes = [one for one in rounds if one.kind == "votes"]
    assert len({one.context for one in votes}) == len(votes) == 2
