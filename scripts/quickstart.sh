#!/usr/bin/env bash
# Set up .venv, train the quick preset in runs/quick and print its strength. Rerun the script to resume.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh openvino
exec .venv/bin/alphac4 train --preset quick --run runs/quick "$@"
