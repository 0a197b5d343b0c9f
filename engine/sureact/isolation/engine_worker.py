"""The process of an engine: `python -m sureact.isolation.engine_worker FD PARENT`, started by `EngineProcess`."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection

from sureact.isolation.messages import Answer, pack_failure

_CHECK_S = 1.0


def main() -> None:
    """Load the engine that the first message describes, tell what it is, and serve until told to end."""
    parent_id = int(sys.argv[2])
    # A terminal may stop what writes to it from behind the program that has it; a warning must not.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    threading.Thread(target=end_with, args=(parent_id,), name="sureact-lifeline", daemon=True).start()
    connection = Connection(int(sys.argv[1]))
    options = pickle.loads(connection.recv_bytes())  # from the program that started this process

    def send(piece: object) -> None:
        connection.send_bytes(pickle.dumps(piece, pickle.HIGHEST_PROTOCOL))

    try:
        from sureact.engine import Engine
        from sureact.isolation.engine_service import EngineService

        engine = Engine(**options, progress=send)
    except BaseException as error:  # whatever it is, the program waits for it
        send(pack_failure(error))
    else:
        send(Answer((engine.config, engine.folder, engine.vocabulary.num_logits)))
        EngineService(engine, connection).serve()
    connection.close()
    sys.stderr.flush()
    # What still compiles for nobody must not keep the process.
    os._exit(0)


def end_with(parent_id: int) -> None:
    """Wait until standard input closes or another process becomes the parent; then end this process at once.

    The program's end does both, unless a copy that it forked keeps the pipe open.
    """
    while os.getppid() == parent_id:
        if select.select([0], [], [], _CHECK_S)[0] and not os.read(0, 1):
            break
    os._exit(0)


if __name__ == "__main__":
    main()
