"""The subcommands of `alphac4`, a module for each group: the fields of a class are options, and calling it runs it.

Modules load PyTorch, Numba and the package's own rooms only where a command runs, so that help and mistakes are fast.
"""

UNSOUND, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit codes; UNSOUND: the installation does not work
