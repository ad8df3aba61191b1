"""Self-play on the cores of many machines, by Ray.

Nothing else imports Ray, and this package only once a cluster has been asked for.
"""
