"""The bounds of `psephos.curator.hamm.sensitivity` by the names of their rows in docs/theory.md, "Sensitivities"."""

from __future__ import annotations

from typing import Any

from psephos.curator.hamm.sensitivity import Sensitivity, risk_minimiser


def binary_majority(lam: float, rho: float = 1.0, loss: Any = "logistic") -> Sensitivity:
    return risk_minimiser("majority", loss, lam, parties=1, classes=2, rho=rho)


def binary_soft(lam: float, parties: int, rho: float = 1.0, loss: Any = "logistic") -> Sensitivity:
    return risk_minimiser("soft", loss, lam, parties=parties, classes=2, rho=rho)


def multiclass_majority(lam: float, classes: int, rho: float = 1.0) -> Sensitivity:
    return risk_minimiser("majority", "softmax", lam, parties=1, classes=classes, rho=rho)


def multiclass_soft(lam: float, parties: int, classes: int, rho: float = 1.0) -> Sensitivity:
    return risk_minimiser("soft", "softmax", lam, parties=parties, classes=classes, rho=rho)


def binary_soft_private_auxiliary(lam: float, parties: int, samples: int, loss: Any = "logistic") -> Sensitivity:
    return risk_minimiser("soft", loss, lam, parties=parties, classes=2, samples=samples)


def binary_majority_private_auxiliary(lam: float, samples: int, loss: Any = "logistic") -> Sensitivity:
    return risk_minimiser("majority", loss, lam, parties=1, classes=2, samples=samples)


def multiclass_soft_private_auxiliary(lam: float, parties: int, samples: int, classes: int) -> Sensitivity:
    return risk_minimiser("soft", "softmax", lam, parties=parties, classes=classes, samples=samples)


def multiclass_majority_private_auxiliary(lam: float, samples: int, classes: int) -> Sensitivity:
    return risk_minimiser("majority", "softmax", lam, parties=1, classes=classes, samples=samples)
