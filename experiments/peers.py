"""Speed of this package and of other programs for the same game, if installed (``./scripts/setup.sh peers``).

    python experiments/peers.py                         # OpenSpiel's C++ MCTS; self-play by pgx and mctx in JAX
    python experiments/peers.py --games 1024 4096 16384 --simulations 32 --device cuda

On a machine with a GPU, JAX uses it, and alphac4 does with ``--device cuda``. Each figure of alphac4 is measured right
before the other program's.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.arena.match import balanced_openings, play_match
from alphac4.arena.players import UctPlayer
from alphac4.commands.doctor import rate
from alphac4.compute import choose_compute
from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.search import Budget
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import Network, PolicyValueNetwork
from alphac4.plugins.adapters.openspiel_player import OpenSpielPlayer
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import ActorStats
from alphac4.storage.checkpoints import load_checkpoint

PEERS = {"openspiel": ("pyspiel",), "pgx + mctx": ("jax", "pgx", "mctx")}  # required packages


def missing_packages(peer: str) -> list[str]:
    """Return the packages of a peer that are not installed."""
    return [package for package in PEERS[peer] if importlib.util.find_spec(package) is None]


def show(name: str, unit: str, ours: float, theirs: float) -> None:
    """Print two figures and their ratio."""
    print(f"{name}: {ours:,.0f} against {theirs:,.0f} {unit}, {ours / theirs:.1f} times", flush=True)


def compare_openspiel(simulations: int, seconds: float) -> None:
    """Compare classic MCTS: simulations/s of one tree from the empty board on one core."""
    search = UctSearch(rng=np.random.default_rng(0))

    def work() -> int:
        return int(search.search([Position()], Budget(simulations=simulations)).simulations[0])

    work()
    ours, theirs = rate(work, seconds), openspiel_rate(simulations, seconds)
    show(f"classic MCTS against OpenSpiel, {simulations:,} per move, one core", "simulations/s", ours, theirs)


def play_openspiel(pairs: int, seconds_per_move: float) -> None:
    """Play a match of classic MCTS against OpenSpiel's at equal time per move.

    OpenSpiel's bot has no time limit, so it gets the number of simulations that it runs in that time on this machine.
    """
    simulations = max(1, int(openspiel_rate(10_000, 1.0) * seconds_per_move))
    rng = np.random.default_rng(0)
    ours = UctPlayer(Budget(seconds=seconds_per_move), rng)
    theirs = OpenSpielPlayer(simulations, rng)
    result = play_match([ours], [theirs], balanced_openings(pairs, rng))
    low, high = result.interval.low, result.interval.high
    score = f"{result.wins} won, {result.draws} drawn, {result.losses} lost: {result.score:.0%} [{low:.0%}, {high:.0%}]"
    print(f"{ours.name} v. {theirs.name}, equal time: {score}", flush=True)


def compare_pgx(network: Network, name: str, *, seconds: float, games: int, simulations: int, device: str) -> None:
    """Compare self-play by ``network`` with that of pgx and mctx, and the networks without a search.

    The peer's network has the same size and is untrained, which does not affect its speed. Our self-play is faster with
    a trained network, because more searches end in proofs and more positions are cached.
    """
    config = SelfPlayConfig(
        parallel_games=games, full_visits=simulations, fast_visits=simulations, full_search_prob=1.0
    )
    actors = choose_compute(device, for_run=True).actors(network, STANDARD, config, np.random.default_rng)
    stats, spent = ActorStats(), 0.0
    samples = max(4_000, 8 * games)  # each call restarts the searches of all games
    actors.play(samples, lambda _index, _block: None)
    while spent < seconds:
        started = time.perf_counter()
        actors.play(samples, lambda _index, block: stats.add(block.stats))
        spent += time.perf_counter() - started
    theirs, network_only = pgx_mctx_rate(network.config, games=games, simulations=simulations, seconds=seconds)
    size = f"{network.config.channels} x {network.config.blocks}"
    show(
        f"self-play against pgx + mctx, {name} {size} network, {games} games, {simulations} simulations per move",
        "simulations/s",
        stats.simulations / spent,
        theirs,
    )
    print(f"{stats.cached / (stats.cached + stats.evaluations):.0%} of the evaluations were cached")
    show(
        f"its network calls ({actors.backend}) against JAX's network only",
        "evaluations/s",
        stats.evaluations / spent,
        network_only,
    )


def openspiel_rate(simulations: int, seconds: float) -> float:
    """Return simulations/s of OpenSpiel's C++ `MCTSBot` with random rollouts from the empty board, on one core."""
    import pyspiel

    game = pyspiel.load_game("connect_four")
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    # exploration, simulations, memory in MB, solve, seed, verbose: as in OpenSpiel's examples
    bot = pyspiel.MCTSBot(game, evaluator, 2.0, simulations, 1000, False, 0, False)
    state = game.new_initial_state()

    def work() -> int:
        bot.step(state)
        return simulations

    work()
    return rate(work, seconds)


def pgx_mctx_rate(size: NetworkConfig, *, games: int, simulations: int, seconds: float) -> tuple[float, float]:
    """Return simulations/s of self-play by pgx and mctx in JAX, and evaluations/s of its network only.

    The network has our architecture (a stem, residual blocks of two 3 x 3 convolutions, both heads) with folded norms,
    as for inference, in bf16 on a GPU. As in the examples of pgx, finished games restart, and one jitted call plays a
    move in all games.
    """
    import jax
    import jax.numpy as jnp
    import mctx
    import pgx
    from pgx.experimental import auto_reset

    ready: Any = jax.block_until_ready
    environment = pgx.make("connect_four")
    advance = jax.vmap(auto_reset(environment.step, environment.init))
    step = jax.vmap(environment.step)
    precision = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
    parameters = jax.tree.map(lambda x: x.astype(precision), _jax_network(jax, jnp, size))

    def forward(parameters: Any, observation: Any) -> tuple[Any, Any]:
        def convolve(x: Any, weights: Any) -> Any:
            kernel, bias = weights
            layout = ("NHWC", "HWIO", "NHWC")
            return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout) + bias

        x = jax.nn.relu(convolve(observation.astype(precision), parameters["stem"]))
        for first, second in parameters["tower"]:
            x = jax.nn.relu(x + convolve(jax.nn.relu(convolve(x, first)), second))
        x = jax.nn.relu(convolve(x, parameters["heads"]))
        policy, value = jnp.split(x, 2, axis=-1)
        logits = policy.reshape(len(x), -1) @ parameters["policy"]
        hidden = jax.nn.relu(value.reshape(len(x), -1) @ parameters["hidden"])
        value = jnp.tanh(hidden @ parameters["value"])[:, 0]
        return logits.astype(jnp.float32), value.astype(jnp.float32)

    def recurrent(parameters: Any, _key: Any, action: Any, state: Any) -> tuple[Any, Any]:
        mover = state.current_player
        state = step(state, action)
        logits, value = forward(parameters, state.observation)
        logits = jnp.where(state.legal_action_mask, logits - logits.max(axis=-1, keepdims=True), -1e9)
        reward = state.rewards[jnp.arange(games), mover]
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    @jax.jit
    def play(parameters: Any, state: Any, key: Any) -> Any:
        search_key, step_key = jax.random.split(key)
        logits, value = forward(parameters, state.observation)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        result = mctx.gumbel_muzero_policy(
            parameters, search_key, root, recurrent, simulations, invalid_actions=~state.legal_action_mask, max_depth=42
        )
        return advance(state, result.action, jax.random.split(step_key, games))

    key = jax.random.PRNGKey(0)
    state = jax.vmap(environment.init)(jax.random.split(key, games))
    evaluate = jax.jit(forward)
    state = ready(play(parameters, state, key))  # compiles
    ready(evaluate(parameters, state.observation))

    def search() -> int:
        nonlocal key, state
        key, subkey = jax.random.split(key)
        state = ready(play(parameters, state, subkey))
        return games * simulations

    def alone() -> int:
        ready(evaluate(parameters, state.observation))
        return games

    return rate(search, seconds), rate(alone, seconds / 2)


def _jax_network(jax: Any, jnp: Any, size: NetworkConfig) -> Any:
    """Return random weights with the shapes of our network."""
    channels, head_channels, hidden = size.channels, size.head_channels, size.value_hidden
    keys = iter(jax.random.split(jax.random.PRNGKey(1), 2 * size.blocks + 8))

    def convolution(inputs: int, outputs: int, size: int) -> tuple[Any, Any]:
        scale = (2.0 / (inputs * size * size)) ** 0.5
        return scale * jax.random.normal(next(keys), (size, size, inputs, outputs)), jnp.zeros(outputs)

    def dense(inputs: int, outputs: int) -> Any:
        return jax.random.normal(next(keys), (inputs, outputs)) / inputs**0.5

    return {
        "stem": convolution(2, channels, 3),
        "tower": [(convolution(channels, channels, 3), convolution(channels, channels, 3)) for _ in range(size.blocks)],
        "heads": convolution(channels, 2 * head_channels, 1),
        "policy": dense(42 * head_channels, 7),
        "hidden": dense(42 * head_channels, hidden),
        "value": dense(hidden, 1),
    }


def main() -> None:
    """Compare with each installed peer, and print which ones are not installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement; self-play takes ten times as long")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of games against OpenSpiel; 0 for none")
    parser.add_argument("--games", type=int, nargs="+", default=[256], help="in progress at the same time in self-play")
    parser.add_argument("--simulations", type=int, default=64, help="per move in self-play")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="device of alphac4's self-play")
    options = parser.parse_args()
    for peer in PEERS:
        missing = missing_packages(peer)
        if missing:
            print(f"{peer}: not measured, not installed: {', '.join(missing)}", file=sys.stderr)
        elif peer == "openspiel":
            for simulations in (1_000, 10_000):
                compare_openspiel(simulations, options.seconds)
            if options.pairs:
                play_openspiel(options.pairs, 0.1)
        else:
            untrained = PolicyValueNetwork(NetworkConfig(channels=64, blocks=4)).eval()
            trained = load_checkpoint(Path("best")).network
            for network, name in ((untrained, "untrained"), (trained, "trained")):
                for games in options.games:
                    compare_pgx(
                        network,
                        name,
                        seconds=10 * options.seconds,
                        games=games,
                        simulations=options.simulations,
                        device=options.device,
                    )


if __name__ == "__main__":
    main()
