"""What commands find, as types: their fields are the JSON (docs/json.md), their properties what is shown of them."""

from psephos.outcomes.base import (
    ALPHA_NOTICE,
    FORMAT,
    KINDS,
    METHODS,
    Accuracy,
    Alpha,
    Curve,
    Mean,
    Outcome,
    Phase,
    Release,
)
from psephos.outcomes.machine import BenchOutcome, PlanOutcome
from psephos.outcomes.papers import Experiment, HammOutcome, PathakAdultOutcome, RajkumarOutcome
from psephos.outcomes.runs import (
    AverageOutcome,
    Composed,
    Guarantee,
    Interrupted,
    PathakOutcome,
    PsgdOutcome,
    Run,
    TallyOutcome,
)
from psephos.outcomes.security import (
    AuditedCell,
    AuditedCoalition,
    AuditedProtocol,
    AuditOutcome,
    Mechanism,
    PrivacyAuditOutcome,
)

__all__ = [
    "ALPHA_NOTICE",
    "FORMAT",
    "KINDS",
    "METHODS",
    "Accuracy",
    "Alpha",
    "AuditOutcome",
    "AuditedCell",
    "AuditedCoalition",
    "AuditedProtocol",
    "AverageOutcome",
    "BenchOutcome",
    "Composed",
    "Curve",
    "Experiment",
    "Guarantee",
    "HammOutcome",
    "Interrupted",
    "Mean",
    "Mechanism",
    "Outcome",
    "PathakAdultOutcome",
    "PathakOutcome",
    "Phase",
    "PlanOutcome",
    "PrivacyAuditOutcome",
    "PsgdOutcome",
    "RajkumarOutcome",
    "Release",
    "Run",
    "TallyOutcome",
]
