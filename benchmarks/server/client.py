"""A client in a process of its own, at the lowest priority: asks what its standard input says, and tells the times.

It imports nothing but the standard library, and as little of that as it can, so that many of them weigh little.
"""

import http.client
import json
import os
import sys
import time
from typing import Any


def ask(connection: http.client.HTTPConnection, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request; return when it was sent, when the first text came, when the last byte came, and the tokens."""
    data = json.dumps(body).encode()
    sent = time.monotonic()
    connection.request("POST", "/v1/completions", data, {"content-type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {answer.read(500)!r}")
    first, num_tokens = 0.0, 0
    if body.get("stream"):
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if not first and any(choice["text"] for choice in event["choices"]):
                first = time.monotonic()
            num_tokens = (event.get("usage") or {}).get("completion_tokens", num_tokens)
    else:
        num_tokens = json.loads(answer.read())["usage"]["completion_tokens"]
    return {"sent": sent, "first": first, "end": time.monotonic(), "tokens": num_tokens}


def main() -> None:
    """Answer each line of the input, a body, with a line."""
    os.nice(19)
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=600)
    connection.connect()
    print("connected", flush=True)
    for line in sys.stdin:
        body = json.loads(line)
        try:
            times = ask(connection, body)
        except ConnectionError:  # the server ends connections that idle
            connection.close()
            times = ask(connection, body)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
