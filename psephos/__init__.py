"""The stage: wires parties, curator and protocol together; simulation, data sets, experiments, command."""

from psephos.simulate.ceremony import Ceremony, hold_ceremony

__all__ = ["Ceremony", "__version__", "hold_ceremony"]

__version__ = "0.1.0"
