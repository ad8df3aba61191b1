"""How the end of a game is described to people, in one unit: the winner's own moves."""


def describe_end(sign: int, moves: int) -> str:
    """Such as "wins in 3 moves", for a positive sign, or "loses in 1 move"; ``moves`` are those of the winner."""
    return f"{'wins' if sign > 0 else 'loses'} in {moves} move{'s' if moves != 1 else ''}"
