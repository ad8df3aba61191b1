"""How counts, values and the end of a game are written for people; its length is told in the winner's own moves."""


def describe_end(sign: int, moves: int) -> str:
    """Such as "wins in 3 moves", for a positive sign, or "loses in 1 move"; ``moves`` are those of the winner."""
    return f"{'wins' if sign > 0 else 'loses'} in {count_of(moves, 'move')}"


def count_of(number: int, noun: str) -> str:
    """Such as "1 move" or "2 moves"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def signed(value: float) -> str:
    """A value in [-1, 1] with two decimals, such as "+0.25"; what rounds to nothing is "0.00"."""
    text = f"{value:+.2f}"
    return text[1:] if text[1:] == "0.00" else text
