"""The options of every simulation around encrypted sums, and what can be released from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psephos.budget import unit_of_run
from psephos.curator.checks import check_positive
from psephos.curator.hamm.rules import HAMM_LAMBDA
from psephos.curator.methods import ReleaseRequest
from psephos.curator.noise_plan import check_mechanism
from psephos.curator.statistic import MechanismName
from psephos.data.datasets import Dataset
from psephos.data.own import OwnTable
from psephos.data.partition import one_of
from psephos.data.splits import Split
from psephos.options import option
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import check_degree
from psephos.protocol.privacy.mechanisms import check_delta, check_epsilon
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.simulation.holder_options import BallotOptions, ClusterOptions, HolderOptions
from psephos.specs.terms import PrivacyTerms

KDD99_SPLIT = (22, 43_000)
"""Numbers of private rows per party and of auxiliary samples in Hamm's (2016) split of KDD-99."""

RECORD_METHODS = ("newton",)
"""What can be released with privacy of a record (`psephos.curator.record`)."""

LABELLED_METHODS = ("rehearsed",)
"""What can be released only where public rows have labels (`psephos.curator.rehearsed`)."""

METHODS = ("vote", "soft", "avg", "statistic", "vote-directions", "own-data", "whitened", "pate")
"""What can be released from encrypted sums (`psephos.curator.methods`)."""


@dataclass(frozen=True, kw_only=True)
class SumOptions(BallotOptions, ClusterOptions, HolderOptions):
    """What every simulation around an encrypted sum is asked for; a field is an option of its command."""

    auxiliary: int | None = option(
        None, "The number of public auxiliary samples.", shown="the rest of the training data"
    )
    epsilon: tuple[float, ...] = option((1.0,), "Privacy of each release, of a party: one or several.", group="Privacy")
    delta: float = option(
        1e-6,
        "Target of gaussian noise. Every result states the delta of its release: this target, or for other noise "
        "2^-64, which covers numerical error.",
        group="Privacy",
    )
    lam: float | None = option(
        None, "The ridge lambda of every fit and release.", group="Privacy", shown="each method's public rule"
    )
    mechanism: MechanismName | None = option(
        None,
        "The noise of the release.",
        group="Privacy",
        shown="as the release takes it",
    )
    methods: tuple[str, ...] = option(
        (),
        f"What to release and compare, of {', '.join(METHODS)}; where the parties add the noise and public rows have "
        f"labels also {', '.join(LABELLED_METHODS)}.",
        group="Privacy",
        shown="all of the former that there are",
    )
    draws: int | None = option(
        None, "Releases at each epsilon.", group="Privacy", shown="20; 1 where the parties add the noise"
    )
    degree: int | None = option(
        None,
        "The degree of the key (Damgard and Jurik): 1 is Paillier's; 2 to 4 send fewer bytes and take longer to open.",
        group="Encryption",
        shown="what the first vectors summed take fewest bytes with",
    )
    min_ballots: int | None = option(
        None, "Holders open no sum of fewer ballots.", group="Encryption", shown="half of the parties"
    )

    def check(self) -> None:
        """Raise InvalidParameter for numbers that no run can have, before anything is computed."""
        super().check()
        if self.degree is not None:
            check_degree(self.degree)
        for epsilon in self.epsilon:
            check_epsilon(epsilon)
        if not self.epsilon or len(set(self.epsilon)) < len(self.epsilon):
            raise InvalidParameter("give one epsilon or several, each once")
        if self.lam is not None:
            check_positive(self.lam, "lambda")
        check_delta(self.delta)
        for name, number in (("--workers", self.workers), ("--draws", self.drawn)):
            if number < 1:
                raise InvalidParameter(f"{name} must be at least 1, not {number}")
        if self.proofs == "valid" and self.randomness == "full":
            raise InvalidParameter("ballots are proved valid in randomness modes half and short, not in full")
        check_mechanism(self.noise, joint=self.joint)
        for name in self.methods:
            one_of("methods", name, *self.available)
        if self.auxiliary is not None and self.auxiliary < 1:
            raise InvalidParameter(f"auxiliary samples are needed: --auxiliary is at least 1, not {self.auxiliary}")
        if self.min_ballots is not None and not 2 <= self.min_ballots <= self.parties:
            raise InvalidParameter(
                f"the minimum number of ballots lies between 2 and the parties, not {self.min_ballots}"
            )

    @property
    def joint(self) -> bool:
        """Whether the parties add the noise."""
        return False

    def deal(self, data: Dataset | OwnTable, *, samples: int | None = None, auxiliary: int | None = None) -> Split:
        """See `DataOptions.deal`; KDD-99 is assigned as in Hamm 2016, section 6.2, if it has enough rows."""
        auxiliary = self.auxiliary
        if isinstance(data, Dataset) and data.name == "kdd99" and self.samples_per_party is None and auxiliary is None:
            size, public = KDD99_SPLIT
            if self.parties * size + public <= len(data.y_train):
                samples, auxiliary = size, public
        return super().deal(data, samples=samples, auxiliary=auxiliary)

    @property
    def available(self) -> tuple[str, ...]:
        """Methods that these options allow."""
        return METHODS

    @property
    def offered(self) -> tuple[str, ...]:
        """Methods that are released, in the order in which they are shown."""
        return tuple(name for name in self.available if not self.methods or name in self.methods)

    @property
    def drawn(self) -> int:
        """Releases of each method at each epsilon."""
        return (1 if self.joint else 20) if self.draws is None else self.draws

    @property
    def may_choose_laplace(self) -> bool:
        """Whether Laplace noise may replace Gaussian noise where its variance is smaller."""
        return False

    @property
    def protects(self) -> PrivacyUnit:
        """What neighbouring inputs of every release differ in, as far as the options say."""
        return unit_of_run(self, "record" if self.protects_records else "party")

    @property
    def noise(self) -> MechanismName:
        """The mechanism: the spherical Laplace by default, the discrete Laplace where parties add the noise."""
        return self.mechanism or ("discrete-laplace" if self.joint else "spherical-laplace")

    @property
    def coalition(self) -> int | None:
        """How many parties may tell the curator their noise shares; None where the curator adds the noise."""
        return None

    @property
    def rehearses(self) -> bool:
        """Whether a step from a model of labelled public rows is released."""
        return bool(set(self.methods) & set(LABELLED_METHODS))

    @property
    def divides_rows(self) -> bool:
        """Whether rows are divided by a constant feature, which the scaling must then have."""
        return self.rehearses

    @property
    def private_auxiliary(self) -> bool:
        """Whether an auxiliary sample is private too, so that nothing may be learned on them."""
        return False

    @property
    def local_learners(self) -> tuple[Any, ...]:
        """Local classifiers, dealt to the parties in turn: names, or scikit-learn classifiers."""
        return ("logistic",)

    @property
    def local_lam(self) -> float:
        """lambda of the parties' own classifiers, and of everything without noise."""
        return HAMM_LAMBDA if self.lam is None else self.lam

    def request(self, epsilon: float) -> ReleaseRequest:
        """Return what every method is asked for."""
        return ReleaseRequest(epsilon, self.delta, self.noise, self.lam, self.private_auxiliary)

    def privacy(self, epsilon: float) -> PrivacyTerms:
        """Return what a release protects, and against whom."""
        return PrivacyTerms(
            epsilon=epsilon,
            delta=self.delta,
            mechanism=self.noise,
            unit="record" if self.protects_records else "party",
            persons=self.person_column or "",
            colluders=self.coalition or 0,
            lam=self.lam,
            least_noise=self.may_choose_laplace,
        )

    @property
    def noise_coins(self) -> Randomness:
        """Where the curator's noise comes from."""
        return SimulationRandomness(self.seed, "noise") if self.simulate_noise else SYSTEM
