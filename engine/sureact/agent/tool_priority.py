"""How tools step back where they and the engine want the same processors.

A niceness counts among the threads of one session; between sessions Linux shares the processors evenly, however nice
their threads are. So the process of an engine, and those of tools, stay in the session of their program.
"""

import os
import sys
from contextlib import suppress

TOOL_NICENESS = 19
"""Of threads that run tools: they get what others leave."""


def lower_thread_priority() -> None:
    """Let the calling thread, and what it starts, step back for others: for good, since going back takes a privilege.

    Only Linux has a niceness for single threads; elsewhere nothing changes.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox without priorities
            os.setpriority(os.PRIO_PROCESS, 0, TOOL_NICENESS)
