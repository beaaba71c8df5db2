from .model import ReleasedClassifier as ReleasedClassifier
from .model import load_model as load_model
from .simulation.ceremony import KeySetup as KeySetup
from .simulation.ceremony import setup_keys as setup_keys
from .simulation.experiment import Simulation as Simulation
from .simulation.experiment import simulate as simulate

__version__: str
