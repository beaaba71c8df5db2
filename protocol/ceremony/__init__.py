"""A shared Paillier key that nobody ever held: its generation by the holders themselves (docs/protocols/ceremony.md)."""
