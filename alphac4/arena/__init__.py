"""Players of every kind, matches between them, and what the results say."""
