"""The subcommands of `alphac4`: each parses nothing, builds from its options, calls and prints."""
