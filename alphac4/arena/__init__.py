"""Players of every kind, matches between them, and ratings from their results."""


class PlayerError(ValueError):
    """Error for a player that cannot be created or used as requested; the message is one line."""
