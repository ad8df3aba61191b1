"""Speed of this program's parts on a machine, a GPU or a cluster, and of other programs for the same game."""
