"""For whoever attacks, varies or tests a protocol: views, adversaries, advantages, audits, mutants (docs/testing.md).

* `Adversary`: plays a role of any run, but for the messages that it overrides.
* `views`: what a coalition saw, from a transcript that kept secrets.
* `advantage`: how well a distinguisher guesses, with an exact confidence interval.
* `audit`, `Mutant`: the security analysis of one's own protocol or variant, and of the same broken in one line.
* `Election`, `hold_election`: a round with everybody's secrets.
* `Trial`, `trial`: a study with everybody's keys.
* `psephos.testing.fixtures`: all this for pytest, `pytest_plugins = ["psephos.testing.fixtures"]`.
"""

from psephos.security.model import Case, Check, Checks, Coalition, Context, Result
from psephos.testing.adversary import Adversary
from psephos.testing.analysis import Advantage, CaseAudit, advantage, audit, views
from psephos.testing.mutants import Mutant, caught_by, edited
from psephos.testing.rounds import Election, Sends, hold_election
from psephos.testing.studies import Trial, trial

__all__ = [
    "Advantage",
    "Adversary",
    "Case",
    "CaseAudit",
    "Check",
    "Checks",
    "Coalition",
    "Context",
    "Election",
    "Mutant",
    "Result",
    "Sends",
    "Trial",
    "advantage",
    "audit",
    "caught_by",
    "edited",
    "hold_election",
    "trial",
    "views",
]
