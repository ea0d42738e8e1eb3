"""A server of somebody else's on kernel TLS, for one connection: gives it keys, and sends what must not be seen."""
import socket
import sys

from attack import kernel_tls, report, send_for

listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("listens", flush=True)
connection, _ = listener.accept()
connection.settimeout(5)
kernel_tls(connection)
sent, error = send_for(connection, float(sys.argv[2]))
report(sent=sent, error=error)
