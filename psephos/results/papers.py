"""Results of the papers' experiments (`psephos reproduce`): curves, their cost, the papers' words beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from psephos.curator.ledger import Release
from psephos.results.base import (
    Comparison,
    Count,
    Curve,
    Mean,
    Page,
    Panel,
    Positive,
    Result,
    Seconds,
    Share,
    Table,
)
from psephos.results.runs import test_key_warning

_RIGHT = "1/epsilon (log scale; more private to the right)"
_LEFT = "epsilon (log scale; more private to the left)"


@dataclass(frozen=True, kw_only=True)
class PaperResult(Result):
    """A paper's experiment, run again.

    Attributes:
        experiment: its name, as `psephos reproduce` takes it.
        paper: where it stands.
        quick: fewer trials and points than the paper's.
        draws_per_point: releases behind each private point.
        test: test samples.
        seed: drives splits, training and noise.
        options: everything that was asked for.
        noise_source: always the seed.
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
        said = ["The noise was drawn from the seed. Whoever knows it can take it off: nothing here is private."]
        if self.quick:
            said.append("Run with --quick: fewer trials and points than the paper's. Nothing here is to be cited.")
        if self.exact is False:
            said.append("The opened sums differ from those computed in the clear. Do not use this result.")
        return Page(
            title=f"Psephos: {self.experiment}",
            lead="An experiment of a paper, run again. It shows what privacy costs in accuracy. The messages of the "
            "protocol and who learns what from them are in the reports of `psephos run` and `psephos audit`.",
            facts=[
                ("Paper", self.paper),
                ("Test samples", self.test),
                ("Noise draws a point", self.draws_per_point),
            ],
            warnings=said,
            notes=[
                "Each point of a curve is a release of its own. An experiment draws thousands of them from the same "
                "data, which together no promise covers: it is for data that are public."
            ],
            repeat=f"Seed {self.seed} drives splits, training and noise, so every number but the times comes out the "
            "same.",
        )


# -- Hamm 2016


@dataclass(frozen=True)
class EncryptedTrial:
    """The encrypted count of one split, and whether what was opened is the clear count.

    Attributes:
        trial: number of the split, from 0.
        equals_plaintext: whether the opened counts are the clear ones, entry by entry.
        seconds: encrypt, aggregate, decrypt. Wall clock.
        peak_memory_mb: of all processes together.
        ballot_bytes: of one ballot.
        bits_per_count: on the wire, of each count.
        continued_from: ballots that the journal of an interrupted run held when this run began.
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
    """One number of parties: accuracies without noise, and by family and method along the axis (without its 0)."""

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
class Published:
    """The paper's number or sentence beside ours; `family` "none" for what has no noise."""

    what: str
    family: str
    parties: Count
    paper: str
    ours: str
    reproduces: bool
    why: str

    def compared(self) -> Comparison:
        """As a row of a page."""
        verdict = "reproduces" if self.reproduces else "does not reproduce"
        verdict = "not tested" if self.why.startswith("not tested") else verdict
        what = self.what if self.family == "none" else f"{self.what} ({self.family})"
        return Comparison(what, self.paper, self.ours, verdict, self.why.removeprefix("not tested: "))


@dataclass(frozen=True, kw_only=True)
class HammResult(PaperResult):
    """Hamm 2016, section 6: accuracy against 1/epsilon.

    Attributes:
        data, stand_in: the data set, and whether it is a synthetic one in its place.
        lam, samples_per_party, trials: lambda, rows of a party, splits.
        inverse_epsilons: the axis; 0 is without noise.
        counts: how they were taken.
        families: each family of curves in words.
        sizes: a panel for each number of parties.
        published: the paper's words beside ours.
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
    published: list[Published]

    @property
    def exact(self) -> bool | None:
        compared = [one.equals_plaintext for size in self.sizes for one in size.encrypted]
        return all(compared) if compared else None

    def page(self) -> Page:
        page, axis = super().page(), self.inverse_epsilons[1:]
        opened = {True: ", equal to the clear ones", False: ", WHICH DIFFER FROM THE CLEAR ONES", None: ""}[self.exact]
        panels = []
        for size in self.sizes:
            flat = [_curve(n, axis, [mean] * len(axis)) for n, mean in (("batch", size.batch), ("indiv", size.indiv))]
            title = f"{'SYNTHETIC STAND-IN: ' if self.stand_in else ''}{size.parties:,} parties"
            for family, methods in size.curves.items():
                curves = [_curve(name, axis[-len(points) :], points) for name, points in methods.items()]
                note = self.families.get(family, "")
                panels.append(Panel(f"{title}, {family}", _RIGHT, "accuracy", [*curves, *flat], note=note))
        return replace(
            page,
            facts=[
                *page.facts,
                ("Data", self.data),
                ("Splits", self.trials),
                ("Samples a party", self.samples_per_party),
                ("Counts", self.counts + opened),
            ],
            panels=panels,
            releases={family: _family_release(family, words) for family, words in self.families.items()},
            comparison=[row.compared() for row in self.published],
        )


def _family_release(family: str, words: str) -> Release:
    ours = family == "ours"
    return Release(
        words.partition(";")[0].partition(":")[0],
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
class Point:
    """Test error of one series at one epsilon, over all noise draws."""

    series: str
    epsilon: Positive
    error: Share
    std: float
    standard_error: float


@dataclass(frozen=True)
class Theorem:
    """A bound beside what was measured, at its largest, and whether it held."""

    bound: float
    largest: float
    holds: bool


@dataclass(frozen=True)
class Excess:
    """Theorem 4.3 at one epsilon: the excess risk measured, and the share of draws above the bound."""

    epsilon: Positive
    bound: float
    measured_mean: float
    measured_max: float
    above_bound: Share
    allowed: Share


@dataclass(frozen=True)
class Theorems:
    """The paper's theorems on one split. `distance_mean`: of the averaged classifier from the pooled one."""

    split: str
    hypotheses_hold: bool
    distance_mean: float
    theorem_4_2: Theorem
    equation_3: Theorem
    theorem_4_3: list[Excess]


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    """One lambda and scaling of the rows: errors along the axis, the paper's claims, and its theorems."""

    name: str
    lam: Positive
    regulariser: str
    rows_in_unit_ball: bool
    pooled_error: Share
    pooled_always_says_majority: bool
    points: list[Point]
    claims: dict[str, bool]
    theorems: list[Theorems]

    def panel(self) -> Panel:
        """Its errors."""
        series: dict[str, list[Point]] = {}
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
        claims: what the paper says of its figure; it prints no numbers.
        train, features, ones_per_row: the data.
        majority_error: of always saying the most frequent class.
        epsilon_real_per_epsilon: what the printed noise really gives at epsilon = 1.
        deals: random ways of dealing the rows to the parties.
        settings: a panel each.
        counterexample: to Theorem 4.2: copies of its two rows, distance, and bound.
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

    def page(self) -> Page:
        page, always = super().page(), "the pooled classifier always says the majority class here"
        return replace(
            page,
            facts=[
                *page.facts,
                ("Training records", self.train),
                ("Deals", self.deals),
                ("Error of always the majority class", self.majority_error),
                ("The printed noise at epsilon = 1 really gives epsilon", self.epsilon_real_per_epsilon),
            ],
            panels=[setting.panel() for setting in self.settings],
            releases={setting.name: self._release(setting) for setting in self.settings},
            comparison=[
                Comparison(
                    claim,
                    "claims so",
                    f"{'so' if holds else 'not so'}: {setting.name}",
                    "holds" if holds else "FAILS",
                    always if setting.pooled_always_says_majority else "",
                )
                for setting in self.settings
                for claim, holds in setting.claims.items()
            ],
            tables=self._tables(),
        )

    def _release(self, setting: PaperSetting) -> Release:
        real = f"{self.epsilon_real_per_epsilon:.4g} times the axis"
        return Release(
            "a Laplace variable per coordinate, scale 2/(n_(1) epsilon lambda)",
            None,
            0.0,
            "record, sizes fixed",
            source="L1, sqrt(d) 2/(K n_(1) lambda): Theorem 4.1 takes the L2 bound for it and leaves out 1/K",
            said=real if setting.rows_in_unit_ball else "NONE: rows leave the unit ball that the proof assumes",
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
            "Theorem 4.2 bounds the distance of the averaged classifier from the pooled one. It needs the parties' "
            "data to be alike, which it does not say: the splits with different label shares are there to show it."
        )
        return [Table("Theorem 4.2, measured", columns, rows, about)] if rows else []


# -- Rajkumar 2012


@dataclass(frozen=True)
class RajkumarRow:
    """Test errors of every method in one setting; `place` is the number of parties or of the skew."""

    panel: str
    place: int
    lam: Positive
    epsilon: Positive
    errors: dict[str, Mean]


@dataclass(frozen=True, kw_only=True)
class RajkumarClaims:
    """The paper's claims, as numbers answer them: counts of rows, and mean errors by method and place."""

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
        records, dimension, data_sets: N, d, and the data sets or folds.
        delta, steps, transcript_steps: of the private methods.
        skews: each party's share of the records, a vector for each place of the skew panel.
        rows: errors.
        claims: the paper's, beside them.
        epsilon_transcript: by the epsilon asked for and the method, of every noisy sum; None where none is finite.
        encrypted_steps_checked, sums_equal_reference, key_bits: the steps that were repeated under encryption.
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

    def page(self) -> Page:
        page = super().page()
        opened = {True: ", sums equal to the clear ones", False: ", SUMS DIFFER FROM THE CLEAR ONES", None: ""}
        return replace(
            page,
            warnings=[*page.warnings, *test_key_warning(self.key_bits)],
            facts=[
                *page.facts,
                ("Data sets or folds", self.data_sets),
                ("Training records", self.records),
                ("Gradient steps", self.steps),
                ("Steps repeated under encryption", self.encrypted_steps_checked, opened[self.exact]),
            ],
            panels=self._panels(),
            releases=self._releases(),
            comparison=[Comparison(words, "claims so", ours, verdict) for words, ours, verdict in self._claims()],
        )

    def _panels(self) -> list[Panel]:
        grouped: dict[tuple[str, float, float], list[RajkumarRow]] = {}
        for row in self.rows:
            grouped.setdefault((row.panel, row.lam, row.epsilon), []).append(row)
        vectors = "; ".join(f"{n}: {', '.join(f'{part:g}' for part in skew)}" for n, skew in enumerate(self.skews, 1))
        found = []
        for (panel, lam, epsilon), rows in grouped.items():
            places = [row.place for row in rows]
            curves = [_curve(name, places, [row.errors[name] for row in rows]) for name in rows[0].errors]
            by_parties = panel == "parties"
            label = "parties" if by_parties else "skew of the parties' sizes, from even"
            note = "" if by_parties else f"each party's share of the records, {vectors}"
            title = f"lambda = {lam:g}, epsilon = {epsilon:g}, {panel}"
            found.append(Panel(title, label, "test error", curves, log=False, note=note))
        return found

    def _releases(self) -> dict[str, Release]:
        theorem = "the paper's claim (Rajkumar 2012, Theorem 4.2), for the exact minimiser"
        found = {
            name: Release(mechanism, None, delta, "record", source=source, said=said)
            for name, mechanism, said, delta, source in (
                ("psgd, gop: the classifier", "Gaussian objective perturbation", "the panel's", self.delta, theorem),
                ("la_printed", "a Laplace variable per coordinate, as printed", "not claimed here", 0.0, "Pathak 2010"),
                ("la_repaired", "spherical Laplace", "the panel's", 0.0, "L2, 2/(K n_(1) lambda), sizes public"),
                ("gop_sigma_printed", "sigma solved as printed", "NONE: not private", self.delta,
                 "Rajkumar 2012, Procedure 3"),
            )
        }  # fmt: skip
        for asked, methods in self.epsilon_transcript.items():
            for name, epsilon in methods.items():
                pure = name.endswith("_pure")
                found[f"{name} at {asked}: every noisy sum"] = Release(
                    "noise at every step, composed" + (", without a delta" if pure else ""),
                    epsilon,
                    0.0 if pure else self.delta,
                    "record",
                    source="2 L for one record's gradient, ||x|| <= 1 (Rajkumar 2012, section 4)",
                    said="without a finite bound" if epsilon is None else "",
                )
        return found

    def _claims(self) -> Iterator[tuple[str, str, str]]:
        """The paper's words, the means that speak to them, and a verdict where the words are exact enough for one."""
        claims = self.claims

        def means(told: dict[str, dict[str, float]], *methods: str) -> str:
            return "; ".join(
                f"{name} {', '.join(f'{mean:.3f}' for mean in told[name].values())}" for name in methods if name in told
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
            told = means(by_skew, "la_printed", "la_repaired", "psgd", "gop")
            yield (
                "the smaller the smallest party, the worse local aggregation; PSGD and GOP do not depend on the skew",
                f"mean errors from even to most uneven: {told}",
                "see the numbers",
            )


def _curve(name: str, x: Sequence[float], points: Sequence[Mean]) -> Curve:
    return Curve(name, list(x), [point.mean for point in points], [point.std for point in points])
