"""A data owner: it trains, votes, adds its share of noise, and may hold a share of the key."""
