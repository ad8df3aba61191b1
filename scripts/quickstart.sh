#!/usr/bin/env bash
# Set up .venv, train the quick preset into runs/quick and print how strong it got; run again to go on after a stop.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh openvino
exec .venv/bin/alphac4 train --preset quick --run runs/quick "$@"
