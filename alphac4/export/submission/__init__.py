"""An agent for Kaggle's ConnectX that needs nothing but numpy.

`alphac4 export --kaggle` joins the modules of `alphac4.export.submission` into one file, with a network's weights and
the settings of its search filled in. Without weights, or on a board that they are not for, the agent is a classic tree
search with random rollouts.

A position is two integers of any size: ``own``, the stones of the side to move, and ``occupied``, all stones. Each
column takes ``rows + 1`` bits, lowest cell first; the extra bit stays empty, so that shifted stones never wrap.
Values are from the side to move, everywhere. The sign flips in the backup only.
"""
