"""Outcomes of protocols: the tally (votes or the private statistic), the average, Pathak's average, private descent."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from psephos.curator.ledger import Release
from psephos.results.base import (
    ALPHA_NOTICE,
    Accuracy,
    Alpha,
    Count,
    Curve,
    Fact,
    Outcome,
    Page,
    Panel,
    Phase,
    Positive,
    Seconds,
    Share,
    Table,
    useless_warning,
)

SAFE_BITS = 2048

PRIVATE_ROWS_NOTICE = (
    "Not for publication: this holds numbers that were computed on private rows (accuracies, and alpha where counts "
    "were opened), which no epsilon covers. Only whoever may see those rows may see it."
)
"""Stands first wherever the result of a run on a user's own rows is shown or saved."""


def test_key_warning(key_bits: int) -> list[str]:
    """What is said wherever a result under a short key is shown."""
    return [f"A {key_bits}-bit key is a test key: it protects nothing."] if 0 < key_bits < SAFE_BITS else []


test_key_warning.__test__ = False  # type: ignore[attr-defined] # no test, whatever pytest makes of its name


def colluders_text(colluders: int, threshold: int) -> str:
    """What noise that the parties add in shares is sized for, and a warning where key holders alone could pass that.

    `threshold`: how many holders open a sum; 0 where there is no key.
    """
    if colluders == 0:
        said = "0: epsilon holds only while no party tells another one its noise"
    else:
        who = "any party that tells" if colluders == 1 else f"any {colluders} parties that tell each other and"
        whose = "its" if colluders == 1 else "their"
        said = f"{colluders}: epsilon holds against {who} the curator {whose} noise"
    if colluders >= threshold - 1:
        return said
    return (
        f"{said}. WARNING: {threshold - 1} key holders, who cannot open a sum, together learn more than epsilon allows"
    )


@dataclass(frozen=True)
class Composed:
    """What all releases of a run cost a party together, had somebody published every one of them.

    Attributes:
        releases: how many there were.
        epsilon: at `delta`, the accountant's own error included; None where no finite one holds.
        delta: at which that is stated.
    """

    releases: Count
    epsilon: Positive | None
    delta: Share


@dataclass(frozen=True, kw_only=True)
class Run(Outcome):
    """One run of a protocol on a data set.

    Attributes:
        protocol: the name under which the security analysis knows it.
        dataset: its name.
        parties: data owners, M.
        features: d.
        test: test samples.
        epsilon: asked for.
        delta: of a release, the largest where there are several, numerical error included: 2^-64 for a pure epsilon.
        key_bits: of the Paillier modulus.
        accuracy: on the test set, by method. Without noise: measured by the simulation, for no role to know.
        noise_source: "simulation" means drawn from the seed, which protects nobody.
        seed: of splits and training.
        options: everything that was asked for.
        peak_memory_mb: of all processes, where it was measured.
        cautions: what a reader must not miss about this run.
        remarks: what helps to understand its numbers.
        not_private: why no epsilon covers what is released, whatever is stated; "" where it does.
        colluders: how many parties may tell each other and the curator their noise, and epsilon still holds; null
            where no party adds noise.
    """

    derived: ClassVar[tuple[str, ...]] = ("parties_are", "sensitivity")

    protocol: str
    dataset: str
    parties: Count
    features: Count
    test: Count
    epsilon: Positive
    delta: Share
    key_bits: Count
    accuracy: dict[str, Accuracy]
    noise_source: Literal["system", "simulation"]
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    peak_memory_mb: float | None = None
    cautions: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    not_private: str = ""
    colluders: Count | None = None

    @property
    def own_rows(self) -> bool:
        """Whether the rows are a user's own: of a table that `--data` names, or of arrays. Published data sets are
        told by their names."""
        from psephos.data.datasets import NAMES

        return self.options.get("data") is not None or self.dataset not in NAMES

    @property
    def notice(self) -> str:
        return PRIVATE_ROWS_NOTICE if self.own_rows else ""

    @property
    def parties_are(self) -> Literal["owners", "shards"]:
        """What a party is: "owners" where a column of the table says whose each row is (`--party`), "shards" of one
        table or data set, dealt at random by whoever ran it, otherwise."""
        return "shards" if self.options.get("party") is None else "owners"

    @property
    def sensitivity(self) -> dict[str, float | None]:
        """Of each release; None where it is a secret."""
        return {name: release.sensitivity for name, release in self.releases.items()}

    @property
    @abstractmethod
    def releases(self) -> dict[str, Release]:
        """What each release costs."""

    def page(self) -> Page:
        said = [*([self.not_private] if self.not_private else []), *self.cautions, *test_key_warning(self.key_bits)]
        if self.noise_source == "simulation":
            said.append("The noise was drawn from the seed. Whoever knows it can take it off: nothing here is private.")
        if self.exact is False:
            said.append("What was opened is not what the clear computation says. Do not use this result.")
        noise, peak = "" if self.noise_source == "simulation" else ", the noise", self.peak_memory_mb
        return Page(
            title=f"Psephos: {self.protocol} on {self.dataset} at epsilon {self.epsilon:g}",
            notice=self.notice,
            answer=self._answer(),
            facts=[] if peak is None else [("Peak memory, workers included", peak, " MB")],
            warnings=said,
            notes=[*self._shards_note(), *self.remarks],
            accuracies=self.accuracy,
            releases=self.releases,
            case=self.protocol,
            repeat=f"Seed {self.seed} drives splits and training, never keys or encryption, so everything but the "
            f"keys, the ciphertexts{noise} and the times comes out the same.",
        )

    def _shards_note(self) -> list[str]:
        """What epsilon protects where the parties are simulated."""
        if self.parties_are == "owners":
            return []
        protected = {release.unit for release in self.releases.values()}
        rows = "the rows of one shard" if protected == {"party"} else "what the ledger names as its unit, in one shard"
        return [
            f"The {self.parties} parties are shards of one {'table' if self.own_rows else 'published data set'}, dealt "
            f"at random by whoever ran this: epsilon protects {rows}, and says nothing of an institution, or of a "
            "person with rows in several shards."
        ]

    def _answer(self) -> str:
        """The best private accuracy, and what it lost to the noise."""
        released = {name: one.private for name, one in self.accuracy.items() if one.private is not None}
        if not released:
            return ""
        best = max(released, key=lambda name: released[name])
        found, which = self.accuracy[best], "Best private" if len(released) > 1 else "Private"
        if self.not_private:
            which = "With noise, but not private,"
        spread = " (one draw)" if found.private_std is None else f" ± {found.private_std:.3f}"
        lost = "" if found.nonprivate is None else f"; privacy cost {found.nonprivate - released[best]:.3f}"
        return f"{which} at epsilon {self.epsilon:g}: {best} {released[best]:.3f}{spread}{lost}"


_MODELS = {
    "none": "everybody follows the protocol (no proofs); ",
    "knowledge": "ballots and partial decryptions carry proofs: a ballot made of others' ciphertexts is refused; ",
    "valid": "ballots and partial decryptions carry proofs: votes are 0 or 1 and their senders' own; ",
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
class Summed(Run):
    """A run around an encrypted sum that key holders open.

    Attributes:
        ballots: counted.
        auxiliary: public samples, N.
        mechanism: the noise, chosen by the caller or by rule.
        scaling: how rows came into the unit ball.
        lam: the ridge of the parties' own classifiers.
        randomness: of the encryption.
        holders: of the key.
        threshold: how many of them open a sum.
        min_ballots: they open no sum of fewer.
        keys: who made the key.
        proofs: what ballots and parts of openings prove.
        degree: of the key (Damgard and Jurik).
        slots_per_plaintext: of the packing.
        ciphertexts_per_ballot: of the packing.
        bytes_per_ballot: as it travels.
        tally_equals_plaintext: whether every opened sum is the clear one, entry by entry.
        privacy: what each release costs.
        composed: what all of them cost together.
        draws: releases that each private accuracy is the mean of.
        class_names: of the K classes.
        by_epsilon: `accuracy` at each epsilon, where several were asked for; it is that at the first.
        measured_on: rows that a method was trained or measured on, where they were not all.
        continued_from: ballots, over all sums, that the journal of an interrupted run held when this run began.
    """

    ballots: Count
    auxiliary: Count
    mechanism: str
    scaling: str
    lam: Positive
    randomness: str
    holders: Count
    threshold: Count
    min_ballots: Count
    slots_per_plaintext: Count
    ciphertexts_per_ballot: Count
    bytes_per_ballot: Count
    tally_equals_plaintext: bool
    privacy: dict[str, Release]
    keys: Literal["dealer", "ceremony"] = "dealer"
    proofs: Literal["none", "knowledge", "valid"] = "none"
    degree: Count = 1
    composed: Composed | None = None
    draws: Count = 1
    class_names: list[str] = field(default_factory=list)
    by_epsilon: dict[str, dict[str, Accuracy]] = field(default_factory=dict)
    measured_on: dict[str, Count] = field(default_factory=dict)
    continued_from: Count = 0

    @property
    def exact(self) -> bool | None:
        return self.tally_equals_plaintext

    @property
    def releases(self) -> dict[str, Release]:
        return self.privacy

    def page(self) -> Page:
        page = super().page()
        degree = f" of degree {self.degree}" if self.degree > 1 else ""
        facts: list[Fact] = [
            _opened("Opened sums against the clear ones", self.exact),
            ("Parties", self.parties, ", ", self.ballots, " ballots counted"),
            ("Public auxiliary samples", self.auxiliary),
            (
                ("epsilon", "none: not private")
                if self.not_private
                else ("epsilon", self.epsilon, f" at delta = {self.delta:.3g}", " per release and party")
            ),
            ("Paillier key", self.key_bits, " bits", degree, f"; randomness of ciphertexts: {self.randomness}"),
            ("One ballot", self.bytes_per_ballot, " bytes; ciphertexts in it: ", self.ciphertexts_per_ballot),
            ("Opened by", self.threshold, " of ", self.holders, " key holders"),
            ("Assumed", _MODELS[self.proofs], _KEYS[self.keys]),
        ]
        return replace(
            page,
            facts=[*facts, *page.facts],
            warnings=[
                *page.warnings,
                *_threshold_warning(self.threshold, self.holders),
                *useless_warning(self.privacy),
            ],
            notes=[*self._draws_notes(), *self._signal_notes(), *page.notes],
            cost=self._cost(),
            panels=self._panels(),
            tables=self._recall(),
            class_names=self.class_names,
            before=_BEFORE[self.keys],
            after=[("curator", self._released())] if self.privacy else [],
        )

    def _released(self) -> str:
        several = "one of " if len(self.privacy) > 1 else ""
        return f"releases {several}{', '.join(self.privacy)} with noise, epsilon {self.epsilon:g}, for everybody"

    def _draws_notes(self) -> list[str]:
        said = [f"Private accuracies are means over {self.draws} releases."] if self.draws > 1 else []
        if self.measured_on:
            rows = ", ".join(f"{name} {count:,}" for name, count in self.measured_on.items())
            said.append(f"Trained or measured on some rows only, chosen at random: {rows}.")
        return said

    def _signal_notes(self) -> list[str]:
        return [f"{name}: {release.worth}." for name, release in self.privacy.items() if release.worth]

    def _cost(self) -> str:
        if (total := self.composed) is None:
            return ""
        spent = "no finite epsilon" if total.epsilon is None else f"epsilon {total.epsilon:.4g}"
        at = f"{spent} at delta {total.delta:.3g} on each party, numerical error included"
        if total.releases == 1:
            return f"This run drew one release, which spends {at}."
        return (
            f"Whoever published all {total.releases} classifiers that this run drew would spend {at}. A run draws them "
            "side by side to compare them; release one."
        )

    def _panels(self) -> list[Panel]:
        """Accuracy and balanced accuracy against epsilon."""
        label, x = "epsilon (log scale; more private to the left)", [float(epsilon) for epsilon in self.by_epsilon]
        note = "the same sums, released anew with fresh noise at each epsilon"
        accuracy: list[Curve] = []
        balanced: list[Curve] = []
        for name in self.privacy if x else ():
            points = [at[name] for at in self.by_epsilon.values()]
            for curves, which in ((accuracy, "private"), (balanced, "balanced")):
                spread = [std for point in points if (std := getattr(point, f"{which}_std")) is not None]
                mean = [getattr(point, which) or 0.0 for point in points]
                curves.append(Curve(name, x, mean, spread if len(spread) == len(x) else None))
        beside = {name: self.accuracy[name] for name in ("batch", "indiv") if name in self.accuracy}
        drawn = (
            ("accuracy", accuracy, {name: one.nonprivate for name, one in beside.items()}),
            ("balanced accuracy", balanced, {name: one.balanced for name, one in beside.items()}),
        )
        cost = f". {self._cost().rstrip('.')}"  # looking at a curve is what costs
        return [
            Panel("", label, title, curves, note=said, levels={n: y for n, y in levels.items() if y is not None})
            for (title, curves, levels), said in zip(drawn, (note + cost, note), strict=True)
            if curves
        ]

    def _recall(self) -> list[Table]:
        found = []
        for epsilon, accuracy in (self.by_epsilon or {f"{self.epsilon:g}": self.accuracy}).items():
            shown = {name: one for name, one in accuracy.items() if len(one.recall) == len(self.class_names) > 0}
            rows: list[list[Any]] = [
                ["method", *self.class_names],
                *(
                    [name, *map(_spread, one.recall, one.recall_std or [None] * len(one.recall))]
                    for name, one in shown.items()
                ),
            ]
            if len(shown) < len(self.class_names):  # the way that is narrower
                rows = [list(row) for row in zip(*rows, strict=True)]
            if shown:
                about = "the share of its test samples that is recognised"
                about += "; of private methods the mean and standard deviation of releases" if self.draws > 1 else ""
                found.append(Table(f"Recall of each class at epsilon {epsilon}", rows[0], rows[1:], about))
        return found


@dataclass(frozen=True, kw_only=True)
class TallyOutcome(Summed):
    """Votes counted under encryption (`reveal` "alpha"), or their private statistic (`reveal` "statistic").

    Attributes:
        reveal: what the curator is given.
        classes: K.
        alpha: how the opened counts are distributed, for a report; the curator learns it, and it is not for release.
    """

    kind: ClassVar[str] = "tally"

    reveal: Literal["alpha", "statistic"]
    classes: Annotated[int, Meta(ge=2)]
    alpha: Alpha | None = None

    def page(self) -> Page:
        page = super().page()
        if self.colluders is not None:
            page = replace(page, facts=_with_colluders(page.facts, self.colluders, self.threshold))
        said = (
            "The parties add the noise before anything is opened, so the curator is given the noisy sum and no exact "
            f"one. {self.threshold} key holders together could open any ballot."
        )
        if self.reveal == "alpha":
            said = f"alpha is given to the curator by design; it is {ALPHA_NOTICE.partition(', ')[2]}."
            if more := [name for name in ("avg", "own-data", "whitened") if name in self.accuracy]:
                said += (
                    f" For {' and '.join(more)} the parties add other vectors in encrypted sums of their own; the "
                    "curator learns these sums as it learns alpha, and they are as little for release."
                )
        return replace(page, histogram=self.alpha, notes=[*page.notes, said])


@dataclass(frozen=True, kw_only=True)
class AverageOutcome(Summed):
    """The encrypted sum of the parties' parameters alone.

    Attributes:
        radius: of the ball that each party's parameters are projected on.
    """

    kind: ClassVar[str] = "average"

    radius: Positive


@dataclass(frozen=True, kw_only=True)
class PathakOutcome(Run):
    """Pathak 2010, from the agreement to the published shares. Its method is called "pathak".

    Attributes:
        variant: of the protocol: "printed", "repaired", or another.
        noise, comparisons, regulariser: as agreed.
        lam: of the objective.
        epsilon_proved, epsilon_proved_for: what holds, and for whom.
        epsilon_party_level: the same release, for a party, its size apart; None where nothing is proved.
        shares_equal_reference: whether the published shares add up to what the clear computation gives.
        stages: of the protocol, in order.
    """

    kind: ClassVar[str] = "pathak"
    derived: ClassVar[tuple[str, ...]] = ("parties_are", "sensitivity", "privacy")

    variant: str
    noise: str
    comparisons: str
    regulariser: str
    lam: Positive
    epsilon_proved: Positive
    epsilon_proved_for: str
    epsilon_party_level: Positive | None
    shares_equal_reference: bool
    stages: dict[str, Phase]

    @property
    def exact(self) -> bool | None:
        return self.shares_equal_reference

    @property
    def privacy(self) -> dict[str, Release]:
        """One release, two notions of privacy. Where its sensitivity is the smallest size's, it is a secret."""
        own = "one party's own noise" if self.variant == "printed" else "a share of noise from every party"
        mechanism = f"{self.noise}, {own}"
        grid = "L2, S + g sqrt(d)" if self.noise == "spherical" else "L1, sqrt(d) S + g d"
        found = {
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
            found["the same release, for a party"] = Release(
                mechanism,
                self.epsilon_party_level,
                self.delta,
                "party, its size apart",
                source="no minimiser is longer than R: S = 2 R, whatever the party's data; the paper claims nothing",
            )
        return found

    releases = privacy

    def page(self) -> Page:
        page = super().page()
        facts: list[Fact] = [
            _opened("Published shares against the clear sum", self.exact),
            ("Parties", self.parties),
            ("epsilon asked, and proved", self.epsilon, ", ", self.epsilon_proved, f" ({self.epsilon_proved_for})"),
            ("Paillier keys", *((self.key_bits, " bits") if self.key_bits else ("none: only shares travel",))),
        ]
        ledger = (
            "The rows of the ledger are promises about one release: what replacing one record, and what replacing all "
            "of one party's, can change. They are not added up."
        )
        return replace(page, phases=self.stages, facts=[*facts, *page.facts], notes=[*page.notes, ledger])


@dataclass(frozen=True)
class Guarantee:
    """What a private descent promises, and for what (`psephos.curator.psgd`). Infinite epsilons are None.

    Attributes:
        unit: "record" or "party": one replaced, sizes public.
        delta: the one that is stated: asked for, truncation and sampling included.
        epsilon_final, final_is: what is claimed for the classifier at `delta`, and what that claim is about.
        epsilon_step: of one noisy sum by itself.
        epsilon_transcript, epsilon_transcript_pure: of everything the curator saw, at `delta` and without one.
        delta_samplers: what truncation and sampling cost of it.
        assumed: who must be honest for it.
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
class PsgdOutcome(Run):
    """Rajkumar 2012, private gradient descent on the encrypted sum. Its method is called "psgd".

    Attributes:
        variant: of the noise at each step.
        loss, lam: of the objective.
        records, party_sizes: N and each party's share of it.
        steps, steps_agreed, resumed_at: made, agreed on, and found in a journal.
        guarantee: what is promised; `epsilon_final` and `epsilon_transcript` are its two epsilons.
        gradient_sensitivity: by how much one unit changes a step's sum, L2.
        sigma, slack, gradient_bound: standard deviation of the fixed noise per entry, Delta, and the agreed bound.
        on_excess, gradients_clipped_here: what a party does above the bound, and how often it did.
        sums_equal_reference: whether every opened sum is the clear one; None where all steps were in the journal.
        holders, threshold: who opens a step's sum, and how many it takes.
        keys: who made the key.
        proofs: what ballots and parts of openings prove.
        ciphertexts_per_ballot, bytes_per_ballot, bytes_posted: sizes.
        w: the classifier, (d,).
    """

    kind: ClassVar[str] = "psgd"
    repeated_parts: ClassVar[tuple[str, ...]] = ("per_step",)
    derived: ClassVar[tuple[str, ...]] = (
        "parties_are",
        "sensitivity",
        "privacy",
        "epsilon_final",
        "epsilon_transcript",
    )

    variant: str
    loss: str
    lam: Positive
    records: Count
    party_sizes: list[Count]
    steps: Count
    steps_agreed: Count
    resumed_at: Count
    guarantee: Guarantee
    gradient_sensitivity: Positive
    sigma: Annotated[float, Meta(ge=0)]
    slack: Annotated[float, Meta(ge=0)]
    gradient_bound: Positive
    on_excess: str
    gradients_clipped_here: Count
    sums_equal_reference: bool | None
    holders: Count
    threshold: Count
    ciphertexts_per_ballot: Count
    bytes_per_ballot: Count
    bytes_posted: Count
    w: list[float]
    keys: Literal["dealer", "ceremony"] = "dealer"
    proofs: Literal["none", "knowledge"] = "none"

    @property
    def exact(self) -> bool | None:
        return self.sums_equal_reference

    @property
    def epsilon_final(self) -> float | None:
        """What the paper claims for the classifier; None where nothing is."""
        return self.guarantee.epsilon_final

    @property
    def epsilon_transcript(self) -> float | None:
        """Of everything the curator saw; None where no finite one holds."""
        return self.guarantee.epsilon_transcript

    @property
    def privacy(self) -> dict[str, Release]:
        """The final classifier and everything that led to it: two statements about one run, which do not add up."""
        promised, found = self.guarantee, {}
        source = (
            "twice the bound of a party's gradient"
            if promised.unit == "party"
            else "2 L: one record's gradient, ||x|| <= 1 (Rajkumar 2012, section 4)"
        )
        common: dict[str, Any] = {"delta": self.delta, "unit": promised.unit, "norm": "l2"}
        common |= {"sensitivity": self.gradient_sensitivity}
        if promised.epsilon_final is not None:
            found["final classifier"] = Release(
                mechanism="Gaussian objective perturbation, a share from every party",
                epsilon=promised.epsilon_final,
                source=f"{source}; {promised.final_is}",
                chosen={"sigma": self.sigma},
                **common,
            )
        joint = self.variant == "gaussian"
        found["everything the curator saw"] = Release(
            mechanism="Skellam shares at every step" if joint else "spherical Laplace at every step, from every party",
            epsilon=promised.epsilon_transcript,
            said="without a finite bound" if promised.epsilon_transcript is None else "",
            source=f"{source} and the grid, {self.steps_agreed:,} steps composed",
            chosen={"delta of the samplers": promised.delta_samplers},
            **common,
        )
        return found

    releases = privacy

    def page(self) -> Page:
        page, per_step = super().page(), self.seconds.get("per_step")
        opened = _opened("Opened sums against the clear ones", self.exact)
        facts: list[Fact] = [
            opened if self.exact is not None else ("Opened sums", "none here: every step was in the journal"),
            ("Parties", self.parties),
            ("Gradient steps", self.steps, " on ", self.records, " records"),
            *([("A step", per_step, " s")] if per_step is not None else []),
            ("epsilon", self.epsilon, f" at delta = {self.delta:.3g}"),
            ("Paillier key", self.key_bits, " bits"),
            ("Opened by", self.threshold, " of ", self.holders, " key holders"),
            ("Assumed", _MODELS[self.proofs], _KEYS[self.keys]),
        ]
        promises = (
            "The classifier alone, and every noisy sum that led to it, are two promises about one run. Whoever saw the "
            "sums, as the curator did, counts with the second."
        )
        return replace(
            page,
            facts=_with_colluders([*facts, *page.facts], self.colluders or 0, self.threshold),
            warnings=[*page.warnings, *_threshold_warning(self.threshold, self.holders)],
            notes=[*page.notes, promises],
            before=_BEFORE[self.keys],
            after=[("curator", "releases the last iterate, which everybody can work out from the published sums")],
        )


@dataclass(frozen=True, kw_only=True)
class Interrupted(Outcome):
    """A run that was stopped: what was asked for, and where it ended. Nothing was released.

    Attributes:
        protocol: which.
        options: everything that was asked for.
        stopped: where, in words.
    """

    kind: ClassVar[str] = "interrupted"

    protocol: str
    options: dict[str, Any]
    stopped: str
    seconds: dict[str, Seconds | None] = field(default_factory=dict)

    def page(self) -> Page:
        return Page(
            title=f"Psephos: {self.protocol}, interrupted",
            lead="Nothing was released: the run ended before. The transcript has what was sent until then.",
            warnings=[f"This run was interrupted: stopped {self.stopped}. What follows is what there was."],
            case=self.protocol,
        )


def _spread(mean: float | None, std: float | None) -> str | None:
    return None if mean is None else f"{mean:.3f}" + ("" if std is None else f" ± {std:.3f}")


def _with_colluders(facts: Sequence[Fact], colluders: int, threshold: int) -> list[Fact]:
    """The facts, and after epsilon how many parties it holds against."""
    place = next((place + 1 for place, fact in enumerate(facts) if fact[0] == "epsilon"), len(facts))
    return [*facts[:place], ("Colluders", colluders_text(colluders, threshold)), *facts[place:]]


def _opened(words: str, equal: bool | None) -> Fact:
    return (words, "equal, entry by entry" if equal else "THEY DIFFER")
