"""Data sets, their splits, and how rows get into the unit ball."""
