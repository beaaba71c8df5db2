"""Results of runs: the tally (votes or the private statistic), the average, Pathak's average, private descent."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from psephos.curator.ledger import Release
from psephos.protocol.transcript import Transcript
from psephos.results.base import (
    ALPHA_NOTICE,
    IN_MEMORY,
    Accuracy,
    Alpha,
    Count,
    Curve,
    Fact,
    Page,
    Panel,
    Phase,
    Positive,
    Result,
    Seconds,
    Share,
    Table,
    useless_warning,
)
from psephos.results.budget import BudgetSummary, budget_facts
from psephos.results.evaluation import Evaluation

if TYPE_CHECKING:
    from psephos.parties.noise import NoiseFrom

SAFE_BITS = 2048

PRIVATE_ROWS_NOTICE = (
    "Not for publication: this holds numbers that were computed on private rows (accuracies, and alpha where counts "
    "were opened), which no epsilon covers. Only whoever may see those rows may see it."
)
"""Notice shown first wherever the result of a run on a user's own rows is shown or saved."""


def test_key_warning(key_bits: int) -> list[str]:
    """Return a warning if the key is too short for security, otherwise an empty list."""
    return [f"A {key_bits}-bit key is a test key: it protects nothing."] if 0 < key_bits < SAFE_BITS else []


test_key_warning.__test__ = False  # type: ignore[attr-defined] # pytest would collect it by its name


def colluders_text(colluders: int, threshold: int, adders: NoiseFrom = "parties") -> str:
    """Describe the coalition that noise added by the parties in shares withstands.

    The text contains a warning if key holders who cannot open a sum are more than that coalition.

    Args:
        colluders: number of parties that may reveal their noise to each other and to the curator.
        threshold: number of holders that open a sum; 0 if there is no key.
        adders: who adds the noise: every party, or every key holder.
    """
    one, several = ("key holder", "key holders") if adders == "holders" else ("party", "parties")
    if colluders == 0:
        text = f"0: epsilon holds only while no {one} tells another one its noise"
    else:
        who = f"any {one} that tells" if colluders == 1 else f"any {colluders} {several} that tell each other and"
        whose = "its" if colluders == 1 else "their"
        text = f"{colluders}: epsilon holds against {who} the curator {whose} noise"
    if colluders >= threshold - 1:
        return text
    return (
        f"{text}. WARNING: {threshold - 1} key holders, who cannot open a sum, together learn more than epsilon allows"
    )


def cost_text(release: Release) -> str:
    """Return the privacy parameters of a release: "epsilon 1, delta 1e-06"."""
    if release.epsilon is None:
        return release.said
    if release.epsilon == 0:
        return "epsilon 0: no party was asked"
    return f"epsilon {release.epsilon:g}" + (f", delta {release.delta:.3g}" if release.delta else "")


@dataclass(frozen=True)
class ComposedCost:
    """Privacy cost for a party, or for a record, if all releases of a run were published together.

    Attributes:
        releases: number of releases for which parties were asked.
        epsilon: at `delta`, with the accountant's numerical error; None if no finite epsilon holds, 0 if no party was
            asked.
        delta: delta for which `epsilon` is stated.
    """

    releases: Count
    epsilon: Annotated[float, Meta(ge=0)] | None
    delta: Share


@dataclass(frozen=True, kw_only=True)
class RunResult(Result):
    """Result of one run of a protocol on a data set.

    Attributes:
        protocol: name of the protocol in the security analysis.
        options: all options of the run, as JSON values.
        dataset: name of the data set.
        features: number of features, d.
        test: number of test samples.
        class_names: names of the K classes.
        delta: delta of a release, the largest if there are several, with numerical error; 2^-64 for a pure epsilon.
        accuracy: accuracy on the test set, by method. Values without noise are measured by the simulation; no role
            learns them.
        peak_memory_mb: peak memory of all processes in megabytes; null if it was not measured.
        cautions: warnings about this run.
        remarks: explanations of its numbers.
        colluders: number of parties that may reveal their noise to each other and to the curator while epsilon still
            holds; null if no party adds noise.
        budget: summary of the budget file after the run; null if the run had none.
        evaluation: every classifier and every opened sum of the run; empty if the result was read from JSON. Secrets.
        transcript: every message of the run, if a transcript was requested.
    """

    derived: ClassVar[tuple[str, ...]] = (
        *Result.derived,
        "parties",
        "epsilon",
        "key_bits",
        "noise_source",
        "classes",
        "parties_are",
        "sensitivity",
    )
    read_options: ClassVar[dict[str, Any]] = {
        "parties": Count,
        "seed": int,
        "epsilon": Positive | list[Positive],
        "simulate_noise": bool,
        "key_bits": Count,
        "data": str | None,
        "party": str | None,
    }
    """The options that the result reads, and their types; a run has more."""

    protocol: str
    options: dict[str, Any]
    dataset: str
    features: Count
    test: Count
    class_names: Annotated[list[str], Meta(min_length=2)]
    delta: Share
    accuracy: dict[str, Accuracy]
    peak_memory_mb: float | None = None
    cautions: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    colluders: Count | None = None
    budget: BudgetSummary | None = None
    evaluation: Evaluation = field(default_factory=Evaluation, repr=False, compare=False, metadata=IN_MEMORY)
    transcript: Transcript | None = field(default=None, repr=False, compare=False, metadata=IN_MEMORY)

    def __post_init__(self) -> None:
        """Raise msgspec.ValidationError if an option that the result reads is missing or of another type."""
        msgspec.convert(self.options, msgspec.defstruct("Options", list(self.read_options.items())))

    @property
    def parties(self) -> int:
        """Number of data owners, M."""
        return int(self.options["parties"])

    @property
    def classes(self) -> int:
        """Number of classes, K."""
        return len(self.class_names)

    @property
    def epsilon(self) -> float:
        """Epsilon requested for each release; the first if there are several."""
        epsilon = self.options["epsilon"]
        return float(epsilon[0] if isinstance(epsilon, list) else epsilon)

    @property
    def key_bits(self) -> int:
        """Length of the Paillier modulus; 0 if there is no key."""
        return int(self.options["key_bits"])

    @property
    def noise_source(self) -> Literal["system", "simulation"]:
        """Source of the noise: the operating system, or "simulation": the seed, which protects nobody."""
        return "simulation" if self.options["simulate_noise"] else "system"

    @property
    def weights(self) -> dict[str, NDArray[np.float64]]:
        """Weights of the first release of each method, (d,) or (K, d), on scaled features (`evaluation.scaler`)."""
        return {
            score.method: score.w
            for score in reversed(self.evaluation.scores)
            if score.epsilon is not None and score.w is not None
        }

    @property
    def own_rows(self) -> bool:
        """Whether the rows are a user's own: from a table (`--data`) or from arrays, and not a published data set."""
        from psephos.data.datasets import NAMES

        return self.options.get("data") is not None or self.dataset not in NAMES

    @property
    def notice(self) -> str:
        return PRIVATE_ROWS_NOTICE if self.own_rows else ""

    @property
    def parties_are(self) -> Literal["owners", "shards"]:
        """The kind of the parties.

        "owners" if a column of the table names the owner of each row (`--party`); otherwise "shards" of one table or
        data set, to which the simulation assigned rows at random.
        """
        return "shards" if self.options.get("party") is None else "owners"

    @property
    def sensitivity(self) -> dict[str, float | None]:
        """Sensitivity of each release; None if it is a secret."""
        return {name: release.sensitivity for name, release in self.releases.items()}

    @property
    @abstractmethod
    def releases(self) -> dict[str, Release]:
        """Privacy cost of each release, by name."""

    def page(self) -> Page:
        warnings = [*self.cautions, *test_key_warning(self.key_bits)]
        if self.noise_source == "simulation":
            warnings.append(
                "The noise was drawn from the seed. Whoever knows it can take it off: nothing here is private."
            )
        if self.exact is False:
            warnings.append("The opened sums differ from those computed in the clear. Do not use this result.")
        noise, peak = "" if self.noise_source == "simulation" else ", the noise", self.peak_memory_mb
        return Page(
            title=f"Psephos: {self.protocol} on {self.dataset} at epsilon {self.epsilon:g}",
            class_names=self.class_names,
            notice=self.notice,
            answer=self._answer(),
            conditions=budget_facts(self.budget),
            facts=[] if peak is None else [("Peak memory, workers included", peak, " MB")],
            warnings=warnings,
            notes=[*self._shards_note(), *self.remarks],
            accuracies=self.accuracy,
            releases=self.releases,
            case=self.protocol,
            repeat=f"Seed {self.options['seed']} drives splits and training, never keys or encryption, so everything "
            f"but the keys, the ciphertexts{noise} and the times comes out the same.",
        )

    def _shards_note(self) -> list[str]:
        """Return a note on the unit of privacy if the parties are shards, otherwise an empty list."""
        if self.parties_are == "owners":
            return []
        protected = {release.unit for release in self.releases.values()}
        rows = "the rows of one shard" if protected == {"party"} else "what the ledger names as its unit, in one shard"
        rows = "one row of one shard" if protected == {"record"} else rows
        return [
            f"The {self.parties} parties are shards of one {'table' if self.own_rows else 'published data set'}, dealt "
            f"at random by whoever ran this: epsilon protects {rows}, and says nothing of an institution, or of a "
            "person with rows in several shards."
        ]

    def _answer(self) -> str:
        """Return the best private accuracy and its difference from the accuracy without noise."""
        released = {name: entry.private for name, entry in self.accuracy.items() if entry.private is not None}
        if not released:
            return ""
        best = max(released, key=lambda name: released[name])
        accuracy, which = self.accuracy[best], "Best private" if len(released) > 1 else "Private"
        spread = " (one draw)" if accuracy.private_std is None else f" ± {accuracy.private_std:.3f}"
        lost = "" if accuracy.nonprivate is None else f"; without noise {accuracy.nonprivate:.3f}"
        unit = " per party" if self.parties_are == "owners" else " per shard"
        if {release.unit for release in self.releases.values()} == {"record"}:
            unit = " per record"
        return f"{which} at epsilon {self.epsilon:g}{unit}: {best} {released[best]:.3f}{spread}{lost}"


_MODELS = {
    "none": "everybody follows the protocol (no proofs); ",
    "knowledge": "ballots and partial decryptions carry proofs: a ballot made of others' ciphertexts is refused; ",
    "valid": "ballots and partial decryptions carry proofs: votes are 0 or 1, other vectors within bounds, and their "
    "senders' own; ",
}
_KEYS = {"dealer": "a dealer made the key, and could read every ballot", "ceremony": "the holders made the key"}
_BEFORE = {
    "dealer": [("holder", "each is given a share of the key by a dealer, who sees the whole key once")],
    "ceremony": [],
}


def _threshold_warning(threshold: int, holders: int) -> list[str]:
    if 2 * threshold > holders:
        return []
    return [
        "Two groups of holders without a common member could open this key: a curator that lies could have two "
        "parts of the board opened and see the difference. Take a threshold above half of the holders."
    ]


@dataclass(frozen=True, kw_only=True)
class OpenedResult(RunResult):
    """Result of a protocol in which key holders open encrypted sums."""

    derived: ClassVar[tuple[str, ...]] = (*RunResult.derived, "threshold")
    read_options: ClassVar[dict[str, Any]] = {
        **RunResult.read_options,
        "holders": Count,
        "threshold": Count,
        "keys": Literal["dealer", "ceremony"],
        "proofs": Literal["none", "knowledge", "valid"],
        "randomness": str,
    }

    @property
    def holders(self) -> int:
        """Number of key holders."""
        return int(self.options["holders"])

    @property
    def threshold(self) -> int:
        """Number of holders that open a sum."""
        return int(self.options["threshold"])

    def page(self) -> Page:
        if self.colluders is None:
            return super().page()
        text, page = colluders_text(self.colluders, self.threshold, self.noise_from), super().page()
        return replace(page, conditions=[("Colluders", text), *page.conditions])

    @property
    def noise_from(self) -> NoiseFrom:
        """The roles that add the noise if the curator does not."""
        return "holders" if self.options.get("noise_from") == "holders" else "parties"

    def _opening_facts(self) -> list[Fact]:
        """Return the facts about who opens a sum, and which assumptions are made."""
        assumed = _MODELS[self.options["proofs"]], _KEYS[self.options["keys"]]
        return [("Opened by", self.threshold, " of ", self.holders, " key holders"), ("Assumed", *assumed)]


@dataclass(frozen=True, kw_only=True)
class SumResult(OpenedResult):
    """Result of a run around one or several encrypted sums that key holders open.

    Attributes:
        ballots: number of ballots counted; 0, as all numbers about ballots, where no party was asked.
        auxiliary: number of public samples, N.
        mechanism: distribution of the noise, chosen by the caller or by rule.
        lam: regularisation of the parties' own classifiers.
        min_ballots: fewest ballots in a sum that holders open.
        degree: degree of the key (Damgard and Jurik).
        slots_per_plaintext: vector entries packed into one plaintext.
        ciphertexts_per_ballot: ciphertexts in one ballot.
        bytes_per_ballot: size of one ballot as it is sent.
        tally_equals_plaintext: whether every opened sum equals the sum in the clear, entry by entry.
        privacy: privacy cost of each release, by name.
        composed: privacy cost of all releases together.
        draws: number of releases over which each private accuracy is the mean.
        by_epsilon: `accuracy` at each epsilon if there are several; `accuracy` itself is that of the first.
        measured_on: number of rows on which a method was trained or measured, by method, if not on all.
        continued_from: ballots, over all sums, that the journal of an interrupted run held when this run began.
    """

    ballots: Count
    auxiliary: Count
    mechanism: str
    lam: Positive
    min_ballots: Count
    slots_per_plaintext: Count
    ciphertexts_per_ballot: Count
    bytes_per_ballot: Count
    tally_equals_plaintext: bool
    privacy: dict[str, Release]
    degree: Count = 1
    composed: ComposedCost | None = None
    draws: Count = 1
    by_epsilon: dict[str, dict[str, Accuracy]] = field(default_factory=dict)
    measured_on: dict[str, Count] = field(default_factory=dict)
    continued_from: Count = 0

    @property
    def asked(self) -> bool:
        """Whether any party was asked for a vector; otherwise what is released is a function of public rows."""
        return self.ballots > 0

    @property
    def key_bits(self) -> int:
        return super().key_bits if self.asked else 0

    @property
    def exact(self) -> bool | None:
        return self.tally_equals_plaintext if self.asked else None

    @property
    def releases(self) -> dict[str, Release]:
        return self.privacy

    def _facts(self) -> list[Fact]:
        """Return the facts about the parties, the key and the ballots."""
        if not self.asked:
            return [
                ("Parties", self.parties, ", of whom none was asked"),
                ("Public rows", self.auxiliary),
                ("epsilon", "0: what is released depends on public rows"),
            ]
        degree = f" of degree {self.degree}" if self.degree > 1 else ""
        return [
            _equality_fact("Opened sums against the clear ones", self.exact),
            ("Parties", self.parties, ", ", self.ballots, " ballots counted"),
            ("Public auxiliary samples", self.auxiliary),
            ("epsilon", self.epsilon, f" at delta = {self.delta:.3g}", f" per release and {self._protected()}"),
            (
                "Paillier key",
                self.key_bits,
                " bits",
                degree,
                f"; randomness of ciphertexts: {self.options['randomness']}",
            ),
            ("One ballot", self.bytes_per_ballot, " bytes; ciphertexts in it: ", self.ciphertexts_per_ballot),
            *self._opening_facts(),
        ]

    def page(self) -> Page:
        page = super().page()
        return replace(
            page,
            facts=[*self._facts(), *page.facts],
            warnings=[
                *page.warnings,
                *(_threshold_warning(self.threshold, self.holders) if self.asked else []),
                *useless_warning(self.privacy),
            ],
            notes=[*self._draws_notes(), *self._signal_notes(), *page.notes],
            cost=self._cost(),
            panels=self._panels(),
            several_releases=self.composed is not None and self.composed.releases > 1,
            details=self._recall(),
            before=_BEFORE[self.options["keys"]] if self.asked else [],
            after=[("curator", self._released())] if self.privacy and self.asked else [],
        )

    def _answer(self) -> str:
        if len(self.privacy) != 1 or self.draws != 1:
            return super()._answer()
        ((name, release),) = self.privacy.items()
        units = "parties" if self.parties_are == "owners" else "shards dealt at random"
        whom = f"each {self._protected()}" if release.unit == "record" else "each"
        private = f", private for {whom} of {self.parties} {units} at {cost_text(release)}"
        released, usual = self.accuracy[name].private, self.accuracy.get("majority", Accuracy()).nonprivate
        worth = ""
        if released is not None and usual is not None:
            worth = f": right on {released:.1%} of {self.test} held-out rows, of which {usual:.1%} are of one class"
            worth += "; more parties or a larger epsilon would help" if released <= usual else ""
        if not self.asked:
            return (
                "The model of the public rows, at epsilon 0: no private step is expected to improve it, and the "
                f"parties were asked nothing{worth}."
            )
        return f"One {name} classifier{private}{worth}."

    def _released(self) -> str:
        """Return what the curator does after the last message, and who added the noise."""
        released = ("one of " if len(self.privacy) > 1 else "") + ", ".join(self.privacy)
        adders = "key holders" if self.noise_from == "holders" else "parties"
        noise = "with the noise that it adds" if self.colluders is None else f"with the noise that the {adders} added"
        return f"releases {released}, {noise}, epsilon {self.epsilon:g}, for everybody"

    def _protected(self) -> str:
        """Return the unit of privacy: "record" or "person" if all releases protect one, otherwise "party"."""
        if {release.unit for release in self.privacy.values()} != {"record"}:
            return "party"
        return "person" if all("persons" in release.chosen for release in self.privacy.values()) else "record"

    def _draws_notes(self) -> list[str]:
        notes = [f"Private accuracies are means over {self.draws} releases."] if self.draws > 1 else []
        if self.measured_on:
            rows = ", ".join(f"{name} {count:,}" for name, count in self.measured_on.items())
            notes.append(f"Trained or measured on some rows only, chosen at random: {rows}.")
        return notes

    def _signal_notes(self) -> list[str]:
        return [f"{name}: {release.worth}." for name, release in self.privacy.items() if release.worth]

    def _cost(self) -> str:
        if (total := self.composed) is None:
            return ""
        if not total.releases:
            return "This run asked the parties nothing, and spent no epsilon."
        spent = "no finite epsilon" if total.epsilon is None else f"epsilon {total.epsilon:.4g}"
        at = f"{spent} at delta {total.delta:.3g} on each {self._protected()}, numerical error included"
        if total.releases == 1:
            return f"This run drew one release, which spends {at}."
        return (
            f"Whoever published all {total.releases} classifiers that this run drew would spend {at}. A run draws them "
            "side by side to compare them; release one."
        )

    def _panels(self) -> list[Panel]:
        """Return the figures of accuracy and balanced accuracy against epsilon, if there are several epsilons."""
        label, x = "epsilon (log scale; more private to the left)", [float(epsilon) for epsilon in self.by_epsilon]
        note = "the same sums, released anew with fresh noise at each epsilon"
        if self.colluders is not None:
            note = "a sum of its own at each epsilon, with fresh noise"
        accuracy: list[Curve] = []
        balanced: list[Curve] = []
        for name in self.privacy if x else ():
            points = [at[name] for at in self.by_epsilon.values()]
            for curves, which in ((accuracy, "private"), (balanced, "balanced")):
                spread = [std for point in points if (std := getattr(point, f"{which}_std")) is not None]
                mean = [getattr(point, which) or 0.0 for point in points]
                curves.append(Curve(name, x, mean, spread if len(spread) == len(x) else None))
        references = {name: self.accuracy[name] for name in ("batch", "indiv") if name in self.accuracy}
        figures = (
            ("accuracy", accuracy, {name: one.nonprivate for name, one in references.items()}),
            ("balanced accuracy", balanced, {name: one.balanced for name, one in references.items()}),
        )
        cost = f". {self._cost().rstrip('.')}"  # publishing the curve publishes all of its releases
        return [
            Panel("", label, title, curves, note=text, levels={n: y for n, y in levels.items() if y is not None})
            for (title, curves, levels), text in zip(figures, (note + cost, note), strict=True)
            if curves
        ]

    def _recall(self) -> list[Table]:
        """Return a table of the recall of each class at each epsilon."""
        tables = []
        for epsilon, accuracy in (self.by_epsilon or {f"{self.epsilon:g}": self.accuracy}).items():
            methods = {name: one for name, one in accuracy.items() if len(one.recall) == len(self.class_names) > 0}
            rows: list[list[Any]] = [
                ["method", *self.class_names],
                *(
                    [name, *map(_spread, one.recall, one.recall_std or [None] * len(one.recall))]
                    for name, one in methods.items()
                ),
            ]
            if len(methods) < len(self.class_names):  # transpose to the narrower table
                rows = [list(row) for row in zip(*rows, strict=True)]
            if methods:
                about = "the share of its test samples that is recognised"
                about += "; of private methods the mean and standard deviation of releases" if self.draws > 1 else ""
                tables.append(Table(f"Recall of each class at epsilon {epsilon}", rows[0], rows[1:], about))
        return tables


@dataclass(frozen=True, kw_only=True)
class TallyResult(SumResult):
    """Votes counted under encryption (`reveal` "alpha"), or their private statistic (`reveal` "statistic").

    Attributes:
        alpha: distribution of the opened counts, for a report. The curator learns the counts; they are not for release.
    """

    kind: ClassVar[str] = "tally"
    read_options: ClassVar[dict[str, Any]] = {**SumResult.read_options, "reveal": Literal["alpha", "statistic"] | None}

    alpha: Alpha | None = None

    @property
    def reveal(self) -> Literal["alpha", "statistic"]:
        """The value that the curator learns: the vote counts ("alpha"), or the statistic with noise ("statistic")."""
        record = self.options.get("unit") == "record"
        return "statistic" if record or self.options["reveal"] == "statistic" else "alpha"

    def page(self) -> Page:
        page = super().page()
        if not self.asked:
            return page
        note = (
            f"The {'key holders' if self.noise_from == 'holders' else 'parties'} add the noise before anything is "
            "opened, so the curator is given the noisy sum and no exact one. "
            f"{self.threshold} key holders together could open any ballot."
        )
        if self.reveal == "alpha":
            notice = ALPHA_NOTICE[0].upper() + ALPHA_NOTICE[1:]
            note = f"The curator learns the vote counts (alpha), and adds the noise to what it fits. {notice}."
            if more := [name for name in ("avg", "own-data", "whitened") if name in self.accuracy]:
                note += (
                    f" For {' and '.join(more)} the parties add other vectors in encrypted sums of their own. The "
                    "curator learns these exact sums too, and publishing them is not differentially private either."
                )
        return replace(page, histogram=self.alpha, notes=[*page.notes, note])


@dataclass(frozen=True, kw_only=True)
class AverageResult(SumResult):
    """The encrypted sum of the parties' parameters, or of directions of their own rows, without votes."""

    kind: ClassVar[str] = "average"


@dataclass(frozen=True, kw_only=True)
class PathakResult(RunResult):
    """Result of Pathak 2010, from the agreement to the published shares. Its method is named "pathak".

    Attributes:
        epsilon_proved, epsilon_proved_for: the proved epsilon, and what it protects.
        epsilon_party_level: proved epsilon for a party's data apart from their size; null if nothing is proved.
        shares_equal_reference: whether the published shares add up to the result of the computation in the clear.
    """

    kind: ClassVar[str] = "pathak"
    derived: ClassVar[tuple[str, ...]] = (*RunResult.derived, "privacy")
    read_options: ClassVar[dict[str, Any]] = {**RunResult.read_options, "variant": str}

    epsilon_proved: Positive
    epsilon_proved_for: str
    epsilon_party_level: Positive | None
    shares_equal_reference: bool

    @property
    def key_bits(self) -> int:
        return super().key_bits if self.options["variant"] in ("printed", "repaired") else 0

    @property
    def exact(self) -> bool | None:
        return self.shares_equal_reference

    @property
    def privacy(self) -> dict[str, Release]:
        """One release under two units of privacy.

        Its sensitivity is left out, since it may depend on the size of the smallest party, which is secret.
        """
        variant, noise = self.options["variant"], self.options.get("noise", "laplace")  # of 0.2.0: may be spherical
        own = "one party's own noise" if variant == "printed" else "a share of noise from every party"
        mechanism = f"{noise}, {own}"
        grid = "L2, S + g sqrt(d)" if noise == "spherical" else "L1, sqrt(d) S + g d"
        releases = {
            "the published shares": Release(
                mechanism,
                self.epsilon_proved,
                self.delta,
                self.epsilon_proved_for,
                source=f"{grid} on a grid of pitch g; S = (2/n + 2 tau)/mu, n the smallest size (Chaudhuri and "
                "Monteleoni 2008, corollary 2)",
            )
        }
        if self.epsilon_party_level is not None:
            releases["the same release, for a party"] = Release(
                mechanism,
                self.epsilon_party_level,
                self.delta,
                "party, its size apart",
                source="no minimiser is longer than R: S = 2 R, whatever the party's data; the paper claims nothing",
            )
        return releases

    releases = privacy

    def page(self) -> Page:
        page = super().page()
        facts: list[Fact] = [
            _equality_fact("Published shares against the clear sum", self.exact),
            ("Parties", self.parties),
            ("epsilon asked, and proved", self.epsilon, ", ", self.epsilon_proved, f" ({self.epsilon_proved_for})"),
            ("Paillier keys", *((self.key_bits, " bits") if self.key_bits else ("none: only shares travel",))),
        ]
        ledger = (
            "The rows of the ledger are promises about one release: what replacing one record, and what replacing all "
            "of one party's, can change. They are not added up."
        )
        return replace(page, facts=[*facts, *page.facts], notes=[*page.notes, ledger])


@dataclass(frozen=True)
class Guarantee:
    """Privacy guarantee of a private descent (`psephos.curator.psgd`). Infinite epsilons are null.

    Attributes:
        unit: unit of privacy, "record": one is replaced, and sizes are public.
        delta: requested delta, which includes truncation and sampling.
        epsilon_final, final_is: epsilon claimed for the classifier at `delta`, and the statement that claims it.
        epsilon_step: epsilon of one noisy sum alone.
        epsilon_transcript, epsilon_transcript_pure: epsilon of everything the curator saw, at `delta` and at delta = 0.
        delta_samplers: part of `delta` for truncation and sampling.
        assumed: roles that must be honest for the guarantee to hold.
    """

    unit: str
    delta: Share
    epsilon_final: Positive | None
    final_is: str
    epsilon_step: Positive | None
    epsilon_transcript: Positive | None
    epsilon_transcript_pure: Positive | None
    delta_samplers: Share
    assumed: str

    def __post_init__(self) -> None:
        for name in ("epsilon_final", "epsilon_step", "epsilon_transcript", "epsilon_transcript_pure"):
            if (value := getattr(self, name)) is not None and not math.isfinite(value):
                object.__setattr__(self, name, None)


@dataclass(frozen=True, kw_only=True)
class PsgdResult(OpenedResult):
    """Result of Rajkumar 2012, private gradient descent on the encrypted sum. Its method is named "psgd".

    Attributes:
        records, party_sizes: number of records N, and of those of each party.
        steps, resumed_at: number of steps computed, and of those that the journal held at the start.
        seconds_per_step: median time of a step; null if the journal held all steps.
        guarantee: privacy guarantee; `epsilon_final` and `epsilon_transcript` are its two epsilons.
        gradient_sensitivity: L2 sensitivity of a step's sum to one record.
        sigma, slack, gradient_bound: standard deviation of the fixed noise per entry, Delta, and the agreed bound.
        gradients_clipped_here: number of gradients above the bound that were scaled down in this run.
        sums_equal_reference: whether every opened sum equals the one in the clear; null if the journal held all steps.
        ciphertexts_per_ballot, bytes_per_ballot: size of a ballot.
        bytes_posted: bytes that all roles sent in the whole run.
        w: weights of the classifier, (d,).
    """

    kind: ClassVar[str] = "psgd"
    derived: ClassVar[tuple[str, ...]] = (
        *OpenedResult.derived,
        "privacy",
        "epsilon_final",
        "epsilon_transcript",
    )
    read_options: ClassVar[dict[str, Any]] = {**OpenedResult.read_options, "variant": str, "steps": Count}

    records: Count
    party_sizes: list[Count]
    steps: Count
    resumed_at: Count
    seconds_per_step: Seconds | None
    guarantee: Guarantee
    gradient_sensitivity: Positive
    sigma: Annotated[float, Meta(ge=0)]
    slack: Annotated[float, Meta(ge=0)]
    gradient_bound: Positive
    gradients_clipped_here: Count
    sums_equal_reference: bool | None
    ciphertexts_per_ballot: Count
    bytes_per_ballot: Count
    bytes_posted: Count
    w: list[float]

    @property
    def exact(self) -> bool | None:
        return self.sums_equal_reference

    @property
    def epsilon_final(self) -> float | None:
        """Epsilon that the paper claims for the classifier; None if it claims none."""
        return self.guarantee.epsilon_final

    @property
    def epsilon_transcript(self) -> float | None:
        """Epsilon of everything the curator saw; None if no finite one holds."""
        return self.guarantee.epsilon_transcript

    @property
    def privacy(self) -> dict[str, Release]:
        """Privacy cost of the final classifier and of all noisy sums: two statements about one run, not to be added."""
        guarantee, releases = self.guarantee, {}
        source = "2 L: one record's gradient, ||x|| <= 1 (Rajkumar 2012, section 4)"
        common: dict[str, Any] = {"delta": self.delta, "unit": guarantee.unit, "norm": "l2"}
        common |= {"sensitivity": self.gradient_sensitivity}
        if guarantee.epsilon_final is not None:
            releases["final classifier"] = Release(
                mechanism="Gaussian objective perturbation, a share from every party",
                epsilon=guarantee.epsilon_final,
                source=f"{source}; {guarantee.final_is}",
                chosen={"sigma": self.sigma},
                **common,
            )
        joint = self.options["variant"] == "gaussian"
        releases["everything the curator saw"] = Release(
            mechanism=f"{'discrete Gaussian shares' if joint else 'spherical Laplace of every party'} at every step",
            epsilon=guarantee.epsilon_transcript,
            said="without a finite bound" if guarantee.epsilon_transcript is None else "",
            source=f"{source} and the grid, {self.options['steps']:,} steps composed",
            chosen={"delta of the samplers": guarantee.delta_samplers},
            **common,
        )
        return releases

    releases = privacy

    def page(self) -> Page:
        page, per_step = super().page(), self.seconds_per_step
        equality = _equality_fact("Opened sums against the clear ones", self.exact)
        facts: list[Fact] = [
            equality if self.exact is not None else ("Opened sums", "none here: every step was in the journal"),
            ("Parties", self.parties),
            ("Gradient steps", self.steps, " on ", self.records, " records"),
            *([("A step", per_step, " s")] if per_step is not None else []),
            ("epsilon", self.epsilon, f" at delta = {self.delta:.3g}"),
            ("Paillier key", self.key_bits, " bits"),
            *self._opening_facts(),
        ]
        promises = (
            "The classifier alone, and every noisy sum that led to it, are two promises about one run. Whoever saw the "
            "sums, as the curator did, counts with the second."
        )
        return replace(
            page,
            facts=[*facts, *page.facts],
            warnings=[*page.warnings, *_threshold_warning(self.threshold, self.holders)],
            notes=[*page.notes, promises],
            before=_BEFORE[self.options["keys"]],
            after=[("curator", "releases the last iterate, which everybody can work out from the published sums")],
        )


@dataclass(frozen=True, kw_only=True)
class InterruptedResult(Result):
    """Result of an interrupted run, which released nothing.

    Attributes:
        protocol: name of the protocol.
        options: all options of the run.
        stopped: the point at which it was stopped, as text.
    """

    kind: ClassVar[str] = "interrupted"

    protocol: str
    options: dict[str, Any]
    stopped: str
    phases: dict[str, Phase] = field(default_factory=dict)

    def page(self) -> Page:
        return Page(
            title=f"Psephos: {self.protocol}, interrupted",
            lead="Nothing was released: the run ended before. The transcript has what was sent until then.",
            warnings=[f"This run was interrupted: stopped {self.stopped}. What follows is what there was."],
            case=self.protocol,
        )


def _spread(mean: float | None, std: float | None) -> str | None:
    """Return a mean as text, with its standard deviation if there is one; None without a mean."""
    return None if mean is None else f"{mean:.3f}" + ("" if std is None else f" ± {std:.3f}")


def _equality_fact(label: str, equal: bool | None) -> Fact:
    """Return the fact that compares opened values with those in the clear; `equal`: whether they are equal."""
    return (label, "equal, entry by entry" if equal else "THEY DIFFER")
