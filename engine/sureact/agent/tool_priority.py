"""How tools that compute step back where they and the engine want the same processors.

A niceness counts among the threads of one session; between sessions Linux shares the processors evenly, however nice
their threads are. So the process of an engine, and those of tools, stay in the session of their program.
"""

import os
import sys
from pathlib import Path

TOOL_NICENESS = 19
"""Of threads that compute for a tool: they get what others leave. All other calls would only wait for it."""

COMPUTES_AFTER_S = 0.05
"""Seconds of a processor after which a call computes."""


def steps_back(thread_id: int) -> bool:
    """Lower the priority of a thread of this process, and of what it starts, once it has computed for a while.

    It is for good: going back takes a privilege. Only Linux has priorities of single threads.

    Args:
        thread_id: the system's own, `Thread.native_id`.

    Returns:
        Whether there is no need to look again.
    """
    if sys.platform != "linux":
        return True
    try:
        if _computed_s(thread_id) < COMPUTES_AFTER_S:
            return False
        os.setpriority(os.PRIO_PROCESS, thread_id, TOOL_NICENESS)
    except OSError:  # the thread has ended, or a sandbox knows no priorities
        pass
    return True


def _computed_s(thread_id: int) -> float:
    fields = Path(f"/proc/self/task/{thread_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
