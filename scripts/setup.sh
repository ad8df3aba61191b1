#!/usr/bin/env bash
# Make .venv with alphac4 and the extras named as arguments, for example: ./scripts/setup.sh openvino dev
# The extras: pyproject.toml has them under [project.optional-dependencies]; `alphac4 doctor` tells what each is for.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || [ -x .venv/Scripts/python.exe ] || "${PYTHON:-python3}" -m venv .venv
if [ -d .venv/Scripts ]; then bin=.venv/Scripts; else bin=.venv/bin; fi # Windows has Scripts
"$bin/python" - "$@" << 'END'
import sys

if sys.version_info < (3, 11):
    print("setup.sh: Python 3.11 or later is needed: remove .venv, then PYTHON=python3.11 ./scripts/setup.sh", file=sys.stderr)
    sys.exit(2)
import tomllib

with open("pyproject.toml", "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
for name in sys.argv[1:]:
    if name not in extras:
        print(f"setup.sh: no extra {name!r}; there are {', '.join(extras)}", file=sys.stderr)
        sys.exit(2)
END
extras=$(IFS=,; echo "$*")
# Pinned: a wider range could bring gigabytes of CUDA to a machine without a GPU.
install=("$bin/python" -m pip install --disable-pip-version-check --constraint constraints.txt)
[ -t 1 ] || install+=(--quiet) # a person at a terminal sees what is downloaded
# Python compiles what is imported, when it is: to compile everything here would take as long as all the rest.
[ -n "${PYTHONDONTWRITEBYTECODE:-}" ] || install+=(--no-compile) # where it must not, it would do so at every start
echo "installing alphac4${extras:+ with $*} into .venv: minutes the first time, as PyTorch has 200 MB ..."
"${install[@]}" pip # that of an older Python is slow to find out what belongs together
"${install[@]}" --editable ".${extras:+[$extras]}"
if [[ ",$extras," == *,kaggle,* ]]; then
    "${install[@]}" --no-deps kaggle-environments # of its many dependencies ConnectX needs those of the extra
fi
echo "alphac4 is installed: $bin/alphac4 --help, or source $bin/activate and then alphac4 --help"
