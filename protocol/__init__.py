"""What every role shares: cryptography, messages, transcripts. Knows no machine learning."""

from psephos._front import front

__getattr__, __dir__, __all__ = front(__name__, __file__)
