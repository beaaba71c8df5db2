"""Results of one sum over all rows: a regression (`psephos run --task regression`), or a private evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from psephos.curator.error_estimates import CERTAIN, Estimate
from psephos.curator.evaluation import CALIBRATED_FROM, EvaluationEstimate
from psephos.curator.ledger import Release
from psephos.results.base import IN_MEMORY, Count, Fact, Page, Table, sentences
from psephos.results.runs import PRIVATE_ROWS_NOTICE, ComposedCost, OneSumResult
from psephos.results.trust import cost_text

PREDICTORS = {
    "newton": "released, with noise",
    "public": "public rows alone",
    "public-forest": "public rows alone, a forest",
    "least squares": "all rows, no privacy",
    "huber": "all rows, Huber's loss, no privacy",
    "trees": "all rows, boosted trees, no privacy",
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
    weights: NDArray[np.float64] = field(
        default_factory=lambda: np.empty(0), repr=False, compare=False, metadata=IN_MEMORY
    )

    @property
    def notice(self) -> str:
        return PRIVATE_ROWS_NOTICE

    @property
    def releases(self) -> dict[str, Release]:
        return {"newton" if self.asked else "public": self.privacy}

    def _answer(self) -> str:
        if not self.asked:
            found = f": R² is {self.errors['public'].r2:.3f} on held-out rows" if "public" in self.errors else ""
            return f"The prediction of {self.label} is that of the public rows alone, at epsilon 0{found}."
        private = f", private for each {self.protected} at {cost_text(self.privacy)}"
        if not {"newton", "public"} <= self.errors.keys():
            return f"A prediction of {self.label} was released{private}."
        released, public = self.errors["newton"], self.errors["public"]
        return f"R² is {released.r2:.3f} on held-out rows, {public.r2:.3f} with public rows alone{private}."

    def _rows(self) -> Iterator[Fact]:
        predicted = f"{self.bounds[0]:.4g} to {self.bounds[1]:.4g}, the range of the public labels"
        yield Fact("fact", "Predictions", predicted)
        yield from super()._rows()
        if not self.asked:
            yield from self._unasked_facts(self.auxiliary)

    def _tables(self) -> list[Table]:
        if "public" not in self.errors:
            return []
        rows = [[PREDICTORS[name], f"{e.r2:.3f}", f"{e.rmse:.4g}", f"{e.mae:.4g}"] for name, e in self.errors.items()]
        return [Table("", ["fitted to", "R²", "RMSE", "MAE"], rows)]


CLIPPED_FROM = 0.05
"""Share of clipped rows from which the page warns that they make the errors too small."""


@dataclass(frozen=True, kw_only=True)
class EvaluationResult(OneSumResult):
    """A private evaluation of a classifier, or of a prediction of a number (`class_names` is then empty).

    Every number in it is private: computed from a noisy sum.
    `released` is the cost of the release of the model, by `method`; `together` that of both, for who is in both, or
    null where the release does not protect what the evaluation protects.
    """

    kind: ClassVar[str] = "evaluation"
    derived: ClassVar[tuple[str, ...]] = (*OneSumResult.derived, "accuracy", "unit")

    class_names: list[str]
    method: str
    estimate: EvaluationEstimate
    released: Release
    together: ComposedCost | None = None

    @property
    def accuracy(self) -> Estimate | None:
        """The estimated accuracy, `estimate.accuracy`; null where a number is predicted."""
        return self.estimate.accuracy

    @property
    def unit(self) -> str:
        """What epsilon protects: "record" or "party"."""
        return self.privacy.unit

    @property
    def releases(self) -> dict[str, Release]:
        return {"evaluation": self.privacy}

    def page(self) -> Page:
        return replace(super().page(), class_names=self.class_names, several_releases=True)

    @property
    def _noun(self) -> str:
        return "classifier" if self.estimate.errors is None else "prediction"

    def _answer(self) -> str:
        errors, rows = self.estimate.errors, self.estimate.rows
        private = f", private for each {self.protected} at {cost_text(self.privacy)}"
        main = self.accuracy if errors is None else errors.mae if errors.r2 is None else errors.r2
        if main is None or main.value is None or main.error is None:
            return f"The noise hides how good the {self._noun} is{private}: more rows or a larger epsilon would help."
        if errors is not None and errors.r2 is not None:
            about = "" if rows is None else f" on about {_rounded(rows)} rows"
            return f"R² is {main.value:.3f} ± {main.error:.3f}{about}{private}."
        if errors is not None:
            return f"The mean absolute error is {' ± '.join(_cells(main, None))} on average over the parties{private}."
        about = " on average over the parties" if rows is None else f" of about {_rounded(rows)} rows"
        return f"Right on {main.value:.1%} ± {main.error:.1%}{about}{private}."

    def _rows(self) -> Iterator[Fact]:
        yield from super()._rows()
        yield from sentences("cost", self._cost())
        yield from sentences("note", *self._notes())
        clipped = None if self.estimate.errors is None else self.estimate.errors.clipped
        if clipped is None or clipped.value is None or clipped.error is None:
            return
        if clipped.value >= max(CLIPPED_FROM, CERTAIN * clipped.error):
            yield from sentences(
                "warning",
                f"About {clipped.value:.0%} of the rows are clipped: the errors are too small and R² says little, by "
                "more than ±. A larger --largest-error clips fewer errors.",
            )

    def _cost(self) -> str:
        if self.together is not None:
            one = ", and less for one that is in only one of the two" if self.unit == "record" else ""
            return (
                f"With the release of the {self._noun} ({cost_text(self.released)} per {self.released.unit}) this is "
                f"epsilon {self.together.epsilon:.4g}, delta {self.together.delta:.3g} for each {self.protected}{one}."
            )
        return (
            f"Of the release of the {self._noun} the unit of privacy is {self.released.protects} "
            f"({cost_text(self.released)}), and of this evaluation {self.privacy.protects}: the two do not add up to "
            "one epsilon."
        )

    def _notes(self) -> list[str]:
        notes = ["± is the standard error from the noise and the bins; other rows would add the error of a sample."]
        if (errors := self.estimate.errors) is not None:
            rows = "" if errors.clipped is None else ", and these rows are clipped"
            return [
                *notes,
                f"Labels outside {errors.low:.4g} to {errors.high:.4g} count as the nearer end, and errors above "
                f"{errors.largest:.4g} as it{rows}.",
            ]
        if self.unit == "party" or len(self.class_names) > 2:
            return notes
        calibration = self.estimate.calibration
        if calibration is None:
            return [
                *notes,
                "No Platt scaling was fitted: the noise is too large for these rows (rows times epsilon, less what "
                f"colluders know, should be {CALIBRATED_FROM:g}), or larger scores do not mean {self.class_names[1]}.",
            ]
        return [
            *notes,
            f"Platt scaling: the probability of {self.class_names[1]} is sigmoid({calibration.slope:.4g} score "
            f"{calibration.intercept:+.4g}); it takes the calibration error from {calibration.before:.3f} to "
            f"{calibration.after:.3f} on the bins that it was fitted to.",
        ]

    def _tables(self) -> list[Table]:
        estimate = self.estimate
        one_by_one: list[tuple[str, Estimate | None, int | None]] = [("accuracy", estimate.accuracy, 3)]
        if (errors := estimate.errors) is not None:
            one_by_one += [("R²", errors.r2, 3), ("RMSE", errors.rmse, None)]
            one_by_one += [("mean absolute error", errors.mae, None), ("share of rows clipped", errors.clipped, 3)]
        one_by_one += [("AUROC", estimate.auroc, 3), ("calibration error", estimate.calibration_error, 3)]
        one_by_one.append(("rows", estimate.rows, 0))
        measures = [[name, *_cells(one, digits)] for name, one, digits in one_by_one if one is not None]
        tables = [Table("", ["measure", "estimate", "±"], measures)]
        if estimate.confusion:
            error = max(one.error or 0.0 for line in estimate.confusion for one in line)
            rows = [
                [name, *(_cells(one, 0)[0] for one in line)]
                for name, line in zip(self.class_names, estimate.confusion, strict=True)
            ]
            about = f"Rows by class, and by predicted class; each ± {math.ceil(error):,} or less."
            tables.append(Table("Confusion matrix", ["class", *self.class_names], rows, about))
        if estimate.reliability:
            what = "right" if len(self.class_names) > 2 else self.class_names[1]
            rows = [
                [
                    f"{'' if one.low is None else f'{one.low:.3g}'} to {'' if one.high is None else f'{one.high:.3g}'}",
                    _cells(one.rows, 0)[0],
                    f"{one.probability:.3f}",
                    *_cells(one.share, 3),
                ]
                for one in estimate.reliability
            ]
            about = f"By the score: the probability of {what} that it stands for, and the share of rows that are."
            tables.append(Table("Reliability", ["score", "rows", "probability", "share", "±"], rows, about))
        return tables


def _cells(one: Estimate, digits: int | None) -> list[str]:
    """Return the value and error of an estimate as text; with None digits in the label's unit."""
    if one.value is None or one.error is None:
        return ["unknown", ""]
    if digits is None:
        return [f"{one.value:.4g}", f"{one.error:.2g}"]
    return [f"{one.value:,.{digits}f}", f"{one.error:,.{digits}f}"]


def _rounded(one: Estimate) -> str:
    """Return an estimated number of rows, rounded to hundreds where it is large."""
    value = one.value or 0.0
    return f"{round(value, -2):,.0f}" if value >= 2000 else f"{value:,.0f}"
