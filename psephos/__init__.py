"""The stage: wires parties, curator and protocol together; simulation, data sets, experiments, command."""

__version__ = "0.1.0"
