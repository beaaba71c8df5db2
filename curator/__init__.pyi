from .hamm.estimators import LinearClassifier as LinearClassifier
from .hamm.estimators import MajorityVoteClassifier as MajorityVoteClassifier
from .hamm.estimators import OwnDataClassifier as OwnDataClassifier
from .hamm.estimators import PateClassifier as PateClassifier
from .hamm.estimators import SoftLabelClassifier as SoftLabelClassifier
from .hamm.estimators import StatisticClassifier as StatisticClassifier
from .tally import OpenedSum as OpenedSum
from .tally import Tally as Tally
