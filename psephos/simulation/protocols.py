"""What `psephos.simulate` and `psephos simulate` can run, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from psephos.results import RunResult
from psephos.simulation.options import AverageOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_average, simulate_tally


@dataclass(frozen=True)
class SimulatedProtocol:
    """How a protocol is simulated; `fixed`: options whose values make a run one of this protocol."""

    options: type[Any]
    run: Callable[..., RunResult]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def free(self) -> list[str]:
        """Names of the options that a caller chooses."""
        return [option.name for option in fields(self.options) if option.name not in self.fixed]


def _tally(**fixed: Any) -> SimulatedProtocol:
    return SimulatedProtocol(TallyOptions, simulate_tally, fixed)


PROTOCOLS: Mapping[str, SimulatedProtocol] = {
    "tally": _tally(),
    "statistic": _tally(reveal="statistic"),
    "rehearsed": _tally(reveal="statistic", methods=("rehearsed",)),
    "record": _tally(unit="record"),
    "average": SimulatedProtocol(AverageOptions, simulate_average),
    "pathak": SimulatedProtocol(PathakOptions, simulate_pathak),
    "psgd": SimulatedProtocol(PsgdOptions, simulate_psgd),
}
