"""Private stochastic gradient descent (Rajkumar and Agarwal 2012): a series of encrypted sums of noisy gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, Unpack

from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.ledger import Release, ledger_entry
from psephos.curator.psgd.agreement import Agreement, DescentOptions, agree
from psephos.curator.psgd.curator import GradientCurator, GradientCuratorState
from psephos.parties.gradients import LocalLoss, signed_labels
from psephos.parties.psgd import GradientParty, SeriesHolder
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.privacy.accounting import PrivacyEvent, stated_delta
from psephos.protocol.proofs.bounded import BoundedLayout
from psephos.protocol.psgd.series import SeriesTerms
from psephos.protocol.psgd.state import SeriesReader
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.study.study import Study
from psephos.specs.base import Array, Participants, RoleMeans, Rows, Spec, key_of_size
from psephos.specs.secrets import CULPRIT, DATA, NOISE, OTHER_SUM, SIZES, Secret
from psephos.specs.terms import COLLUDERS, PrivacyTerms, PublicTerms

GRADIENTS = Secret("gradients", "each party", "The gradient of the party's loss at each point of the descent.")
HONEST_GRADIENT = Secret(
    "an honest party's gradient",
    "each party",
    "An answer of a party that follows the protocol to anything but its next step.",
    by_attack=True,
)

OPTIONAL: dict[str, Any] = {
    option.name: 0.0 if option.default is None else option.default
    for option in fields(DescentOptions)
    if option.name not in ("epsilon", "delta")
} | {"variant": "gaussian", "colluders": COLLUDERS}
"""Optional parameters of a study: the options of a descent that can be chosen."""


@dataclass(frozen=True)
class PsgdSpec(Spec):
    """A descent that is agreed on.

    Attributes:
        options: what was asked for.
        agreement: what follows: steps, step sizes, noise and guarantee.
        sizes: rows of each party, which a study makes public.
        simulation_seed: draws the noise from a seed: for simulations only.
    """

    methods = ("psgd",)
    summand = "gradients"
    sends: ClassVar[Mapping[str, str]] = {
        "psgd": "In each step, each party sends the gradient of its own rows' loss at a public point.",
    }
    parameters: ClassVar[Mapping[str, Any]] = {"sizes": str} | OPTIONAL
    unit = "record"
    states_sizes = True
    one_release = False  # many sums, composed: a descent is known by its epsilon and delta alone
    secrets = (DATA, GRADIENTS, NOISE, SIZES, HONEST_GRADIENT, OTHER_SUM, CULPRIT)

    options: DescentOptions
    agreement: Agreement
    sizes: tuple[int, ...] = ()
    simulation_seed: int | None = None

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        if public.classes != 2:
            raise InvalidParameter("gradient descent is for two classes")
        chosen = {name: value for name, value in public.agreed.items() if name in OPTIONAL}
        chosen |= {"variant": chosen.get("variant", OPTIONAL["variant"]), "colluders": privacy.colluders}
        assert privacy.epsilon is not None
        options = DescentOptions(epsilon=privacy.epsilon, delta=privacy.delta, **chosen)
        sizes = _sizes(public)
        return cls(options, agree(options, sizes, public.samples.shape[1], bytes(16)), sizes)

    def check_study(self, study: Study) -> None:
        """See `Spec.check_study`; all noisy sums of a study are on the board, so epsilon must cover all of them."""
        series, guarantee = self.agreement.series, self.agreement.guarantee
        if study.minimum_ballots != series.minimum_ballots:
            raise StudyError(
                f"the noise is sized for {self.options.dropouts} dropouts: the minimum of ballots is "
                f"{series.minimum_ballots}, not {study.minimum_ballots}"
            )
        if guarantee.epsilon_transcript > study.epsilon * (1 + 1e-12):
            raise StudyError(
                f"every noisy sum of a study stands on the board, and all of them together cost epsilon "
                f"{guarantee.epsilon_transcript:.6g}, not {study.epsilon:g}: the variants gaussian and halving are "
                "calibrated for that"
            )
        if guarantee.delta_samplers > stated_delta(study.delta):
            raise StudyError(
                f"drawing the noise costs delta {guarantee.delta_samplers:.2g}, more than the study's {study.delta:g}"
            )

    def check_rows(self, number: int, rows: int) -> None:
        if rows != self.sizes[number]:
            raise StudyError(f"the study says that party {number} has {self.sizes[number]} rows, and these are {rows}")

    @property
    def steps(self) -> int:
        return self.agreement.series.steps

    def plan_for(self, key: PublicKey, parties: int) -> PackingPlan:
        """Return how the gradients of the last step are packed, whose noise may be the largest."""
        return self.agreement.series.plan(key, self.steps)

    def prepare(self, own: Rows) -> LocalLoss:
        """Return the loss of a party's rows. Raises DataError for labels other than 0 and 1."""
        X, y = own
        return LocalLoss(X, signed_labels(y), self.options.loss)

    def terms(self, key: ThresholdKey | None, participants: Participants) -> SeriesTerms:
        assert key is not None
        return SeriesTerms(
            replace(self.agreement.series, nonce=participants.nonce(key, "series")),
            self.agreement.descent,
            key,
            participants.roster,
            participants.test_key,
            participants.proofs,
            participants.confirmations,
        )

    def party(
        self, number: int, signing_key: SigningKey, data: LocalLoss, terms: SeriesTerms, **means: Unpack[RoleMeans]
    ) -> GradientParty:
        return GradientParty(
            number,
            signing_key,
            data,
            terms,
            clip=self.options.on_excess == "clip",
            encryptor=means.get("encryptor"),
            noise=self._noise(number, means.get("randomness", SYSTEM)),
            once=means.get("ledger"),
        )

    def check_proofs(self, key_bits: int, degree: int, parties: int) -> None:
        """See `Spec.check_proofs`; the first and the last step are checked, whose noise may be the largest."""
        key, series = key_of_size(key_bits, degree), self.agreement.series
        for step in {1, series.steps}:
            plan = series.plan(key, step, bounded=True)
            BoundedLayout.of(key, plan, series.square_bound(plan, step))

    def _noise(self, number: int, randomness: Randomness) -> Callable[[int], Randomness]:
        """Return a party's source of noise for each step; simulated noise is the same however often a run resumes."""
        if self.simulation_seed is None:
            return lambda step: randomness
        seed = self.simulation_seed
        return lambda step: SimulationRandomness(seed, "psgd noise", number, step)

    def holder(self, share: KeyShare, terms: SeriesTerms, **means: Unpack[RoleMeans]) -> SeriesHolder:
        """See `Spec.holder`; holders of a series always answer on the board, with coins of the operating system."""
        return SeriesHolder(share, terms, once=means.get("ledger"))

    def reader(self, terms: SeriesTerms, *, public: bool = True) -> SeriesReader:
        return SeriesReader("reader", terms)

    def curator(self, terms: SeriesTerms, *, randomness: Randomness = SYSTEM) -> GradientCurator:
        """Return the curator's role, whose result is a `GradientCuratorState`."""
        return GradientCurator(terms, randomness=randomness)

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost is that of all agreed steps, however many parties answered them."""
        agreement, options = self.agreement, self.options
        guarantee = agreement.guarantee
        delta = options.delta if options.variant == "gaussian" else guarantee.delta_samplers
        event = PrivacyEvent("psgd", guarantee.epsilon_transcript, delta, unit=self.unit)
        bound = Sensitivity(
            agreement.sensitivity, unit=self.unit, source="one step's gradients; epsilon is that of all steps"
        )
        chosen = {"steps": agreement.series.steps, "lam": options.lam, "colluders": options.coalition}
        return ledger_entry(event, bound, agreement.series.step_law, chosen)

    def release(self, result: GradientCuratorState, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        return result.w, self.cost(self.ballots(result))

    def ballots(self, result: GradientCuratorState) -> int:
        assert result.opened is not None
        return result.opened.ballots


def _sizes(public: PublicTerms) -> tuple[int, ...]:
    text = public.required("sizes")
    try:
        sizes = tuple(int(size) for size in text.split())
    except ValueError:
        raise InvalidParameter(
            "the sizes of the parties' data sets are whole numbers with spaces between them"
        ) from None
    if len(sizes) != public.parties:
        raise InvalidParameter(f"the study has {public.parties} parties and says {len(sizes)} sizes")
    return sizes
