"""The main job: data in, one private classifier out, with its card and its result.

A simulation of the tally (`psephos.simulation.tally`) that draws one release by one method, and opens what that method
needs: the counts for votes, the private statistic for own data, the sum of parameters for their average.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from psephos.curator.hamm.rules import choose_method
from psephos.data.partition import load_split, one_of
from psephos.data.tables import Column, Encoding
from psephos.model import MODEL_FILE, Model, ReleasedClassifier, write_atomically, write_onnx, written_model
from psephos.options import option
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.own_data import OWN
from psephos.protocol.errors import InvalidParameter, ModelError
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.results import Accuracy, TallyResult
from psephos.results.base import useless_warning
from psephos.results.card import model_card
from psephos.results.evaluation import Evaluation
from psephos.simulation.sums import METHODS
from psephos.simulation.tally import TallyOptions, simulate_tally

__all__ = ["WIDEST", "Job", "JobOptions"]

WIDEST = 100_000
"""Features that a model file may have: each has its name in it, and what stands for a gap."""


@dataclass(frozen=True, kw_only=True)
class JobOptions(TallyOptions):
    """What `psephos run` is asked for."""

    method: Literal["auto", "own-data", "whitened", "statistic", "soft", "vote", "pate", "avg"] = option(
        "auto",
        "What is released: the statistic of the parties' own rows, the average of their classifiers in whitened "
        "coordinates, the statistic of their votes, Hamm's soft labels or majority vote, PATE, or the average of "
        "parameters; auto takes own-data where all learn logistic regression (whitened under 100 parties), else the "
        "statistic, and with --mechanism gaussian the quieter of two noises.",
        group="Privacy",
    )
    draws: int | None = option(1)

    def check(self) -> None:
        """As `TallyOptions.check`."""
        one_of("method", self.method, "auto", *METHODS)
        if len(self.epsilon) != 1 or self.draws != 1:
            raise InvalidParameter("one release is drawn, at one epsilon; psephos simulate tally compares several")
        super().check()

    @property
    def compares(self) -> bool:
        return False

    @property
    def chosen_method(self) -> str:
        """What is released; `auto` chooses by what is public."""
        return choose_method(self.learners, self.parties) if self.method == "auto" else self.method

    @property
    def joint(self) -> bool:
        # An exact sum of own data is more than its release needs: the parties add the noise.
        return self.reveal == "statistic" or self.chosen_method in OWN

    @property
    def quieter(self) -> bool:
        return self.method == "auto" and self.noise == "gaussian"


class Job:
    """One run of the main job.

    Attributes:
        options: with the method, and what it reveals, chosen.
        split: which party holds which rows.
        method: what is released.
        model, outcome: once it has run; no model of more features than `WIDEST`.
    """

    def __init__(self, options: JobOptions) -> None:
        """Read and deal the data, and choose the method by what is public. Raises the errors of what cannot be run."""
        options, self.split = load_split(options)
        self.method = method = options.chosen_method
        self.outcome: TallyResult | None = None
        self.model: Model | None = None
        if options.joint and method not in ("statistic", *OWN):
            raise InvalidParameter(f"{method} needs the counts or parameters: --reveal statistic is for statistics")
        self.options = replace(options, methods=(method,), reveal="statistic" if options.joint else "alpha")

    @property
    def said(self) -> list[str]:
        """What a user should read before anything is computed: how their table was understood."""
        split = self.split
        if split.encoding is None:
            return []
        public = "samples drawn from the schema" if split.schema == "samples" else "public rows"
        units = "parties" if self.options.party is not None else "shards dealt at random"
        counts = f"{len(split.parties)} {units}, {len(split.auxiliary)} {public}, {split.sizes.sum()} private rows"
        held = f" and {len(split.test)} held out to measure on"
        lines = [f"{split.dataset.name}: {counts}{held}; classes {', '.join(split.dataset.classes)}"]
        lines += [f"  {name}: {words}" for name, words in split.encoding.summary]
        warnings = [f"WARNING: {text}" for text in (*split.cautions, *split.remarks)]
        return [*([split.not_private] if split.not_private else []), *lines, *warnings]

    def run(
        self,
        *,
        transcript: Transcript | None = None,
        progress: Progress = silent,
        roles: Mapping[str, Callable[[Role], Role]] | None = None,
        evaluation: Evaluation | None = None,
    ) -> TallyResult:
        """Train, cast, open, release. Raises the named errors of what cannot be run."""
        evaluation = Evaluation() if evaluation is None else evaluation
        outcome = simulate_tally(
            self.options, data=self.split, transcript=transcript, progress=progress, roles=roles, evaluation=evaluation
        )
        w = next(one.w for one in evaluation.scores if one.method == self.method and one.epsilon is not None)
        assert w is not None
        if self.split.dataset.features <= WIDEST:
            coefficients, intercepts = evaluation.scaler.fold(np.atleast_2d(w))
            self.model = Model(
                psephos_model=1,
                classes=self.split.dataset.classes,
                encoding=self._encoding(),
                coefficients=tuple(map(tuple, coefficients.tolist())),
                intercepts=tuple(intercepts.tolist()),
                method=self.method,
                parties=outcome.parties,
                release=outcome.privacy[self.method],
                warnings=tuple(replace(outcome, cautions=[]).page().warnings),
            )
        self.outcome = replace(outcome, cautions=[*self.split.cautions, *self.split.remarks])
        return self.outcome

    def write(self, directory: Path, *, onnx: bool = False) -> list[Path]:
        """Write what the run came to into a directory that there is, and return the paths: the model, as ONNX too where
        that is asked for, its card, and the result.

        Raises ModelError where that cannot be; InvalidParameter for ONNX without the package.
        """
        assert self.model is not None
        assert self.outcome is not None
        result = json.dumps(self.outcome.as_json(), indent=1) + "\n"
        card = model_card(self.model, self.outcome, self.split, self._right_in_public())
        try:
            write_atomically(directory / MODEL_FILE, written_model(self.model))
            write_atomically(directory / "card.md", card.encode())
            write_atomically(directory / "result.json", result.encode(), mode=0o600)  # tells about private rows
            if onnx:
                write_onnx(self.model, directory / "model.onnx")
        except OSError as error:
            raise ModelError(f"{directory}: {error.strerror}; what is not written is lost, and was paid for") from None
        return [directory / name for name in (MODEL_FILE, "card.md", "result.json", *(["model.onnx"] * onnx))]

    @property
    def answer(self) -> str:
        """What came of it, in a sentence."""
        assert self.outcome is not None
        found, release = self.outcome.accuracy, self.outcome.privacy[self.method]
        cost = f"epsilon {release.epsilon or 0:g}" + (f", delta {release.delta:.3g}" if release.delta else "")
        right, usual = found[self.method].private, found.get("majority", Accuracy()).nonprivate
        worth = ""
        if right is not None and usual is not None:
            worth = (
                f": right on {right:.1%} of {self.outcome.test} held-out rows, of which {usual:.1%} are of one class"
            )
            worth += "; more parties or a larger epsilon would help" if right <= usual else ""
        signal = f"\nSignal: {release.worth}." if release.worth else ""
        signal += "".join(f"\nWARNING: {text}" for text in useless_warning({self.method: release}))
        if self.outcome.not_private:
            return f"{self.outcome.not_private} One {self.method} classifier{worth}.{signal}"
        units = "parties" if self.options.party is not None else "shards dealt at random"
        private = f"private for each of {self.outcome.parties} {units} at {cost}"
        return f"One {self.method} classifier, {private}{worth}.{signal}"

    def _encoding(self) -> Encoding:
        """How a table with these features is read; a published data set's are numbers."""
        if self.split.encoding is not None:
            return self.split.encoding
        data = self.split.dataset
        names = data.feature_names or [f"x{place + 1}" for place in range(data.features)]
        fills = np.median(self.split.X_auxiliary, axis=0).tolist()
        return Encoding(tuple(Column(name, "number", fill=fill) for name, fill in zip(names, fills, strict=True)))

    def _right_in_public(self) -> float | None:
        """The share of public rows that somebody named, with a label, which the classifier gets right."""
        rows = self.split.auxiliary[self.split.dataset.y_train[self.split.auxiliary] >= 0]
        if self.options.public is None or not len(rows) or self.model is None:
            return None
        data = self.split.dataset
        names = np.array(data.classes)[data.y_train[rows]]
        return float(ReleasedClassifier(self.model).score(data.X_train[rows], names))
