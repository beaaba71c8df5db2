"""Pathak, Rane and Raj 2010: terms, messages and the comparisons under encryption."""
