#!/usr/bin/env bash
# Set up an environment of its own in .venv and run every check: lint, format, types, import contract, tests.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh dev onnx openvino openspiel web
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/lint-imports
.venv/bin/python -m pytest "$@"
