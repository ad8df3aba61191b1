"""Speed of other programs for the same game, where they are installed (``./scripts/setup.sh peers``), beside ours.

    python experiments/peers.py                         # OpenSpiel's C++ MCTS; self-play by pgx and mctx in JAX
    python experiments/peers.py --games 1024 4096 16384 --simulations 32 --device cuda

On a machine with a GPU, JAX and ours use it. Each figure of ours is measured right before theirs.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.arena.external import OpenSpielPlayer
from alphac4.arena.match import balanced_openings, play_match
from alphac4.arena.players import UctPlayer
from alphac4.commands.doctor import rate
from alphac4.compute import choose_for_run
from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.search import Budget
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import Network, PolicyValueNetwork
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import ActorStats
from alphac4.storage.checkpoints import load_checkpoint

PEERS = {"openspiel": ("pyspiel",), "pgx + mctx": ("jax", "pgx", "mctx")}  # the packages that each needs


def missing_packages(peer: str) -> list[str]:
    """The packages of a peer that are not installed."""
    return [package for package in PEERS[peer] if importlib.util.find_spec(package) is None]


def show(name: str, unit: str, ours: float, theirs: float) -> None:
    """Print two figures and their ratio."""
    print(f"{name}: {ours:,.0f} against {theirs:,.0f} {unit}, {ours / theirs:.1f} times", flush=True)


def compare_openspiel(simulations: int, seconds: float) -> None:
    """Classic MCTS, simulations/s of one tree from the empty board on one core."""
    search = UctSearch(rng=np.random.default_rng(0))

    def work() -> int:
        return int(search.search([Position()], Budget(simulations=simulations)).simulations[0])

    work()
    ours, theirs = rate(work, seconds), openspiel_rate(simulations, seconds)
    show(f"classic MCTS against OpenSpiel, {simulations:,} a move, one core", "simulations/s", ours, theirs)


def play_openspiel(pairs: int, seconds_a_move: float) -> None:
    """Our classic MCTS against OpenSpiel's at equal time a move.

    Its bot has no clock: it gets the simulations that it makes in that time here.
    """
    simulations = max(1, int(openspiel_rate(10_000, 1.0) * seconds_a_move))
    rng = np.random.default_rng(0)
    ours = UctPlayer(Budget(seconds=seconds_a_move), rng)
    theirs = OpenSpielPlayer(simulations, rng)
    result = play_match(ours, theirs, balanced_openings(pairs, rng))
    low, high = result.interval.low, result.interval.high
    score = f"{result.wins} won, {result.draws} drawn, {result.losses} lost: {result.score:.0%} [{low:.0%}, {high:.0%}]"
    print(f"{ours.name} v. {theirs.name}, equal time: {score}", flush=True)


def compare_pgx(network: Network, name: str, *, seconds: float, games: int, simulations: int, device: str) -> None:
    """Self-play by a network of that ``name`` against one of the same size, and the networks alone.

    Theirs is untrained, which makes no difference to its speed. Ours is quicker once it is trained: proofs end
    searches, and more positions come again.
    """
    config = SelfPlayConfig(
        games=games, full_simulations=simulations, fast_simulations=simulations, full_search_prob=1.0
    )
    actors = choose_for_run(device, "auto").actors(network, STANDARD, config, np.random.default_rng)
    work, spent = ActorStats(), 0.0
    samples = max(4_000, 8 * games)  # on a GPU, thousands of games begin a search with each call
    actors.play(samples, lambda _index, _block: None)
    while spent < seconds:
        started = time.perf_counter()
        actors.play(samples, lambda _index, block: work.add(block.stats))
        spent += time.perf_counter() - started
    theirs, network_alone = pgx_mctx_rate(network.config, games=games, simulations=simulations, seconds=seconds)
    size = f"{network.config.channels} x {network.config.blocks}"
    show(
        f"self-play against pgx + mctx, {name} {size} network, {games} games, {simulations} simulations a move",
        "simulations/s",
        work.simulations / spent,
        theirs,
    )
    print(f"{work.cached / (work.cached + work.evaluations):.0%} of the evaluations needed were remembered")
    show(
        f"its network calls ({actors.backend}) against JAX's network alone",
        "evaluations/s",
        work.evaluations / spent,
        network_alone,
    )


def openspiel_rate(simulations: int, seconds: float) -> float:
    """Simulations/s of OpenSpiel's C++ `MCTSBot` with random rollouts from the empty board, on one core."""
    import pyspiel

    game = pyspiel.load_game("connect_four")
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    # exploration, simulations, memory in MB, solve, seed, verbose: as its own examples have them
    bot = pyspiel.MCTSBot(game, evaluator, 2.0, simulations, 1000, False, 0, False)
    state = game.new_initial_state()

    def work() -> int:
        bot.step(state)
        return simulations

    work()
    return rate(work, seconds)


def pgx_mctx_rate(size: NetworkConfig, *, games: int, simulations: int, seconds: float) -> tuple[float, float]:
    """``(simulations/s, evaluations/s of the network alone)`` of self-play by pgx and mctx in JAX, on all its devices.

    The network has the architecture of ours (a stem, residual blocks of two 3 x 3 convolutions, both heads) with the
    norms folded away, as for inference; it computes in bf16 on a GPU, as ours does. As in their examples, a finished
    game starts anew, and one jitted call plays a move in all games.
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
    """Random weights in the shapes of our network."""
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
    """Measure ourselves and each installed peer in turn; name those that are not installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a measurement; ten times as many of self-play")
    parser.add_argument("--pairs", type=int, default=10, help="of games against OpenSpiel at equal time; 0 for none")
    parser.add_argument("--games", type=int, nargs="+", default=[256], help="at once in self-play")
    parser.add_argument("--simulations", type=int, default=64, help="a move in self-play")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of our self-play")
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
            trained = load_checkpoint(Path("standard")).network
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
