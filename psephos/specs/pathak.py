"""Averages of parameters in additive shares, under noise that nobody can remove (Pathak, Rane and Raj 2010)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.ledger import Release, ledger_entry
from psephos.curator.pathak.bounds import proved_epsilon
from psephos.curator.pathak.curator import ConsumingCurator, PathakConsumer, PathakCurator, SharedSum
from psephos.parties.pathak import PathakParty
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.pathak.dgk import DgkPrivateKey
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.pathak.terms import PathakTerms, Variant
from psephos.protocol.privacy.accounting import PrivacyEvent
from psephos.protocol.privacy.mechanisms import choose_pitch
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.roles import Role
from psephos.protocol.signing import SigningKey
from psephos.protocol.study.study import Study
from psephos.specs.base import PARAMETERS_SENT, Array, Participants, RoleMeans, Spec
from psephos.specs.secrets import CLASSIFIER, DATA, NOISE, SIZES, Secret
from psephos.specs.terms import PrivacyTerms, PublicTerms

SMALLEST_PARTY = Secret("who is smallest", "all parties", "Which party holds the fewest rows.")
BARE_SUM = Secret(
    "the sum without noise",
    "all parties",
    "The sum of the honest parties' parameters without the noise of honest parties.",
    by_attack=True,
)

SMALLEST_SIZE = 16
"""The smallest size of the first bucket, unless something else is agreed on."""


def make_terms(
    *,
    randomness: Randomness = SYSTEM,
    variant: Variant = "public-bound",
    smallest_size: int = SMALLEST_SIZE,
    largest_size: int = 1 << 20,
    **agreed: Any,
) -> PathakTerms:
    """Return terms with a fresh nonce, and the grid that the finest noise calls for (`mechanisms.choose_pitch`).

    `agreed`: fields of `PathakTerms`, with these defaults: tournament, classes "0" and "1", tolerance
    1e-9, excluded 1. Raises InvalidParameter for anything that no run can have.
    """
    defaults = {"comparisons": "tournament", "classes": ("0", "1")}
    agreed = {**defaults, "tolerance": 1e-9, "excluded": 1, **agreed}
    lam, features = float(agreed["lam"]), agreed["features"]
    if not (math.isfinite(lam) and lam > 0):
        raise InvalidParameter(f"lambda must be positive and finite, not {lam}")
    if largest_size < 1 or smallest_size < 1 or features < 1:
        raise InvalidParameter("sizes and features are positive")
    pitch = choose_pitch(2 / ((smallest_size if variant == "public-bound" else largest_size) * 2 * lam), features)
    return PathakTerms(
        variant=variant,
        smallest_size=smallest_size,
        largest_size=largest_size,
        pitch_exponent=min(0, math.frexp(pitch)[1] - 1),
        nonce=randomness.draw(16).hex(),
        **{**agreed, "lam": lam, "epsilon": float(agreed["epsilon"]), "tolerance": float(agreed["tolerance"])},
    )


@dataclass(frozen=True)
class PathakSpec(Spec):
    """Pathak's averaging. Without key holders there is no threshold: the noise withstands `excluded` parties together.

    Attributes:
        agreed: the terms, whose nonce `terms` replaces where the participants derive one.
        test_key: accept keys under 2048 bits, where the variant has keys.
        simulation_seed: draws the noise from a seed: for simulations only.
    """

    methods = ("pathak",)
    summand = "parameters in random shares"
    sends: ClassVar[Mapping[str, str]] = {"pathak": PARAMETERS_SENT}
    parameters: ClassVar[Mapping[str, Any]] = {
        "lam": float,
        "smallest_size": int,
        "largest_size": 1 << 20,
        "excluded": 1,
        "tolerance": 1e-9,
    }
    unit = "record"
    keyed = False
    one_release = False
    secrets = (DATA, CLASSIFIER, NOISE, SIZES, SMALLEST_PARTY, BARE_SUM)

    agreed: PathakTerms
    test_key: bool = False
    simulation_seed: int | None = None

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        agreed = {
            name: public.required(name) if isinstance(default, type) else public.agreed.get(name, default)
            for name, default in cls.parameters.items()
        }
        return cls(
            make_terms(
                parties=public.parties,
                features=public.samples.shape[1],
                classes=public.class_names,
                epsilon=privacy.epsilon,
                **agreed,
            )
        )

    def check_study(self, study: Study) -> None:
        if study.minimum_ballots != len(study.roster):
            raise StudyError("shares of all parties add up to the result: the minimum of ballots is all of them")

    def terms(self, key: ThresholdKey | None, participants: Participants) -> PathakTerms:
        """Return the terms with the participants' nonce; there is no key that all holders share."""
        return replace(self.agreed, nonce=participants.nonce(None, "pathak").hex())

    def party(
        self,
        number: int,
        signing_key: SigningKey | None,
        data: tuple[ArrayLike, ArrayLike],
        terms: PathakTerms,
        *,
        group_key: PrivateKey | None = None,
        **means: Unpack[RoleMeans],
    ) -> PathakParty:
        """See `Spec.party`; `data`: the party's rows, (n, d), and labels, (n,).

        Messages are not signed one by one, since the board authenticates their senders: a simulation needs no signing
        key. `group_key`: the leader's, in variants that find the smallest party.
        """
        X, y = data
        seed, coins = self.simulation_seed, means.get("randomness", SYSTEM)
        noise = None if seed is None else SimulationRandomness(seed, "pathak noise", number + 1)
        keys: dict[str, Any] = {"group_key": group_key, "test_key": self.test_key}
        return PathakParty(number, X, np.asarray(y), terms, randomness=coins, noise_randomness=noise, **keys)

    def holder(self, share: KeyShare, terms: PathakTerms, **means: Unpack[RoleMeans]) -> Role:
        raise StudyError("no key is shared in this protocol")

    def curator(self, terms: PathakTerms, *, randomness: Randomness = SYSTEM) -> ConsumingCurator:
        """Return the curator's role, whose result is a `SharedSum`."""
        return ConsumingCurator(terms, randomness=randomness)

    def separate_curator(
        self, terms: PathakTerms, keys: tuple[PrivateKey, DgkPrivateKey] | None, *, randomness: Randomness = SYSTEM
    ) -> PathakCurator:
        """Return Charlie, the curator of the paper, who learns no sum. `keys`: its two, where the variant has keys."""
        return PathakCurator(terms, keys, test_key=self.test_key, randomness=randomness)

    def reader(self, terms: PathakTerms, *, public: bool = True) -> PathakConsumer:
        """Return whoever adds up the published shares, where that is not the curator."""
        return PathakConsumer(terms)

    def parameters_of(self, total: tuple[int, ...]) -> Array:
        """Return the published parameters w_s, (d,), of the sum of all shares."""
        return np.array(total, dtype=np.float64) * (self.agreed.pitch / self.agreed.parties)

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost is that of a run in which all parties take part."""
        terms = self.agreed
        epsilon, delta = proved_epsilon(terms)
        bound = Sensitivity(
            record_sensitivity(terms, terms.smallest_size), unit=self.unit, source="one party's parameters"
        )
        event = PrivacyEvent("pathak", epsilon, delta, unit=self.unit)
        return ledger_entry(event, bound, "laplace in shares", {"lam": terms.lam})

    def release(self, result: SharedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        return self.parameters_of(result.total), self.cost(self.agreed.parties)

    def ballots(self, result: SharedSum) -> int:
        """Return K: every party's share is in the sum."""
        return self.agreed.parties
