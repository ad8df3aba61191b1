#!/usr/bin/env bash
# Measure everything that is to be known of a GPU, in steps of at most ten minutes; the same command goes on.
#   ./scripts/gpu_report.sh [FOLDER] [--minutes 10] [--only STEP ...]    report.md and report.json are in FOLDER
#   PYTHON=python3 ./scripts/gpu_report.sh                               in an environment that has what is needed
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
    [ -e .venv/bin/python ] || ./scripts/setup.sh cuda dev onnx peers
    PYTHON=.venv/bin/python
fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec "$PYTHON" scripts/gpu_report.py "$@"
