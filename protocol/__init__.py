"""What every role shares: cryptography, messages, transcripts. Knows no machine learning."""

from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey, deal
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.ledger import OnceLedger
from psephos.protocol.transcript import Transcript

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

if __name__ != "psephos.protocol":
    from psephos._checkout import stand_in

    stand_in(__name__)
