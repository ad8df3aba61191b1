"""Train other AlphaZero programs and ours for the same minutes on the same cores, and count the mistakes of each.

    python experiments/peers_training.py alphac4 --minutes 5 10 20
    python experiments/peers_training.py pgx --minutes 5 10 20          # pip install pgx mctx optax dm-haiku
    python experiments/peers_training.py openspiel --minutes 5 10 20    # pip install open_spiel flax orbax-checkpoint
    python experiments/peers_training.py lightzero --minutes 5 10 20    # its repository, built

Each program trains from random weights by its own self-play, search and learning; compilation counts as training. The
network that it has after each number of minutes is then judged by exact scores: its raw policy, and its policy and
value in this package's search, the same for all. Run one program at a time on an idle machine.
"""

import _thread
import argparse
import copy
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import alphac4
from alphac4.evaluation.metrics import judge_sets
from alphac4.evaluation.positions import PositionSet, load_positions, packaged_positions

Array = npt.NDArray[Any]
Function = Callable[[Array], tuple[Array, Array]]  # planes [B, 2, 6, 7] to policy logits [B, 7] and values [B]
Snapshots = Iterator[tuple[float, Any]]  # seconds since the start, and a network that `alphac4.load` accepts

CHANNELS, BLOCKS = 32, 4  # size of the residual networks where a program lets us choose it, as in `quick`
OUR_ITERATION_S = 14  # on two cores with AMX; it only decides how far the learning rate has fallen at the end


def train_alphac4(seconds: float, _folder: Path, seed: int) -> Snapshots:
    """Train `quick` with about as many iterations as the time allows, at least 24; yield the best network of each."""
    started = time.monotonic()
    iterations = max(24, round(seconds / OUR_ITERATION_S))
    for iteration in alphac4.iterate(alphac4.TrainConfig.preset("quick", seed=seed, iterations=iterations)):
        yield time.monotonic() - started, copy.deepcopy(iteration.best.network)


def train_pgx(seconds: float, _folder: Path, seed: int) -> Snapshots:
    """Train as pgx's AlphaZero example does: Gumbel MuZero searches by mctx, one epoch over an iteration's positions.

    Its batches are made for eight GPUs. Here 128 games make 64 moves per iteration, with its 32 simulations per move,
    and Adam takes its steps of 0.001 on batches of 256.
    """
    import haiku as hk
    import jax
    import jax.numpy as jnp
    import mctx
    import optax
    import pgx
    from pgx.experimental import auto_reset

    games, moves, simulations, batch = 128, 64, 32, 256
    environment = pgx.make("connect_four")

    def network(boards: Any, training: bool) -> Any:
        def norm(x: Any) -> Any:
            return hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(x, training)

        x = jax.nn.relu(norm(hk.Conv2D(CHANNELS, 3)(boards.astype(jnp.float32))))
        for _ in range(BLOCKS):
            y = jax.nn.relu(norm(hk.Conv2D(CHANNELS, 3)(x)))
            x = jax.nn.relu(x + norm(hk.Conv2D(CHANNELS, 3)(y)))
        policy = hk.Flatten()(jax.nn.relu(norm(hk.Conv2D(2, 1)(x))))
        value = hk.Flatten()(jax.nn.relu(norm(hk.Conv2D(1, 1)(x))))
        value = hk.Linear(1)(jax.nn.relu(hk.Linear(CHANNELS)(value)))
        return hk.Linear(7)(policy), jnp.tanh(value)[:, 0]

    forward = hk.without_apply_rng(hk.transform_with_state(network))
    optimizer = optax.adam(1e-3)

    def recurrent(model: Any, _key: Any, action: Any, state: Any) -> tuple[Any, Any]:
        mover = state.current_player
        state = jax.vmap(environment.step)(state, action)
        (logits, value), _ = forward.apply(*model, state.observation, False)
        logits = jnp.where(state.legal_action_mask, logits - logits.max(axis=-1, keepdims=True), -1e9)
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[jnp.arange(games), mover],
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    @jax.jit
    def play(model: Any, key: Any) -> tuple[Any, ...]:
        def move(state: Any, key: Any) -> tuple[Any, tuple[Any, ...]]:
            search_key, reset_key = jax.random.split(key)
            (logits, value), _ = forward.apply(*model, state.observation, False)
            root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
            result = mctx.gumbel_muzero_policy(
                model, search_key, root, recurrent, simulations, invalid_actions=~state.legal_action_mask
            )
            mover, seen = state.current_player, state.observation
            advance = jax.vmap(auto_reset(environment.step, environment.init))
            state = advance(state, result.action, jax.random.split(reset_key, games))
            reward = state.rewards[jnp.arange(games), mover]
            return state, (seen, result.action_weights, reward, state.terminated)

        start_key, key = jax.random.split(key)
        state = jax.vmap(environment.init)(jax.random.split(start_key, games))
        _, (boards, policies, rewards, ended) = jax.lax.scan(move, state, jax.random.split(key, moves))
        is_complete = jnp.cumsum(ended[::-1], axis=0)[::-1] >= 1

        def backward(value: Any, step: Any) -> tuple[Any, Any]:
            reward, end = step
            value = reward - jnp.where(end, 0.0, value)
            return value, value

        _, values = jax.lax.scan(backward, jnp.zeros(games), (rewards, ended), reverse=True)
        return boards, policies, values, is_complete

    def loss(parameters: Any, state: Any, boards: Any, policies: Any, values: Any, mask: Any) -> Any:
        (logits, value), state = forward.apply(parameters, state, boards, True)
        policy_loss = optax.softmax_cross_entropy(logits, policies).mean()
        return policy_loss + (mask * optax.l2_loss(value, values)).mean(), state

    @jax.jit
    def learn(model: Any, moments: Any, *samples: Any) -> Any:
        gradient, state = jax.grad(loss, has_aux=True)(*model, *samples)
        updates, moments = optimizer.update(gradient, moments)
        return (optax.apply_updates(model[0], updates), state), moments

    evaluate = jax.jit(lambda model, boards: forward.apply(*model, boards, False)[0])
    key = jax.random.PRNGKey(seed)
    model = forward.init(key, jnp.zeros((1, 6, 7, 2)), True)
    moments = optimizer.init(model[0])
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        key, play_key, order_key = jax.random.split(key, 3)
        samples = [part.reshape(-1, *part.shape[2:]) for part in play(model, play_key)]
        order = jax.random.permutation(order_key, len(samples[0]))
        for first in range(0, len(order), batch):
            chosen = order[first : first + batch]
            model, moments = learn(model, moments, *(part[chosen] for part in samples))
        jax.tree.map(lambda x: x.block_until_ready(), model)

        def function(planes: Array, model: Any = model) -> tuple[Array, Array]:
            logits, value = evaluate(model, np.moveaxis(planes, 1, -1)[:, ::-1])  # its top row is first
            return np.asarray(logits), np.asarray(value)

        yield time.monotonic() - started, padded(function)


def train_openspiel(seconds: float, folder: Path, _seed: int) -> Snapshots:
    """Train with OpenSpiel's AlphaZero in Python: two actors beside a learner; it offers no seed.

    Training is as in its example, except for the game, the network's size and ``temperature_drop``.
    """
    import jax
    from open_spiel.python.algorithms.alpha_zero import alpha_zero, utils

    shape = {"nn_model": "resnet", "nn_width": CHANNELS, "nn_depth": BLOCKS}
    learning = {"learning_rate": 1e-3, "weight_decay": 1e-4, "decouple_weight_decay": False}
    config = alpha_zero.Config(
        game="connect_four",
        path=str(folder.resolve()),
        **learning,
        train_batch_size=128,
        replay_buffer_size=2**13,
        replay_buffer_reuse=4,
        max_steps=0,
        checkpoint_freq=1,
        actors=2,
        evaluators=0,
        evaluation_window=50,
        eval_levels=7,
        uct_c=1.41,
        max_simulations=40,
        policy_alpha=1.0,
        policy_epsilon=0.25,
        temperature=1,
        temperature_drop=10,  # after 10 of up to 42 moves; its example, for tic-tac-toe, has 2
        **shape,
        observation_shape=None,
        output_size=None,
        verbose=False,
        quiet=True,
        nn_api_version="linen",
    )
    with interrupted_after(seconds) as started:
        alpha_zero.alpha_zero(config)
    observation, every_column = (3, 6, 7), np.ones(7, bool)
    for path in sorted(folder.glob("checkpoint-*"), key=lambda path: path.stat().st_mtime):
        model = utils.api_selector("linen").Model.build_model(
            "resnet", observation, 7, CHANNELS, BLOCKS, 1e-4, 1e-3, str(folder.resolve())
        )
        model.load_checkpoint(int(path.name.split("-")[1]))
        batched = jax.jit(jax.vmap(lambda board, model=model: model.inference(board, every_column)))

        def function(planes: Array, batched: Any = batched) -> tuple[Array, Array]:
            own, theirs = planes[:, 0], planes[:, 1]
            is_second = (own.sum(axis=(1, 2)) < theirs.sum(axis=(1, 2)))[:, None, None]
            # Its planes are: the first player's stones, the second player's, empty; its values are the first player's.
            first, second = np.where(is_second, theirs, own), np.where(is_second, own, theirs)
            boards = np.stack([first, second, 1 - own - theirs], axis=1).reshape(len(planes), -1)
            value, policy = batched(boards)
            value = np.asarray(value).reshape(-1)
            return np.log(np.maximum(np.asarray(policy), 1e-9)), np.where(is_second[:, 0, 0], -value, value)

        yield path.stat().st_mtime - started.wall, padded(function)


def train_lightzero(seconds: float, folder: Path, seed: int) -> Snapshots:
    """Train with LightZero's AlphaZero by its Connect Four configuration for self-play, on the CPU."""
    import torch
    from lzero.entry import train_alphazero
    from zoo.board_games.connect4.config import connect4_alphazero_sp_mode_config as published

    main, create = copy.deepcopy(published.main_config), copy.deepcopy(published.create_config)
    main.exp_name = str(folder / "run").lstrip("/")  # it puts "./" before
    main.policy.cuda = False
    main.policy.mcts_ctree = main.env.alphazero_mcts_ctree = False  # as published; the C++ search takes other boards
    main.policy.learn = {"learner": {"hook": {"save_ckpt_after_iter": 50}}}  # once per collection
    with interrupted_after(seconds) as started:
        train_alphazero([main, create], seed=seed)
    for path in sorted(Path(main.exp_name).glob("ckpt/iteration_*.pth.tar"), key=lambda path: path.stat().st_mtime):
        from lzero.model.alphazero_model import AlphaZeroModel

        model = AlphaZeroModel(**main.policy.model)
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=False)["model"])
        model.eval()

        def function(planes: Array, model: Any = model) -> tuple[Array, Array]:
            is_second = planes[:, 0].sum(axis=(1, 2)) < planes[:, 1].sum(axis=(1, 2))
            to_play = np.broadcast_to((1 + is_second)[:, None, None], planes[:, 0].shape)
            boards = np.stack([planes[:, 0], planes[:, 1], to_play], axis=1)[:, :, ::-1] / 2
            with torch.no_grad():
                policy, value = model.compute_policy_value(torch.tensor(boards.copy(), dtype=torch.float32))
            return np.log(np.maximum(policy.numpy(), 1e-9)), np.clip(value.numpy().reshape(-1), -1, 1)

        yield path.stat().st_mtime - started.wall, function


PROGRAMS: dict[str, Callable[[float, Path, int], Snapshots]] = {
    "alphac4": train_alphac4,
    "pgx": train_pgx,
    "openspiel": train_openspiel,
    "lightzero": train_lightzero,
}


class interrupted_after:  # noqa: N801 - reads like a function
    """Raise KeyboardInterrupt in the main thread after ``seconds``, and suppress it here; ``wall`` is the start."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, _thread.interrupt_main)
        self.wall = 0.0

    def __enter__(self) -> "interrupted_after":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells disable it for programs in the background
        self.wall = time.time()
        self._timer.start()
        return self

    def __exit__(self, kind: Any, *_error: object) -> bool:
        self._timer.cancel()
        return kind is KeyboardInterrupt


def padded(function: Function, size: int = 256) -> Function:
    """Call a compiled function with full batches only, so that it is compiled once."""

    def evaluate(planes: Array) -> tuple[Array, Array]:
        policies, values = [], []
        for first in range(0, len(planes), size):
            part = planes[first : first + size]
            full = np.zeros((size, *planes.shape[1:]), np.float32)
            full[: len(part)] = part
            policy, value = function(full)
            policies.append(policy[: len(part)])
            values.append(value[: len(part)])
        return np.concatenate(policies), np.concatenate(values)

    return evaluate


def mistakes(network: Any, sets: Sequence[PositionSet], simulations: int) -> dict[str, float]:
    """Return the share of moves [0, 1] in each set that give away the outcome."""
    positions = [position for part in sets for position in part.positions]
    found = alphac4.load(network).search(positions, simulations=simulations)
    scores = judge_sets(sets, np.array([searched.move for searched in found]))
    return {name: figures.mistakes.value for name, figures in scores.items()}


def main() -> None:
    """Train one program, measure its networks, print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--minutes", type=float, nargs="+", default=[5, 10, 20], help="after which networks count")
    parser.add_argument(
        "--simulations", type=int, nargs="+", default=[0, 600], help="simulations of the judged searches"
    )
    parser.add_argument("--positions", type=Path, nargs="+", default=[], help="by default the packaged sets")
    parser.add_argument("--seed", type=int, default=0, help="seed of programs that take one")
    parser.add_argument("--folder", type=Path, default=Path("runs/peers"), help="folder of checkpoints and results")
    options = parser.parse_args()
    sets = [load_positions(path) for path in options.positions] or list(packaged_positions())
    marks = sorted(options.minutes)
    folder = options.folder / f"{options.program}-{options.seed}"
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        parser.error(f"{folder} holds an earlier training; choose another --folder or --seed, or remove it")
    kept: dict[float, tuple[float, Any]] = {}
    for seconds, network in PROGRAMS[options.program](60 * marks[-1], folder, options.seed):
        for minutes in marks:
            if seconds <= 60 * minutes:
                kept[minutes] = (seconds, network)
        if seconds > 60 * marks[-1]:
            break
    for minutes, (seconds, network) in kept.items():
        for simulations in options.simulations:
            result = {"program": options.program, "minutes": minutes, "network_s": round(seconds, 1)}
            result |= {"simulations": simulations, "mistakes": mistakes(network, sets, simulations)}
            print(json.dumps(result), flush=True)
            with (folder / "results.jsonl").open("a") as results:
                results.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
