"""Results of the papers' experiments (`psephos reproduce`): curves, privacy costs, comparisons with the papers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from psephos.curator.ledger import Release
from psephos.results.base import (
    Count,
    Curve,
    Fact,
    Mean,
    Page,
    Panel,
    Positive,
    Result,
    Seconds,
    Share,
    Table,
    sentences,
)
from psephos.results.trust import DIFFERS, SEEDED, test_key_warning

Row = tuple[str, str, str, str, str]
_RIGHT = "1/epsilon (log scale; more private to the right)"
_LEFT = "epsilon (log scale; more private to the left)"


@dataclass(frozen=True, kw_only=True)
class PaperResult(Result):
    """Result of an experiment of a paper.

    Attributes:
        experiment: name of the experiment, as `psephos reproduce` takes it.
        paper: the paper, section and figure.
        quick: whether it has fewer trials and points than the paper's experiment.
        draws_per_point: number of releases that each private point is the mean of.
        test: number of test samples.
        seed: seed of splits, training and noise.
        options: the options of the run, by name.
        noise_source: always "simulation": the noise is drawn from the seed.
    """

    experiment: str
    paper: str
    quick: bool = False
    draws_per_point: Count
    test: Count
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    noise_source: Literal["simulation"] = "simulation"

    def page(self) -> Page:
        quick = "Run with --quick: fewer trials and points than the paper's. Do not cite these numbers."
        lead = (
            "An experiment of a paper, repeated. It shows what privacy costs in accuracy. The messages of the protocol "
            "and who learns what from them are in the reports of `psephos run` and `psephos audit`."
        )
        note = (
            "Each point of a curve is a separate release. An experiment draws thousands of them from the same data, "
            "and no guarantee covers all of them together: use it with public data only."
        )
        repeat = (
            f"Seed {self.seed} drives splits, training and noise, so a repetition gives the same numbers, except for "
            "the times."
        )
        warnings = [SEEDED, quick * self.quick, DIFFERS * (self.exact is False)]
        beside = Table("Beside the paper", ("what", "paper", "here", "verdict", "why"), self._comparison())
        return Page(
            title=f"Psephos: {self.experiment}",
            facts=[
                *sentences("warning", *warnings),
                *sentences("lead", lead),
                Fact("fact", "Paper", self.paper),
                Fact("fact", "Test samples", self.test),
                Fact("fact", "Noise draws per point", self.draws_per_point),
                *self._facts(),
                *sentences("note", note),
                *sentences("repeat", repeat),
            ],
            panels=self._panels(),
            releases=self._releases(),
            tables=[*([beside] if beside.rows else []), *self._tables()],
        )

    @abstractmethod
    def _facts(self) -> list[Fact]:
        """Return the facts of this experiment alone."""

    @abstractmethod
    def _panels(self) -> list[Panel]:
        """Return the figures."""

    @abstractmethod
    def _releases(self) -> dict[str, Release]:
        """Return the privacy cost of each family of curves."""

    @abstractmethod
    def _comparison(self) -> list[Row]:
        """Return rows (what, paper, here, verdict, why) that compare our numbers with the paper's."""

    def _tables(self) -> list[Table]:
        return []


# -- Hamm 2016


@dataclass(frozen=True)
class EncryptedTrial:
    """The encrypted count of one split.

    Attributes:
        trial: index of the split, from 0.
        equals_plaintext: whether the opened counts equal those taken in the clear, entry by entry.
        seconds: wall-clock time of each phase: encrypt, aggregate, decrypt.
        peak_memory_mb: peak memory of all processes together, in megabytes.
        ballot_bytes: size of one ballot in bytes.
        bits_per_count: size of a ballot on the wire in bits, divided by its number of counts.
        continued_from: number of ballots in the journal of an interrupted run when this run began.
    """

    trial: Count
    equals_plaintext: bool
    seconds: dict[str, Seconds]
    peak_memory_mb: float
    ballot_bytes: Count
    bits_per_count: float
    continued_from: Count


@dataclass(frozen=True, kw_only=True)
class HammPanel:
    """Accuracies for one number of parties M.

    Attributes:
        parties: M.
        batch, indiv: accuracy of one classifier of all parties' rows, and mean accuracy of a party's own classifier.
        nonprivate: accuracy of each method without noise.
        curves: by family and method, the accuracy at each point of the axis 1/epsilon, without the point 0.
        rho: the constant rho of Hamm 2016 for the auxiliary samples (`psephos.curator.hamm.sensitivity.rho`).
        auxiliary, test, features: number of auxiliary samples, test samples and features.
        batch_rows: number of rows that batch was trained on.
        indiv_rows: number of test samples that indiv was measured on.
        seconds: wall-clock time of each phase of a trial.
        encrypted: the encrypted counts, if there are any.
    """

    parties: Count
    batch: Mean
    indiv: Mean
    nonprivate: dict[str, Mean]
    curves: dict[str, dict[str, list[Mean]]]
    rho: float
    auxiliary: Count
    test: Count
    features: Count
    batch_rows: Count
    indiv_rows: Count
    seconds: dict[str, Seconds]
    encrypted: list[EncryptedTrial] = field(default_factory=list)


@dataclass(frozen=True)
class PaperStatement:
    """A number or statement of the paper, compared with ours.

    Attributes:
        what: the quantity or the statement.
        family: family of curves that it is compared with; "none" for a number without noise.
        parties: M of the panel.
        paper: the paper's number, or "claims so".
        ours: our numbers.
        reproduces: whether ours agree with the paper.
        why: the reason where they do not, or where that is not tested; otherwise empty.
    """

    what: str
    family: str
    parties: Count
    paper: str
    ours: str
    reproduces: bool
    why: str

    def compared(self) -> Row:
        """Return the statement as a row of the comparison."""
        verdict = "reproduces" if self.reproduces else "does not reproduce"
        verdict = "not tested" if self.why.startswith("not tested") else verdict
        what = self.what if self.family == "none" else f"{self.what} ({self.family})"
        return (what, self.paper, self.ours, verdict, self.why.removeprefix("not tested: "))


@dataclass(frozen=True, kw_only=True)
class HammResult(PaperResult):
    """Hamm 2016, section 6: accuracy against 1/epsilon.

    Attributes:
        data: source of the data set.
        stand_in: whether the data are synthetic, in place of the paper's.
        lam: ridge lambda.
        samples_per_party: training rows of each party.
        trials: number of splits.
        inverse_epsilons: points of the axis 1/epsilon; 0 is without noise.
        counts: how the votes were counted.
        families: description of each family of curves.
        sizes: one panel for each number of parties.
        published: the paper's numbers and statements, compared with ours.
    """

    kind: ClassVar[str] = "hamm"

    data: str
    stand_in: bool
    lam: Positive
    samples_per_party: Count
    trials: Count
    inverse_epsilons: list[float]
    counts: str
    families: dict[str, str]
    sizes: list[HammPanel]
    published: list[PaperStatement]

    @property
    def exact(self) -> bool | None:
        compared = [trial.equals_plaintext for panel in self.sizes for trial in panel.encrypted]
        return all(compared) if compared else None

    def _facts(self) -> list[Fact]:
        agreement = {True: ", equal to the clear ones", False: ", WHICH DIFFER FROM THE CLEAR ONES", None: ""}
        return [
            Fact("fact", "Data", self.data),
            Fact("fact", "Splits", self.trials),
            Fact("fact", "Samples per party", self.samples_per_party),
            Fact("fact", "Counts", self.counts + agreement[self.exact]),
        ]

    def _panels(self) -> list[Panel]:
        panels, axis = [], self.inverse_epsilons[1:]
        for size in self.sizes:
            references = {"batch": size.batch, "indiv": size.indiv}
            flat = [_curve(name, axis, [mean] * len(axis)) for name, mean in references.items()]
            title = f"{'SYNTHETIC STAND-IN: ' if self.stand_in else ''}{size.parties:,} parties"
            for family, methods in size.curves.items():
                curves = [_curve(name, axis[-len(points) :], points) for name, points in methods.items()]
                note = self.families.get(family, "")
                panels.append(Panel(f"{title}, {family}", _RIGHT, "accuracy", [*curves, *flat], note=note))
        return panels

    def _releases(self) -> dict[str, Release]:
        return {family: _family_release(family, text) for family, text in self.families.items()}

    def _comparison(self) -> list[Row]:
        return [row.compared() for row in self.published]


def _family_release(family: str, description: str) -> Release:
    """Return the privacy cost of a family of curves."""
    ours = family == "ours"
    return Release(
        description.partition(";")[0].partition(":")[0],
        None,
        2.0**-64 if ours else 0.0,
        "party",
        source="certified for what was fitted (Theory, in the documentation)"
        if ours
        else "the paper's constants: Hamm, Theorems 1 and 3, appendices B.2 to B.4",
        said="NONE: not private" if family == "exponential" else "the axis",
    )


# -- Pathak 2010


@dataclass(frozen=True)
class ErrorPoint:
    """Mean test error of one series at one epsilon over all noise draws, with standard deviation and error."""

    series: str
    epsilon: Positive
    error: Share
    std: float
    standard_error: float


@dataclass(frozen=True)
class Theorem:
    """A bound, the largest measured value of the bounded quantity, and whether the bound holds for it."""

    bound: float
    largest: float
    holds: bool


@dataclass(frozen=True)
class ExcessRisk:
    """Theorem 4.3 at one epsilon: its bound of the excess risk, and the measured excess risk.

    Attributes:
        epsilon: privacy parameter of the releases.
        bound: bound of the excess risk.
        measured_mean, measured_max: mean and maximum of the measured excess risk.
        above_bound: share of the draws above the bound.
        allowed: largest share that the theorem allows.
    """

    epsilon: Positive
    bound: float
    measured_mean: float
    measured_max: float
    above_bound: Share
    allowed: Share


@dataclass(frozen=True)
class Theorems:
    """The paper's theorems on one split.

    Attributes:
        split: name of the split.
        hypotheses_hold: whether the theorems' assumptions hold for the data.
        distance_mean: mean distance of the averaged classifier from the pooled one.
        theorem_4_2: bound of that distance.
        equation_3: bound of the excess risk without noise.
        theorem_4_3: bound of the excess risk with noise, at several epsilons.
    """

    split: str
    hypotheses_hold: bool
    distance_mean: float
    theorem_4_2: Theorem
    equation_3: Theorem
    theorem_4_3: list[ExcessRisk]


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    """Errors and theorems for one lambda and scaling of the rows.

    Attributes:
        name: name of the setting.
        lam: lambda of objective (2).
        regulariser: the factor of ||w||^2 in the objective.
        rows_in_unit_ball: whether the rows are scaled into the unit ball, which the theorems assume.
        pooled_error: test error of the classifier of all parties' rows.
        pooled_always_says_majority: whether that classifier predicts one class for every test sample.
        points: test errors by series and epsilon.
        claims: whether each statement of the paper about its figure holds here.
        theorems: the theorems on each split.
    """

    name: str
    lam: Positive
    regulariser: str
    rows_in_unit_ball: bool
    pooled_error: Share
    pooled_always_says_majority: bool
    points: list[ErrorPoint]
    claims: dict[str, bool]
    theorems: list[Theorems]

    def panel(self) -> Panel:
        """Return the figure of the errors against epsilon."""
        series: dict[str, list[ErrorPoint]] = {}
        for point in self.points:
            series.setdefault(point.series, []).append(point)
        curves = [
            Curve(name, [p.epsilon for p in points], [p.error for p in points], [p.std for p in points])
            for name, points in series.items()
        ]
        note = f"without noise the pooled classifier errs at {self.pooled_error:.3f}"
        return Panel(self.name, _LEFT, "test error", curves, note=note)


@dataclass(frozen=True, kw_only=True)
class PathakAdultResult(PaperResult):
    """Pathak 2010, section 5: test error on Adult against epsilon.

    Attributes:
        claims: the paper's statements about its figure, which prints no numbers.
        train, features: number of training rows and of features.
        ones_per_row: smallest and largest number of ones in a row.
        majority_error: test error of always predicting the most frequent class.
        epsilon_real_per_epsilon: privacy parameter that the printed noise really has at epsilon = 1.
        deals: number of random partitions of the rows among the parties.
        settings: result of each setting, which has a panel.
        counterexample: counterexample to Theorem 4.2: the copies of its two rows, the distance, and the bound.
    """

    kind: ClassVar[str] = "pathak-adult"

    claims: list[str]
    train: Count
    features: Count
    ones_per_row: list[Count]
    majority_error: Share
    epsilon_real_per_epsilon: Positive
    deals: Count
    settings: list[PaperSetting]
    counterexample: dict[str, float]

    def _facts(self) -> list[Fact]:
        real = self.epsilon_real_per_epsilon
        return [
            Fact("fact", "Training records", self.train),
            Fact("fact", "Random partitions", self.deals),
            Fact("fact", "Error of always predicting the majority class", self.majority_error),
            Fact("fact", "Real epsilon of the printed noise at epsilon = 1", real),
        ]

    def _panels(self) -> list[Panel]:
        return [setting.panel() for setting in self.settings]

    def _releases(self) -> dict[str, Release]:
        return {setting.name: self._release(setting) for setting in self.settings}

    def _comparison(self) -> list[Row]:
        always = "the pooled classifier always predicts the majority class here"
        return [
            (
                claim,
                "claims so",
                f"{'holds' if holds else 'does not hold'}: {setting.name}",
                "holds" if holds else "FAILS",
                always if setting.pooled_always_says_majority else "",
            )
            for setting in self.settings
            for claim, holds in setting.claims.items()
        ]

    def _release(self, setting: PaperSetting) -> Release:
        real = f"{self.epsilon_real_per_epsilon:.4g} times the axis"
        return Release(
            "a Laplace variable per coordinate, scale 2/(n_(1) epsilon lambda)",
            None,
            0.0,
            "record, sizes fixed",
            source="L1, sqrt(d) 2/(K n_(1) lambda): Theorem 4.1 uses the L2 bound instead and omits 1/K",
            said=real if setting.rows_in_unit_ball else "NONE: rows are outside the unit ball that the proof assumes",
        )

    def _tables(self) -> list[Table]:
        columns = ("setting", "split", "hypotheses hold", "theorem 4.2: bound", "distance", "verdict")
        rows = [
            [setting.name, row.split, row.hypotheses_hold, row.theorem_4_2.bound, row.theorem_4_2.largest,
             "holds" if row.theorem_4_2.holds else "FAILS"]
            for setting in self.settings
            for row in setting.theorems
        ]  # fmt: skip
        about = (
            "Theorem 4.2 bounds the distance of the averaged classifier from the pooled one. It holds only if the "
            "parties' data are alike, which it does not state; the split with different label shares shows this."
        )
        return [Table("Theorem 4.2, measured", columns, rows, about)] if rows else []


# -- Rajkumar 2012


@dataclass(frozen=True)
class RajkumarRow:
    """Test errors of every method in one setting.

    Attributes:
        panel: "parties" or "skew".
        place: number of parties, or index of the skew vector from 1.
        lam: ridge of the objective.
        epsilon: epsilon of each release.
        errors: mean test error of each method over data sets and draws.
    """

    panel: str
    place: int
    lam: Positive
    epsilon: Positive
    errors: dict[str, Mean]


@dataclass(frozen=True, kw_only=True)
class RajkumarClaims:
    """Our numbers for the paper's claims.

    Attributes:
        rows: number of rows.
        psgd_within_one_std_of_gop_rows: rows where the mean errors of PSGD and GOP differ by at most one standard
            deviation.
        largest_gap_psgd_gop: largest difference of the mean errors of PSGD and GOP.
        psgd_better_than_la_printed_rows, psgd_better_than_la_repaired_rows: rows where PSGD has the smaller error.
        mean_error_by_parties, mean_error_by_skew: mean error by method and place, over lambda and epsilon.
    """

    rows: Count
    psgd_within_one_std_of_gop_rows: Count
    largest_gap_psgd_gop: float
    psgd_better_than_la_printed_rows: Count
    psgd_better_than_la_repaired_rows: Count
    mean_error_by_parties: dict[str, dict[str, Share]]
    mean_error_by_skew: dict[str, dict[str, Share]]


@dataclass(frozen=True, kw_only=True)
class RajkumarResult(PaperResult):
    """Rajkumar 2012, section 6: test error against the number of parties and the skew of their sizes.

    Attributes:
        records, dimension, data_sets: number of training records, of features, and of data sets or folds.
        delta: delta of the private methods.
        steps, transcript_steps: gradient steps of PSGD, and of the variant that is private in every noisy sum.
        skews: each party's share of the records; one vector for each place of the skew panel.
        rows: test errors.
        claims: our numbers for the paper's claims.
        epsilon_transcript: by requested epsilon and method, the epsilon of all noisy sums together; None where none is
            finite.
        encrypted_steps_checked: number of steps that were repeated on the encrypted sum.
        sums_equal_reference: whether each of them opened to the exact sum; None if there were none.
        key_bits: length of the Paillier modulus.
    """

    kind: ClassVar[str] = "rajkumar"

    records: Count
    dimension: Count
    data_sets: Count
    delta: Share
    steps: Count
    transcript_steps: Count
    skews: list[list[Share]]
    rows: list[RajkumarRow]
    claims: RajkumarClaims
    epsilon_transcript: dict[str, dict[str, Positive | None]]
    encrypted_steps_checked: Count
    sums_equal_reference: bool | None
    key_bits: Count

    @property
    def exact(self) -> bool | None:
        return self.sums_equal_reference

    def _facts(self) -> list[Fact]:
        agreement = {True: ", sums equal to the clear ones", False: ", SUMS DIFFER FROM THE CLEAR ONES", None: ""}
        return [
            *sentences("warning", test_key_warning(self.key_bits)),
            Fact("fact", "Data sets or folds", self.data_sets),
            Fact("fact", "Training records", self.records),
            Fact("fact", "Gradient steps", self.steps),
            Fact("fact", "Steps repeated under encryption", self.encrypted_steps_checked, agreement[self.exact]),
        ]

    def _comparison(self) -> list[Row]:
        return [(words, "claims so", ours, verdict, "") for words, ours, verdict in self._claims()]

    def _panels(self) -> list[Panel]:
        grouped: dict[tuple[str, float, float], list[RajkumarRow]] = {}
        for row in self.rows:
            grouped.setdefault((row.panel, row.lam, row.epsilon), []).append(row)
        vectors = "; ".join(f"{n}: {', '.join(f'{part:g}' for part in skew)}" for n, skew in enumerate(self.skews, 1))
        panels = []
        for (panel, lam, epsilon), rows in grouped.items():
            places = [row.place for row in rows]
            curves = [_curve(name, places, [row.errors[name] for row in rows]) for name in rows[0].errors]
            by_parties = panel == "parties"
            label = "parties" if by_parties else "skew of the parties' sizes, from even"
            note = "" if by_parties else f"each party's share of the records, {vectors}"
            title = f"lambda = {lam:g}, epsilon = {epsilon:g}, {panel}"
            panels.append(Panel(title, label, "test error", curves, log=False, note=note))
        return panels

    def _releases(self) -> dict[str, Release]:
        theorem = "the paper's claim (Rajkumar 2012, Theorem 4.2), for the exact minimiser"
        releases = {
            name: Release(mechanism, None, delta, "record", source=source, said=said)
            for name, mechanism, said, delta, source in (
                ("psgd, gop: the classifier", "Gaussian objective perturbation", "the panel's", self.delta, theorem),
                ("la_printed", "a Laplace variable per coordinate, as printed", "not claimed here", 0.0, "Pathak 2010"),
                ("la_repaired", "spherical Laplace", "the panel's", 0.0, "L2, 2/(K n_(1) lambda), sizes public"),
                ("gop_sigma_printed", "sigma solved as printed", "NONE: not private", self.delta,
                 "Rajkumar 2012, Procedure 3"),
            )
        }  # fmt: skip
        for requested, methods in self.epsilon_transcript.items():
            for name, epsilon in methods.items():
                pure = name.endswith("_pure")
                releases[f"{name} at {requested}: every noisy sum"] = Release(
                    "noise at every step, composed" + (", without a delta" if pure else ""),
                    epsilon,
                    0.0 if pure else self.delta,
                    "record",
                    source="2 L for one record's gradient, ||x|| <= 1 (Rajkumar 2012, section 4)",
                    said="without a finite bound" if epsilon is None else "",
                )
        return releases

    def _claims(self) -> Iterator[tuple[str, str, str]]:
        """Yield each claim of the paper, our numbers for it, and a verdict if the claim is precise enough for one."""
        claims = self.claims

        def means(by_place: dict[str, dict[str, float]], *methods: str) -> str:
            return "; ".join(
                f"{name} {', '.join(f'{mean:.3f}' for mean in by_place[name].values())}"
                for name in methods
                if name in by_place
            )

        def verdict(rows: int) -> str:
            return "holds" if rows == claims.rows else "FAILS"

        close, better = claims.psgd_within_one_std_of_gop_rows, claims.psgd_better_than_la_printed_rows
        yield (
            "PSGD is similar to GOP",
            f"within one standard deviation in {close} of {claims.rows} rows; largest gap "
            f"{claims.largest_gap_psgd_gop:.3f}",
            verdict(close),
        )
        yield (
            "PSGD is better than local aggregation even for 5 parties",
            f"in {better} of {claims.rows} rows; with its noise repaired in {claims.psgd_better_than_la_repaired_rows}",
            verdict(better),
        )
        if by_parties := claims.mean_error_by_parties:
            places = ", ".join(next(iter(by_parties.values())))
            yield (
                "more parties make local aggregation worse",
                f"mean errors with {places} parties: {means(by_parties, 'la_printed', 'la_repaired')}",
                "see the numbers",
            )
        if by_skew := claims.mean_error_by_skew:
            errors = means(by_skew, "la_printed", "la_repaired", "psgd", "gop")
            yield (
                "the smaller the smallest party, the worse local aggregation; PSGD and GOP do not depend on the skew",
                f"mean errors from even to most uneven: {errors}",
                "see the numbers",
            )


def _curve(name: str, x: Sequence[float], points: Sequence[Mean]) -> Curve:
    """Return a curve through the means at `x`, with their standard deviations."""
    return Curve(name, list(x), [point.mean for point in points], [point.std for point in points])
