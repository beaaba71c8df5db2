"""Simulations of every protocol, with all roles in one process."""
