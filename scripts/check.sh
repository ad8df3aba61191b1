#!/usr/bin/env bash
# Run every check in an environment of its own in .venv: lint, format, types, import contract, package, tests, documentation.
#   ./scripts/check.sh           everything; where CI is set, a test that is skipped for want of a program fails
#   ./scripts/check.sh --quick   without the tests marked slow and the documentation, in the .venv that is there
# Further arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

unset PYTHONDONTWRITEBYTECODE # hundreds of processes import the same files, which are compiled once
tests=()
quick=
if [ "${1:-}" = --quick ]; then
    shift
    quick=yes
    tests=(-m "not slow")
    [ -e .venv/bin/pytest ] || [ -e .venv/Scripts/pytest.exe ] || ./scripts/setup.sh dev onnx web
else
    ./scripts/setup.sh cluster cuda dev docs hub kaggle onnx openvino peers pettingzoo web
    if [ -n "${CI:-}" ]; then
        tests=(--no-skips)
        # A person is told by the skipped tests what to install; a bare Debian machine helps itself.
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            packages=()
            command -v chromium >/dev/null || packages+=(chromium)
            command -v node >/dev/null || packages+=(nodejs)
            [ ${#packages[@]} = 0 ] || { apt-get update -q && apt-get install -y -q --no-install-recommends "${packages[@]}"; }
        fi
    fi
fi

if [ -d .venv/Scripts ]; then bin=.venv/Scripts; else bin=.venv/bin; fi # Windows has Scripts
"$bin/ruff" check .
"$bin/ruff" format --check .
types() {
    "$bin/mypy" && "$bin/lint-imports"
}
if [ -n "$quick" ]; then
    types
    exec "$bin/python" -m pytest "${tests[@]}" "$@"
fi
marked() { # the tests with a mark; further arguments may leave none of them, which pytest tells by 5
    local mark=$1
    shift
    "$bin/python" -m pytest -p no:cacheprovider -m "$mark" ${tests[@]+"${tests[@]}"} "$@" || [ $? = 5 ]
}
# Three streams on two cores: what is in the second takes a core for minutes, what is in the third compiles little at first,
# so that not all compile the same, and waits for other programs.
mkdir -p build
marked beside "$@" >build/beside.log 2>&1 &
beside=$!
{
    others=0
    types || others=$?
    ./scripts/docs.sh || others=$?
    marked browser "$@" && exit "$others"
} >build/others.log 2>&1 &
others=$!
status=0
"$bin/python" -m pytest -m "not beside and not browser" ${tests[@]+"${tests[@]}"} "$@" || status=$?
wait "$beside" || status=$?
wait "$others" || status=$?
cat build/beside.log build/others.log
exit "$status"
