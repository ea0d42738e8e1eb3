"""A server of files by Python's ssl with kernel TLS: GET and PUT.

server.py MODE ADDRESS PORT CERTIFICATE KEY DIRECTORY

MODE: threads (one for each connection), fork (a process for each connection), prefork (processes that share the listening socket).
"""

import os
import signal
import socket
import ssl
import sys
import threading

PIECE = 1 << 20


def head_of(stream):
    """The request's first line, and its headers."""
    line = stream.readline().decode().split()
    headers = {}
    while (header := stream.readline().strip()) != b"":
        name, value = header.decode().split(":", 1)
        headers[name.lower()] = value.strip()
    return line, headers


def serve(connection, context, directory):
    with context.wrap_socket(connection, server_side=True) as tls, tls.makefile("rb") as stream:
        (method, path, _), headers = head_of(stream)
        name = os.path.join(directory, os.path.basename(path))
        if headers.get("expect") == "100-continue":
            tls.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if method == "PUT":
            left = int(headers["content-length"])
            with open(name, "wb") as file:
                while left > 0 and (piece := stream.read(min(PIECE, left))):
                    file.write(piece)
                    left -= len(piece)
            tls.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            size = os.stat(name).st_size
            tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
            with open(name, "rb") as file:
                while piece := file.read(PIECE):
                    tls.sendall(piece)


def serve_all(listener, context, directory, handle):
    while True:
        connection, _ = listener.accept()
        handle(connection, context, directory)


def serve_or_give_up(*arguments):
    try:
        serve(*arguments)
    except OSError:
        pass  # A client that went during its handshake.


def in_a_thread(*arguments):
    threading.Thread(target=serve, args=arguments, daemon=True).start()


def in_a_process(connection, *arguments):
    if os.fork() == 0:
        try:
            serve(connection, *arguments)
        finally:
            os._exit(0)
    connection.close()


def main(mode, address, port, certificate, key, directory):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.options |= ssl.OP_ENABLE_KTLS
    listener = socket.create_server((address, int(port)))
    if mode == "fork":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        serve_all(listener, context, directory, in_a_process)
    if mode == "prefork":
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                serve_all(listener, context, directory, serve_or_give_up)
            children.append(child)
        try:
            signal.pause()
        finally:
            for child in children:
                os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)
    serve_all(listener, context, directory, in_a_thread)


main(*sys.argv[1:])
