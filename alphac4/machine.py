"""What this process may use of the machine, and what it uses."""

import os
import re
import sys


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resident_memory_mb() -> float:
    """Resident memory of this process in MB; its peak where the system does not tell the present one."""
    try:
        with open("/proc/self/status") as status:  # noqa: PTH123 - a kernel file
            found = re.search(r"VmRSS:\s+(\d+) kB", status.read())
        return int(found.group(1)) / 1024 if found else 0.0
    except OSError:
        if sys.platform == "win32":
            return 0.0
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
