"""Players of every kind, matches between them, and ratings from their results."""

from alphac4.storage.records import InputError


class PlayerError(InputError):
    """Error for a player that cannot be created or cannot play here; the message is one line."""
