from .holder import KeyHolder as KeyHolder
from .party import Party as Party
