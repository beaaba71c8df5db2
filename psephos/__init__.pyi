from .model import ReleasedClassifier as ReleasedClassifier
from .model import load_model as load_model
from .simulation.ceremony import Ceremony as Ceremony
from .simulation.ceremony import hold_ceremony as hold_ceremony
from .simulation.experiment import Simulation as Simulation
from .simulation.experiment import simulate as simulate

__version__: str
