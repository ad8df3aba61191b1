"""The subcommands of `alphac4`: each reads its options, calls the package and prints."""

UNSOUND = 1  # exit code of an installation that does not work
