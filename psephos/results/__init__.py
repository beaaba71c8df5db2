"""What commands find, as types: their fields are the JSON, their properties what is shown of them."""

from psephos.curator.ledger import Release
from psephos.results.base import (
    ALPHA_NOTICE,
    FORMAT,
    KINDS,
    METHODS,
    Accuracy,
    Alpha,
    AuditedCell,
    Curve,
    Phase,
    Result,
)
from psephos.results.machine import PlanResult
from psephos.results.papers import Mean, PaperResult
from psephos.results.regression import RegressionError, RegressionResult
from psephos.results.runs import (
    AverageResult,
    ComposedCost,
    Guarantee,
    InterruptedResult,
    PathakResult,
    PsgdResult,
    RunResult,
    TallyResult,
)
from psephos.results.scores import EvaluationResult
from psephos.results.security import (
    AuditedCoalition,
    AuditedProtocol,
    AuditResult,
    ComparedRun,
    Finding,
    Mechanism,
    PrivacyAuditResult,
)

__all__ = [
    "ALPHA_NOTICE",
    "FORMAT",
    "KINDS",
    "METHODS",
    "Accuracy",
    "Alpha",
    "AuditResult",
    "AuditedCell",
    "AuditedCoalition",
    "AuditedProtocol",
    "AverageResult",
    "ComparedRun",
    "ComposedCost",
    "Curve",
    "EvaluationResult",
    "Finding",
    "Guarantee",
    "InterruptedResult",
    "Mean",
    "Mechanism",
    "PaperResult",
    "PathakResult",
    "Phase",
    "PlanResult",
    "PrivacyAuditResult",
    "PsgdResult",
    "RegressionError",
    "RegressionResult",
    "Release",
    "Result",
    "RunResult",
    "TallyResult",
]
