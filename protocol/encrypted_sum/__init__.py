"""One encrypted sum of many parties' vectors: its rounds, ballots, and what is opened."""
