from .released import ReleasedClassifier as ReleasedClassifier
from .released import ReleasedRegressor as ReleasedRegressor
from .released import load_model as load_model
from .simulation.classifier import PrivateFederatedClassifier as PrivateFederatedClassifier
from .simulation.classifier import ReleaseWarning as ReleaseWarning
from .simulation.experiment import Simulation as Simulation
from .simulation.experiment import simulate as simulate
from .simulation.key_setup import KeySetup as KeySetup
from .simulation.key_setup import setup_keys as setup_keys

__version__: str
