"""Compile the exact solver to WebAssembly, for the page without a server: ``python scripts/solver_wasm.py``.

Numba compiles `alphac4.solver` to LLVM IR, LLVM's WebAssembly back end compiles it to an object file, and this script
turns that into a module with an exported function, in ``alphac4/plugins/export/local/solver.wasm``.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODULE = Path(__file__).resolve().parents[1] / "alphac4" / "plugins" / "export" / "local" / "solver.wasm"
EXPORTED = "score"
TRIPLE = "wasm32-unknown-unknown"
CUSTOM, TYPE, IMPORT, FUNCTION, EXPORT, CODE = 0, 1, 2, 3, 7, 10  # sections of a module, in this order
FUNCTION_KIND = 0  # kind of an export
GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_SLP_VECTORIZE": "0"}


def build_module() -> bytes:
    """Return the module, whose function ``score`` is `score_position` on the standard board.

    Its parameters are pointers to the table, the stack's words and integers, the layout's ranks, and the book's keys
    and scores; then, as int64, the table's bits, the book's positions and plies, own and occupied stones, and whether
    only the sign of the score is needed.

    Raises:
        RuntimeError: if this process has already compiled code, or LLVM lacks the back end.
    """
    return named_module(compile_object(solver_source()), EXPORTED)


def solver_source() -> str:
    """Return the solver as LLVM IR for no particular processor, with one visible function named `EXPORTED`."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= GENERIC | {"NUMBA_CACHE_DIR": cache}  # the usual cache has code for this machine
        import numba

        if numba.config.CPU_NAME != GENERIC["NUMBA_CPU_NAME"]:  # type: ignore[attr-defined]  # noqa: SIM300
            raise RuntimeError("Numba is already loaded: compile the solver to WebAssembly in a new process")
        function, signature = _entry()
        compiled = numba.njit(signature, nogil=True, error_model="numpy")(function)
        text = next(iter(compiled.inspect_llvm().values()))
        name = compiled.overloads[signature.args].fndesc.llvm_func_name
    text = re.sub(r"^target .*\n", "", text, flags=re.MULTILINE)
    # The book's arrays are views of memory without reference counts.
    text = re.sub(
        r"^define (?:linkonce_odr )?void @NRT_(incref|decref)\(.*?^}",
        r"define internal void @NRT_\1(ptr %p) {\n  ret void\n}",
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    # Other visible functions are Numba's wrappers for Python. LLVM removes them if they are internal.
    text = text.replace(" = common ", " = internal ").replace(name, EXPORTED)
    return re.sub(
        rf"^define (?:linkonce_odr |internal )?(?!.* @{EXPORTED}\()", "define internal ", text, flags=re.MULTILINE
    )


def _entry() -> tuple[Any, Any]:
    """Return the function to compile and its signature: a search whose memory is passed by the caller."""
    import numpy as np
    from numba import carray, types  # type: ignore[attr-defined]

    from alphac4.game.rules import STANDARD
    from alphac4.solver.book import KnownScores
    from alphac4.solver.memory import Table, make_stack, make_table
    from alphac4.solver.search import Layout, make_layout, score_position

    board, upper = STANDARD, make_layout(STANDARD).upper
    table = make_table(STANDARD, 20)
    key_mask, half_key_bits = table.key_mask, table.half_key_bits
    key_bits = int(table.tag_bits) + 20

    def score(  # type: ignore[no-untyped-def]
        entries, words, integers, ranks, keys, scores, table_bits, positions, plies, own, occupied, weak
    ):
        return score_position(
            board,
            Layout(upper, ranks),
            Table(entries, key_mask, half_key_bits, np.uint64(key_bits - table_bits)),
            KnownScores(carray(keys, (positions,)), carray(scores, (positions,)), plies),
            make_stack(board, carray(words, (1,)), carray(integers, (1,))),
            own,
            occupied,
            weak != 0,
        )

    word, integer, byte = map(types.CPointer, (types.uint64, types.int64, types.int8))
    pointers = (word, word, integer, integer, word, byte)
    return score, types.int64(*pointers, *[types.int64] * 3, *[types.uint64] * 2, types.int64)


def compile_object(text: str) -> bytes:
    """Compile a module in LLVM IR to a WebAssembly object file."""
    from llvmlite import binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(TRIPLE)
    except RuntimeError as error:
        raise RuntimeError(f"this llvmlite has no WebAssembly back end; install another version: {error}") from error
    machine = target.create_target_machine(cpu="generic", opt=3)
    module = llvm.parse_assembly(f'target datalayout = "{machine.target_data}"\ntarget triple = "{TRIPLE}"\n{text}')
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.inlining_threshold = 2000  # inlines everything into one function, with the board's sizes as constants
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


def named_module(file: bytes, name: str) -> bytes:
    """Turn an object file with one function, which needs only memory, into a module that exports it as ``name``."""
    encoded = name.encode()
    exports = _number(1) + _number(len(encoded)) + encoded + bytes([FUNCTION_KIND]) + _number(0)
    module = file[:8]
    for kind, content in _sections(file):
        if kind == FUNCTION and content[0] != 1:
            raise RuntimeError(f"the object file has {content[0]} functions; expected 1, with all others inlined")
        if kind in (TYPE, IMPORT, FUNCTION, CODE):
            if kind == CODE:
                module += bytes([EXPORT]) + _number(len(exports)) + exports
            module += bytes([kind]) + _number(len(content)) + content
        elif kind != CUSTOM:  # data, tables or globals
            raise RuntimeError(f"the object file has a section of kind {kind}, which needs a linker")
    return module


def _sections(file: bytes) -> Iterator[tuple[int, bytes]]:
    position = 8  # after the magic number and the version
    while position < len(file):
        kind = file[position]
        size, position = _read(file, position + 1)
        yield kind, file[position : position + size]
        position += size


def _read(file: bytes, position: int) -> tuple[int, int]:
    """Return a number encoded in LEB128 and the position after it."""
    number = shift = 0
    while True:
        byte = file[position]
        number |= (byte & 127) << shift
        shift, position = shift + 7, position + 1
        if byte < 128:
            return number, position


def _number(value: int) -> bytes:
    """Encode a number in LEB128."""
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


if __name__ == "__main__":
    MODULE.write_bytes(build_module())
    print(f"{MODULE}: {MODULE.stat().st_size:,} bytes")
