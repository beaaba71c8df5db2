"""Hamm 2016 and the methods it is compared with: from vote counts to a released classifier."""
