"""A data owner: it trains, votes, adds its share of noise, and may hold a share of the key."""

from psephos._front import front

__getattr__, __dir__, __all__ = front(__name__, __file__)
