"""The roles of a data owner and of a key holder: training, voting, noise shares, partial decryptions."""

from psephos._front import front

__getattr__, __dir__, __all__ = front(__name__, __file__)
