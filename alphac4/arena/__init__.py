"""Players of every kind, matches between them, and ratings from their results."""
