from .holder import KeyHolder as KeyHolder
from .party import Party as Party
from .party import VectorParty as VectorParty
from .party import VotingParty as VotingParty
