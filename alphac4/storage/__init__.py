"""Files that are whole or not there: checkpoints, arrays, records, locks, and the folders they lie in."""
