"""Install a wheel into an empty environment and use it as a user would: commands, a training, Python, the page.

    python -m build && python scripts/try_wheel.py dist/alphac4-1.0.0-py3-none-any.whl
    python3.14 scripts/try_wheel.py dist/alphac4-1.0.0-py3-none-any.whl --extras onnx web --folder trial

The environment has the version of Python that runs this script, and the newest packages within the wheel's ranges. pip
reads its own settings, such as PIP_EXTRA_INDEX_URL and PIP_CONSTRAINT. The folder's name has blanks and an umlaut.
Before use, the installed files become read-only, which does not stop an administrator.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

TIMEOUT_S = 900  # of one step: installing PyTorch or compiling everything on a slow machine takes minutes
ADDRESS = re.compile(r"http://\S+")
MODULE = """
import alphac4
for name in alphac4.__all__:
    getattr(alphac4, name)
agent = alphac4.load("best")
assert agent.search("4455", simulations=20).move in range(7)
assert alphac4.solve("112233") == 18 and alphac4.explain("112233", 3)
assert alphac4.play_match("random", "uct:2", games=2).game_count == 2
assert len(alphac4.read_reports("run")) > 0
print(alphac4.__version__, alphac4.__file__)
"""
# A command line, its standard input, and a text that it prints.
USES = [
    ("--version", "", "alphac4 "),
    ("--help", "", "Examples:"),
    ("players", "", "negamax"),
    ("doctor --only checks", "", "best"),
    ("solve 112233", "", "18"),
    ("search 44 --player best@20", "", "x to move"),
    ("play 1 --seed 1", "4\nquit\n", "(level 1) plays"),
    ("review 4455 --player best@20", "", "4455"),
    ("train --preset tiny --run run", "", ""),
    ("train --run run", "", ""),
    ("evaluate run/checkpoints/best.safetensors --count 20", "", ""),
    ("arena run/checkpoints/best.safetensors@2 random --games 2", "", ""),
    ("engine", "quit\n", ""),
    ("export best --kaggle main.py", "", "main.py"),
]
USES_OF_EXTRAS = {"onnx": ("export quick --onnx quick.onnx", "", "quick.onnx")}


class Trial:
    """An environment in a folder, and a folder beside it in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.environment = folder / "environment größer"
        self.work = folder / "work with blanks"
        self.work.mkdir(parents=True)
        venv.create(self.environment, with_pip=True)
        self.scripts = self.environment / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: str | Path, given: str = "") -> str:
        """Return what a command prints; exit with all of it if the command fails."""
        started = time.monotonic()
        done = subprocess.run(
            [self.scripts / command[0], *command[1:]],
            cwd=self.work,
            env=_environment(),
            input=given.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
        output = done.stdout.decode(errors="replace")
        line = " ".join(map(str, command)).partition("\n")[0]
        if done.returncode != 0 or "Traceback" in output:
            sys.exit(f"{output}\nexit code {done.returncode}: {line}")
        print(f"{time.monotonic() - started:6.1f} s  {line}", flush=True)
        return output

    def install(self, wheel: str) -> None:
        """Install a wheel, such as ``alphac4.whl[web]``, and check that no installed packages contradict each other."""
        self.run("python", "-m", "pip", "install", "--quiet", wheel)
        self.run("python", "-m", "pip", "check")

    def use(self, uses: list[tuple[str, str, str]]) -> None:
        """Run command lines, with the package read-only."""
        with _read_only(self.environment):
            for line, given, expected in uses:
                output = self.run("alphac4", *line.split(), given=given)
                if expected not in output:
                    sys.exit(f"{output}\n{expected!r} is missing in the output of alphac4 {line}")

    def open_page(self) -> None:
        """Start `alphac4 play web` and request its page."""
        command = [str(self.scripts / "alphac4"), "play", "web", "--port", "0", "--no-open"]
        with subprocess.Popen(
            command, cwd=self.work, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as server:
            assert server.stdout is not None
            try:
                address = next(found[0] for line in server.stdout if (found := ADDRESS.search(line)))
                with urllib.request.urlopen(address, timeout=60) as answer:
                    assert b"<title>" in answer.read()
                print(f"          alphac4 play web answers at {address}")
            finally:
                server.terminate()


def _environment() -> dict[str, str]:
    """Return this process's variables without those of Python and of the package."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ALPHAC4", "NUMBA"))}


@contextlib.contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    """Remove the permission to write from a folder's files and folders during the block."""
    paths = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths if not path.is_symlink()}
    try:
        for path, mode in modes.items():
            path.chmod(mode & 0o7555)
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def main() -> None:
    """Use the wheel without extras, and then with those that the options name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--extras", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--folder", type=Path, help="new folder to use and to keep; by default a temporary one")
    options = parser.parse_args()
    wheel = options.wheel.resolve(strict=True)
    with tempfile.TemporaryDirectory(prefix="alphac4 ", ignore_cleanup_errors=True) as temporary:
        trial = Trial((options.folder or Path(temporary)).resolve())
        trial.install(str(wheel))
        trial.use(USES)
        python = trial.run("python", "-c", MODULE)
        assert str(trial.environment.resolve()) in python, python
        if options.extras:
            trial.install(f"{wheel}[{','.join(options.extras)}]")
            trial.use([USES_OF_EXTRAS[name] for name in options.extras if name in USES_OF_EXTRAS])
        if "web" in options.extras:
            trial.open_page()
        print(json.dumps({"wheel": wheel.name, "python": sys.version.split()[0], "extras": options.extras}))


if __name__ == "__main__":
    main()
