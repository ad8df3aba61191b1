"""`alphac4 train` as a script."""

import sys

from alphac4.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train", *sys.argv[1:]]))
