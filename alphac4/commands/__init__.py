"""Subcommands of `alphac4`, one module per group: the fields of a class are options, and calling it runs the command.

Modules import PyTorch, Numba and most of the package only when a command runs, so that help and errors are fast.
"""

EXIT_BROKEN_INSTALL, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
