"""The untrusted curator: it collects ballots, has their sum opened, fits a classifier, adds noise and releases it."""

from psephos._front import front

__getattr__, __dir__, __all__ = front(__name__, __file__)
