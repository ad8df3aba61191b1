"""AlphaZero in one file: rules, search, self-play, learning and gate, with NumPy and PyTorch only.

    python examples/alphazero.py                                # three in a row on 4 x 5 cells
    python examples/alphazero.py --rows 5 --columns 5 --run 4   # four in a row on 5 x 5 cells
    python examples/alphazero.py --judge                        # count the trained network's mistakes
    python examples/alphazero.py --play                         # play the network that was trained last

Read it from top to bottom. The package has the same algorithm, compiled and with more options; a test compares both
searches. To see whether a change helps, compare `--judge` before and after, with several seeds: networks of two seeds
differ, too.

Values are in [-1, 1] and for the side to move: +1 means that it wins. Columns count from 0.

Silver et al. 2018, "A general reinforcement learning algorithm that masters chess, shogi, and Go through self-play".
"""

import argparse
import copy
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from alphac4.evaluation.metrics import Estimate

Array = npt.NDArray[np.float32]
Position = tuple[int, int]  # own stones (those of the side to move) and all stones, as the bits of two integers


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a run, with AlphaZero's values for chess in brackets."""

    rows: int = 4
    columns: int = 5
    run: int = 3  # stones in a row that win
    iterations: int = 12
    games: int = 100  # games of self-play in an iteration
    simulations: int = 32  # simulations of the search before each move (800)
    noise: float = 0.25  # share of the root's priors that is random (0.25)
    dirichlet_alpha: float = 1.0  # how evenly that noise is spread (0.3; about 10 / the number of legal moves)
    temperature_plies: int = 6  # moves drawn by their visits, before the most visited one is played (30)
    channels: int = 32  # channels of the network's convolutions (256)
    blocks: int = 2  # residual blocks (19)
    window: int = 4  # iterations whose positions are trained on
    steps: int = 150  # steps of gradient descent in an iteration
    batch: int = 128  # positions in a step (4096)
    learning_rate: float = 2e-3
    gate: float = 0.55  # share of the points against the best network that promotes a candidate (AlphaGo Zero: 0.55)
    classic_simulations: int = 50  # per move of classic tree search, the opponent of the trained network
    seed: int = 0


# --- The game -------------------------------------------------------------------------------------------------------
class Game:
    """The rules. A column takes rows + 1 bits, lowest cell first; the bit on top stays empty.

    So stones shifted by a row, a column or a diagonal never wrap into the next column.
    """

    def __init__(self, rows: int, columns: int, run: int) -> None:
        self.rows, self.columns, self.run = rows, columns, run
        height = rows + 1
        self.directions = (1, height, height - 1, height + 1)  # up, right, and the two diagonals
        self.bits = np.array([[column * height + row for column in range(columns)] for row in range(rows)])
        self.bottoms = [1 << column * height for column in range(columns)]
        self.tops = [bottom << rows - 1 for bottom in self.bottoms]
        self.full = sum(bottom * ((1 << rows) - 1) for bottom in self.bottoms)

    def legal(self, occupied: int) -> list[int]:
        """The columns that are not full."""
        return [column for column, top in enumerate(self.tops) if not occupied & top]

    def play(self, position: Position, column: int) -> Position:
        """The position after a stone, seen by the other side: adding 1 to a column fills its lowest empty cell."""
        own, occupied = position
        return own ^ occupied, occupied | (occupied + self.bottoms[column])

    def has_run(self, stones: int) -> bool:
        """Whether these stones of one side win."""
        for shift in self.directions:
            run = stones
            for _ in range(self.run - 1):
                run &= run >> shift  # where a run of one more begins
            if run:
                return True
        return False

    def outcome(self, position: Position) -> float | None:
        """The value of a finished game: -1 if the opponent's last stone won, 0 for a draw; None before the end."""
        own, occupied = position
        if self.has_run(own ^ occupied):
            return -1.0
        return 0.0 if occupied == self.full else None

    def planes(self, position: Position) -> Array:
        """Planes that the network sees, [2, rows, columns]: the stones of the side to move, and the opponent's."""
        own, occupied = position
        return np.array([(stones >> self.bits) & 1 for stones in (own, own ^ occupied)], np.float32)


# --- The network ----------------------------------------------------------------------------------------------------
class Block(nn.Module):
    """Two convolutions around a shortcut (He et al. 2016)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2)]
        norms = [nn.BatchNorm2d(channels) for _ in range(2)]
        self.inner = nn.Sequential(convolutions[0], norms[0], nn.ReLU(), convolutions[1], norms[1])

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, rows, columns] to the same shape."""
        return F.relu(x + self.inner(x))


class Network(nn.Module):
    """Planes [B, 2, rows, columns] to a policy (logits [B, columns]) and a value [B]."""

    def __init__(self, game: Game, channels: int, blocks: int) -> None:
        super().__init__()
        cells = game.rows * game.columns
        self.stem = nn.Conv2d(2, channels, 3, padding=1)
        self.tower = nn.Sequential(*(Block(channels) for _ in range(blocks)))
        self.policy = nn.Linear(channels * cells, game.columns)
        self.value = nn.Linear(channels * cells, 1)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both."""
        features = self.tower(F.relu(self.stem(planes))).flatten(1)
        return self.policy(features), torch.tanh(self.value(features)).squeeze(1)


# --- The search -----------------------------------------------------------------------------------------------------
C_INIT, C_BASE = 1.25, 19652.0  # how much the prior counts against the mean value (as AlphaZero)


class Node:
    """A position in the tree. Each list has one entry per legal move in ``moves``; values are for the side to move."""

    def __init__(self, game: Game, position: Position) -> None:
        self.position = position
        self.outcome = game.outcome(position)
        self.value = self.outcome or 0.0  # value of this position; an evaluator replaces it, unless the game is over
        self.moves = game.legal(position[1]) if self.outcome is None else []
        self.prior = [1.0] * len(self.moves)  # equal, until an evaluator sets them
        self.visits = [0] * len(self.moves)
        self.value_sum = [0.0] * len(self.moves)
        self.children: list[Node | None] = [None] * len(self.moves)


Evaluate = Callable[[Sequence[Node]], None]  # gives new nodes their priors and values
Select = Callable[[Node], int]  # which of a node's moves to try next, as an index


def puct(node: Node) -> int:
    """The move with the highest ``Q + c(N) P sqrt(N + 1) / (1 + n)``: good so far, or promising and hardly tried.

    N are the visits of the node, n those of the move. AlphaZero has sqrt(N); with N + 1, priors rank the first visit.
    Q of a move without visits is its node's mean value so far.
    """
    total = sum(node.visits)
    weight = (C_INIT + math.log((1 + total + C_BASE) / C_BASE)) * math.sqrt(total + 1)
    unvisited = (node.value + sum(node.value_sum)) / (1 + total)

    def score(i: int) -> float:
        visits = node.visits[i]
        value = node.value_sum[i] / visits if visits else unvisited
        return value + weight * node.prior[i] / (1 + visits)

    return max(range(len(node.moves)), key=score)


def ucb1(node: Node) -> int:
    """The same without a network: each move once, then by ``Q + sqrt(2 ln N / n)`` (Kocsis and Szepesvari 2006)."""
    if 0 in node.visits:
        return node.visits.index(0)
    log_total = math.log(sum(node.visits))

    def score(i: int) -> float:
        return node.value_sum[i] / node.visits[i] + math.sqrt(2 * log_total / node.visits[i])

    return max(range(len(node.moves)), key=score)


def select_leaf(game: Game, root: Node, select: Select) -> tuple[list[tuple[Node, int]], Node]:
    """Walk down to a position that is new or ends the game; return the moves on the way, and the position's node."""
    path, node = [], root
    while node.outcome is None:
        i = select(node)
        path.append((node, i))
        child = node.children[i]
        if child is None:
            child = node.children[i] = Node(game, game.play(node.position, node.moves[i]))
            return path, child
        node = child
    return path, node


def backup(path: list[tuple[Node, int]], value: float) -> None:
    """Carry a leaf's value up to the root."""
    for node, i in reversed(path):
        value = -value  # a position that is good for the side to move is bad for the side that moved before
        node.visits[i] += 1
        node.value_sum[i] += value


def search(game: Game, roots: Sequence[Node], evaluate: Evaluate, simulations: int, select: Select = puct) -> None:
    """Grow many trees together, so that the network evaluates their leaves in one batch. Evaluate the roots first."""
    for _ in range(simulations):
        walks = [select_leaf(game, root, select) for root in roots]
        evaluate([leaf for _, leaf in walks if leaf.outcome is None])
        for path, leaf in walks:
            backup(path, leaf.value)


def evaluate_by(game: Game, network: Network) -> Evaluate:
    """Return an evaluator that calls the network."""
    network.eval()

    @torch.inference_mode()
    def evaluate(nodes: Sequence[Node]) -> None:
        if not nodes:
            return
        logits, values = network(torch.from_numpy(np.stack([game.planes(node.position) for node in nodes])))
        for node, scores, value in zip(nodes, logits.numpy(), values.tolist(), strict=True):
            # Only legal moves enter the softmax: a full column would otherwise absorb some of the prior.
            weights = np.exp(scores[node.moves] - scores[node.moves].max())
            node.prior, node.value = (weights / weights.sum()).tolist(), value

    return evaluate


def evaluate_by_rollouts(game: Game, rng: np.random.Generator) -> Evaluate:
    """The evaluator of classic tree search: a game of random moves to its end. It leaves the priors equal."""

    def evaluate(nodes: Sequence[Node]) -> None:
        for node in nodes:
            position, sign = node.position, 1.0
            while (outcome := game.outcome(position)) is None:
                position, sign = game.play(position, int(rng.choice(game.legal(position[1])))), -sign
            node.value = sign * outcome

    return evaluate


# --- Self-play ------------------------------------------------------------------------------------------------------
@dataclass
class Sample:
    """A position of a game, with its training targets."""

    planes: Array  # [2, rows, columns]
    policy: Array  # [columns], the shares of the search's visits
    value: float = 0.0  # the game's outcome for the side that was to move


def self_play(game: Game, evaluate: Evaluate, settings: Settings, rng: np.random.Generator) -> list[Sample]:
    """Play games in lockstep, each move after a search; returns their positions."""
    games: list[tuple[Position, list[Sample]]] = [((0, 0), []) for _ in range(settings.games)]
    samples = []
    while games:
        roots = [Node(game, position) for position, _ in games]
        evaluate(roots)
        for root in roots:  # without noise, moves with small priors might never be tried
            noise = rng.dirichlet([settings.dirichlet_alpha] * len(root.moves))
            root.prior = [(1 - settings.noise) * p + settings.noise * n for p, n in zip(root.prior, noise, strict=True)]
        search(game, roots, evaluate, settings.simulations)
        in_progress = []
        for root, (_, history) in zip(roots, games, strict=True):
            policy = np.zeros(game.columns, np.float32)
            policy[root.moves] = np.array(root.visits) / sum(root.visits)
            history.append(Sample(game.planes(root.position), policy))
            explores = len(history) <= settings.temperature_plies
            column = int(rng.choice(game.columns, p=policy / policy.sum()) if explores else policy.argmax())
            position = game.play(root.position, column)
            value = game.outcome(position)
            if value is None:
                in_progress.append((position, history))
                continue
            for sample in reversed(history):
                value = -value  # what is good for one side is bad for the other
                sample.value = value
            samples += history
        games = in_progress
    return samples


# --- Learning -------------------------------------------------------------------------------------------------------
def learn(
    network: Network, optimizer: torch.optim.Optimizer, samples: list[Sample], s: Settings, rng: np.random.Generator
) -> tuple[float, float]:
    """Move the network's policy towards the search's and its value towards the outcomes; return both mean losses."""
    network.train()
    planes, policies = (np.stack([getattr(one, name) for one in samples]) for name in ("planes", "policy"))
    values = np.array([sample.value for sample in samples], np.float32)
    losses = np.zeros(2)
    for _ in range(s.steps):
        chosen = rng.integers(len(samples), size=s.batch)
        turn = slice(None, None, int(rng.choice([1, -1])))  # mirror every second batch, on average
        logits, value = network(torch.from_numpy(planes[chosen][..., turn].copy()))
        target = torch.from_numpy(policies[chosen][:, turn].copy())
        policy_loss = -(target * F.log_softmax(logits, dim=1)).sum(dim=1).mean()  # cross-entropy
        value_loss = F.mse_loss(value, torch.from_numpy(values[chosen]))
        optimizer.zero_grad()
        torch.autograd.backward(policy_loss + value_loss)
        optimizer.step()
        losses += policy_loss.item(), value_loss.item()
    return float(losses[0] / s.steps), float(losses[1] / s.steps)


# --- Matches --------------------------------------------------------------------------------------------------------
Player = Callable[[Sequence[Position]], list[int]]  # a column for each position


def search_player(game: Game, evaluate: Evaluate, simulations: int, select: Select = puct) -> Player:
    """Plays the most visited move."""

    def choose(positions: Sequence[Position]) -> list[int]:
        roots = [Node(game, position) for position in positions]
        evaluate(roots)
        search(game, roots, evaluate, simulations, select)
        return [root.moves[int(np.argmax(root.visits))] for root in roots]

    return choose


def play_match(game: Game, ours: Player, theirs: Player) -> float:
    """Our share of the points, a draw counting half. Every opening of two moves is played with both colours."""
    columns = range(game.columns)
    openings = [game.play(game.play((0, 0), first), second) for first in columns for second in columns]
    games = [(position, side) for position in openings for side in (0, 1)]  # side 1: the other player is to move
    points, count = 0.0, len(games)
    while games:
        moves: dict[int, int] = {}
        for side, player in enumerate((ours, theirs)):
            turn = [index for index, (_, to_move) in enumerate(games) if to_move == side]
            moves |= zip(turn, player([games[index][0] for index in turn]), strict=True)
        in_progress = []
        for index, (position, side) in enumerate(games):
            position = game.play(position, moves[index])
            outcome = game.outcome(position)
            if outcome is None:
                in_progress.append((position, 1 - side))
            else:
                # The outcome is for the side to move next: for us if the other player has just moved (side 1).
                points += 0.5 + (outcome if side else -outcome) / 2
        games = in_progress
    return points / count


def show_game(game: Game, evaluate: Evaluate, simulations: int, *, human: bool) -> None:
    """Print a game move by move with the search's opinion. The network plays itself, or a ``human``, who begins.

    The end of the input, such as Ctrl-D, ends the game.
    """
    position, ply = (0, 0), 0
    while (outcome := game.outcome(position)) is None:
        root, side = Node(game, position), "xo"[ply % 2]
        if human and side == "x":
            columns = {str(move): move for move in root.moves}
            try:
                while (column := columns.get(input(f"{side}, your column, one of {root.moves}: ").strip(), -1)) < 0:
                    pass
            except EOFError:
                print()
                return
        else:
            evaluate([root])
            search(game, [root], evaluate, simulations)
            column, value = root.moves[i := int(np.argmax(root.visits))], root.value_sum[i] / root.visits[i]
            visits = dict(zip(root.moves, root.visits, strict=True))
            print(f"{side} plays {column}, value {value:+.2f}, visits of each column {visits}")
        position, ply = game.play(position, column), ply + 1
        x, o = [(stones >> game.bits[::-1]) & 1 for stones in (position[0], position[0] ^ position[1])][:: (-1) ** ply]
        rows = [" ".join(".xo"[cell] for cell in row) for row in x + 2 * o]
        print(*rows, " ".join(map(str, range(game.columns))), "", sep="\n")
    print(f"{side} wins" if outcome else "a draw")


# --- Exact play, by the package's solver; training does not use it ----------------------------------------------------
def decisive_positions(game: Game, count: int) -> dict[Position, dict[int, int]]:
    """Random positions, always the same, in which a move can be a mistake; with the outcome of each move: 1, 0, -1."""
    import alphac4  # the rest of the file does not need it

    board, rng = alphac4.make_board(game.rows, game.columns, game.run), np.random.default_rng(0)
    found: dict[Position, dict[int, int]] = {}
    for _ in range(20 * count):  # small boards have fewer
        position = (0, 0)
        for _ in range(rng.integers(1, game.rows * game.columns // 2)):
            if game.outcome(position) is None:
                position = game.play(position, int(rng.choice(game.legal(position[1]))))
        if game.outcome(position) is None and position not in found:
            own, occupied = map(np.uint64, position)
            verdict = alphac4.analyze(alphac4.Position(own, occupied, board=board))
            outcomes = {move: int(np.sign(column.score)) for move, column in verdict.columns.items()}
            if len(set(outcomes.values())) > 1:
                found[position] = outcomes
        if len(found) == count:
            break
    return found


def mistake_rate(player: Player, positions: dict[Position, dict[int, int]]) -> "Estimate":
    """The share of positions in which a player gives away a win or a draw, with its 95 % interval."""
    from alphac4.evaluation.metrics import proportion

    moves = zip(player(list(positions)), positions.values(), strict=True)
    return proportion(np.array([outcomes[move] < max(outcomes.values()) for move, outcomes in moves]))


# --- The loop -------------------------------------------------------------------------------------------------------
def train(settings: Settings) -> tuple[Game, Network]:
    """In each iteration: play, learn, and promote the candidate if it beats the best network so far."""
    rng = np.random.default_rng(settings.seed)
    torch.manual_seed(settings.seed)
    game = Game(settings.rows, settings.columns, settings.run)
    best = Network(game, settings.channels, settings.blocks)
    candidate = copy.deepcopy(best)
    optimizer = torch.optim.AdamW(candidate.parameters(), settings.learning_rate)
    window: deque[list[Sample]] = deque(maxlen=settings.window)
    print("iteration  positions  policy loss  value loss  against best")
    for iteration in range(1, settings.iterations + 1):
        window.append(self_play(game, evaluate_by(game, best), settings, rng))
        policy_loss, value_loss = learn(candidate, optimizer, [s for part in window for s in part], settings, rng)
        players = [search_player(game, evaluate_by(game, one), settings.simulations) for one in (candidate, best)]
        score = play_match(game, *players)
        if score >= settings.gate:
            best = copy.deepcopy(candidate)
        row = f"{iteration:9}  {len(window[-1]):9,}  {policy_loss:11.3f}  {value_loss:10.3f}  {score:12.0%}"
        print(row + "  promoted" * (score >= settings.gate), flush=True)
    return game, best


def load(file: Path) -> tuple[Settings, Game, Network]:
    """Return a trained network, its settings and its game."""
    saved = torch.load(file, weights_only=True)
    settings = Settings(**saved["settings"])
    game = Game(settings.rows, settings.columns, settings.run)
    network = Network(game, settings.channels, settings.blocks)
    network.load_state_dict(saved["weights"])
    return settings, game, network


def main() -> None:
    """Train, play matches against random moves and classic tree search, then show a game."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("rows", "columns", "run", "iterations", "games", "simulations", "classic_simulations", "seed"):
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=getattr(Settings, name), help="%(default)s"
        )
    parser.add_argument("--fast", action="store_true", help="settings that take seconds and learn little")
    parser.add_argument("--judge", action="store_true", help="count mistakes against exact play; needs the package")
    parser.add_argument("--play", action="store_true", help="play the network trained last, if there is one")
    options = vars(parser.parse_args())
    options |= {"iterations": 1, "games": 10, "simulations": 8, "classic_simulations": 5} if options.pop("fast") else {}
    judge, human, settings = options.pop("judge"), options.pop("play"), Settings(**options)
    torch.set_num_threads(1)  # convolutions as small as these are slower on several cores
    file = Path("runs", f"alphazero-{settings.rows}x{settings.columns}-{settings.run}.pt")
    if human and file.exists():
        settings, game, network = load(file)
    else:
        game, network = train(settings)
        file.parent.mkdir(exist_ok=True)
        torch.save({"settings": asdict(settings), "weights": network.state_dict()}, file)
    rng = np.random.default_rng(settings.seed)
    ours = search_player(game, evaluate_by(game, network), settings.simulations)
    classic = search_player(game, evaluate_by_rollouts(game, rng), settings.classic_simulations, ucb1)
    any_move: Player = lambda positions: [int(rng.choice(game.legal(occupied))) for _, occupied in positions]  # noqa: E731
    opponent = f"UCT with {settings.classic_simulations} simulations"
    if not human:
        print(f"against random moves: {play_match(game, ours, any_move):.0%} of the points")
        print(f"against {opponent}: {play_match(game, ours, classic):.0%} of the points")
    if judge:
        positions = decisive_positions(game, 500)
        print(f"mistakes in {len(positions)} positions, with the 95 % interval:")
        raw = search_player(game, evaluate_by(game, network), 1)  # the first simulation tries the policy's best move
        names = ("raw network", f"with {settings.simulations} simulations", opponent)
        for name, player in zip(names, (raw, ours, classic), strict=True):
            rate = mistake_rate(player, positions)
            print(f"  {name:<22} {rate.value:6.1%}  [{rate.low:.1%}, {rate.high:.1%}]")
    show_game(game, evaluate_by(game, network), settings.simulations, human=human)


if __name__ == "__main__":
    main()
