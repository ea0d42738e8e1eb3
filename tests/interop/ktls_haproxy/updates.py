"""A client of TLS 1.3 that uploads, and updates its sending keys in bursts, which Python's ssl cannot ask OpenSSL for."""

import ctypes
import socket
import sys

HOST, PORT, CA = sys.argv[1], int(sys.argv[2]), sys.argv[3]
BURSTS, UPDATES, BETWEEN = 5, 8, 1 << 20
NOT_REQUESTED = 0

ssl = ctypes.CDLL("libssl.so.3")
for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
    getattr(ssl, name).restype = ctypes.c_void_p


def check(result, what):
    if result <= 0:
        raise SystemExit(f"{what} fails")


def connect():
    context = ctypes.c_void_p(ssl.SSL_CTX_new(ctypes.c_void_p(ssl.TLS_client_method())))
    check(ssl.SSL_CTX_load_verify_locations(context, CA.encode(), None), "loading the CA")
    connection = ctypes.c_void_p(ssl.SSL_new(context))
    stream = socket.create_connection((HOST, PORT), timeout=20)
    stream.settimeout(None)
    ssl.SSL_set_fd(connection, stream.fileno())
    check(ssl.SSL_connect(connection), "the handshake")
    return stream, connection


def main():
    stream, connection = connect()
    block = bytes(16384)
    total = BURSTS * BETWEEN
    head = f"PUT /updated HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nContent-Length: {total}\r\n\r\n".encode()
    check(ssl.SSL_write(connection, head, len(head)), "the request")
    for burst in range(BURSTS):
        for _ in range(BETWEEN // len(block)):
            if ssl.SSL_write(connection, block, len(block)) <= 0:
                raise SystemExit(f"the server has ended the connection in burst {burst} of {BURSTS}")
        for _ in range(UPDATES):
            check(ssl.SSL_key_update(connection, NOT_REQUESTED), "a key update")
            if ssl.SSL_do_handshake(connection) <= 0:
                raise SystemExit(f"the server has ended the connection behind burst {burst} of {BURSTS}")
    answer = ctypes.create_string_buffer(4096)
    got = ssl.SSL_read(connection, answer, len(answer))
    status = answer.raw[: max(got, 0)].split(b"\r\n")[0].decode(errors="replace")
    print(f"answered: {status}" if got > 0 else "the server has ended the connection without an answer")
    stream.close()


main()
