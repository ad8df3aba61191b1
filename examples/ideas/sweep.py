"""A sweep of settings in which poor trials end early (Optuna, Akiba et al. 2019).

A trial iterates over `alphac4.iterate` and leaves the loop when it is pruned. Trials are compared by the policy loss.
For learning rates, that is fair only while self-play is the same; a longer sweep should measure mistakes instead
(`alphac4.evaluate`). The script needs `pip install optuna`.

    python examples/ideas/sweep.py

It has been run with `--fast` only, as a check that it works.
"""

import sys

import optuna

import alphac4

FAST = "--fast" in sys.argv


def objective(trial: optuna.Trial) -> float:
    """Return the policy loss after the last iteration of a trial."""
    learning = {"learning_rate": trial.suggest_float("learning_rate", 1e-3, 1e-2, log=True)}
    preset, iterations = ("tiny", 2) if FAST else ("quick", 4)
    config = alphac4.TrainConfig.preset(preset, iterations=iterations, learning=learning)
    loss = 0.0
    for iteration in alphac4.iterate(config):
        loss = iteration.learning.policy_loss
        trial.report(loss, iteration.number)
        if trial.should_prune():
            raise optuna.TrialPruned
    return loss


if __name__ == "__main__":
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=2))
    study.optimize(objective, n_trials=3 if FAST else 8)
    print(study.best_params, study.best_value)
