"""A client of TLS 1.3 that uploads, and updates its sending keys in bursts, which Python's ssl cannot ask OpenSSL for.

Prints how that ended: `answered: STATUS`, `ended: WHERE` if the server has ended the connection, or `stuck: WHERE` if it takes nothing more. Then it holds the
connection open until its standard input ends: a server that spins over what it does not take spins until then.
"""

import ctypes
import socket
import struct
import sys

HOST, PORT, CA = sys.argv[1], int(sys.argv[2]), sys.argv[3]
BURSTS, UPDATES, BETWEEN = 5, 8, 1 << 20
NOT_REQUESTED = 0
PATIENCE = 10
# SSL_get_error
WANT = (2, 3)

ssl = ctypes.CDLL("libssl.so.3")
for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
    getattr(ssl, name).restype = ctypes.c_void_p


class Over(Exception):
    """The upload is over; says how."""


def check(result, what):
    if result <= 0:
        raise SystemExit(f"{what} fails")


def goes_on(connection, result, where):
    if result <= 0:
        is_waiting = ssl.SSL_get_error(connection, result) in WANT
        raise Over(f"{'stuck' if is_waiting else 'ended'}: {where}")


def connect():
    context = ctypes.c_void_p(ssl.SSL_CTX_new(ctypes.c_void_p(ssl.TLS_client_method())))
    check(ssl.SSL_CTX_load_verify_locations(context, CA.encode(), None), "loading the CA")
    connection = ctypes.c_void_p(ssl.SSL_new(context))
    stream = socket.create_connection((HOST, PORT), timeout=20)
    stream.settimeout(None)
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        stream.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", PATIENCE, 0))
    ssl.SSL_set_fd(connection, stream.fileno())
    check(ssl.SSL_connect(connection), "the handshake")
    return stream, connection


def upload(connection):
    block = bytes(16384)
    total = BURSTS * BETWEEN
    head = f"PUT /updated HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nContent-Length: {total}\r\n\r\n".encode()
    check(ssl.SSL_write(connection, head, len(head)), "the request")
    for burst in range(BURSTS):
        for _ in range(BETWEEN // len(block)):
            sent = ssl.SSL_write(connection, block, len(block))
            goes_on(connection, sent, f"before burst {burst + 1} of {BURSTS}")
        for _ in range(UPDATES):
            check(ssl.SSL_key_update(connection, NOT_REQUESTED), "a key update")
            goes_on(connection, ssl.SSL_do_handshake(connection), f"in burst {burst + 1} of {BURSTS}")
    answer = ctypes.create_string_buffer(4096)
    got = ssl.SSL_read(connection, answer, len(answer))
    goes_on(connection, got, "before the answer")
    status = answer.raw[:got].split(b"\r\n")[0].decode(errors="replace")
    raise Over(f"answered: {status}")


def main():
    stream, connection = connect()
    try:
        upload(connection)
    except Over as over:
        print(over, flush=True)
    sys.stdin.read()
    stream.close()


main()
