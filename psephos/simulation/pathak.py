"""Simulate the protocol of Pathak, Rane and Raj (2010) with all roles on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.budget import budget_of
from psephos.curator.hamm.labels import one_hot
from psephos.curator.pathak.bounds import party_level_epsilon, proved_epsilon
from psephos.options import option
from psephos.parties.pathak import Contribution
from psephos.parties.training import train_parties, votes
from psephos.progress import Progress, silent
from psephos.protocol.driver import Driver, PhaseCosts, replace_roles
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.pathak.messages import KEYED_SIZE_BITS
from psephos.protocol.pathak.terms import (
    CONSUMERS,
    CURATOR,
    LEADER,
    Comparisons,
    PathakTerms,
    Variant,
    party_name,
)
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.privacy.unit import Changes
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.results.base import Phase
from psephos.results.evaluation import Evaluation
from psephos.results.runs import PathakResult
from psephos.simulation.options import RunOptions
from psephos.simulation.run import Replacements, RunContext, evaluated_fields, load_two_classes
from psephos.specs.pathak import SMALLEST_SIZE, PathakSpec, make_terms

Records = tuple[Any, NDArray[np.integer]]

CAUTIONS: dict[Variant, str] = {
    "printed": (
        "The protocol as printed, for studying the paper: a curator that deviates and selects no party's noise "
        "publishes the exact average, and the smallest party knows the noise. Use the variant public-bound for "
        "anything else."
    ),
    "repaired": (
        "For studying the repair: one dishonest role can remove the noise. The exact average is published if a party "
        "claims the smallest size and then votes for no bucket or for the largest one, or if the curator selects no "
        "party. Use the variant public-bound for anything else."
    ),
}
"""Warnings about the variants in which one dishonest role removes the noise (docs/protocols/pathak.md)."""


@dataclass(frozen=True)
class PathakKeys:
    """All private keys of a run with stages 1 and 2: Charlie's of zeta and of the comparisons, the parties' of xi."""

    curator: PrivateKey
    comparison: DgkPrivateKey
    group: PrivateKey

    @classmethod
    def generate(cls, bits: int = DEFAULT_KEY_BITS, *, test_key: bool = False) -> PathakKeys:
        return cls(
            generate_private_key(bits, test_key=test_key),
            generate_dgk_key(bits, comparison_bits=KEYED_SIZE_BITS, test_key=test_key),
            generate_private_key(bits, test_key=test_key),
        )


@dataclass(frozen=True)
class PathakRun:
    """Result and cost of a run of the protocol.

    Attributes:
        parameters: w_s, float64 of shape (d,). Public.
        total: K w_s in integer units of the grid. Public.
        contributions: what each party added to the sum, by name. Secret; only a simulation has it.
        stages: seconds, bytes and messages of each stage, summed over all roles.
    """

    terms: PathakTerms
    parameters: NDArray[np.float64] = field(repr=False)
    total: tuple[int, ...] = field(repr=False)
    contributions: dict[str, Contribution] = field(repr=False)
    stages: dict[str, PhaseCosts]

    @property
    def shares_equal_reference(self) -> bool:
        """Whether `total` is exactly the sum of the parameters and of the noise that the variant requires."""
        contributions = list(self.contributions.values())
        if len(contributions) < self.terms.parties:
            return False
        parameters = zip(*(one.parameters for one in contributions), strict=True)
        noise = [entry - sum(column) for entry, column in zip(self.total, parameters, strict=True)]
        smallest = min(one.size for one in contributions)
        if self.terms.variant == "printed":  # of several parties of the smallest size, any may be selected
            return any(noise == list(one.noise[0]) for one in contributions if one.size == smallest)
        bucket = self.terms.bucket(smallest) if self.terms.finds_smallest else 0
        return noise == [sum(column) for column in zip(*(one.noise[bucket] for one in contributions), strict=True)]


def run_protocol(
    data: Sequence[Records],
    terms: PathakTerms,
    keys: PathakKeys | None = None,
    *,
    test_key: bool = False,
    noise_seed: int | None = None,
    roles: Replacements | None = None,
    transcript: Transcript | None = None,
    progress: Progress = silent,
) -> PathakRun:
    """Run all stages of the protocol, with cryptography, and compare the result with a computation in the clear.

    Args:
        data: (features, labels) of each of the K parties; rows of norm at most 1, labels 0 and 1.
        terms: the agreed terms.
        keys: the private keys, for the variants with stages 1 and 2; None for the others.
        test_key: accept keys under 2048 bits.
        noise_seed: seed of the noise, which then protects nobody; by default it is drawn from the operating system.
        roles, transcript, progress: as in `RunContext`.
    """
    if len(data) != terms.parties:
        raise InvalidParameter(f"the terms are for {terms.parties} parties, and there are {len(data)} data sets")
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
    honest = [curator, *honest, spec.reader(terms)]
    driver = Driver(
        replace_roles(honest, roles or {}), transcript=transcript, watch=lambda stage, entry: progress(stage, 1, 1)
    )
    results = driver.run()
    total = results.pop(CONSUMERS)
    return PathakRun(
        terms,
        spec.parameters_of(total),
        tuple(total),
        {name: result for name, result in results.items() if isinstance(result, Contribution)},
        driver.phases,
    )


# -- the command


@dataclass(frozen=True, kw_only=True)
class PathakOptions(RunOptions):
    """Options of `psephos simulate pathak`, which has no key holders: the noise withstands any `excluded` parties."""

    parties: int = option(5, "Data owners, K.")
    variant: Variant = option(
        "public-bound",
        "Whose noise: everybody's, for a public smallest size; or the paper's protocol, as printed or repaired, in "
        "which one dishonest role can remove the noise.",
        group="Protocol",
    )
    comparisons: Comparisons = option("tournament", "How the smallest data set is found.", group="Protocol")
    lam: float = option(1e-3, "lambda.", group="Protocol")
    epsilon: float = option(1.0, "The epsilon of the release, for one record.", group="Privacy")
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
        shown=f"what the split deals to each party; {SMALLEST_SIZE}, the first bucket, for the paper's variants",
    )
    largest_size: int = option(1 << 20, "Public: larger data sets count as if they had as many.", group="Privacy")

    def check(self) -> None:
        super().check()
        if self.absent_parties:
            raise InvalidParameter("Pathak's protocol needs every party until its end: leave --absent out")
        self.terms(1, ("0", "1"), SMALLEST_SIZE)

    def terms(self, features: int, classes: tuple[str, str], smallest: int) -> PathakTerms:
        default = SMALLEST_SIZE if self.variant in CAUTIONS else smallest
        return make_terms(
            parties=self.parties,
            features=features,
            classes=classes,
            lam=self.lam,
            epsilon=self.epsilon,
            variant=self.variant,
            comparisons=self.comparisons,
            excluded=self.excluded,
            smallest_size=default if self.smallest_size is None else self.smallest_size,
            largest_size=self.largest_size,
        )

    @property
    def protects_rows(self) -> bool:
        return True

    @property
    def neighbours(self) -> Changes:
        # Of a table, the number of rows decides which are held out or dealt to whom, and the smallest size.
        return "any" if self.variant == "public-bound" and self.data is None else "replace"

    @property
    def proved_for(self) -> str:
        """The unit of privacy, and the roles against which epsilon is proved."""
        if self.variant == "printed":
            return "one record, data set sizes fixed, against everybody but the smallest party, all honest"
        if self.variant == "repaired":
            return f"one record, data set sizes fixed, against consumers and up to {self.excluded} parties, all honest"
        record = "one record" if self.neighbours == "any" else "one record, data set sizes fixed"
        return f"{record}, against everybody else and up to {self.excluded} of the parties, whatever they do"


def simulate_pathak(  # long: the fields of its result
    options: PathakOptions, evaluation: Evaluation | None = None, **context: Unpack[RunContext]
) -> PathakResult:
    """Load and divide the data, run the protocol, and evaluate the classifier, on features scaled by public rows."""
    evaluation = Evaluation() if evaluation is None else evaluation
    options, split, scaler = load_two_classes(options, evaluation, context)
    classes = split.dataset.classes
    records = [(scaler.transform(X), y) for X, y in map(split.party, range(options.parties))]
    sizes = [len(y) for _, y in records]
    terms = options.terms(evaluation.test.shape[1], (classes[0], classes[1]), min(sizes))
    proved, delta = proved_epsilon(terms)
    budget = budget_of(options, split, "record", neighbours=options.neighbours)
    reason = "the proved epsilon is too large to be a bound"
    charges = [budget.within_bound("pathak", proved, max(delta, stated_delta()), reason)]
    budget.check(charges)
    started = time.perf_counter()
    keys = PathakKeys.generate(options.key_bits, test_key=options.test_key) if terms.finds_smallest else None
    keygen_seconds = round(time.perf_counter() - started, 3)
    budget.charge(charges)
    seed = options.seed if options.simulate_noise else None
    watched: Any = {name: context.get(name) for name in ("roles", "transcript")}
    watched["progress"] = context.get("progress", silent)
    run = run_protocol(records, terms, keys, test_key=options.test_key, noise_seed=seed, **watched)
    evaluation.sums.setdefault("published", []).append(run.total)
    _evaluate_references(evaluation, records, terms, options.seed)
    evaluation.add_classifier("pathak", run.parameters, options.epsilon)
    return PathakResult(
        phases={"keygen": Phase(keygen_seconds)}
        | {name: Phase(round(cost.seconds, 3), cost.messages, cost.bytes) for name, cost in run.stages.items()},
        protocol=f"pathak-{options.variant}",
        **evaluated_fields(options, evaluation),
        features=terms.features,
        delta=max(delta, stated_delta()),
        cautions=[*split.cautions, *([CAUTIONS[options.variant]] if options.variant in CAUTIONS else [])],
        budget=budget.summary(),
        epsilon_proved=proved,
        epsilon_proved_for=options.proved_for,
        epsilon_party_level=party_level_epsilon(terms, min(sizes)),
        shares_equal_reference=run.shares_equal_reference,
        transcript=context.get("transcript"),
    )


def _evaluate_references(evaluation: Evaluation, records: Sequence[Records], terms: PathakTerms, seed: int) -> None:
    if any(score.method == "pathak" for score in evaluation.scores):
        return
    mu, sizes = terms.strong_convexity, [len(y) for _, y in records]
    X, y = np.concatenate([X for X, _ in records]), np.concatenate([y for _, y in records])
    local = train_parties(X, y, sizes, classes=2, lam=mu)
    evaluation.add_classifier("batch", train_parties(X, y, [len(y)], classes=2, lam=mu)[0])
    evaluation.add_vote_shares(
        "indiv", one_hot(votes(local, evaluation.test).ravel(), 2).reshape(len(local), -1, 2).mean(axis=0)
    )
    assert evaluation.split is not None
    evaluation.add_trees(np.concatenate(evaluation.split.parties), seed)
    evaluation.add_classifier("pathak", local.mean(axis=0))
