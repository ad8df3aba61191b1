#!/usr/bin/env bash
# Build the documentation site in build/docs and execute its notebooks; any warning is an error.
# Arguments are passed to sphinx-build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -d .venv/Scripts ]; then bin=.venv/Scripts; else bin=.venv/bin; fi # Windows has Scripts
[ -e "$bin/sphinx-build" ] || [ -e "$bin/sphinx-build.exe" ] || ./scripts/setup.sh docs
# Rebuild all pages, because unchanged ones would not repeat their warnings.
"$bin/python" -m sphinx --quiet --fresh-env --write-all --fail-on-warning --keep-going -c docs . build/docs "$@"
echo "The site is in build/docs/index.html."
