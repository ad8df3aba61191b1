"""`alphac4 review` as a script."""

from alphac4.cli import script

if __name__ == "__main__":
    script("review")
