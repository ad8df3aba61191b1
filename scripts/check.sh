#!/usr/bin/env bash
# Run all checks in .venv: lint, format, types, import contracts, package, tests, documentation.
#   ./scripts/check.sh           everything; if CI is set, a test fails if it is skipped because a program is missing
#   ./scripts/check.sh --quick   without slow tests and documentation, in the existing .venv
# Further arguments are passed to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

unset PYTHONDONTWRITEBYTECODE # hundreds of processes import the same files, which should be compiled once
tests=(-n auto --dist loadgroup --no-loadscope-reorder)
mkdir -p build

# Compile common code before the tests, self-play on one core and the players on another.
compile() {
    if [ -d .venv/Scripts ]; then bin=.venv/Scripts; else bin=.venv/bin; fi # Windows has Scripts
    rm -rf build/compiled
    # PYTHONPATH, because the package may be installed again meanwhile
    PYTHONPATH=$PWD "$bin/python" -m alphac4 selfplay quick --samples 1 --parallel-games 2 --backend torch-fp32 \
        --output build/compiled >build/selfplay.log 2>&1 &
    selfplay=$!
    {
        export PYTHONPATH=$PWD
        "$bin/python" -m alphac4 arena quick@2 uct:2 negamax:1 --games 2 --processes 1 --backend torch-fp32
        "$bin/python" -m alphac4 solve 112233
    } >build/players.log 2>&1 &
    players=$!
}
lint() {
    "$bin/ruff" check . && "$bin/ruff" format --check . && "$bin/codespell" && "$bin/lint-imports"
}
end_of_compiling() {
    wait "$selfplay" || { cat build/selfplay.log; exit 1; }
    wait "$players" || { cat build/players.log; exit 1; }
}

if [ "${1:-}" = --quick ]; then
    shift
    [ -e .venv/bin/pytest ] || [ -e .venv/Scripts/pytest.exe ] || ./scripts/setup.sh dev onnx web
    compile
    lint
    "$bin/mypy"
    end_of_compiling
    exec "$bin/python" -m pytest -m "not slow" "${tests[@]}" "$@"
fi

./scripts/setup.sh dev openvino web
compile # while the other packages are installed
./scripts/setup.sh cluster cuda dev docs hub kaggle onnx openvino peers pettingzoo web
if [ -n "${CI:-}" ]; then
    tests+=(--no-skips)
    # On Debian in CI, install the programs that tests need. Elsewhere, skipped tests name them.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        packages=()
        command -v chromium >/dev/null || packages+=(chromium)
        command -v node >/dev/null || packages+=(nodejs)
        [ ${#packages[@]} = 0 ] || { apt-get update -q && apt-get install -y -q --no-install-recommends "${packages[@]}"; }
    fi
fi
lint
end_of_compiling
"$bin/mypy" >build/types.log 2>&1 & # at the same time as the tests
types=$!
./scripts/docs.sh >build/docs.log 2>&1 &
docs=$!
status=0
"$bin/python" -m pytest "${tests[@]}" "$@" || status=$?
wait "$types" || status=$?
wait "$docs" || status=$?
cat build/types.log build/docs.log
exit "$status"
