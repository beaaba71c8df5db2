"""Result of a private regression (`psephos run --task regression`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from psephos.curator.ledger import Release
from psephos.results.base import Count, Fact, Table
from psephos.results.runs import PRIVATE_ROWS_NOTICE, OneSumResult
from psephos.results.trust import cost_text

PREDICTORS = {
    "newton": "released, with noise",
    "public": "public rows alone",
    "least squares": "all rows, no privacy",
    "huber": "all rows, Huber's loss, no privacy",
}
"""Description of each predictor whose errors are measured: the data and loss that it was fitted to."""


@dataclass(frozen=True)
class RegressionError:
    """Errors of predictions on held-out rows; RMSE and mean absolute error in the label's unit."""

    r2: float
    rmse: float
    mae: float


@dataclass(frozen=True, kw_only=True)
class RegressionResult(OneSumResult):
    """A private regression on the parties' rows.

    `bounds` are the smallest and largest prediction and `threshold_of_residuals` is Huber's, in the label's unit;
    `errors` are those on the held-out rows, by predictor (`PREDICTORS`), and no epsilon covers them.
    """

    kind: ClassVar[str] = "regression"

    label: str
    bounds: tuple[float, float]
    threshold_of_residuals: float
    features: Count
    auxiliary: Count
    test: int
    errors: dict[str, RegressionError]

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

    def _rows(self) -> Iterator[Fact]:
        predicted = f"{self.bounds[0]:.4g} to {self.bounds[1]:.4g}, the range of the public labels"
        yield Fact("fact", "Predictions", predicted)
        yield from super()._rows()

    def _tables(self) -> list[Table]:
        if not {"newton", "public"} <= self.errors.keys():
            return []
        rows = [[PREDICTORS[name], f"{e.r2:.3f}", f"{e.rmse:.4g}", f"{e.mae:.4g}"] for name, e in self.errors.items()]
        return [Table("", ["fitted to", "R²", "RMSE", "MAE"], rows)]
