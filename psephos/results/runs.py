"""Results of runs: the tally (votes or the private statistic), the average, Pathak's average, private descent."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from psephos.curator.ledger import Release
from psephos.protocol.transcript import Transcript
from psephos.results.advice import advice
from psephos.results.base import (
    ALPHA_NOTICE,
    IN_MEMORY,
    METHODS,
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
    rare_class,
    sentences,
    with_deviation,
)
from psephos.results.budget import BudgetSummary, budget_facts
from psephos.results.deviations import Deviation
from psephos.results.evaluation import Evaluation
from psephos.results.trust import DIFFERS, SEEDED, Opened, TrustModel, cost_text, facts, test_key_warning

PRIVATE_ROWS_NOTICE = (
    "Not for publication: this holds numbers that were computed on private rows (accuracies, and alpha where counts "
    "were opened), which no epsilon covers. Only whoever may see those rows may see it."
)
"""Notice shown first wherever the result of a run on a user's own rows is shown or saved."""

AXIS = "epsilon (log scale; more private to the left)"
_CURVES = (("private", "accuracy", "nonprivate"), ("balanced", "balanced accuracy", "balanced"))
LEAST_RIDGE = 1e-3
"""Largest ridge of a pooled classifier that is taken for the best linear one."""
_OPENING = ("holders", "threshold", "keys", "proofs", "randomness")


class _ReadOptions(msgspec.Struct):
    """The options that results read; `noise` of 0.2.0 may be spherical."""

    parties: Count
    seed: int
    epsilon: Positive | list[Positive]
    simulate_noise: bool
    key_bits: Count
    party: str | None
    data: str | None = None
    holders: Count = 0
    threshold: Count = 0
    keys: Literal["dealer", "ceremony"] = "dealer"
    proofs: Literal["none", "knowledge", "valid"] = "none"
    randomness: str = ""
    reveal: Literal["alpha", "statistic"] | None = None
    unit: str = "party"
    noise_from: str | None = None
    variant: str = ""
    noise: str = "laplace"
    steps: Count = 0


@dataclass(frozen=True)
class ComposedCost:
    """Cost of all `releases` for which parties were asked; `epsilon` is None if no finite one holds."""

    releases: Count
    epsilon: Annotated[float, Meta(ge=0)] | None
    delta: Share


@dataclass(frozen=True, kw_only=True)
class OptionsResult(Result):
    """Result of a command whose `options` were saved as JSON values; `dataset` is a name or a file.

    Attributes:
        deviations: messages that were refused, wrong or missing, and without which the run went on.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    """The options that it reads besides those of every command."""

    options: dict[str, Any]
    dataset: str
    budget: BudgetSummary | None = None
    cautions: list[str] = field(default_factory=list)
    deviations: list[Deviation] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise msgspec.ValidationError if an option that the result reads is missing or of another type."""
        assert self._read is not None
        if missing := [name for name in self.needs if name not in self.options]:
            raise msgspec.ValidationError(f"the options lack {', '.join(missing)}")

    @cached_property
    def _read(self) -> _ReadOptions:
        return msgspec.convert(self.options, _ReadOptions)

    @property
    def parties(self) -> int:
        """Number of data owners, M."""
        return self._read.parties

    @property
    def epsilon(self) -> float:
        """Epsilon requested for each release; the first if there are several."""
        return float(np.atleast_1d(self._read.epsilon)[0])

    @property
    def key_bits(self) -> int:
        """Length of the Paillier modulus; 0 if there is no key."""
        return self._read.key_bits

    @property
    def threshold(self) -> int:
        return self._read.threshold

    @property
    def noise_source(self) -> Literal["system", "simulation"]:
        """Source of the noise: the operating system, or "simulation": the seed, which protects nobody."""
        return "simulation" if self._read.simulate_noise else "system"

    @property
    def parties_are(self) -> Literal["owners", "shards"]:
        """ "owners" if a column names the owner of each row; else "shards", to which rows were assigned at random."""
        return "shards" if self._read.party is None else "owners"

    @property
    def opened(self) -> Opened:
        """What the curator is given, unless the noise is in it before."""
        return "noisy"

    @property
    @abstractmethod
    def releases(self) -> dict[str, Release]:
        """Privacy cost of each release, by name."""

    @property
    def protected(self) -> str:
        """The unit of privacy as a noun: "record" or "person" if all releases protect one, otherwise "party"."""
        releases = self.releases.values()
        if {release.unit for release in releases} != {"record"}:
            return "party"
        return "person" if all("persons" in release.chosen for release in releases) else "record"

    def trust(self) -> TrustModel:
        """Return what the statements about privacy and trust follow from."""
        colluders = getattr(self, "colluders", None)
        release = next(iter(self.releases.values()), Release("none", 0.0, 0.0, "party"))
        opened: Opened = self.opened if colluders is None else "noisy"
        proofs = self._read.proofs
        return TrustModel(
            noun="prediction" if self.kind == "regression" else "classifier",
            opened=opened,
            adders="holders" if self._read.noise_from == "holders" else "parties",
            unit=release.unit,
            persons=str(release.chosen.get("persons") or ""),
            neighbours=str(release.chosen.get("neighbours", "any")).replace("replace", "any"),
            parties=self.parties,
            shards=self.parties_are == "shards",
            holders=self._read.holders,
            threshold=self.threshold,
            colluders=colluders,
            dealer=self._read.keys == "dealer",
            proved="bounded" if proofs == "valid" and opened != "counts" else proofs,
        )

    def warnings_of_model(self) -> list[str]:
        """Return the warnings that belong to the released model as well."""
        seeded, differs = self.noise_source == "simulation", self.exact is False
        return [text for text in (test_key_warning(self.key_bits), SEEDED * seeded, DIFFERS * differs) if text]

    def page(self) -> Page:
        answer = sentences("answer", self._answer())
        return Page(
            title=f"Psephos: {getattr(self, 'protocol', self.kind)} on {self.dataset} at epsilon {self.epsilon:g}",
            facts=[*sentences("notice", self.notice), *answer, *self._rows(), *sentences("repeat", self._repeat())],
            releases=self.releases,
            tables=self._tables(),
        )

    def _rows(self) -> Iterator[Fact]:
        """Yield the rows of the page; a subclass adds its own."""
        yield from sentences("warning", *self.cautions, *self.warnings_of_model())
        if getattr(self, "colluders", None) is not None:
            withstood = (each.value for each in facts(self.trust()) if each.topic == "colluders")
            yield from (Fact("condition", "Colluders", text) for text in withstood)
        yield from (each.fact for each in self.deviations)
        yield from budget_facts(self.budget)

    @abstractmethod
    def _answer(self) -> str:
        """Return the result in one line."""

    def _tables(self) -> list[Table]:
        return []

    def _repeat(self) -> str:
        return f"Seed {self._read.seed} drives splits, never keys or encryption."

    def _opening_facts(self) -> list[Fact]:
        """Return the facts about who opens a sum, and what is assumed of parties and holders."""
        shared = {(each.topic, each.label): each.value for each in facts(self.trust())}
        opened = [
            Fact("fact", "Protected", shared["unit", "unit"]),
            Fact("fact", "Opened by", f"{self.threshold} of {self._read.holders} key holders"),
        ]
        if "proofs" not in self.options:
            return opened
        proved, dealer = shared["proved", "each ballot proves"], shared["learns", "a dealer"]
        return [*opened, Fact("fact", "Each ballot proves", proved), Fact("fact", "A dealer of the key", dealer)]


@dataclass(frozen=True, kw_only=True)
class BallotResult(OptionsResult):
    """Result of a command in which key holders open sums of ballots; numbers are 0 where no party was asked.

    `tally_equals_plaintext`: whether every opened sum equals the sum in the clear, entry by entry.
    """

    ballots: Count
    ciphertexts_per_ballot: Count
    bytes_per_ballot: Count
    tally_equals_plaintext: bool

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

    def page(self) -> Page:
        page = super().page()
        return page if self.asked else replace(page, title=f"Psephos: public rows of {self.dataset} at epsilon 0")

    def _unasked_facts(self, public: int) -> list[Fact]:
        """Return the facts about a release for which no party was asked."""
        return [
            Fact("fact", "Parties", self.parties, ", of whom none was asked"),
            Fact("fact", "Public rows", public),
            Fact("fact", "epsilon", "0: what is released depends on public rows"),
        ]

    def _ballot_facts(self) -> list[Fact]:
        """Return the facts about the key and the ballots."""
        degree = f" of degree {degree}" if (degree := getattr(self, "degree", 1)) > 1 else ""
        drawn = f"; randomness of ciphertexts: {self.options['randomness']}" if "randomness" in self.options else ""
        held = f" bytes; ciphertexts in it: {self.ciphertexts_per_ballot:,}"
        return [
            Fact("fact", "Parties", self.parties, f", {self.ballots:,} ballots counted"),
            Fact("fact", "Paillier key", self.key_bits, f" bits{degree}{drawn}"),
            Fact("fact", "One ballot", self.bytes_per_ballot, held),
            *self._opening_facts(),
        ]


@dataclass(frozen=True, kw_only=True)
class OneSumResult(BallotResult):
    """Result of one encrypted sum to which each party or key holder adds its share of the noise.

    `colluders` may reveal their noise to each other and to the curator while epsilon holds; null if no party was asked.
    `remarks` explain its numbers.
    """

    derived: ClassVar[tuple[str, ...]] = (*Result.derived, "key_bits", "threshold", "noise_source")
    needs: ClassVar[tuple[str, ...]] = ("holders", "threshold")

    privacy: Release
    colluders: Count | None
    remarks: list[str] = field(default_factory=list)

    def _rows(self) -> Iterator[Fact]:
        yield from super()._rows()
        yield from sentences("note", *self.remarks)
        if self.asked:
            yield from self._ballot_facts()


@dataclass(frozen=True, kw_only=True)
class RunResult(OptionsResult):
    """Result of one run of a protocol on a data set.

    Attributes:
        protocol: name of the protocol in the security analysis.
        features, test: number of features, d, and of test samples.
        class_names: names of the K classes.
        test_shares: share of each class in the test samples, (K,); empty without any.
        delta: of a release, the largest if there are several, with numerical error; 2^-64 for a pure epsilon.
        accuracy: on the test set, by method. No role learns what the simulation measures without noise.
        peak_memory_mb: of all processes together; null if it was not measured.
        remarks: explanations of its numbers.
        colluders: as in `OneSumResult`; null if no party adds noise.
        evaluation: every classifier and every opened sum; empty if the result was read from JSON. Secrets.
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
        "advice",
    )
    needs: ClassVar[tuple[str, ...]] = ("data",)

    protocol: str
    features: Count
    test: Count
    class_names: Annotated[list[str], Meta(min_length=2)]
    delta: Share
    accuracy: dict[str, Accuracy]
    test_shares: list[Share] = field(default_factory=list)
    peak_memory_mb: float | None = None
    remarks: list[str] = field(default_factory=list)
    colluders: Count | None = None
    evaluation: Evaluation = field(default_factory=Evaluation, repr=False, compare=False, metadata=IN_MEMORY)
    transcript: Transcript | None = field(default=None, repr=False, compare=False, metadata=IN_MEMORY)

    @property
    def classes(self) -> int:
        """Number of classes, K."""
        return len(self.class_names)

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

        return self._read.data is not None or self.dataset not in NAMES

    @property
    def notice(self) -> str:
        return PRIVATE_ROWS_NOTICE if self.own_rows else ""

    @property
    def sensitivity(self) -> dict[str, float | None]:
        """Sensitivity of each release; None if it is a secret."""
        return {name: release.sensitivity for name, release in self.releases.items()}

    def page(self) -> Page:
        page, peak = super().page(), self.peak_memory_mb
        memory = [] if peak is None else [Fact("fact", "Peak memory, workers included", peak, " MB")]
        facts = [*page.facts, *memory]
        return replace(page, facts=facts, accuracies=self.accuracy, class_names=self.class_names, case=self.protocol)

    def _rows(self) -> Iterator[Fact]:
        yield from super()._rows()
        if self.key_bits and 0 < 2 * self.threshold <= self._read.holders:
            yield from sentences(
                "warning",
                "Two groups of holders without a common member could open this key: a curator that lies could have two "
                "parts of the board opened and see the difference. Take a threshold above half of the holders.",
            )
        if self.key_bits and self.options.get("keys") == "dealer":
            yield Fact("before", "holder", "each is given a share of the key by a dealer, who sees the whole key once")
        if self.parties_are == "shards":
            protected = {release.unit for release in self.releases.values()}
            rows = {"party": "the rows of one shard", "record": "one row of one shard"}.get(" ".join(protected))
            yield from sentences(
                "note",
                f"The {self.parties} parties are shards of one {'table' if self.own_rows else 'published data set'}, "
                f"dealt at random by whoever ran this: epsilon protects "
                f"{rows or 'what the ledger names as its unit, in one shard'}, and says nothing of an institution, or "
                "of a person with rows in several shards.",
            )
        yield from sentences("note", *self.remarks)
        yield from sentences("advice", *self.advice)

    @property
    def advice(self) -> list[str]:
        """How the releases at the first epsilon compare with what needs none, and with what is not linear."""
        asked = [name for name, release in self._released.items() if release.epsilon != 0]
        hidden = [name for name, release in self._released.items() if release.signal and release.signal.useless]
        at = f" at epsilon {self.epsilon:g}" if len(np.atleast_1d(self._read.epsilon)) > 1 else ""
        about = self.test_shares, self.test, at
        return advice(self.accuracy, asked, self.linear_references, hidden, *about)

    @property
    def linear_references(self) -> tuple[str, ...]:
        """References that are linear classifiers as good as all rows give: none with a ridge that hides an effect."""
        return ()

    def _tables(self) -> list[Table]:
        """Return a table of balanced accuracy and AUROC where a class is rare."""
        if not rare_class(self.test_shares):
            return []
        rows: list[list[Any]] = []
        for name, one in self.accuracy.items():
            released = (None, None) if one.private is None else (one.balanced, one.auroc)
            values = one.nonprivate_balanced, released[0], one.nonprivate_auroc, released[1]
            rows.append([name, *map(with_deviation, values)])
        columns = ["method", "balanced, not private", "balanced, private", "AUROC, not private", "AUROC, private"]
        title = f"A class is {min(filter(None, self.test_shares)):.1%} of the test samples"
        return [Table(title, columns, rows, f"Of private methods at epsilon {self.epsilon:g}.")]

    @property
    def _released(self) -> dict[str, Release]:
        """The release of each method that has a private accuracy."""
        costs = self.releases
        first = next(iter(costs.values()), None)  # of the one method of a protocol whose ledger has no methods
        found = {name: costs.get(name, first) for name, one in self.accuracy.items() if one.private is not None}
        return {name: release for name, release in found.items() if release is not None}

    def _repeat(self) -> str:
        noise = "" if self.noise_source == "simulation" else ", the noise"
        return (
            f"Seed {self._read.seed} drives splits and training, never keys or encryption, so everything but the "
            f"keys, the ciphertexts{noise} and the times comes out the same."
        )

    def _answer(self) -> str:
        released = {name: entry.private for name, entry in self.accuracy.items() if entry.private is not None}
        if not released:
            return ""
        rare = rare_class(self.test_shares)
        best = max(released, key=lambda name: (self.accuracy[name].balanced or 0.0) if rare else released[name])
        accuracy, which = self.accuracy[best], "Best private" if len(released) > 1 else "Private"
        which += ", by balanced accuracy," if rare and len(released) > 1 else ""
        spread = " (one draw)" if accuracy.private_std is None else f" ± {accuracy.private_std:.3f}"
        lost = "" if accuracy.nonprivate is None else f"; without noise {accuracy.nonprivate:.3f}"
        unit = "party" if self.parties_are == "owners" else "shard"
        if {release.unit for release in self.releases.values()} == {"record"}:
            unit = "record"
        more = f"; {_ranking(accuracy)}" if rare else ""
        return f"{which} at epsilon {self.epsilon:g} per {unit}: {best} {released[best]:.3f}{spread}{lost}{more}"


@dataclass(frozen=True, kw_only=True)
class SumResult(BallotResult, RunResult):
    """Result of a run around one or several encrypted sums that key holders open.

    Attributes:
        auxiliary: number of public samples, N.
        mechanism: distribution of the noise.
        lam: regularisation of the parties' own classifiers.
        min_ballots: fewest ballots in a sum that holders open.
        degree: degree of the key (Damgard and Jurik).
        slots_per_plaintext: vector entries packed into one plaintext.
        privacy, composed: privacy cost of each release, by name, and of all together.
        draws: number of releases over which each private accuracy is the mean.
        by_epsilon: `accuracy` at each epsilon if there are several.
        measured_on: rows on which a method was trained or measured, by method, if not on all.
        continued_from: ballots that the journal of an interrupted run held when this run began.
    """

    derived: ClassVar[tuple[str, ...]] = (*RunResult.derived, "threshold")
    needs: ClassVar[tuple[str, ...]] = ("data", *_OPENING)

    auxiliary: Count
    mechanism: str
    lam: Positive
    min_ballots: Count
    slots_per_plaintext: Count
    privacy: dict[str, Release]
    degree: Count = 1
    composed: ComposedCost | None = None
    draws: Count = 1
    by_epsilon: dict[str, dict[str, Accuracy]] = field(default_factory=dict)
    measured_on: dict[str, Count] = field(default_factory=dict)
    continued_from: Count = 0

    @property
    def releases(self) -> dict[str, Release]:
        return self.privacy

    @property
    def opened(self) -> Opened:
        return "sum"

    @property
    def linear_references(self) -> tuple[str, ...]:
        return ("batch",) if self.lam <= LEAST_RIDGE else ()

    def _rows(self) -> Iterator[Fact]:
        yield from super()._rows()
        yield from sentences("cost", self._cost())
        decided = self._read.data is not None and self.options.get("anyway") is False  # beforehand, by a forecast
        useless = [name for name, release in self.privacy.items() if release.signal and release.signal.useless]
        if useless and not decided:
            yield from sentences(
                "warning",
                f"The noise hides what was learned ({', '.join(useless)}): the release is not expected to beat a "
                "classifier that always gives the most frequent class.",
            )
        if self.draws > 1:
            yield Fact("note", "", f"Private accuracies are means over {self.draws} releases.")
        if self.measured_on:
            rows = ", ".join(f"{name} {count:,}" for name, count in self.measured_on.items())
            yield Fact("note", "", f"Trained or measured on some rows only, chosen at random: {rows}.")
        yield from sentences("note", *(f"{n}: {r.worth}." for n, r in self.privacy.items() if r.worth))
        if not self.asked:
            yield from self._unasked_facts(self.auxiliary)
            return
        at = f" at delta = {self.delta:.3g} per release and {self.protected}"
        yield _equality_fact("Opened sums against the clear ones", self.exact)
        yield Fact("fact", "Public auxiliary samples", self.auxiliary)
        yield Fact("fact", "epsilon", self.epsilon, at)
        yield from self._ballot_facts()
        if self.privacy:
            released = ("one of " if len(self.privacy) > 1 else "") + ", ".join(self.privacy)
            noise = "that it adds" if self.colluders is None else f"that {self.trust().all_adders} added"
            does = f"releases {released}, with the noise {noise}, epsilon {self.epsilon:g}, for everybody"
            yield Fact("after", "curator", does)

    def page(self) -> Page:
        several = self.composed is not None and self.composed.releases > 1
        page = replace(super().page(), panels=self._panels(), several_releases=several)
        if not self.asked or len(self.privacy) != 1:
            return page
        (name,) = self.privacy
        return replace(page, title=f"Psephos: {METHODS[name]}, {self.dataset} at epsilon {self.epsilon:g}")

    def _answer(self) -> str:
        if len(self.privacy) != 1 or self.draws != 1:
            return super()._answer()
        ((name, release),) = self.privacy.items()
        units = "parties" if self.parties_are == "owners" else "shards dealt at random"
        whom = f"each {self.protected}" if release.unit == "record" else "each"
        private = f", private for {whom} of {self.parties} {units} at {cost_text(release)}"
        accuracy, worth = self.accuracy[name], ""
        if accuracy.private is not None and self.test_shares:
            right = f"right on {accuracy.private:.1%} of {self.test} held-out rows"
            worth = f": {right}, of which {max(self.test_shares):.1%} are of one class"
            worth += f"; {_ranking(accuracy)}" if rare_class(self.test_shares) else ""
        if not self.asked:
            return (
                "The model of the public rows, at epsilon 0: no gain of a private release is expected, and the "
                f"parties were asked nothing{worth}."
            )
        return f"One {name} classifier{private}{worth}."

    def _cost(self) -> str:
        if (total := self.composed) is None:
            return ""
        if not total.releases:
            return "This run asked the parties nothing, and spent no epsilon."
        spent = "no finite epsilon" if total.epsilon is None else f"epsilon {total.epsilon:.4g}"
        at = f"{spent} at delta {total.delta:.3g} on each {self.protected}, numerical error included"
        if total.releases == 1:
            return f"This run drew one release, which spends {at}."
        return (
            f"Whoever published all {total.releases} classifiers that this run drew would spend {at}. A run draws them "
            "side by side to compare them; release one."
        )

    def _panels(self) -> list[Panel]:
        """Return accuracy and balanced accuracy against epsilon, if there are several epsilons."""
        x = [float(epsilon) for epsilon in self.by_epsilon]
        note = "the same sums, released anew with fresh noise at each epsilon"
        if self.colluders is not None:
            note = "a sum of its own at each epsilon, with fresh noise"
        notes = {"private": f"{note}. {self._cost().rstrip('.')}", "balanced": note}  # publishing it publishes them all
        panels = []
        for which, title, reference in _CURVES:
            curves = []
            for name in self.privacy if x else ():
                points = [at[name] for at in self.by_epsilon.values()]
                spread = [std for point in points if (std := getattr(point, f"{which}_std")) is not None]
                mean = [getattr(point, which) or 0.0 for point in points]
                curves.append(Curve(name, x, mean, spread if len(spread) == len(x) else None))
            levels = {name: getattr(self.accuracy.get(name), reference, None) for name in ("batch", "indiv")}
            known = {name: level for name, level in levels.items() if level is not None}
            panels.append(Panel("", AXIS, title, curves, note=notes[which], levels=known))
        return panels if x else []

    def _tables(self) -> list[Table]:
        """Return also a table of the recall of each class at each epsilon."""
        tables = super()._tables()
        for epsilon, accuracy in (self.by_epsilon or {f"{self.epsilon:g}": self.accuracy}).items():
            methods = {name: one for name, one in accuracy.items() if len(one.recall) == len(self.class_names) > 0}
            rows: list[list[Any]] = [
                ["method", *self.class_names],
                *(
                    [name, *map(with_deviation, one.recall, one.recall_std or [None] * len(one.recall))]
                    for name, one in methods.items()
                ),
            ]
            if len(methods) < len(self.class_names):  # transpose to the narrower table
                rows = [list(row) for row in zip(*rows, strict=True)]
            if methods:
                about = "the share of its test samples that is recognised"
                about += "; of private methods the mean and standard deviation of releases" if self.draws > 1 else ""
                title = f"Recall of each class at epsilon {epsilon}"
                tables.append(Table(title, rows[0], rows[1:], about, detail=True))
        return tables


@dataclass(frozen=True, kw_only=True)
class TallyResult(SumResult):
    """Votes counted under encryption, or their private statistic (`reveal`); `alpha` is not for release."""

    kind: ClassVar[str] = "tally"
    needs: ClassVar[tuple[str, ...]] = (*SumResult.needs, "reveal")

    alpha: Alpha | None = None

    @property
    def reveal(self) -> Literal["alpha", "statistic"]:
        """The value that the curator learns: the vote counts ("alpha"), or the statistic with noise ("statistic")."""
        statistic = self._read.unit == "record" or self._read.reveal == "statistic"
        return "statistic" if statistic else "alpha"

    @property
    def opened(self) -> Opened:
        return "sum" if self._read.reveal is None else "counts"

    def page(self) -> Page:
        return replace(super().page(), histogram=self.alpha if self.asked else None)

    def _rows(self) -> Iterator[Fact]:
        yield from super()._rows()
        if not self.asked or not self.privacy:
            return
        shared = facts(self.trust())
        (noise,) = (each.value for each in shared if each.topic == "noise")
        (curator,) = (each.value for each in shared if each.label == "the curator")
        yield Fact("note", "", f"{noise[0].upper()}{noise[1:]}. The curator is given {curator}.")
        if self.reveal == "statistic":
            return
        if more := [name for name in ("avg", "own-data", "whitened") if name in self.accuracy]:
            sums = "the parties add other vectors in encrypted sums of their own: the curator is given these exact sums"
            yield Fact("note", "", f"For {' and '.join(more)} {sums}, too.")
        yield Fact("note", "", f"{ALPHA_NOTICE[0].upper()}{ALPHA_NOTICE[1:]}.")


@dataclass(frozen=True, kw_only=True)
class AverageResult(SumResult):
    """The encrypted sum of the parties' parameters, or of directions of their own rows, without votes."""

    kind: ClassVar[str] = "average"


@dataclass(frozen=True, kw_only=True)
class PathakResult(RunResult):
    """Result of Pathak 2010, from the agreement to the published shares. Its method is named "pathak".

    `epsilon_proved` protects `epsilon_proved_for`; `epsilon_party_level` a party's data apart from their size (null if
    nothing is proved). `shares_equal_reference`: whether the published shares add up to the sum in the clear.
    """

    kind: ClassVar[str] = "pathak"
    derived: ClassVar[tuple[str, ...]] = (*RunResult.derived, "privacy")
    needs: ClassVar[tuple[str, ...]] = ("data", "variant")

    epsilon_proved: Positive
    epsilon_proved_for: str
    epsilon_party_level: Positive | None
    shares_equal_reference: bool

    @property
    def key_bits(self) -> int:
        return super().key_bits if self._read.variant in ("printed", "repaired") else 0

    @property
    def exact(self) -> bool | None:
        return self.shares_equal_reference

    @property
    def privacy(self) -> dict[str, Release]:
        """One release under two units; its sensitivity may depend on a party's size, a secret, and is left out."""
        variant, noise = self._read.variant, self._read.noise
        own = "one party's own noise" if variant == "printed" else "a share of noise from every party"
        grid = "L2, S + g sqrt(d)" if noise == "spherical" else "L1, sqrt(d) S + g d"
        size = "S = (2/n + 2 tau)/mu, n the smallest size (Chaudhuri and Monteleoni 2008, corollary 2)"
        source = f"{grid} on a grid of pitch g; {size}"
        cost = (f"{noise}, {own}", self.epsilon_proved, self.delta, self.epsilon_proved_for)
        releases = {"the published shares": Release(*cost, source=source)}
        if self.epsilon_party_level is not None:
            source = "no minimiser is longer than R: S = 2 R, whatever the party's data; the paper claims nothing"
            party = (cost[0], self.epsilon_party_level, self.delta, "party, its size apart")
            releases["the same release, for a party"] = Release(*party, source=source)
        return releases

    releases = privacy

    def _rows(self) -> Iterator[Fact]:
        yield from super()._rows()
        proved = f", {self.epsilon_proved:.4g} ({self.epsilon_proved_for})"
        key = f"{self.key_bits:,} bits" if self.key_bits else "none: only shares travel"
        yield _equality_fact("Published shares against the clear sum", self.exact)
        yield Fact("fact", "Parties", self.parties)
        yield Fact("fact", "epsilon asked, and proved", self.epsilon, proved)
        yield Fact("fact", "Paillier keys", key)
        yield from sentences(
            "note",
            "The rows of the ledger are promises about one release: what replacing one record, and what replacing all "
            "of one party's, can change. They are not added up.",
        )


@dataclass(frozen=True)
class Guarantee:
    """Privacy guarantee of a private descent (`psephos.curator.psgd`) at `delta`. Infinite epsilons are null.

    Attributes:
        unit: what is protected.
        delta: requested delta, which includes `delta_samplers`, for truncation and sampling.
        epsilon_final, final_is: claimed for the classifier, and the statement that claims it.
        epsilon_step: of one noisy sum alone.
        epsilon_transcript, epsilon_transcript_pure: of everything the curator saw, at `delta` and at delta = 0.
        delta_samplers: part of `delta`.
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
class PsgdResult(RunResult):
    """Result of Rajkumar 2012, private gradient descent on the encrypted sum. Its method is named "psgd".

    Attributes:
        records, party_sizes: number of records N, and of those of each party.
        steps, resumed_at: number of steps computed, and of those that the journal held at the start.
        seconds_per_step: mean time of a step; null if the journal held all steps.
        guarantee: with the two epsilons `epsilon_final` and `epsilon_transcript`.
        gradient_sensitivity: L2 sensitivity of a step's sum to one record.
        sigma, slack, gradient_bound: deviation of the fixed noise per entry, Delta, and the agreed bound.
        gradients_clipped_here: number of gradients above the bound that were scaled down in this run.
        sums_equal_reference: whether every opened sum equals the one in the clear; null if no step was opened here.
        ciphertexts_per_ballot, bytes_per_ballot, bytes_posted: of a ballot, and of all roles in the whole run.
        w: weights of the classifier, (d,).
    """

    kind: ClassVar[str] = "psgd"
    derived: ClassVar[tuple[str, ...]] = (
        *RunResult.derived,
        "threshold",
        "privacy",
        "epsilon_final",
        "epsilon_transcript",
    )
    needs: ClassVar[tuple[str, ...]] = ("data", *_OPENING, "variant", "steps")

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
        joint = self._read.variant == "gaussian"
        releases["everything the curator saw"] = Release(
            mechanism=f"{'discrete Gaussian shares' if joint else 'spherical Laplace of every party'} at every step",
            epsilon=guarantee.epsilon_transcript,
            said="without a finite bound" if guarantee.epsilon_transcript is None else "",
            source=f"{source} and the grid, {self._read.steps:,} steps composed",
            chosen={"delta of the samplers": guarantee.delta_samplers},
            **common,
        )
        return releases

    releases = privacy

    def _rows(self) -> Iterator[Fact]:
        yield from super()._rows()
        if self.exact is None:
            yield Fact("fact", "Opened sums", "none here: every step was in the journal")
        else:
            yield _equality_fact("Opened sums against the clear ones", self.exact)
        yield Fact("fact", "Parties", self.parties)
        yield Fact("fact", "Gradient steps", self.steps, f" on {self.records:,} records")
        if self.seconds_per_step is not None:
            yield Fact("fact", "A step", self.seconds_per_step, " s")
        yield Fact("fact", "epsilon", self.epsilon, f" at delta = {self.delta:.3g}")
        yield Fact("fact", "Paillier key", self.key_bits, " bits")
        yield from self._opening_facts()
        yield from sentences(
            "note",
            "The classifier alone, and every noisy sum that led to it, are two promises about one run. Whoever saw the "
            "sums, as the curator did, counts with the second.",
        )
        does = "releases the last iterate, which everybody can work out from the published sums"
        yield Fact("after", "curator", does)


@dataclass(frozen=True, kw_only=True)
class InterruptedResult(Result):
    """Result of an interrupted run, which released nothing; `stopped` is a text that says where."""

    kind: ClassVar[str] = "interrupted"

    protocol: str
    options: dict[str, Any]
    stopped: str
    phases: dict[str, Phase] = field(default_factory=dict)

    def page(self) -> Page:
        lead = "Nothing was released: the run ended before. The transcript has what was sent until then."
        stopped = f"This run was interrupted: stopped {self.stopped}. What follows is what there was."
        return Page(
            title=f"Psephos: {self.protocol}, interrupted",
            facts=[*sentences("warning", stopped), *sentences("lead", lead)],
            case=self.protocol,
        )


def _ranking(accuracy: Accuracy) -> str:
    """Return what is said of a method beside its accuracy where a class is rare."""
    known = {"balanced accuracy": accuracy.balanced, "AUROC": accuracy.auroc}
    return ", ".join(f"{name} {value:.3f}" for name, value in known.items() if value is not None)


def _equality_fact(label: str, equal: bool | None) -> Fact:
    """Return the fact that compares opened values with those in the clear; `equal`: whether they are equal."""
    return Fact("fact", label, "equal, entry by entry" if equal else "THEY DIFFER")
