from .estimators import LinearClassifier as LinearClassifier
from .estimators import MajorityVoteClassifier as MajorityVoteClassifier
from .estimators import PateClassifier as PateClassifier
from .estimators import SoftLabelClassifier as SoftLabelClassifier
from .estimators import StatisticClassifier as StatisticClassifier
from .tally import OpenedSum as OpenedSum
from .tally import Tally as Tally
