#!/usr/bin/env bash
# Make .venv with alphac4 and the extras named as arguments, for example: ./scripts/setup.sh openvino dev
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || [ -x .venv/Scripts/python.exe ] || "${PYTHON:-python3}" -m venv .venv
if [ -d .venv/Scripts ]; then bin=.venv/Scripts; else bin=.venv/bin; fi # Windows has Scripts
extras=$(IFS=,; echo "$*")
# Pinned: a wider range could bring gigabytes of CUDA to a machine without a GPU.
install=("$bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt)
# Python compiles what is imported, when it is: to compile everything here would take as long as all the rest.
[ -n "${PYTHONDONTWRITEBYTECODE:-}" ] || install+=(--no-compile) # where it must not, it would do so at every start
"${install[@]}" --editable ".${extras:+[$extras]}"
if [[ ",$extras," == *,kaggle,* ]]; then
    "${install[@]}" --no-deps kaggle-environments # of its many dependencies ConnectX needs those of the extra
fi
