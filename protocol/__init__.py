"""What every role shares: cryptography, messages, transcripts. Knows no machine learning."""

from protocol.keys import PublicKey
from protocol.ledger import OnceLedger
from protocol.packing import PackingPlan
from protocol.private_key import PrivateKey, generate_private_key
from protocol.rounds import Round
from protocol.signing import SigningKey
from protocol.threshold import KeyShare, ThresholdKey, deal
from protocol.transcript import Transcript
from protocol.vectors import EncryptedVector
from protocol.votes import VoteLayout, vote_round

__all__ = [
    "EncryptedVector",
    "KeyShare",
    "OnceLedger",
    "PackingPlan",
    "PrivateKey",
    "PublicKey",
    "Round",
    "SigningKey",
    "ThresholdKey",
    "Transcript",
    "VoteLayout",
    "deal",
    "generate_private_key",
    "vote_round",
]
