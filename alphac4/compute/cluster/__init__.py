"""Self-play on the cores or GPUs of many machines, with Ray.

Only this package imports Ray, and it is imported only for a cluster.
"""
