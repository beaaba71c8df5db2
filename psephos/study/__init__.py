"""A study played for real: every role by an agent of its own, over a board."""
