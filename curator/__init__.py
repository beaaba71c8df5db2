"""The untrusted aggregator: it collects, opens only aggregates, fits, perturbs and releases."""

from psephos._front import front

__getattr__, __dir__, __all__ = front(__name__, __file__)
