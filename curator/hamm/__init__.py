"""Hamm 2016 and its rivals: from counts to a released classifier."""
