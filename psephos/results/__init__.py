"""What commands find, as types: their fields are the JSON (docs/json.md), their properties what is shown of them."""

from psephos.curator.ledger import Release
from psephos.results.base import (
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
)
from psephos.results.machine import BenchOutcome, PlanOutcome
from psephos.results.papers import HammOutcome, PaperOutcome, PathakAdultOutcome, RajkumarOutcome
from psephos.results.runs import (
    AverageOutcome,
    Composed,
    Guarantee,
    Interrupted,
    PathakOutcome,
    PsgdOutcome,
    Run,
    TallyOutcome,
)
from psephos.results.security import (
    AuditedCell,
    AuditedCoalition,
    AuditedProtocol,
    AuditOutcome,
    ComparedRun,
    Finding,
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
    "ComparedRun",
    "Composed",
    "Curve",
    "Finding",
    "Guarantee",
    "HammOutcome",
    "Interrupted",
    "Mean",
    "Mechanism",
    "Outcome",
    "PaperOutcome",
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
