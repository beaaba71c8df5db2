"""A data owner: it trains, votes, adds its share of noise, and may hold a share of the key."""

from parties.holder import KeyHolder
from parties.party import Party

__all__ = ["KeyHolder", "Party"]
