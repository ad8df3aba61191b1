"""The library in ten lines: search, solve, and play a match."""

import sys

import alphac4

FAST = "--fast" in sys.argv  # used by the tests

agent = alphac4.load("best")
result = agent.search("4455", simulations=20 if FAST else 600)
print(result)
print("visits of column 4:", result.columns[3].visits)
print("the exact score of the position is", alphac4.solve("4455"))
if result.tree is not None:
    print(len(result.tree.svg()), "characters of SVG, which notebooks show for result.tree")
print(alphac4.play_match("quick@10", "uct:50", games=2 if FAST else 20, progress=True))
