"""The untrusted aggregator: it collects, opens only aggregates, fits, perturbs and releases."""

from curator.estimators import MajorityVoteClassifier, SoftLabelClassifier
from curator.tally import OpenedSum, Tally

__all__ = ["MajorityVoteClassifier", "OpenedSum", "SoftLabelClassifier", "Tally"]
