"""`alphac4 evaluate` as a script."""

import sys

from alphac4.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["evaluate", *sys.argv[1:]]))
