#!/usr/bin/env bash
# Run all measurements on one GPU, in about ten minutes. Rerun the command to repeat failed and unfinished steps.
#   ./scripts/gpu_report.sh [FOLDER] [POSITIONS.columns ...]     logs in FOLDER (runs/gpu-report), a summary at the end
#   PYTHON=python3 ./scripts/gpu_report.sh                       in an environment with the extras cuda, dev and peers
set -uo pipefail
cd "$(dirname "$0")/.."
folder=${1:-runs/gpu-report}
shift || true
positions=()
[ $# = 0 ] || positions=(--positions "$@")
mkdir -p "$folder"
if [ -z "${PYTHON:-}" ]; then
    [ -e .venv/bin/python ] || ./scripts/setup.sh cuda dev peers
    PYTHON=.venv/bin/python
fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false

failed=()
step() { # NAME SECONDS COMMAND...
    local name=$1 limit=$2 started=$SECONDS
    shift 2
    [ ! -e "$folder/$name.done" ] || return 0
    echo "$name: at most $limit s: $*"
    timeout -s INT -k 20 "$limit" "$@" >"$folder/$name.log" 2>&1
    local code=$?
    echo "exit code $code after $((SECONDS - started)) s: $*" >>"$folder/$name.log"
    if [ $code = 0 ]; then touch "$folder/$name.done"; else failed+=("$name"); fi
}

step tests 180 "$PYTHON" -m pytest -q -p no:cacheprovider -n 6 -m gpu tests/plugins/cuda
step quick 220 "$PYTHON" scripts/speedrun.py gpu-quick --warm-up --seeds 0 1 --folder "$folder/runs" "${positions[@]}"
step speed 45 "$PYTHON" experiments/gpu_speed.py --channels 32 --blocks 4 --games 2048 4096 8192 --streams 2 --seconds 0.15
step peers 100 "$PYTHON" experiments/peers.py --games 8192 --simulations 32 --device cuda --seconds 0.5 --pairs 0
step best 330 "$PYTHON" scripts/speedrun.py gpu-best --folder "$folder/runs" "${positions[@]}"
for name in tests quick speed peers best; do
    echo "== $name"
    tail -n 14 "$folder/$name.log" | cut -c 1-200
done
[ ${#failed[@]} = 0 ] || { echo "unfinished, for the next call: ${failed[*]}"; exit 1; }
