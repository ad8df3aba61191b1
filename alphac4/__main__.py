"""`python -m alphac4`: the `alphac4` command."""

from alphac4.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
