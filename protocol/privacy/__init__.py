"""Noise, its laws on a lattice, and the account of what it costs."""
