"""A worker that could not load its part."""

import json
import sys
from multiprocessing.connection import Connection

with Connection(int(sys.argv[1])) as connection:
    connection.recv_bytes()
    connection.send_bytes(json.dumps({"error": "no memory"}).encode())
