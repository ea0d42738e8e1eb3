"""A program of somebody else's on kernel TLS: connects, gives its socket keys, and sends what must not be seen."""
import argparse
import time

from attack import connect, kernel_tls, report, say_and_wait, send_for

parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("port", type=int)
parser.add_argument("seconds", type=float)
parser.add_argument("--from-port", type=int, default=0)
parser.add_argument("--size", type=int, default=4096)
parser.add_argument("--pause", type=float, default=0.005)
parser.add_argument("--waits", action="store_true", help="says its address when it has sent a little, and goes on when it is told to")
parser.add_argument("--waits-before", action="store_true", help="the same before it gives keys")
options = parser.parse_args()

began = time.monotonic()
if options.from_port:
    import socket

    connection = socket.socket(socket.AF_INET6 if ":" in options.address else socket.AF_INET)
    connection.settimeout(5)
    connection.bind(("", options.from_port))
    connection.connect((options.address, options.port))
else:
    connection = connect(options.address, options.port)
local = connection.getsockname()
if options.waits_before:
    say_and_wait(f"{local[0]} {local[1]}")
kernel_tls(connection)
before, error = send_for(connection, 0.3, options.pause, options.size)
if options.waits and error is None:
    say_and_wait(f"{local[0]} {local[1]}")
sent, error = send_for(connection, options.seconds, options.pause, options.size) if error is None else (0, error)
report(before=before, sent=sent, error=error, seconds=round(time.monotonic() - began, 2))
