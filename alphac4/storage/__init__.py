"""Files that are complete or absent: checkpoints, arrays, records, locks and their folders."""
