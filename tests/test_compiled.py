import os
import shutil
import subprocess
import sys
from pathlib import Path

import alphac4

PACKAGE = Path(alphac4.__file__).parent
ASK = """
import numpy as np
from alphac4.game.rules import STANDARD
from alphac4.game.symmetry import canonical_key
from alphac4.compiled import announce_compilation
announce_compilation(lambda: print("compiles"))
print(canonical_key(STANDARD, np.uint64(1), np.uint64(1)))
"""


def test_machine_code_on_disk_is_made_anew_where_a_function_it_calls_has_changed(tmp_path: Path) -> None:
    """Also one in another file, of which Numba by itself would not know."""
    shutil.copytree(PACKAGE, tmp_path / "alphac4", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}

    def ask() -> list[str]:
        command = [sys.executable, "-B", "-c", ASK]
        environment["PYTHONPATH"] = str(tmp_path)
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert ask() == ["compiles", "2"]  # the key is the sum of both numbers; the mirror image's is larger
    assert ask() == ["2"]
    rules = tmp_path / "alphac4" / "game" / "rules.py"
    text = rules.read_text()
    changed = text.replace(
        "def mirror(",
        "def mirror(geometry: Geometry, stones: np.uint64) -> np.uint64:\n    return U64_0\n\n\n@inlined\ndef former(",
    )
    assert changed != text
    rules.write_text(changed)
    assert ask() == ["compiles", "0"]
