from .hamm.estimators import MajorityVoteClassifier as MajorityVoteClassifier
from .hamm.estimators import SoftLabelClassifier as SoftLabelClassifier
from .tally import OpenedSum as OpenedSum
from .tally import Tally as Tally
