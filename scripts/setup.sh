#!/usr/bin/env bash
# Create .venv with alphac4 and the extras given as arguments, for example: ./scripts/setup.sh openvino dev
# pyproject.toml lists the extras under [project.optional-dependencies]; `alphac4 doctor` shows which ones are complete.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || [ -x .venv/Scripts/python.exe ] || "${PYTHON:-python3}" -m venv .venv
if [ -d .venv/Scripts ]; then bin=.venv/Scripts; else bin=.venv/bin; fi # Windows has Scripts
"$bin/python" - "$@" << 'END'
import sys

if sys.version_info < (3, 11):
    print("setup.sh: needs Python 3.11 or later: remove .venv, then PYTHON=python3.11 ./scripts/setup.sh", file=sys.stderr)
    sys.exit(2)
import tomllib

with open("pyproject.toml", "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
for name in sys.argv[1:]:
    if name not in extras:
        print(f"setup.sh: unknown extra {name!r}; the extras are {', '.join(extras)}", file=sys.stderr)
        sys.exit(2)
END
"$bin/python" -m pip --version > /dev/null 2>&1 || "$bin/python" -m ensurepip > /dev/null # uv's environments have no pip
# Check the package index first, because pip retries an unreachable one for minutes, for each package.
"$bin/python" - << 'END'
import shlex
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 15
pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
lines = subprocess.run(pip, capture_output=True, text=True).stdout.splitlines()
settings = {name: shlex.split(value)[0] for name, _, value in (line.partition("=") for line in lines) if value}


def setting(name):
    """Return pip's value of a setting, from the environment or its files; "" if there is none."""
    return next((settings[f"{place}.{name}"] for place in (":env:", "install", "global") if f"{place}.{name}" in settings), "")


def problem(url):
    """Return the reason why an index cannot be reached; "" if it answers, even with an error."""
    try:
        context = ssl.create_default_context(cafile=setting("cert") or None)
        urllib.request.urlopen(f"{url.rstrip('/')}/pip/", timeout=TIMEOUT_S, context=context).close()
    except urllib.error.HTTPError:
        return ""
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
    return ""


if not setting("no-index") and not setting("proxy"):
    for name, variable in (("index-url", "PIP_INDEX_URL"), ("extra-index-url", "PIP_EXTRA_INDEX_URL")):
        for url in setting(name).split():
            if url.startswith("http") and (reason := problem(url)):
                advice = f"Check the network, or set or unset {variable} (see pip config list)."
                print(f"setup.sh: cannot reach the package index {url}: {reason}. {advice}", file=sys.stderr)
                sys.exit(2)
END
extras=$(IFS=,; echo "$*")
# Versions are pinned, because newer ones could install gigabytes of CUDA on a machine without a GPU.
install=("$bin/python" -m pip install --disable-pip-version-check --constraint constraints.txt)
[ -t 1 ] || install+=(--quiet) # downloads are shown on a terminal only
# Modules are compiled at their first import, unless that is forbidden; compiling all here would double the time.
[ -n "${PYTHONDONTWRITEBYTECODE:-}" ] || install+=(--no-compile)
echo "installing alphac4${extras:+ with $*} into .venv; the first time takes minutes, because PyTorch has 200 MB ..."
"${install[@]}" pip # older versions resolve dependencies slowly
"${install[@]}" --editable ".${extras:+[$extras]}"
if [[ ",$extras," == *,kaggle,* ]]; then
    "${install[@]}" --no-deps kaggle-environments # ConnectX needs only the dependencies of the extra
fi
echo "alphac4 is installed: $bin/alphac4 --help, or source $bin/activate and then alphac4 --help"
