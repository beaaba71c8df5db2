"""Rajkumar and Agarwal 2012: the curator (the paper's third party), its noise and its privacy guarantee."""
