"""Pathak, Rane and Raj (2010) from first message to last, every role in this machine (`psephos simulate pathak`).

`run_protocol` plays the protocol on data sets it is handed and compares what was published with the clear computation.
`simulate_pathak` is the job behind the command: load, split, scale, run, and measure the classifier.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.labels import one_hot
from psephos.curator.pathak.bounds import party_level_epsilon, proved_epsilon
from psephos.data.datasets import Dataset
from psephos.data.partition import DataOptions, load_split, scaler_for
from psephos.data.splits import Split
from psephos.options import option
from psephos.parties.pathak import Contribution
from psephos.parties.training import train_parties, votes
from psephos.progress import Progress, silent
from psephos.protocol.driver import Driver, PhaseCosts, replace_roles
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, check_key_bits
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.pathak.messages import KEYED_SIZE_BITS, STAGES
from psephos.protocol.pathak.terms import (
    CONSUMERS,
    CURATOR,
    LEADER,
    Comparisons,
    Noise,
    PathakTerms,
    Regulariser,
    Variant,
    party_name,
)
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.roles import Entry, Role
from psephos.protocol.transcript import Transcript
from psephos.results import PathakResult, Phase
from psephos.results.evaluation import Evaluation
from psephos.specs.pathak import SMALLEST_SIZE, PathakSpec, make_terms

__all__ = ["PathakKeys", "PathakOptions", "PathakRun", "run_protocol", "simulate_pathak"]

Puppets = Mapping[str, Callable[[Role], Role]]

Records = tuple[Any, NDArray[np.integer]]

CAUTIONS: dict[Variant, str] = {
    "printed": (
        "The protocol as printed, for studying the paper: a curator that lies and selects nobody's noise publishes the "
        "bare average, and the smallest party knows the noise. Use the variant public-bound for anything else."
    ),
    "repaired": (
        "For studying the repair: one liar strips the noise. A party that claims the smallest size and then votes for "
        "no rung, or for the largest one, or a curator that selects nobody, publishes the bare average. Use the "
        "variant public-bound for anything else."
    ),
}
"""What one liar does to a variant; nothing to the others (docs/protocols/pathak.md)."""


@dataclass(frozen=True)
class PathakKeys:
    """All private keys of a run with stages 1 and 2: Charlie's two and the parties' one."""

    curator: PrivateKey
    comparison: DgkPrivateKey
    group: PrivateKey

    @classmethod
    def generate(cls, bits: int = DEFAULT_KEY_BITS, *, test_key: bool = False) -> PathakKeys:
        """Fresh keys of one size; raises WeakKeyError under 2048 bits unless `test_key`."""
        return cls(
            generate_private_key(bits, test_key=test_key),
            generate_dgk_key(bits, comparison_bits=KEYED_SIZE_BITS, test_key=test_key),
            generate_private_key(bits, test_key=test_key),
        )


@dataclass(frozen=True)
class PathakRun:
    """What a run of the protocol gave.

    Attributes:
        terms: what was agreed.
        parameters: w_s, float64 of shape (d,). Public.
        total: K w_s in integer units of the grid. Public.
        contributions: what each party put in, by name; a simulation knows it, and nobody else.
        stages: seconds, bytes and messages of each stage; all roles together, one after the other.
    """

    terms: PathakTerms
    parameters: NDArray[np.float64] = field(repr=False)
    total: tuple[int, ...] = field(repr=False)
    contributions: dict[str, Contribution] = field(repr=False)
    stages: dict[str, PhaseCosts]

    @property
    def shares_equal_reference(self) -> bool:
        """Whether `total` is exactly the sum of the parameters and of the noise that the variant calls for."""
        clear = list(self.contributions.values())
        if len(clear) < self.terms.parties:
            return False
        found = [t - sum(entries) for t, *entries in zip(self.total, *(c.parameters for c in clear), strict=True)]
        smallest = min(c.size for c in clear)
        if self.terms.variant == "printed":  # among equal sizes any may be the smallest
            return any(found == list(c.noise[0]) for c in clear if c.size == smallest)
        place = self.terms.rung(smallest) if self.terms.finds_smallest else 0
        return found == [sum(entries) for entries in zip(*(c.noise[place] for c in clear), strict=True)]


def run_protocol(
    data: Sequence[Records],
    terms: PathakTerms,
    keys: PathakKeys | None = None,
    *,
    test_key: bool = False,
    noise_seed: int | None = None,
    roles: Puppets | None = None,
    transcript: Transcript | None = None,
    progress: Progress = silent,
) -> PathakRun:
    """All stages, with real cryptography.

    Args:
        data: (features, labels) of each of the K parties, rows of norm at most 1, labels 0 and 1.
        terms: what is agreed on.
        keys: where stages 1 and 2 run.
        test_key: accept keys under 2048 bits.
        noise_seed: draw the noise from this seed (a simulation that protects nobody) instead of the system.
        roles: replacements of roles: by name, what makes the adversarial role from the honest one.
        transcript: watches; one with secrets keeps every role's view.
        progress: called after every message with its stage, the stage's messages so far, and all of them.

    Raises InvalidParameter when another number of parties brought data than the terms are for, and every named error of
    the roles and of the driver. Nothing is returned then.
    """
    if len(data) != terms.parties:
        raise InvalidParameter(f"the terms are for {terms.parties} parties and {len(data)} brought data")
    transcript = Transcript() if transcript is None else transcript
    spec = PathakSpec(terms, test_key, noise_seed)
    honest: list[Role] = []
    for number, records in enumerate(data):
        name = party_name(number)
        transcript.record_input(name, "records", records)
        group_key = keys.group if keys is not None and number == LEADER else None
        party = spec.party(number, None, records, terms, randomness=transcript.coins(name), group_key=group_key)
        honest.append(party)
    curator_keys = None if keys is None else (keys.curator, keys.comparison)
    if keys is not None:
        transcript.record_input(CURATOR, "curator key", keys.curator)
        transcript.record_input(CURATOR, "comparison key", keys.comparison)
        transcript.record_input(party_name(LEADER), "group key", keys.group)
    curator = spec.separate_curator(terms, curator_keys, randomness=transcript.coins(CURATOR))
    honest = [curator, *honest, spec.consumer(terms)]
    driver = Driver(replace_roles(honest, roles or {}), transcript=transcript, watch=_Counter(terms, progress))
    results = driver.run()
    total = results.pop(CONSUMERS)
    return PathakRun(
        terms,
        spec.parameters_of(total),
        tuple(total),
        {name: found for name, found in results.items() if isinstance(found, Contribution)},
        driver.phases,
    )


class _Counter:
    """Tells a progress how many messages of a stage there were."""

    def __init__(self, terms: PathakTerms, progress: Progress) -> None:
        K, found = terms.parties, terms.finds_smallest
        compared = 4 * (K - 1) if terms.comparisons == "tournament" else 3 * K + K * (K - 1) // 2  # at most
        factors = 4 * K - 3 if terms.variant == "repaired" else 2 * K - 1
        expected = (K + found * K, 3 * K + compared, factors, K * (K + 1) + found, K + 1)
        self._expected = dict(zip(STAGES, expected, strict=True))
        self._progress, self._done = progress, Counter[str]()

    def __call__(self, stage: str, entry: Entry) -> None:
        self._done[stage] += 1
        self._progress(stage, min(self._done[stage], self._expected[stage]), self._expected[stage])


# -- the command's job


@dataclass(frozen=True, kw_only=True)
class PathakOptions(DataOptions):
    """What `psephos simulate pathak` was asked for.

    No key is shared, so there is no threshold from which a coalition follows. The noise is whole against the consumers
    and any `excluded` parties together: by default against each party alone.
    """

    parties: int = option(5, "Data owners, K.")
    variant: Variant = option(
        "public-bound",
        "Whose noise: everybody's, for a public smallest size; or the paper's protocol, as printed or repaired, in "
        "which one liar strips the noise.",
        group="Protocol",
    )
    noise: Noise = option("laplace", "Law of the noise; spherical for the printed variant only.", group="Protocol")
    comparisons: Comparisons = option("tournament", "How the smallest data set is found.", group="Protocol")
    regulariser: Regulariser = option("lambda", "The objective has lambda ||w||^2, or half of it.", group="Protocol")
    lam: float = option(1e-3, "lambda.", group="Protocol")
    epsilon: float = option(1.0, "For one record.", group="Privacy")
    excluded: int = option(
        1,
        "Parties that may tell each other their shares of the noise: colluders + 1, since the one that looks at the "
        "result is a party too.",
        group="Privacy",
    )
    smallest_size: int | None = option(
        None,
        "Public: smaller data sets count as if they had as many records.",
        group="Privacy",
        shown=f"what the split deals to each party; {SMALLEST_SIZE}, the first rung, for the paper's variants",
    )
    largest_size: int = option(1 << 20, "Public: larger data sets count as if they had as many.", group="Privacy")
    simulate_noise: bool = option(False, "Draw the noise from the seed. It protects nobody.", group="Privacy")
    key_bits: int = option(DEFAULT_KEY_BITS, "Of the keys, where stages 1 and 2 run.", group="Encryption")
    test_key: bool = option(False, "Accept a key under 2048 bits, which protects nothing.", group="Encryption")

    def check(self) -> None:
        """Raise InvalidParameter for numbers that no run can have, before anything is computed."""
        super().check()
        if self.away:
            raise InvalidParameter("Pathak's protocol needs every party to its end: nobody can be absent")
        check_key_bits(self.key_bits, test_key=self.test_key)
        self.terms(1, ("0", "1"), SMALLEST_SIZE)

    def terms(self, features: int, classes: tuple[str, str], split: int) -> PathakTerms:
        """What the parties agree on; `split`: the smallest number of records that the split, which is public, deals."""
        default = SMALLEST_SIZE if self.variant in CAUTIONS else split
        return make_terms(
            parties=self.parties,
            features=features,
            classes=classes,
            lam=self.lam,
            epsilon=self.epsilon,
            variant=self.variant,
            noise=self.noise,
            comparisons=self.comparisons,
            regulariser=self.regulariser,
            excluded=self.excluded,
            smallest_size=default if self.smallest_size is None else self.smallest_size,
            largest_size=self.largest_size,
        )

    @property
    def proved_for(self) -> str:
        """For whom, and against whom, epsilon is proved."""
        if self.variant == "printed":
            return "one record, data set sizes fixed, against everybody but the smallest party, all honest"
        if self.variant == "repaired":
            return f"one record, data set sizes fixed, against consumers and up to {self.excluded} parties, all honest"
        return f"one record, against everybody else and up to {self.excluded} of the parties, whatever they do"


def simulate_pathak(  # long: the fields of its result
    options: PathakOptions,
    *,
    data: Dataset | Split | None = None,
    roles: Puppets | None = None,
    transcript: Transcript | None = None,
    progress: Progress = silent,
    evaluation: Evaluation | None = None,
) -> PathakResult:
    """One run on one split of a two-class data set. Features are scaled on the public rows of the split.

    `data`, `evaluation`: as in `psephos.simulation.sums.RunContext`; otherwise as `run_protocol`.

    Raises InvalidParameter for options out of range and for a data set of more than two classes, DataSetMissingError
    and DataError as `psephos.data.datasets.load` does, and as `run_protocol`.
    """
    options, split = load_split(options, data)
    name, classes = split.dataset.name, split.dataset.classes
    if len(classes) != 2:
        raise InvalidParameter(f"Pathak's protocol is for two classes and {name} has {len(classes)}")
    scaler = scaler_for(name).fit(split.X_auxiliary)
    records = [(scaler.transform(X), y) for X, y in map(split.party, range(options.parties))]
    test = scaler.transform(split.X_test)
    sizes = [len(y) for _, y in records]
    terms = options.terms(test.shape[1], (classes[0], classes[1]), min(sizes))
    begun = time.perf_counter()
    keys = PathakKeys.generate(options.key_bits, test_key=options.test_key) if terms.finds_smallest else None
    keygen_seconds = round(time.perf_counter() - begun, 3)
    run = run_protocol(
        records,
        terms,
        keys,
        test_key=options.test_key,
        noise_seed=options.seed if options.simulate_noise else None,
        roles=roles,
        transcript=transcript,
        progress=progress,
    )
    evaluation = Evaluation() if evaluation is None else evaluation
    evaluation.start(split, scaler, test)
    evaluation.sums.setdefault("published", []).append(run.total)
    _references(evaluation, records, terms)
    evaluation.add_classifier("pathak", run.parameters, options.epsilon)
    proved, delta = proved_epsilon(terms)
    return PathakResult(
        phases={"keygen": Phase(keygen_seconds)}
        | {n: Phase(round(p.seconds, 3), p.messages, p.bytes) for n, p in run.stages.items()},
        protocol=f"pathak-{options.variant}",
        options=options.plain(),
        dataset=name,
        features=terms.features,
        test=len(test),
        class_names=list(classes),
        delta=max(delta, stated_delta()),
        accuracy=evaluation.accuracy(options.epsilon),
        cautions=[*split.cautions, *(CAUTIONS[v] for v in (options.variant,) if v in CAUTIONS)],
        not_private=split.not_private,
        epsilon_proved=proved,
        epsilon_proved_for=options.proved_for,
        epsilon_party_level=party_level_epsilon(terms, min(sizes)),
        shares_equal_reference=run.shares_equal_reference,
        evaluation=evaluation,
        transcript=transcript,
    )


def _references(evaluation: Evaluation, records: Sequence[Records], terms: PathakTerms) -> None:
    """Keep what a simulation can compare the published parameters with, which is the same for every release."""
    if any(one.method == "pathak" for one in evaluation.scores):
        return
    mu, sizes = terms.strong_convexity, [len(y) for _, y in records]
    X, y = np.concatenate([X for X, _ in records]), np.concatenate([y for _, y in records])
    local = train_parties(X, y, sizes, classes=2, lam=mu, tolerance=terms.tolerance)
    evaluation.add_classifier("batch", train_parties(X, y, [len(y)], classes=2, lam=mu, tolerance=terms.tolerance)[0])
    evaluation.add_vote_shares(
        "indiv", one_hot(votes(local, evaluation.test).ravel(), 2).reshape(len(local), -1, 2).mean(axis=0)
    )
    evaluation.add_classifier("pathak", local.mean(axis=0))
