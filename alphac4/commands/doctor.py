"""`alphac4 doctor`: whether the installation is sound, what it would run on, and how fast."""

import importlib.util
import platform
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from alphac4.arena.specifications import named_checkpoint, parse_player
from alphac4.commands import UNSOUND
from alphac4.commands.benchmark import rate_of_streams
from alphac4.commands.options import DoctorOptions
from alphac4.compiled import machine_code_folder
from alphac4.compute import Actors, choose, choose_for_run
from alphac4.compute.cores import MAX_STREAMS, MIN_GAMES, count_actors
from alphac4.evaluation.positions import packaged_positions
from alphac4.game import Position, rules
from alphac4.machine import cores, install_advice, processor_name
from alphac4.nn.backends import boards_for
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.samples import Block
from alphac4.solver import book as books
from alphac4.solver import shared_solver
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.hub import SHIPPED
from alphac4.training.config import PRESETS, TrainConfig
from alphac4.training.device_learner import make_learner
from alphac4.training.learner import PART, Learner
from alphac4.training.optimizer import Schedule
from alphac4.version import __version__

MEASURED_SECONDS = 0.5
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {  # by their names in pyproject.toml: modules, and what for
    "openvino": (("openvino",), "the fastest inference on Intel and AMD processors"),
    "cuda": (("numba_cuda",), "self-play's trees on an NVIDIA GPU, an experiment"),
    "cluster": (("ray",), "alphac4 train --cluster"),
    "web": (("starlette", "uvicorn"), "alphac4 play --web"),
    "onnx": (("onnx", "onnxruntime", "onnxscript"), "alphac4 export --onnx and --web, and networks of ONNX files"),
    "hub": (("huggingface_hub",), "networks named hf://OWNER/NAME, and the card of alphac4 export --hub"),
    "kaggle": (("flask", "jsonschema", "requests", "termcolor"), "games of Kaggle's ConnectX on this machine"),
    "pettingzoo": (("pettingzoo", "pygame"), "PettingZoo's connect_four_v3"),
    "openspiel": (("pyspiel",), "OpenSpiel's player openspiel:1000"),
    "peers": (("jax", "mctx", "pgx"), "experiments/peers.py"),
    "docs": (("furo", "myst_nb", "sphinx"), "building the documentation by ./scripts/docs.sh"),
}

# What a preset takes, from some seconds of self-play and learning by an untrained network.
OTHER_WORK = 0.25  # of a run's time: the gate, matches and reports; 0.26 in the recorded quick run
# The work of a position in self-play over a whole run, as a share of an untrained network's. Proofs end more and more
# searches, and the cache answers more: the recorded quick run takes 9.7 evaluations and 14.7 simulations a position
# where an untrained network takes 19.4 and 23.3, and the standard run 15.5 simulations where it takes 27.8.
LATER_WORK = 0.55
# Evaluations of an untrained network, as a share of the visits that its searches are asked for: trees that are kept
# from move to move, proofs and the cache save the rest. The recorded quick run takes 19.4 a position for 35.2 visits.
# With `LATER_WORK` that makes 0.30 over a whole run; the runs that made `standard` and `best` took 0.32 and 0.27.
EVALUATIONS_A_VISIT = 0.55
ENDLESS = 10**9  # samples or steps, where time is the limit
WARM_UP_STEPS = 2
MIN_STEPS = 2  # that are timed
MACHINES = (2, 4, 8, 16, 64)  # cores
MB, MB_AN_ACTOR = 740, 10  # of a run; quick took 744 on one core and 767 with eight actors, wider networks more


def run(options: DoctorOptions) -> int:
    """Check, measure and print as results come; 1 if a check fails."""
    if options.device == "cuda":  # refused before anything is checked
        choose(options.device)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    print(
        f"{processor_name()}, cores {cores()}, system {platform.system()}, alphac4 {__version__}, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}, GPU {gpu}\n"
    )
    sound = True
    for name, check in CHECKS.items():
        try:
            found = f"  ok   {name}: {check()}"
        except Exception as error:  # whatever is wrong is what the check is for
            sound, found = False, f"  BAD  {name}: {' '.join(str(error).split()) or type(error).__name__}"
        print(found, flush=True)
    print("", *find_extras(), sep="\n")
    if options.measure and sound:
        print()
        for line in _measure(options.device):
            tqdm.write(line)  # above its own bar
    print("\nThe installation is sound." if sound else "\nThe installation is not sound: see above.")
    return 0 if sound else UNSOUND


# --- Checks: each tells what it found, or raises --------------------------------------------------------------------
def _check_solver() -> str:
    known = {"112233": 18, "446712672373": 10, "2252576253462244111563365343671351441": -1}  # the last as Pons has it
    for moves, score in known.items():
        if (found := shared_solver().solve(Position.from_moves(moves))) != score:
            raise ValueError(f"the solver scores {moves} as {found} instead of {score}: the compiled code is wrong")
    return f"{len(known)} known scores"


def _check_book() -> str:
    book = books.load_book(Path(books.__file__).with_name(books.book_name(rules.STANDARD)), rules.STANDARD)
    return f"{len(book.keys):,} positions with up to {book.plies} stones"


def _check_networks() -> str:
    for name in SHIPPED:
        load_checkpoint(Path(name))
    return ", ".join(SHIPPED)


def _check_search() -> str:
    player = parse_player("best@50", rng=np.random.default_rng(0), batch_size=1)
    if player.choose([Position.from_moves("112233")]) != [3]:
        raise ValueError("best@50 does not see the win in 112233: the network or its backend is bad")
    return "best@50 sees a win"


def _check_positions() -> str:
    sets = packaged_positions()
    return f"{sum(map(len, sets)):,} in {len(sets)} sets"


def _check_page() -> str:
    files = [item.name for item in (resources.files("alphac4.play.web") / "static").iterdir() if item.is_file()]
    if "index.html" not in files:
        raise FileNotFoundError("its files are missing: install the package anew")
    return f"{len(files)} files"


def _check_compiled() -> str:
    folder = machine_code_folder()
    if folder is None:
        raise PermissionError("no folder can be written, so that it is compiled at each start: set NUMBA_CACHE_DIR")
    return str(folder)


CHECKS: dict[str, Callable[[], str]] = {
    "rules and solver": _check_solver,
    "opening book": _check_book,
    "networks": _check_networks,
    "a search": _check_search,
    "positions to evaluate on": _check_positions,
    "the page": _check_page,
    "compiled code": _check_compiled,
}


def find_extras() -> Iterator[str]:
    """A line on each optional part: whether it is installed, and how it would be."""
    for name, (modules, purpose) in EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        if missing:
            yield f"  --   {name}, for {purpose}: {install_advice(name)} ({', '.join(missing)})"
        else:
            unused = name == "cuda" and not torch.cuda.is_available()
            yield f"  ok   {name}: {purpose}" + (" (installed, but PyTorch finds no GPU here)" if unused else "")


# --- Measurements ---------------------------------------------------------------------------------------------------
def _measure(device: str) -> Iterator[str]:
    """A line on each measurement."""
    network = named_checkpoint("best").load().network
    for batch, use in ((1, "play"), (128, "matches")):
        compute = choose(device)
        evaluator = compute.evaluator(network, batch_size=batch)
        boards = boards_for(network.config, batch, np.random.default_rng(0))
        rate = rate_of_streams(evaluator.evaluate, boards, 1, MEASURED_SECONDS)
        place = compute.learning_device.type
        yield f"  {use}: best on {place} by {evaluator.backend}, {rate:,.0f} evaluations/s in batches of {batch}"
    presets = {name: made for name, made in PRESETS.items() if made.machine.device != "cuda" or place == "cuda"}
    for name, config in tqdm(presets.items(), desc="measuring presets", disable=None, leave=False, file=sys.stderr):
        speed, games = measure_preset(config, device=device), config.selfplay.games
        machines = ", ".join(f"{_time(speed.minutes(count))} on {count}" for count in MACHINES)
        memory = speed.memory_mb(MACHINES[-1]) / 1000
        yield (
            f"  alphac4 train --preset {name}: about {_time(speed.minutes(cores()))} ({_rate(speed.samples)} "
            f"positions/s of self-play by {speed.backend}, {_rate(speed.steps)} steps/s of learning)\n"
            f"    on one core {_time(speed.minutes(1))}, {machines}, in about {memory:.1f} GB; a "
            f"core plays if it gets {MIN_GAMES} games, so --selfplay.games {games} occupies {games // MIN_GAMES}"
        )


def _time(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def _rate(value: float) -> str:
    """A rate for people: with two significant digits where a whole number says little."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


@dataclass(frozen=True, kw_only=True)
class PresetSpeed:
    """Speed of a preset's self-play and learning here, from which a run's time follows, to perhaps a third."""

    config: TrainConfig
    samples: float  # a second, of self-play by an untrained network, from its evaluations/s
    actors: int  # that played at a time
    steps: float  # a second, of learning
    backend: str  # of self-play

    def minutes(self, count: int) -> float:
        """A run's time on so many cores like those of this machine."""
        config, parts = self.config, -(-self.config.learning.batch_size // PART)
        # On one core; more of them take over games, parts of a batch, and streams of matches.
        play = config.iterations * LATER_WORK * config.samples / self.samples * self.actors
        learn = config.iterations * config.learning_steps / self.steps * min(cores(), parts)
        other = (play + learn) * OTHER_WORK / (1 - OTHER_WORK)
        playing = count_actors(config.selfplay.games, count)
        return (play / playing + learn / min(count, parts) + other / min(count, MAX_STREAMS)) / 60

    def memory_mb(self, count: int) -> int:
        """A run's memory there."""
        return MB + MB_AN_ACTOR * count_actors(self.config.selfplay.games, count)


def measure_preset(config: TrainConfig, seconds: float = 3.0, device: str = "auto") -> PresetSpeed:
    """Let an untrained network play and learn with a preset's settings, for about so many seconds each.

    A large network takes longer: until the first games are over, and for the first steps.
    """
    compute, selfplay = choose_for_run(device, "auto"), config.selfplay
    learner = make_learner(config, compute)
    actors = compute.actors(learner.candidate(), config.board.geometry(), selfplay, np.random.default_rng)
    full = selfplay.full_search_prob
    visits = full * selfplay.full_simulations + (1 - full) * selfplay.fast_simulations
    replay = Replay()
    evaluations = _measure_self_play(actors, replay, seconds)
    return PresetSpeed(
        config=config,
        samples=evaluations / (EVALUATIONS_A_VISIT * visits),
        actors=len(actors),
        steps=_measure_learning(learner, replay, config, seconds),
        backend=actors.backend,
    )


def _measure_self_play(actors: Actors, replay: Replay, seconds: float) -> float:
    """Evaluations/s, trees included; the games that are over by then are added to ``replay``.

    Finished games would not do as a measure: all begin together, so that at first hardly any finish, and later many.
    """
    stop, began = threading.Event(), time.perf_counter()
    evaluations: Counter[int] = Counter()  # by actor
    first: dict[int, tuple[float, int]] = {}  # by actor: when its first block came, and the evaluations until then
    last: dict[int, tuple[float, int]] = {}

    def on_block(actor: int, block: Block) -> None:
        replay.add(block.samples, 1)
        evaluations[actor] += block.work.evaluations
        now = time.perf_counter()
        last[actor] = now, evaluations[actor]
        first.setdefault(actor, last[actor])
        if now - min(since for since, _ in first.values()) >= seconds:
            stop.set()

    actors.play(ENDLESS, stop, on_block)
    rate = 0.0
    for actor, (end, after) in last.items():
        start, before = first[actor] if first[actor] != last[actor] else (began, 0)  # its only block
        rate += (after - before) / (end - start)
    return rate * len(actors) / len(last)


def _measure_learning(learner: Learner, replay: Replay, config: TrainConfig, seconds: float) -> float:
    """Steps/s: four times as many steps each time, until they take long enough to be timed."""
    schedule, rng = Schedule.of_run(config.learning, ENDLESS), np.random.default_rng(0)

    def learn(steps: int) -> float:
        return learner.learn_latest(replay, replay.total, steps=steps, schedule=schedule, rng=rng).seconds

    learn(WARM_UP_STEPS)
    steps = MIN_STEPS
    while (taken := learn(steps)) < seconds / 2:
        steps *= 4
    return steps / taken
