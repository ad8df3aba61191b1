"""Work of a GPU: evaluating and learning, once `self_test` has found it right; the trees as well, if one asks for it.

The trees of `trees` are an experiment. The compiled rules and tree functions take arrays and an index, so Numba
compiles them for CUDA as they are; the kernels only say which thread does what. Without a GPU the same kernels run,
slowly, in Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``), on arrays in the computer's own memory.
"""
