"""The options of simulated runs: of keys, ballots and the machine, of sums with key holders, and what these release.

Which options a run reads is one table (`TallyOptions.readers`); another that was given is refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from psephos.budget import unit_of_run
from psephos.curator.checks import check_positive
from psephos.curator.class_shares import check_shares
from psephos.curator.hamm.rules import HAMM_LAMBDA
from psephos.curator.methods import ReleaseRequest
from psephos.curator.noise_plan import check_mechanism
from psephos.curator.record import ROWS_PER_PARTY
from psephos.curator.rehearsed import REHEARSED_ROWS
from psephos.curator.statistic import SOURCE_OF, MechanismName
from psephos.data.datasets import Dataset
from psephos.data.fit_features import FEATURES_HELP, Features
from psephos.data.own import OwnTable
from psephos.data.partition import DataOptions, one_of
from psephos.data.splits import Split
from psephos.options import OneOrMore, Options, option, refuse_unread
from psephos.parties.learners import LEARNERS, make_learner
from psephos.parties.noise import NoiseFrom, contributors
from psephos.protocol.encrypted_sum.rounds import Proofs
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.own_data import OWN
from psephos.protocol.paillier.encryption import RandomnessMode
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, check_degree, check_key_bits
from psephos.protocol.privacy.mechanisms import check_delta, check_epsilon
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.simulation.key_setup import Keys, check_holders
from psephos.specs.terms import PrivacyTerms

KDD99_SPLIT = (22, 43_000)
"""Numbers of private rows per party and of auxiliary samples in Hamm's (2016) split of KDD-99."""

CountedMethod = Literal["statistic", "soft", "vote", "pate"]
OtherMethod = Literal["vote-directions", "own-data", "whitened", "avg", "rehearsed", "newton", "auto"]

COUNTED = ("vote", "soft", "statistic", "pate")
"""Methods whose release is computed from the exact counts of votes."""

VOTED = (*COUNTED, "vote-directions")
"""Methods for which the parties' classifiers label the auxiliary samples."""

RECORD_METHODS = ("newton",)
"""What can be released with privacy of a record (`psephos.curator.record`)."""

LABELLED_METHODS = ("rehearsed",)
"""What can be released only where public rows have labels; it asks no party where it expects no gain."""

PUBLIC = "public"
"""The model of the labelled public rows, in place of any method: no party is asked."""

METHODS = ("vote", "soft", "avg", "statistic", "vote-directions", "own-data", "whitened", "pate")
"""What can be released from encrypted sums (`psephos.curator.methods`)."""

ALWAYS_JOINT = ("vote-directions", *OWN, *LABELLED_METHODS)
"""Methods whose sum a run opens only with the parties' noise."""

MIXED_LEARNERS = ("logistic", "tree", "knn", "naive-bayes")
"""Default local classifiers of the methods that count votes; the parties may train classifiers of any kind."""


@dataclass(frozen=True, kw_only=True)
class KeyOptions(Options):
    """The length of keys."""

    key_bits: int = option(DEFAULT_KEY_BITS, "Length of the Paillier modulus.", group="Encryption")
    test_key: bool = option(False, "Accept a key under 2048 bits: protects nothing.", group="Encryption")


@dataclass(frozen=True, kw_only=True)
class BallotOptions(Options):
    """How ballots are encrypted, and what they prove."""

    randomness: RandomnessMode = option("half", "The way in which ciphertexts are randomised.", group="Encryption")
    proofs: Proofs = option(
        "none",
        "What a ballot proves: nothing (parties follow the protocol), that its sender knows what is in it, or also "
        "that its votes are valid, or its vector within bounds. With proofs, holders prove their partial decryptions.",
        group="Encryption",
    )


@dataclass(frozen=True, kw_only=True)
class MachineOptions(Options):
    """How much of this machine is used."""

    workers: OneOrMore = option(
        None,
        "The most processes; up to 96 parties take one.",
        group="Machine",
        shown="up to 2",
        factory=lambda: min(2, os.cpu_count() or 1),
    )


@dataclass(frozen=True, kw_only=True)
class JournalOptions(Options):
    """Where an interrupted run is stored."""

    journal: str | None = option(
        None,
        "The directory for what is finished, from which an interrupted run continues. It contains secrets.",
        group="Machine",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(MachineOptions, JournalOptions):
    """On which machines parties are simulated."""

    engine: str = option(
        "local",
        "The machine or cluster on which parties are simulated: local, or a cluster, dask or ray.",
        group="Machine",
    )
    scheduler: str | None = option(None, "dask, ray: the cluster's address, HOST:PORT.", group="Machine")


@dataclass(frozen=True, kw_only=True)
class RunOptions(KeyOptions, DataOptions):
    """Options of every simulated run: its data, the length of its keys, and where its noise comes from."""

    simulate_noise: bool = option(False, "Draw the noise from the seed: repeatable, not private.", group="Machine")

    @property
    def protects(self) -> PrivacyUnit:
        """What neighbouring inputs of every release differ in, as far as the options say."""
        return unit_of_run(self, "record" if self.protects_records else "party")

    def check(self) -> None:
        """Raise InvalidParameter for invalid options, before anything is computed."""
        super().check()
        check_key_bits(self.key_bits, test_key=self.test_key)


@dataclass(frozen=True, kw_only=True)
class HolderOptions(RunOptions):
    """Options of a run with key holders, which are some of the parties.

    `usual_holders`: their number where `holders` is None. `joint`: whether the parties, or the holders, add the noise
    in shares, so that the curator learns no exact sum.
    """

    holders: int | None = option(
        None,
        "Number of key holders, the first n parties.",
        group="Encryption",
        shown="5 in most protocols, 3 in psgd; never more than the parties",
    )
    threshold: int | None = option(
        None,
        "Number of holders that open a sum. Holders who make the key themselves: at most half, rounded up.",
        group="Encryption",
        shown="with a dealer the smallest majority of the holders, else half of them, rounded up",
    )
    keys: Keys = option("dealer", "Who makes the key: a dealer, or the holders themselves.", group="Encryption")
    usual_holders: ClassVar[int] = 5

    @property
    def joint(self) -> bool:
        return True

    @property
    def key_holders(self) -> int:
        return min(self.usual_holders, self.parties) if self.holders is None else self.holders

    @property
    def opening_threshold(self) -> int:
        if self.threshold is not None:
            return self.threshold
        return (self.key_holders + 1) // 2 if self.keys == "ceremony" else self.key_holders // 2 + 1

    @property
    def coalition(self) -> Any:
        """Number of parties that may reveal their noise to the curator; None where the curator adds the noise."""
        colluders = vars(self).get("colluders")
        return None if not self.joint else self.opening_threshold - 1 if colluders is None else colluders

    def privacy(self, epsilon: float) -> PrivacyTerms:
        """Return what a release protects, and against whom."""
        return PrivacyTerms(
            epsilon=epsilon,
            unit="record" if self.protects_records else "party",
            persons=self.person_column or "",
            colluders=self.coalition or 0,
            dropouts=vars(self).get("dropouts", 0),
        )

    def check(self) -> None:
        super().check()
        check_holders(self.parties, self.key_holders, self.opening_threshold)
        absent = len(self.absent_parties)
        if self.joint and absent > (dropouts := vars(self).get("dropouts", absent)):
            raise InvalidParameter(
                f"{absent} parties are absent, and the noise is sized for {dropouts}: set a larger --dropouts"
            )

    def plain(self) -> dict[str, Any]:
        """Return the options as JSON values, by name, with the numbers of holders that the run uses."""
        return super().plain() | {"holders": self.key_holders, "threshold": self.opening_threshold}


@dataclass(frozen=True, kw_only=True)
class JointNoiseOptions(HolderOptions):
    """Whom the noise of the parties, or of the key holders, must withstand, and what is protected."""

    unit: Literal["party", "record"] = "party"
    record: str | None = option(
        None,
        "With --unit record: the column that names the person of a row. A person's rows at a party then count as one, "
        "so that the person is protected.",
        group="Privacy",
        shown="every row is a record of its own",
        name=True,
    )
    colluders: int | None = option(
        None,
        "Parties that may tell each other their noise (where the parties add it; with --noise-from holders, key "
        "holders); key holders are parties.",
        group="Privacy",
        shown="threshold - 1",
    )
    dropouts: int = option(0, "Parties that may stay away (joint noise).", group="Privacy")

    @property
    def protects_records(self) -> bool:
        return self.unit == "record"

    @property
    def person_column(self) -> str | None:
        return self.record

    @property
    def noise_of_holders(self) -> int:
        """The number of key holders where these add the noise; 0 where the parties do."""
        return self.key_holders if vars(self).get("noise_from") == "holders" else 0

    @property
    def readers(self) -> dict[str, tuple[bool, str]]:
        """Whether this run reads the options that not every run does, and what would (`refuse_unread`)."""
        return {"record": (self.unit == "record", "--unit record")}

    def check(self) -> None:
        super().check()
        refuse_unread(self, self.readers)
        if self.record is not None and (self.data is None or self.party is None):
            raise InvalidParameter(
                "--record names a column of your own table whose rows have owners: name them with --data FILE and "
                "--party COLUMN (rows dealt at random would put one person's rows into several parties)"
            )
        if self.joint and not self.noise_of_holders:
            contributors(self.parties, self.coalition, self.dropouts)


@dataclass(frozen=True, kw_only=True)
class SumOptions(BallotOptions, ClusterOptions, HolderOptions):
    """What every simulation around an encrypted sum is asked for; a field is an option of its command."""

    auxiliary: int | None = option(
        None, "The number of public auxiliary samples.", shown="the rest of the training data"
    )
    epsilon: tuple[float, ...] = option(
        (1.0,), "Privacy of each release, of a party or of a record (--unit): one or several.", group="Privacy"
    )
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
        if self.drawn < 1:
            raise InvalidParameter(f"--draws must be at least 1, not {self.drawn}")
        if self.proofs == "valid" and self.randomness == "full":
            raise InvalidParameter("ballots are proved valid in randomness modes half and short, not in full")
        check_mechanism(self.noise, joint=self.joint)
        for name in self.methods:
            one_of("methods", name, *self.available)
        if self.auxiliary is not None and self.auxiliary < 1:
            raise InvalidParameter(f"auxiliary samples are needed: --auxiliary is at least 1, not {self.auxiliary}")
        least = self.parties - vars(self)["dropouts"] if self.joint else 2
        if self.min_ballots is not None and not max(2, least) <= self.min_ballots <= self.parties:
            raise InvalidParameter(
                f"the minimum number of ballots lies between {max(2, least)}, below which noise would be missing or a "
                f"sum be one vector, and the parties, not {self.min_ballots}: change --min-ballots or --dropouts"
            )

    @property
    def joint(self) -> bool:
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
    def noise(self) -> MechanismName:
        """The mechanism: the spherical Laplace by default, the discrete Laplace where parties add the noise."""
        return self.mechanism or ("discrete-laplace" if self.joint else "spherical-laplace")

    @property
    def divides_rows(self) -> bool:
        """Whether rows are divided by a constant feature, which the scaling must then have."""
        return False

    @property
    def private_auxiliary(self) -> bool:
        """Whether an auxiliary sample is private too, so that nothing may be learned on them."""
        return bool(vars(self).get("protect_auxiliary"))

    @property
    def local_learners(self) -> tuple[Any, ...]:
        """Local classifiers, dealt to the parties in turn: names, or scikit-learn classifiers."""
        return ("logistic",)

    @property
    def local_lam(self) -> float:
        """lambda of the parties' own classifiers, and of everything without noise."""
        return HAMM_LAMBDA if self.lam is None else self.lam

    def request(self, epsilon: float) -> ReleaseRequest:
        return ReleaseRequest(epsilon, self.delta, self.noise, self.lam, self.private_auxiliary)

    def privacy(self, epsilon: float) -> PrivacyTerms:
        return replace(super().privacy(epsilon), delta=self.delta, mechanism=self.noise, lam=self.lam)

    @property
    def noise_coins(self) -> Randomness:
        """Where the curator's noise comes from."""
        return SimulationRandomness(self.seed, "noise") if self.simulate_noise else SYSTEM


@dataclass(frozen=True, kw_only=True)
class AverageOptions(SumOptions):
    """Options of `psephos simulate average`: averages of classifiers, or of a statistic of the parties' own rows."""

    @property
    def available(self) -> tuple[str, ...]:
        return ("avg", *OWN)


@dataclass(frozen=True, kw_only=True)
class TallyOptions(JointNoiseOptions, SumOptions):
    """Options of `psephos simulate tally`."""

    reveal: Literal["alpha", "statistic"] | None = option(
        None,
        "What the curator learns: alpha (the exact counts of votes; it adds the noise), or statistic (a sum to which "
        "the parties have added the noise).",
        group="Privacy",
        shown="alpha",
    )
    unit: Literal["party", "record"] = option(
        "party",
        "What epsilon protects: party (all that one party holds) or record (one row, which is replaced, "
        "added or removed; by the method newton alone).",
        group="Privacy",
    )
    announced_rows: int | None = option(
        None,
        "With --data, --unit record or --method rehearsed: about how many rows all parties have together, which is "
        "public, and chooses the number of coordinates and what is expected. It need not be exact.",
        group="Privacy",
        shown=f"{ROWS_PER_PARTY:,} for each party, with --unit party {REHEARSED_ROWS}; where --data is forecast, 5 for "
        "each public row if these are fewer",
    )
    class_shares: tuple[str, ...] = option(
        (),
        "The share of every class among all rows, as NAME=SHARE, from a public source and counted on nobody's private "
        "rows. The intercept of what is released is set by it.",
        group="Privacy",
        shown="none are announced",
        name=True,
    )
    noise_from: NoiseFrom = option(
        "parties",
        "Who adds the noise of a statistic before it is opened: every party, or every key holder (holders). With "
        "holders and --proofs valid, a party that lies sends no longer a direction (in L2) than an honest one may.",
        group="Privacy",
    )
    protect_auxiliary: bool = option(False, "One auxiliary sample is private too (Hamm 4.5).", group="Privacy")
    loss: Literal["logistic", "huber"] = option("logistic", "logistic (softmax for several classes) or huber.")
    learners: tuple[str, ...] = option(
        ("logistic",), f"Local classifiers, dealt to the parties in turn, of {', '.join(LEARNERS)}.", objects=True
    )

    def check(self) -> None:
        self._check_unit()
        super().check()
        learners = self.local_learners
        unknown = [name for name in learners if isinstance(name, str) and name not in LEARNERS]
        if unknown or not learners:
            raise InvalidParameter(
                f"--learners names one or more of {', '.join(LEARNERS)}, not {', '.join(unknown) or 'none'}"
            )
        for learner in learners:
            if not isinstance(learner, str):
                make_learner(learner, classes=2)  # raises InvalidParameter if it is no classifier
        if self.protect_auxiliary and "whitened" in learners:
            raise InvalidParameter(
                "whitened learners compute their coordinates from the auxiliary samples, which are private with "
                "--protect-auxiliary: leave one of them out"
            )

    @property
    def readers(self) -> dict[str, tuple[bool, str]]:
        joint, alpha = (self.joint, "--reveal statistic"), (not self.joint, "--reveal alpha")
        steps = self.sums_rows or self.steps_from_labels
        labels = "a method of unlabelled public rows that are not private"
        return super().readers | {
            "colluders": joint,
            "dropouts": joint,
            "noise_from": (self.joint and not steps, "a statistic of votes or of own rows with --reveal statistic"),
            "loss": alpha,
            "protect_auxiliary": alpha,
            "features": (not self.protect_auxiliary, "public rows that are not private"),
            "announced_rows": (steps, "--data, --unit record or --method rehearsed"),
            "class_shares": (not steps and not self.protect_auxiliary, labels),
        }

    def _check_unit(self) -> None:
        wrong = [name for name in self.methods if (name in RECORD_METHODS) != self.sums_rows]
        if wrong and self.sums_rows:
            raise InvalidParameter(
                f"{wrong[0]} classifies, and has no bound for a record: choose {' or '.join(RECORD_METHODS)}, or leave "
                "--unit record and --task regression out"
            )
        if wrong:
            raise InvalidParameter(f"{wrong[0]} protects a record: add --unit record")
        if self.announced_rows is not None and self.announced_rows < 1:
            raise InvalidParameter(f"--announced-rows is at least 1, not {self.announced_rows}")
        if self.sums_rows and self.reveal == "alpha":
            raise InvalidParameter(
                "in a sum over rows the parties add the noise and no votes are counted: leave --reveal out"
            )

    def privacy(self, epsilon: float) -> PrivacyTerms:
        return replace(super().privacy(epsilon), holders=self.noise_of_holders)

    @property
    def joint(self) -> bool:
        return self.reveal == "statistic" or self.sums_rows

    @property
    def sums_rows(self) -> bool:
        return self.unit == "record" or self.predicts_number

    @property
    def steps_from_labels(self) -> bool:
        """Whether a step from a model of labelled public rows is released."""
        return bool(set(self.methods) & set(LABELLED_METHODS))

    @property
    def noise(self) -> MechanismName:
        """The mechanism; by default gaussian for a sum over rows, otherwise as `SumOptions.noise`."""
        return self.mechanism or ("gaussian" if self.sums_rows else super().noise)

    @property
    def divides_rows(self) -> bool:
        return self.steps_from_labels or bool(self.class_shares)

    @property
    def available(self) -> tuple[str, ...]:
        if self.sums_rows:
            return RECORD_METHODS
        if self.joint:
            return (*SOURCE_OF, *(name for name in LABELLED_METHODS if name in self.methods))
        if self.protect_auxiliary:
            return ("vote", "soft", "avg")
        if self.loss == "huber":
            return ("vote", "soft", "avg", "pate")
        return tuple(name for name in METHODS if name != "vote-directions")  # no exact sum is opened for these

    @property
    def local_learners(self) -> tuple[Any, ...]:
        return self.learners

    def deal(self, data: Dataset | OwnTable, *, samples: int | None = None, auxiliary: int | None = None) -> Split:
        """See `SumOptions.deal`; raises InvalidParameter for class shares that do not fit the data's classes."""
        split = super().deal(data, samples=samples, auxiliary=auxiliary)
        self.shares_of(split.dataset.classes)
        return split

    def shares_of(self, classes: Sequence[str]) -> tuple[float, ...]:
        """Return the announced shares of these classes, in their order; () where none are announced."""
        if not self.class_shares:
            return ()
        shares: dict[str, float] = {}
        for word in self.class_shares:
            name, _, text = word.rpartition("=")
            try:
                share = float(text)
            except ValueError:
                raise InvalidParameter(f"a class share is NAME=SHARE, such as yes=0.3, not {word!r}") from None
            if name in shares or name not in classes:
                known = ", ".join(classes)
                raise InvalidParameter(
                    f"--class-shares names each class once ({known}), and {name!r} is not as it says"
                )
            shares[name] = share
        if missing := [name for name in classes if name not in shares]:
            raise InvalidParameter(f"--class-shares has no share of the class {missing[0]}")
        return tuple(check_shares([shares[name] for name in classes]).tolist())


@dataclass(frozen=True, kw_only=True)
class HeadOptions(TallyOptions):
    """Options of `psephos simulate head`: the mean of the parties' own linear classifiers, each clipped to a ball."""

    radius: float = option(1.0, "Largest norm of a party's parameters, of scaled columns.", group="Privacy")

    @property
    def available(self) -> tuple[str, ...]:
        return ("mean",)


@dataclass(frozen=True, kw_only=True)
class JobOptions(TallyOptions):
    """Options of `psephos run`."""

    parties: int = option(50, "Number of data owners, M.")
    task: Literal["classification", "regression"] = option(
        "classification",
        "What the label is: a class, or a number (regression, of your own table whose public rows have labels).",
        group="Your own data",
    )
    method: Literal[CountedMethod, OtherMethod] | None = option(
        None,
        "What is released. From the counts of votes: statistic (a linear statistic of them), soft or vote (Hamm's "
        "weighted ERM on soft or majority labels), pate. From votes that nobody counts: vote-directions (the direction "
        "of each party's votes, with noise from every party). Without votes: own-data (a statistic of the parties' own "
        "rows), whitened or avg (averages of the parties' parameters). Where public rows have labels: rehearsed (a "
        "step from a model of these rows, chosen on simulated parties). For a record: newton (a Newton step over "
        "all rows). auto, for your own table: the best of these in a forecast of all (counted votes, where they are "
        "within .02 of it).",
        group="Privacy",
        shown="auto for your own table, otherwise statistic; newton with --unit record",
    )
    anyway: bool = option(
        False,
        "With --data: release even where no gain over the public rows and the most frequent class is expected.",
        group="Privacy",
    )
    learners: tuple[str, ...] = option(
        (),
        f"Local classifiers, assigned to the parties in turn, of {', '.join(LEARNERS)}.",
        shown=f"for votes {','.join(MIXED_LEARNERS)}",
        objects=True,
    )
    draws: int | None = option(1)
    features: Features = option("auto", FEATURES_HELP, group="Your own data")

    def check(self) -> None:
        if len(self.epsilon) != 1 or self.draws != 1:
            raise InvalidParameter(
                "psephos run draws one release at one epsilon: psephos simulate tally compares several"
            )
        if self.open:
            self.candidates()
            return
        method = self.chosen_method
        if method == "auto":
            raise InvalidParameter(
                "auto chooses by a forecast on your own table: name it with --data FILE, or choose another --method"
            )
        replace(self, methods=(method,))._check_unit()
        if method in ALWAYS_JOINT and self.reveal == "alpha":
            raise InvalidParameter(
                f"{method} opens a sum with noise and counts no votes: leave --reveal out, or choose a method of "
                f"counted votes ({', '.join(COUNTED)})"
            )
        if self.reveal == "statistic" and method not in (*SOURCE_OF, *LABELLED_METHODS, *RECORD_METHODS):
            raise InvalidParameter(
                f"{method} is computed from exact counts or parameters: leave --reveal statistic out, or choose "
                "another --method"
            )
        super().check()

    @property
    def readers(self) -> dict[str, tuple[bool, str]]:
        inherited, classes = super().readers, (not self.predicts_number, "--task classification")
        if self.data is not None:  # a forecast reads them
            del inherited["announced_rows"]
        voters = self.chosen_method in VOTED or set(self.learners) <= {"logistic", "whitened"}
        return inherited | {
            "classes": classes,
            "other_labels": (classes[0] or self.other_labels == "drop", "--task classification"),
            "learners": (voters and (classes[0] or not self.learners), f"a method of votes ({', '.join(VOTED)})"),
            "sizes": classes,
            "auxiliary": classes,
            "journal": classes,
            "anyway": (self.data is not None, "your own table (--data FILE)"),
        }

    @property
    def compares(self) -> bool:
        """False: a run may have no test rows."""
        return False

    @property
    def chosen_method(self) -> str:
        """The method that is released; "auto" where a forecast chooses one of `candidates`."""
        if self.method in (None, "auto") and self.sums_rows:
            return RECORD_METHODS[0]
        return self.method or ("statistic" if self.data is None else "auto")

    @property
    def open(self) -> bool:
        """Whether several methods could be released, of which a forecast chooses one."""
        return self.data is not None and self.chosen_method == "auto"

    def candidates(self) -> list[JobOptions]:
        """Return the options of a run by each method that these leave open.

        Raises InvalidParameter where no method reads them.
        """
        if not self.open:
            return [self._filled()]
        fitting, refusals = [], []
        names: Any = (*METHODS, *LABELLED_METHODS)
        for name in names:
            try:
                fitting.append(replace(self, method=name)._filled())
            except InvalidParameter as refusal:
                refusals.append(refusal)
        if not fitting:
            raise refusals[0]
        return fitting

    def _filled(self) -> JobOptions:
        """Return these options with what their method leaves open; raises InvalidParameter where it does not fit."""
        self.check()
        method = self.chosen_method
        revealed: Any = "statistic" if self.joint else None if method == "avg" else "alpha"
        return replace(self, methods=(method,), learners=self.local_learners, reveal=revealed)

    @property
    def local_learners(self) -> tuple[Any, ...]:
        return self.learners or (MIXED_LEARNERS if self.chosen_method in VOTED else ("logistic",))

    @property
    def joint(self) -> bool:
        """See `HolderOptions`; always for sums of directions and of rows, which nobody needs exactly."""
        return super().joint or self.chosen_method in ALWAYS_JOINT

    @property
    def steps_from_labels(self) -> bool:
        return self.chosen_method in LABELLED_METHODS
