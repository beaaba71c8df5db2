"""Prediction of a run's cost before it starts (`psephos plan`): bytes sent, and seconds from one timed sum.

For the times, a few parties encrypt a few of the ciphertexts that each party of the run sends, under a real key on this
machine; the sum is opened. Key generation, training, the curator's fits and the loading of data are not included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, replace
from typing import Any, Literal

import numpy as np

from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius
from psephos.curator.psgd.agreement import DescentOptions, agree
from psephos.options import OneOrMore, TwoOrMore, option
from psephos.parties.training import LinearVoters
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import check_mode
from psephos.protocol.paillier.keys import check_degree, check_key_bits
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.wire import HEADER_BYTES
from psephos.results.base import timed
from psephos.results.papers import PlanResult
from psephos.simulation.encrypted_sum import PartyFactory, RunConfig, simulate_sum
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.simulation.options import BallotOptions, KeyOptions, MachineOptions
from psephos.specs.base import Participants, Spec, SumSpec, VectorFormat
from psephos.specs.exact import AverageSpec, TallySpec, VectorSpec
from psephos.specs.psgd import PsgdSpec

_TIMED_PARTIES, _TIMED_CIPHERTEXTS = 8, 8
"""Size of the timed sum: parties, and ciphertexts of each, which are computed side by side."""

_REQUEST = HEADER_BYTES + 32
_PARTIAL = HEADER_BYTES + 32 + 1


@dataclass(frozen=True, kw_only=True)
class PlanOptions(KeyOptions, BallotOptions, MachineOptions):
    """Options of a run to predict: a sum of votes, of linear classifiers' parameters, or of gradients at each step."""

    protocol: Literal["tally", "average", "psgd"] = option(
        "tally", "tally (votes), average (parameters) or psgd (a descent, all steps)."
    )
    parties: TwoOrMore = option(MISSING, "Number of data owners, M.")
    samples: OneOrMore | None = option(
        None, "Auxiliary samples, N, that a tally votes on.", shown="required for a tally"
    )
    classes: TwoOrMore = option(2, "Number of classes, K.")
    features: OneOrMore = option(100, "Number of features, d.")
    steps: OneOrMore = option(200, "Number of steps of psgd, T.")
    degree: int | None = option(
        None,
        "Degree of the key (Damgard-Jurik), 1 to 4.",
        group="Encryption",
        shown="the one that the run would choose",
    )
    holders: int = option(5, "Number of key holders.", group="Encryption")
    threshold: int = option(3, "Number of holders that open a sum.", group="Encryption")

    def check(self) -> None:
        """Check the options; `spec` checks those of a protocol."""
        if not 1 <= self.threshold <= self.holders <= self.parties:
            raise InvalidParameter(
                f"a run has 1 <= threshold <= holders <= parties, not {self.threshold}, {self.holders} and "
                f"{self.parties}"
            )
        if self.proofs == "valid" and self.randomness == "full":
            raise InvalidParameter("ballots are proved valid in randomness modes half and short, not in full")
        check_key_bits(self.key_bits, test_key=self.test_key)
        check_degree(self.degree or 1)

    @property
    def spec(self) -> Any:
        """The specification of the run; for psgd, of parties with 8 rows each."""
        return _SPECS[self.protocol](self)


def _tally(options: PlanOptions) -> TallySpec:
    if options.samples is None:
        raise InvalidParameter("a tally is about auxiliary samples: --samples N, at least 1")
    return TallySpec(AuxiliarySet(np.zeros((options.samples, options.features))), options.classes)


def _average(options: PlanOptions) -> AverageSpec:
    if options.proofs == "valid":
        raise InvalidParameter("what proofs of validity cost is predicted of votes only")
    radius = averaging_radius(HAMM_LAMBDA, options.classes)
    return AverageSpec(options.features, options.classes, radius, HAMM_LAMBDA)


def _descent(options: PlanOptions) -> PsgdSpec:
    if options.classes != 2 or options.degree not in (None, 1) or options.proofs == "valid":
        raise InvalidParameter(
            "psgd is for two classes and has keys of degree 1; what its proofs of validity cost is not predicted"
        )
    descent = DescentOptions(steps=options.steps)
    return PsgdSpec(descent, agree(descent, [8] * options.parties, options.features))


_SPECS: Mapping[str, Callable[[PlanOptions], Any]] = {"tally": _tally, "average": _average, "psgd": _descent}


def plan(options: PlanOptions) -> PlanResult:
    """Predict the time and traffic of a run; takes seconds, most of them for a key."""
    options.check()
    spec = options.spec
    degree = options.degree or spec.best_degree(options.key_bits, options.parties)
    ceremony = setup_keys(
        max(min(options.parties, _TIMED_PARTIES), options.holders),
        key_bits=options.key_bits,
        degree=degree,
        holders=options.holders,
        threshold=options.threshold,
        test_key=options.test_key,
    )
    key = ceremony.threshold_key.key
    check_mode(key, options.randomness)
    packing, steps = spec.plan_for(key, options.parties), spec.steps
    length = min(packing.length, max(options.classes - 1, _TIMED_CIPHERTEXTS * packing.slots_per_plaintext))
    length -= length % (options.classes - 1)
    round_, factory = _timed_sum(options, spec, ceremony, replace(packing, length=length))
    per_worker = -(-options.parties * steps * packing.ciphertexts // options.workers)
    config = RunConfig(options.randomness, present=range(min(options.parties, _TIMED_PARTIES)), expected=per_worker)
    simulate_sum(round_, ceremony, factory, config)  # makes the tables of powers, which last for a run
    seconds = simulate_sum(round_, ceremony, factory, config).seconds
    longer = steps * packing.ciphertexts / round_.plan.ciphertexts
    more = longer * options.parties / len(config.present or ()) / (1 if steps > 1 else options.workers)
    phases = {
        "encrypt": more * seconds["encrypt"],
        "aggregate": more * seconds["aggregate"],
        "decrypt": longer * seconds["decrypt"],
    }
    ballot = Ballot.encoded_length(replace(round_, plan=packing))
    sizes = {"ballot": ballot, "ballots": options.parties * steps * ballot}
    if steps == 1:
        answer = _PARTIAL + packing.ciphertexts * key.ciphertext_bytes
        sizes["opening"] = options.threshold * (_REQUEST + (options.parties + 7) // 8 + answer)
        sizes["board_per_observer"] = sizes["ballots"] + HEADER_BYTES  # the curator's message that closes the vote
    return PlanResult(
        protocol=options.protocol,
        parties=options.parties,
        auxiliary=options.samples or 0,
        classes=options.classes,
        features=options.features,
        steps=steps,
        key_bits=options.key_bits,
        degree=degree,
        randomness=options.randomness,
        proofs=options.proofs,
        workers=options.workers,
        holders=options.holders,
        threshold=options.threshold,
        slots_per_plaintext=packing.slots_per_plaintext,
        ciphertexts_per_ballot=packing.ciphertexts,
        phases=timed({name: round(each, 3) for name, each in (phases | {"total": sum(phases.values())}).items()}),
        bytes=sizes,
        bits_per_count=round(8 * ballot / packing.length, 3),
        floor_bits=math.ceil(math.log2(options.parties * (packing.maximum - packing.minimum) + 1)),
    )


def _timed_sum(
    options: PlanOptions, spec: Spec, ceremony: KeySetup, packing: PackingPlan
) -> tuple[Round, PartyFactory]:
    generator, parties = np.random.default_rng(0), len(ceremony.roster)
    timed: SumSpec = VectorSpec(VectorFormat(packing.length, packing.minimum, packing.maximum), bytes(32))
    data: Any = np.zeros((parties, packing.length), dtype=np.int64)
    if spec.takes_classifier:
        samples, classes = packing.length // (options.classes - 1), options.classes
        shape = (options.features,) if classes == 2 else (classes, options.features)
        auxiliary = AuxiliarySet(generator.normal(size=(samples, options.features)) / options.features)
        timed, data = TallySpec(auxiliary, classes), LinearVoters(generator.normal(size=(parties, *shape)))
    made = timed.terms(ceremony.threshold_key, Participants(ceremony.roster, 2, options.test_key, options.proofs))
    return replace(made, plan=packing), PartyFactory(timed, data)
