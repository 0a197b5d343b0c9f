"""A worker that answers each message with itself and its process id; `end N` ends it, `sleep` silences it."""

import os
import sys
import threading
import time
from multiprocessing.connection import Connection

from sureact.distributed.worker_processes import end_with_standard_input

threading.Thread(target=end_with_standard_input, daemon=True).start()
connection = Connection(int(sys.argv[1]))
while True:
    message = connection.recv_bytes()
    if message.startswith(b"end"):
        os._exit(int(message.split()[1]))
    if message == b"sleep":
        time.sleep(60)
    connection.send_bytes(b"%s %d" % (message, os.getpid()))
