"""Self-play for Connect Four by pgx and mctx in JAX, as a measure to compare ours with."""

import time
from typing import Any

from alphac4.nn.network import NetworkConfig


def pgx_mctx_rate(
    size: NetworkConfig, *, games: int, simulations: int, seconds: float, gumbel: bool = True
) -> tuple[float, float]:
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
        policy = mctx.gumbel_muzero_policy if gumbel else mctx.muzero_policy
        result = policy(
            parameters, search_key, root, recurrent, simulations, invalid_actions=~state.legal_action_mask, max_depth=42
        )
        return advance(state, result.action, jax.random.split(step_key, games))

    key = jax.random.PRNGKey(0)
    state = jax.vmap(environment.init)(jax.random.split(key, games))
    evaluate = jax.jit(forward)
    state = ready(play(parameters, state, key))  # compiles
    ready(evaluate(parameters, state.observation))
    moves, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        key, subkey = jax.random.split(key)
        state = ready(play(parameters, state, subkey))
        moves += games
    searched = moves * simulations / (time.perf_counter() - started)
    evaluations, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds / 2:
        ready(evaluate(parameters, state.observation))
        evaluations += games
    return searched, evaluations / (time.perf_counter() - started)


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
