"""`alphac4 prove` as a script."""

from alphac4.cli import script

if __name__ == "__main__":
    script("prove")
