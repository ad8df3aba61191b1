#!/usr/bin/env bash
# Make .venv with alphac4 and the extras named as arguments, for example: ./scripts/setup.sh openvino dev
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv/bin/python ] || "$python" -m venv .venv
# PyTorch first and pinned: a wider range could bring gigabytes of CUDA to a machine without a GPU.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch setuptools
extras=$(IFS=,; echo "$*")
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".${extras:+[$extras]}"
