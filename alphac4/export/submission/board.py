"""The rules on integers of any size, for boards of any size."""


class Board:
    """The rules on a board of any size."""

    def __init__(self, rows: int, columns: int, run_length: int) -> None:
        height = rows + 1
        self.rows = rows
        self.columns = columns
        self.run_length = run_length
        self.bottom = sum(1 << column * height for column in range(columns))
        self.cells = self.bottom * ((1 << rows) - 1)
        self.column_cells = [((1 << rows) - 1) << column * height for column in range(columns)]
        self.directions = (1, height, height - 1, height + 1)
        self.even_rows = sum(self.bottom << row for row in range(0, rows, 2))
        self.bits = [column * height + row for row in range(rows) for column in range(columns)]  # bottom row first

    def read(self, cells: list[int], mark: int) -> tuple[int, int]:
        """``own, occupied`` from Kaggle's flat board: row-major from the top, 0 empty, else the player's mark."""
        own = occupied = 0
        for row in range(self.rows):
            for column in range(self.columns):
                cell = cells[(self.rows - 1 - row) * self.columns + column]
                stone = 1 << self.bits[row * self.columns + column]
                own |= stone if cell == mark else 0
                occupied |= stone if cell else 0
        return own, occupied

    def mirror(self, stones: int) -> int:
        """The stones with the columns in reverse order."""
        height = self.rows + 1
        columns = (stones >> column * height & (1 << height) - 1 for column in range(self.columns))
        return sum(cells << (self.columns - 1 - column) * height for column, cells in enumerate(columns))

    def legal(self, occupied: int) -> int:
        """The cells where a stone can land, at most one a column."""
        return (occupied + self.bottom) & self.cells

    def has_run(self, stones: int) -> bool:
        """Whether these stones of one side hold a winning run."""
        for shift in self.directions:
            run = stones
            for _ in range(self.run_length - 1):
                run &= run >> shift
            if run:
                return True
        return False

    def planes(self, own: int, occupied: int) -> list[int]:
        """The cells of each plane that a network may see; one that sees stones alone takes the first two."""
        theirs = own ^ occupied
        even = occupied.bit_count() % 2 == 0
        return [
            own,
            theirs,
            self.winning_cells(own, occupied),
            self.winning_cells(theirs, occupied),
            self.legal(occupied),
            self.even_rows if even else self.cells ^ self.even_rows,
            self.open_cells(own, occupied),
            self.open_cells(theirs, occupied),
        ]

    def open_cells(self, stones: int, occupied: int) -> int:
        """Empty cells on lines that lack two stones to be a run of these, and hold none of the other side's."""
        empty, found = self.cells & ~occupied, 0
        for shift in self.directions:
            lines = [-1, 0, 0]  # by their lowest cell: those with no, one and two empty cells so far
            for step in range(self.run_length):
                here, gap = stones >> shift * step, empty >> shift * step
                lines = [lines[0] & here, lines[1] & here | lines[0] & gap, lines[2] & here | lines[1] & gap]
            for step in range(self.run_length):
                found |= lines[2] << shift * step
        return found & empty

    def winning_cells(self, stones: int, occupied: int) -> int:
        """Empty cells, reachable now or not, where one more of these stones completes a run."""
        found = 0
        others = self.run_length - 1
        for shift in self.directions:
            before, after = [self.cells], [self.cells]  # cells that follow, or precede, a run of 0, 1, 2, ... stones
            for _ in range(others):
                before.append((before[-1] & stones) << shift)
                after.append((after[-1] & stones) >> shift)
            for count in range(self.run_length):
                found |= before[count] & after[others - count]
        return found & self.cells & ~occupied
