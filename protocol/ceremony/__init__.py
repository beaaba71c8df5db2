"""A shared Paillier key that nobody ever held, made by its holders themselves (docs/protocols/ceremony.md)."""
