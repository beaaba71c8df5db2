"""A data owner: it trains, votes, adds its share of noise, and may hold a share of the key."""

from psephos.parties.old_holder import KeyHolder
from psephos.parties.old_party import Party

__all__ = ["KeyHolder", "Party"]

if __name__ != "psephos.parties":
    from psephos._checkout import stand_in

    stand_in(__name__)
