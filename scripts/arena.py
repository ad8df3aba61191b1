"""`alphac4 arena` as a script."""

import sys

from alphac4.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["arena", *sys.argv[1:]]))
