"""Self-play and search on an NVIDIA GPU, compiled from the same functions as on the CPU.

The compiled rules and tree functions take arrays and an index, so Numba compiles them for CUDA as they are; the
kernels here only say which thread does what. Without a GPU the same kernels run, slowly, in Numba's simulator
(``NUMBA_ENABLE_CUDASIM=1``), on arrays in the computer's own memory.
"""
