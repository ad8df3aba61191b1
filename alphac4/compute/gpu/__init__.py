"""Work on a GPU: evaluating and learning, after `self_test`; with the backend cuda-trees the trees as well.

The trees of `trees` are an experiment. The compiled rules and tree functions take arrays and an index, so Numba
compiles them for CUDA as they are; the kernels only say which thread does what. Without a GPU the same kernels run,
slowly, in Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``), on arrays in the computer's own memory.
"""
