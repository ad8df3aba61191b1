"""Monte Carlo tree search over trees held as arrays: guided by a network (PUCT), and without one in `classic` (UCT).

In the order in which it is read: `tree` (the arrays and what is proven), `simulation` (select a leaf, back its value
up), `config` and `puct` (the rule, and what an evaluation makes of a leaf), `network_search` (an iteration over a
batch), `improvement` (what a finished search teaches), `search` (budgets, kept trees), `results`.
"""
