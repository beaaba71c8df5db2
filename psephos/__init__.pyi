from .simulation.ceremony import Ceremony as Ceremony
from .simulation.ceremony import hold_ceremony as hold_ceremony

__version__: str
