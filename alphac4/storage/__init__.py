"""Files: atomic writes, locks, checkpoints, arrays, journals and validated records."""
