from .simulate.ceremony import Ceremony as Ceremony
from .simulate.ceremony import hold_ceremony as hold_ceremony

__version__: str
