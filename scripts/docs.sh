#!/usr/bin/env bash
# Build the documentation site in build/docs, its notebooks executed; any warning is an error.
# Arguments go to sphinx-build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -d .venv/Scripts ]; then bin=.venv/Scripts; else bin=.venv/bin; fi # Windows has Scripts
[ -e "$bin/sphinx-build" ] || [ -e "$bin/sphinx-build.exe" ] || ./scripts/setup.sh docs
# A page that was built before would not repeat its warnings, so all are built anew.
"$bin/python" -m sphinx --quiet --fresh-env --write-all --fail-on-warning --keep-going -c docs . build/docs "$@"
echo "The site is in build/docs/index.html."
