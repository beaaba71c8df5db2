from .hamm.estimators import MajorityVoteClassifier as MajorityVoteClassifier
from .hamm.estimators import SoftLabelClassifier as SoftLabelClassifier
from .old_tally import OpenedSum as OpenedSum
from .old_tally import Tally as Tally
