"""`alphac4 play` as a script."""

import sys

from alphac4.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["play", *sys.argv[1:]]))
