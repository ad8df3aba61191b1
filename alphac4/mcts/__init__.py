"""Monte Carlo tree search over trees stored as arrays: guided by a network (PUCT), or without one in `classic` (UCT).

Read the modules in this order: `tree` (arrays and proofs), `simulation` (selection and backup), `puct` (PUCT,
expansion of a leaf), `network_search` (an iteration over a batch), `improvement` (policy targets),
`search` (budgets, tree reuse), `results`.
"""
