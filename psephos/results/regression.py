"""Result of a private regression (`psephos run --task regression`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from psephos.curator.ledger import Release
from psephos.results.base import Count, Fact, Result, Table
from psephos.results.runs import OPENING_OPTIONS, PRIVATE_ROWS_NOTICE, READ_OPTIONS, OptionsResult
from psephos.results.trust import cost_text

__all__ = ["PREDICTORS", "RegressionError", "RegressionResult"]

PREDICTORS = {
    "newton": "released, with noise",
    "public": "public rows alone",
    "least squares": "all rows, no privacy",
    "huber": "all rows, Huber's loss, no privacy",
}
"""Description of each predictor whose errors are measured: the data and loss that it was fitted to."""


@dataclass(frozen=True)
class RegressionError:
    """Errors of predictions of a numeric label on held-out rows.

    Attributes:
        r2: coefficient of determination; below 0 where the mean of the held-out labels would be nearer.
        rmse: root mean squared error, in the label's unit.
        mae: mean absolute error, in the label's unit.
    """

    r2: float
    rmse: float
    mae: float


@dataclass(frozen=True, kw_only=True)
class RegressionResult(OptionsResult):
    """A private regression on the parties' rows.

    Attributes:
        label: the column that is predicted.
        bounds: smallest and largest prediction, from public labels.
        threshold_of_residuals: Huber's threshold, in the label's unit.
        features: number of encoded features.
        auxiliary: number of public rows.
        test: number of held-out rows.
        errors: on the held-out rows, by predictor (`PREDICTORS`), where they can be computed. No epsilon covers
            them.
        privacy: privacy cost of the release.
        ballots: number of ballots counted.
        ciphertexts_per_ballot: ciphertexts in one ballot.
        bytes_per_ballot: size of one ballot as it is sent.
        tally_equals_plaintext: whether the opened sum equals the sum in the clear, entry by entry.
        colluders: number of parties that may reveal their noise to each other and to the curator while epsilon holds.
    """

    kind: ClassVar[str] = "regression"
    derived: ClassVar[tuple[str, ...]] = (*Result.derived, "key_bits", "threshold", "noise_source")
    read_options: ClassVar[dict[str, Any]] = {**READ_OPTIONS, **OPENING_OPTIONS, "epsilon": tuple[float, ...]}

    label: str
    bounds: tuple[float, float]
    threshold_of_residuals: float
    features: Count
    auxiliary: Count
    test: int
    errors: dict[str, RegressionError]
    privacy: Release
    ballots: Count
    ciphertexts_per_ballot: Count
    bytes_per_ballot: Count
    tally_equals_plaintext: bool
    colluders: Count

    @property
    def exact(self) -> bool | None:
        return self.tally_equals_plaintext

    @property
    def notice(self) -> str:
        return PRIVATE_ROWS_NOTICE

    @property
    def releases(self) -> dict[str, Release]:
        return {"newton": self.privacy}

    def _answer(self) -> str:
        private = f", private for each {self.protected} at {cost_text(self.privacy)}"
        if not {"newton", "public"} <= self.errors.keys():
            return f"A linear prediction of {self.label} was released{private}."
        released, public = self.errors["newton"], self.errors["public"]
        return f"R² is {released.r2:.3f} on held-out rows, {public.r2:.3f} with public rows alone{private}."

    def _facts(self) -> list[Fact]:
        predicted = f"{self.bounds[0]:.4g} to {self.bounds[1]:.4g}, the range of the public labels"
        return [Fact("fact", "Predictions", predicted), *self._ballot_facts()]

    def _tables(self) -> list[Table]:
        if not {"newton", "public"} <= self.errors.keys():
            return []
        rows = [[PREDICTORS[name], f"{e.r2:.3f}", f"{e.rmse:.4g}", f"{e.mae:.4g}"] for name, e in self.errors.items()]
        return [Table("", ["fitted to", "R²", "RMSE", "MAE"], rows)]
