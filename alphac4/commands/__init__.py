"""Subcommands of `alphac4`, one module per group. A class's fields are options; calling an instance runs the command.

Modules import PyTorch, Numba and most of the package only when a command runs, so that help and errors are fast.
"""

EXIT_BROKEN_INSTALL, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
