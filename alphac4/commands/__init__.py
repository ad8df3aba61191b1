"""The subcommands of `alphac4`: each reads its options, calls the package and prints."""
