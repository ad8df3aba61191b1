"""`alphac4 doctor` as a script."""

from alphac4.cli import script

if __name__ == "__main__":
    script("doctor")
