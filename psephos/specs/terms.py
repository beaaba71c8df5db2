"""What a specification is planned from: values that everybody knows, and the privacy that is agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import public_features
from psephos.curator.methods import ReleaseRequest
from psephos.curator.rehearsal import PublicModel, fit_public
from psephos.curator.statistic import MechanismName
from psephos.parties.noise import NoiseFrom
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicTerms:
    """What everybody knows before the first message.

    Attributes:
        auxiliary: the public samples, float64 (N, d).
        classes: K; 1 where the label is a number.
        parties: M.
        class_names: the classes in the order of their numbers, where a protocol agrees on names.
        method: what is released, where the protocol has several methods.
        labels: of the public samples, (N,): class numbers, -1 for none, or numbers, NaN for none; None where none has
            one.
        rows: the announced number of rows of all parties together; None for the protocol's usual number.
        agreed: parameters that take the place of what a public rule gives; matrices as arrays.
    """

    auxiliary: AuxiliarySet = field(repr=False)
    classes: int
    parties: int
    class_names: tuple[str, ...] = ()
    method: str = ""
    labels: NDArray[Any] | None = field(default=None, repr=False)
    rows: int | None = None
    agreed: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def samples(self) -> Array:
        return self.auxiliary.samples

    def required(self, name: str) -> Any:
        """Return an agreed parameter that no rule gives. Raises InvalidParameter where it is missing."""
        if name not in self.agreed:
            raise InvalidParameter(f"this release must state the parameter {name}")
        return self.agreed[name]

    @cached_property
    def model(self) -> PublicModel:
        """The model of the labelled public samples; raises DataError where none has a label."""
        assert self.labels is not None
        return fit_public(public_features(self.samples), self.labels, self.classes)


@dataclass(frozen=True, kw_only=True)
class PrivacyTerms:
    """What a release protects, and against whom.

    Attributes:
        epsilon: of the release; None for the plan of a sum without noise.
        delta: of the release; a delta of 0 chooses noise of a pure epsilon.
        mechanism: the noise; None for the protocol's own.
        unit: what is protected, where the protocol leaves the choice.
        persons: the column that names persons, where a person with all rows at a party is protected; else "".
        colluders: parties (or key holders, where these add the noise) that may tell each other their noise.
        dropouts: parties that may be absent.
        holders: the number of key holders where these add the noise; 0 where the parties do.
        lam: the ridge lambda of what is fitted; None for the method's rule.
        least_noise: whether Laplace noise takes the place of Gaussian noise where its variance is smaller.
        simulation_seed: draws the noise of parties and holders from a seed: for simulations only.
    """

    epsilon: float | None
    delta: float = 0.0
    mechanism: MechanismName | None = None
    unit: Literal["record", "party"] = "record"
    persons: str = ""
    colluders: int = 0
    dropouts: int = 0
    holders: int = 0
    lam: float | None = None
    least_noise: bool = False
    simulation_seed: int | None = None

    def __post_init__(self) -> None:
        if self.colluders < 0 or self.dropouts < 0:
            raise InvalidParameter(
                f"colluders and dropouts cannot be negative, but they are {self.colluders} and {self.dropouts}"
            )
        if self.persons and self.unit == "party":
            raise InvalidParameter(
                f"the column {self.persons} names persons, whom the unit record protects: leave it out"
            )

    @property
    def noise_from(self) -> NoiseFrom:
        return "holders" if self.holders else "parties"

    @property
    def joint_noise(self) -> MechanismName:
        """The noise that parties or key holders add in shares."""
        return self.mechanism or ("gaussian" if self.delta else "discrete-laplace")

    @property
    def request(self) -> ReleaseRequest:
        """What the methods to which the curator adds the noise are asked for."""
        noise = self.mechanism or ("gaussian" if self.delta else "spherical-laplace")
        assert self.epsilon is not None
        return ReleaseRequest(self.epsilon, self.delta, noise, self.lam)
