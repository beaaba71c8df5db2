from .old_holder import KeyHolder as KeyHolder
from .old_party import Party as Party
