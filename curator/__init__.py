"""The untrusted aggregator: it collects, opens only aggregates, fits, perturbs and releases."""

from psephos.curator.hamm.estimators import MajorityVoteClassifier, SoftLabelClassifier
from psephos.curator.old_tally import OpenedSum, Tally

__all__ = ["MajorityVoteClassifier", "OpenedSum", "SoftLabelClassifier", "Tally"]

if __name__ != "psephos.curator":
    from psephos._checkout import stand_in

    stand_in(__name__)
