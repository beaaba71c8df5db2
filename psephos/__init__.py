"""Wires parties, curator and protocol together: simulation, data sets, experiments, reports, the command."""

from psephos._front import front

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = front(__name__, __file__)
