"""Computation on a GPU that has passed `self_test`: trees, networks, the replay window and gradient steps.

The compiled rules and tree functions take arrays and an index, so Numba also compiles them for CUDA; the kernels only
assign trees to threads. Without a GPU, the same kernels run slowly in Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``),
on arrays in the host's memory.
"""
