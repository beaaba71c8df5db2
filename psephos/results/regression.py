"""Result of a private regression (`psephos run --task regression`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import msgspec

from psephos.curator.ledger import Release
from psephos.results.base import Count, Page, Result, Table
from psephos.results.budget import BudgetSummary, budget_facts
from psephos.results.runs import PRIVATE_ROWS_NOTICE, colluders_text, cost_text, test_key_warning
from psephos.results.scores import READ_OPTIONS

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
class RegressionResult(Result):
    """A private regression on the parties' rows.

    Attributes:
        options: all options of the run, as JSON values.
        dataset: name of the file.
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
        budget: summary of the budget file after the run; null if the run had none.
        cautions: warnings about this run.
    """

    kind: ClassVar[str] = "regression"
    derived: ClassVar[tuple[str, ...]] = (*Result.derived, "key_bits", "threshold", "noise_source")

    options: dict[str, Any]
    dataset: str
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
    budget: BudgetSummary | None = None
    cautions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise msgspec.ValidationError if an option that the result reads is missing or of another type."""
        read = {**READ_OPTIONS, "epsilon": tuple[float, ...]}
        msgspec.convert(self.options, msgspec.defstruct("Options", list(read.items())))

    @property
    def key_bits(self) -> int:
        """Length of the Paillier modulus."""
        return int(self.options["key_bits"])

    @property
    def threshold(self) -> int:
        """Number of holders that open the sum."""
        return int(self.options["threshold"])

    @property
    def noise_source(self) -> Literal["system", "simulation"]:
        """Source of the noise: the operating system, or "simulation": the seed, which protects nobody."""
        return "simulation" if self.options["simulate_noise"] else "system"

    @property
    def exact(self) -> bool | None:
        return self.tally_equals_plaintext

    @property
    def notice(self) -> str:
        return PRIVATE_ROWS_NOTICE

    def warnings_of_model(self) -> list[str]:
        """Return the warnings that belong to the released model as well."""
        warnings = test_key_warning(self.key_bits)
        if self.noise_source == "simulation":
            warnings.append(
                "The noise was drawn from the seed. Whoever knows it can take it off: nothing here is private."
            )
        if self.exact is False:
            warnings.append("The opened sum differs from that computed in the clear. Do not use this result.")
        return warnings

    def page(self) -> Page:
        protected = "person" if "persons" in self.privacy.chosen else self.privacy.unit
        private = f", private for each {protected} at {cost_text(self.privacy)}"
        answer = f"A linear prediction of {self.label} was released{private}."
        tables = []
        if {"newton", "public"} <= self.errors.keys():
            released, public = self.errors["newton"], self.errors["public"]
            answer = f"R² is {released.r2:.3f} on held-out rows, {public.r2:.3f} with public rows alone{private}."
            rows = [
                [PREDICTORS[name], f"{e.r2:.3f}", f"{e.rmse:.4g}", f"{e.mae:.4g}"] for name, e in self.errors.items()
            ]
            tables = [Table("", ["fitted to", "R²", "RMSE", "MAE"], rows)]
        return Page(
            title=f"Psephos: regression on {self.dataset} at epsilon {self.options['epsilon'][0]:g}",
            notice=self.notice,
            answer=answer,
            conditions=[("Colluders", colluders_text(self.colluders, self.threshold)), *budget_facts(self.budget)],
            facts=[
                ("Parties", self.options["parties"], ", ", self.ballots, " ballots counted"),
                ("Predictions", f"{self.bounds[0]:.4g} to {self.bounds[1]:.4g}, the range of the public labels"),
                ("Paillier key", self.key_bits, " bits"),
                ("One ballot", self.bytes_per_ballot, " bytes; ciphertexts in it: ", self.ciphertexts_per_ballot),
                ("Opened by", self.threshold, " of ", self.options["holders"], " key holders"),
                (
                    "Neighbours",
                    f"one {protected} {'replaced' if protected == 'party' else 'replaced, added or removed'}",
                ),
            ],
            warnings=[*self.warnings_of_model(), *self.cautions],
            releases={"newton": self.privacy},
            tables=tables,
            repeat=f"Seed {self.options['seed']} drives splits, never keys or encryption.",
        )
