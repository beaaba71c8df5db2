"""Which attacks are tried on which protocol: the catalogue of each specification.

Attacks are not declared on the specification, as its secrets are: they are made of adversarial roles and of whole runs,
which a study must not load (tests/test_architecture.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from psephos.audit import case_liars, case_pathak_liars, case_psgd_liars
from psephos.audit.attacks import Attack
from psephos.audit.case_statistic import RECORDS, SCORES, STEPS, VOTE_STATISTIC
from psephos.audit.case_tally import PARAMETERS
from psephos.audit.deviations import request_attacks

__all__ = ["ATTACKS"]

ATTACKS: Mapping[str, tuple[Attack, ...]] = {
    "tally": case_liars.ATTACKS,
    "statistic": request_attacks(VOTE_STATISTIC.setting, VOTE_STATISTIC.ballots),
    "rehearsed": request_attacks(STEPS.setting, STEPS.ballots),
    "record": request_attacks(RECORDS.setting, RECORDS.ballots),
    "regression": request_attacks(RECORDS.setting, RECORDS.ballots),  # its round is that of a record step
    "evaluation": request_attacks(SCORES.setting, SCORES.ballots),
    "average": request_attacks(PARAMETERS.setting, PARAMETERS.ballots),
    "psgd": case_psgd_liars.ATTACKS,
    "pathak": case_pathak_liars.ATTACKS,
}
"""Every attack on a protocol, by the protocol's name in `psephos.specs.registry.SPECS`."""
